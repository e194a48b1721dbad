package host

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/plugins/identity"
)

// arrangementSets is over how many data sets, and arrangementSeed from which seed on, intervals over arrangements are
// compared with those of one; docs/studies/inference.md has what it prints:
//
//	go test ./host -run TestArrangementsStudy -arrangementsets 300 -v -timeout 60m
var (
	arrangementSets = flag.Int("arrangementsets", 0, "data sets of the study of intervals over arrangements; 0: none")
	arrangementSeed = flag.Uint64("arrangementseed", 20001, "the first of their seeds")
)

// arranged is a design of the study: experts of shares as the intercepts of the gate have them.
type arranged struct {
	name       string
	d          int
	sigma      float64
	intercepts []float64 // of the gate, k−1
	uniform    bool
}

// draw draws n rows of three experts.
func (c arranged) draw(n int, seed uint64) (dataset.Source, *model.Params) {
	rng := rand.New(rand.NewPCG(seed, 3))
	p := model.NewParams(len(c.intercepts)+1, c.d)
	p.RegressorIntercepts, p.GatingIntercepts = make([]float64, p.K), c.intercepts
	for i := range p.Regressors {
		p.Regressors[i] = rng.NormFloat64() / math.Sqrt(float64(c.d))
	}
	for i := range p.Gating {
		p.Gating[i] = rng.NormFloat64()
	}
	p.Sigma[0] = c.sigma
	x, y := mat.NewDense(n, c.d, nil), make([]float64, n)
	for r := range n {
		row := x.RawRowView(r)
		for j := range row {
			if row[j] = rng.NormFloat64(); c.uniform {
				row[j] = math.Sqrt(3) * (2*rng.Float64() - 1)
			}
		}
		z := gated(p, row, rng.Float64())
		for j, a := range p.Regressor(z) {
			y[r] += a * row[j]
		}
		y[r] += c.sigma * rng.NormFloat64()
	}
	return dataset.Matrix(x, y), p
}

// gated is the expert that u between 0 and 1 says, by a gate with intercepts.
func gated(p *model.Params, x []float64, u float64) int {
	weights, sum := make([]float64, p.K), 1.0
	weights[p.K-1] = 1
	for i := range p.K - 1 {
		weights[i] = math.Exp(floats.Dot(p.Gate(i), x) + p.GatingIntercepts[i])
		sum += weights[i]
	}
	for i, w := range weights {
		if u -= w / sum; u < 0 {
			return i
		}
	}
	return p.K - 1
}

// TestArrangementsStudy: 95 % intervals of the regressors given the best arrangement, over all that were weighed, and given the one
// that EM from the truth ends in.
func TestArrangementsStudy(t *testing.T) {
	if *arrangementSets == 0 {
		t.Skip("a study: -arrangementsets 300")
	}
	for _, c := range []arranged{
		{"uniform, uneven", 2, 0.5, []float64{1.5, 0.5}, true},
		{"normal, even", 2, 0.2, []float64{0.3, 0}, false},
	} {
		t.Run(c.name, func(t *testing.T) { c.study(t) })
		t.Run(c.name+", from the truth", func(t *testing.T) { c.fromTruth(t) })
	}
}

// study fits the data sets of a design.
func (c arranged) study(t *testing.T) {
	var given, over, givenPass, overPass intervals
	several, none := 0, 0
	for seed := range uint64(*arrangementSets) {
		src, truth := c.draw(1500, *arrangementSeed+seed)
		m, err := Fit(t.Context(), activation(identity.Family, nil), src, Config{K: 3, Intercepts: BothIntercepts, Arrangements: true, Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Arrangements.Others) > 0 {
			several++
		}
		if m.StandardErrors == nil && m.Arrangements.Intervals == nil {
			none++
			continue
		}
		var g, o intervals
		countOver(&g, &o, m, truth)
		t.Logf("seed %d: %d of %d given the best, %d of %d over arrangements", *arrangementSeed+seed, g.in, g.of, o.in, o.of)
		given.add(g)
		over.add(o)
		if m.Fit.Certificate != nil && m.Fit.Certificate.Optimum == "pass" {
			givenPass.add(g)
			overPass.add(o)
		}
	}
	t.Logf("%s: 95 %% intervals hold %v of regressors given the best, %v over arrangements; of passes %v and %v; %d of %d had several, %d no intervals",
		c.name, given, over, givenPass, overPass, several, *arrangementSets, none)
}

// fromTruth fits them by EM from the truth: what normal intervals hold where the arrangement is the right one.
func (c arranged) fromTruth(t *testing.T) {
	var held intervals
	for seed := range uint64(*arrangementSets) {
		src, truth := c.draw(1500, *arrangementSeed+seed)
		m, err := Fit(t.Context(), activation(identity.Family, nil), src, Config{K: 3, Intercepts: BothIntercepts, Method: EM{Starts: 1}, Start: truth.Clone(), Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		if m.StandardErrors == nil {
			continue
		}
		for i, j := range metric.Nearest(m.Params(), truth) {
			for f, a := range m.Regressors[i] {
				held.count(a, m.StandardErrors.Regressors[i][f], truth.Regressor(j)[f])
			}
		}
	}
	t.Logf("%s: from the truth 95 %% intervals hold %v of regressors", c.name, held)
}

// countOver counts the intervals of a fit's regressors given its arrangement, and over all.
func countOver(given, over *intervals, m *fitted.Model, truth *model.Params) {
	for i, j := range metric.Nearest(m.Params(), truth) { // metric.EregOf does not tell lengths and signs apart
		for f, a := range m.Regressors[i] {
			want := truth.Regressor(j)[f]
			if m.StandardErrors != nil {
				given.count(a, m.StandardErrors.Regressors[i][f], want)
			}
			if s := m.Arrangements.Intervals; s != nil {
				ends := s.Regressors[i][f]
				over.within((ends[0]+ends[1])/2, (ends[1]-ends[0])/2, want)
			} else {
				over.count(a, m.StandardErrors.Regressors[i][f], want)
			}
		}
	}
}
