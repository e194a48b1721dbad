package newton

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/advice"
	"github.com/gatedlearning/moe/host/fitted/progress"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/infer/specification"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/shard/sealed"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/sdk"
)

// The certificate of passes over shards is that of a fit of all rows on one machine: the
// specification tests (specification.Tests) at the maximum. Their sums need the units of the fit, which the
// first pass tells, the scales of their bounded functions, which the last one tells, and
// the proportions at the maximum. So they are summed in a pass of their own, at the model
// where the others have converged; between the passes progress.Passes has what is known.
// The covariance of the terms is taken from targets drawn from the model for a sample of
// rows, which travel with the sums: the drawing is the merger's, by the seed of the fit.

// notYet is the note of a model whose certificate is still to be made.
const notYet = "no certificate yet: another pass at this model makes it"

// certifies says whether sums at m are those of its certificate.
func certifies(m *fitted.Model) bool {
	p := m.Fit.Passes
	return m.Fit.Method == Method && m.Fit.Converged && p != nil && p.Squares != nil &&
		(m.Groups == nil || p.Groups > 0)
}

// specificationOf begins the tests of m in the units of its fit; act may be nil where
// nothing is evaluated. Of too many terms there is no test and an error.
func specificationOf(m *fitted.Model, act sdk.Activation) (*specification.Steps, error) {
	p := m.Params()
	spec, err := specification.NewSteps(act, unitsOf(m).Into(p), freeOf(m))
	if err == nil && certifies(m) {
		s := m.Fit.Passes.Squares
		spec.Scale(&specification.Squares{Rows: s.Rows, Z: s.Z, Logits: s.Logits, X: s.Features})
	}
	return spec, err
}

// unitsOf are the units of the fit, as far as they are known.
func unitsOf(m *fitted.Model) *problem.Units {
	if p := m.Fit.Passes; p != nil && p.Mean != nil {
		return &problem.Units{Mean: p.Mean, SD: p.SD}
	}
	return nil
}

// scales sums what the certificate needs before its own pass: in the first pass what the
// units of the fit are told from, then the squares at the parameters of m over some blocks of the table, of
// which data begins at from.
func (n *Sums) scales(ctx context.Context, m *fitted.Model, data *model.Data, from int) error {
	spec, err := specificationOf(m, nil)
	if err != nil {
		return nil // too many terms: there will be no certificate
	}
	if m.Fit.Passes == nil {
		if n.second != nil {
			return nil
		}
		n.second = tensor.NewSecond(m.D)
		var room tensor.Scratch
		for i := range data.Blocks {
			n.second.Add(&data.Blocks[i], &room)
		}
		return nil
	}
	if n.groups == nil { // of rows in groups it is all of them
		some := &model.Data{D: data.D}
		for _, i := range model.Spaced(n.Table.Blocks(), spec.Draws()) {
			if i >= from && i < from+len(data.Blocks) {
				some.Blocks = append(some.Blocks, data.Blocks[i-from])
				some.N += data.Blocks[i-from].N
			}
		}
		data = some
	}
	squares, err := spec.Squares(ctx, unitsOf(m).View(data))
	if err == nil && !numeric.Finite(squaresValues(squares)...) { // at a point that will not be taken
		squares = squares.Like()
	}
	n.points[len(n.points)-1].squares = squares
	return err
}

// passes is what is known for the certificate behind the pass whose sums n are, where the best
// climb of m is, or why there will be none.
func (n *Sums) passes(m *fitted.Model, best *climb) (p *progress.Passes, uncertified string) {
	spec, err := specificationOf(m, nil)
	if spec == nil {
		return nil, err.Error()
	}
	if n.second == nil {
		known := *m.Fit.Passes
		known.Squares, known.Agreeing, known.Met = best.Squares, best.Agreeing, best.Met
		return &known, ""
	}
	free := freeOf(m)
	shape := problem.Shape{
		K: m.K, D: m.D, Experts: free.ExpertColumns, Gate: free.GateColumns,
		Intercept: m.RegressorIntercepts != nil, GateIntercept: m.GatingIntercepts != nil,
	}
	units, err := shape.Units(n.second)
	if err != nil {
		return nil, err.Error()
	}
	p = evidenceOf(m)
	p.Agreeing, p.Met = best.Agreeing, best.Met
	p.Target, p.Weight = sizeOf(n.second), 1
	if units != nil {
		p.Mean, p.SD = units.Mean, units.SD
	}
	if n.groups != nil {
		p.Groups = n.points[0].sums[1]
	}
	if infer.Exact(m.Params(), p.Target) {
		return nil, "the fit is exact to rounding"
	}
	return p, ""
}

// sizeOf is that beside which the noise of an exact fit is rounding: the root mean square of the target, or where its
// mean is far from 0 its standard deviation, with what rounding of the sums of squares may make of it.
func sizeOf(s *tensor.Second) float64 {
	const rounding = 1e-14
	mean, square := s.MeanY(1), s.MeanY(2)
	if v := max(0, square-mean*mean); v < mean*mean/(model.FarTarget*model.FarTarget) {
		return math.Sqrt(v + rounding*square)
	}
	return math.Sqrt(square)
}

// evidenceOf is what the starts of a fit are evidence of.
func evidenceOf(m *fitted.Model) *progress.Passes {
	p := &progress.Passes{Rows: m.Fit.N}
	kinds := map[string]bool{}
	for _, s := range m.Fit.Starts {
		if s.Agrees {
			p.Agreeing++
		}
		if numeric.Finite(s.LogLikelihood) {
			p.Starts++
			kinds[s.Kind] = true
		}
	}
	if s := m.Fit.Survey; s != nil {
		p.Survey, p.Met = true, s.Met
		p.Starts += s.Starts
		p.Agreeing += s.Met
		for _, kind := range s.Kinds {
			kinds[kind] = true
		}
	}
	p.Kinds = len(kinds)
	passes := m.Fit.Certificate != nil && m.Fit.Certificate.Optimum == infer.Pass // of a thorough survey
	for _, o := range m.Fit.Merges {
		if o.BIC < 0 && p.Fewer == nil && !passes {
			p.Fewer = &progress.Fewer{Experts: o.Experts, BIC: o.BIC}
		}
	}
	return p
}

// inOrder says whether the largest expert is the first, and so on, to rounding.
func inOrder(proportions []float64) bool {
	return slices.IsSortedFunc(proportions, func(a, b float64) int {
		if math.Abs(a-b) <= SmallStep {
			return 0
		}
		return cmp.Compare(b, a)
	})
}

// tests are the sums of a certificate over rows, and the rows, or the groups of them, that are drawn.
type tests struct {
	sums   *specification.RowSums
	drawn  *specification.Draws
	groups *specification.GroupDraws // nil where each row has its own expert
}

// sumTests sums the certificate of m over the rows of the part, which begin at block from of the table.
func (n *Sums) sumTests(ctx context.Context, m *fitted.Model, act sdk.Activation, data *model.Data, from,
	workers int) (*tests, error) {
	spec, err := specificationOf(m, act)
	if err != nil {
		return nil, err
	}
	t := newTests(spec, m)
	if data.N == 0 {
		return t, nil
	}
	rows := unitsOf(m).View(data)
	if t.groups != nil {
		t.sums, t.groups, err = spec.SumGroups(ctx, rows, n.first, groupsOf(m), m.Fit.Seed)
	} else if t.sums, err = spec.Sums(ctx, rows, workers); err == nil {
		t.drawn, err = spec.Draw(ctx, rows, from, priorOf(m), m.Fit.Seed, workers)
	}
	if err == nil && !numeric.Finite(t.sumsValues()...) {
		err = &dataset.Error{File: m.Target, Msg: "the tests of the model are not finite on these rows"}
	}
	return t, err
}

// newTests are those of no rows.
func newTests(spec *specification.Steps, m *fitted.Model) *tests {
	if m.Groups != nil {
		return &tests{sums: spec.NoGroupSums(), groups: specification.NewGroupDraws(m.D)}
	}
	return &tests{sums: spec.NoSums(), drawn: new(specification.Draws)}
}

// priorOf is what the draws need to know of all rows.
func priorOf(m *fitted.Model) *specification.RowSums {
	all := &specification.RowSums{Weight: float64(m.Fit.N)}
	if m.Fit.Weight > 0 {
		all.Weight = m.Fit.Weight
	}
	for _, v := range m.Proportions {
		all.Prior = append(all.Prior, v*all.Weight)
	}
	return all
}

// groupsOf is what the draws need to know of all groups.
func groupsOf(m *fitted.Model) *specification.AllGroups {
	all := &specification.AllGroups{Weight: m.Fit.Passes.Groups, Rows: m.Fit.N,
		Groups: m.Groups.Count}
	for _, v := range m.Proportions {
		all.Prior = append(all.Prior, v*all.Weight)
	}
	return all
}

func (t *tests) like() *tests {
	out := &tests{sums: t.sums.Like()}
	if t.groups != nil {
		out.groups = t.groups.Like()
	} else {
		out.drawn = new(specification.Draws)
	}
	return out
}

// add adds those of the next part.
func (t *tests) add(o *tests) {
	t.sums.Merge(o.sums)
	if t.groups != nil {
		t.groups.Append(o.groups)
	} else {
		t.drawn.Append(o.drawn)
	}
}

// drawnAny says whether something was drawn.
func (t *tests) drawnAny() bool {
	if t.groups != nil {
		return t.groups.Draws() > 0
	}
	return len(t.drawn.Expert) > 0
}

// make makes the tests.
func (t *tests) make(ctx context.Context, spec *specification.Steps, seed uint64,
	workers int) (specification.Tested, error) {
	if t.groups != nil {
		return spec.GroupTests(ctx, t.sums, t.groups, seed, workers)
	}
	return spec.Tests(ctx, t.sums, t.drawn, seed, workers)
}

// Certify puts the parts of a certificate together: its tests, and what the starts of the
// fit that the passes began at are evidence of. What does not fit together, and parts of
// a pass, which [Merge] merges, are a *dataset.Error.
func Certify(ctx context.Context, files []string, parts []*Sums, act sdk.Activation, workers int) (*Step, error) {
	m, all, err := mergeNewton(files, parts)
	if err != nil {
		return nil, err
	}
	if all.tests == nil {
		return nil, &dataset.Error{File: files[0], Msg: "it is of a pass, not of the certificate behind them"}
	}
	if !all.tests.drawnAny() {
		return nil, &dataset.Error{File: files[0], Msg: "no rows were drawn for the certificate: make the parts again"}
	}
	if err := m.Activation.Verify(ctx, files[0], act); err != nil {
		return nil, err
	}
	spec, err := specificationOf(m, act)
	if err != nil {
		return nil, err
	}
	made, err := all.tests.make(ctx, spec, m.Fit.Seed, workers)
	if err != nil {
		return nil, err
	}
	e := m.Fit.Passes
	c := infer.Judge(made.Tests, infer.Evidence{Starts: e.Starts, Kinds: e.Kinds, Agreeing: e.Agreeing,
		Survey: e.Survey, Met: e.Met})
	c.Untested, c.NotMade, c.Overlap = made.Untested, made.NotMade, made.Overlap
	p := m.Params()
	columns, _ := freeOf(m).Columns(p)
	c.RestsOn(p, made.Mass, len(columns))
	if (problem.Weights{Rows: m.Fit.N, Total: m.Fit.Weight}).Light() && m.Fit.Weight > 0 {
		c.Withdraw(m.Fit.N, m.Fit.Weight)
		m.Fit.Warn(fitted.WarnWeights, "%s", c.Reason)
	}
	if m.Groups != nil {
		c.OfGroups(m.Proportions, e.Groups)
	}
	if e.Fewer != nil {
		c.Fewer(e.Fewer.Experts, e.Fewer.BIC)
	}
	m.Fit.Certificate, m.Fit.Passes, m.Fit.Prints = fitted.NewCertificate(c), nil, nil
	advice.Add(m, c)
	m.Fit.Notes = slices.DeleteFunc(m.Fit.Notes, func(note string) bool { return note == notYet })
	m.Fit.Notes = append(m.Fit.Notes,
		fmt.Sprintf("the starts that the certificate counts are those of the fit to %d rows that the passes began at",
			e.Rows))
	return &Step{Model: m, Pass: m.Fit.Iterations, Converged: true, Certified: true}, nil
}

// Certificate says whether the sums are of a certificate, which [Certify] merges.
func (n *Sums) Certificate() bool { return n.tests != nil }

func squaresValues(s *specification.Squares) []float64 {
	return slices.Concat([]float64{s.Rows}, s.Z, s.Logits, s.X)
}

// squaresOf is what squaresValues wrote, of k experts.
func squaresOf(v []float64, k int) *specification.Squares {
	return &specification.Squares{Rows: v[0], Z: v[1 : 1+k], Logits: v[1+k : 1+2*k], X: v[1+2*k:]}
}

func (t *tests) sumsValues() []float64 {
	out := slices.Concat([]float64{t.sums.Weight, t.sums.Shared}, t.sums.Neighbours.Values(), t.sums.Prior, t.sums.Mass,
		t.sums.Terms, t.sums.Slopes, t.sums.Telling)
	if g := t.sums.Groups; g != nil {
		out = append(out, g.Weight, g.Pairs, g.Products, g.Squares)
	}
	return out
}

// set takes what sumsValues gave, of as many experts and terms.
func (t *tests) set(values []float64) {
	s, pairs := t.sums, len(t.sums.Neighbours.Values())
	s.Weight, s.Shared = values[0], values[1]
	s.Neighbours.Set(values[2 : 2+pairs])
	values = values[2+pairs:]
	for _, part := range [][]float64{s.Prior, s.Mass, s.Terms, s.Slopes, s.Telling} {
		values = values[copy(part, values):]
	}
	if s.Groups != nil {
		*s.Groups = specification.GroupSums{Weight: values[0], Pairs: values[1], Products: values[2],
			Squares: values[3]}
	}
}

// drawnValues are of every row drawn its features, its weight, its expert and what its law depends on.
func (t *tests) drawnValues() []float64 {
	if t.groups != nil {
		return t.groups.Values()
	}
	n := len(t.drawn.Expert)
	out := make([]float64, 0, len(t.drawn.X)+(2+len(model.OfLaw))*n)
	for r, i := range t.drawn.Expert {
		out = append(out, t.drawn.X[r*len(t.drawn.X)/n:(r+1)*len(t.drawn.X)/n]...)
		out = append(out, t.drawn.Weight[r], float64(i))
		for _, role := range model.OfLaw {
			if values := t.drawn.Role[role]; len(values) > 0 {
				out = append(out, values[r])
			}
		}
	}
	return out
}

// loadTests reads the bodies of a certificate of m over a table with columns of these roles.
func loadTests(m *fitted.Model, roles dataset.Roles, bodies map[string][]byte) (*tests, error) {
	spec, err := specificationOf(m, nil)
	if err != nil {
		return nil, err
	}
	width := m.D + 2
	for _, role := range model.OfLaw {
		if roles[role] != "" {
			width++
		}
	}
	t := newTests(spec, m)
	sums, err := sealed.Exactly(bodies["tests"], len(t.sumsValues()))
	if err != nil {
		return nil, err
	}
	rows, err := sealed.Numbers(bodies["draws"])
	if err != nil || len(bodies) != 2 || t.groups == nil && len(bodies["draws"])%(8*width) != 0 {
		return nil, sealed.ErrDamaged
	}
	t.set(sums)
	if t.groups != nil {
		var has model.ByRole[bool]
		for _, role := range model.OfLaw {
			has[role] = roles[role] != ""
		}
		whole := false
		if t.groups, whole = specification.GroupDrawsOf(rows, m.D, m.Classes(), has); !whole {
			return nil, sealed.ErrDamaged
		}
		return t, nil
	}
	for ; len(rows) > 0; rows = rows[width:] {
		weight, expert, rest := rows[m.D], rows[m.D+1], rows[m.D+2:width]
		if !(weight > 0) || expert < 0 || expert >= float64(m.Classes()) || expert != math.Trunc(expert) {
			return nil, sealed.ErrDamaged
		}
		row := &specification.Draws{X: rows[:m.D], Weight: []float64{weight}, Expert: []int{int(expert)}}
		for _, role := range model.OfLaw {
			if roles[role] != "" {
				row.Role[role], rest = rest[:1], rest[1:]
			}
		}
		if trials := row.Role[model.Trials]; trials != nil && !(trials[0] >= 1 && trials[0] == math.Trunc(trials[0])) {
			return nil, sealed.ErrDamaged
		}
		t.drawn.Append(row)
	}
	return t, nil
}
