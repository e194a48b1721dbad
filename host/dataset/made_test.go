package dataset

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/model"
)

func TestRaw(t *testing.T) {
	for text, want := range map[string][2]string{ // of an offset, of trials
		"hours": {"hours", "hours"}, "log(hours)": {"hours", "log(hours)"}, "log()": {"log()", "log()"}, "log(a": {"log(a", "log(a"}, "": {"", ""},
		"log(log(a))": {"log(a)", "log(log(a))"}, "cbind(yes, no)": {"cbind(yes, no)", "no"}, "cbind(yes, )": {"cbind(yes, )", "cbind(yes, )"},
		"cbind(yes)": {"cbind(yes)", "cbind(yes)"}, Cbind("a b", "c(d)"): {"cbind(a b, c(d))", "c(d)"},
	} {
		if got := (Roles{model.Offsets: text, model.Trials: text}).Raw(); got[model.Offsets] != want[0] || got[model.Trials] != want[1] {
			t.Errorf("%q is %q", text, got)
		}
	}
}

// TestCbind: trials are the target and the failures, and without a target there are none.
func TestCbind(t *testing.T) {
	roles := Roles{model.Trials: "cbind(yes, no)"}
	for table, want := range map[string]struct {
		schema string
		trials []float64
	}{
		"x,yes,no\n1,2,3\n4,5,0\n": {"cbind(yes, no)", []float64{5, 5}}, "x,no\n1,3\n": {"", nil}, "x,yes\n1,3\n": {"", nil}, "x\n1\n": {"", nil},
	} {
		src, err := NewReader("t.csv", strings.NewReader(table), Selection{Features: []string{"x"}, Target: "yes", Decimal: '.', Optional: true, Roles: roles.Raw()})
		if err != nil {
			t.Fatal(err)
		}
		src = Made(src, roles)
		if got := src.Schema(); got.Roles[model.Trials] != want.schema || (got.Target == "") != (want.trials == nil) {
			t.Errorf("%q: schema %+v", table, got)
		}
		if err := src.Read(t.Context(), func(b *model.Block) error {
			if !slices.Equal(b.Role[model.Trials], want.trials) {
				t.Errorf("%q: trials %v, want %v", table, b.Role[model.Trials], want.trials)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}

// TestLogOffsets: the offsets are the logarithms of the column, whose name says so, and one that has none is refused with its row.
func TestLogOffsets(t *testing.T) {
	read := func(table string) (sum float64, schema Schema, err error) {
		src, err := NewReader("t.csv", strings.NewReader(table), Selection{Target: "y", Decimal: '.', Roles: Roles{model.Offsets: "hours"}})
		if err != nil {
			t.Fatal(err)
		}
		logs := Made(src, Roles{model.Offsets: "log(hours)"})
		err = logs.Read(t.Context(), func(b *model.Block) error {
			for _, v := range b.Role[model.Offsets] {
				sum += v
			}
			return nil
		})
		return sum, logs.Schema(), err
	}
	sum, schema, err := read("x,y,hours\n1,2,3\n4,5,6\n")
	if err != nil || math.Abs(sum-math.Log(18)) > 1e-15 || schema.Roles[model.Offsets] != "log(hours)" {
		t.Errorf("the logarithms add up to %v of %q, error %v", sum, schema.Roles[model.Offsets], err)
	}
	_, _, err = read("x,y,hours\n1,2,3\n4,5,0\n")
	if bad := (*Error)(nil); !errors.As(err, &bad) || !strings.Contains(err.Error(), "row 2: the offset is log(hours), and hours is 0") {
		t.Errorf("error %v", err)
	}
}
