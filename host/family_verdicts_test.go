package host

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/sdk"
)

// familyDesign is data under a density: k experts with intercepts over three features, all normal or, where mixed, a
// normal, a 0/1 and an exponential one, or, where measured, three lengths of 150 flowers, over and over.
type familyDesign struct {
	family      string
	act         sdk.Activation
	level       float64   // the experts' intercepts are this and half a unit of the predictor more each
	norm        float64   // of the regressors
	own         []float64 // ψ
	k, n        int
	mixed       bool
	measured    bool
	interaction float64 // of the first two features, in the experts
}

func (d familyDesign) String() string {
	inputs := "normal"
	switch {
	case d.mixed:
		inputs = "mixed"
	case d.measured:
		inputs = "measured"
	}
	return fmt.Sprintf("%s k=%d n=%d %s", d.family, d.k, d.n, inputs)
}

// draw returns rows, with the product of the first two features as a last one, and the truth for them.
func (d familyDesign) draw(seed uint64) (*mat.Dense, []float64, *model.Params) {
	const features = 4
	rng := rand.New(rand.NewPCG(seed, 33))
	p := model.NewParams(d.k, features)
	p.Family, p.Sigma = d.family, nil
	p.RegressorIntercepts, p.GatingIntercepts = make([]float64, d.k), make([]float64, d.k-1)
	for i, v := range d.own {
		if i == 0 {
			p.Sigma = []float64{v}
		} else {
			p.Own = append(p.Own, []float64{v})
		}
	}
	unit := func(v []float64, norm float64) {
		for j := range v {
			v[j] = rng.NormFloat64()
		}
		floats.Scale(norm/floats.Norm(v, 2), v)
	}
	for i := range d.k {
		unit(p.Regressor(i)[:features-1], d.norm)
		p.Regressor(i)[features-1] = d.interaction
		p.RegressorIntercepts[i] = d.level + float64(i)/2
		if i < d.k-1 {
			unit(p.Gate(i)[:features-1], 2)
		}
	}
	law := mixture.DensityOf(d.family)
	x, y := mat.NewDense(d.n, features, nil), make([]float64, d.n)
	for r := range y {
		row := x.RawRowView(r)
		for j := range row {
			row[j] = rng.NormFloat64()
		}
		if d.mixed {
			row[1], row[2] = float64(rng.IntN(5)/3), rng.ExpFloat64()
		}
		if d.measured {
			of := flowers()[r%150]
			copy(row, of[:])
		}
		row[3] = row[0] * row[1]
		z := 0
		if d.k == 2 && rng.Float64() > 1/(1+math.Exp(-floats.Dot(p.Gate(0), row))) {
			z = 1
		}
		mean := []float64{0}
		if err := d.act.Eval(context.Background(), mean, []float64{p.RegressorIntercepts[z] + floats.Dot(p.Regressor(z), row)}); err != nil {
			panic(err)
		}
		y[r] = mixture.FromNormal(law, mean[0], d.own, rng.NormFloat64())
	}
	return x, y, p
}

// fit is the climb from the truth, or from parameters without some of it, over the first features.
func (d familyDesign) fit(t *testing.T, x *mat.Dense, y []float64, from *model.Params, act sdk.Activation) *fitted.Model {
	t.Helper()
	n, _ := x.Dims()
	q := model.NewParams(from.K, from.D-1)
	q.Family, q.Sigma, q.Own = from.Family, from.Sigma, from.Own
	q.RegressorIntercepts, q.GatingIntercepts = from.RegressorIntercepts, from.GatingIntercepts
	for i := range q.K {
		copy(q.Regressor(i), from.Regressor(i))
		if i < q.K-1 {
			copy(q.Gate(i), from.Gate(i))
		}
	}
	source := dataset.Matrix(mat.DenseCopyOf(x.Slice(0, n, 0, q.D)), y)
	if d.interaction != 0 && from.Regressor(0)[q.D] != 0 {
		q, source = from, dataset.Matrix(x, y)
	}
	m, err := Fit(t.Context(), act, source, Config{
		K: q.K, Family: q.Family, Intercepts: BothIntercepts, Start: q, Method: EM{Starts: 1}, Threads: 1,
	})
	if err != nil {
		t.Fatalf("%v: %v", d, err)
	}
	return m
}

// flowers are the two lengths of the sepals and the width of the petals of iris, centred, in units of their standard
// deviations.
var flowers = sync.OnceValue(func() (out [150][3]float64) {
	src, err := dataset.Open("../examples/iris.csv", dataset.Selection{Target: "petal_length",
		Features: []string{"sepal_length", "sepal_width", "petal_width"}, Decimal: '.'})
	if err != nil {
		panic(err)
	}
	err = src.Read(context.Background(), func(b *model.Block) error { // one has them all
		for j := range 3 {
			mean, sd := stat.MeanStdDev(b.Col(j), nil)
			for r, v := range b.Col(j) {
				out[r][j] = (v - mean) / sd
			}
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	return out
})

func rightDesigns() (all []familyDesign) {
	line := activation(identity.Family, nil)
	for _, of := range []familyDesign{
		{family: "poisson", act: exponential, level: 1, norm: .6},
		{family: "negative-binomial", act: exponential, level: 1, norm: .6, own: []float64{2}},
		{family: "gamma", act: exponential, level: 0, norm: .6, own: []float64{3}},
		{family: "student-t", act: line, level: 0, norm: 1, own: []float64{.3, 4}},
		{family: "binomial", act: logistic, level: -.25, norm: 2},
	} {
		for _, how := range []familyDesign{{k: 2, n: 1000}, {k: 2, n: 1000, mixed: true}, {k: 1, n: 300, mixed: true},
			{k: 2, n: 900, measured: true}, {k: 1, n: 150, measured: true}} {
			of.k, of.n, of.mixed, of.measured = how.k, how.n, how.mixed, how.measured
			all = append(all, of)
		}
	}
	return all
}

// TestFamilyVerdicts: right models of counts, positive numbers and heavy tails are hardly ever suspect. With
//
//	go test ./host -run TestFamilyVerdicts -study 100 -v -timeout 0
//
// so many data sets of each of five designs a family are fitted, from the truth, and at most 2 in 100 are suspect. Without the
// flag it is one of each, of which none is: one of 25 would be suspect in 1 of 40 with the level .001.
func TestFamilyVerdicts(t *testing.T) {
	testslow.Mark(t)
	sets := uint64(max(1, *studySets))
	for _, d := range rightDesigns() {
		t.Run(d.String(), func(t *testing.T) {
			suspect, below, tests := 0, 0, 0
			for seed := range sets {
				x, y, truth := d.draw(*studyFrom + seed)
				c := d.fit(t, x, y, truth, d.act).Fit.Certificate
				if c.Model != infer.Pass {
					suspect++
					t.Logf("seed %d: p = %.2g, %s", *studyFrom+seed, c.PValue, c.Cause)
				}
				for _, test := range c.Tests {
					if tests++; test.PValue < .05 {
						below++
					}
				}
			}
			t.Logf("%d of %d suspect, p < .05 in %.3f of the tests", suspect, sets, float64(below)/float64(tests))
			if float64(suspect) > .02*float64(sets) {
				t.Errorf("%d of %d suspect", suspect, sets)
			}
		})
	}
}

// wrongModel is a model that the data are not drawn from, with what a verdict should advise.
type wrongModel struct {
	name   string
	data   familyDesign
	change func(p *model.Params) *model.Params
	act    sdk.Activation
	try    []string // what is right to try
}

func wrongModels() []wrongModel {
	line := activation(identity.Family, nil)
	poisson := familyDesign{family: "poisson", act: exponential, level: 1, norm: .8, k: 2, n: 5000}
	overdispersed, heavy, product := poisson, familyDesign{family: "student-t", act: line, norm: 1, own: []float64{.3, 3}, k: 2, n: 5000}, poisson
	overdispersed.family, overdispersed.own = "negative-binomial", []float64{2}
	product.interaction = .2
	family := func(name string, own ...float64) func(p *model.Params) *model.Params {
		return func(p *model.Params) *model.Params {
			q := *p
			q.Family, q.Sigma, q.Own = name, own, nil
			return &q
		}
	}
	return []wrongModel{
		{"poisson on negative-binomial", overdispersed, family("poisson"), exponential, []string{"--family negative-binomial"}},
		{"gaussian on student-t", heavy, family("", .3), line, []string{"--family student-t"}},
		{"one expert too few", poisson, func(p *model.Params) *model.Params {
			q := model.NewParams(1, p.D)
			q.Family, q.Sigma, q.RegressorIntercepts = p.Family, p.Sigma, p.RegressorIntercepts[:1]
			copy(q.Regressors, p.Regressor(0))
			return q
		}, exponential, []string{"--k 2"}},
		{"softplus for exp", poisson, func(p *model.Params) *model.Params { return p }, softplus, []string{"another --activation"}},
		{"a product left out", product, func(p *model.Params) *model.Params {
			q := p.Clone()
			for i := range q.K {
				q.Regressor(i)[q.D-1] = 0
			}
			return q
		}, exponential, []string{"--formula 'y ~ x1 + x2 + x3 + x1:x2 | x1 + x2 + x3'", "--formula 'y ~ x1 + x2 + x3 + x2:x1 | x1 + x2 + x3'"}},
	}
}

// TestFamilyRemedies: models that are wrong where the right one is worth 40 of log-likelihood or more, of 5,000 rows, are
// suspect, and what the verdict advises is right. With
//
//	go test ./host -run TestFamilyRemedies -study 50 -v -timeout 0
//
// of so many data sets of each at least 86 in 100 are suspect, and what was advised is printed: another family, where that is
// it, in 90 in 100; without the flag of two, all.
func TestFamilyRemedies(t *testing.T) {
	testslow.Mark(t)
	sets := uint64(max(2, *studySets))
	for _, w := range wrongModels() {
		t.Run(w.name, func(t *testing.T) {
			seen, judged, right, least := 0, 0, 0, math.Inf(1)
			causes := map[string]int{}
			for seed := range sets {
				x, y, truth := w.data.draw(*studyFrom + seed)
				best := w.data.fit(t, x, y, truth, w.data.act).Fit.LogLikelihood
				m := w.data.fit(t, x, y, w.change(truth), w.act)
				if best-m.Fit.LogLikelihood < 40 {
					continue
				}
				judged++
				least = min(least, best-m.Fit.LogLikelihood)
				c := m.Fit.Certificate
				if c.Model == infer.Suspect {
					seen++
				}
				if slices.Contains(w.try, c.Try) {
					right++
				}
				causes[c.Try]++
			}
			t.Logf("%d of %d seen, the right one worth %.0f or more; the remedy is right in %d", seen, judged, least, right)
			for _, try := range slices.Sorted(maps.Keys(causes)) {
				t.Logf("%d: %s", causes[try], try)
			}
			if judged == 0 || float64(seen) < .86*float64(judged) {
				t.Errorf("%d of %d seen", seen, judged)
			}
			if strings.HasPrefix(w.try[0], "--family") && float64(right) < .9*float64(judged) {
				t.Errorf("the family is named in %d of %d", right, judged)
			}
		})
	}
}
