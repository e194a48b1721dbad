package moment

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/solver"
)

// rowLaw is what makes the law of a row's y given the expert's predictor another one than that of other rows.
type rowLaw struct {
	offset float64
	trials float64 // 0: the rows have none
}

// rowLawOf is that of row t of a block.
func rowLawOf(b *model.Block, t int) (l rowLaw) {
	if offset := b.Role[model.Offsets]; offset != nil {
		l.offset = offset[t]
	}
	if trials := b.Role[model.Trials]; trials != nil {
		l.trials = trials[t]
	}
	return l
}

// density is d under the law.
func (l rowLaw) density(d mixture.Density) mixture.Density {
	if l.trials == 0 {
		return d
	}
	return mixture.OfTrials(d, []float64{l.trials})
}

// laws are those of all rows, by offset and trials, with their shares of the weight.
type laws struct {
	each   []rowLaw
	share  []float64
	at     map[rowLaw]int
	offset bool // they differ by offsets
	trials bool // they differ by trials
}

const (
	// mostLaws and leastRows of each bound the transforms that are made: one takes about as long as some passes over so
	// many rows.
	mostLaws  = 64
	leastRows = 500
)

// lawsOf are the laws of the rows, which the features are taken to be independent of; if there are too many it says so.
func lawsOf(ctx context.Context, p *problem.Problem) (l *laws, why string, err error) {
	n, _ := p.Rows.Dims()
	most := max(1, min(mostLaws, n/leastRows))
	weight := map[rowLaw]float64{}
	if roles := p.Schema.Roles; roles[model.Offsets] == "" && roles[model.Trials] == "" {
		return &laws{each: []rowLaw{{}}, share: []float64{1}}, "", nil
	}
	err = model.InOrder(ctx, p.Rows, func(b *model.Block) error {
		for t := range b.N {
			if len(weight) > most {
				return nil
			}
			w := 1.0
			if of := b.Role[model.Weights]; of != nil {
				w = of[t]
			}
			weight[rowLawOf(b, t)] += w
		}
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	l = &laws{at: map[rowLaw]int{}}
	l.each = slices.SortedFunc(maps.Keys(weight), func(a, b rowLaw) int {
		return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.trials, b.trials))
	})
	for i, of := range l.each {
		l.at[of] = i
		l.share = append(l.share, weight[of]/p.Weights.Total)
		l.offset = l.offset || of.offset != l.each[0].offset
		l.trials = l.trials || of.trials != l.each[0].trials
	}
	if len(l.each) > most {
		return nil, fmt.Sprintf("y given the features has more laws, by its %s, than the %d that %d rows are "+
			"enough for", l.words(), most, n), nil
	}
	return l, "", nil
}

// words name what the laws differ in.
func (l *laws) words() string {
	switch {
	case l.offset && l.trials:
		return "offsets and numbers of trials"
	case l.trials:
		return "numbers of trials"
	}
	return "offsets"
}

// quantiles are about how many values all laws together are told from.
const quantiles = 512

// newValued thins quantiles of y to so many as the share asks for; all of them stand for the share.
func newValued(l rowLaw, q []float64, share float64) valued {
	m := len(q)
	if share < 1 {
		m = min(m, max(4, int(quantiles*share)))
	}
	v := valued{rowLaw: l}
	for i := range m {
		y := q[(2*i+1)*len(q)/(2*m)]
		if i == 0 || y != v.y[len(v.y)-1] {
			v.y, v.many = append(v.y, y), append(v.many, 0)
		}
		v.many[len(v.many)-1] += share * float64(len(q)) / float64(m)
	}
	return v
}

// values are those of y under each law, of some rows.
func (l *laws) values(ctx context.Context, p *problem.Problem) ([]valued, error) {
	y, w := make([][]float64, len(l.each)), make([][]float64, len(l.each))
	err := model.InOrder(ctx, model.Part(p.Rows, LevelRows), func(b *model.Block) error {
		for t := range b.N {
			i := l.at[rowLawOf(b, t)]
			y[i] = append(y[i], b.Y[t])
			if of := b.Role[model.Weights]; of != nil {
				w[i] = append(w[i], of[t])
			}
		}
		return nil
	})
	var out []valued
	for i, of := range l.each {
		if len(y[i]) > 0 {
			out = append(out, newValued(of, solver.Quantiles(y[i], w[i]), l.share[i]))
		}
	}
	return out, err
}

// outputs are the transforms of minimum variance of each law. T_r of a row is that of its law times
//
//	ω_r = (1/V_r) / Σ_laws share/V_r
//
// with the variance V_r of one row's contraction under the law ([solver.Optimal.Variance]), so that the mean over rows
// estimates the same tensor with the least variance. A law without T_r, as that of few trials, has no part in it.
type outputs struct {
	*laws
	of     []*solver.Optimal
	weight [5][]float64 // by order
}

// outputs makes the transforms under what the values of y tell. It is an error where a value of g is no mean.
func (l *laws) outputs(ctx context.Context, p *problem.Problem, m *Marginal) (*outputs, error) {
	o := &outputs{laws: l}
	var law *solver.Law
	for i, of := range l.each {
		if i == 0 || of.offset != l.each[i-1].offset {
			var err error
			if law, err = solver.NewLaw(ctx, moved{p.Activation, m.Intercept + of.offset, m.Norm}); err != nil {
				return nil, err
			}
		}
		t, err := law.OptimalOf(mixture.NewGiven(of.density(p.Shape.Density()), m.Own), p.Shape.K)
		if err != nil {
			return nil, err
		}
		o.of = append(o.of, t)
	}
	for r := 1; r <= 4; r++ {
		total := 0.0
		for i, t := range o.of {
			w := 0.0
			if t.Has(r) && t.Has(max(r, 2)) {
				w = 1 / t.Variance(max(r, 2)) // what the signs are told by goes with T_2
			}
			o.weight[r] = append(o.weight[r], w)
			total += l.share[i] * w
		}
		if total > 0 {
			floats.Scale(1/total, o.weight[r])
		}
	}
	return o, nil
}

// richest is the law with most orders, and of these that of least variance.
func (o *outputs) richest() *solver.Optimal {
	orders := func(t *solver.Optimal) (n int) {
		for r := 1; r <= 4; r++ {
			if t.Has(r) {
				n++
			}
		}
		return n
	}
	return slices.MinFunc(o.of, func(a, b *solver.Optimal) int {
		if by := cmp.Compare(orders(b), orders(a)); by != 0 || !a.Has(2) {
			return by
		}
		return cmp.Compare(a.Variance(2), b.Variance(2))
	})
}

// rows are the rows with T_r(y)·ω_r for y.
func (o *outputs) rows(rows model.Rows, r int) model.Rows {
	_, d := rows.Dims()
	return model.Map(rows, d, func(dst, src *model.Block) {
		copy(dst.X, src.X)
		dst.Y = make([]float64, src.N)
		for t, y := range src.Y {
			if i := o.at[rowLawOf(src, t)]; o.weight[r][i] > 0 {
				dst.Y[t] = o.weight[r][i] * o.of[i].At(r, y)
			}
		}
	})
}

// given are the transforms of targets that are transformed already.
type given struct{}

func (given) Has(int) bool                  { return true }
func (given) Apply(_ int, dst, y []float64) { copy(dst, y) }
