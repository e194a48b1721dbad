package dataset

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/model"
)

func TestOffsetColumn(t *testing.T) {
	for text, want := range map[string]struct {
		column string
		log    bool
	}{"hours": {"hours", false}, "log(hours)": {"hours", true}, "log()": {"log()", false}, "log(a": {"log(a", false}, "": {"", false}, "log(log(a))": {"log(a)", true}} {
		if column, log := OffsetColumn(text); column != want.column || log != want.log {
			t.Errorf("%q is %q, %v", text, column, log)
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
		logs := LogOffsets(src)
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
