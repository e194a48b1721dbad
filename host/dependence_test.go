package host

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
	tanhplugin "github.com/gatedlearning/moe/plugins/tanh"
	"github.com/gatedlearning/moe/sdk"
)

// hacSets is how many data sets the standard errors for dependent rows are compared over;
// docs/studies/inference.md has what this prints:
//
//	go test ./host -run TestDependentRows -v
var hacSets = flag.Int("hacsets", 12, "data sets of the study of standard errors for rows that follow each other")

// TestShortSeries: of 1,500 rows whose features and noise are autoregressions with coefficient .8 the intervals
// for dependent rows hold nearly what they say, and of rows in no order no less than those for independent
// rows. docs/studies/inference.md has what it prints over 200 data sets:
//
//	go test ./host -run TestShortSeries -hacsets 200 -v
func TestShortSeries(t *testing.T) {
	testslow.Mark(t)
	truth := model.NewParams(2, 2)
	copy(truth.Regressors, []float64{1, 0, -0.6, 0.8})
	copy(truth.Gating, []float64{0, 2})
	truth.Sigma[0] = 0.1
	for _, c := range []struct {
		n       int
		rho     float64
		least   float64
		studied bool // in longer runs alone
	}{{1500, 0.8, 0.925, false}, {1500, 0, 0.93, false}, {1500, 0.5, 0.925, true}, {500, 0.8, 0.915, true}} {
		if c.studied && *hacSets <= 12 {
			continue
		}
		var d dependence
		for seed := range *hacSets {
			m, err := Fit(t.Context(), activation(identity.Family, nil), correlatedRows(truth, c.n, c.rho, uint64(9001+seed)),
				Config{K: 2, Method: Auto{Starts: 1}, Start: truth.Clone(), Transform: Polynomial, Errors: []ErrorKind{Dependent}})
			if err != nil {
				t.Fatal(err)
			}
			d.add(m, truth)
		}
		t.Logf("AR(%v), n = %d", c.rho, c.n)
		d.report(t)
		// Intervals of one fit hang together, as if there were half as many: four standard errors
		// of their share, one false alarm in 30,000.
		share, n := float64(d.hac.in)/float64(d.hac.of), float64(d.hac.of)/2
		if slack := 4 * math.Sqrt(0.95*0.05/n); share < min(c.least, 0.95-slack) || share > max(0.97, 0.95+slack) {
			t.Errorf("AR(%v), n = %d: the intervals for dependent rows hold %v", c.rho, c.n, d.hac)
		}
	}
}

// correlatedRows are rows of two features around two linear experts, where the features
// and the noise are autoregressions of order 1 with this coefficient.
func correlatedRows(p *model.Params, n int, rho float64, seed uint64) dataset.Source {
	rng := rand.New(rand.NewPCG(seed, 0))
	x, y, noise := mat.NewDense(n, p.D, nil), make([]float64, n), rng.NormFloat64()
	step := func(v float64) float64 { return rho*v + math.Sqrt(1-rho*rho)*rng.NormFloat64() }
	for r := range n {
		row := x.RawRowView(r)
		for j := range row {
			if r == 0 {
				row[j] = rng.NormFloat64()
			} else {
				row[j] = step(x.At(r-1, j))
			}
		}
		z := expertOf(p, row, rng.Float64())
		for j, a := range p.Regressor(z) {
			y[r] += a * row[j]
		}
		y[r] += p.Sigma[0] * noise
		noise = step(noise)
	}
	return dataset.Matrix(x, y)
}

// dependence is what the errors of regressors come to in standard errors of two kinds.
type dependence struct {
	plain, hac intervals
	squares    [2]float64 // of errors over standard errors, plain and hac
	ratio      float64    // of the standard errors, summed
}

func (d *dependence) add(m *fitted.Model, truth *model.Params) {
	_, perm := metric.EregOf(m.Params(), truth, stated.Kinds(m.Leaves))
	for i, j := range perm {
		for at, a := range m.Regressors[i] {
			plain, hac := m.StandardErrors.Regressors[i][at], m.HAC.StandardErrors.Regressors[i][at]
			off := a - truth.Regressor(j)[at]
			d.plain.count(a, plain, truth.Regressor(j)[at])
			d.hac.within(a, m.HAC.CriticalValue*hac, truth.Regressor(j)[at])
			d.squares[0] += off * off / (plain * plain)
			d.squares[1] += off * off / (hac * hac)
			d.ratio += hac / plain
		}
	}
}

// TestDependentRows: where features and noise go on from row to row the standard errors of
// independent rows are too small, and those with the long-run covariance are about right;
// along a trajectory of a gated recurrence, whose noise is new in every row, both are.
func TestDependentRows(t *testing.T) {
	testslow.Mark(t)
	fit := func(act sdk.Activation, src dataset.Source, cfg Config) *fitted.Model {
		t.Helper()
		cfg.Errors = []ErrorKind{Dependent}
		m, err := Fit(t.Context(), act, src, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if m.HAC == nil || m.StandardErrors == nil {
			t.Fatalf("no standard errors: %v %v", m.Fit.Notes, m.Fit.Warnings)
		}
		return m
	}
	id, th := activation(identity.Family, nil), activation(tanhplugin.Family, nil)
	t.Run("autoregression", func(t *testing.T) {
		var d dependence
		truth := model.NewParams(2, 2)
		copy(truth.Regressors, []float64{1, 0, -0.6, 0.8})
		copy(truth.Gating, []float64{0, 2})
		truth.Sigma[0] = 0.1
		for seed := range *hacSets {
			d.add(fit(id, correlatedRows(truth, 3000, 0.9, uint64(1+seed)), Config{K: 2}), truth)
		}
		d.report(t)
		n := float64(d.hac.of)
		// The mean of n squares of N(0, 1) has the variance 2/n, up to 4 times that where those
		// of a fit hang together. A kernel of finite bandwidth leaves something out: a fifth, say.
		bound := 4 * math.Sqrt(8/n)
		if got := d.squares[1] / n; got < 1-min(bound, 0.8) || got > 1.5+bound {
			t.Errorf("mean square of the errors in standard errors for dependent rows: %.2f", got)
		}
		if got := d.squares[0] / n; got < 2 {
			t.Errorf("mean square of the errors in standard errors for independent rows: %.2f, want above 2", got)
		}
	})
	t.Run("recurrence", func(t *testing.T) {
		var d dependence
		shape, err := model.ParseHierarchy("2x(1,2)")
		if err != nil {
			t.Fatal(err)
		}
		for seed := range max(*hacSets/4, 2) {
			s, err := sample.New(sample.Config{
				Leaves: model.PerExpert{id, th, th}, Tree: shape, K: 3, D: 4, N: 2000, Sigma: 0.1,
				Design: sample.Separated, Recurrent: true, Seed: uint64(1 + seed),
			})
			if err != nil {
				t.Fatal(err)
			}
			d.add(fit(nil, s, Config{K: 3, Hierarchy: shape, Leaves: []sdk.Activation{id, th, th}}), s.Truth)
		}
		d.report(t)
		// The scores are uncorrelated: the bandwidth is 1 or 2 rows, and a sandwich of so many
		// rows is within a tenth of the information.
		if ratio := d.ratio / float64(d.hac.of); math.Abs(ratio-1) > 0.1 {
			t.Errorf("standard errors for dependent rows are %.2f times the others, want about 1", ratio)
		}
	})
}

func (d *dependence) report(t *testing.T) {
	n := float64(d.hac.of)
	t.Logf("95 %% intervals hold %v of regressors for independent rows, %v for dependent; mean squares %.2f and %.2f; ratio %.2f", d.plain, d.hac, d.squares[0]/n, d.squares[1]/n, d.ratio/n)
}
