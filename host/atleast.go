package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/criterion"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/result"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/vacancy"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/stream"
	"github.com/gatedlearning/moe/sdk"
)

// boundLevel is the confidence of a lower bound for the number of experts.
const boundLevel = 0.95

// mostBoundRows is of how many rows, drawn at random, the halves of a bound are made at most: it holds of any, and is
// the higher the more there are.
const mostBoundRows = 4000

// boundStarts are those of a fit to a half: so few that there is no survey.
const boundStarts = 3

// atLeast is a lower confidence bound for the number of experts, of at most to, by split likelihood ratios (Wasserman,
// Ramdas & Balakrishnan 2020; Nguyen, Fryer & McLachlan 2021). Of random halves D₁ and D₂ of the rows
//
//	E_k = mean over h = 1, 2 of  p(D_{3−h}; fit of k + 1 experts to D_h) / max over at most k experts of p(D_{3−h})
//
// has a mean of at most 1 where k experts are enough, so that E_k ≥ 1/(1 − level) speaks against them with that
// confidence, however irregular mixtures are. Of "at most 1, 2, … experts" the first that stands gives the bound. The
// rows of a group or a cluster are in one half; a weight is a count. The rows are to be independent otherwise, the
// experts' family and activation right. Nil, with the reason, where there is none; without one by methods that do not
// look for the maximum.
func (s *series) atLeast(ctx context.Context, act sdk.Activation, to int) (bound *fitted.AtLeast, why string,
	err error) {
	bound, why, err = s.bounded(ctx, act, to)
	var data *dataset.Error
	var request *RequestError
	switch { // of a half: all rows could be fitted
	case errors.As(err, &data):
		return nil, "of a half of the rows " + data.Msg, nil
	case errors.As(err, &request):
		return nil, "of a half of the rows " + request.Msg, nil
	}
	return bound, why, err
}

// bounded is [series.atLeast], or what is wrong with a half.
func (s *series) bounded(ctx context.Context, act sdk.Activation, to int) (bound *fitted.AtLeast, why string,
	err error) {
	if _, auto := s.cfg.Method.(Auto); !auto || to < 2 {
		return nil, "", nil
	}
	cfg := s.cfg
	cfg.Truth, cfg.Start, cfg.Checkpoint, cfg.Resume = nil, nil, nil, nil
	cfg.Method, cfg.unjudged = Auto{Starts: boundStarts}, true
	half, why, err := varied(ctx, s.p.Given, s.p.Schema, cfg.Seed)
	if why != "" || err != nil {
		return nil, why, err
	}
	var fits [2]*rise
	for h, rows := range half {
		if fits[h], err = openRise(ctx, act, rows, &to, cfg.showing(fmt.Sprintf("half %d", h+1))); err != nil {
			return nil, "", err
		}
		defer fits[h].close(ctx)
	}
	if to < 2 {
		return nil, "the rows of a half do not determine two experts", nil
	}
	bound = &fitted.AtLeast{K: 1, Level: boundLevel, Rows: half[0].Data.N + half[1].Data.N}
	for bound.K < to {
		var e [2]float64
		for h := range half {
			most, err := fits[1-h].most(ctx, bound.K)
			if err != nil {
				return nil, "", err
			}
			m, err := fits[h].fit(ctx, bound.K+1)
			if err != nil {
				return nil, "", err
			}
			if e[h], err = newRowsOf(ctx, act, m, half[1-h]); err != nil {
				return nil, "", err
			}
			e[h] -= most
		}
		v := floats.LogSumExp(e[:]) - math.Ln2
		if !numeric.Finite(v) { // a maximum is not known
			break
		}
		bound.LogE = append(bound.LogE, v)
		if v < -math.Log(1-boundLevel) {
			break
		}
		bound.K++
	}
	return bound, "", nil
}

// rise fits one expert, two, and so on, to a half.
type rise struct {
	*series
	fits []criterion.Fit
}

// openRise opens a half for up to to experts, or, with to then less, as many as its rows determine.
func openRise(ctx context.Context, act sdk.Activation, rows dataset.Loaded, to *int, cfg Config) (*rise, error) {
	s, err := openRange(ctx, act, rows, 1, *to, cfg)
	if few := (*problem.FewRowsError)(nil); errors.As(err, &few) && few.K >= 1 && few.K < *to {
		*to = few.K
		s, err = openRange(ctx, act, rows, 1, *to, cfg)
	}
	return &rise{series: s}, err
}

// fit is the fit of k experts, from that of one less too.
func (r *rise) fit(ctx context.Context, k int) (*fitted.Model, error) {
	for len(r.fits) < k {
		k, from := len(r.fits)+1, []search.Neighbour(nil)
		p := r.p.With(k)
		if k > 1 && vacancy.NeighboursHelp(r.p) {
			if n, ok := r.neighbour(r.fits[k-2]); ok {
				from = append(from, n)
			}
		}
		if err := r.series.fit(ctx, p, r.cfg.of(k), from, fitted.Candidate{}); err != nil {
			return nil, err
		}
		c, m := r.asked.chosen.Selection[k-1], r.asked.chosen.Models[k-1]
		if err := result.Penalise(ctx, p, m, r.cfg.written()); err != nil {
			return nil, err
		}
		r.fits = append(r.fits, criterion.Of(p, c, m))
	}
	return r.fits[k-1].Model, nil
}

// most is the greatest log-likelihood of at most k experts: +Inf where the search has not come to a maximum of one of
// them.
func (r *rise) most(ctx context.Context, k int) (float64, error) {
	most := math.Inf(-1)
	for j := 1; j <= k; j++ {
		m, err := r.fit(ctx, j)
		if err != nil || !m.Fit.Converged {
			return math.Inf(1), err
		}
		most = max(most, m.Fit.LogLikelihood)
	}
	return most, nil
}

// newRowsOf is the log-likelihood of rows by the model that predicts new ones.
func newRowsOf(ctx context.Context, act sdk.Activation, m *fitted.Model, rows dataset.Loaded) (float64, error) {
	at := m.ForNewRows().Params()
	return loss.NewLikelihood(rows.Data, act, at, loss.All, 1).LogLikelihood(ctx, at)
}

// mostDeals are made for a column that is constant in a half.
const mostDeals = 20

// varied are halves in which no feature is constant, as the column of a rare level may be, of the first mostDeals. That
// looks at the features alone, given which the targets are independent still.
func varied(ctx context.Context, rows model.Rows, schema dataset.Schema, seed uint64) (half [2]dataset.Loaded,
	why string, err error) {
	fixed := ""
	for deal := range mostDeals {
		half, why, err = halves(ctx, rows, schema, seed, deal)
		if why != "" || err != nil {
			return half, why, err
		}
		if fixed = cmp.Or(constant(half[0]), constant(half[1])); fixed == "" {
			return half, "", nil
		}
	}
	return half, fmt.Sprintf("column %q is the same in all rows of a half", fixed), nil
}

// constant is the first feature that is the same in all rows; "" where none is.
func constant(t dataset.Loaded) string {
	for j := range t.Data.D {
		least, most := math.Inf(1), math.Inf(-1)
		for i := range t.Data.Blocks {
			column := t.Data.Blocks[i].Col(j)
			least, most = min(least, floats.Min(column)), max(most, floats.Max(column))
		}
		if least == most {
			return t.Schema().Features[j]
		}
	}
	return ""
}

// halves deals the rows of a table into two independent halves, or mostBoundRows of them where there are more, or says
// why there are none. The rows of a cluster or a group are in one; of a weight, which is a count, each copy is dealt by
// itself.
func halves(ctx context.Context, rows model.Rows, schema dataset.Schema, seed uint64,
	index int) (half [2]dataset.Loaded, why string, err error) {
	dealt, why, err := deal(ctx, rows, stream.New(seed, stream.Halves, index))
	if why != "" || err != nil {
		return half, why, err
	}
	for h := range half {
		data, err := model.Where(ctx, rows, func(row int) bool { return dealt[h][row] > 0 })
		if err != nil {
			return half, "", err
		}
		of := slices.Sorted(maps.Keys(dealt[h]))
		for i := range data.Blocks {
			for r := range data.Blocks[i].Role[model.Weights] {
				data.Blocks[i].Role[model.Weights][r] = dealt[h][of[r]]
			}
			of = of[data.Blocks[i].N:]
		}
		half[h] = dataset.InMemory(schema, data)
	}
	return half, "", nil
}

// unit is what is dealt as one: rows of an id, or one row. Its key says where.
type unit struct {
	key    float64 // uniform on [0, 1)
	copies float64 // that are dealt one by one; 0 of rows that go together with the weights that they have
	rows   []int
	weight []float64 // of rows
}

// deal returns the weights of the rows of each half, those of none left out.
func deal(ctx context.Context, rows model.Rows, rng *rand.Rand) (dealt [2]map[int]float64, why string, err error) {
	dealt = [2]map[int]float64{{}, {}}
	n, _ := rows.Dims()
	keep := min(1, mostBoundRows/float64(n))
	put := func(u *unit, first, second float64) {
		for h, copies := range [2]float64{first, second} {
			for i, row := range u.rows {
				w := copies
				if u.copies == 0 { // all of them, or none
					w *= u.weight[i]
				}
				if w > 0 {
					dealt[h][row] = w
				}
			}
		}
	}
	// by its key, or each copy by itself
	byChance := func(u *unit) {
		switch {
		case u.copies > 1:
			first := binomial(u.copies, keep/2, rng)
			put(u, first, binomial(u.copies-first, keep/(2-keep), rng))
		case u.key < keep/2:
			put(u, 1, 0)
		case u.key < keep:
			put(u, 0, 1)
		}
	}
	var all []*unit // of a table that is dealt whole
	known, row, counted := make(map[float64]*unit), 0, false
	err = model.InOrder(ctx, rows, func(b *model.Block) error {
		ids := b.Role[model.Clusters]
		together := ids != nil
		if !together {
			ids = b.Role[model.Groups]
		}
		for r := range b.N {
			w := b.Weight(r)
			if w != math.Trunc(w) {
				why = "the weights are no counts"
			}
			var u *unit
			if ids != nil {
				u = known[ids[r]]
			}
			if u == nil {
				u = &unit{key: rng.Float64()}
				if !together {
					u.copies = w
				}
				if ids != nil {
					known[ids[r]] = u
				}
				if ids != nil || keep == 1 {
					all = append(all, u)
				}
				counted = counted || u.copies > 1
			}
			u.rows, u.weight = append(u.rows, row), append(u.weight, w)
			if ids == nil && keep < 1 {
				byChance(u)
			}
			row++
		}
		return nil
	})
	if why != "" || err != nil {
		return dealt, why, err
	}
	if keep < 1 || counted {
		for _, u := range all {
			byChance(u)
		}
		return dealt, "", nil
	}
	slices.SortStableFunc(all, func(a, b *unit) int { return cmp.Compare(a.key, b.key) })
	for i, u := range all {
		put(u, float64(1-i%2), float64(i%2))
	}
	return dealt, "", nil
}

// binomial draws how many of n are taken, each with probability p.
func binomial(n, p float64, rng *rand.Rand) float64 {
	if n == 0 || p == 1 {
		return n
	}
	return distuv.Binomial{N: n, P: p, Src: rng}.Rand()
}
