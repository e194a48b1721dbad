package loss

import (
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss/gram"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// Where experts have an output of their own their means are m_i = c_i + s_i·g(z_i), with
// the derivatives 1 by c_i, g by s_i, s_i·g′·x by a_i, and g′·x by s_i and a_i.

// outputGrams are what the experts' M-step needs of c and s: for every expert, of the
// pair (1, g) with weights r_i, the products with s·g′·x, and those with itself.
type outputGrams struct {
	*layout
	cross []float64 // k×2×da
	own   []float64 // k×3: Σ r, Σ r·g, Σ r·g²
}

func newOutputGrams(o *layout) outputGrams {
	if o.outputs == 0 {
		return outputGrams{layout: o}
	}
	return outputGrams{o, make([]float64, 2*o.k*o.da), make([]float64, 3*o.k)}
}

func (s *outputGrams) values() [][]float64 { return [][]float64{s.cross, s.own} }

func (s *outputGrams) ofPair(h, i int) []float64 {
	at := (2*i + h) * s.da
	return s.cross[at : at+s.da]
}

func (s *outputGrams) block(w *work) {
	if s.outputs == 0 {
		return
	}
	n := w.N
	for i := range s.k {
		wt, g := w.terms[:n], w.gOf(i)
		copy(wt, w.PostOf(i))
		w.WeighRows(wt)
		s.own[3*i] += kernel.Sum(wt)
		s.own[3*i+1] += kernel.Dot(wt, g)
		slopes := w.dg[i*n : (i+1)*n]
		times := w.several[0][:n]
		kernel.Mul(times, wt, slopes)
		addOne(&w.Design, s.ofPair(0, i), times, s.expert)
		kernel.Mul(times, times, g)
		addOne(&w.Design, s.ofPair(1, i), times, s.expert)
		kernel.Mul(wt, wt, g)
		s.own[3*i+2] += kernel.Dot(wt, g)
	}
}

// addOne adds Σ_t w_t·x_t over the columns named to dst; w has the rows' weights.
func addOne(x *gram.Design, dst, w []float64, named []int) {
	terms := [1][]float64{w}
	x.AddColumns(dst, terms[:], named)
}

// ownAt is the product of the pair's functions h and l in expert i.
func (s *outputGrams) ownAt(i, h, l int) float64 { return s.own[3*i+h+l] }

// stepOutputs adds the Gauss–Newton step of the experts and of their outputs together to
// θ, and lowers the deviances by what it gains. The outputs are eliminated last: with H_i,
// C_i and O_i the weighted products of expert i's coefficients, of them with the pair, and
// of the pair, and b_i, d_i their scores,
//
//	Σ_i (O_i − C_iᵀH_i⁻¹C_i)/σ_i²·δ = Σ_i (d_i − C_iᵀH_i⁻¹b_i)/σ_i²,  δa_i = H_i⁻¹(b_i − C_i·δ)
//
// over the experts that share the pair.
func (s *expertGrams) stepOutputs(theta []float64, p *model.Params, g *gradientSums) {
	q := s.moved
	type expert struct {
		*gram.System
		solved [][]float64 // H⁻¹ of b, then of the columns of C
	}
	experts := make([]expert, s.k)
	for m := range s.outputs {
		schur, rhs := gram.NewSystem(q), make([]float64, q)
		for i := range s.k {
			if s.pair(i) != m {
				continue
			}
			e := expert{System: gram.NewSystem(s.da)}
			s.Put(e.H, i, 0, 0, s.expert, s.expert, 1)
			ok := e.Factorize()
			solve := func(b []float64) {
				x := make([]float64, s.da)
				if ok { // else its coefficients stay
					copy(x, e.Solve(b))
				}
				e.solved = append(e.solved, x)
			}
			solve(g.ofExpert(i))
			for h := range q {
				solve(s.outputGrams.ofPair(h, i))
			}
			experts[i] = e
			inv := 1 / mixture.Unit(mixture.Gaussian{}, p.SigmaOf(i))
			for h := range q {
				c := s.outputGrams.ofPair(h, i)
				rhs[h] += inv * (g.output[2*i+h] - floats.Dot(c, e.solved[0]))
				for l := h; l < q; l++ {
					schur.H.SetSym(h, l, schur.H.At(h, l)+inv*(s.outputGrams.ownAt(i, h, l)-floats.Dot(c,
						e.solved[1+l])))
				}
			}
		}
		step := make([]float64, q)
		if schur.Factorize() {
			copy(step, schur.Solve(rhs))
		}
		for h, v := range step {
			theta[s.output(h, m)] += v
		}
		for i, e := range experts {
			if s.pair(i) != m {
				continue
			}
			move := e.solved[0]
			for h, v := range step {
				floats.AddScaled(move, -v, e.solved[1+h])
			}
			at := s.regressor(i)
			floats.Add(theta[at:at+s.da], move)
			g.deviance[i] = max(0, g.deviance[i]-s.gain(i, e.H, move, step, g))
		}
	}
}

// gain is what the quadratic says that a step of expert i and its output takes off its
// deviance.
func (s *expertGrams) gain(i int, h *mat.SymDense, move, step []float64, g *gradientSums) float64 {
	v := mat.NewVecDense(len(move), move)
	gain := 2*floats.Dot(move, g.ofExpert(i)) - mat.Inner(v, h, v)
	for a, d := range step {
		gain += 2 * d * (g.output[2*i+a] - floats.Dot(move, s.outputGrams.ofPair(a, i)))
		for b, e := range step {
			gain -= d * e * s.outputGrams.ownAt(i, a, b)
		}
	}
	return gain
}

// outputInformation are the rows of the observed information that belong to c and s.
type outputInformation struct {
	*layout
	coef  []float64 // (moved·outputs) × (k experts and the gate's rows)
	noise []float64 // × levels
	own   []float64 // × (moved·outputs)
}

func newOutputInformation(o *layout) outputInformation {
	n := o.moved * o.outputs
	return outputInformation{o, make([]float64, n*(o.k*o.da+o.gates*o.dw)), make([]float64, n*o.levels),
		make([]float64, n*n)}
}

func (s *outputInformation) values() [][]float64 { return [][]float64{s.coef, s.noise, s.own} }

// row is the place of c or s of expert i among the outputs.
func (s *outputInformation) row(h, i int) int { return h*s.outputs + s.pair(i) }

func (s *outputInformation) withExpert(o, i int) []float64 {
	at := o*(s.k*s.da+s.gates*s.dw) + i*s.da
	return s.coef[at : at+s.da]
}

func (s *outputInformation) withGate(o, j int) []float64 {
	at := o*(s.k*s.da+s.gates*s.dw) + s.k*s.da + j*s.dw
	return s.coef[at : at+s.dw]
}

// block comes after the other parts of the information: it differentiates by the means.
func (s *outputInformation) block(w *work) {
	if s.outputs == 0 {
		return
	}
	n := w.N
	w.Differentiate(w.ones[:s.k*n])
	if s.free.Sigma {
		w.DifferentiateNoise()
	}
	wt, times := w.terms[:n], w.several[0][:n]
	by := func(h, i int) { // times the derivative of m_i by c or s
		copy(times, wt)
		if h == 1 {
			kernel.Mul(times, times, w.gOf(i))
		}
	}
	for i := range s.k {
		for j := range s.k {
			w.ExpertExpert(wt, i, j, nil)
			w.WeighRows(wt)
			for h := range s.moved {
				by(h, i)
				o := s.row(h, i)
				s.own[o*s.moved*s.outputs+s.row(0, j)] += kernel.Sum(times)
				if s.moved > 1 {
					s.own[o*s.moved*s.outputs+s.row(1, j)] += kernel.Dot(times, w.gOf(j))
				}
				kernel.Mul(times, times, w.dg[j*n:(j+1)*n])
				addOne(&w.Design, s.withExpert(o, j), times, s.expert)
			}
		}
		s.bent(w, i)
		for h := range s.moved {
			o := s.row(h, i)
			for j := range s.gates {
				w.ExpertGate(wt, i, j)
				by(h, i)
				w.AddWeighted(s.withGate(o, j), times, s.gate)
			}
			for m := range s.levels {
				if s.free.Sigma {
					w.NoiseExpert(wt, m, 0, i)
					by(h, i)
					s.noise[o*s.levels+m] += w.Sum(times)
				}
			}
		}
	}
}

// bent adds the second derivative of the mean by s_i and a_i, −r_i·e_i/σ_i·g′_i·x, whose
// mean is 0 at the true parameters, where those in g″ are wanted.
func (s *outputInformation) bent(w *work, i int) {
	if w.bend == nil || s.moved < 2 {
		return
	}
	n := w.N
	wt, inv := w.terms[:n], 1/w.P.SigmaOf(i)
	w.MeanScore(wt, i)
	for t, dg := range w.slopes[i*n : (i+1)*n] {
		wt[t] *= -inv * dg
	}
	w.AddWeighted(s.withExpert(s.row(1, i), i), wt, s.expert)
}

// write writes the rows of the outputs, times factor, to h.
func (s *outputInformation) write(h *mat.SymDense, factor float64) {
	n := s.moved * s.outputs
	for o := range n {
		at := s.atOutput + o
		put := func(from int, v []float64) {
			for t := range v {
				if from >= 0 {
					h.SetSym(from+t, at, factor*v[t])
				}
			}
		}
		for i := range s.k {
			put(s.regressor(i), s.withExpert(o, i))
		}
		for j := range s.gates {
			put(s.layout.row(j), s.withGate(o, j))
		}
		for m := range s.levels {
			put(s.layout.noise(m), s.noise[o*s.levels+m:o*s.levels+m+1])
		}
		for l := o; l < n; l++ {
			h.SetSym(at, s.atOutput+l, factor*s.own[o*n+l])
		}
	}
}
