package kink_test

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/loss/kink"
	"github.com/gatedlearning/moe/host/loss/losstest"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
)

// twoBends is a g with two kinks, at −1 and at 0.5, and a slope that varies between them.
var twoBends = losstest.Func{
	G: func(z float64) float64 {
		switch {
		case z < -1:
			return -0.1 * (z + 1)
		case z < 0.5:
			return 0.3 * (z + 1) * (z + 1)
		}
		return 0.675 + 2*(z-0.5)
	},
	DG: func(z float64) float64 {
		switch {
		case z < -1:
			return -0.1
		case z < 0.5:
			return 0.6 * (z + 1)
		}
		return 2
	},
}

// TestNear: the force of a row is the difference of two one-sided slopes of the log-likelihood by the expert's
// intercept, with those of the row alone, its weight counted; gaps are of the predictor, and the rows are the nearest
// of each expert, the same on three workers, and in parts.
func TestNear(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 7))
	kinks := []float64{-1, 0.5}
	p := losstest.Params(rng, 3, 2, 0.7, true)
	data := losstest.Draw(rng, twoBends, p, 1000)
	for i := range data.Blocks {
		w := make([]float64, data.Blocks[i].N)
		for r := range w {
			w[r] = 0.5 + rng.Float64()
		}
		data.Blocks[i].Role[model.Weights] = w
	}
	l := loss.NewLikelihood(data, twoBends, p, loss.All, 1)
	rows, err := kink.Near(t.Context(), l, p, kinks, 0)
	if err != nil {
		t.Fatal(err)
	}
	farthest, counts, compared := make([]float64, 3), make([]int, 3), 0
	for i, r := range rows {
		b := data.Blocks[r.Row/model.BlockRows]
		at := r.Row % model.BlockRows
		z, x := p.RegressorIntercepts[r.Expert], []float64{b.X[at], b.X[b.N+at], 1}
		for j, v := range p.Regressor(r.Expert) {
			z += v * x[j]
		}
		beside := math.Inf(1)
		at2 := 0.0
		for _, k := range kinks {
			if math.Abs(z-r.Gap-k) < beside {
				beside, at2 = math.Abs(z-r.Gap-k), k
			}
		}
		if beside > 1e-12 || !reflect.DeepEqual(r.X, x) || r.Above != (z > at2) {
			t.Fatalf("row %d is %v from a kink, above %v, features %v: %+v", r.Row, z-at2, z > at2, x, r)
		}
		farthest[r.Expert] = max(farthest[r.Expert], math.Abs(r.Gap))
		counts[r.Expert]++
		if i%7 > 0 {
			continue
		}
		// With its predictor at the kink, but for rounding; and the slopes of the row alone there.
		q := p.Clone()
		q.RegressorIntercepts[r.Expert] -= r.Gap
		one := model.Block{N: 1, X: x[:2], Y: b.Y[at : at+1]}
		one.Role[model.Weights] = b.Role[model.Weights][at : at+1]
		alone := loss.NewLikelihood(&model.Data{N: 1, D: 2, Blocks: []model.Block{one}}, twoBends, q, loss.All, 1)
		there, err := kink.Near(t.Context(), alone, q, kinks, 0)
		if err != nil {
			t.Fatal(err)
		}
		value := func(move float64) float64 {
			moved := q.Clone()
			moved.RegressorIntercepts[r.Expert] += move
			v, err := alone.LogLikelihood(t.Context(), moved)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		const h = 1e-6
		want, found := (value(0)-value(-h))/h-(value(h)-value(0))/h, false
		for _, o := range there {
			if o.Expert == r.Expert && math.Abs(o.Gap) < 1e-12 {
				found = math.Abs(o.Force-want) < 1e-4*(1+math.Abs(want))
			}
		}
		if compared++; !found {
			t.Errorf("row %d, expert %d: the slope falls by %v: %+v", r.Row, r.Expert, want, there)
		}
	}
	for i := range counts {
		if counts[i] != 64 {
			t.Errorf("expert %d has %d rows", i, counts[i])
		}
	}
	if compared < 20 {
		t.Errorf("%d forces compared", compared)
	}
	every := 0 // pairs as near
	for _, b := range data.Blocks {
		for r := range b.N {
			for i := range 3 {
				z := p.RegressorIntercepts[i] + p.Regressor(i)[0]*b.X[r] + p.Regressor(i)[1]*b.X[b.N+r]
				for _, k := range kinks {
					if math.Abs(z-k) <= farthest[i]+1e-13 {
						every++
					}
				}
			}
		}
	}
	if every != 3*64 {
		t.Errorf("%d pairs are as near as the farthest that was taken", every)
	}
	several, err := kink.Near(t.Context(), loss.NewLikelihood(data, twoBends, p, loss.All, 3), p, kinks, 0)
	if err != nil || !reflect.DeepEqual(several, rows) {
		t.Errorf("three workers find other rows, error %v", err)
	}
	var parts []kink.Row
	for from := 0; from < len(data.Blocks); from += 2 {
		part := &model.Data{D: 2, Blocks: data.Blocks[from:min(from+2, len(data.Blocks))]}
		for _, b := range part.Blocks {
			part.N += b.N
		}
		of, err := kink.Near(t.Context(), loss.NewLikelihood(part, twoBends, p, loss.All, 1), p, kinks, from*model.BlockRows)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, of...)
	}
	if !reflect.DeepEqual(kink.Nearest(parts), rows) {
		t.Error("parts find other rows")
	}
}

// TestNoBend: a g whose slope does not jump, or that jumps itself, has no rows next to kinks.
func TestNoBend(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	p := losstest.Params(rng, 2, 2, 0.5, false)
	step := losstest.Func{G: func(z float64) float64 { return math.Copysign(1, z) + max(z, 0) }, DG: losstest.ReLU.DG}
	for name, g := range map[string]losstest.Func{"smooth": losstest.Tanh, "step": step} {
		data := losstest.Draw(rng, g, p, 300)
		rows, err := kink.Near(t.Context(), loss.NewLikelihood(data, g, p, loss.All, 1), p, []float64{0}, 0)
		if err != nil || len(rows) > 0 {
			t.Errorf("%s: %d rows, error %v", name, len(rows), err)
		}
	}
}

// TestSurface: where noise is large a polish ends at kinks of the likelihood, and at a maximum of it: no step from there
// leads up, in any of many directions, though from where Newton's method ends one does as a rule.
func TestSurface(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 9))
	atKink, improved := 0, 0
	for i := range 24 {
		p := losstest.Params(rng, 1+i%2, 2, 1.5, i%3 == 0)
		g, kinks := losstest.ReLU, []float64{0}
		if i%4 == 3 {
			g, kinks = twoBends, []float64{-1, 0.5}
		}
		data := losstest.Draw(rng, g, p, 600)
		l := loss.NewLikelihood(data, g, p, loss.All, 1)
		start, err := optim.Newton(t.Context(), l, l.Theta(p), optim.Settings{Slack: 0.01 / l.Rows()})
		if err != nil {
			t.Fatal(err)
		}
		r, err := optim.PolishKinks(t.Context(), kink.Surface(l, kinks), start.X, optim.Settings{})
		if err != nil || r.Status != optim.Converged {
			t.Fatalf("table %d: %v, error %v", i, r.Status, err)
		}
		if r.Value > start.Value+1e-13 {
			t.Errorf("table %d: the polish lost %v", i, r.Value-start.Value)
		}
		if up := leadsUp(t.Context(), t, l, r.X, rng); up > 0 {
			t.Errorf("table %d: a step leads up by %v", i, up)
		}
		if leadsUp(t.Context(), t, l, start.X, rng) > 0 {
			improved++
		}
		rows, err := kink.Near(t.Context(), l, l.Params(r.X), kinks, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if math.Abs(row.Gap) < 1e-12 {
				atKink++
			}
		}
	}
	if atKink < 6 || improved < 4 {
		t.Errorf("%d kinks at maxima, %d ends of Newton's method below one: too few to tell anything", atKink, improved)
	}
}

// leadsUp is the most that the log-likelihood rises by in short steps in many directions, 0 where it falls in all.
func leadsUp(ctx context.Context, t *testing.T, l *loss.Likelihood, x []float64, rng *rand.Rand) (most float64) {
	t.Helper()
	value := func(x []float64) float64 {
		v, err := l.LogLikelihood(ctx, l.Params(x))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	here := value(x)
	for range 300 {
		near := make([]float64, len(x))
		for j, v := range x {
			near[j] = v + 1e-6*rng.NormFloat64()
		}
		if rise := value(near) - here; rise > 1e-14*math.Abs(here) {
			most = max(most, rise)
		}
	}
	return most
}

// TestPack: rows come back as they were; what is none is told.
func TestPack(t *testing.T) {
	rows := []kink.Row{{Row: 1 << 30, Expert: 1, X: []float64{1, -2}, Gap: -1e-17, Force: 3, Above: true}, {Row: 7, X: []float64{0, 1}, Gap: 1, Force: -2}}
	packed := kink.Pack(rows)
	got, ok := kink.Unpack(packed, 2, 2)
	if !ok || !reflect.DeepEqual(got, rows) {
		t.Errorf("%v come back as %v, %v", rows, got, ok)
	}
	for at, wrong := range map[int]float64{0: -1, 1: 2, 4: 0.5} {
		v := append([]float64{}, packed...)
		v[at] = wrong
		if _, ok := kink.Unpack(v, 2, 2); ok {
			t.Errorf("%v at %d passes", wrong, at)
		}
	}
	if _, ok := kink.Unpack(packed[:len(packed)-1], 2, 2); ok {
		t.Error("half a row passes")
	}
}
