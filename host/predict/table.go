package predict

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

// predictions is the table of what a model says of another table.
type predictions struct {
	params *model.Params
	act    model.Activation
	src    dataset.Source
	extras Extras
}

// Extras are columns of predictions that are there where they are asked for.
type Extras struct {
	Experts  bool    // mean1 … meank: g(⟨a_i,x⟩), the mean of y under each expert; median1 … where y has no mean
	Interval float64 // lower, upper: the central prediction interval of this level; 0: none

	// p_j: P(y = j|x) of each of these values, of families whose targets are whole numbers alone; nil: none
	Values []float64

	// Uncertainty is in the intervals and the probabilities of Values; nil takes the parameters as they are. Where it
	// has arrangements all predictions are over them.
	Uncertainty *Uncertainty

	// Cut, if given, is how many rows a pass has found so far from those of the fit that their intervals are cut: see
	// [Predictor.Intervals].
	Cut *int

	// Groups is what is known of the groups of the table's rows, where it has a column of them: p1 … pk, posterior1 …
	// posteriork and all that is made of them are given that. A pass over the predictions is then two over the table.
	Groups *Groups
}

// Predictions returns the predictions for a table as a table: columns mean, of models of a scale of the target median
// too, p1 … pk (P(z=i|x)) and, where src has a target, posterior1 … posteriork
// (P(z=i|x,y)), each with p_zero or posterior_zero of an expert that is always 0, then the extras. Where a row of src
// lacks a feature (NaN) all of its
// predictions are NaN, where it lacks the target its posteriors. Rows correspond; a
// pass over it is a pass over
// src, and an error if src has another number of features than the model. It panics
// if extras has an interval's level outside [0, 1), or values of a density that gives them no probability.
func Predictions(p *model.Params, act model.Activation, src dataset.Source, extras Extras) dataset.Source {
	mustBeLevel(extras.Interval)
	if d := mixture.DensityOf(p.Family); len(extras.Values) > 0 && !d.Domain().Whole {
		panic("predict: probabilities of single values of the density " + d.Name())
	}
	return &predictions{params: p, act: act, src: src, extras: extras}
}

// mustBeLevel panics unless level is 0 or that of an interval.
func mustBeLevel(level float64) {
	if err := checkLevel(level); err != nil {
		panic("predict: " + err.Error())
	}
}

// checkLevel returns an error unless level is 0 or that of an interval.
func checkLevel(level float64) error {
	if !(level >= 0 && level < 1) {
		return fmt.Errorf("prediction interval of level %v, want 0 for none or one between 0 and 1", level)
	}
	return nil
}

// fits returns an error if a table has another number of features than the model.
func fits(s dataset.Schema, features int) error {
	if n := len(s.Features); n != features {
		return &dataset.Error{File: s.Name, Msg: count(n, "feature") + ", the model has " + fmt.Sprint(features)}
	}
	return nil
}

// Schema names the columns; none of them is a target.
func (t *predictions) Schema() dataset.Schema {
	names := append(t.lead(), t.classes("p")...)
	if t.src.Schema().Target != "" {
		names = append(names, t.classes("posterior")...)
	}
	if t.extras.Experts {
		names = append(names, numbered(t.lead()[0], t.params.K)...)
	}
	if t.extras.Interval > 0 {
		names = append(names, "lower", "upper")
	}
	for _, v := range t.extras.Values {
		names = append(names, fmt.Sprintf("p_%g", v))
	}
	return dataset.Schema{Name: t.src.Schema().Name, Features: names}
}

// classes are the columns of the experts' probabilities, and of the one that is always 0 where there is one.
func (t *predictions) classes(prefix string) []string {
	names := numbered(prefix, t.params.K)
	if t.params.Zero {
		names = append(names, prefix+"_zero")
	}
	return names
}

// lead are the columns before the probabilities: the mean, of a scale of the target the median too, and that alone
// where there is no mean.
func (t *predictions) lead() []string {
	switch s := t.src.Schema().Scale; {
	case s == "":
		return []string{"mean"}
	case s.HasMean():
		return []string{"mean", "median"}
	}
	return []string{"median"}
}

func numbered(prefix string, k int) []string {
	names := make([]string, k)
	for i := range names {
		names[i] = fmt.Sprintf("%s%d", prefix, i+1)
	}
	return names
}

func (t *predictions) Read(ctx context.Context, fn func(*model.Block) error) error {
	if err := fits(t.src.Schema(), t.params.D); err != nil {
		return err
	}
	if t.grouped() {
		if err := t.extras.Groups.take(ctx, t); err != nil {
			return err
		}
	}
	predictor := NewPredictor(t.params, t.act, t.src.Schema().Name)
	if u := t.extras.Uncertainty; u != nil && (t.extras.Interval > 0 || len(t.extras.Values) > 0 ||
		u.arrangements != nil) {
		predictor.With(t.extras.Uncertainty)
	}
	var x []float64
	scale := t.src.Schema().Scale
	return t.src.Read(ctx, func(b *model.Block) error {
		if err := predictor.admit(b); err != nil {
			return err
		}
		whole, lacks := complete(b)
		p, err := predictor.Predict(ctx, whole)
		if err != nil {
			return err
		}
		if t.grouped() {
			t.extras.Groups.apply(p, b)
		}
		own := p.own()
		if scale != "" {
			if own, err = predictor.OwnScale(p, scale, nil); err != nil {
				return err
			}
		}
		x = append(x[:0], own.Point...)
		if len(t.lead()) > 1 {
			x = append(x, own.Median...)
		}
		x = append(x, p.Gate...)
		x = append(x, p.Posterior...)
		if t.extras.Experts {
			x = append(x, own.Experts...)
		}
		if level := t.extras.Interval; level > 0 {
			at := len(x)
			x = append(x, make([]float64, 2*b.N)...)
			if err := predictor.Intervals(x[at:at+b.N], x[at+b.N:], p, level); err != nil {
				return err
			}
			onScale(scale, x[at:at+b.N], x[at+b.N:])
			if t.extras.Cut != nil {
				*t.extras.Cut = predictor.cut
			}
		}
		x = predictor.probabilities(x, p, t.extras.Values)
		out := &model.Block{N: b.N, X: x}
		if lacks != nil {
			t.blank(out, lacks)
		}
		return fn(out)
	})
}

// lack is what a row is without.
type lack int

const (
	nothing lack = iota
	target
	feature
)

// complete returns a block without missing values, and for every row what it is
// without; nil, and b itself, where nothing is missing. A missing value is 0 in the
// copy, of which the predictions are no use. There may be several columns of targets.
func complete(b *model.Block) (*model.Block, []lack) {
	isNaN := func(v float64) bool { return v != v }
	missing := func(role model.Role) bool { return slices.ContainsFunc(b.Role[role], isNaN) }
	if !slices.ContainsFunc(b.X, isNaN) && !slices.ContainsFunc(b.Y, isNaN) &&
		!slices.ContainsFunc(model.OfLaw[:], missing) {
		return b, nil
	}
	whole := &model.Block{N: b.N, X: slices.Clone(b.X), Y: slices.Clone(b.Y)}
	lacks := make([]lack, b.N)
	for at, y := range b.Y {
		if isNaN(y) {
			lacks[at%b.N], whole.Y[at] = target, 0
		}
	}
	for at, v := range b.X {
		if isNaN(v) {
			lacks[at%b.N] = feature
		}
	}
	for _, role := range model.OfLaw {
		whole.Role[role] = slices.Clone(b.Role[role])
		for t, v := range b.Role[role] {
			if isNaN(v) {
				lacks[t], whole.Role[role][t] = feature, 0
			}
		}
	}
	for at := range whole.X {
		if lacks[at%b.N] == feature {
			whole.X[at] = 0
		}
	}
	return whole, lacks
}

// blank makes NaN of what cannot be predicted: all of a row without a feature, the
// posteriors of one without a target.
func (t *predictions) blank(out *model.Block, lacks []lack) {
	k, before := t.params.Classes(), len(t.lead())
	for at := range out.X {
		column := at / out.N
		posterior := t.src.Schema().Target != "" && column >= before+k && column < before+2*k
		if l := lacks[at%out.N]; l == feature || l == target && posterior {
			out.X[at] = math.NaN()
		}
	}
}
