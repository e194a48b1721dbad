package spotcheck_test

import (
	"math"
	"slices"
	"testing"

	"github.com/gatedlearning/moe/internal/spotcheck"
)

// TestShareFound: where a share q of every batch's values is wrong, one of them is
// drawn with probability 1 − (1 − q)^m, the m of the type's comment: SECURITY.md has
// these numbers. 400 sessions a cell with numbers that are new in every run, tolerance
// six standard errors of a proportion and three sessions: a false alarm in a million runs.
func TestShareFound(t *testing.T) {
	const sessions, n = 400, 1000
	for _, c := range []struct {
		batches int
		wrong   int // of the n values of a batch
	}{{1, 10}, {1, 50}, {10, 2}, {64, 1}, {1000, 1}, {1000, 2}} {
		found := 0
		for range sessions {
			s := &spotcheck.Sample{First: 64, Later: 2}
			hit := false
			look := func(rows []spotcheck.Row) {
				hit = hit || slices.ContainsFunc(rows, func(r spotcheck.Row) bool { return r.At >= 500 && r.At < 500+c.wrong })
			}
			for range c.batches {
				at, batch := s.Draw(n)
				rows := make([]spotcheck.Row, len(at))
				for i, j := range at {
					rows[i].At = j
				}
				look(s.Keep(batch, rows))
			}
			look(s.Rest())
			if hit {
				found++
			}
		}
		m := 64*min(c.batches, 64) + 2*max(c.batches-64, 0)
		want := 1 - math.Pow(1-float64(c.wrong)/n, float64(m))
		got := float64(found) / sessions
		if tol := 6*math.Sqrt(want*(1-want)/sessions) + 3.0/sessions; math.Abs(got-want) > tol {
			t.Errorf("%d batches, %d of %d wrong: found in %.3f of the sessions, want %.3f ± %.3f", c.batches, c.wrong, n, got, want, tol)
		}
	}
}

// TestDue: rows come back at batches 1, 2, 4, 8 … and every 64th, each once, and
// what is left at the end.
func TestDue(t *testing.T) {
	s := &spotcheck.Sample{First: 3, Later: 1}
	var due, sizes []int
	for range 330 {
		at, batch := s.Draw(10)
		rows := make([]spotcheck.Row, len(at))
		for i := range rows {
			rows[i] = spotcheck.Row{At: at[i], Z: float64(batch)}
		}
		if back := s.Keep(batch, rows); back != nil {
			due, sizes = append(due, batch), append(sizes, len(back))
		}
	}
	if want := []int{1, 2, 4, 8, 16, 32, 64, 128, 192, 256, 320}; !slices.Equal(due, want) {
		t.Errorf("due at %v, want %v", due, want)
	}
	if want := []int{3, 3, 6, 12, 24, 48, 96, 64, 64, 64, 64}; !slices.Equal(sizes, want) {
		t.Errorf("%v rows, want %v", sizes, want)
	}
	if rest := s.Rest(); len(rest) != 10 || rest[0].Z != 321 || len(s.Rest()) != 0 {
		t.Errorf("left at the end: %v", rest)
	}
}

// TestDraw: of a short batch all rows are drawn, the last one first; of a long one
// others in another process's place.
func TestDraw(t *testing.T) {
	a, b := &spotcheck.Sample{First: 64}, &spotcheck.Sample{First: 64}
	if at, batch := a.Draw(3); !slices.Equal(at, []int{2, 1, 0}) || batch != 1 {
		t.Errorf("%v of 3, batch %d", at, batch)
	}
	first, _ := a.Draw(math.MaxInt / 4)
	second, _ := b.Draw(math.MaxInt / 4)
	if len(first) != 64 || slices.Equal(first, second) {
		t.Errorf("drawn twice alike: %v", first)
	}
	if at, _ := a.Draw(0); len(at) != 0 {
		t.Errorf("%v of none", at)
	}
}
