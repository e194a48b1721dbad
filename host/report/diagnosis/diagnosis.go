// Package diagnosis finds what the rows say of a fitted model, in one pass over them: who is in each expert, what its
// residuals are, what it does along the columns. It keeps 8 MB of the rows at most.
package diagnosis

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
)

// Diagnosis is what a page shows of the rows: a sample of them, and
// distributions over all.
type Diagnosis struct {
	Rows   int
	Points []Point
	Drawn  string // the target as points have it: bi / m of successes bi in m trials
	Offset *Held  // nil without one
	// Residuals are, for each expert, the posterior-weighted shares of rows by
	// their standardised residual (y − g(⟨a_i,x⟩))/σ_i, [predict.Standardised] of any density, in residualBins bins on
	// [−ResidualRange, ResidualRange]; the outer bins take what lies beyond.
	Residuals [][]float64
	// Sharpness are the shares of rows by their largest posterior, in
	// sharpnessBins bins on [0, 1].
	Sharpness   []float64
	Calibration *Calibration
	Curves      *Curves // where there is one feature
	Index       *Index  // where there are more
	Features    []int   // that the points have values of, where there are more

	Members  []Members // who is in each expert: the columns, in their order
	Target   Members   // the same of the target
	Shares   []float64 // of the rows, by expert, as the sums of the members have them
	SD       []float64 // of every feature
	Profiles []Profile // along the columns that matter the most
	Panels   []Panel   // where one column is of numbers, and at most one more a factor
	Joins    []Join    // of the experts, where they can be joined

	Kept int // how many rows medians and ticks are of, evenly
}

// Held is a column that curves are drawn at one value of: its median.
type Held struct {
	Column string
	Value  float64
}

// Point is one row.
type Point struct {
	X, Y, Mean float64 // X is the first feature; Y and Mean are of a target with trials by their number
	Expert     int     // the most probable given x and y
	Posterior  float64 // its probability
	Index      float64 // ⟨a,x⟩ + b of that expert
	Residual   float64 // (y − g(⟨a,x⟩ + b))/σ of that expert, or [predict.Standardised]
	Features   []float64
}

// Curves are the experts over the range of the only feature.
type Curves struct {
	X     []float64
	Means [][]float64 // per expert
	Gate  [][]float64 // per expert, a zero expert last
}

const (
	maxPoints     = 1500
	residualBins  = 40
	sharpnessBins = 20
	curvePoints   = 200 // at most model.BlockRows
)

// ResidualRange is how far from 0 the bins of residuals go.
const ResidualRange = 5.0

// Of reads the rows of src once through the model.
func Of(ctx context.Context, m *fitted.Model, act model.Activation, src dataset.Source) (*Diagnosis, error) {
	d := newDiagnosing(m, act, src)
	var err error
	if m.Groups != nil {
		err = predict.GroupPosteriors(ctx, d.p, act, d.source, func(b *model.Block, posterior []float64) error {
			return d.block(ctx, b, posterior)
		})
	} else {
		err = d.source.Read(ctx, func(b *model.Block) error { return d.block(ctx, b, nil) })
	}
	if err != nil {
		return nil, err
	}
	return d.finish(ctx)
}

// OfSharedGate reads the rows of tables, one of every target of a model whose targets
// share a gate, side by side through the model. The experts' probabilities are those given all
// targets.
func OfSharedGate(ctx context.Context, v *fitted.Vector, act model.Activation,
	tables []dataset.Source) (out []*Diagnosis, err error) {
	var all []*diagnosing
	var shown []dataset.Source
	for j, src := range tables {
		m := v.Model(j)
		m.Fit = *v.SharedGate.Fit
		all = append(all, newDiagnosing(m, act, src))
		shown = append(shown, all[j].source)
	}
	err = predict.JointPosteriors(ctx, v, act, shown, func(blocks []*model.Block, posterior []float64) error {
		for j, d := range all {
			if err := d.block(ctx, blocks[j], posterior); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		one, err := d.finish(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// diagnosing is a diagnosis while the rows are read.
type diagnosing struct {
	*Diagnosis
	p         *model.Params
	act       model.Activation
	predictor *predict.Predictor
	stride    int     // of the points among the rows
	lo, hi    float64 // of the first feature

	model            *fitted.Model
	source           dataset.Source
	columns          []rawColumn
	raw              bool         // the columns are not the features
	cells            *model.Block // of the columns, where they are not the features
	keep             int          // every so many rows its cells are kept
	kept             [][]float64  // these
	offsets          []float64    // of the same rows, where there are any
	members          *tally       // of the columns
	target, features *tally
	pooling          *pooling // nil where experts cannot be joined
}

func newDiagnosing(m *fitted.Model, act model.Activation, src dataset.Source) *diagnosing {
	p := m.Params()
	d := &diagnosing{
		Diagnosis: &Diagnosis{Drawn: drawn(m), Residuals: make([][]float64, p.K),
			Sharpness: make([]float64, sharpnessBins), Calibration: newCalibration(m)},
		p: p, act: act, predictor: predict.NewPredictor(p, act, src.Schema().Name),
		stride: (m.Fit.N + maxPoints - 1) / maxPoints, lo: math.Inf(1), hi: math.Inf(-1),
	}
	for i := range d.Residuals {
		d.Residuals[i] = make([]float64, residualBins)
	}
	if p.D > 1 {
		d.Features = scattered(m)
	}
	d.model, d.pooling = m, newPooling(m)
	d.columns, d.raw, d.source = columnsOf(m, src, func(raw *model.Block) { d.cells = raw })
	d.keep = max(1, max((m.Fit.N*len(d.columns)+keptValues-1)/keptValues, d.stride))
	d.members, d.target = newTally(p.K, d.columns), newTally(p.K, []rawColumn{{name: m.ScaledTarget()}})
	var features []rawColumn
	for _, name := range m.Features {
		features = append(features, rawColumn{name: name})
	}
	d.features = newTally(0, features)
	return d
}

// block takes a block, with the experts' probabilities where they are not those that its
// target gives.
func (d *diagnosing) block(ctx context.Context, b *model.Block, posterior []float64) error {
	pred, err := d.predictor.Predict(ctx, b)
	if err != nil {
		return err
	}
	if posterior != nil {
		pred.Posterior = posterior
	}
	index := make([]float64, d.p.K*b.N)
	d.p.Predictors(index, b)
	cells := b
	if d.raw {
		cells = d.cells
	}
	d.members.add(cells, b.Role[model.Weights], pred.Posterior)
	d.target.add(&model.Block{N: b.N, X: b.Y}, b.Role[model.Weights], pred.Posterior)
	d.features.add(b, b.Role[model.Weights], nil)
	if d.pooling != nil {
		if err := d.pooling.add(ctx, d.act, d.p, b, d.Rows, index, pred.Posterior); err != nil {
			return err
		}
	}
	for r := range b.N {
		if d.Rows%d.keep == 0 {
			d.keepRow(cells, r)
			if offset := b.Role[model.Offsets]; offset != nil {
				d.offsets = append(d.offsets, offset[r])
			}
		}
		d.Calibration.add(d.predictor, pred, b, r, d.Rows)
		d.add(d.p, b, pred, index, r, d.stride)
		d.lo, d.hi = min(d.lo, b.Col(0)[r]), max(d.hi, b.Col(0)[r])
	}
	return nil
}

// drawn is the target as pictures have it: on its scale, successes as shares of their trials.
func drawn(m *fitted.Model) string {
	name, roles := m.ScaledTarget(), dataset.RolesOf(m.Roles)
	switch trials, raw := roles[model.Trials], roles.Raw()[model.Trials]; {
	case trials == "":
		return name
	case raw != trials: // of successes and failures
		return fmt.Sprintf("%s / (%s + %s)", name, name, raw)
	default:
		return name + " / " + trials
	}
}

// keepRow keeps the cells of row r.
func (d *diagnosing) keepRow(cells *model.Block, r int) {
	row := make([]float64, len(d.columns))
	for c := range row {
		row[c] = cells.Col(c)[r]
	}
	d.kept = append(d.kept, row)
}

// finish returns the diagnosis of the rows that were read.
func (d *diagnosing) finish(ctx context.Context) (*Diagnosis, error) {
	d.share()
	if d.Rows == 0 {
		return nil, &dataset.Error{File: d.source.Schema().Name, Msg: "no rows to report on"}
	}
	d.Calibration.finish()
	d.Kept = len(d.kept)
	if d.offsets != nil {
		slices.Sort(d.offsets)
		d.Offset = &Held{dataset.RolesOf(d.model.Roles)[model.Offsets], quantile(d.offsets, 0.5)}
	}
	d.Members, d.Target = d.members.members(), d.target.members()[0]
	for _, mass := range d.members.mass[:d.p.K] {
		d.Shares = append(d.Shares, mass/d.members.mass[d.p.K])
	}
	for j := range d.p.D {
		_, sd := d.features.moments(0, j)
		d.SD = append(d.SD, sd)
	}
	if d.pooling != nil {
		d.Joins = d.pooling.joins(d.model)
	}
	var err error
	if d.p.D == 1 {
		d.Curves, err = d.curves(ctx)
	} else {
		d.Index, err = d.alongIndex(ctx, d.p.K, d.p.Output(d.act))
	}
	if err != nil {
		return nil, err
	}
	if d.Profiles, err = d.profiles(ctx); err != nil {
		return nil, err
	}
	if d.Curves == nil || d.raw {
		d.Panels, err = d.panels(ctx)
	}
	return d.Diagnosis, err
}

func (d *Diagnosis) add(p *model.Params, b *model.Block, pred *predict.Prediction, index []float64, r, stride int) {
	point := Point{X: b.Col(0)[r], Y: b.Y[r], Mean: pred.Mean[r]}
	if trials := b.Role[model.Trials]; trials != nil {
		point.Y, point.Mean = point.Y/trials[r], point.Mean/trials[r]
	}
	for i := range p.K {
		post := pred.Posterior[i*b.N+r]
		e := predict.Standardised(p, i, b, r, pred.Experts[i*b.N+r])
		d.Residuals[i][bin((e+ResidualRange)/(2*ResidualRange), residualBins)] += post
		if post > point.Posterior {
			point.Expert, point.Posterior, point.Residual, point.Index = i, post, e, index[i*b.N+r]
		}
	}
	surest := point.Posterior
	if p.Zero {
		surest = max(surest, pred.Posterior[p.K*b.N+r])
	}
	d.Sharpness[bin(surest, sharpnessBins)]++
	if d.Rows%stride == 0 {
		for _, j := range d.Features {
			point.Features = append(point.Features, b.Col(j)[r])
		}
		d.Points = append(d.Points, point)
	}
	d.Rows++
}

func bin(share float64, bins int) int {
	return int(min(max(share*float64(bins), 0), float64(bins-1)))
}

// share turns counts into shares of their sum.
func (d *Diagnosis) share() {
	for _, counts := range append(d.Residuals, d.Sharpness) {
		sum := 0.0
		for _, c := range counts {
			sum += c
		}
		for i := range counts {
			counts[i] /= max(sum, 1e-300)
		}
	}
}

// curves evaluates experts and gate on a grid over the range of the only feature.
func (d *diagnosing) curves(ctx context.Context) (*Curves, error) {
	c := &Curves{X: make([]float64, curvePoints)}
	for i := range c.X {
		c.X[i] = d.lo + (d.hi-d.lo)*float64(i)/(curvePoints-1)
	}
	grid := &model.Block{N: curvePoints, X: c.X}
	d.holdOffset(grid)
	pred, err := predict.NewPredictor(d.p, d.act, "").Predict(ctx, grid)
	if err != nil {
		return nil, err
	}
	c.Means = slices.Collect(slices.Chunk(pred.Experts, curvePoints))
	c.Gate = slices.Collect(slices.Chunk(pred.Gate, curvePoints))
	return c, nil
}

// holdOffset gives the rows of a block the median of the offsets, where there are any.
func (d *diagnosing) holdOffset(b *model.Block) {
	if d.Offset != nil {
		b.Role[model.Offsets] = slices.Repeat([]float64{d.Offset.Value}, b.N)
	}
}
