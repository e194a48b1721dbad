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

// TestCompare: times are of a thread, the machine's is their median, and slow is what takes more than SlowFactor of it;
// a stage that the committed figures lack and a table of another size are not compared.
func TestCompare(t *testing.T) {
	committed := &Stages{N: 100, D: 2, K: 3, Threads: 1}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		committed.Stages = append(committed.Stages, Stage{Name: name, RowsPerSecond: 8e6})
	}
	for _, c := range []struct {
		n, threads int
		rates      []float64 // of a, b and so on, and of f, which has no committed rate
		machine    float64
		times      []float64
		slow       string
	}{
		{100, 1, []float64{8e6, 8e6, 8e6, 8e6, 8e6, 8e6}, 1, []float64{1, 1, 1, 1, 1, 0}, ""},
		{100, 1, []float64{2e6, 2e6, 2e6, 2e6, 2e6, 1}, 4, []float64{4, 4, 4, 4, 4, 0}, ""},         // a slow machine
		{100, 1, []float64{4e6, 4e6, 1e6, 4e6, 16e6, 1}, 2, []float64{2, 2, 8, 2, 0.5, 0}, "c"},     // a slow stage
		{100, 1, []float64{8e6, 8e6, 4e6, 8e6, 3.2e6, 1}, 1, []float64{1, 1, 2, 1, 2.5, 0}, "e"},    // twice is not more than twice
		{100, 2, []float64{16e6, 16e6, 4e6, 16e6, 16e6, 1}, 1, []float64{1, 1, 4, 1, 1, 0}, "c"},    // of two threads
		{100, 1, []float64{1e6, 2e6, 16e6, 16e6}, (4 + 0.5) / 2, []float64{8, 4, 0.5, 0.5}, "a"},    // an even number
		{50, 1, []float64{8e6, 8e6, 1e6, 8e6, 8e6, 1}, 0, []float64{0, 0, 0, 0, 0, 0}, ""},          // another table
		{100, 1, []float64{1e6, 1e6, 1e6, 32e6, 32e6, 1}, 8, []float64{8, 8, 8, 0.25, 0.25, 0}, ""}, // fast stages make none slow
	} {
		s := &Stages{N: c.n, D: 2, K: 3, Threads: c.threads}
		for i, rate := range c.rates {
			s.Stages = append(s.Stages, Stage{Name: string(rune('a' + i)), RowsPerSecond: rate})
		}
		s.compare(committed)
		slow := ""
		for _, st := range s.Slow() {
			slow += st.Name
		}
		if s.Times != c.machine || slow != c.slow {
			t.Errorf("%v: the machine takes %v, slow are %q; want %v and %q", c.rates, s.Times, slow, c.machine, c.slow)
		}
		for i, st := range s.Stages {
			if st.Times != c.times[i] || (st.Committed > 0) != (st.Name != "f") {
				t.Errorf("%v: %+v, want %v times", c.rates, st, c.times[i])
			}
		}
	}
}
