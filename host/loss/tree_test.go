package loss

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss/losstest"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

func parse(t testing.TB, shape string) model.Hierarchy {
	t.Helper()
	h, err := model.ParseHierarchy(shape)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// treeDensity is log p(y|x) of a row, written out by going down the tree: sum over the
// branches of a gate, each with its softmax probability.
func treeDensity(act model.PerExpert, p *model.Params, x []float64, y float64) float64 {
	var below func(h model.Hierarchy, from int) float64
	below = func(h model.Hierarchy, from int) float64 {
		if len(h.Branches) == 0 {
			z := floats.Dot(p.Regressor(from), x)
			if p.RegressorIntercepts != nil {
				z += p.RegressorIntercepts[from]
			}
			e := (y - act[from].(fn).G(z)) / p.SigmaOf(from)
			return math.Exp(-e*e/2) / (p.SigmaOf(from) * math.Sqrt(2*math.Pi))
		}
		sum, norm := 0.0, 0.0
		for c, b := range h.Branches {
			weight, last := 1.0, from+b.Leaves()-1
			if c < len(h.Branches)-1 {
				eta := floats.Dot(p.Gate(last), x)
				if p.GatingIntercepts != nil {
					eta += p.GatingIntercepts[last]
				}
				weight = math.Exp(eta)
			}
			norm += weight
			sum += weight * below(b, from)
			from = last + 1
		}
		return sum / norm
	}
	return math.Log(below(p.Tree, 0))
}

// TestTrees: the likelihood of parameters with a tree, whose leaves have activations of
// their own, is that of the density written out, and its gradient and information, with a ridge on
// the gates, are its differences.
func TestTrees(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 13))
	for _, shape := range losstest.Trees {
		for _, general := range []bool{false, true} {
			h := parse(t, shape)
			k := h.Leaves()
			act := losstest.Leaves(k)
			p := randomParams(rng, k, 3, 0.7, general)
			p.Tree = h
			data := draw(rng, tanh, p, 500)
			l := NewLikelihood(data, act, p, All, 2)
			name := fmt.Sprintf("%s, general %v", shape, general)

			want, x := 0.0, make([]float64, p.D)
			for _, b := range data.Blocks {
				for r := range b.N {
					for j := range x {
						x[j] = b.Col(j)[r]
					}
					want += treeDensity(act, p, x, b.Y[r])
				}
			}
			if got, err := l.LogLikelihood(t.Context(), p); err != nil || math.Abs(got-want) > 1e-10*math.Abs(want) {
				t.Errorf("%s: log-likelihood %v, want %v, error %v", name, got, want, err)
			}

			// Differences of the gradient with this step are right to 1e−9 but where a row lies
			// within it of a kink of the ReLU: such rows are not drawn here.
			const step, tolerance = 1e-6, 1e-7
			l.PenaliseGate(3)
			theta, dim := l.Theta(p), l.Dim()
			grad, up, down := make([]float64, dim), make([]float64, dim), make([]float64, dim)
			info := mat.NewSymDense(dim, nil)
			if err := l.Information(t.Context(), info, grad, p, []float64{0}); err != nil {
				t.Fatal(err)
			}
			ridge := mat.NewSymDense(dim, nil)
			l.penalty.Hessian(ridge, theta, 1)
			if _, err := l.Grad(t.Context(), grad, theta); err != nil {
				t.Fatal(err)
			}
			for i := range theta {
				at := append([]float64(nil), theta...)
				at[i] += step
				above, _ := l.Grad(t.Context(), up, at)
				at[i] -= 2 * step
				below, _ := l.Grad(t.Context(), down, at)
				if want := (above - below) / (2 * step); !(math.Abs(grad[i]-want) <= tolerance) {
					t.Errorf("%s: entry %d of the gradient is %v, want %v", name, i, grad[i], want)
				}
				for j := range theta {
					want, got := (up[j]-down[j])/(2*step), (info.At(i, j)+ridge.At(i, j))/l.Rows()
					if !(math.Abs(got-want) <= tolerance) {
						t.Errorf("%s: entry (%d, %d) of the information is %v, want %v", name, i, j, got, want)
					}
				}
			}
		}
	}
}

// TestEMStepOfATree: with linear leaves, where the M-step of the experts is exact, no EM
// step lowers the likelihood.
func TestEMStepOfATree(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 13))
	for _, shape := range losstest.Trees {
		h := parse(t, shape)
		p := randomParams(rng, h.Leaves(), 4, 0.1, false)
		p.Tree = h
		data := draw(rng, identity, p, 2000)
		q := randomParams(rng, p.K, p.D, 2, false)
		q.Tree = h
		l := NewLikelihood(data, identity, q, All, 2)
		x, next, last := l.Theta(q), make([]float64, l.Dim()), math.Inf(1)
		for it := range 60 {
			v, err := l.EMStep(t.Context(), next, x)
			if err != nil || v > last+1e-12 {
				t.Fatalf("%s: iteration %d: %v after %v, error %v", shape, it, v, last, err)
			}
			last = v
			copy(x, next)
		}
	}
}

// TestTreeOfOneGate: a flat mixture is the tree of depth 1, to the last bit.
func TestTreeOfOneGate(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 13))
	p := randomParams(rng, 4, 3, 0.5, true)
	data := draw(rng, tanh, p, 700)
	type sums struct {
		Value               float64
		Grad, Step, Hessian []float64
		Prior               []float64
	}
	of := func(p *model.Params) (s sums) {
		l := NewLikelihood(data, tanh, p, All, 2)
		l.PenaliseGate(0.3)
		theta, dim := l.Theta(p), l.Dim()
		s.Grad, s.Step = make([]float64, dim), make([]float64, dim)
		h := mat.NewSymDense(dim, nil)
		var err error
		if s.Value, err = l.Hessian(t.Context(), h, s.Grad, theta); err != nil {
			t.Fatal(err)
		}
		if _, err := l.EMStep(t.Context(), s.Step, theta); err != nil {
			t.Fatal(err)
		}
		s.Hessian = h.RawSymmetric().Data
		b := &data.Blocks[0]
		s.Prior = make([]float64, p.K*b.N)
		mixture.Mixture{}.Prior(s.Prior, p, b)
		return s
	}
	q := p.Clone()
	q.Tree = model.FlatHierarchy(4)
	if diff := cmp.Diff(of(p), of(q)); diff != "" {
		t.Error(diff)
	}
}

// TestSharedUnderATree: what leaves share of the rows of the gate at which they part, with
// the posterior and the probabilities written out.
func TestSharedUnderATree(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 13))
	p := randomParams(rng, 3, 2, 0.7, true)
	p.Tree = parse(t, "2x(1,2)")
	testShared(t, p, draw(rng, tanh, p, 300))
	// Where a node has e^−1000 of a row its leaves still share what there is.
	steep := p.Clone()
	floats.Scale(500, steep.Gate(0))
	testShared(t, steep, draw(rng, tanh, steep, 300))
}

func testShared(t *testing.T, p *model.Params, data *model.Data) {
	t.Helper()
	act := losstest.Leaves(3)
	got, err := NewLikelihood(data, act, p, All, 2).Shared(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	var want01, want02, want12 float64
	for _, b := range data.Blocks {
		for r := range b.N {
			x := []float64{b.Col(0)[r], b.Col(1)[r]}
			branch := func(row int) float64 {
				return 1 / (1 + math.Exp(-floats.Dot(p.Gate(row), x)-p.GatingIntercepts[row]))
			}
			density := func(i int) float64 {
				e := (b.Y[r] - act[i].(fn).G(floats.Dot(p.Regressor(i), x)+p.RegressorIntercepts[i])) / p.SigmaOf(i)
				return math.Exp(-e*e/2) / p.SigmaOf(i)
			}
			first, second := branch(0), branch(1)
			joint := []float64{first * density(0), (1 - first) * second * density(1), (1 - first) * (1 - second) * density(2)}
			weight := 1.0
			if b.Role[model.Weights] != nil {
				weight = b.Role[model.Weights][r]
			}
			want01 += weight * first * (1 - first) * second
			want02 += weight * first * (1 - first) * (1 - second)
			want12 += weight * (joint[1] + joint[2]) / floats.Sum(joint) * second * (1 - second)
		}
	}
	for at, want := range map[int]float64{1: want01, 2: want02, 5: want12} {
		if !(math.Abs(got[at]-want) <= 1e-9*want) { // sums of 300 rows in two orders
			t.Errorf("entry %d: %v, want %v", at, got[at], want)
		}
	}
}
