package host

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	tanhs "github.com/gatedlearning/moe/plugins/tanh"
	"github.com/gatedlearning/moe/sdk"
)

// inOddUnits returns the rows of a draw with features shifted and scaled.
func inOddUnits(t *testing.T, src dataset.Source) dataset.Source {
	t.Helper()
	data, err := dataset.Load(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	x, y := mat.NewDense(data.N, data.D, nil), make([]float64, 0, data.N)
	for _, b := range data.Blocks {
		for r := range b.N {
			for j := range data.D {
				x.Set(len(y), j, 10*float64(j+1)+b.Col(j)[r]*math.Pow(10, float64(j-1)))
			}
			y = append(y, b.Y[r])
		}
	}
	return dataset.Matrix(x, y)
}

// TestErrorsInTheUsersUnits: the fit works in standardised units and orders the
// experts at the end; the covariance must be that of the parameters in the
// file, computed from the data as they are.
func TestErrorsInTheUsersUnits(t *testing.T) {
	testslow.Mark(t)
	for _, c := range []struct {
		family sdk.Family
		cfg    Config
		free   loss.Free
	}{
		{identity.Family, Config{K: 3, Intercepts: BothIntercepts, Noise: PerExpert{}}, loss.All},
		{sigmoid.Family, Config{K: 2, Intercepts: BothIntercepts, Errors: []ErrorKind{Robust}}, loss.All},
		{identity.Family, Config{K: 2, Intercepts: BothIntercepts, Gate: Constant{}}, loss.Free{Regressors: true, Gating: true, Sigma: true, GateColumns: []int{}}},
		{identity.Family, Config{K: 2, Intercepts: BothIntercepts, Noise: Shared{Sigma: 0.3}}, loss.Free{Regressors: true, Gating: true}},
		{identity.Family, Config{K: 3}, loss.All},
		{tanhs.Family, Config{K: 2, Output: SharedScale}, loss.All},
		{tanhs.Family, Config{K: 2, Output: PerExpertScale, Errors: []ErrorKind{Robust}}, loss.All},
	} {
		act, draw, _ := cell{c.family, nil, c.cfg.K, 6, 1500, 0.3, sample.Random}.draw(t, 3)
		src := inOddUnits(t, draw)
		c.cfg.Method = EM{Starts: 2} // any maximum will do
		m, err := Fit(t.Context(), act, src, c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		data, err := dataset.Load(t.Context(), src)
		if err != nil {
			t.Fatal(err)
		}
		if m.StandardErrors == nil || m.Covariance == nil {
			t.Fatalf("%+v: no standard errors: %v", c.cfg, m.Fit.Notes)
		}
		p := m.Params()
		kind := infer.Kind(m.StandardErrors.Kind)
		want, err := infer.Estimate(t.Context(), loss.NewLikelihood(data, act, p, c.free, 1), p, kind, nil)
		if err != nil {
			t.Fatal(err)
		}
		if (kind == infer.Robust) != c.cfg.wants(Robust) {
			t.Errorf("%+v: kind %s", c.cfg, kind)
		}
		worst := 0.0
		for i := range want.Parameters {
			for j := range want.Parameters {
				scale := math.Sqrt(want.Matrix.At(i, i) * want.Matrix.At(j, j))
				worst = max(worst, math.Abs(m.Covariance.Matrix[i][j]-want.Matrix.At(i, j))/scale)
			}
		}
		// In these units the information's condition number is about 1e8.
		if worst > 1e-6 {
			t.Errorf("%+v: a covariance is off by %.2g of its scale", c.cfg, worst)
		}
		if got, w := m.StandardErrors.Regressors[1][0], want.Errors(p).Regressor(1)[0]; math.Abs(got/w-1) > 1e-6 {
			t.Errorf("%+v: standard error %v, want %v", c.cfg, got, w)
		}
		if (m.StandardErrors.Sigma == nil) != (!c.free.Sigma) {
			t.Errorf("%+v: standard error of sigma %v", c.cfg, m.StandardErrors.Sigma)
		}
	}
}

// TestNoErrorsWithoutMaximum: a fit that does not maximise the likelihood has
// none, and says so.
func TestNoErrorsWithoutMaximum(t *testing.T) {
	act, src, _ := cell{identity.Family, nil, 2, 6, 1000, 0.3, sample.Paper}.draw(t, 1)
	m, err := Fit(t.Context(), act, src, Config{K: 2, Method: Moments{}})
	if err != nil {
		t.Fatal(err)
	}
	if m.StandardErrors != nil || m.Covariance != nil || !strings.Contains(strings.Join(m.Fit.Notes, "\n"), "no standard errors: ") {
		t.Errorf("standard errors %v, notes %v", m.StandardErrors, m.Fit.Notes)
	}
	// Noise that is not there: sigma ends on its floor.
	rng := rand.New(rand.NewPCG(1, 1))
	x, y := mat.NewDense(300, 2, nil), make([]float64, 300)
	for i := range y {
		x.SetRow(i, []float64{rng.NormFloat64(), rng.NormFloat64()})
		y[i] = x.At(i, 0) + 2*x.At(i, 1)
	}
	m, err = Fit(t.Context(), act, dataset.Matrix(x, y), Config{K: 1})
	if err != nil {
		t.Fatal(err)
	}
	if m.StandardErrors != nil {
		t.Errorf("noiseless data have standard errors %+v", *m.StandardErrors)
	}
}

// TestCorrectedNoiseInItsInterval: with many coefficients the likelihood's maximum
// of σ lies below the interval; the corrected estimate, which is printed with it,
// lies in it always, and near the truth.
func TestCorrectedNoiseInItsInterval(t *testing.T) {
	testslow.Mark(t)
	missed := 0
	for _, c := range []struct {
		k, d, n int
		cfg     Config
	}{
		{2, 100, 2000, Config{}}, {3, 5, 500, Config{Intercepts: BothIntercepts, Noise: PerExpert{}}}, {1, 60, 600, Config{}},
	} {
		act, src, _ := cell{identity.Family, nil, c.k, c.d, c.n, 0.05, sample.Random}.draw(t, 2)
		c.cfg.K = c.k
		m, err := Fit(t.Context(), act, src, c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		s := m.StandardErrors
		if s == nil || len(s.SigmaCorrected) != len(m.Sigma) || len(s.SigmaInterval) != len(m.Sigma) {
			t.Fatalf("k = %d, d = %d: standard errors %+v", c.k, c.d, s)
		}
		for i, in := range s.SigmaInterval {
			v := s.SigmaCorrected[i]
			if !(in[0] < v && v < in[1] && m.Sigma[i] < v) {
				t.Errorf("k = %d, d = %d: sigma %v, corrected %v, interval %v", c.k, c.d, m.Sigma[i], v, in)
			}
			if m.Sigma[i] < in[0] {
				missed++
			}
			// Four standard errors, and what experts that share rows lose besides.
			if math.Abs(v-0.05) > 4*s.Sigma[i]+0.01*0.05 {
				t.Errorf("k = %d, d = %d: corrected sigma %v ± %v, want 0.05", c.k, c.d, v, s.Sigma[i])
			}
		}
	}
	if missed == 0 {
		t.Error("no interval leaves the maximum out: the test shows nothing")
	}
}
