package loss

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss/gram"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

// Coefficients that are the same in all experts are one parameter. θ has them in all their places, and the likelihood
// at θ is that at Pθ, P the projector that puts into every place the mean of all places of its coefficient. So the
// gradient is P·∇L, the Hessian P·∇²L·P, and Newton's method, EM and all others stay in the range of P from wherever
// they begin.

// ties are the places in θ of every coefficient that is the same in all experts.
type ties [][]int

// newTies are those of a layout; none of one expert.
func newTies(o *layout) (out ties) {
	if !o.free.Regressors || o.k == 1 {
		return nil
	}
	for c, column := range o.expert {
		if !slices.Contains(o.free.Tied, column) {
			continue
		}
		var places []int
		for i := range o.k {
			places = append(places, o.regressor(i)+c)
		}
		out = append(out, places)
	}
	return out
}

// Ties are the places in θ of every coefficient that is the same in all experts.
func (t ties) Ties() [][]int { return t }

// tie writes Pθ to θ.
func (t ties) tie(theta []float64) {
	for _, places := range t {
		mean := 0.0
		for _, at := range places {
			mean += theta[at]
		}
		mean /= float64(len(places))
		for _, at := range places {
			theta[at] = mean
		}
	}
}

// tied returns Pθ: θ itself where nothing is tied.
func (t ties) tied(theta []float64) []float64 {
	if t == nil {
		return theta
	}
	theta = slices.Clone(theta)
	t.tie(theta)
	return theta
}

// tieHessian writes P·h·P + c·(I − P) to h, with c the mean size of the diagonal at the places of a coefficient: its
// inverse leads from the range of P nowhere else.
func (t ties) tieHessian(h *mat.SymDense) {
	n := h.SymmetricDim()
	for _, places := range t {
		scale, each := 0.0, 1/float64(len(places))
		for _, at := range places {
			scale += each * math.Abs(h.At(at, at))
		}
		// Rows and columns in turn: of the places themselves the mean of all their pairs.
		inner := 0.0
		for _, a := range places {
			for _, b := range places {
				inner += each * each * h.At(a, b)
			}
		}
		for j := range n {
			if slices.Contains(places, j) {
				continue
			}
			mean := 0.0
			for _, at := range places {
				mean += each * h.At(at, j)
			}
			for _, at := range places {
				h.SetSym(at, j, mean)
			}
		}
		for a, at := range places {
			for _, other := range places[a:] {
				v := inner - scale*each
				if at == other {
					v += scale
				}
				h.SetSym(at, other, v)
			}
		}
	}
}

// stepTied adds to the experts' coefficients the step of their weighted least squares under the ties, and changes the
// deviances by what that does to them (exactly where g is linear): with A_i and b_i the curvature and the score of
// expert i, over the unit of its density,
//
//	P·A·P·s = P·b,   deviance_i − 2⟨s_i, b_i⟩ + s_iᵀ·A_i·s_i
func (s *expertGrams) stepTied(theta []float64, g *gradientSums, p *model.Params, density mixture.Density) {
	n := s.k * s.da
	if s.system == nil {
		s.system = gram.NewSystem(n)
	}
	h, score, own := s.system.H, make([]float64, n), mat.NewSymDense(n, nil)
	h.Zero()
	for i := range s.k {
		at, unit := s.regressor(i), mixture.Unit(density, p.SigmaOf(i))
		s.Put(h, i, at, at, s.expert, s.expert, 1/unit)
		s.Put(own, i, at, at, s.expert, s.expert, 1)
		floats.ScaleTo(score[at:at+s.da], 1/unit, g.ofExpert(i))
	}
	s.tie(score)
	s.tieHessian(h)
	if !s.system.Factorize() {
		return
	}
	step := slices.Clone(s.system.Solve(score))
	s.tie(step) // of which rounding may leave a little
	floats.Add(theta[:n], step)
	for i := range s.k {
		at := s.regressor(i)
		of := mat.NewVecDense(s.da, step[at:at+s.da])
		curved := mat.Inner(of, own.SliceSym(at, at+s.da), of)
		g.deviance[i] = max(0, g.deviance[i]-2*floats.Dot(of.RawVector().Data, g.ofExpert(i))+curved)
	}
}
