package loss

import (
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss/constraint"
	"github.com/gatedlearning/moe/host/loss/gram"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

// tiesOf are the places in θ of every coefficient that is the same in all experts; none of one expert.
func tiesOf(o *layout) (out constraint.Ties) {
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
	s.ties.Project(score)
	s.ties.Hessian(h)
	if !s.system.Factorize() {
		return
	}
	step := slices.Clone(s.system.Solve(score))
	s.ties.Project(step) // of which rounding may leave a little
	floats.Add(theta[:n], step)
	for i := range s.k {
		at := s.regressor(i)
		of := mat.NewVecDense(s.da, step[at:at+s.da])
		curved := mat.Inner(of, own.SliceSym(at, at+s.da), of)
		g.deviance[i] = max(0, g.deviance[i]-2*floats.Dot(of.RawVector().Data, g.ofExpert(i))+curved)
	}
}
