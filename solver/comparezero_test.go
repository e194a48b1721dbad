package solver

import (
	"math"
	"testing"

	"github.com/gatedlearning/moe/sdk"
)

// TestCompareNothing: moments that are all 0, as of a g that is 0 wherever Z goes, agree with themselves and with nothing else,
// and the difference is a number.
func TestCompareNothing(t *testing.T) {
	var none, other sdk.Moments
	other.Value[1][0] = 2
	if reason, check := CompareMoments(none, none); reason != "" || !check.Holds || check.Value != 0 {
		t.Errorf("%q, %+v", reason, check)
	}
	if reason, check := CompareMoments(other, none); reason == "" || check.Holds || math.IsInf(check.Value, 0) || math.IsNaN(check.Value) {
		t.Errorf("%q, %+v", reason, check)
	}
	if reason, check := CompareSystem(none.System(0), none); reason != "" || !check.Holds || check.Value != 0 {
		t.Errorf("%q, %+v", reason, check)
	}
}
