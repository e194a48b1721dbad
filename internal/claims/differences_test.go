package claims

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/sdk"
)

// TestQuantiles: the distribution function of N(0, 3²) at the points.
func TestQuantiles(t *testing.T) {
	z := quantiles(derivativePoints)
	for i, v := range z {
		want := (float64(i) + 0.5) / derivativePoints
		if got := math.Erfc(-v/(3*math.Sqrt2)) / 2; math.Abs(got-want) > 1e-12 {
			t.Errorf("point %d, %v, is the quantile of %v, want %v", i, v, got, want)
		}
	}
}

// TestApart: neither at a kink, nor as near to one as the gap, nor as far out as the reach.
func TestApart(t *testing.T) {
	got := apart([]float64{-4, -1, 0.4, 0.5, 1, 1.5, 1.6, 3.9, 4, 5}, []float64{1, 7}, 0.5, 4)
	if want := []float64{-1, 0.4, 1.6, 3.9}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// ramp are the values of c + slope·|x| at z ± h, z ± h/2 and z where z = 0.
func ramp(c, slope, h float64) [5][]float64 {
	far, near := []float64{c + slope*h}, []float64{c + slope*h/2}
	return [5][]float64{far, far, near, near, {c}}
}

// TestDiffer: the three parts of the tolerance, and the slopes on both sides of a kink, just within
// and just beyond what is allowed.
func TestDiffer(t *testing.T) {
	const h = 0x1p-10
	flat := func(c float64) [5][]float64 { return ramp(c, 0, h) }
	ulp := 16 * 0x1p-53 / h
	line := func(by float64) [5][]float64 { // slope 2, but for the half step
		return [5][]float64{{2 * h}, {-2 * h}, {h + by}, {-h - by}, {0}}
	}
	for name, c := range map[string]struct {
		g       [5][]float64
		z, d    float64
		scale   float64
		sided   bool
		differs bool
	}{
		"nothing of nothing":               {flat(0), 0, 0, 0, false, false},
		"a millionth of the scale":         {flat(0), 0, 0.99e-5, 10, false, false},
		"more":                             {flat(0), 0, 1.01e-5, 10, false, true},
		"rounding of g":                    {flat(1000), 0, 0.99 * 2000 * ulp, 0, false, false},
		"more than that":                   {flat(1000), 0, 1.01 * 2000 * ulp, 0, false, true},
		"rounding of z":                    {flat(0), 0x1p40, 1, 0, false, false}, // h·2⁵³/16 = 2³⁹
		"more than rounding of z":          {flat(0), 0x1p38, 1, 0, false, true},
		"ten times what extrapolation did": {line(h / 8), 0, 2.25 + 1.0/12 + 0.83, 0, false, false}, // half is 2.25, want 2.25 + 1/12·1
		"more than ten times":              {line(h / 8), 0, 2.25 + 1.0/12 + 0.84, 0, false, true},
		"between the slopes":               {ramp(0, 1, h), 0, 0.5, 1, true, false},
		"the slope to the left":            {ramp(0, 1, h), 0, -1, 1, true, false},
		"the slope to the right":           {ramp(0, 1, h), 0, 1, 1, true, false},
		"between, but not asked for":       {ramp(0, 1, h), 0, 0.5, 1, false, true},
		"steeper to the left":              {ramp(0, 1, h), 0, -1.1, 1, true, true},
		"steeper to the right":             {ramp(0, 1, h), 0, 1.1, 1, true, true},
		"a millionth steeper":              {ramp(0, 1, h), 0, 1 + 0.9e-5, 10, true, false},
		"more than a millionth":            {ramp(0, 1, h), 0, -1 - 1.1e-5, 10, true, true},
		"steeper by rounding":              {ramp(1<<20, 1, h), 0, -1 - 0.9*(1e-6+ulp*0x1p21), 1, true, false},
		"steeper by more than rounding":    {ramp(1<<20, 1, h), 0, 1 + 1.1*(1e-6+ulp*0x1p21), 1, true, true},
	} {
		wrong := differ(c.g, []float64{c.z}, []float64{c.d}, h, c.scale, c.sided)
		if (len(wrong) == 1) != c.differs {
			t.Errorf("%s: %+v", name, wrong)
		}
	}
}

// TestRowsCost: right values take four evaluations of g a row.
func TestRowsCost(t *testing.T) {
	n := 0
	c := Of(sdk.Func{Name: "square", G: func(z float64) float64 { n++; return z * z }, DG: func(z float64) float64 { return 2 * z }})
	if err := c.Derivative(t.Context()); err != nil {
		t.Fatal(err)
	}
	n = 0
	if err := c.Rows(t.Context(), []float64{0.1, 0.2, 0.3}, []float64{0.2, 0.4, 0.6}); err != nil || n != 12 {
		t.Errorf("%d evaluations, %v", n, err)
	}
}

// TestNodes: 65 nodes a quarter apart, and five beyond on each side.
func TestNodes(t *testing.T) {
	z := Nodes()
	if len(z) != 75 || z[0] != -1000 || z[4] != -12 || z[5] != -8 || z[69] != 8 || z[70] != 12 || z[74] != 1000 {
		t.Fatalf("%v", z)
	}
	for i := 6; i < 70; i++ {
		if z[i]-z[i-1] != 0.25 {
			t.Errorf("%v follows %v", z[i], z[i-1])
		}
	}
	pole := sdk.Func{Name: "pole", G: func(z float64) float64 { return 1 / (8 - z) }}
	if _, err := ValuesOf(t.Context(), pole); err == nil {
		t.Error("infinity at 8 is no error")
	}
	v := &Values{Z: z[5:70], G: make([]float64, 65)}
	if err := v.Validate(); err != nil {
		t.Errorf("the nodes within reach alone: %v", err)
	}
	v.Z = append([]float64{-8}, z[5:69]...)
	if err := v.Validate(); err == nil || err.Error() != "node -8 follows -8, want ascending nodes" {
		t.Errorf("%v", err)
	}
}

// overflow says that g is infinite at a place.
type overflow float64

func (o overflow) Eval(context.Context, []float64, []float64) error {
	return &numeric.NotFiniteError{Z: float64(o), Value: math.Inf(1)}
}

// TestDeviation: the scale of comparisons against closed forms of sd g(Z), to the error of the
// trapezoids at a kink.
func TestDeviation(t *testing.T) {
	for name, c := range map[string]struct {
		g    func(z float64) float64
		want float64
	}{
		"z":    {func(z float64) float64 { return z }, 1},
		"2":    {func(float64) float64 { return 2 }, 0},
		"z²":   {func(z float64) float64 { return z * z }, math.Sqrt2},
		"ReLU": {func(z float64) float64 { return max(z, 0) }, math.Sqrt(0.5 - 1/(2*math.Pi))},
		"1(z>1)": {func(z float64) float64 { // the nodes at 1 and 1¼ make it a ramp between
			if z > 1.125 {
				return 1
			}
			return 0
		}, math.Sqrt(0.1303 * 0.8697)}, // 1 − Φ(1.125)
	} {
		v, err := ValuesOf(t.Context(), sdk.Func{Name: name, G: c.g})
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []float64{-1e9, 3, 1e9} { // where a plugin says that it overflows, it may be anywhere
			differ := (*DifferenceError)(nil)
			if err := v.Compare(t.Context(), overflow(at)); !errors.As(err, &differ) || differ.Z != at || math.Abs(differ.Tolerance/1e-9-c.want) > 0.01*c.want+1e-12 {
				t.Errorf("%s: %+v, want a tolerance of 1e-9·%v", name, err, c.want)
			}
		}
	}
	v := &Values{Z: []float64{9, 10}, G: []float64{1, 2}}
	if sd := v.deviation(); sd != 0 {
		t.Errorf("without a node within reach sd g is %v", sd)
	}
}

// TestAgreement: a billionth of the value, or of sd g where that is more, is rounding.
func TestAgreement(t *testing.T) {
	scaled := func(by float64) sdk.Func {
		return sdk.Func{Name: "f", G: func(z float64) float64 { return by * z }}
	}
	v, err := ValuesOf(t.Context(), scaled(1))
	if err != nil {
		t.Fatal(err)
	}
	for by, agrees := range map[float64]bool{1 + 0.9e-9: true, 1 - 0.9e-9: true, 1 + 1.1e-9: false, 1 - 1.1e-9: false} {
		other, err := ValuesOf(t.Context(), scaled(by))
		if err != nil {
			t.Fatal(err)
		}
		if live, kept := v.Compare(t.Context(), scaled(by)), v.CompareValues(other); (live == nil) != agrees || (kept == nil) != agrees {
			t.Errorf("scaled by %v: %v, %v", by, live, kept)
		}
	}
	zero, err := ValuesOf(t.Context(), scaled(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(zero.Compare(t.Context(), scaled(0)), zero.CompareValues(zero)); err != nil {
		t.Errorf("0 is not itself: %v", err)
	}
}
