package benchmark

import (
	"math"
	"testing"
	"time"

	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/sdk"
)

func act(t *testing.T) sdk.Activation {
	t.Helper()
	a, err := identity.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestRun: every stage has a rate, and stands among the committed figures, which have no
// other.
func TestRun(t *testing.T) {
	out, err := Run(t.Context(), act(t), Settings{N: 2000, D: 6, K: 2, Threads: 1, Least: time.Millisecond}, func(string, int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	committed, err := Committed()
	if err != nil {
		t.Fatal(err)
	}
	if c := committed; c.N != Default.N || c.D != Default.D || c.K != Default.K || c.Threads != 1 || len(c.Stages) != len(out.Stages) {
		t.Errorf("the committed figures are of %d rows, %d features, %d experts, %d threads and %d stages", c.N, c.D, c.K, c.Threads, len(c.Stages))
	}
	positive := func(v float64) bool { return v > 0 && !math.IsInf(v, 0) }
	if !positive(out.BytesPerSecond) || !positive(out.MultiplyAdds) {
		t.Errorf("limits %v bytes and %v multiply-adds a second", out.BytesPerSecond, out.MultiplyAdds)
	}
	for _, s := range out.Stages {
		if !positive(s.RowsPerSecond) || !positive(s.Share) || !positive(s.Committed) {
			t.Errorf("%+v", s)
		}
	}
}

// TestGrow: exponents are those of power laws through the larger half, and what is
// measured along an axis is of its sizes.
func TestGrow(t *testing.T) {
	var fits []Fit
	for _, n := range []int{1, 10, 100, 1000} {
		x := float64(n)
		fits = append(fits, Fit{Size: Size{N: n, D: 2, K: 3}, CPUSeconds: 2 * math.Pow(x, 1.25), Bytes: 5 * math.Sqrt(x)})
	}
	fits[0].CPUSeconds = 100 // the start-up of the smallest
	if e := exponent("n", fits); math.Abs(e.Time-1.25) > 1e-12 || math.Abs(e.Memory-0.5) > 1e-12 {
		t.Errorf("exponents %+v", e)
	}
	g, err := Grow(t.Context(), act(t), map[string][]Size{"n": {{1000, 4, 2}, {2000, 4, 2}}, "d": {{1000, 4, 2}, {1000, 5, 2}}, "k": {{1000, 6, 2}, {1000, 6, 3}}}, 1, func(Fit) {})
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Fits) != 6 || len(g.Exponents) != 3 {
		t.Fatalf("%d fits, %d exponents", len(g.Fits), len(g.Exponents))
	}
	for i, f := range g.Fits {
		if f.Axis != AxisNames()[i/2] || !(f.CPUSeconds >= 0) || !(f.Seconds > 0) || !(f.Bytes > 0) || f.Starts == 0 {
			t.Errorf("%+v", f)
		}
	}
}
