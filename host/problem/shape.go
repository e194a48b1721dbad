package problem

import (
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/memory"
)

// Shape is what the parameters of a fit look like: which features the experts
// and the gate see, whether there are intercepts, how many noise levels.
type Shape struct {
	K, D          int
	Experts, Gate []int   // features, ascending; nil for all
	Tied          []int   // features of the same coefficient in all experts; D is the intercept
	Intercept     bool    // in the experts
	GateIntercept bool    // in the gate
	ConstantGate  bool    // the gate is its intercepts
	PerExpert     bool    // a noise level for every expert
	Sigma         float64 // the noise level where it is known; 0: estimated
	Least         float64 // the least of each expert's, where that is given

	Family string  // the density of y, see [model.Params]
	Zero   bool    // beside the experts there is one that is always 0, see [model.Params]
	Dof    float64 // its last own parameter where it is known, the degrees of freedom of the t law; 0: estimated
	// Core is the target's root mean square without rows far off that are most of it ([model.Core]); 0 where none are,
	// or noise is normal.
	Core   float64
	Output *Output // of the experts' means; nil: they are g

	Tree  model.Hierarchy // of the gates; the zero value is one gate
	Kinds []int           // of the experts, those with the same activation the same; nil: all have one
}

// shape finds the features that the request names.
func (r Request) shape(features []string) (Shape, error) {
	if slices.Contains(features, model.InterceptName) {
		return Shape{}, Refuse("a feature is called %s, as the intercepts are; rename its column", model.InterceptName)
	}
	s := Shape{K: r.K, D: len(features), Intercept: r.Intercepts.experts(), GateIntercept: r.Intercepts.gate()}
	if r.Noise != nil {
		s.PerExpert, s.Sigma = r.Noise.level()
		s.Least = leastSigma(r.Noise)
	}
	if r.Tree.Depth() > 1 {
		s.Tree = r.Tree
	}
	if !mixture.Normal(mixture.DensityOf(r.Family)) {
		s.Family, s.Dof, s.Zero = r.Family, r.Dof, r.Zero
	}
	s.Kinds = r.kinds()
	var err error
	if s.Experts, err = columns(features, r.ExpertFeatures, "an expert"); err != nil {
		return s, err
	}
	if s.Tied, err = s.tied(features, r.Shared); err != nil {
		return s, err
	}
	if r.Gate != nil {
		s.Gate, s.ConstantGate, err = r.Gate.columns(features)
	}
	s.GateIntercept = s.GateIntercept || s.ConstantGate
	return s, err
}

// columns returns the places of the named features, nil for nil.
func columns(features, names []string, whose string) ([]int, error) {
	if names == nil {
		return nil, nil
	}
	out := []int{}
	for _, name := range names {
		j := slices.Index(features, name)
		if j < 0 {
			return nil, Refuse("feature %q of %s is not among the columns read", name, whose)
		}
		out = append(out, j)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// tied returns the columns of the coefficients that are the same in all experts.
func (s Shape) tied(features, names []string) (out []int, err error) {
	for _, name := range names {
		j := slices.Index(features, name)
		switch {
		case name == model.InterceptName && !s.Intercept:
			return nil, Refuse("the intercept is shared by the experts, which have none")
		case name == model.InterceptName:
			j = s.D
		case j < 0:
			return nil, Refuse("feature %q of the shared coefficients is not among the columns read", name)
		case s.Experts != nil && !slices.Contains(s.Experts, j):
			return nil, Refuse("feature %q of the shared coefficients is not among the experts'", name)
		}
		out = append(out, j)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// takesMeans says whether intercepts take up what is taken off the features: those of
// all that see them.
func (s Shape) takesMeans() bool {
	none := func(seen []int) bool { return seen != nil && len(seen) == 0 }
	// Intercepts that are the same in all experts cannot take up what differs from one to another.
	return (s.Intercept || none(s.Experts)) && (s.GateIntercept || none(s.Gate)) && !slices.Contains(s.Tied, s.D)
}

// Flat returns the shape with one gate over the same experts.
func (s Shape) Flat() Shape {
	s.Tree = model.Hierarchy{}
	return s
}

// Blank returns zero parameters of this shape with noise level sigma.
func (s Shape) Blank(sigma float64) *model.Params {
	p := model.NewParams(s.K, s.D)
	p.Tree, p.Family = s.Tree, s.Family
	if s.Zero {
		p.AddZero()
	}
	if s.Intercept {
		p.RegressorIntercepts = make([]float64, p.K)
	}
	if s.GateIntercept {
		p.GatingIntercepts = make([]float64, p.Gates())
	}
	own := s.Density().Own()
	if s.PerExpert {
		p.Sigma = make([]float64, p.K)
	}
	if len(own) == 0 {
		p.Sigma = nil
	}
	for range own[min(1, len(own)):] {
		p.Own = append(p.Own, make([]float64, len(p.Sigma)))
	}
	s.StartNoise(p, sigma)
	if s.Output != nil {
		s.Output.set(p)
	}
	return p
}

// StartNoise sets the noise levels to sigma, and own parameters of densities that are no scale of y to where fits
// begin.
func (s Shape) StartNoise(p *model.Params, sigma float64) {
	s.setSigma(p, sigma)
	for q, values := range p.Own {
		fill(values, s.Density().Own()[1+q].Start)
	}
	s.setDof(p)
}

// setDof gives p the own parameter that is known.
func (s Shape) setDof(p *model.Params) {
	if s.Dof > 0 {
		fill(p.Own[len(p.Own)-1], s.Dof)
	}
}

func fill(values []float64, v float64) {
	for i := range values {
		values[i] = v
	}
}

func (s Shape) setSigma(p *model.Params, sigma float64) {
	if d := s.Density(); !d.Domain().Scale && len(p.Sigma) > 0 {
		sigma = d.Own()[0].Start
	}
	fill(p.Sigma, sigma)
}

// WithNoise returns p with the noise level that the user knows, or with sigma
// where it is estimated.
func (s Shape) WithNoise(p *model.Params, sigma float64) *model.Params {
	if s.Sigma > 0 {
		sigma = s.Sigma
	}
	p = p.Clone()
	s.setSigma(p, sigma)
	return p
}

// Free says which parameters vary, the noise among them.
func (s Shape) Free() loss.Free {
	return loss.Free{Regressors: true, Gating: true, Sigma: true, ExpertColumns: s.Experts, GateColumns: s.Gate,
		Tied: s.Tied, FixedScale: s.Output != nil && s.Output.Fixed, GivenOwn: s.given(),
		LeastSigma: s.Least, Core: s.Core}
}

// Estimated says which parameters are estimated: the noise only where it is not
// known.
func (s Shape) Estimated() loss.Free {
	free := s.Free()
	free.Sigma = s.Sigma == 0
	return free
}

// Classes is how many the gate chooses among.
func (s Shape) Classes() int { return model.Classes(s.K, s.Zero) }

// manySharing is the number of experts from which random starts of shared noise are fitted with levels of their own
// first. With fewer, other starts meet the best optimum as soon.
const manySharing = 10

// ManyShare says whether so many experts share one level of Gaussian noise.
func (s Shape) ManyShare() bool { return s.K >= manySharing && !s.PerExpert && s.Normal() }

// Parameters counts the parameters that are estimated.
func (s Shape) Parameters() int {
	width := func(seen []int, intercept bool) int {
		n := s.D
		if seen != nil {
			n = len(seen)
		}
		if intercept {
			n++
		}
		return n
	}
	p := s.K*width(s.Experts, s.Intercept) + model.Gates(s.Classes())*width(s.Gate, s.GateIntercept)
	p += s.own() - (s.K-1)*len(s.Tied)
	if o := s.Output; o != nil {
		pairs, free := 1, 2
		if o.Of == PerExpertScale {
			pairs = s.K
		}
		if o.Fixed {
			free = 1
		}
		p += pairs * free
	}
	return p
}

// Adopt copies what this shape has of p.
func (s Shape) Adopt(p *model.Params) *model.Params {
	q := s.Blank(p.SigmaOf(0))
	q.CopyFrom(p)
	s.setDof(q)
	s.MaskExperts(q.Regressors)
	mask(q.Gating, s.D, s.Gate)
	return q
}

// MaskExperts sets the coefficients, rows of D, of the features that the experts
// do not see to 0.
func (s Shape) MaskExperts(rows []float64) { mask(rows, s.D, s.Experts) }

func mask(rows []float64, d int, seen []int) {
	if seen == nil {
		return
	}
	for i := range rows {
		if !slices.Contains(seen, i%d) {
			rows[i] = 0
		}
	}
}

// room says if there is not the memory for the sums of an EM step, kept once per
// chunk of the rows: a matrix over the features for every expert, and one for every
// two rows of the gate.
func (s Shape) room(rows model.Rows) error {
	_, d := rows.Dims()
	k, w := float64(s.K), float64(d+1)
	sums := 8 * (k + k*(k-1)/2) * w * (w + 1) / 2
	return memory.Check(fmt.Sprintf("the sums of an EM step of %d experts over %d features", s.K, d),
		sums*float64(model.Chunks(rows)+1))
}

// baseMemory is what a fit of few parameters takes beside its rows: the program, its
// code among that, and what the garbage collector has not yet come to.
const baseMemory = 56 << 20

// working is how many bytes the passes of a fit may take beside its rows, each on so
// many workers: an upper estimate, of which the sums of a Hessian are the largest part.
func (s Shape) working(workers int) float64 {
	const chunks = 17 // of a pass, and their total
	k, w := float64(s.K), float64(s.D+1)
	triangle := w * (w + 1) / 2
	sums := k * (2*k - 1) * triangle // of a Hessian
	if sums > loss.MostDense {
		sums = k*w + k*(k+1)/2*triangle
	}
	q := float64(s.Parameters())
	screening := 2 * 20 * q * w // rows of a screening and what is made of them
	if s.ManyShare() {
		screening += 2 * 20 * q * w // of starts that have twice as many
	}
	several := float64(model.Workers(workers))
	buffers := several * (3 << 20)
	return baseMemory + 8*(chunks*sums*(1+min(several, 4))+screening+12*q*q) + buffers
}

// rowsRoom is what is left for the rows of the memory that a request allows. Rows in
// memory may be there twice, as given and in the units of the fit.
func (s Shape) rowsRoom(r Request) (dataset.Room, error) {
	if r.MaxMemory == 0 {
		return r.Room, nil
	}
	need := s.working(r.Threads)
	if left := float64(r.MaxMemory) - need; left >= 0 {
		return dataset.Room(max(1, left/3)), nil
	}
	const unit = 1 << 20
	return 0, Refuse("%d MiB of memory are too few: this fit takes at least %.0f MiB beside what the system keeps of "+
		"its files", r.MaxMemory/unit, math.Ceil(need/unit))
}

// GateFeatures are those that the gate sees.
func (s Shape) GateFeatures() []int {
	seen := s.Gate
	if seen == nil {
		for j := range s.D {
			seen = append(seen, j)
		}
	}
	return seen
}
