package sdk

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
)

// pair is a family with a bounded and an unbounded parameter. Its members keep
// the parameters that New was given.
var pair = Family{
	Name: "pair",
	Params: []Param{
		{Name: "slope", Default: 0.5, Min: 0, Max: 1},
		{Name: "shift", Default: -2},
	},
	New: func(p Params) (Activation, error) { return Func{Name: "pair", Params: p}, nil },
}

func TestFamilyParams(t *testing.T) {
	for _, tc := range []struct {
		given, want Params
		says        string // of the error, if there is one
	}{
		{nil, Params{"slope": 0.5, "shift": -2}, ""},
		{Params{"slope": 0}, Params{"slope": 0, "shift": -2}, ""},
		{Params{"slope": 1, "shift": 1e300}, Params{"slope": 1, "shift": 1e300}, ""},
		{Params{"slope": math.Nextafter(1, 2)}, nil, "outside [0, 1]"},
		{Params{"slope": -5e-324}, nil, "outside [0, 1]"},
		{Params{"shift": math.Inf(-1)}, nil, "not finite"},
		{Params{"shift": math.NaN()}, nil, "not finite"},
		{Params{"Slope": 0.1}, nil, `no parameter "Slope"; it takes slope, shift`},
	} {
		before := maps.Clone(tc.given)
		act, err := pair.Activation(tc.given)
		switch {
		case tc.says != "":
			if err == nil || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), "pair") {
				t.Errorf("%v: error %v, want one with %q that names the family", tc.given, err, tc.says)
			}
		case err != nil:
			t.Errorf("%v: %v", tc.given, err)
		case !maps.Equal(act.Info().Params, tc.want):
			t.Errorf("%v: parameters %v, want %v", tc.given, act.Info().Params, tc.want)
		}
		if fmt.Sprint(before) != fmt.Sprint(tc.given) { // NaN among them
			t.Errorf("the caller's %v became %v", before, tc.given)
		}
	}
}

func TestSingle(t *testing.T) {
	f := Single(Func{Name: "one", Version: "7"})
	if f.Name != "one" || f.Version != "7" || len(f.Params) != 0 {
		t.Errorf("family %+v", f)
	}
	if _, err := f.Activation(Params{"slope": 1}); err == nil || !strings.Contains(err.Error(), "it takes none") {
		t.Errorf("error %v", err)
	}
}

func TestFunc(t *testing.T) {
	f := Func{Name: "f", G: math.Sqrt, DG: math.Exp}
	z := []float64{0, 4, 9}
	dst := make([]float64, 3)
	if err := f.Eval(t.Context(), dst, z); err != nil || !slices.Equal(dst, []float64{0, 2, 3}) {
		t.Errorf("Eval: %v, %v", dst, err)
	}
	if err := f.Deriv(t.Context(), z[:1], z[:1]); err != nil || z[0] != 1 {
		t.Errorf("Deriv in place: %v, %v", z[0], err)
	}
	if err := f.Eval(t.Context(), dst[:2], z); err == nil || !strings.Contains(err.Error(), `"f": 2 places for 3 values`) {
		t.Errorf("unequal lengths: %v", err)
	}
	if err := (Func{Name: "f"}).Deriv(t.Context(), dst, z); err == nil || !strings.Contains(err.Error(), "DG is not set") {
		t.Errorf("no function: %v", err)
	}
}
