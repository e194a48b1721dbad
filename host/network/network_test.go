package network

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/sample"
	_ "github.com/gatedlearning/moe/internal/testheap"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver/properties"
)

var (
	relu      = sdk.Func{Name: "relu", G: func(z float64) float64 { return max(z, 0) }, DG: func(z float64) float64 { return slope(z, 0) }, Kinks: []float64{0}}
	leaky     = sdk.Func{Name: "leaky", G: func(z float64) float64 { return max(z, 0.1*z) }, DG: func(z float64) float64 { return slope(z, 0.1) }, Kinks: []float64{0}}
	squared   = sdk.Func{Name: "squared-relu", G: func(z float64) float64 { return max(z, 0) * max(z, 0) }, DG: func(z float64) float64 { return 2 * max(z, 0) }, Kinks: []float64{0}}
	tanh      = sdk.Func{Name: "tanh", G: math.Tanh, DG: func(z float64) float64 { t := math.Tanh(z); return 1 - t*t }}
	softplus  = sdk.Func{Name: "softplus", G: func(z float64) float64 { return math.Log1p(math.Exp(-math.Abs(z))) + max(z, 0) }, DG: func(z float64) float64 { return 1 / (1 + math.Exp(-z)) }}
	linear    = sdk.Func{Name: "linear", G: func(z float64) float64 { return z }, DG: func(float64) float64 { return 1 }}
	quadratic = sdk.Func{Name: "quadratic", G: func(z float64) float64 { return z * z }, DG: func(z float64) float64 { return 2 * z }}
)

func slope(z, below float64) float64 {
	if z > 0 {
		return 1
	}
	return below
}

// draw returns rows of a random network.
func draw(t testing.TB, act sdk.Activation, c sample.NetworkConfig) (*model.Network, *model.Data) {
	t.Helper()
	c.Activation = act
	s, err := sample.NewNetwork(c)
	if err != nil {
		t.Fatal(err)
	}
	data, err := dataset.Load(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return s.Truth, data
}

// TestLossByDefinition: f on three rows, one of weight 2, written out.
func TestLossByDefinition(t *testing.T) {
	x, y, w := mat.NewDense(3, 2, []float64{1, 2, -1, 0.5, 0.3, -2}), []float64{1, -1, 0.2}, []float64{1, 2, 0.5}
	data, err := dataset.Load(t.Context(), dataset.WeightedMatrix(x, y, w))
	if err != nil {
		t.Fatal(err)
	}
	theta, v := []float64{0.5, 1, -1, 0.2}, []float64{2, -1}
	l, err := NewLoss(softplus, data, 2, v, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := 0.0
	for r := range y {
		f := 0.0
		for i := range v {
			f += v[i] * softplus.G(theta[2*i]*x.At(r, 0)+theta[2*i+1]*x.At(r, 1))
		}
		want += w[r] * (f - y[r]) * (f - y[r]) / (2 * 3.5)
	}
	if got, err := l.Value(t.Context(), theta); err != nil || math.Abs(got-want) > 1e-15 {
		t.Errorf("f = %v, want %v (%v)", got, want, err)
	}
}

// TestLossByDifferences: the gradient against differences of f away from the
// optimum; the curvature against differences of the gradient at the truth without
// noise, where Gauss–Newton is exact. With v given and free, with weights and
// without.
func TestLossByDifferences(t *testing.T) {
	for _, free := range []bool{false, true} {
		for _, weighted := range []bool{false, true} {
			truth, data := draw(t, tanh, sample.NetworkConfig{K: 2, D: 3, N: 300, Condition: 2, Output: []float64{1.5, -0.7}, Seed: 3})
			if free { // the rows of the truth are then unit vectors: other targets for the same X
				for i := range truth.K {
					floats.Scale(1/floats.Norm(truth.Unit(i), 2), truth.Unit(i))
				}
			}
			units := make([]float64, 2*model.BlockRows)
			for i := range data.Blocks {
				b := &data.Blocks[i]
				if err := truth.Mean(t.Context(), b.Y, units, tanh, b); err != nil {
					t.Fatal(err)
				}
				if weighted {
					b.Role[model.Weights] = make([]float64, b.N)
					for r := range b.Role[model.Weights] {
						b.Role[model.Weights][r] = float64(r % 3)
					}
				}
			}
			v := truth.Output
			if free {
				v = nil
			}
			l, err := NewLoss(tanh, data, 2, v, 2)
			if err != nil {
				t.Fatal(err)
			}
			compareDerivatives(t, l, l.Theta(truth))
		}
	}
}

func compareDerivatives(t *testing.T, l *Loss, truth []float64) {
	t.Helper()
	ctx, size := t.Context(), l.Dim()
	away := append([]float64(nil), truth...)
	for i := range away {
		away[i] += 0.3 * float64(i%3-1)
	}
	const h = 1e-5 // central differences: h² and 1e−16/h
	grad, plus, minus := make([]float64, size), make([]float64, size), make([]float64, size)
	if _, err := l.Grad(ctx, grad, away); err != nil {
		t.Fatal(err)
	}
	for i := range size {
		at := append([]float64(nil), away...)
		at[i] += h
		up, _ := l.Value(ctx, at)
		at[i] -= 2 * h
		down, _ := l.Value(ctx, at)
		if want := (up - down) / (2 * h); math.Abs(grad[i]-want) > 1e-9 {
			t.Errorf("gradient %d = %v, by differences %v", i, grad[i], want)
		}
	}
	curvature := mat.NewSymDense(size, nil)
	if v, err := l.Hessian(ctx, curvature, grad, truth); err != nil || v > 1e-28 || floats.Norm(grad, 2) > 1e-14 {
		t.Fatalf("at the truth f = %v with gradient %v (%v)", v, grad, err)
	}
	for i := range size {
		at := append([]float64(nil), truth...)
		at[i] += h
		_, _ = l.Grad(ctx, plus, at)
		at[i] -= 2 * h
		_, _ = l.Grad(ctx, minus, at)
		for j := range size {
			if want := (plus[j] - minus[j]) / (2 * h); math.Abs(curvature.At(i, j)-want) > 1e-8 {
				t.Errorf("curvature %d,%d = %v, by differences %v", i, j, curvature.At(i, j), want)
			}
		}
	}
}

// TestPopulationHessian: closed forms for φ = z² (Isserlis), and the mean over
// rows for the others within five standard errors.
func TestPopulationHessian(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	n := model.NewNetwork(3, 4)
	for i := range n.Weights {
		n.Weights[i] = rng.NormFloat64()
	}
	copy(n.Output, []float64{1, -2, 0.5})
	h, bound, err := PopulationHessian(t.Context(), quadratic, n)
	if err != nil || bound > 1e-9 {
		t.Fatalf("error %v, bound %v", err, bound)
	}
	for i := range n.K {
		for j := range n.K {
			w, u := n.Unit(i), n.Unit(j)
			for a := range n.D {
				for b := range n.D {
					want := w[a]*u[b] + w[b]*u[a]
					if a == b {
						want += floats.Dot(w, u)
					}
					want *= 4 * n.Output[i] * n.Output[j]
					if got := h.At(i*n.D+a, j*n.D+b); math.Abs(got-want) > 1e-10 {
						t.Errorf("z²: H(%d,%d)(%d,%d) = %v, want %v", i, j, a, b, got, want)
					}
				}
			}
		}
	}
	for _, act := range []sdk.Func{relu, tanh, softplus, leaky} {
		h, _, err := PopulationHessian(t.Context(), act, n)
		if err != nil {
			t.Fatal(err)
		}
		const rows = 40000
		x, y := mat.NewDense(rows, n.D, nil), make([]float64, rows)
		for i := range rows {
			for j := range n.D {
				x.Set(i, j, rng.NormFloat64())
			}
		}
		data, err := dataset.Load(t.Context(), dataset.Matrix(x, y))
		if err != nil {
			t.Fatal(err)
		}
		l, err := NewLoss(act, data, n.K, n.Output, 2)
		if err != nil {
			t.Fatal(err)
		}
		got := mat.NewSymDense(l.Dim(), nil)
		if _, err := l.Hessian(t.Context(), got, make([]float64, l.Dim()), n.Weights); err != nil {
			t.Fatal(err)
		}
		for i := range l.Dim() {
			for j := i; j < l.Dim(); j++ {
				// |φ′| ≤ 1: a term is at most |v_i·v_j·x_a·x_b|, of sd below 2|v_i·v_j|.
				se := 2 * math.Abs(n.Output[i/n.D]*n.Output[j/n.D]) / math.Sqrt(rows)
				if diff := math.Abs(got.At(i, j) - h.At(i, j)); diff > 5*se {
					t.Errorf("%s: H %d,%d is %v, on rows %v", act.Name, i, j, h.At(i, j), got.At(i, j))
				}
			}
		}
	}
}

// TestLeastEigenvalueIsRho: at W* = I, v = 1 for (leaky) ReLU, as the slides'
// definition of ρ suggests, in any dimension above 1.
func TestLeastEigenvalueIsRho(t *testing.T) {
	for _, act := range []sdk.Func{relu, leaky} {
		rho, _, err := properties.RhoOf(t.Context(), act, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []int{2, 4} {
			h, _, err := PopulationHessian(t.Context(), act, Orthonormal(d))
			if err != nil {
				t.Fatal(err)
			}
			s, err := SpectrumOf(h)
			if err != nil || math.Abs(s.Least()-rho) > 1e-12 {
				t.Errorf("%s, d = %d: least eigenvalue %.15g, ρ(1) = %.15g (%v)", act.Name, d, s.Least(), rho, err)
			}
		}
	}
}

// TestNullSpaces: for φ = z the a with Σ_j a_j = 0, d(d−1) dimensions; for z² the
// antisymmetric ones, d(d−1)/2 (003 slides 10 and 11). Every eigenvector found is
// one of them, and as many are found as there are.
func TestNullSpaces(t *testing.T) {
	for _, d := range []int{2, 4} {
		for _, c := range []struct {
			act  sdk.Func
			want int
		}{{linear, d * (d - 1)}, {quadratic, d * (d - 1) / 2}, {relu, 0}} {
			h, _, err := PopulationHessian(t.Context(), c.act, Orthonormal(d))
			if err != nil {
				t.Fatal(err)
			}
			s, err := SpectrumOf(h)
			if err != nil || s.Null != c.want {
				t.Errorf("%s, d = %d: %d null vectors, want %d (%v)", c.act.Name, d, s.Null, c.want, err)
				continue
			}
			for col := range s.Null {
				a := s.Vector.ColView(col)
				for p := range d {
					sum := 0.0
					for j := range d {
						sum += a.AtVec(j*d + p)
						if both := a.AtVec(j*d+p) + a.AtVec(p*d+j); c.act.Name == "quadratic" && math.Abs(both) > 1e-9 {
							t.Errorf("z², d = %d: a null vector with a_%d%d + a_%d%d = %v", d, j, p, p, j, both)
						}
					}
					if c.act.Name == "linear" && math.Abs(sum) > 1e-9 {
						t.Errorf("z, d = %d: a null vector with Σ_j a_j = %v", d, sum)
					}
				}
			}
		}
	}
}

// TestWeightsOfNothing: a unit without weights has no direction.
func TestWeightsOfNothing(t *testing.T) {
	if _, _, err := PopulationHessian(t.Context(), relu, model.NewNetwork(2, 2)); err == nil {
		t.Error("no error for weights of 0")
	}
}
