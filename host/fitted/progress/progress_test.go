package progress_test

import (
	"math"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/fitted/progress"
)

// faulty spoils a sound value, one way at a time, and says what is to be said of it; "" for nothing.
type faulty[T any] struct {
	spoil func(v *T)
	want  string
}

func try[T any](t *testing.T, sound func() *T, check func(v *T) error, cases []faulty[T]) {
	t.Helper()
	if err := check(nil); err != nil {
		t.Error("none:", err)
	}
	for i, c := range append(cases, faulty[T]{spoil: func(*T) {}}) {
		v := sound()
		c.spoil(v)
		if err := check(v); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("case %d: %v, want %q", i, err, c.want)
		}
	}
}

// squares are of two experts and three features.
func squares() *progress.Squares {
	return &progress.Squares{Rows: 5, Z: make([]float64, 2), Logits: make([]float64, 2), Features: make([]float64, 3)}
}

func TestPasses(t *testing.T) {
	try(t, func() *progress.Passes {
		return &progress.Passes{Mean: make([]float64, 3), SD: []float64{1, 2, 3}, Target: 1, Weight: 1, Squares: squares()}
	}, func(p *progress.Passes) error { return p.Validate(2, 3) }, []faulty[progress.Passes]{
		{func(p *progress.Passes) { p.Mean = make([]float64, 2) }, "fit.passes.mean has 2 values, want 3"},
		{func(p *progress.Passes) { p.SD[1] = 0 }, "a unit of 0, want one above 0"},
		{func(p *progress.Passes) { p.SD = nil }, "one of mean and sd"},
		{func(p *progress.Passes) { p.Mean, p.SD = nil, nil }, ""},
		{func(p *progress.Passes) { p.Weight = math.Inf(1) }, "fit.passes.weight[0] = +Inf is not finite"},
		{func(p *progress.Passes) { p.Weight = -1 }, "a unit of -1"},
		{func(p *progress.Passes) { p.Target = math.NaN() }, "fit.passes.target[0] = NaN is not finite"},
		{func(p *progress.Passes) { p.Squares = nil }, ""},
		{func(p *progress.Passes) { p.Squares.Rows = 0 }, "fit.passes.squares.rows = 0, want more than 0"},
		{func(p *progress.Passes) { p.Squares.Z = nil }, "fit.passes.squares.z has 0 values, want 2"},
		{func(p *progress.Passes) { p.Squares.Features[2] = math.NaN() }, "fit.passes.squares.features[2] = NaN"},
	})
}

func TestClimb(t *testing.T) {
	sound := func() *progress.Climb {
		return &progress.Climb{At: []float64{1, 2}, Trial: []float64{3, 4}, Proportions: []float64{.5, .5},
			Squares: squares(), Curvature: make([]byte, 8*(2+3))}
	}
	check := func(c *progress.Climb) error {
		if c == nil {
			return nil
		}
		return c.Validate("climb", 2, 3)
	}
	try(t, sound, check, []faulty[progress.Climb]{
		{func(c *progress.Climb) { c.Trial = nil }, ""},
		{func(c *progress.Climb) { c.At = nil }, "points of 0 and 2 numbers"},
		{func(c *progress.Climb) { c.Trial = c.Trial[:1] }, "points of 2 and 1 numbers"},
		{func(c *progress.Climb) { c.At[1] = math.NaN() }, "climb.at[1] = NaN is not finite"},
		{func(c *progress.Climb) { c.Proportions = nil }, "nothing of the point before"},
		{func(c *progress.Climb) { c.Proportions = c.Proportions[:1] }, "climb.proportions has 1 values, want 2"},
		{func(c *progress.Climb) { c.Ended = progress.AtKink }, ""},
		{func(c *progress.Climb) { c.Ended = "tired" }, `climb.ended is "tired"`},
		{func(c *progress.Climb) { c.Curvature = c.Curvature[:8] }, "climb.curvature has 8 bytes, want 40"},
		{func(c *progress.Climb) { c.Curvature[7], c.Curvature[6] = 0x7f, 0xf0 }, "climb.curvature[0] = +Inf is not finite"},
		{func(c *progress.Climb) { c.Damping = -1 }, "a number below 0"},
		{func(c *progress.Climb) { c.Refused = 65 }, "65 refused steps, more than 64"},
		{func(c *progress.Climb) { c.Squares.Logits = nil }, "climb.squares.logits has 0 values, want 2"},
	})
	if c := sound(); &c.Point()[0] != &c.Trial[0] {
		t.Error("the next pass does not sum at the trial")
	}
	if c := (&progress.Climb{At: []float64{1}}); &c.Point()[0] != &c.At[0] {
		t.Error("without a trial the next pass does not sum at the point itself")
	}
}

func TestPrints(t *testing.T) {
	try(t, func() *progress.Prints { return &progress.Prints{Rows: 300, Blocks: make([]byte, 16)} },
		func(p *progress.Prints) error { return p.Validate() }, []faulty[progress.Prints]{
			{func(p *progress.Prints) { p.Rows = 0 }, "of 0 rows"},
			{func(p *progress.Prints) { p.Level = 63 }, "level 63"},
			{func(p *progress.Prints) { p.Blocks = p.Blocks[:9] }, "9 bytes"},
		})
}
