package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/cmplx"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
)

// emDesign is a mixture of lines through 0 with gating vectors of that length.
type emDesign struct {
	k           int
	gate, sigma float64
}

func (d emDesign) series() string { return fmt.Sprintf("k = %d and ‖w‖ = %g", d.k, d.gate) }

// emDesigns are those of the figure, those of a series one after the other, σ ascending.
func emDesigns() (out []emDesign) {
	for _, k := range []int{2, 3} {
		for _, gate := range []float64{1, 4} {
			for _, sigma := range []float64{.1, .2, .4, .7, 1} {
				out = append(out, emDesign{k, gate, sigma})
			}
		}
	}
	return out
}

// emRate is the rate of EM against the share of the information that is missing.
func emRate(z size) *Figure {
	n := z.of(2000, 10000)
	f := &Figure{
		ID: "em-rate", Title: "The rate of EM against the missing information",
		Source: "arXiv 2411.06056 (Fruytier, Mokhtari & Sanghavi), EM as mirror descent",
		Claim: "EM converges linearly near the maximum, at the rate of the largest eigenvalue of I − C⁻¹J, the " +
			"missing share of the information, which is smaller the larger the signal is against the noise.",
		Settings: fmt.Sprintf("20 designs of our own: identity experts, k = 2 and 3, d = 6, orthonormal regressors "+
			"and gating vectors of length 1 and 4 orthogonal to them, σ = .1 to 1, %d rows each. C is the information "+
			"of rows with their experts, J that of the rows, both of all regressors, gates and log σ at the maximum. "+
			"C − J is computed row by row as the covariance of the complete scores under the posterior. The rate is "+
			"that of the deviations which a step of EM shortens least: the largest eigenvalue of the Jacobian of its "+
			"map at θ̂, by central differences. The table has the last ratio ‖θ_{t+1} − θ̂‖/‖θ_t − θ̂‖ of a run from "+
			"the truth too, which ends at a distance of 1e−5, where other deviations may count still.", n),
		X:       Axis{Label: "missing share of the information"},
		Y:       Axis{Label: "rate per iteration of EM"},
		Scatter: true, judge: judgeEMRate,
		Columns: []string{"design", "σ", "eigenvalue", "rate", "last ratio of a run", "its iterations"},
	}
	for i, d := range emDesigns() {
		s := paper("identity", d.k)
		s.d, s.sigma = 6, d.sigma
		f.units = append(f.units, s.unit(fmt.Sprintf("em rate %+v n %d", d, n), n,
			func(ctx context.Context, st *study, out *output) error {
				return emPoint(ctx, st, d, i, out)
			}))
	}
	return f
}

// emPoint adds the point of a design.
func emPoint(ctx context.Context, s *study, d emDesign, run int, out *output) error {
	floats.Scale(d.gate, s.truth.Gating)
	data, err := s.table(ctx) // of the gate as it is now
	if err != nil {
		return err
	}
	l := &lastIterate{Likelihood: loss.NewLikelihood(data, s.act, s.truth, loss.All, 1)}
	start := l.Theta(s.truth)
	best, err := optim.Newton(ctx, l, start, optim.Settings{Tolerance: 1e-24})
	if err != nil {
		return err
	}
	at := &contraction{fixed: best.X}
	at.watch(0, start)
	em, err := optim.EM(ctx, l, start, optim.Settings{Iterations: 5000, Tolerance: 1e-18,
		Stop: func(t int, _ float64) bool { return at.watch(t, l.x) }})
	if err != nil {
		return err
	}
	share, err := missingShare(l.Params(best.X), data)
	if err != nil {
		return err
	}
	rate, err := localRate(ctx, l.Likelihood, best.X)
	if err != nil {
		return err
	}
	out.point("", d.series(), run, share, rate)
	out.Rows = append(out.Rows, []string{d.series(), fmt.Sprintf("%g", d.sigma), fmt.Sprintf("%.4f", share),
		fmt.Sprintf("%.4f", rate), fmt.Sprintf("%.4f", at.last), fmt.Sprint(em.Iterations)})
	return nil
}

// localRate is the largest modulus of the eigenvalues of the Jacobian of EM's map at its fixed point, by central
// differences.
func localRate(ctx context.Context, l *loss.Likelihood, fixed []float64) (float64, error) {
	const by = 1e-4
	dim := len(fixed)
	jacobian := mat.NewDense(dim, dim, nil)
	up, down, x := make([]float64, dim), make([]float64, dim), slices.Clone(fixed)
	for j := range x {
		for _, side := range []struct {
			image []float64
			by    float64
		}{{up, by}, {down, -by}} {
			x[j] = fixed[j] + side.by
			if _, err := l.EMStep(ctx, side.image, x); err != nil {
				return 0, err
			}
		}
		x[j] = fixed[j]
		floats.Sub(up, down)
		floats.Scale(1/(2*by), up)
		jacobian.SetCol(j, up)
	}
	var eigen mat.Eigen
	if !eigen.Factorize(jacobian, mat.EigenNone) {
		return 0, errors.New("the Jacobian of EM has no eigenvalues")
	}
	rate := 0.0
	for _, v := range eigen.Values(nil) {
		rate = max(rate, cmplx.Abs(v))
	}
	return rate, nil
}

// missingShare is the largest eigenvalue of C⁻¹(C − J) of lines through 0 with one σ at a maximum of their likelihood,
// θ = (a_1 … a_k, w_1 … w_{k−1}, log σ). Of a row with residuals r_i, gates p_i and posterior τ the complete score
// under expert i is (r_i·x/σ² in block i, (δ_ij − p_j)·x in block j, r_i²/σ² − 1), and C − J the sum of its
// covariances.
func missingShare(p *model.Params, data *model.Data) (float64, error) {
	k, d := p.K, p.D
	dim := k*d + (k-1)*d + 1
	complete, missing := mat.NewSymDense(dim, nil), mat.NewSymDense(dim, nil)
	variance := p.Sigma[0] * p.Sigma[0]
	x, gates, tau, r := make([]float64, d), make([]float64, k), make([]float64, k), make([]float64, k)
	score, mean := mat.NewVecDense(dim, nil), mat.NewVecDense(dim, nil)
	for t := range data.Blocks {
		b := &data.Blocks[t]
		for row := range b.N {
			for j := range x {
				x[j] = b.Col(j)[row]
			}
			for i := range k {
				gates[i] = 0
				if i < k-1 {
					gates[i] = floats.Dot(p.Gating[i*d:(i+1)*d], x)
				}
				r[i] = b.Y[row] - floats.Dot(p.Regressors[i*d:(i+1)*d], x)
				tau[i] = gates[i] - r[i]*r[i]/(2*variance)
			}
			for _, v := range [][]float64{gates, tau} {
				of := floats.LogSumExp(v)
				for i := range v {
					v[i] = math.Exp(v[i] - of)
				}
			}
			mean.Zero()
			for i := range k {
				score.Zero()
				for j, v := range x {
					score.SetVec(i*d+j, r[i]*v/variance)
					for m := range k - 1 {
						of := -gates[m]
						if m == i {
							of++
						}
						score.SetVec((k+m)*d+j, of*v)
					}
				}
				score.SetVec(dim-1, r[i]*r[i]/variance-1)
				missing.SymRankOne(missing, tau[i], score)
				mean.AddScaledVec(mean, tau[i], score)
			}
			missing.SymRankOne(missing, -1, mean)
			for j, v := range x {
				for m := j; m < d; m++ {
					for i := range k {
						add(complete, i*d+j, i*d+m, tau[i]*v*x[m]/variance)
					}
				}
				for m, w := range x {
					for i := range k - 1 {
						for h := i; h < k-1; h++ {
							of := -gates[i] * gates[h]
							if i == h {
								of += gates[i]
							}
							if at, to := (k+i)*d+j, (k+h)*d+m; at <= to {
								add(complete, at, to, of*v*w)
							}
						}
					}
				}
			}
			add(complete, dim-1, dim-1, 2)
		}
	}
	var chol mat.Cholesky
	if !chol.Factorize(complete) {
		return 0, errors.New("the complete information is not positive definite")
	}
	// The eigenvalues of C⁻¹M are those of L⁻¹M L⁻ᵀ, C = LLᵀ.
	var lower mat.TriDense
	chol.LTo(&lower)
	var half, whole mat.Dense
	if err := half.Solve(&lower, missing); err != nil {
		return 0, err
	}
	if err := whole.Solve(&lower, half.T()); err != nil {
		return 0, err
	}
	symmetric := mat.NewSymDense(dim, nil)
	for i := range dim {
		for j := i; j < dim; j++ {
			symmetric.SetSym(i, j, (whole.At(i, j)+whole.At(j, i))/2)
		}
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(symmetric, false) {
		return 0, errors.New("the missing information has no eigenvalues")
	}
	return floats.Max(eigen.Values(nil)), nil
}

func add(h *mat.SymDense, i, j int, v float64) { h.SetSym(i, j, h.At(i, j)+v) }

// asRate is how much of 1 − rate the seen and the computed rate may differ by: differences leave about 1e−7.
const asRate = 1e-5

// judgeEMRate asks for rates that are those computed, and in each series for ones that grow with σ.
func judgeEMRate(o *Outcome) Verdict {
	v := Verdict{Agrees: true, Because: "that the rate is the eigenvalue is an identity, which an EM without errors " +
		"keeps; that it grows with σ in all four series could have come out otherwise"}
	worst, least, most := 0.0, 1.0, 0.0
	var falls []string
	for _, s := range o.Series() {
		last := 0.0
		for _, c := range o.Of(s) {
			share, rate := c.X[0], c.Y[0]
			worst = max(worst, math.Abs(rate-share)/(1-share))
			least, most = min(least, rate), max(most, rate)
			if rate < last {
				falls = append(falls, s)
			}
			last = rate
		}
	}
	v.Measured = fmt.Sprintf("in %d designs rates of %.3f to %.4f; they differ from the eigenvalue by at most %s of "+
		"1 − rate", len(o.Curves), least, most, g2(worst))
	switch {
	case !(worst <= asRate):
		v.Agrees, v.Because = false, "a rate is not that of the missing information"
	case len(falls) > 0:
		v.Agrees, v.Because = false, "the rate does not grow with σ in "+strings.Join(falls, ", ")
	}
	return v
}
