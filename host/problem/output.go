package problem

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/sdk"
)

// OutputScale says whose c and s the experts' means c + s·g(⟨a,x⟩) have: "" is none, the
// means are g.
type OutputScale string

// The kinds of output.
const (
	SharedScale    OutputScale = "shared"     // one c and one s of all experts
	PerExpertScale OutputScale = "per-expert" // c_i and s_i
)

// OutputScales lists the kinds of output.
func OutputScales() []OutputScale { return []OutputScale{SharedScale, PerExpertScale} }

// Name is what files and flags call it.
func (s OutputScale) Name() string { return string(s) }

// Output is what is known of the c and s of the means c + s·g before they are fitted.
type Output struct {
	Of OutputScale
	// Fixed says that s is 1 or −1: its size is in the regressors' norms, where
	// g(tz) = t·g(z), or in the intercepts.
	Fixed bool
	// Mirrored says that g(−z) = Sum − g(z): a mixture with s < 0 is then one with s > 0,
	// which is the one that is written.
	Mirrored bool
	Sum      float64

	// Where starts begin: s of about Size, of either sign unless g is mirrored, the
	// likelier Sign, and c = Centre − s·Pivot.
	Centre, Size, Sign, Pivot float64
	zero, slope               float64 // of g about 0: g(0) and (g(1)−g(−1))/2
	sd                        float64 // of the target
}

// outputOf returns what g says of c and s, and refuses those that no data could tell from
// the regressors: the scale, where c + s·g(⟨a,x⟩+b) moves by s as it does by c, a and b.
func outputOf(ctx context.Context, act sdk.Activation, s Shape, of OutputScale) (*Output, error) {
	name := act.Info().Name
	switch {
	case of != SharedScale && of != PerExpertScale:
		return nil, Refuse("output scale %q; there are %v", of, OutputScales())
	case s.Experts != nil && len(s.Experts) == 0:
		return nil, Refuse("output scale %s: experts that see no feature have a mean each, and no scale", of)
	}
	o := &Output{Of: of, Sign: 1}
	var dependent dependence
	if err := dependent.probe(ctx, act); err != nil {
		return nil, err
	}
	moved := [][]float64{dependent.zdg} // ways in which the regressors move g
	if s.Intercept {
		moved = append(moved, dependent.dg)
	}
	o.Fixed = dependent.spanned(dependent.g, append(moved, dependent.one))
	o.Mirrored, o.Sum = dependent.mirrored()
	if !o.Fixed {
		moved = append(moved, dependent.g)
	}
	switch {
	case o.Fixed && o.Mirrored && s.Intercept && dependent.spanned(dependent.one, moved):
		return nil, Refuse("output scale %s: the scale of %s cannot be told from the regressors' norms, nor its "+
			"offset from the intercepts; leave it out", of, name)
	case o.Fixed && o.Mirrored:
		return nil, Refuse("output scale %s: the scale of %s cannot be told from the regressors' norms; leave it "+
			"out, and give the experts an intercept", of, name)
	case dependent.spanned(dependent.one, moved):
		return nil, Refuse("output scale %s: the offset of %s cannot be told from the intercepts; leave it out", of,
			name)
	}
	o.zero, o.slope = dependent.at(0), (dependent.at(1)-dependent.at(-1))/2
	return o, nil
}

// dependence looks for linear relations between functions on a grid, by which parameters
// cannot be told apart.
type dependence struct{ z, one, g, dg, zdg []float64 }

const gridEnd, gridStep = 8, 0.125

func (d *dependence) probe(ctx context.Context, act sdk.Activation) error {
	for v := -float64(gridEnd); v <= gridEnd; v += gridStep {
		d.z = append(d.z, v)
		d.one = append(d.one, 1)
	}
	n := len(d.z)
	d.g, d.dg, d.zdg = make([]float64, n), make([]float64, n), make([]float64, n)
	if err := act.Eval(ctx, d.g, d.z); err != nil {
		return err
	}
	if err := act.Deriv(ctx, d.dg, d.z); err != nil {
		return err
	}
	floats.MulTo(d.zdg, d.z, d.dg)
	return nil
}

// at returns g at a multiple of the step.
func (d *dependence) at(z float64) float64 { return d.g[int((z+gridEnd)/gridStep)] }

// spanned says whether v is a linear combination of the others. An activation that comes
// from a table of six digits leaves 1e−6; functions that differ leave 1e−2 and more.
func (d *dependence) spanned(v []float64, others [][]float64) bool {
	const tolerance = 1e-5
	n := len(v)
	a := mat.NewDense(n, len(others), nil)
	for j, col := range others {
		norm := floats.Norm(col, 2)
		if norm == 0 {
			continue
		}
		for i, x := range col {
			a.Set(i, j, x/norm)
		}
	}
	var svd mat.SVD
	if !svd.Factorize(a, mat.SVDThin) {
		return false
	}
	var u mat.Dense
	svd.UTo(&u)
	left := append([]float64(nil), v...)
	for j, s := range svd.Values(nil) {
		if s < 1e-9 {
			continue
		}
		col := mat.Col(nil, j, &u)
		floats.AddScaled(left, -floats.Dot(col, v), col)
	}
	return floats.Norm(left, 2) <= tolerance*floats.Norm(v, 2)
}

// mirrored says whether g(−z) = sum − g(z).
func (d *dependence) mirrored() (bool, float64) {
	const tolerance = 1e-9
	sum, size := 2*d.at(0), floats.Norm(d.g, math.Inf(1))
	for i, g := range d.g {
		if math.Abs(g+d.g[len(d.g)-1-i]-sum) > tolerance*size {
			return false, 0
		}
	}
	return true, sum
}

// Range returns the least and the largest value of g, as far as values at nodes up to a
// million tell; infinite where g still grows there.
func Range(ctx context.Context, g model.Activation) (lo, hi float64, err error) {
	z := []float64{-1e6, -1e4, 1e4, 1e6}
	far := len(z)
	for v := -50.0; v <= 50; v += 0.25 {
		z = append(z, v)
	}
	at := make([]float64, len(z))
	if err := g.Eval(ctx, at, z); err != nil {
		return 0, 0, err
	}
	lo, hi = floats.Min(at[far:]), floats.Max(at[far:])
	tolerance := 0.01 * (hi - lo)
	least, most := floats.Min(at[:far]), floats.Max(at[:far])
	if lo = min(least, lo); !(least >= floats.Min(at[far:])-tolerance) {
		lo = math.Inf(-1)
	}
	if hi = max(most, hi); !(most <= floats.Max(at[far:])+tolerance) {
		hi = math.Inf(1)
	}
	return lo, hi, nil
}

// begin sets where starts begin, of a target like that of the rows.
func (o *Output) begin(ctx context.Context, p *Problem, act sdk.Activation) error {
	lo, hi, err := Range(ctx, act)
	if err != nil {
		return err
	}
	y, err := spreadOf(p.Rows)
	if err != nil {
		return err
	}
	o.sd = y.sd
	m := p.Moments.Value
	mean, variance := m[1][0], m[2][0]-m[1][0]*m[1][0]
	if !math.IsInf(hi-lo, 0) {
		const margin = 1.1 // of the target's range, beyond which g reaches
		o.Centre, o.Pivot, o.Size = (y.least+y.most)/2, (lo+hi)/2, margin*(y.most-y.least)/(hi-lo)
	} else {
		o.Centre, o.Pivot, o.Size = y.mean, mean, y.sd/math.Sqrt(variance)
		if o.Fixed {
			o.Pivot, o.Size = mean*o.Size, 1
		}
	}
	if third := m[3][0] - 3*m[2][0]*mean + 2*mean*mean*mean; !o.Mirrored && y.third*third < 0 {
		o.Sign = -1
	}
	return nil
}

// spread is what starts need to know of a target.
type spread struct{ least, most, mean, sd, third float64 }

func spreadOf(rows model.Rows) (s spread, err error) {
	n, _ := rows.Dims()
	each := func(fn func(y float64)) error {
		return model.InOrder(context.Background(), rows, func(b *model.Block) error {
			for _, y := range b.Y {
				fn(y)
			}
			return nil
		})
	}
	s.least, s.most = math.Inf(1), math.Inf(-1)
	if err = each(func(y float64) {
		s.least, s.most, s.mean = min(s.least, y), max(s.most, y), s.mean+y/float64(n)
	}); err != nil {
		return s, err
	}
	variance := 0.0
	err = each(func(y float64) {
		e := y - s.mean
		variance += e * e / float64(n)
		s.third += e * e * e / float64(n)
	})
	s.sd = math.Sqrt(variance)
	return s, err
}

// set gives q the output that starts have.
func (o *Output) set(q *model.Params) {
	s := o.Sign * o.Size
	q.SetOutput(o.Of == PerExpertScale, o.Centre-s*o.Pivot, s)
}

// Draw gives q a random output: of either sign where g is not mirrored, and of a random
// size where that is to be fitted.
func (o *Output) Draw(rng *rand.Rand, q *model.Params) {
	for m := range q.Scale {
		s := o.Sign * o.Size
		if !o.Mirrored && rng.Uint64()&1 == 0 {
			s = -s
		}
		if !o.Fixed {
			s *= math.Exp(rng.NormFloat64() / 2)
		}
		q.Offset[m], q.Scale[m] = o.Centre-s*o.Pivot, s
	}
}

// Bend makes a line in y of expert i of q one in its predictor, as g about 0 has it.
func (o *Output) Bend(q *model.Params, i int) {
	c, s := q.OutputOf(i)
	by := s * o.slope
	if math.Abs(o.slope) < 1e-3 || by == 0 { // an even g is none
		by = s
	}
	floats.Scale(1/by, q.Regressor(i))
	if q.RegressorIntercepts != nil {
		q.RegressorIntercepts[i] = (q.RegressorIntercepts[i] - c - s*o.zero) / by
	}
}

// Plain is the problem as the moment tensors see it: with means g of a target
// (y − c)/s, where the means are c + s·g, c and s being those with which starts begin.
func (p *Problem) Plain() *Problem {
	if p.plain == nil {
		return p
	}
	return p.plain
}

// open readies the output of a problem whose rows have been read.
func (o *Output) open(ctx context.Context, p *Problem, act sdk.Activation) error {
	if err := o.begin(ctx, p, act); err != nil {
		return err
	}
	q := *p
	q.Shape.Output = nil
	s := o.Sign * o.Size
	c := o.Centre - s*o.Pivot
	_, d := p.Rows.Dims()
	rows := model.Map(p.Rows, d, func(dst, src *model.Block) {
		copy(dst.X, src.X)
		dst.Y = make([]float64, src.N)
		for t, y := range src.Y {
			dst.Y[t] = (y - c) / s
		}
	})
	if model.Held(p.Rows) {
		var err error
		if rows, err = model.InMemory(ctx, rows, model.Workers(p.Threads)); err != nil {
			return err
		}
	}
	var err error
	if q.Second, err = tensor.SumSecond(ctx, rows, p.Threads); err != nil {
		return err
	}
	q.Rows, q.Given = rows, rows
	p.plain = &q
	return nil
}
