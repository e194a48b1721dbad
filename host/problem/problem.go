// Package problem is what a fit is given, made ready to be fitted: the rows in
// the units of the fit, the nonlinearity, the shape of the mixture and the
// weights. A [Problem] is read-only from [Load] on.
package problem

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/native"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/internal/claims"
	"github.com/gatedlearning/moe/sdk"
)

// Request says what is to be fitted. Only K must be set.
type Request struct {
	K              int // number of experts
	Intercepts     Intercepts
	Gate           Gate     // nil is [Softmax]
	Noise          Noise    // nil is [Shared]
	ExpertFeatures []string // that the experts see; nil: all
	Shared         []string // features of the same coefficient in all experts, or [model.InterceptName]

	Tree    model.Hierarchy  // of the gates; the zero value is one gate
	Leaves  []sdk.Activation // the experts' own; nil: all have one
	Output  OutputScale      // "": the experts' means are g
	Family  string           // the density of the target, by its name in host/mixture; "" is normal noise
	Dof     float64          // degrees of freedom of the t law where they are known; 0: estimated
	Zero    bool             // beside the experts of counts there is one that is always 0
	Seed    uint64           // of everything random
	Threads int              // 0: one per processor; nothing depends on it
	InTime  bool             // rows are said to stand in the order of time
	// Approximate puts a native approximation for the activation in all that iterates (see package native).
	Approximate bool
	MaxMemory   int64 // how many bytes all that the fit needs may take; 0: no limit but Room
	// Room is what the rows may take where there is no limit, see [dataset.Rows].
	Room dataset.Room
	// Reading, if set, is told how many passes over rows in a file have been made.
	Reading func(passes float64)
	// Loaded, if set, is called between the reading and the first pass.
	Loaded func()
}

// Problem is a data set to which a mixture is to be fitted.
type Problem struct {
	Schema     dataset.Schema
	Activation sdk.Activation   // as it was given; nil where experts have their own
	Leaves     []sdk.Activation // the experts' own; nil where all have Activation
	Moments    sdk.Moments      // of Activation
	G          native.Evaluator // what the iterations evaluate

	Rows    model.Rows // in the units of the fit, with weights near 1
	Given   model.Rows // the same with the weights as they were given
	Units   *Units     // of the features in Rows; nil: the user's own
	Weights Weights
	// Clusters is how many the rows are in; 0 where standard errors know of none.
	Clusters int
	Groups   Groups
	Inputs   *Inputs        // how far the features are from N(0, I)
	Second   *tensor.Second // the sums of a first pass over Rows

	Link    *Link // where starts begin; nil where the noise is normal
	Shape   Shape
	Seed    uint64
	Threads int
	InTime  bool     // as [Request] has it
	Dropped int      // rows with missing cells that were left out
	Notes   []string // for the user
	// Collinear says which feature the others tell; "" where none.
	Collinear string
	Facts     *Facts // see Look; nil before

	plain *Problem // see Plain; nil: the problem itself

	table *dataset.Kept // what Rows and Given read; nil where they are of a sample
}

// RequestError is a request that does not fit the data or the activation.
type RequestError struct{ Msg string }

func (e *RequestError) Error() string { return e.Msg }

// Refuse is the [*RequestError] of this text.
func Refuse(format string, args ...any) error { return &RequestError{fmt.Sprintf(format, args...)} }

// Load reads the rows of src and refuses what no method can fit. Features that
// are not N(0, I), or come with intercepts, are brought to unit variance. An
// activation whose g′ is not the derivative of its g is refused before anything is
// read. Errors: [*RequestError], [*claims.Error], those of src, of act and of ctx.
func Load(ctx context.Context, src dataset.Source, act sdk.Activation, r Request) (*Problem, error) {
	p := &Problem{Schema: src.Schema(), Activation: act, Leaves: r.Leaves, Seed: r.Seed, Threads: r.Threads}
	p.Notes, p.InTime = slices.Clone(p.Schema.Notes), r.InTime
	var err error
	if p.Shape, err = r.shape(p.Schema.Features); err != nil {
		return nil, err
	}
	if p.Schema.Target == "" {
		return nil, Refuse("the data have no target column")
	}
	if offset := p.Schema.Roles[model.Offsets]; offset != "" && p.Shape.Normal() {
		return nil, Refuse("the offset %s is for families of other than normal noise: take it off the target", offset)
	}
	if trials := p.Schema.Roles[model.Trials]; trials != "" && p.Shape.Family != (mixture.Binomial{}).Name() {
		return nil, Refuse("the trials %s are for the family binomial, and the family is %s", trials,
			cmp.Or(p.Shape.Family, "gaussian"))
	}
	for _, g := range p.Activations() {
		if p.Moments, err = MomentsOf(ctx, g); err != nil {
			return nil, err
		}
	}
	if r.Output != "" {
		if p.Shape.Output, err = outputOf(ctx, act, p.Shape, r.Output); err != nil {
			return nil, err
		}
	}
	if !p.Shape.Normal() {
		if p.Link, err = newLink(ctx, p); err != nil {
			return nil, err
		}
	}
	room, err := p.Shape.rowsRoom(r)
	if err != nil {
		return nil, err
	}
	table, err := dataset.Rows(ctx, src, room, model.Workers(r.Threads))
	if err != nil {
		return nil, err
	}
	p.table = table
	table.Follow(r.Reading)
	if err := p.take(ctx, src, r); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close lets go of rows that were not in memory. Nothing of the problem may be used
// behind it.
func (p *Problem) Close() {
	if p.table != nil {
		p.table.Close()
	}
}

// take takes the rows that were read from src.
func (p *Problem) take(ctx context.Context, src dataset.Source, r Request) error {
	rows := p.table.Rows
	if err := takeGroups(ctx, p, rows, r.Gate); err != nil {
		return err
	}
	if err := p.admit(ctx, rows); err != nil {
		return err
	}
	if p.Dropped = dataset.Dropped(src); p.Dropped > 0 {
		n, _ := rows.Dims()
		p.Notes = append(p.Notes, fmt.Sprintf("%d of %d rows have missing cells and were left out", p.Dropped,
			p.Dropped+n))
	}
	if p.Link != nil {
		if err := p.admitTargets(ctx, rows); err != nil {
			return err
		}
	}
	if r.Loaded != nil {
		r.Loaded()
	}
	err := p.measure(ctx, rows)
	if err != nil {
		return err
	}
	if p.Link != nil {
		if err := p.Link.begin(ctx, p.Rows); err != nil {
			return err
		}
	}
	if p.Leaves == nil {
		if p.G, err = native.EvaluatorOf(ctx, p.Activation, r.Approximate); err != nil || p.Shape.Output == nil {
			return err
		}
		return p.Shape.Output.open(ctx, p, p.Activation)
	}
	leaves := make(model.PerExpert, len(p.Leaves))
	for i, g := range p.Leaves {
		leaves[i] = g
	}
	p.G, p.Moments = native.Evaluator{Activation: leaves, Breaks: p.Kinks()}, sdk.Moments{}
	return nil
}

// Activations lists those of the experts: one of all, or their own, each once.
func (p *Problem) Activations() []sdk.Activation {
	if p.Leaves == nil {
		return []sdk.Activation{p.Activation}
	}
	var out []sdk.Activation
	for i, kind := range kinds(p.Leaves) {
		if kind == i {
			out = append(out, p.Leaves[i])
		}
	}
	return out
}

// Kinks are those of all activations, ascending.
func (p *Problem) Kinks() (all []float64) {
	for _, g := range p.Activations() {
		all = append(all, g.Info().Kinks...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (r Request) kinds() []int { return kinds(r.Leaves) }

// kinds numbers activations, the same number for the same: that of its first.
func kinds(leaves []sdk.Activation) (out []int) {
	for i, g := range leaves {
		info := g.Info()
		at := slices.IndexFunc(leaves[:i], func(o sdk.Activation) bool {
			other := o.Info()
			return other.Name == info.Name && maps.Equal(other.Params, info.Params)
		})
		if at < 0 {
			at = i
		}
		out = append(out, at)
	}
	return out
}

// MomentsOf returns the moments of an activation that can be fitted: one that is
// not constant and whose g′ is the derivative of its g.
func MomentsOf(ctx context.Context, act sdk.Activation) (sdk.Moments, error) {
	m, err := sdk.MomentsOf(ctx, act)
	if err != nil {
		return m, err
	}
	if err := varies(act, m); err != nil {
		return m, err
	}
	return m, claims.Of(act).Derivative(ctx)
}

// admit refuses rows to which this shape cannot be fitted.
func (p *Problem) admit(ctx context.Context, rows model.Rows) error {
	var err error
	if p.Weights, err = WeightsOf(ctx, rows); err != nil {
		return err
	}
	if p.Clusters, err = countClusters(ctx, rows, p.Schema); err != nil {
		return err
	}
	if err := p.enoughExperts(p.Weights.Rows); err != nil {
		return err
	}
	columns := p.Schema
	// Beside an intercept what is constant tells nothing; elsewhere it is one.
	columns.Part = columns.Part && !p.Shape.Intercept && (!p.Shape.GateIntercept || p.Shape.ConstantGate)
	if err := CheckColumns(ctx, rows, columns); err != nil {
		return err
	}
	if err := checkMagnitudes(ctx, rows, p.Schema, p.Threads); err != nil {
		return err
	}
	if err := p.enoughRows(p.Weights.Rows); err != nil {
		return err
	}
	return p.Shape.room(rows)
}

// enoughExperts refuses more experts than rows.
func (p *Problem) enoughExperts(n int) error {
	if k := p.Shape.K; k > n {
		return Refuse("k = %d experts for %d rows; choose a smaller k", k, n)
	}
	return nil
}

// FewRowsError refuses more parameters than rows. They determine those of K experts; 0 for not even one.
type FewRowsError struct {
	K    int
	Data *dataset.Error // what it says
}

func (e *FewRowsError) Error() string { return e.Data.Error() }

// Unwrap returns what it says of the data.
func (e *FewRowsError) Unwrap() error { return e.Data }

// enoughRows refuses more parameters than rows.
func (p *Problem) enoughRows(n int) error {
	if q := p.Shape.Parameters(); q >= n {
		fits := p.Shape
		for fits.K > 0 && fits.Parameters() >= n {
			fits.K--
		}
		return &FewRowsError{fits.K, &dataset.Error{File: p.Schema.Name,
			Msg: fmt.Sprintf("%d rows cannot determine the %d parameters of k = %d experts over %d features; use "+
				"more rows, fewer features or a smaller k", n, q, p.Shape.K, p.Shape.D)}}
	}
	return nil
}

// measure makes the first pass over the rows, and another where they have to
// be brought to other units.
func (p *Problem) measure(ctx context.Context, rows model.Rows) error {
	even := p.Weights.even(rows)
	second, err := tensor.SumSecond(ctx, even, p.Threads)
	if err != nil {
		return err
	}
	far, err := p.farTarget(ctx, second, rows)
	if err != nil {
		return err
	}
	return p.adopt(ctx, second, even, rows, far)
}

// adopt takes the sums of a first pass over all rows, and the rows that the problem
// has, with weights near 1 and as given, and brings both to the units of the fit, in which so much is taken off the
// target.
func (p *Problem) adopt(ctx context.Context, second *tensor.Second, even, rows model.Rows, target float64) error {
	inputs, err := InputsOf(second)
	if err != nil {
		return err
	}
	if note := p.farFromZero(second); note != "" {
		p.Notes = append(p.Notes, note)
	}
	if p.Collinear, err = collinear(ctx, p.Schema.Features, p.Shape.Intercept, second, rows); err != nil {
		return err
	}
	if !inputs.Standard() || p.Shape.Intercept {
		p.Units = unitsOf(second, p.Shape.takesMeans())
		p.Units.Target = target
		if even, err = p.Units.convert(ctx, even, model.Workers(p.Threads)); err != nil {
			return err
		}
		if p.Shape.takesMeans() || target != 0 {
			second, err = tensor.SumSecond(ctx, even, p.Threads)
		} else {
			second = p.Units.scaled(second)
		}
		if err != nil {
			return err
		}
		far := inputs.Far
		if inputs, err = InputsOf(second); err != nil {
			return err
		}
		if far != "" {
			inputs.Far = far
		}
	}
	if data, ok := even.(*model.Data); ok {
		even = data.Settled()
	}
	p.Rows, p.Given = even, p.Weights.given(even, rows, p.Units)
	p.Second, p.Inputs = second, inputs
	if law := p.Shape.Density(); law.Domain().Scale && !mixture.Normal(law) { // its tails are heavy
		p.Shape.Core, err = model.Core(ctx, p.Rows)
	}
	return err
}

// farFromZero says which feature of the experts' is so far from 0, by the sums of the
// features as they came, that a fit without an intercept is seldom what was meant; "" where
// none is.
func (p *Problem) farFromZero(second *tensor.Second) string {
	const far = 3 // standard deviations
	if p.Shape.Intercept {
		return ""
	}
	cov, mean := second.Covariance(), second.Mean()
	worst, by := -1, float64(far)
	for j, m := range mean {
		if p.Shape.Experts != nil && !slices.Contains(p.Shape.Experts, j) {
			continue
		}
		if away := math.Abs(m) / math.Sqrt(cov.At(j, j)); away > by { // no column is constant
			worst, by = j, away
		}
	}
	if worst < 0 {
		return ""
	}
	return fmt.Sprintf("the mean of feature %s is %.3g of its standard deviations from 0, and the experts have no "+
		"intercept: --intercept, or a formula without - 1, gives them one", p.Schema.Features[worst], by)
}

// With returns the same data with another number of experts.
func (p *Problem) With(k int) *Problem {
	q := *p
	q.Shape.K = k
	if p.plain != nil {
		q.plain = p.plain.With(k)
	}
	return &q
}

// Under returns the same data with experts that are the leaves of the tree h.
func (p *Problem) Under(h model.Hierarchy) *Problem {
	q := p.With(h.Leaves())
	if q.Shape.Tree = h; h.Depth() <= 1 {
		q.Shape = q.Shape.Flat()
	}
	return q
}

// Flat returns the same data with one gate over the same experts.
func (p *Problem) Flat() *Problem {
	q := *p
	q.Shape = p.Shape.Flat()
	return &q
}

// Observations is what the data weigh: the groups of rows, or the rows where each has its own expert.
func (p *Problem) Observations() float64 {
	if p.Grouped() {
		return p.Groups.Weight
	}
	return p.Weights.Total
}

// Grouped says whether the rows are in groups.
func (p *Problem) Grouped() bool { return len(p.Groups.IDs) > 0 }

// OneGate says whether there is one gate, and no tree of them.
func (p *Problem) OneGate() bool { return p.Shape.Tree.Depth() <= 1 }

// N returns the number of rows.
func (p *Problem) N() int {
	n, _ := p.Rows.Dims()
	return n
}

// Count is how many rows the table stands for in a search: the sum of its weights, in their unit.
func (p *Problem) Count() float64 { return p.CountOf(p.N()) }

// CountOf is how many so many of its rows stand for.
func (p *Problem) CountOf(rows int) float64 {
	if !p.Weights.Given {
		return float64(rows)
	}
	return float64(rows) * (p.Weights.Total / p.Weights.unit / float64(p.N()))
}

// Size is rows times parameters, which the work of an iteration grows with.
func (p *Problem) Size() int { return p.N() * p.Shape.Parameters() }

// farTarget returns what is taken off the target of rows with these sums: its mean, where that is far from 0
// ([model.FarTarget]) and the experts' intercepts take it up; 0 for nothing. Sums of squares of such targets lose the
// digits that tell the rows apart, and starts that measure noise by the size of the target begin far too wide. All
// differences are exact: y − c has no rounding where y is between
// c/2 and 2c (Sterbenz 1974).
func (p *Problem) farTarget(ctx context.Context, second *tensor.Second, rows model.Rows) (float64, error) {
	mean, square := second.MeanY(1), second.MeanY(2)
	if square-mean*mean > mean*mean/(model.FarTarget*model.FarTarget) || !p.shifts() {
		return 0, nil
	}
	exact := true
	err := model.InOrder(ctx, rows, func(b *model.Block) error {
		for _, y := range b.Y {
			exact = exact && mean/y > 0.5 && mean/y < 2
		}
		return nil
	})
	if err != nil || !exact {
		return 0, err
	}
	return mean, nil
}

// shifts says whether a number that is added to all targets is added to the experts' intercepts, and changes nothing
// else: noise at a distance from means that are straight lines.
func (p *Problem) shifts() bool {
	if !p.Shape.Intercept || !p.Shape.Density().Domain().Scale || p.Shape.Output != nil {
		return false
	}
	for _, g := range p.Activations() {
		if g.Info().Name != "identity" {
			return false
		}
	}
	return true
}

// Taken is what was taken off the target.
func (p *Problem) Taken() float64 {
	if p.Units == nil {
		return 0
	}
	return p.Units.Target
}

// RMS is the root mean square of the target in the units of the fit, about its mean where the experts' means have
// an offset; where a few rows far off are all of it, that of the others ([Shape].Core).
func (p *Problem) RMS() float64 {
	switch {
	case p.Shape.Output != nil:
		return p.Shape.Output.sd
	case p.Shape.Core > 0:
		return p.Shape.Core
	}
	return math.Sqrt(p.Second.MeanY(2))
}

// Spread is that beside which infer.ExactNoise is rounding: the root mean square of the target, but no more than its
// standard deviation where its mean is far from 0, and no less than the rounding of the target as it came.
func (p *Problem) Spread() (float64, error) {
	t, err := model.TotalsOf(p.Rows)
	if err != nil {
		return 0, err
	}
	size, mean := p.RMS(), p.Taken()
	if t.FarFromZero() {
		size, mean = min(size, t.Deviation), t.RMS
	}
	const roundings = 4 * 0x1p-52 / 1e-6 // some of a number's last digits, beside [infer.ExactNoise]
	return max(size, roundings*math.Abs(mean)), nil
}

// farFromMost is the size of a target, relative to the largest, below which it is another matter.
const farFromMost = 1e-4

// Outlier is a row whose target is so far beyond most of the others that what is small beside it
// may be all of them.
type Outlier struct {
	Row    int     // counted from 1, of those that are fitted
	Y      float64 // its target, the farthest
	Others float64 // the root mean square of the distances below farFromMost of its own
}

// Largest returns the row with the target that is the largest in size in the units of the fit, counted from 1 of
// those that are fitted, and that target as it came.
func (p *Problem) Largest() (row int, y float64, err error) {
	row, y, err = p.farthest(0)
	return row, y + p.Taken(), err
}

// farthest is the row whose target is the farthest from a number, counted from 1, and that target.
func (p *Problem) farthest(from float64) (row int, y float64, err error) {
	at := 0
	err = p.eachTarget(func(v float64) {
		if at++; row == 0 || math.Abs(v-from) > math.Abs(y-from) {
			row, y = at, v
		}
	})
	return row, y, err
}

func (p *Problem) eachTarget(fn func(y float64)) error {
	return model.InOrder(context.Background(), p.Rows, func(b *model.Block) error {
		for _, y := range b.Y {
			fn(y)
		}
		return nil
	})
}

// Outlier returns the row whose target is the farthest from 0 where most targets, half of them or more, are below
// farFromMost of that; nil where they are not. Where intercepts take up any number ([Problem.shifts]) distances are
// from the median of the first rows: a 0 is far off among dates in seconds.
func (p *Problem) Outlier() (*Outlier, error) {
	from := 0.0
	if p.shifts() {
		b, err := p.Rows.Block(0, &model.Room{})
		if err != nil {
			return nil, err
		}
		y := slices.Sorted(slices.Values(b.Y[:b.N]))
		from = y[len(y)/2]
	}
	row, y, err := p.farthest(from)
	if err != nil {
		return nil, err
	}
	out, far, small, squares := &Outlier{Row: row, Y: y + p.Taken()}, math.Abs(y-from), 0, 0.0
	err = p.eachTarget(func(y float64) {
		if distance := math.Abs(y - from); distance <= farFromMost*far {
			small++
			squares += distance * distance
		}
	})
	if err != nil || 2*small < p.N() || squares == 0 { // others that are all one value have nothing to hide
		return nil, err
	}
	out.Others = math.Sqrt(squares / float64(small))
	return out, nil
}

// TwoValues returns the values of a target that takes exactly two, the smaller first.
func (p *Problem) TwoValues() (a, b float64, two bool, err error) {
	var values []float64
	err = p.eachTarget(func(y float64) {
		if len(values) < 3 && !slices.Contains(values, y) {
			values = append(values, y)
		}
	})
	if err != nil || len(values) != 2 {
		return 0, 0, false, err
	}
	return min(values[0], values[1]) + p.Taken(), max(values[0], values[1]) + p.Taken(), true, nil
}
