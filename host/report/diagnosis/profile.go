package diagnosis

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/internal/numeric"
)

// Profile is what experts and gate do along a column, with the others and the offset at their medians, factors at their
// commonest level.
type Profile struct {
	Name   string
	Levels []string    // of a factor, or of a column of zeros and ones; the points below are then these
	At     []float64   // values of the column
	Means  [][]float64 // per expert
	Gate   [][]float64 // per expert, a zero expert last
	Ticks  []float64   // values of rows, of a column of numbers

	OfGate, OfExperts bool // whether they depend on the column
}

const (
	maxProfiles   = 4    // columns with pictures
	mostProfiled  = 400  // columns that are looked at for these
	profilePoints = 61   // of a picture
	probePoints   = 9    // of a column that is looked at
	maxTicks      = 120  // rows
	leastProfile  = 0.01 // the share of the rows to either side that a picture leaves out
)

// probe says how strongly the model depends on a column.
type probe struct {
	column        int
	gate, experts float64
}

// profiles are those along the columns on which the gate depends the most, and, where these are few, the experts.
func (d *diagnosing) profiles(ctx context.Context) (out []Profile, err error) {
	base := d.base()
	var probes []probe
	for _, c := range d.probed() {
		b, err := d.probe(ctx, base, c)
		if err != nil {
			return nil, err
		}
		if b.gate > 0 || b.experts > 0 {
			probes = append(probes, b)
		}
	}
	slices.SortStableFunc(probes, func(a, b probe) int {
		return cmp.Or(cmp.Compare(b.gate, a.gate), cmp.Compare(b.experts, a.experts))
	})
	for _, b := range probes[:min(len(probes), maxProfiles)] {
		p, _, err := d.along(ctx, base, b.column, d.points(b.column, profilePoints))
		if err != nil {
			return nil, err
		}
		p.OfGate, p.OfExperts = b.gate > 0, b.experts > 0
		out = append(out, *p)
	}
	return out, nil
}

// probed are the columns that are looked at: all that vary, or those in which the experts' rows differ the most.
func (d *diagnosing) probed() (out []int) {
	for c := range d.columns {
		if s := &d.Members[c]; s.Levels != nil || s.SD > 0 {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(d.Members[b].Differs, d.Members[a].Differs) })
	return out[:min(len(out), mostProfiled)]
}

// base is a row of medians and commonest levels, as cells of the columns.
func (d *diagnosing) base() []float64 {
	out := make([]float64, len(d.columns))
	for c := range out {
		if s := &d.Members[c]; s.Levels != nil {
			out[c] = d.columns[c].cell(float64(floats.MaxIdx(s.Shares)))
			continue
		}
		out[c] = quantile(d.sorted(c), 0.5)
	}
	return out
}

// points are the values of a column at which it is looked at: levels, or so many over the range of the rows.
func (d *diagnosing) points(c, n int) (out []float64) {
	switch s := &d.Members[c]; {
	case s.Levels != nil:
		for l, share := range s.Shares {
			if share > 0 {
				out = append(out, d.columns[c].cell(float64(l)))
			}
		}
		return out
	case s.Binary:
		return []float64{0, 1}
	}
	values := d.sorted(c)
	if n == probePoints { // as the rows are spread
		for i := range n {
			out = append(out, quantile(values, (float64(i)+0.5)/float64(n)))
		}
		return out
	}
	lo, hi := quantile(values, leastProfile), quantile(values, 1-leastProfile)
	if !(hi > lo) { // few rows have another value
		lo, hi = numeric.Extent(values)
	}
	return floats.Span(make([]float64, n), lo, hi)
}

// weights are the shares of the rows at the points of a probe.
func (d *diagnosing) weights(c, n int) []float64 {
	out := make([]float64, n)
	s := &d.Members[c]
	for i := range out {
		out[i] = 1
	}
	switch {
	case s.Levels != nil:
		copy(out, slices.DeleteFunc(slices.Clone(s.Shares), func(share float64) bool { return !(share > 0) }))
	case s.Binary:
		copy(out, []float64{1 - s.Mean, s.Mean})
	}
	return out
}

// probe measures the dependence on a column: of the gate by the largest standard deviation, as the rows are spread over
// the column, of the log of the odds of two branches of a gate, of the experts by that of their means.
func (d *diagnosing) probe(ctx context.Context, base []float64, c int) (probe, error) {
	out := probe{column: c}
	at := d.points(c, probePoints)
	p, logits, err := d.along(ctx, base, c, at)
	if err != nil {
		return out, err
	}
	w, odds := d.weights(c, len(at)), make([]float64, len(at))
	for i := range logits {
		for j := range i {
			if d.model.Hierarchy == "" || i == d.p.K-1 { // of one gate any two; the last has logits of 0
				floats.SubTo(odds, logits[i], logits[j])
				out.gate = max(out.gate, spread(odds, w))
			}
		}
	}
	for i, means := range p.Means {
		sd := spread(means, w)
		out.experts += d.model.Proportions[i] * sd * sd
	}
	return out, nil
}

// spread is the standard deviation of values with weights, 0 for what is only rounding.
func spread(values, weights []float64) float64 {
	mean := stat.Mean(values, weights)
	sum, total, size := 0.0, 0.0, 0.0
	for i, v := range values {
		sum, total, size = sum+weights[i]*(v-mean)*(v-mean), total+weights[i], max(size, math.Abs(v))
	}
	if sd := math.Sqrt(sum / total); sd > 1e-12*size {
		return sd
	}
	return 0
}

// featuresOf are the features of rows of columns, n columns of cells each.
func (d *diagnosing) featuresOf(ctx context.Context, rows *model.Block) (*model.Block, error) {
	if !d.raw {
		return rows, nil
	}
	var out *model.Block
	err := d.model.Design.Source(&oneBlock{d.model.Design.Columns, rows}, true).Read(ctx, func(b *model.Block) error {
		own := b.Clone()
		out = &own
		return nil
	})
	return out, err
}

// sorted are the finite values of a column among the rows that are kept, ascending.
func (d *diagnosing) sorted(c int) []float64 {
	out := make([]float64, 0, len(d.kept))
	for _, row := range d.kept {
		if !math.IsNaN(row[c]) {
			out = append(out, row[c])
		}
	}
	slices.Sort(out)
	return out
}

// along evaluates the model at values of a column, the others at the base, with the gates' logits.
func (d *diagnosing) along(ctx context.Context, base []float64, c int, at []float64) (*Profile, [][]float64, error) {
	s := &d.Members[c]
	out := &Profile{Name: s.Name, At: at, Means: make([][]float64, d.p.K)}
	out.Gate = make([][]float64, d.p.Classes())
	logits := make([][]float64, d.p.Classes())
	predictor := predict.NewPredictor(d.p, d.act, "")
	for from := 0; from < len(at); from += model.BlockRows {
		some := at[from:min(len(at), from+model.BlockRows)]
		cells := &model.Block{N: len(some), X: make([]float64, len(some)*len(base))}
		for j, v := range base {
			for r := range some {
				cells.Col(j)[r] = v
			}
		}
		copy(cells.Col(c), some)
		rows, err := d.featuresOf(ctx, cells)
		if err != nil {
			return nil, nil, err
		}
		d.holdOffset(rows)
		pred, err := predictor.Predict(ctx, rows)
		if err != nil {
			return nil, nil, err
		}
		n := len(some)
		all := make([]float64, d.p.Classes()*n)
		d.p.GateLogits(all, rows)
		for i := range d.p.K {
			out.Means[i] = append(out.Means[i], pred.Experts[i*n:(i+1)*n]...)
		}
		for i := range logits {
			out.Gate[i] = append(out.Gate[i], pred.Gate[i*n:(i+1)*n]...)
			logits[i] = append(logits[i], all[i*n:(i+1)*n]...)
		}
	}
	switch {
	case s.Levels != nil:
		for _, v := range at {
			out.Levels = append(out.Levels, s.Levels[int(d.columns[c].code(v))])
		}
	case s.Binary:
		out.Levels = []string{"0", "1"}
	default:
		out.Ticks = thinned(d.sorted(c), at[0], at[len(at)-1])
	}
	return out, logits, nil
}

// thinned are at most maxTicks of sorted values from lo to hi, evenly.
func thinned(sorted []float64, lo, hi float64) (out []float64) {
	within := slices.DeleteFunc(sorted, func(v float64) bool { return v < lo || v > hi })
	every := max(1, (len(within)+maxTicks-1)/maxTicks)
	for i := every / 2; i < len(within); i += every {
		out = append(out, within[i])
	}
	return out
}
