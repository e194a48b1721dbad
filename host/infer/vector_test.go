package infer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
)

// vectorRows are n rows of a mixture p of linear experts, in clusters of about ten whose rows follow each other.
func vectorRows(rng *rand.Rand, p *model.VectorParams, n int) *model.Data {
	b := model.Block{N: n, X: make([]float64, n*p.D), Y: make([]float64, n*p.M)}
	for i := range b.X {
		b.X[i] = rng.NormFloat64()
	}
	b.Role[model.Clusters] = make([]float64, n)
	prior, z := make([]float64, p.K*n), make([]float64, p.K*p.M*n)
	p.OfGate().GateLogits(prior, &b)
	p.Predictors(z, &b)
	shared := make([]float64, p.M) // of the rows of a cluster
	for t := range n {
		b.Role[model.Clusters][t] = float64(t / 10)
		i := 0
		if rng.Float64() > 1/(1+math.Exp(prior[n+t]-prior[t])) {
			i = 1
		}
		for c := range p.M {
			if t%10 == 0 {
				shared[c] = rng.NormFloat64()
			}
			b.Y[c*n+t] = z[(i*p.M+c)*n+t] + p.NoiseOf(i).Scale[c]*(0.8*rng.NormFloat64()+0.6*shared[c])
		}
	}
	return &model.Data{N: n, D: p.D, Blocks: []model.Block{b}}
}

// vectorMaximum is the maximum near p of the likelihood of a block of its rows.
func vectorMaximum(t *testing.T, p *model.VectorParams) (*model.Data, *loss.Vector, *model.VectorParams) {
	t.Helper()
	rows := vectorRows(rand.New(rand.NewPCG(71, 2)), p, model.BlockRows)
	l := loss.NewVector(rows, identity{}, p, loss.All, 1)
	r, err := optim.Newton(t.Context(), l, l.Theta(p), optim.Settings{})
	if err != nil || r.Status != optim.Converged {
		t.Fatalf("no maximum: %v, %v", r, err)
	}
	return rows, l, l.Params(r.X)
}

// twoExperts is a mixture of two linear experts with so many targets.
func twoExperts(m int) *model.VectorParams {
	p := model.NewVectorParams(2, 2, m, false)
	for c := range m {
		copy(p.Regressors[2*c:], []float64{2, float64(c)})
		copy(p.Regressors[2*(m+c):], []float64{-2, 1})
		p.Noise[0].Scale[c] = 0.5
	}
	copy(p.Gating, []float64{1, -1})
	return p
}

// none are no parameters that are held.
func none(loss.Parameter) bool { return false }

// TestEstimateVectorOfOneTarget: of one target the covariances are those of [Estimate], of every kind, and so are
// critical values, bandwidths and numbers of clusters.
func TestEstimateVectorOfOneTarget(t *testing.T) {
	rows, l, q := vectorMaximum(t, twoExperts(1))
	one := q.Coordinate(0)
	for _, kind := range []Kind{Observed, Robust, Dependent, Clustered} {
		want, err := Estimate(t.Context(), loss.NewLikelihood(rows, identity{}, one, loss.All, 1), one, kind, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := EstimateVector(t.Context(), l, q, kind, nil, none, nil)
		if err != nil {
			t.Fatal(err)
		}
		// The condition of the information is about 100: 1e−10 is what rounding leaves.
		if !mat.EqualApprox(got.Matrix, want.Matrix, 1e-10) {
			t.Errorf("%s:\n%v\nwant\n%v", kind, mat.Formatted(got.Matrix), mat.Formatted(want.Matrix))
		}
		if got.Critical() != want.Critical() || got.Bandwidth != want.Bandwidth || got.Clusters != want.Clusters {
			t.Errorf("%s: critical value %v, bandwidth %d, %d clusters, want %v, %d, %d", kind, got.Critical(), got.Bandwidth,
				got.Clusters, want.Critical(), want.Bandwidth, want.Clusters)
		}
	}
}

// TestEstimateVectorOfTwoTargets: clusters of every row twice say what the rows once do, robustly, times n/(n−1).
func TestEstimateVectorOfTwoTargets(t *testing.T) {
	rows, l, q := vectorMaximum(t, twoExperts(2))
	want, err := EstimateVector(t.Context(), l, q, Robust, nil, none, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := float64(rows.N)
	want.Matrix.ScaleSym(n/(n-1), want.Matrix)
	for r := range rows.N {
		rows.Blocks[0].Role[model.Clusters][r] = float64(r)
	}
	twice := &model.Data{N: 2 * rows.N, D: rows.D, Blocks: slices.Repeat(rows.Blocks, 2)}
	got, err := EstimateVector(t.Context(), loss.NewVector(twice, identity{}, q, loss.All, 1), q, Clustered, nil, none, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !mat.EqualApprox(got.Matrix, want.Matrix, 1e-12) || got.Clusters != rows.N {
		t.Errorf("%d clusters:\n%v\nwant\n%v", got.Clusters, mat.Formatted(got.Matrix), mat.Formatted(want.Matrix))
	}
}

// TestNoiseFromFactors: the covariance of noise levels and correlations is that of the delta
// method with derivatives by differences.
func TestNoiseFromFactors(t *testing.T) {
	p := model.NewVectorParams(2, 2, 3, true)
	copy(p.Regressors, []float64{1, 0, 0, 1, 1, 1, -1, 0, 0, -1, 1, -1})
	copy(p.Noise[0].Scale, []float64{0.5, 1, 2})
	copy(p.Noise[0].Lower, []float64{0.3, -0.4, 0.5})
	l := loss.NewVector(vectorRows(rand.New(rand.NewPCG(71, 1)), p, 60), identity{}, p, loss.All, 1)
	n := l.Dim()
	c := &Covariance{Parameters: l.Parameters(), Matrix: mat.NewSymDense(n, nil)}
	for i := range n {
		c.Matrix.SetSym(i, i, 1)
	}
	c.noiseFromFactors(p)
	theta := l.Theta(p)
	derived := func(theta []float64) (out []float64) {
		cov := l.Params(theta).NoiseOf(0).Covariance()
		for c := range 3 {
			out = append(out, math.Sqrt(cov.At(c, c)))
		}
		for _, pair := range [][2]int{{1, 0}, {2, 0}, {2, 1}} {
			out = append(out, cov.At(pair[0], pair[1])/out[pair[0]]/out[pair[1]])
		}
		return out
	}
	const step = 1e-5
	jacobian := mat.NewDense(6, 6, nil)
	for j := range 6 {
		up, down := append([]float64(nil), theta...), append([]float64(nil), theta...)
		up[n-6+j] += step
		down[n-6+j] -= step
		above, below := derived(up), derived(down)
		for i := range 6 {
			jacobian.Set(i, j, (above[i]-below[i])/(2*step))
		}
	}
	var want mat.Dense
	want.Mul(jacobian, jacobian.T())
	for i := range 6 {
		for j := range 6 {
			// Truncation of 1e−10 and rounding of 1e−11.
			if got := c.Matrix.At(n-6+i, n-6+j); math.Abs(got-want.At(i, j)) > 1e-8 {
				t.Errorf("entry (%d, %d) is %v, want %v", i, j, got, want.At(i, j))
			}
		}
	}
}
