package host

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"

	"github.com/gatedlearning/moe/host/criterion"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/result"
	"github.com/gatedlearning/moe/host/search/penalty"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/sdk"
)

// HeldOut is how well fits of one number of experts describe the rows that they have
// not seen.
type HeldOut struct {
	K int `json:"k"`
	// LogLikelihood is Σ w·log p(y|x) over all rows, each by the fit that was made
	// without it; StandardError is that of it, were the rows drawn anew: √n times
	// the standard deviation of the rows' terms.
	LogLikelihood float64 `json:"log_likelihood"`
	StandardError float64 `json:"standard_error"`
	// of the mean prediction, over all rows; of the median where the target has no mean
	RMSE      float64 `json:"rmse"`
	Converged int     `json:"converged"` // fits, of as many as there are folds
}

// CrossValidate fits every number of experts from from to to without each of folds
// parts of the rows in turn, and measures it on the part that was left out. The parts
// are random, as equal as can be, and those of every k the same; a group of rows is in one. Without a part each k
// begins from its neighbours too, as those of [FitRange] do. cfg.Truth and checkpoints are not looked at. Errors are
// those of [FitRange].
func CrossValidate(ctx context.Context, act sdk.Activation, src dataset.Source, from, to, folds int,
	cfg Config) ([]HeldOut, error) {
	if from < 1 || to < from {
		return nil, refuse("k from %d to %d, want 1 or more, the smaller first", from, to)
	}
	one := Alternative{Activation: act, Source: src, From: from, To: to, Config: cfg}
	found, err := crossValidate(ctx, []Alternative{one}, folds)
	if err != nil {
		return nil, err
	}
	if err := found[0].err; err != nil {
		return nil, err
	}
	var out []HeldOut
	for i := range found[0].scores {
		h, err := found[0].scores[i].heldOut(from+i, src.Schema().Name)
		if err != nil {
			return nil, err
		}
		out = append(out, h)
	}
	return out, nil
}

// choiceFolds are the parts of a choice by rows that are left out, where there are as many.
const choiceFolds = 10

// parted is a table with the part of every row; a group of rows is in one.
type parted struct {
	memoryTable
	part  []int
	folds int
}

// inParts reads a table that is to be parted. 0 folds are choiceFolds, or as many as there are rows, or groups.
func inParts(ctx context.Context, src dataset.Source, folds int, seed uint64) (*parted, error) {
	data, err := dataset.Load(ctx, src)
	if err != nil {
		return nil, err
	}
	asked := folds
	if asked == 0 {
		folds = min(choiceFolds, data.N)
	}
	if folds < 2 || folds > data.N {
		return nil, refuse("%d folds of %d rows, want 2 to %d", folds, data.N, data.N)
	}
	if src.Schema().Target == "" {
		return nil, refuse("the data have no target column")
	}
	part := penalty.Folds(data.N, folds, seed)
	if column := src.Schema().Roles[model.Groups]; column != "" {
		groups := 0
		if part, groups = groupParts(data, folds, seed); asked == 0 && groups > 1 && groups < folds {
			folds = groups
			part, groups = groupParts(data, folds, seed)
		}
		if folds > groups {
			return nil, refuse("%d folds of %d groups of column %q, want 2 to %d", folds, groups, column, groups)
		}
	}
	return &parted{memoryTable{src.Schema(), data}, part, folds}, nil
}

// without are the rows of all parts but one, left those of that.
func (t *parted) without(fold int) memoryTable {
	return t.where(func(row int) bool { return t.part[row] != fold })
}

func (t *parted) left(fold int) memoryTable {
	return t.where(func(row int) bool { return t.part[row] == fold })
}

// crossed is what crossvalidation says of an alternative: a score for every number of experts, or why there is none.
type crossed struct {
	table  *parted
	scores []score
	err    error
}

// crossValidate fits every number of experts of all alternatives without each part of their rows, several at a time,
// and scores them by the part; see inParts for 0 folds. What comes of them is the same whatever runs beside it.
func crossValidate(ctx context.Context, all []Alternative, folds int) ([]crossed, error) {
	out, tables := make([]crossed, len(all)), map[any]*parted{}
	type task struct{ of, fold int }
	var tasks []task
	for i, a := range all {
		t := tables[a.sourceKey()]
		if t == nil {
			t, out[i].err = inParts(ctx, a.Source, folds, all[0].Config.Seed)
		}
		if t == nil {
			continue
		}
		tables[a.sourceKey()], out[i].table = t, t
		if rows := t.data.N - (t.data.N+t.folds-1)/t.folds; a.To > rows {
			out[i].err = refuse("k = %d experts for the %d rows of a part's fit; choose a smaller k", a.To, rows)
			continue
		}
		for fold := range t.folds {
			tasks = append(tasks, task{i, fold})
		}
	}
	fits, failed := make([]criterion.Fits, len(tasks)), make([]error, len(tasks))
	threads := all[0].Config.Threads
	if threads < 1 {
		threads = runtime.GOMAXPROCS(0)
	}
	workers := max(1, min(threads, len(tasks)))
	var mu sync.Mutex
	next, done, ended := 0, 0, make([]bool, len(all)) // of alternatives, where a part has failed
	show := func() { all[0].Config.show(StageHeldOut, done, len(tasks)) }
	take := func() (at int, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		for ; next < len(tasks) && ended[tasks[next].of]; next++ {
			done++
		}
		next++
		return next - 1, next <= len(tasks)
	}
	show()
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for at, ok := take(); ok; at, ok = take() {
				a, cfg := all[tasks[at].of], all[tasks[at].of].Config
				cfg.Threads, cfg.Truth, cfg.unjudged = max(1, threads/workers), nil, true
				cfg.Checkpoint, cfg.Resume, cfg.Progress = nil, nil, nil
				rest := out[tasks[at].of].table.without(tasks[at].fold)
				fits[at], failed[at] = everyK(ctx, a.Activation, rest, a.From, a.To, cfg)
				mu.Lock()
				done++
				ended[tasks[at].of] = ended[tasks[at].of] || failed[at] != nil
				show()
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	for at, task := range tasks { // in order: the first part that fails says why
		o, a := &out[task.of], all[task.of]
		if o.err != nil {
			continue
		}
		if err := failed[at]; err != nil {
			o.err = fmt.Errorf("without part %d of %d: %w", task.fold+1, o.table.folds, err)
			continue
		}
		if o.scores == nil {
			o.scores = make([]score, a.To-a.From+1)
		}
		left := o.table.left(task.fold)
		for i := range o.scores {
			f := fits[at][a.From+i]
			if o.scores[i].parameters = f.Parameters; o.err == nil {
				o.err = o.scores[i].add(ctx, a.Activation, f.Model, left)
			}
		}
	}
	return out, nil
}

// everyK fits every number of experts to a table, each from its neighbours too as [FitRange] does.
func everyK(ctx context.Context, act sdk.Activation, rows memoryTable, from, to int,
	cfg Config) (criterion.Fits, error) {
	s, err := openRange(ctx, act, rows, from, to, cfg)
	if err != nil {
		return nil, err
	}
	defer s.close(ctx)
	fits, err := s.ladder(ctx, from, to)
	if err != nil {
		return nil, err
	}
	for k, f := range fits {
		if err := result.Penalise(ctx, s.p.With(k), f.Model, s.cfg.written()); err != nil {
			return nil, err
		}
	}
	return fits, nil
}

// score sums up how well fits of one number of experts describe the rows that they have not seen.
type score struct {
	logLikelihood, squares, sse float64
	observations, scored        float64 // weights of all groups, or rows, and of the rows with a mean, or a median
	parameters                  int
	converged                   int
	terms                       []float64 // of all groups, or rows, times their weight
}

// count adds a group, or a row, of a log-density.
func (s *score) count(weight, logDensity float64) {
	s.logLikelihood += weight * logDensity
	s.squares += weight * logDensity * logDensity
	s.observations += weight
	s.terms = append(s.terms, weight*logDensity)
}

// add measures a fit on the rows that were left out.
func (s *score) add(ctx context.Context, act sdk.Activation, m *fitted.Model, left memoryTable) error {
	if m.Fit.Converged {
		s.converged++
	}
	m = m.ForNewRows()
	predictor, scale := predict.NewPredictor(m.Params(), act, left.schema.Name), left.schema.Scale
	at := m.Params()
	groups, err := loss.NewLikelihood(left.data, act, at, loss.All, 1).OfGroups(ctx, at)
	if err != nil {
		return err
	}
	if groups != nil {
		if scale != "" {
			return refuse("parts of groups are measured on a target itself, not on %s", scale.Title(left.schema.Target))
		}
		for g, v := range groups.LogDensity {
			s.count(groups.Weight[g], v)
		}
	}
	return left.Read(ctx, func(b *model.Block) error {
		p, err := predictor.Predict(ctx, b)
		if err != nil {
			return err
		}
		own := &predict.Own{Point: p.Mean, LogDens: p.LogDens}
		if scale != "" {
			if own, err = predictor.OwnScale(p, scale, b.Y); err != nil {
				return err
			}
		}
		for r, v := range b.Y {
			w, y := b.Weight(r), scale.Back(v)
			if groups == nil {
				s.count(w, own.LogDens[r])
			}
			if e := y - own.Point[r]; !math.IsNaN(e) { // there is a mean, or a median
				s.sse, s.scored = s.sse+w*e*e, s.scored+w
			}
		}
		return nil
	})
}

// heldOut is the score of k experts on the table of that name.
func (s *score) heldOut(k int, name string) (HeldOut, error) {
	mean := s.logLikelihood / s.observations
	h := HeldOut{
		K: k, Converged: s.converged,
		LogLikelihood: s.logLikelihood,
		StandardError: math.Sqrt(max(s.squares-s.observations*mean*mean, 0)),
		RMSE:          math.Sqrt(s.sse / s.scored),
	}
	if !numeric.Finite(h.LogLikelihood, h.StandardError, h.RMSE) {
		return h, &dataset.Error{File: name,
			Msg: fmt.Sprintf("k = %d: held-out log-likelihood %.3g and rmse %.3g are not finite: a fit's predictions "+
				"are too far from the rows that it has not seen to be squared", k, h.LogLikelihood, h.RMSE)}
	}
	return h, nil
}

// memoryTable is a table in memory.
type memoryTable struct {
	schema dataset.Schema
	data   *model.Data
}

// Schema implements [dataset.Source].
func (t memoryTable) Schema() dataset.Schema { return t.schema }

// Read implements [dataset.Source].
func (t memoryTable) Read(ctx context.Context, fn func(*model.Block) error) error {
	for i := range t.data.Blocks {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		b := t.data.Blocks[i]
		if err := fn(&b); err != nil {
			return err
		}
	}
	return nil
}

// where returns the rows of which keep holds, by their places from 0.
func (t memoryTable) where(keep func(row int) bool) memoryTable {
	data, err := model.Where(context.Background(), t.data, keep)
	if err != nil { // rows in memory can be read
		panic(err)
	}
	return memoryTable{t.schema, data}
}
