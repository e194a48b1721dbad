package host

import (
	"flag"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/sdk"
)

// coverageSets is how many data sets of each cell the coverage of confidence
// intervals is counted over. The table of docs/studies/inference.md is
//
//	go test ./host -run TestConfidenceIntervalsCover -coveragesets 1000 -v
var coverageSets = flag.Int("coveragesets", 50, "data sets per cell of the coverage of confidence intervals")

var coverageCells = []cell{
	{identity.Family, nil, 2, 10, 2000, 0.05, sample.Paper},
	{identity.Family, nil, 2, 10, 2000, 0.5, sample.Paper},
	{relu.Family, nil, 2, 10, 2000, 0.05, sample.Paper},
	{relu.Family, nil, 2, 10, 2000, 0.5, sample.Paper},
}

// TestConfidenceIntervalsCover: over data sets of n = 2,000 rows the 95 %
// intervals cover the truth in 93 to 97 %, averaged over each block of parameters. They
// are those of the maximum that a climb from the truth finds, where default fits end
// (TestDefaultFitReachesTheOptimum), and no transform of the moments has a part in it: the
// polynomial one takes the least; over few data sets, within 4.5 standard errors of 95 %. The
// standard error is that of the average over data sets, and at least that of
// independent intervals, so that a run of hits is not taken for certainty. Coverage
// lies within 1.9 standard errors of 95 % at the default number of data sets, see
// docs/studies/inference.md: one of the 12 blocks would fail in fewer than one run in 100,
// and the seeds are fixed.
func TestConfidenceIntervalsCover(t *testing.T) {
	testslow.Mark(t)
	for _, c := range coverageCells {
		t.Run(c.String(), func(t *testing.T) {
			shares := coverageOf(t, c, *coverageSets)
			for _, block := range []struct {
				name      string
				intervals int
			}{{"regressors", c.k * c.d}, {"gating", (c.k - 1) * c.d}, {"sigma", 1}} {
				v := shares[block.name]
				mean := stat.Mean(v, nil)
				se := math.Sqrt(max(stat.Variance(v, nil), 0.95*0.05/float64(block.intervals)) / float64(len(v)))
				t.Logf("%-10s %.4f ± %.4f", block.name, mean, se)
				if math.Abs(mean-0.95) > max(0.02, 4.5*se) {
					t.Errorf("%s: coverage %.4f ± %.4f, want 0.93 to 0.97", block.name, mean, se)
				}
			}
		})
	}
}

// coverageOf returns for each block of parameters the share of its 95 % intervals
// that cover the truth, data set by data set.
func coverageOf(t *testing.T, c cell, sets int) map[string][]float64 {
	t.Helper()
	type shares struct{ regressors, gating, sigma float64 }
	found := make([]shares, sets)
	var wg sync.WaitGroup
	slots := make(chan struct{}, model.Workers(0))
	for i := range found {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			act, src, truth := c.draw(t, uint64(i+1))
			m, err := Fit(t.Context(), act, src, Config{K: c.k, Threads: 1, Method: Auto{Starts: 1}, Start: truth.Clone(), Transform: Polynomial, unjudged: true})
			if err != nil || m.StandardErrors == nil {
				t.Errorf("data set %d: no standard errors: %v", i+1, err)
				return
			}
			p := m.Params()
			truth = labelledAs(truth, p)
			s := m.StandardErrors
			sigma := 0.0
			if in := s.SigmaInterval[0]; in[0] <= truth.Sigma[0] && truth.Sigma[0] <= in[1] {
				sigma = 1
			}
			found[i] = shares{
				covered(p.Regressors, s.Regressors, truth.Regressors),
				covered(p.Gating, s.Gating, truth.Gating),
				sigma,
			}
		})
	}
	wg.Wait()
	out := make(map[string][]float64)
	for _, f := range found {
		out["regressors"] = append(out["regressors"], f.regressors)
		out["gating"] = append(out["gating"], f.gating)
		out["sigma"] = append(out["sigma"], f.sigma)
	}
	return out
}

// labelledAs returns the truth with its experts in the estimate's order.
func labelledAs(truth, est *model.Params) *model.Params {
	_, perm := metric.Ereg(est, truth)
	inverse := make([]int, len(perm))
	for i, j := range perm {
		inverse[j] = i
	}
	return truth.Relabel(inverse)
}

// covered returns the share of estimates whose 95 % interval has the truth in
// it.
func covered(estimates []float64, errors [][]float64, truth []float64) float64 {
	hits, at := 0.0, 0
	for _, row := range errors {
		for _, se := range row {
			if lo, hi := infer.Interval(estimates[at], se, 0.95); lo <= truth[at] && truth[at] <= hi {
				hits++
			}
			at++
		}
	}
	return hits / float64(at)
}

// TestPredictionIntervalsCover: on 20,000 rows that were not fitted to, the
// intervals of a fit to 2,000 rows cover y within 2 points of their level. The
// standard error of a share is below 0.0036: by chance alone 2 points are missed
// in fewer than one run in ten million.
func TestPredictionIntervalsCover(t *testing.T) {
	testslow.Mark(t)
	for _, c := range coverageCells {
		act, src, _ := c.draw(t, 1)
		m, err := Fit(t.Context(), act, src, Config{K: c.k})
		if err != nil {
			t.Fatal(err)
		}
		held := c
		held.n = 20000
		_, rows, _ := held.draw(t, 999)
		e, err := predict.Evaluate(t.Context(), m.Params(), act, rows)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range e.Calibration {
			inside := insideShare(t, m, act, rows, i.Level)
			if math.Abs(inside-i.Coverage) > 1e-4 { // a row at the very end of an interval
				t.Errorf("%s: %v of the rows are inside the intervals, %v by F(y|x)", c, inside, i.Coverage)
			}
			if math.Abs(inside-i.Level) > 0.02 {
				t.Errorf("%s: the interval of level %v covers %v", c, i.Level, inside)
			}
		}
	}
}

// TestPredictionIntervalsOfFewRows: the intervals of level .95 of fits to 120 rows, of 16 parameters, hold as much as they
// say of rows that were not fitted to, where they take in that the parameters are estimates; without it they hold
// less. ReLU, of whose coefficients half of the rows say nothing, is in studies alone, and falls short. docs/studies/inference.md has
// what it prints over 200 data sets, a quarter of the flag's:
//
//	go test ./host -run TestPredictionIntervalsOfFewRows -coveragesets 800 -v -timeout 60m
func TestPredictionIntervalsOfFewRows(t *testing.T) {
	testslow.Mark(t)
	for _, c := range []cell{
		{identity.Family, nil, 2, 5, 120, 0.5, sample.Paper},
		{identity.Family, nil, 2, 5, 1200, 0.5, sample.Paper},
		{relu.Family, nil, 2, 5, 120, 0.5, sample.Paper},
		{relu.Family, nil, 2, 5, 1200, 0.5, sample.Paper},
	} {
		if c.family.Name != "identity" && *coverageSets <= 50 {
			continue
		}
		t.Run(c.String(), func(t *testing.T) {
			var plain, with []float64
			for seed := range *coverageSets / 4 {
				act, src, truth := c.draw(t, uint64(7001+seed))
				m, err := Fit(t.Context(), act, src, Config{K: c.k, Threads: 1, Method: Auto{Starts: 1}, Start: truth.Clone(), Transform: Polynomial})
				if err != nil {
					t.Fatal(err)
				}
				if m.Covariance == nil {
					continue
				}
				rows := fresh(t, truth, act, 400, uint64(seed))
				without, err := predict.Evaluate(t.Context(), m.Params(), act, rows)
				if err != nil {
					t.Fatal(err)
				}
				e, err := predict.New(m, act).Evaluate(t.Context(), rows)
				if err != nil {
					t.Fatal(err)
				}
				plain, with = append(plain, without.Calibration[3].Coverage), append(with, e.Calibration[3].Coverage)
			}
			mean, se := stat.Mean(with, nil), stat.StdDev(with, nil)/math.Sqrt(float64(len(with)))
			t.Logf("%s: of %d fits the 95 %% intervals hold %.4f ± %.4f, with the parameters as they are %.4f", c, len(with), mean, se, stat.Mean(plain, nil))
			// 1.5 points for what is not of first order, and four standard errors.
			if c.family.Name == "identity" && math.Abs(mean-0.95) > 0.015+4*se {
				t.Errorf("%s: the intervals hold %.4f ± %.4f, want 0.95", c, mean, se)
			}
			if c.n == 120 && !(mean > stat.Mean(plain, nil)+0.01) {
				t.Errorf("%s: the intervals hold %.4f, no more than %.4f of those that take the parameters as they are", c, mean, stat.Mean(plain, nil))
			}
		})
	}
}

// fresh are rows of a mixture.
func fresh(t *testing.T, truth *model.Params, act sdk.Activation, n int, seed uint64) dataset.Source {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 91))
	x, y := mat.NewDense(n, truth.D, nil), make([]float64, n)
	for r := range n {
		row := x.RawRowView(r)
		for j := range row {
			row[j] = rng.NormFloat64()
		}
		z := expertOf(truth, row, rng.Float64())
		mean := []float64{floats.Dot(truth.Regressor(z), row)}
		if err := act.Eval(t.Context(), mean, mean); err != nil {
			t.Fatal(err)
		}
		y[r] = mean[0] + truth.SigmaOf(z)*rng.NormFloat64()
	}
	return dataset.Matrix(x, y)
}

// insideShare is the share of rows with y between the columns lower and upper.
func insideShare(t *testing.T, m *fitted.Model, act model.Activation, rows dataset.Source, level float64) float64 {
	t.Helper()
	var y, lower, upper []float64
	collect := func(b *model.Block) error { y = append(y, b.Y...); return nil }
	if err := rows.Read(t.Context(), collect); err != nil {
		t.Fatal(err)
	}
	err := predict.Predictions(m.Params(), act, rows, predict.Extras{Interval: level}).Read(t.Context(), func(b *model.Block) error {
		columns := len(b.X) / b.N
		lower, upper = append(lower, b.Col(columns-2)...), append(upper, b.Col(columns-1)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	inside := 0
	for r := range y {
		if lower[r] <= y[r] && y[r] <= upper[r] {
			inside++
		}
	}
	return float64(inside) / float64(len(y))
}

// TestRobustCoversUnequalNoise: where the noise grows with |x1| as 0.05·|x1|, the
// coefficients of x1 vary √3 times as much as under equal noise. Intervals from the
// observed information then cover 2Φ(1.96/√3) − 1 = 0.74, those of the sandwich
// 0.95. Bounds four standard errors off those values, 0.035 and 0.017 over
// 80 data sets of two coefficients each: one false alarm in 10,000 runs. The
// sandwich's is widened by 0.02 for its own known lowness at small n.
func TestRobustCoversUnequalNoise(t *testing.T) {
	testslow.Mark(t)
	const sets = 80
	var observed, robust float64
	for seed := range uint64(sets) {
		act, src, truth := cell{identity.Family, nil, 2, 5, 1000, 0, sample.Paper}.draw(t, seed+1)
		data, err := dataset.Load(t.Context(), src)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(seed, 77))
		x, y := mat.NewDense(data.N, data.D, nil), make([]float64, 0, data.N)
		for _, b := range data.Blocks {
			for r := range b.N {
				for j := range data.D {
					x.Set(len(y), j, b.Col(j)[r])
				}
				y = append(y, b.Y[r]+0.05*math.Abs(b.Col(0)[r])*rng.NormFloat64())
			}
		}
		start := truth.Clone()
		start.Sigma[0] = 0.05
		noisy := dataset.Matrix(x, y)
		_, _, _, m := fitInSteps(t, act, noisy, Config{K: 2, Method: Auto{Starts: 1}, Start: start, Errors: []ErrorKind{Robust}, unjudged: true})
		if m.StandardErrors == nil {
			t.Fatal("no standard errors")
		}
		p := m.Params()
		if data, err = dataset.Load(t.Context(), noisy); err != nil {
			t.Fatal(err)
		}
		information, err := infer.Estimate(t.Context(), loss.NewLikelihood(data, act, p, loss.All, 0), p, infer.Observed, nil)
		if err != nil {
			t.Fatal(err)
		}
		want, errors := labelledAs(truth, p), information.Errors(p)
		for i := range 2 {
			of := func(errors []float64) float64 {
				return covered(p.Regressor(i)[:1], [][]float64{errors[:1]}, want.Regressor(i)[:1])
			}
			observed += of(errors.Regressor(i)) / (2 * sets)
			robust += of(m.StandardErrors.Regressors[i]) / (2 * sets)
		}
	}
	t.Logf("observed %.3f, robust %.3f", observed, robust)
	if observed > 0.74+4*0.035 || robust < 0.95-0.02-4*0.017 {
		t.Errorf("coverage of the coefficients of x1: observed %.3f, robust %.3f; want about 0.74 and 0.95", observed, robust)
	}
}
