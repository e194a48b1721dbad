package mixture

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/model"
)

// mixtureCDF is F(y) written out.
func mixtureCDF(m *Distribution, y float64) float64 {
	sum := 0.0
	for i, p := range m.P {
		sum += p * distuv.Normal{Mu: m.Mean[i], Sigma: m.Sigma[i]}.CDF(y)
	}
	return sum
}

func distribution(p, mean, sigma []float64) *Distribution {
	d := NewDistribution(Mixture{}, model.NewParams(len(p), 1))
	copy(d.P, p)
	copy(d.Mean, mean)
	copy(d.Sigma, sigma)
	return d
}

// randomDistribution has means and noise levels over several orders of magnitude, and
// now and then an expert of probability 0 far away.
func randomDistribution(rng *rand.Rand) *Distribution {
	k := 1 + rng.IntN(5)
	m := NewDistribution(Mixture{}, model.NewParams(k, 1))
	for i := range k {
		m.P[i] = rng.ExpFloat64()
		m.Mean[i] = rng.NormFloat64() * math.Pow(10, 4*rng.Float64()-2)
		m.Sigma[i] = math.Pow(10, 4*rng.Float64()-3)
	}
	if k > 2 && rng.IntN(2) == 0 {
		m.P[1], m.Mean[1] = 0, 1e12
	}
	if k > 1 {
		floats.Scale(1/floats.Sum(m.P), m.P)
	} else {
		m.P[0] = 1
	}
	return m
}

// TestLogDensityFar: where the density is below the smallest number its log is that of the nearest expert.
func TestLogDensityFar(t *testing.T) {
	m := distribution([]float64{0.25, 0.75}, []float64{0, 10}, []float64{1, 0.1})
	for _, y := range []float64{-100, 1e5} {
		want := math.Log(0.25) + distuv.UnitNormal.LogProb(y)
		if got := m.LogDensity(y); math.Abs(got-want) > 1e-12*math.Abs(want) {
			t.Errorf("log density %v at %v, want %v", got, y, want)
		}
	}
}

// TestQuantilesInvertTheCDF: F is below q just under the quantile and above it
// just over it.
func TestQuantilesInvertTheCDF(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		m := randomDistribution(rng)
		for _, level := range []float64{1e-9, 0.5, 0.9, 0.95, 0.999999, 1 - 1e-9} {
			lower, upper := m.Interval(level)
			tail := (1 - level) / 2
			if !(lower < upper) {
				t.Fatalf("%+v: the interval of level %v is %v to %v", m, level, lower, upper)
			}
			for y, q := range map[float64]float64{lower: tail, upper: 1 - tail} {
				step := 1e-13 * (math.Abs(y) + 1e-3)
				// 1e−15: the rounding of F itself.
				if mixtureCDF(m, y-step) > q+1e-15 || mixtureCDF(m, y+step) < q-1e-15 {
					t.Fatalf("%+v: F(%v) = %v, want %v", m, y, mixtureCDF(m, y), q)
				}
			}
		}
	}
}

// TestQuantilesKnown: those of one normal distribution, of a symmetric pair, and
// far out in the tails, where 1 − q has no digits left.
func TestQuantilesKnown(t *testing.T) {
	one := distribution([]float64{1}, []float64{3}, []float64{2})
	pair := distribution([]float64{0.5, 0.5}, []float64{-5, 5}, []float64{1, 1})
	far := distribution([]float64{0.5, 0.5}, []float64{-1e9, 1e9}, []float64{1, 1})
	huge := distribution([]float64{0.5, 0.5}, []float64{-1e308, 1e308}, []float64{1, 1})
	for _, c := range []struct {
		name         string
		m            *Distribution
		level        float64
		lower, upper float64
	}{
		{"one", one, 0.95, 3 - 2*1.959963984540054, 3 + 2*1.959963984540054},
		{"tails", one, 1 - 2e-10, 3 - 2*6.361340902404056, 3 + 2*6.361340902404056},
		{"experts apart", pair, 0.9, -6.281551565544600, 6.281551565544600}, // each expert's decile
		{"far apart", far, 0.9, -1e9 - 1.281551565544600, 1e9 + 1.281551565544600},
		{"at the ends of float64", huge, 0.9, -1e308, 1e308},
	} {
		lower, upper := c.m.Interval(c.level)
		if !near(lower, c.lower) || !near(upper, c.upper) {
			t.Errorf("%s: %v to %v, want %v to %v", c.name, lower, upper, c.lower, c.upper)
		}
	}
	// Between the two, F is level at ½: any point there is a median.
	if median := far.Quantile(0.5); math.Abs(median) > 1e9-5 {
		t.Errorf("median %v", median)
	}
}

// near allows 1e−6 relative: the level's own rounding, 1e−16, moves the quantile
// at a tail of 1e−10 by as much.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Abs(b) }

// TestUnits: densities in units of exp(u).
func TestUnits(t *testing.T) {
	const sigma, unit = 0.4, 1.3
	scores, res := []float64{-1, 0.5, 2}, []float64{0.3, -0.1, 4}
	dst, std := make([]float64, 3), make([]float64, 3)
	Gaussian{}.Exponents(dst, std, scores, res, sigma, unit)
	for i, e := range res {
		want := scores[i] + distuv.Normal{Sigma: sigma}.LogProb(e) + 0.5*math.Log(2*math.Pi) + unit
		if math.Abs(dst[i]-want) > 1e-13*(1+math.Abs(want)) || math.Abs(std[i]-e/sigma) > 1e-15*math.Abs(std[i]) {
			t.Errorf("exponent %v at %v, want %v at %v", dst[i], std[i], want, e/sigma)
		}
	}
}

// TestTreeFarOut: logits beyond what an exponential holds, and nodes whose probability is
// 0 in float64, have the branches' probabilities that the logits say.
func TestTreeFarOut(t *testing.T) {
	shape, err := model.ParseHierarchy("2x3")
	if err != nil {
		t.Fatal(err)
	}
	g := NewTree(shape)
	const n = 4
	b := &model.Block{N: n, X: []float64{-1, 1, 300, -300}}
	p := model.NewParams(6, 1)
	for i := range p.Gating {
		p.Gating[i] = []float64{7, -5, 3, 4, 6}[i]
	}
	scores := make([]float64, 6*n)
	p.GateLogits(scores, b)
	g.Scores(scores, p, b.N)
	post := &Posterior{N: n, Scores: scores, Prior: make([]float64, 6*n), Post: make([]float64, 6*n)}
	for i, v := range scores {
		post.Prior[i] = math.Exp(v)
		post.Post[i] = post.Prior[i]
	}
	underflows := false
	for t0 := range n {
		all := make([]float64, 6)
		for i := range all {
			all[i] = scores[i*n+t0]
		}
		// 1e−13 of logits of up to 2100.
		if sum := floats.LogSumExp(all); !(math.Abs(sum) <= 1e-12) {
			t.Errorf("row %d: the leaves' probabilities add up to exp %v", t0, sum)
		}
		for j, row := range g.rows {
			node, branch := all[row.node.from:row.node.to], all[row.branch.from:row.branch.to]
			want := math.Exp(floats.LogSumExp(branch) - floats.LogSumExp(node))
			underflows = underflows || floats.LogSumExp(node) < -745
			if got := g.masses(j, t0, post).q; !(math.Abs(got-want) <= 1e-12) {
				t.Errorf("row %d, branch %d: %v of its node, want %v", t0, j, got, want)
			}
		}
	}
	if !underflows {
		t.Error("no node's probability is 0: the test says nothing")
	}
}
