package loss

import (
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
	"gonum.org/v1/gonum/floats"
)

// gradientSums are the sums behind the gradient, and what EM needs of them. u is
// ∂log f/∂m in units of 1/[mixture.Unit], y − g_i where the noise is normal.
type gradientSums struct {
	*layout
	normal   bool
	deviance []float64 // k: Σ r_i·u_i·(y−g_i), the residual sum of squares
	own      ownSums   // empty where the noise is normal
	mass     []float64 // k: Σ r_i
	score    []float64 // k experts: Σ r_i·u_i·g′_i·x; then the gate's rows: Σ ∂log p/∂η_j·x
	output   []float64 // where there are outputs, for every expert Σ r_i·u_i and Σ r_i·u_i·g_i
}

func newGradientSums(o *layout, normal bool) *gradientSums {
	k := func() []float64 { return make([]float64, o.k) }
	s := &gradientSums{layout: o, normal: normal, deviance: k(), mass: k(),
		score: make([]float64, o.k*o.da+o.gates*o.dw)}
	if o.outputs > 0 {
		s.output = make([]float64, 2*o.k)
	}
	if !normal && o.own > 0 {
		s.own = newOwnSums(o)
	}
	return s
}

func (s *gradientSums) values() [][]float64 {
	return [][]float64{s.deviance, s.mass, s.score, s.output, s.own.values}
}

func (s *gradientSums) ofExpert(i int) []float64 { return s.score[i*s.da : (i+1)*s.da] }

// ofGate returns the scores of all rows of the gate.
func (s *gradientSums) ofGate() []float64 { return s.score[s.k*s.da:] }

func (s *gradientSums) block(w *work) {
	n := w.N
	terms := w.termsOf(s.k)
	for i, wt := range terms {
		s.mass[i] += w.Sum(w.PostOf(i))
		if s.own.values != nil {
			s.own.add(w, wt, i)
		}
		w.Weigh(wt, i)
		w.WeighRows(wt)
		s.deviance[i] += kernel.Dot(wt, w.ResidualOf(i))
		if s.outputs > 0 {
			s.output[2*i] += kernel.Sum(wt)
			s.output[2*i+1] += kernel.Dot(wt, w.gOf(i))
		}
		if s.free.Regressors {
			kernel.Mul(wt, wt, w.dg[i*n:(i+1)*n])
		}
	}
	if s.free.Regressors {
		w.AddColumns(s.score[:s.k*s.da], terms, s.expert)
	}
	w.addGateScores(s.layout, s.ofGate())
}

// ownSums are the sums of the own parameters of densities that are not normal: for every expert ∂log f_i/∂log ψ_i, and
// minus its second derivatives, packed as [mixture.Terms] has them.
type ownSums struct {
	o      *layout
	values []float64
}

func newOwnSums(o *layout) ownSums {
	return ownSums{o, make([]float64, o.k*(o.own+o.own*(o.own+1)/2))}
}

// add adds those of expert i, with room for the rows' terms.
func (s ownSums) add(w *work, wt []float64, i int) {
	scores, information := s.ofExpert(i)
	of, post := w.complete(), w.PostOf(i)
	for q := range s.o.own {
		of.OwnScore(wt, i, q)
		kernel.Mul(wt, wt, post)
		scores[q] += w.Sum(wt)
		for p := q; p < s.o.own; p++ {
			of.Own(wt, i, q, p)
			kernel.Mul(wt, wt, post)
			information[mixture.OwnAt(q, p)] += w.Sum(wt)
		}
	}
}

func (s ownSums) ofExpert(i int) (scores, information []float64) {
	q := s.o.own
	v := s.values[i*(q+q*(q+1)/2):]
	return v[:q], v[q : q+q*(q+1)/2]
}

// write writes the gradient, times factor, to dst:
//
//	∂/∂a_i = Σ r_i·u_i·g′_i·x/σ_i²   ∂/∂w_j = Σ ∂log p/∂η_j·x
//	∂/∂log σ_m = Σ Σ_i r_i·(e_i² − 1), i over the experts of that level
//	∂/∂c_m = Σ Σ_i r_i·u_i/σ_i²   ∂/∂s_m = Σ Σ_i r_i·u_i·g_i/σ_i², i over those of that output
//
// where the noise is normal; of other densities 1 stands for σ_i² and ∂log f_i/∂log ψ_i for e_i² − 1.
func (s *gradientSums) write(dst []float64, factor float64, p *model.Params, density mixture.Density) {
	if s.free.Regressors {
		for i := range s.k {
			at := s.regressor(i)
			floats.ScaleTo(dst[at:at+s.da], factor/mixture.Unit(density, p.SigmaOf(i)), s.ofExpert(i))
		}
	}
	if s.free.Gating {
		floats.ScaleTo(s.gating(dst), factor, s.ofGate())
	}
	if s.free.Sigma {
		for m := range s.levels {
			if s.own.values != nil {
				scores, _ := s.own.ofLevel(m)
				for q, score := range scores {
					dst[s.noise(q*s.levels+m)] = factor * score
				}
				continue
			}
			deviance, mass := s.ofLevel(m)
			dst[s.noise(m)] = factor * (deviance/mixture.Unit(density, p.Sigma[m]) - mass)
		}
	}
	clear(dst[s.atOutput:])
	for i := range min(s.k, s.k*s.outputs) {
		for h := range s.moved {
			dst[s.layout.output(h, s.pair(i))] += factor / mixture.Unit(density, p.SigmaOf(i)) * s.output[2*i+h]
		}
	}
}

// ofLevel returns deviance and mass of the experts that share noise level m.
func (s *gradientSums) ofLevel(m int) (deviance, mass float64) {
	if s.levels == 1 {
		return floats.Sum(s.deviance), floats.Sum(s.mass)
	}
	return s.deviance[m], s.mass[m]
}

// ofLevel returns the scores of log ψ at level m, and minus their second derivatives, packed, of the complete data.
func (s ownSums) ofLevel(m int) (scores, information []float64) {
	q := s.o.own
	scores, information = make([]float64, q), make([]float64, q*(q+1)/2)
	for i := range s.o.k {
		if s.o.levels == 1 || i == m {
			u, h := s.ofExpert(i)
			floats.Add(scores, u)
			floats.Add(information, h)
		}
	}
	return scores, information
}

// sigmaFloor is the smallest noise level that a fit may reach, relative to the
// target's rms: without one the likelihood of noiseless data has no maximum. Where the target's mean is far from 0 it
// is relative to its standard deviation, but not below the rounding of the target. With noise
// per expert that of any data has none, since an expert may shrink onto a few rows:
// there it is relative to the target's standard deviation, which does not depend on
// where the target has its zero. A core that is not 0 ([Free]) stands for both.
func sigmaFloor(t model.Totals, core float64, levels int) float64 {
	floor, deviation := 1e-8*t.RMS, t.Deviation
	switch {
	case core > 0:
		floor, deviation = 1e-8*core, core
	case t.FarFromZero():
		floor = max(1e-8*deviation, 0x1p-52*t.RMS)
	}
	if levels > 1 {
		floor = max(floor, 1e-3*deviation)
	}
	return max(floor, leastScale)
}

// leastScale is the smallest own parameter of an expert that is no scale of the target.
const leastScale = 1e-300
