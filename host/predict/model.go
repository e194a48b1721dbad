package predict

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
)

// Model is a fitted model with its activation, ready to predict. It is read-only
// and safe for concurrent use where the activation is.
//
// Where the file has a penalised model beside the maximum of the likelihood ([fitted.Model.ForNewRows]) that is what it
// predicts by; see [Model.By].
type Model struct {
	*fitted.Model
	used   *fitted.Model // of the file's models
	params *model.Params // of that
	act    model.Activation
}

func opened(m *fitted.Model, act model.Activation) *Model {
	used := m.ForNewRows()
	return &Model{Model: m, used: used, params: used.Params(), act: act}
}

// By is m with predictions by the one of the file's models that is meant. It is an error where there is none.
func (m *Model) By(which fitted.Which) (*Model, error) {
	used, err := m.Of(which)
	if err != nil {
		return nil, err
	}
	return &Model{Model: m.Model, used: used, params: used.Params(), act: m.act}, nil
}

// New returns the model m, such as host.Fit returns it, with the activation that it
// was fitted with; where its experts have several, model.PerExpert of them. That may be
// nil where m carries an approximation of it; it then
// predicts within the range of that. It panics if there is neither, or if act says
// that it is another activation.
func New(m *fitted.Model, act model.Activation) *Model {
	p, err := with(context.Background(), m, "", act)
	if err == nil {
		return p
	}
	if fault := (*dataset.Error)(nil); errors.As(err, &fault) {
		panic("predict: " + fault.Msg)
	}
	panic("predict: " + err.Error())
}

// Open reads a model's file and returns the model with the activation that it was
// fitted with. That may be nil where the file carries an approximation of it, as it
// does where the activation was a plugin's; it then predicts within the range of
// that. Faults of the file, another activation than act among them, are a
// *dataset.Error. What Open returns can be written again: [fitted.Model.Write] is its
// counterpart.
func Open(ctx context.Context, path string, act model.Activation) (*Model, error) {
	m, err := fitted.Read(path)
	if err != nil {
		return nil, err
	}
	return with(ctx, m, path, act)
}

// OpenWith is [Open] with an activation found by its name in the file, where it is
// needed.
func OpenWith(ctx context.Context, path string, resolve Resolver) (*Model, error) {
	m, err := fitted.Read(path)
	if err != nil {
		return nil, err
	}
	g, err := ActivationOf(ctx, m, path, resolve)
	if err != nil {
		return nil, err
	}
	return opened(m, g), nil
}

// with returns the model read from file, or "", with the one activation act, or
// without.
func with(ctx context.Context, m *fitted.Model, file string, act model.Activation) (*Model, error) {
	missing := &dataset.Error{File: file,
		Msg: fmt.Sprintf("the model was fitted with %s, which is not in its file and was not given",
			describe(m.Activation.Name, m.Activation.Params))}
	resolve := func(context.Context, stated.Activation) (model.Activation, error) {
		if act == nil {
			return nil, missing
		}
		return act, nil
	}
	if leaves, ok := act.(model.PerExpert); ok && len(leaves) == len(m.Leaves) {
		for i, leaf := range leaves {
			if err := cmp.Or(sameName(leaf, m.Leaves[i]), m.Leaves[i].Verify(ctx, file, leaf)); err != nil {
				return nil, &dataset.Error{File: file, Msg: err.Error()}
			}
		}
		return opened(m, act), nil
	}
	if act != nil {
		if err := sameName(act, m.Activation); err != nil {
			return nil, &dataset.Error{File: file, Msg: err.Error()}
		}
	}
	g, err := ActivationOf(ctx, m, file, resolve)
	if err != nil {
		return nil, err
	}
	return opened(m, g), nil
}

// Result is what a model says of n rows.
type Result struct {
	Mean         []float64  // E[y|x]; nil where y has none
	Median       []float64  // of models of a scale of the target; nil elsewhere
	Gate         *mat.Dense // n×K: P(z=i|x); an expert that is always 0 has one column more
	Experts      *mat.Dense // n×K: the mean of y under each expert, or its median where y has no mean
	Posterior    *mat.Dense // as Gate: P(z=i|x,y); nil where no y was given
	LogDensity   []float64  // log p(y|x); nil where no y was given
	Lower, Upper []float64  // the prediction intervals; nil where none were asked for
}

// Matrix predicts the rows of x, n×D. y may be nil, else it has n targets. Where
// level is not 0 it is that of prediction intervals, as of [Predictor.Intervals], with the parameters'
// uncertainty where the model has their covariance.
// It is an error if x has another number of columns than the model has features, if y has
// another length than x has rows, if level is not 0 or between 0 and 1, or if a value is not
// finite; and so is one of the activation.
func (m *Model) Matrix(ctx context.Context, x *mat.Dense, y []float64, level float64) (*Result, error) {
	n, d := x.Dims()
	switch {
	case d != m.D:
		return nil, &dataset.Error{File: "matrix", Msg: fmt.Sprintf("%s, the model has %s", count(d, "column"),
			count(m.D, "feature"))}
	case y != nil && len(y) != n:
		return nil, &dataset.Error{File: "matrix", Msg: fmt.Sprintf("%s for %s", count(len(y), "target"),
			count(n, "row"))}
	}
	source := dataset.Matrix(x, y)
	schema := source.Schema()
	schema.Name = "matrix"
	if err := cmp.Or(checkLevel(level), m.needs(schema)); err != nil {
		return nil, err
	}
	out := newResult(n, m.K, m.Classes(), y != nil, level > 0)
	predictor, at := NewPredictor(m.params, m.act, ""), 0
	if u := UncertaintyOf(m.used); u != nil && (level > 0 || u.arrangements != nil) {
		predictor.With(u)
	}
	scale := m.TargetScale
	if scale != "" {
		out.Median = make([]float64, n)
	}
	err := dataset.Scaled(source, scale).Read(ctx, func(b *model.Block) error {
		p, err := predictor.Predict(ctx, b)
		if err != nil {
			return err
		}
		own := p.own()
		if scale != "" {
			if own, err = predictor.OwnScale(p, scale, b.Y); err != nil {
				return err
			}
			copy(out.Median[at:], own.Median)
		}
		copy(out.Mean[at:], own.Point)
		turn(out.Gate, p.Gate, at, b.N)
		turn(out.Experts, own.Experts, at, b.N)
		if y != nil {
			copy(out.LogDensity[at:], own.LogDens)
			turn(out.Posterior, p.Posterior, at, b.N)
		}
		if level > 0 {
			if err := predictor.Intervals(out.Lower[at:at+b.N], out.Upper[at:at+b.N], p, level); err != nil {
				return err
			}
			onScale(scale, out.Lower[at:at+b.N], out.Upper[at:at+b.N])
		}
		at += b.N
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !scale.HasMean() {
		out.Mean = nil
	}
	return out, nil
}

func newResult(n, k, classes int, target, interval bool) *Result {
	out := &Result{Mean: make([]float64, n), Gate: mat.NewDense(n, classes, nil), Experts: mat.NewDense(n, k, nil)}
	if target {
		out.Posterior, out.LogDensity = mat.NewDense(n, classes, nil), make([]float64, n)
	}
	if interval {
		out.Lower, out.Upper = make([]float64, n), make([]float64, n)
	}
	return out
}

// turn writes k rows of n values to the columns of dst, from row at on.
func turn(dst *mat.Dense, rows []float64, at, n int) {
	_, k := dst.Dims()
	for i := range k {
		for r := range n {
			dst.Set(at+r, i, rows[i*n+r])
		}
	}
}

// Selection names the columns by which a file is opened: those that the features are
// made of, in their order, and the target, which the file may lack.
func (m *Model) Selection() dataset.Selection { return Selection(m.Model, false) }

// Selection names the columns by which a file is opened for a model, its target among
// them, which the file may lack. unseen says whether levels that a factor does not
// have are taken for its reference; else they are errors.
func Selection(m *fitted.Model, unseen bool) dataset.Selection {
	sel := dataset.Selection{Features: m.Features, Target: m.Target, Optional: true}
	if m.Design != nil {
		sel = m.Design.Selection(m.Target, unseen)
	}
	sel.Roles = dataset.RolesOf(m.Roles).Raw()
	return sel
}

// Features is the table of a model's features in a table that was opened by its
// [Selection], with the target on the model's scale; a table that has them already comes back as it is.
func Features(m *fitted.Model, src dataset.Source, unseen bool) dataset.Source {
	if m.Design != nil && (!slices.Equal(src.Schema().Features, m.Features) || slices.Equal(m.Features,
		m.Design.Columns)) {
		src = m.Design.Source(src, unseen)
	}
	return dataset.Scaled(dataset.Made(src, dataset.RolesOf(m.Roles)), m.TargetScale)
}

// needs refuses a table that lacks a column which the model needs: that of offsets, and that of trials where there are
// targets.
func (m *Model) needs(s dataset.Schema) error {
	has := dataset.RolesOf(m.Roles)
	for role, what := range map[model.Role]string{model.Offsets: "offsets", model.Trials: "trials"} {
		if name := has[role]; name != "" && s.Roles[role] == "" && (role == model.Offsets || s.Target != "") {
			return &dataset.Error{File: s.Name, Msg: fmt.Sprintf("no column of %s, and the model has %s", what, name)}
		}
	}
	return nil
}

// Table returns the predictions for a table as a table, see [Predictions].
// The features of src are the model's by their place, not by name: open a file with
// [Model.Selection]. Intervals have the parameters' uncertainty where the model has their covariance.
// It is an error of the first pass if src has another number of
// them, or the same names in another order.
func (m *Model) Table(src dataset.Source, extras Extras) dataset.Source {
	extras.Uncertainty = UncertaintyOf(m.used)
	return &checked{Predictions(m.params, m.act, Features(m.Model, src, false), extras).(*predictions), m}
}

// checked is a table of predictions that looks at the names of the features.
type checked struct {
	*predictions
	m *Model
}

func (c *checked) Read(ctx context.Context, fn func(*model.Block) error) error {
	if err := c.m.ordered(c.src.Schema()); err != nil {
		return err
	}
	return c.predictions.Read(ctx, fn)
}

// Evaluate measures the model on a table with a target, see [EvaluateWith]. Features
// are as in [Model.Table].
func (m *Model) Evaluate(ctx context.Context, src dataset.Source) (*Evaluation, error) {
	src = Features(m.Model, src, false)
	if err := m.ordered(src.Schema()); err != nil {
		return nil, err
	}
	return EvaluateModel(ctx, m.used, m.act, src)
}

// ordered refuses the model's own features in another order.
func (m *Model) ordered(s dataset.Schema) error {
	if err := m.needs(s); err != nil {
		return err
	}
	if slices.Equal(s.Features, m.Features) {
		return nil
	}
	if slices.Equal(slices.Sorted(slices.Values(s.Features)), slices.Sorted(slices.Values(m.Features))) {
		return &dataset.Error{File: s.Name, Msg: "the features stand in another order than the model's"}
	}
	return nil
}
