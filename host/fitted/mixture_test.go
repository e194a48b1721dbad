package fitted

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// mixtureCDF is F(y) written out.
func mixtureCDF(m mixture, y float64) float64 {
	sum := 0.0
	for i, p := range m.p {
		sum += p * distuv.Normal{Mu: m.mean[i], Sigma: m.sigma[i]}.CDF(y)
	}
	return sum
}

// randomMixture has means and noise levels over several orders of magnitude, and
// now and then an expert of probability 0 far away.
func randomMixture(rng *rand.Rand) mixture {
	k := 1 + rng.IntN(5)
	m := mixture{make([]float64, k), make([]float64, k), make([]float64, k)}
	for i := range k {
		m.p[i] = rng.ExpFloat64()
		m.mean[i] = rng.NormFloat64() * math.Pow(10, 4*rng.Float64()-2)
		m.sigma[i] = math.Pow(10, 4*rng.Float64()-3)
	}
	if k > 2 && rng.IntN(2) == 0 {
		m.p[1], m.mean[1] = 0, 1e12
	}
	if k > 1 {
		floats.Scale(1/floats.Sum(m.p), m.p)
	} else {
		m.p[0] = 1
	}
	return m
}

// TestQuantilesInvertTheCDF: F is below q just under the quantile and above it
// just over it.
func TestQuantilesInvertTheCDF(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		m := randomMixture(rng)
		for _, level := range []float64{1e-9, 0.5, 0.9, 0.95, 0.999999, 1 - 1e-9} {
			lower, upper := m.interval(level)
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
	one := mixture{[]float64{1}, []float64{3}, []float64{2}}
	pair := mixture{[]float64{0.5, 0.5}, []float64{-5, 5}, []float64{1, 1}}
	far := mixture{[]float64{0.5, 0.5}, []float64{-1e9, 1e9}, []float64{1, 1}}
	huge := mixture{[]float64{0.5, 0.5}, []float64{-1e308, 1e308}, []float64{1, 1}}
	for _, c := range []struct {
		name         string
		m            mixture
		level        float64
		lower, upper float64
	}{
		{"one", one, 0.95, 3 - 2*1.959963984540054, 3 + 2*1.959963984540054},
		{"tails", one, 1 - 2e-10, 3 - 2*6.361340902404056, 3 + 2*6.361340902404056},
		{"experts apart", pair, 0.9, -6.281551565544600, 6.281551565544600}, // each expert's decile
		{"far apart", far, 0.9, -1e9 - 1.281551565544600, 1e9 + 1.281551565544600},
		{"at the ends of float64", huge, 0.9, -1e308, 1e308},
	} {
		lower, upper := c.m.interval(c.level)
		if !near(lower, c.lower) || !near(upper, c.upper) {
			t.Errorf("%s: %v to %v, want %v to %v", c.name, lower, upper, c.lower, c.upper)
		}
	}
	// Between the two, F is level at ½: any point there is a median.
	if median := far.quantile(0.5); math.Abs(median) > 1e9-5 {
		t.Errorf("median %v", median)
	}
}

// near allows 1e−6 relative: the level's own rounding, 1e−16, moves the quantile
// at a tail of 1e−10 by as much.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Abs(b) }

func TestExtraColumns(t *testing.T) {
	const n = model.BlockRows + 5
	p, x, y := randomModel(n)
	src := Predictions(p, tanh{}, dataset.Matrix(x, y), Extras{Experts: true, Interval: 0.9})
	columns := []string{"mean", "p1", "p2", "p3", "posterior1", "posterior2", "posterior3", "mean1", "mean2", "mean3", "lower", "upper"}
	if diff := cmp.Diff(columns, src.Schema().Columns()); diff != "" {
		t.Fatal(diff)
	}
	at := 0
	err := src.Read(context.Background(), func(b *model.Block) error {
		for r := range b.N {
			m := mixture{make([]float64, 3), make([]float64, 3), p.Sigma}
			for i := range 3 {
				c := p.Regressor(i)
				m.mean[i] = math.Tanh(c[0]*x.At(at, 0) + c[1]*x.At(at, 1) + p.RegressorIntercepts[i])
				m.p[i] = b.Col(1 + i)[r]
				if got := b.Col(7 + i)[r]; math.Abs(got-m.mean[i]) > 1e-14 {
					t.Fatalf("row %d: mean%d %v, want %v", at, i+1, got, m.mean[i])
				}
			}
			if lo, hi := mixtureCDF(m, b.Col(10)[r]), mixtureCDF(m, b.Col(11)[r]); math.Abs(lo-0.05) > 1e-12 || math.Abs(hi-0.95) > 1e-12 {
				t.Fatalf("row %d: the interval is from %v to %v of F", at, lo, hi)
			}
			at++
		}
		return nil
	})
	if err != nil || at != n {
		t.Errorf("%d rows, %v", at, err)
	}
}

// TestCalibration counts by hand; y beyond all experts falls in the outer bins.
func TestCalibration(t *testing.T) {
	const n = model.BlockRows + 50
	p, x, y := randomModel(n)
	y[3], y[4] = 1e300, -1e300
	got, err := Evaluate(context.Background(), p, tanh{}, dataset.Matrix(x, y))
	if err != nil {
		t.Fatal(err)
	}
	bins, inside := make([]float64, 10), make([]int, 4)
	for r := range n {
		m := mixture{make([]float64, 3), make([]float64, 3), p.Sigma}
		_, m.p, _, _ = naive(p, x.RawRowView(r), 0)
		for i := range 3 {
			m.mean[i] = math.Tanh(mat.Dot(x.RowView(r), mat.NewVecDense(2, p.Regressor(i))) + p.RegressorIntercepts[i])
		}
		u := mixtureCDF(m, y[r])
		bins[min(int(10*u), 9)]++
		for i, level := range []float64{0.5, 0.8, 0.9, 0.95} {
			if math.Abs(u-0.5) <= level/2 {
				inside[i]++
			}
		}
	}
	if diff := cmp.Diff(bins, got.PITHistogram); diff != "" {
		t.Error(diff)
	}
	for i, c := range got.Calibration {
		if c.Level != []float64{0.5, 0.8, 0.9, 0.95}[i] || c.Coverage != float64(inside[i])/n {
			t.Errorf("coverage %+v, want %d of %d", c, inside[i], n)
		}
	}
}

func BenchmarkIntervals(b *testing.B) {
	p, x, y := randomModel(model.BlockRows)
	data, err := dataset.Load(context.Background(), dataset.Matrix(x, y))
	if err != nil {
		b.Fatal(err)
	}
	predictor := NewPredictor(p, tanh{}, "")
	pred, err := predictor.Predict(context.Background(), &data.Blocks[0])
	if err != nil {
		b.Fatal(err)
	}
	lower, upper := make([]float64, pred.N), make([]float64, pred.N)
	for b.Loop() {
		if err := predictor.Intervals(lower, upper, pred, 0.9); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(pred.N), "ns/row")
}
