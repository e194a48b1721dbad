package moment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
	"github.com/gatedlearning/moe/solver"
)

// population are T2/c2 and T3/c3 of two ReLU experts along e1 and e2 with the gating
// vector w in ℝ³, by a product rule split at the kinks: panels of 12 Gauss–Legendre
// nodes, 4 on either side of 0 in every direction.
func population(w [3]float64, q solver.Transform) (*mat.SymDense, *tensor.Sym3) {
	x12, w12 := gauss.Legendre(12)
	var x, weight []float64
	edges := []float64{-8, -4, -2, -1, 0, 1, 2, 4, 8}
	for e, lo := range edges[:len(edges)-1] {
		half := (edges[e+1] - lo) / 2
		for i := range x12 {
			v := lo + half*(1+x12[i])
			x, weight = append(x, v), append(weight, half*w12[i]*math.Exp(-v*v/2)/math.Sqrt(2*math.Pi))
		}
	}
	s := q.Sigma * q.Sigma
	p3 := func(g float64) float64 { // E[P3(y)|g]/c3
		return (g*g*g + 3*s*g + q.Cubic.Alpha*(g*g+s) + q.Cubic.Beta*g) / q.Cubic.C3
	}
	q2 := func(g float64) float64 { return (g*g + s + q.Delta*g) / q.C2 }
	t2, t3 := mat.NewSymDense(3, nil), tensor.NewSym3(3)
	var lines [][2]float64
	for _, v := range x {
		g := math.Max(v, 0)
		lines = append(lines, [2]float64{q2(g), p3(g)})
	}
	for a, xa := range x {
		for b, xb := range x {
			for c, xc := range x {
				p := 1 / (1 + math.Exp(-(w[0]*xa + w[1]*xb + w[2]*xc)))
				f := weight[a] * weight[b] * weight[c]
				f2 := f * (p*lines[a][0] + (1-p)*lines[b][0])
				f3 := f * (p*lines[a][1] + (1-p)*lines[b][1])
				v := [3]float64{xa, xb, xc}
				at := 0
				for i := range 3 {
					for j := i; j < 3; j++ {
						h := v[i] * v[j]
						if i == j {
							h--
						}
						t2.SetSym(i, j, t2.At(i, j)+f2*h)
						for k := j; k < 3; k++ {
							h := v[i] * v[j] * v[k]
							for _, m := range [3][3]int{{i, j, k}, {j, i, k}, {k, i, j}} {
								if m[1] == m[2] {
									h -= v[m[0]]
								}
							}
							t3.Data[at] += f3 * h
							at++
						}
					}
				}
			}
		}
	}
	return t2, t3
}

// TestObliqueGates: a gate along the regressors biases the estimate whatever the number
// of rows. The bias of the cubic method with polynomials, two ReLU experts along e1 and
// e2, for three gating vectors, by power iterations with deflation alone, which others
// have found too, and by the least-squares fit; no bias for an orthogonal one.
func TestObliqueGates(t *testing.T) {
	act := activation(t, relu.Family, nil)
	m, err := sdk.MomentsOf(t.Context(), act)
	if err != nil {
		t.Fatal(err)
	}
	q, _ := solver.Solve(m, m.System(.05), .05)
	truth := model.NewParams(2, 3)
	truth.Regressor(0)[0], truth.Regressor(1)[1] = 1, 1
	r2, r3 := math.Sqrt(.5), math.Sqrt(1./3)
	for _, c := range []struct {
		w            [3]float64
		power, joint string
	}{
		{[3]float64{0, 0, 1}, "0", "0"},
		{[3]float64{r2, r2, 0}, "0.251", "0.0239"},
		{[3]float64{.6, 0, .8}, "0.000286", "0.000286"},
		{[3]float64{r3, r3, r3}, "0.0249", "0.0065"},
	} {
		t2, t3 := population(c.w, q)
		var eig mat.EigenSym
		eig.Factorize(t2, true)
		var vectors mat.Dense
		eig.VectorsTo(&vectors)
		s := &Subspace{Basis: mat.NewDense(3, 2, nil), Values: make([]float64, 2)}
		for i := range 2 {
			s.Values[i] = eig.Values(nil)[2-i]
			s.Basis.SetCol(i, mat.Col(nil, 2-i, &vectors))
		}
		reduced := tensor.NewSym3(2)
		full := t3.Full()
		at := 0
		for i := range 2 {
			for j := i; j < 2; j++ {
				for k := j; k < 2; k++ {
					for a := range 3 {
						for b := range 3 {
							for d := range 3 {
								reduced.Data[at] += full[(a*3+b)*3+d] * s.Basis.At(a, i) * s.Basis.At(b, j) * s.Basis.At(d, k)
							}
						}
					}
					at++
				}
			}
		}
		reduced.ScaleModes(s.whitening())
		for want, found := range map[*string]tensor.Decomposition{
			&c.power: reduced.Power(rand.New(rand.NewPCG(1, 1)), restarts),
			&c.joint: reduced.Orthogonal(rand.New(rand.NewPCG(1, 1)), restarts),
		} {
			got := model.NewParams(2, 3)
			for i := range 2 {
				s.direction(got.Regressor(i), found.Vectors.RawRowView(i))
			}
			e, _ := metric.Ereg(got, truth)
			if text := fmt.Sprintf("%.3g", e); *want == "0" && e > 1e-9 || *want != "0" && text != *want {
				t.Errorf("w = %v: E_reg %s, want %s (eigenvalues %v)", c.w, text, *want, eig.Values(nil))
			}
		}
	}
}

// gridlock are settings with the median E_reg that an independent implementation of
// 001, method 1, reached with polynomials over eight data sets at d = 10, σ = .05.
var gridlock = []spectralRow{
	{relu.Family, nil, 2, 10, 10_000, .05, .032}, {relu.Family, nil, 2, 10, 100_000, .05, .0026},
	{relu.Family, nil, 3, 10, 10_000, .05, .062}, {relu.Family, nil, 3, 10, 100_000, .05, .010},
	{identity.Family, nil, 2, 10, 10_000, .05, .0064}, {identity.Family, nil, 2, 10, 100_000, .05, .0004},
	{identity.Family, nil, 3, 10, 10_000, .05, .0081}, {identity.Family, nil, 3, 10, 100_000, .05, .0008},
}

// TestGridlockStudy: with polynomials the median E_reg over the data sets is at most 1.25
// times those in geometric mean, and none above twice. A minute:
//
//	MOE_STUDY=40 go test ./host/moment -run TestGridlockStudy -v
func TestGridlockStudy(t *testing.T) {
	sets := studySets(t)
	logs := 0.0
	for _, r := range gridlock {
		var e, least []float64
		for seed := range uint64(sets) {
			e = append(e, r.errorOf(t, seed+1, Want{Transform: Polynomial, Order: 3}, true))
			least = append(least, r.errorOf(t, seed+1, Want{Transform: Optimal, Order: 3}, true))
		}
		ratio := median(e) / r.printed
		logs += math.Log(ratio) / float64(len(gridlock))
		t.Logf("%v: median E_reg %.5f, %.2f times %v; with the transform of minimum variance %.5f", r, median(e), ratio, r.printed, median(least))
		if ratio > 2 {
			t.Errorf("%v: median E_reg %.5f, want at most twice %v", r, median(e), r.printed)
		}
	}
	t.Logf("geometric mean %.3f", math.Exp(logs))
	if math.Exp(logs) > 1.25 {
		t.Errorf("%.3f times the known medians in geometric mean, want at most 1.25", math.Exp(logs))
	}
}
