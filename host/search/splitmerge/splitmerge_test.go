package splitmerge

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestMoves of structures whose right moves are known by hand.
func TestMoves(t *testing.T) {
	for name, c := range map[string]struct {
		s    loss.Structure
		want string
	}{
		// Experts 1 and 3 share most of expert 3's rows, expert 0 has the large
		// residuals.
		"the clear case": {loss.Structure{
			Mass:    []float64{50, 40, 45, 20},
			RSS:     []float64{50, 1, 2, 1},
			Overlap: overlap(4, map[[2]int]float64{{1, 3}: 18, {0, 2}: 5, {0, 1}: 2}),
		}, "[{1 3 0} {1 3 2} {0 2 3} {0 1 3}]"},
		// A share counts of the smaller expert's rows, a residual per row: expert 0
		// has the largest overlap and the largest sum of squares, and neither is the
		// best.
		"shares, not sums": {loss.Structure{
			Mass:    []float64{1000, 400, 10, 8},
			RSS:     []float64{100, 80, 0.5, 0.1},
			Overlap: overlap(4, map[[2]int]float64{{0, 1}: 40, {2, 3}: 6, {1, 2}: 0.5}),
		}, "[{2 3 1} {2 3 0} {0 1 2} {1 2 0}]"},
		// The larger of a pair is kept, wherever it stands.
		"three experts": {loss.Structure{
			Mass:    []float64{10, 30, 20},
			RSS:     []float64{1, 3, 60},
			Overlap: overlap(3, map[[2]int]float64{{0, 1}: 9}),
		}, "[{1 0 2} {2 0 1} {1 2 0}]"},
		// Of equals the first is kept.
		"of the same size": {loss.Structure{
			Mass:    []float64{20, 20, 20},
			RSS:     []float64{1, 3, 60},
			Overlap: overlap(3, map[[2]int]float64{{0, 1}: 9}),
		}, "[{0 1 2} {0 2 1} {1 2 0}]"},
		"two experts": {loss.Structure{Mass: []float64{1, 1}, RSS: []float64{1, 1}, Overlap: overlap(2, nil)}, "[]"},
		"one expert":  {loss.Structure{Mass: []float64{1}, RSS: []float64{1}, Overlap: overlap(1, nil)}, "[]"},
		// An expert that lost all of its rows shares none with anybody, and stands by
		// for the one whose residuals are largest.
		"an empty expert": {loss.Structure{
			Mass:    []float64{10, 0, 20},
			RSS:     []float64{10, 0, 40},
			Overlap: overlap(3, map[[2]int]float64{{0, 2}: 1}),
		}, "[{0 1 2} {2 0 1} {2 1 0}]"},
	} {
		if got := fmt.Sprint(moves(&c.s)); got != c.want {
			t.Errorf("%s: moves %s, want %s", name, got, c.want)
		}
	}
}

// overlap is the symmetric k×k matrix with these entries.
func overlap(k int, entries map[[2]int]float64) []float64 {
	m := make([]float64, k*k)
	for at, v := range entries {
		m[at[0]*k+at[1]], m[at[1]*k+at[0]] = v, v
	}
	return m
}

// TestApply: the dropped expert has no say any more; the split one's place is
// taken by two of the same gate and noise whose lines lie at the split one's ±
// the rms of its residuals along the axis. Everything else stays, the parameters
// that were moved among it, and so does P(z|x) wherever the last expert, whose
// gate is 0, stands in the move.
func TestApply(t *testing.T) {
	p := model.NewParams(4, 2)
	p.RegressorIntercepts, p.GatingIntercepts, p.Sigma = []float64{1, 2, 3, 4}, []float64{0.5, -0.5, 0.25}, []float64{0.1, 0.2, 0.3, 0.4}
	for i := range p.Regressors {
		p.Regressors[i] = float64(i + 1)
	}
	for i := range p.Gating {
		p.Gating[i] = float64(i%3) - 0.75
	}
	s := &loss.Structure{Mass: []float64{4, 4, 4, 4}, RSS: []float64{16, 36, 64, 100}}
	for i := range 4 {
		s.Axes = append(s.Axes, []float64{0.6, 0, 0.8})
		if i%2 == 1 {
			s.Axes[i] = []float64{0, -0.8, 0.6}
		}
	}
	x := []float64{0.7, -1.3}
	logits := func(q *model.Params) []float64 {
		out := make([]float64, 4)
		for i := range out {
			out[i] = searchtest.LogitOf(q, i, x)
		}
		return out
	}
	for _, m := range []move{{keep: 0, drop: 1, split: 2}, {keep: 0, drop: 3, split: 1}, {keep: 1, drop: 2, split: 3}, {keep: 3, drop: 0, split: 2}} {
		was := p.Clone()
		q := m.apply(p, s)
		if fmt.Sprint(p) != fmt.Sprint(was) {
			t.Fatalf("%v changed what it was applied to", m)
		}
		rms := math.Sqrt(s.RSS[m.split] / s.Mass[m.split])
		for i := range 4 {
			centre, side := i, 0.0
			switch i {
			case m.split:
				side = rms
			case m.drop:
				centre, side = m.split, -rms
			}
			axis := s.Axes[m.split]
			want := []float64{p.Regressor(centre)[0] + side*axis[0], p.Regressor(centre)[1] + side*axis[1], p.RegressorIntercepts[centre] + side*axis[2], p.Sigma[centre]}
			got := []float64{q.Regressor(i)[0], q.Regressor(i)[1], q.RegressorIntercepts[i], q.Sigma[i]}
			if !floats.EqualApprox(got, want, 1e-12) {
				t.Errorf("%v: expert %d is %v, want %v", m, i, got, want)
			}
			// Of a softmax only differences of logits matter.
			before, after := logits(p), logits(q)
			if d := (after[i] - after[m.keep]) - (before[centre] - before[m.keep]); math.Abs(d) > 1e-12 {
				t.Errorf("%v: the gate of expert %d is off by %v", m, i, d)
			}
		}
	}
}

// TestApplyScaled: of means c + s·g the halves are as far apart in units of y as they would be
// of g, whatever the sign of s, and the dropped expert takes the output of the split one over. Where s
// is 0 residuals have no such units.
func TestApplyScaled(t *testing.T) {
	s := &loss.Structure{Mass: []float64{4, 4, 4}, RSS: []float64{16, 36, 64}, Axes: [][]float64{{1}, {1}, {1}}}
	for scale, apart := range map[float64]float64{2: 2, -0.5: 8, 0: 4} {
		p := model.NewParams(3, 1)
		p.Regressors = []float64{1, 2, 3}
		p.Offset, p.Scale = []float64{5, 6, 7}, []float64{1, 1, scale}
		q := move{keep: 0, drop: 1, split: 2}.apply(p, s)
		if want := []float64{1, 3 - apart, 3 + apart}; !slices.Equal(q.Regressors, want) {
			t.Errorf("scale %v: regressors %v, want %v", scale, q.Regressors, want)
		}
		if !slices.Equal(q.Scale, []float64{1, scale, scale}) || !slices.Equal(q.Offset, []float64{5, 7, 7}) {
			t.Errorf("outputs %v and %v", q.Offset, q.Scale)
		}
	}
}

// TestImprove: from the merged maximum a move gains; from the top none does, also
// where moves lead back to it, and also from a point on the slope below it: what
// the climb alone would gain is not the move's.
func TestImprove(t *testing.T) {
	p, top, merged := searchtest.Stuck(t)
	l := searchtest.Likelihood(p, p.Rows)
	better, err := Improve(t.Context(), l, merged, Of(p, nil, nil), climb.Approach)
	if err != nil || better == nil || better.Value > merged.Value-1 || better.Iterations <= merged.Iterations {
		t.Errorf("from the merged maximum: %+v, error %v", better, err)
	}
	if better, err := Improve(t.Context(), l, top, Of(p, nil, nil), climb.Approach); err != nil || better != nil {
		t.Errorf("from the top: %+v, error %v", better, err)
	}

	// Here EM finds the way back from any move.
	easy, truth := searchtest.Drawn(t, identity.Family, 3, 5, 1500, 0.1, 1, problem.Request{})
	l = searchtest.Likelihood(easy, easy.Rows)
	best := searchtest.Climbed(t, easy, easy.Rows, truth)
	s, err := l.Structure(t.Context(), l.Params(best.X))
	if err != nil {
		t.Fatal(err)
	}
	back := 0
	for _, m := range moves(s) {
		if r := searchtest.Climbed(t, easy, easy.Rows, m.apply(l.Params(best.X), s)); math.Abs(r.Value-best.Value) < 1e-9 {
			back++
		}
	}
	if back == 0 {
		t.Fatal("no move leads back to the top")
	}
	slope := *best
	slope.X, slope.Status = slices.Clone(best.X), optim.IterationLimit
	for slope.Value < best.Value+0.3*ClearGain {
		for i := range slope.X {
			slope.X[i] += 1e-4
		}
		if slope.Value, err = l.Value(t.Context(), slope.X); err != nil {
			t.Fatal(err)
		}
	}
	for name, r := range map[string]*optim.Result{"the top": best, "the slope": &slope} {
		if better, err := Improve(t.Context(), l, r, Of(p, nil, nil), climb.Approach); err != nil || better != nil {
			t.Errorf("from %s: a move gained %v, error %v", name, r.Value-better.Value, err)
		}
	}
}

// TestApplyToAll: of several targets the halves of the split expert lie at ± the length of the residuals along its axis, every
// target's by its part of it, with one gate and one noise; nothing else moves.
func TestApplyToAll(t *testing.T) {
	for _, own := range []bool{false, true} {
		p := model.NewVectorParams(3, 1, 2, true)
		p.RegressorIntercepts, p.GatingIntercepts = []float64{1, 2, 3, 4, 5, 6}, []float64{0.5, -0.5}
		copy(p.Regressors, []float64{10, 20, 30, 40, 50, 60})
		copy(p.Gating, []float64{1, 2})
		for i := range 2 {
			if own {
				p.Noise = append(p.Noise, model.VectorNoise{Scale: []float64{float64(i), 3}, Lower: []float64{0.1 * float64(i)}})
			}
		}
		s := &loss.Structure{Mass: []float64{4, 4, 4}, RSS: []float64{16, 36, 64}, Axes: [][]float64{nil, {0.6, 0, 0, 0.8}, nil}}
		was := p.Clone()
		q := move{keep: 0, drop: 2, split: 1}.applyToAll(p, s)
		if !reflect.DeepEqual(p, was) {
			t.Error("it changed what it was applied to")
		}
		const rms = 3
		if want := []float64{10, 20, 30 + 0.6*rms, 40, 30 - 0.6*rms, 40}; !floats.EqualApprox(q.Regressors, want, 1e-12) {
			t.Errorf("regressors %v, want %v", q.Regressors, want)
		}
		if want := []float64{1, 2, 3, 4 + 0.8*rms, 3, 4 - 0.8*rms}; !floats.EqualApprox(q.RegressorIntercepts, want, 1e-12) {
			t.Errorf("intercepts %v, want %v", q.RegressorIntercepts, want)
		}
		if !slices.Equal(q.Gating, []float64{-1, 0}) || !slices.Equal(q.GatingIntercepts, []float64{1, 0}) {
			t.Errorf("gate %v, %v", q.Gating, q.GatingIntercepts)
		}
		want := was.Clone().Noise
		if own {
			want[2] = want[1]
		}
		if !reflect.DeepEqual(q.Noise, want) {
			t.Errorf("noise %v, want %v", q.Noise, want)
		}
	}
}
