package loss

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distmv"

	"github.com/gatedlearning/moe/host/model"
)

// TestVectorStructure: masses, residuals and overlaps are the sums over the rows of the definition, and in no direction does
// the square of the score grow faster, beside what the experts' means move, than along an expert's axis, which is of unit length in units
// of the residuals.
func TestVectorStructure(t *testing.T) {
	const n = 400
	for _, c := range vectorCases {
		rng := rand.New(rand.NewPCG(3, 51))
		p := c.params(rng, 0.7)
		data := drawVector(rng, c.act, p, n, c.general)
		got, err := NewVector(data, c.act, p, All, 2).Structure(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		k, m, d := p.K, p.M, p.D
		type row struct{ x, weight, score, slope []float64 } // score and slope are k×m
		var rows []row
		mass, scatter, overlap, total := make([]float64, k), make([]float64, k*m), make([]float64, k*k), 0.0
		precision := make([]*mat.SymDense, k)
		for i := range precision {
			var chol mat.Cholesky
			precision[i] = mat.NewSymDense(m, nil)
			if !chol.Factorize(p.NoiseOf(i).Covariance()) || chol.InverseTo(precision[i]) != nil {
				t.Fatal("no covariance")
			}
		}
		for _, b := range data.Blocks {
			for r := range b.N {
				one := model.Block{N: 1, X: make([]float64, d)}
				for j := range d {
					one.X[j] = b.X[j*b.N+r]
				}
				at := row{x: append(one.X[:d:d], 1), weight: make([]float64, k), score: make([]float64, k*m), slope: make([]float64, k*m)}
				z := make([]float64, k*m)
				priors(at.weight, p, &one)
				p.Predictors(z, &one)
				residual := make([]float64, k*m)
				for i := range k {
					y, mu := make([]float64, m), make([]float64, m)
					for a := range m {
						y[a], mu[a] = b.Y[a*b.N+r], c.act.G(z[i*m+a])
						residual[i*m+a] = y[a] - mu[a]
						at.slope[i*m+a] = 1 - mu[a]*mu[a] // of tanh
					}
					normal, _ := distmv.NewNormal(mu, p.NoiseOf(i).Covariance(), nil)
					at.weight[i] *= math.Exp(normal.LogProb(y))
					for a := range m {
						for b := range m {
							at.score[i*m+a] += at.slope[i*m+a] * precision[i].At(a, b) * residual[i*m+b]
						}
					}
				}
				floats.Scale(1/floats.Sum(at.weight), at.weight)
				w := 1.0
				if b.Role[model.Weights] != nil {
					w = b.Role[model.Weights][r]
				}
				total += w
				for i, v := range at.weight {
					for j := i; j < k; j++ {
						overlap[i*k+j] += w * v * at.weight[j]
					}
					mass[i] += w * v
					for a := range m {
						scatter[i*m+a] += w * v * residual[i*m+a] * residual[i*m+a]
					}
				}
				floats.Scale(w, at.weight)
				rows = append(rows, at)
			}
		}
		units, rss := make([]float64, m), make([]float64, k)
		for a := range m {
			for i := range k {
				units[a] += scatter[i*m+a] / total
			}
			for i := range k {
				rss[i] += scatter[i*m+a] / units[a]
			}
			units[a] = math.Sqrt(units[a])
		}
		near := func(name string, got, want []float64) {
			for i, v := range want {
				if (name != "overlaps" || i/k <= i%k) && !(math.Abs(got[i]-v) <= 1e-9*(1+v)) {
					t.Errorf("%s: %s %v, want %v", c.name, name, got, want)
				}
			}
		}
		near("masses", got.Mass, mass)
		near("residuals", got.RSS, rss)
		near("overlaps", got.Overlap, overlap)
		seen := d
		if p.RegressorIntercepts != nil {
			seen++
		}
		for i, axis := range got.Axes {
			growth := func(u []float64) float64 {
				var above, below float64
				for _, r := range rows {
					score, step := 0.0, make([]float64, m)
					for a := range m {
						along := floats.Dot(u[a*(d+1):(a+1)*(d+1)], r.x)
						score += r.score[i*m+a] * along
						step[a] = r.slope[i*m+a] * along
					}
					above += r.weight[i] * score * score
					for a := range m {
						for b := range m {
							below += r.weight[i] * step[a] * step[b] * precision[i].At(a, b)
						}
					}
				}
				return above / below
			}
			length := 0.0
			for a := range m {
				norm := floats.Norm(axis[a*(d+1):(a+1)*(d+1)], 2) / units[a]
				length += norm * norm
			}
			if !(math.Abs(length-1) <= 1e-9) {
				t.Errorf("%s: axis %d has length %v", c.name, i, math.Sqrt(length))
			}
			most := growth(axis)
			for range 100 {
				u := make([]float64, m*(d+1))
				for j := range u {
					if j%(d+1) < seen {
						u[j] = rng.NormFloat64()
					}
				}
				if v := growth(u); !(v <= most*(1+1e-6)) { // the ridge is 1e−8 of the mean
					t.Fatalf("%s, expert %d: the score grows by %v along %v, by %v along its axis", c.name, i, v, u, most)
				}
			}
		}
	}
}
