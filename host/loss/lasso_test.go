package loss

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss/shrinkage"
	"github.com/gatedlearning/moe/host/model"
)

// TestNorms: what a lasso adds to value, gradient and Hessian is Σ w‖θ_g‖/n and its differences where slopes are not 0,
// intercepts and what is of the gate left alone; where all of a norm are 0 the gradient and the row of the Hessian are those of a
// parameter that is held, and the rest is as it would be.
func TestNorms(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 28))
	ctx := t.Context()
	held := 0
	for _, s := range shapes {
		data, p := s.elsewhere(rng)
		if s.free.Regressors {
			p.Regressor(p.K - 1)[2] = 0 // alone
		}
		l, plain := NewLikelihood(data, s.act, p, s.free, 2), NewLikelihood(data, s.act, p, s.free, 2)
		norms := shrinkage.Times(l.ExpertNorms([][]int{{0, 1}, {2}}), 40)
		l.PenaliseNorms(norms)
		theta, dim := l.Theta(p), l.Dim()
		added := func(x []float64) (sum float64) {
			q := l.Params(x)
			for i := range q.K {
				a := slices.Clone(q.Regressor(i))
				weight := math.Sqrt2
				if s.free.ExpertColumns != nil { // it sees 0 and 2
					a[1], weight = 0, 1
				}
				sum += 40 * (weight*math.Hypot(a[0], a[1]) + math.Abs(a[2])) / l.Rows()
			}
			return sum
		}
		if !s.free.Regressors {
			added = func([]float64) float64 { return 0 }
		}
		want, err := plain.Value(ctx, theta)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := l.Value(ctx, theta); !(math.Abs(got-want-added(theta)) <= 1e-12*(1+math.Abs(want))) {
			t.Errorf("%s: value %v, want %v", s.name, got, want+added(theta))
		}
		grad, off := make([]float64, dim), make([]float64, dim)
		hess, offHess := mat.NewSymDense(dim, nil), mat.NewSymDense(dim, nil)
		l.Hessian(ctx, hess, grad, theta)
		plain.Hessian(ctx, offHess, off, theta)
		zero := l.AtZero(theta)
		const h = 1e-4 // differences of second order, over what rounding leaves: 1e−7 and 1e−8
		move := func(i int, di float64, j int, dj float64) float64 {
			x := slices.Clone(theta)
			x[i] += di
			x[j] += dj
			return added(x)
		}
		for i, q := range l.Parameters() {
			is := s.free.Regressors && q.Part == model.Expert && q.Index == p.K-1 && q.Feature == 2
			if zero[i] != is {
				t.Errorf("%s: place %d at zero: %v", s.name, i, zero[i])
			}
			if is {
				held++
			}
			switch want := (move(i, h, 0, 0) - move(i, -h, 0, 0)) / (2 * h); {
			case is && grad[i] != 0:
				t.Errorf("%s: gradient[%d] = %v of what is held", s.name, i, grad[i])
			case !is && !(math.Abs(grad[i]-off[i]-want) <= 1e-6):
				t.Errorf("%s: adds %v to gradient[%d], differences give %v", s.name, grad[i]-off[i], i, want)
			}
			for j := range dim {
				want := (move(i, h, j, h) - move(i, h, j, -h) - move(i, -h, j, h) + move(i, -h, j, -h)) / (4 * h * h)
				got := hess.At(i, j) - offHess.At(i, j)
				if zero[i] || zero[j] {
					want, got = 0, hess.At(i, j)
					if i == j {
						want = 1
					}
				}
				if !(math.Abs(got-want) <= 1e-5) {
					t.Errorf("%s: adds %v to the Hessian at %d, %d, want %v", s.name, got, i, j, want)
				}
			}
		}
		again := make([]float64, dim)
		if l.Grad(ctx, again, theta); !slices.EqualFunc(again, grad, func(a, b float64) bool { return math.Abs(a-b) <= 1e-13*(1+math.Abs(a)) }) {
			t.Errorf("%s: Grad and Hessian disagree on the gradient", s.name)
		}
	}
	if held < 8 {
		t.Errorf("%d slopes were held", held)
	}
}
