package loss

import (
	"math"

	"github.com/gatedlearning/moe/host/loss/gram"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/numeric"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// expertGrams are the curvatures of the experts' M-step, the weights of whose rows are
// [mixture.Posterior.Complete]: Σ r_i·g′_i²·x·xᵀ for every expert, where the noise is normal.
type expertGrams struct {
	grams
	outputGrams outputGrams
	system      *gram.System // of one expert's step, nil until there is one
	score       []float64    // room for its score
}

func (s *expertGrams) values() [][]float64 {
	return append(s.grams.values(), s.outputGrams.values()...)
}

func (s *expertGrams) block(w *work) {
	if !s.free.Regressors {
		return
	}
	s.outputGrams.block(w)
	n := w.N
	g := s.Begin(&w.Design)
	for i := range s.k {
		w.Complete(g.Terms, i, w.dg[i*n:(i+1)*n])
		g.Next()
	}
}

// step adds the weighted least squares step of expert i, under a ridge on its slopes, to a and lowers the
// deviance by what it gains (exactly where g is linear): with the score s and the step δ, by δᵀs and by
// ridge·δᵀ(a + δ).
func (s *expertGrams) step(a []float64, i int, g *gradientSums, ridge float64) {
	if s.system == nil {
		s.system, s.score = gram.NewSystem(s.da), make([]float64, s.da)
	}
	h, score := s.system.H, s.score
	copy(score, g.ofExpert(i))
	s.Put(h, i, 0, 0, s.expert, s.expert, 1)
	slopes := s.slopes
	if ridge == 0 {
		slopes = nil
	}
	for _, c := range slopes {
		h.SetSym(c, c, h.At(c, c)+ridge)
		score[c] -= ridge * a[c]
	}
	if !s.system.Factorize() {
		return
	}
	step := s.system.Solve(score)
	floats.Add(a, step)
	gain := floats.Dot(step, g.ofExpert(i))
	for _, c := range slopes {
		gain += ridge * step[c] * a[c]
	}
	g.deviance[i] = max(0, g.deviance[i]-gain)
}

// gateGrams are the curvatures of the gate's M-step, for its rows j ≤ m:
// Σ p_j(δ_jm − p_m)·x·xᵀ where it is flat.
type gateGrams struct{ grams }

func (s *gateGrams) block(w *work) {
	if !s.free.Gating {
		return
	}
	g := s.Begin(&w.Design)
	for j := range s.gates {
		for m := j; m < s.gates; m++ {
			w.GateComplete(g.Terms, j, m)
			g.Next()
		}
	}
}

// hessian writes the curvatures of all the gate's rows together to h.
func (s *gateGrams) hessian(h *mat.SymDense) {
	at := 0
	for j := range s.gates {
		for m := j; m < s.gates; m++ {
			s.Put(h, at, j*s.dw, m*s.dw, s.gate, s.gate, 1)
			at++
		}
	}
}

// gateCurvature is that of the weighted multinomial logistic regression of the
// gating, where it was taken.
type gateCurvature struct {
	*gram.System           // nil until there was one
	taken        bool      // whether it is one
	at           []float64 // the gating there
	diff         []float64 // room
}

// take takes that of the gating w, which write writes.
func (c *gateCurvature) take(w []float64, write func(h *mat.SymDense)) {
	if c.System == nil {
		c.System, c.at, c.diff = gram.NewSystem(len(w)), make([]float64, len(w)), make([]float64, len(w))
	}
	copy(c.at, w)
	write(c.H)
	c.taken = c.Factorize()
}

// sameCurvature is how far a gate may be, in the rms over the rows and the
// gate's own probabilities of how much its logits differ, from where its
// curvature was taken to be used again. A logit that changes by t changes the
// weight p(1−p) by a factor of at most eᵗ, so that a Newton step with that
// curvature leaves about a quarter of the way, less than EM leaves itself where
// it crawls.
const sameCurvature = 0.25

// near says whether the curvature is good enough for a step from the gating w on so many rows.
func (c *gateCurvature) near(w []float64, rows float64) bool {
	return c.taken && c.Square(floats.SubTo(c.diff, w, c.at)) <= sameCurvature*sameCurvature*rows
}

// longestGateStep bounds one Newton step of the gating, in the norm of all its
// parameters: where classes separate the full step runs away.
const longestGateStep = 5

// step adds one Newton step of that regression, whose score is given, to the
// gating.
func (c *gateCurvature) step(w, score []float64) {
	if !c.taken {
		return
	}
	addGateStep(w, c.Solve(score))
}

// addGateStep adds a step to the gating, of at most that length.
func addGateStep(w, d []float64) {
	if norm := floats.Norm(d, 2); norm > longestGateStep {
		floats.Scale(longestGateStep/norm, d)
	}
	floats.Add(w, d)
}

// slowest is what is left of a noise level in a step at least. Annealing: one that falls faster than by half a step
// freezes the posteriors before the experts have parted.
const slowest = 0.5

// stepNoise writes log σ after the experts' step, which has lowered the deviance. The own parameters of any other
// density take a step of Newton's method together, of at most half of each.
func (s *gradientSums) stepNoise(theta []float64, p *model.Params, density mixture.Density) {
	normal := mixture.Normal(density)
	for m, sigma := range p.Sigma {
		deviance, mass := s.ofLevel(m)
		switch {
		case mass <= 0:
		case normal:
			least := mixture.Unit(density, slowest*sigma)
			theta[s.noise(m)] = max(math.Log(max(deviance/mass, least))/2, s.ends[0].least)
		default:
			for q, v := range upwards(s.own.ofLevel(m)) {
				at := s.noise(q*s.levels + m)
				theta[at] = s.ends[q].hold(math.Log(*s.parameters[at].In(p)) + v)
			}
		}
	}
}

// upwards returns Newton's step for a score and minus its derivatives, packed as [mixture.Terms] has them, which goes
// up whether or not these are positive definite: their eigenvalues are taken without their signs. It is 0 where there
// is none, and at most −log slowest in each.
func upwards(score, information []float64) []float64 {
	n := len(score)
	h := mat.NewSymDense(n, nil)
	for q := range n {
		for p := q; p < n; p++ {
			h.SetSym(q, p, information[mixture.OwnAt(q, p)])
		}
	}
	step := mat.NewVecDense(n, nil)
	var eigen mat.EigenSym
	if !numeric.Finite(information...) || !numeric.Finite(score...) || !eigen.Factorize(h, true) {
		return step.RawVector().Data
	}
	var v mat.Dense
	eigen.VectorsTo(&v)
	for c, value := range eigen.Values(nil) {
		axis := v.ColView(c)
		if along := mat.Dot(axis, mat.NewVecDense(n, score)); along != 0 {
			step.AddScaledVec(step, along/max(math.Abs(value), leastCurvature), axis)
		}
	}
	longest := -math.Log(slowest)
	if most := mat.Norm(step, math.Inf(1)); most > longest {
		step.ScaleVec(longest/most, step)
	}
	return step.RawVector().Data
}

// leastCurvature keeps steps along which there is none finite.
const leastCurvature = 1e-100
