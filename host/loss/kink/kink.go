// Package kink finds the rows that a likelihood has a kink next to: where g has one, the log-likelihood has one at
// parameters with which the predictor ⟨a_i,x⟩ + b_i of a row is there.
package kink

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
)

// Row is a row whose predictor under an expert is next to a kink of g.
type Row struct {
	Row, Expert int
	X           []float64 // in the order of the expert's coefficients
	Gap         float64   // the predictor less the kink
	Above       bool      // whether g has the slope there that it has above the kink
	Force       float64   // by how much the log-likelihood's slope by the predictor falls over the kink
}

// most is how many rows next to kinks are taken of an expert, the nearest. A maximum is at as many kinks at once as an
// expert has coefficients at most, and at few as a rule.
const most = 64

// OtherSide is what a maximum on the other side of a kink has to have more of log-likelihood to be taken: well above
// the rounding of sums over the rows.
const OtherSide = 1e-6

// side is how far beside a kink slopes are taken, relative to the larger of 1 and its size. Slopes that differ by less
// than sameSlope are one.
const side, sameSlope = 1e-9, 1e-6

// bend is a kink of a continuous g, with the slopes on both sides.
type bend struct{ at, below, above float64 }

// bendsOf are the kinks of g at which it is continuous and its slope is not.
func bendsOf(ctx context.Context, g model.Activation, kinks []float64) (out []bend, err error) {
	for _, k := range kinks {
		h := side * max(1, math.Abs(k))
		z, v, dg := []float64{k - h, k + h}, make([]float64, 2), make([]float64, 2)
		if err := g.Eval(ctx, v, z); err != nil {
			return nil, err
		}
		if err := g.Deriv(ctx, dg, z); err != nil {
			return nil, err
		}
		size := max(1, math.Abs(dg[0]), math.Abs(dg[1]))
		if math.Abs(dg[1]-dg[0]) > sameSlope*size && math.Abs(v[1]-v[0]) <= sameSlope*max(1, math.Abs(v[0])) {
			out = append(out, bend{k, dg[0], dg[1]})
		}
	}
	return out, nil
}

// Seen says whether Near sees the kinks of a likelihood, whose experts have one g: those of experts without an output
// of their own, whose coefficients vary, each by itself, and of rows that are not in groups.
func Seen(l *loss.Likelihood, p *model.Params) bool {
	return !l.InGroups() && !p.HasOutput() && l.Ties() == nil && len(Columns(l)) > 0
}

// Columns are the features, D for the intercept, of an expert's coefficients in θ.
func Columns(l *loss.Likelihood) (out []int) {
	for _, q := range l.Parameters() {
		if q.Part == model.Expert && q.Index == 0 {
			out = append(out, q.Feature)
		}
	}
	return out
}

// Near returns the rows of l next to kinks of g at p, at most 64 of an expert, in order. The first row has the number
// first.
func Near(ctx context.Context, l *loss.Likelihood, p *model.Params, kinks []float64, first int) ([]Row, error) {
	bends, err := bendsOf(ctx, l.Activation(), kinks)
	if err != nil || len(bends) == 0 || !Seen(l, p) {
		return nil, err
	}
	columns := Columns(l)
	var all []*finder
	var mu sync.Mutex
	if err := l.EachPosterior(ctx, p, kinks, func() loss.Visitor {
		f := &finder{g: l.Activation(), p: p, bends: bends, columns: columns, first: first,
			near: make([][]Row, p.K), reach: make([]float64, p.K)}
		for i := range f.reach {
			f.reach[i] = math.Inf(1)
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, f)
		return func(block int, b *model.Block, seen *mixture.Posterior, _ []float64) error {
			return f.visit(ctx, block, b, seen)
		}
	}); err != nil {
		return nil, err
	}
	var out []Row
	for _, f := range all {
		out = append(out, slices.Concat(f.near...)...)
	}
	return Nearest(out), nil
}

// finder finds the rows of the blocks that one worker visits.
type finder struct {
	g       model.Activation
	p       *model.Params
	bends   []bend
	columns []int
	first   int
	near    [][]Row   // of each expert
	reach   []float64 // no row farther from its kink is of use
	z, dg   []float64
	slope   []float64
}

// visit looks at the rows of a block.
func (f *finder) visit(ctx context.Context, block int, b *model.Block, seen *mixture.Posterior) error {
	n := b.N
	if f.z == nil {
		f.z, f.dg = make([]float64, f.p.K*model.BlockRows), make([]float64, f.p.K*model.BlockRows)
		f.slope = make([]float64, model.BlockRows)
	}
	z, dg, slope := f.z[:f.p.K*n], f.dg[:f.p.K*n], f.slope[:n]
	f.p.Predictors(z, b)
	if err := f.g.Deriv(ctx, dg, z); err != nil {
		return err
	}
	for i := range f.p.K {
		seen.Weigh(slope, i)
		unit := mixture.Unit(seen.Density, f.p.SigmaOf(i))
		for t, at := range z[i*n : (i+1)*n] {
			for _, k := range f.bends {
				gap := at - k.at
				if math.Abs(gap) > f.reach[i] {
					continue
				}
				force := b.Weight(t) * slope[t] / unit * (k.below - k.above)
				if force == 0 {
					continue
				}
				v := dg[i*n+t]
				f.near[i] = append(f.near[i], Row{Row: f.first + block*model.BlockRows + t, Expert: i,
					X: f.features(b, t), Gap: gap, Force: force,
					Above: math.Abs(v-k.above) < math.Abs(v-k.below)})
			}
		}
		if len(f.near[i]) > 4*most {
			f.near[i] = Nearest(f.near[i])
			f.reach[i] = 0
			for _, r := range f.near[i] {
				f.reach[i] = max(f.reach[i], math.Abs(r.Gap))
			}
		}
	}
	return nil
}

// features are those of row t in the order of an expert's coefficients.
func (f *finder) features(b *model.Block, t int) []float64 {
	out := make([]float64, len(f.columns))
	for i, c := range f.columns {
		if out[i] = 1; c < f.p.D {
			out[i] = b.X[c*b.N+t]
		}
	}
	return out
}

// Nearest are of each expert the rows nearest to kinks, in order: so many of all parts of a table are among those of
// each part.
func Nearest(rows []Row) []Row {
	inOrder := func(a, b Row) int { return cmp.Or(a.Row-b.Row, cmp.Compare(a.Gap, b.Gap)) }
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(a.Expert-b.Expert, cmp.Compare(math.Abs(a.Gap), math.Abs(b.Gap)), inOrder(a, b))
	})
	var out []Row
	for i, count := 0, 0; i < len(rows); i++ {
		if i > 0 && rows[i].Expert != rows[i-1].Expert {
			count = 0
		}
		if count++; count <= most {
			out = append(out, rows[i])
		}
	}
	slices.SortFunc(out, func(a, b Row) int { return cmp.Or(a.Expert-b.Expert, inOrder(a, b)) })
	return out
}

// Pack has rows as numbers: of each its own, its expert's, gap, force, whether it is above as 1 or 0, and its features.
func Pack(rows []Row) (out []float64) {
	for _, r := range rows {
		above := 0.0
		if r.Above {
			above = 1
		}
		out = append(append(out, float64(r.Row), float64(r.Expert), r.Gap, r.Force, above), r.X...)
	}
	return out
}

// Unpack reads what Pack has written of rows of k experts with so many coefficients each, and says whether it may be
// that.
func Unpack(v []float64, k, coefficients int) (out []Row, ok bool) {
	for wide := 5 + coefficients; len(v) >= wide; v = v[wide:] {
		r := Row{Row: int(v[0]), Expert: int(v[1]), X: slices.Clone(v[5:wide]), Gap: v[2], Force: v[3],
			Above: v[4] == 1}
		if !(v[0] >= 0 && v[0] <= 1<<53 && v[1] >= 0 && v[1] < float64(k)) || !slices.Equal(Pack([]Row{r}), v[:wide]) {
			return nil, false
		}
		out = append(out, r)
	}
	return out, len(v) == 0 && len(out) <= most*k
}

// Hinges are those of minus the log-likelihood, over n.
func Hinges(rows []Row, n float64) (out []optim.Hinge) {
	for _, r := range rows {
		h := optim.Hinge{At: r.Expert * len(r.X), X: r.X, Gap: r.Gap, Force: r.Force / n}
		if r.Above {
			h.Gap, h.X = -r.Gap, make([]float64, len(r.X))
			for j, v := range r.X {
				h.X[j] = -v
			}
		}
		out = append(out, h)
	}
	return out
}

// surface is a likelihood with its hinges.
type surface struct {
	loss.Exact[*model.Params]
	l     *loss.Likelihood
	kinks []float64
}

// Surface is the mean negative log-likelihood of l with its exact Hessian, and its kinks.
func Surface(l *loss.Likelihood, kinks []float64) optim.Kinked {
	return surface{l.Exact(kinks), l, kinks}
}

// Hinges implements [optim.Kinked].
func (s surface) Hinges(ctx context.Context, x []float64) ([]optim.Hinge, error) {
	rows, err := Near(ctx, s.l, s.l.Params(x), s.kinks, 0)
	return Hinges(rows, s.l.Rows()), err
}
