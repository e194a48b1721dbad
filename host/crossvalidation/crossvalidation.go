// Package crossvalidation measures descriptions of a model on rows that they have not seen, a random part of them at a
// time, and chooses among them by that.
package crossvalidation

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"sync"

	"github.com/gatedlearning/moe/host/criterion"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/sdk"
)

// Alternative is one of several descriptions of a model of the same rows: of from From to To experts.
type Alternative struct {
	Activation sdk.Activation
	Source     dataset.Source
	Intercept  bool // of experts and gate
	From, To   int
	// Fit fits every number of experts to some of the rows, on so many threads.
	Fit func(ctx context.Context, rows dataset.Loaded, from, to, threads int) (criterion.Fits, error)
	// Settings are what tells it from the others, by their names: the table of all has them.
	Settings map[string]string
	// Refused says why it is none that can be fitted; nil of one that is tried.
	Refused error
}

// Parting is how the rows are parted, and how many fits are made at a time: the same for all alternatives.
type Parting struct {
	Folds    int                   // parts; 0: ten, or as many as there are rows, or groups
	Seed     uint64                // by which they are drawn
	Threads  int                   // 0: one per processor
	Progress func(done, total int) // of fits; nil for nobody
}

// Of fits every number of experts of a without each part of the rows in turn, and measures it on the part
// that was left out. The parts are random, as equal as can be, and those of every k the same; a group of rows is in
// one.
func Of(ctx context.Context, a Alternative, by Parting) ([]HeldOut, error) {
	found, err := crossValidate(ctx, []Alternative{a}, by)
	if err != nil {
		return nil, err
	}
	if err := found[0].err; err != nil {
		return nil, err
	}
	var out []HeldOut
	for i := range found[0].scores {
		h, err := found[0].scores[i].heldOut(a.From+i, a.Source.Schema().Name)
		if err != nil {
			return nil, err
		}
		h.Unseen = found[0].table.unseen()
		out = append(out, h)
	}
	return out, nil
}

// crossed is what crossvalidation says of an alternative: a score for every number of experts, or why there is none.
type crossed struct {
	table  *parts
	scores []score
	err    error
}

// crossValidate fits every number of experts of all alternatives without each part of their rows, several at a time,
// and scores them by the part. What comes of them is the same whatever runs beside it.
func crossValidate(ctx context.Context, all []Alternative, by Parting) ([]crossed, error) {
	out, tables := make([]crossed, len(all)), map[any]*parts{}
	type task struct{ of, fold int }
	var tasks []task
	for i, a := range all {
		t := tables[a.sourceKey()]
		if t == nil {
			t, out[i].err = inParts(ctx, a.Source, a.Intercept, by.Folds, by.Seed)
		}
		if t == nil {
			continue
		}
		tables[a.sourceKey()], out[i].table = t, t
		if rows := t.Data.N - (t.Data.N+t.folds-1)/t.folds; a.To > rows {
			out[i].err = problem.Refuse("k = %d experts for the %d rows of a part's fit; choose a smaller k", a.To,
				rows)
			continue
		}
		for fold := range t.folds {
			tasks = append(tasks, task{i, fold})
		}
	}
	fits, failed := make([]criterion.Fits, len(tasks)), make([]error, len(tasks))
	threads := by.Threads
	if threads < 1 {
		threads = runtime.GOMAXPROCS(0)
	}
	workers := max(1, min(threads, len(tasks)))
	var mu sync.Mutex
	next, done, ended := 0, 0, make([]bool, len(all)) // of alternatives, where a part has failed
	show := func() {
		if by.Progress != nil {
			by.Progress(done, len(tasks))
		}
	}
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
				a, rest := all[tasks[at].of], out[tasks[at].of].table.without(tasks[at].fold)
				fits[at], failed[at] = a.Fit(ctx, rest, a.From, a.To, max(1, threads/workers))
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
			o.scores[i].parameters = max(o.scores[i].parameters, f.Parameters) // those of a part may be fewer
			if o.err == nil {
				o.err = o.scores[i].add(ctx, a.Activation, f.Model, left)
			}
		}
	}
	return out, nil
}

// sourceKey tells the tables of alternatives apart.
func (a Alternative) sourceKey() any {
	if reflect.ValueOf(a.Source).Comparable() {
		return struct {
			source    dataset.Source
			intercept bool
		}{a.Source, a.Intercept}
	}
	return new(byte) // of a table that nothing says to be another
}
