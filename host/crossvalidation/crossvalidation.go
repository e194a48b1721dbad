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
	Sources    []dataset.Source // a table of every target, with the same features and rows
	Intercept  bool             // of experts and gate
	From, To   int
	Several    bool // the model is of several targets
	// Fit fits every number of experts to some of the rows, on so many threads.
	Fit func(ctx context.Context, rows []dataset.Loaded, from, to, threads int) (criterion.Fits, error)
	// Admit says what is wrong with all rows before there are parts, other rows of another target too.
	Admit func(ctx context.Context, rows []dataset.Loaded) error
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
// one. It ends before the first k for which the rows without a part are too few, and fails where the least one is that.
func Of(ctx context.Context, a Alternative, by Parting) ([]HeldOut, error) {
	found, err := crossValidate(ctx, []Alternative{a}, by, false)
	if err != nil {
		return nil, err
	}
	of, err := asFarAsRows(ctx, a, found[0], by)
	if err == nil {
		err = of.err
	}
	if err != nil {
		return nil, err
	}
	var out []HeldOut
	for i := range of.scores {
		h, err := of.scores[i].heldOut(a.From+i, of.table)
		if err != nil {
			return nil, err
		}
		out = append(out, h)
	}
	return out, nil
}

// crossed is what crossvalidation says of an alternative: a score for every number of experts, or why there is none.
type crossed struct {
	table  *parts
	scores []score
	to     int // the largest number of experts that is still fitted
	err    error
}

// crossValidate fits every number of experts of all alternatives without each part of their rows, several at a time,
// and scores them by the part. In a race those that are far behind after some parts are left: see [leaveBehind].
// What comes of them is the same whatever runs beside it.
func crossValidate(ctx context.Context, all []Alternative, by Parting, race bool) ([]crossed, error) {
	out, tables := make([]crossed, len(all)), map[any]*parts{}
	total, most := 0, 0 // fits, and parts of a table
	for i, a := range all {
		t := tables[a.sourceKey()]
		if t == nil {
			t, out[i].err = inParts(ctx, a.Sources, a.Intercept, by.Folds, by.Seed)
		}
		if t == nil {
			continue
		}
		tables[a.sourceKey()], out[i].table, out[i].to = t, t, a.To
		if rows := len(t.part) - (len(t.part)+t.folds-1)/t.folds; a.To > rows {
			out[i].err = problem.Refuse("k = %d experts for the %d rows of a part's fit; choose a smaller k", a.To,
				rows)
			continue
		}
		if out[i].err = a.Admit(ctx, t.tables); out[i].err != nil {
			continue
		}
		out[i].scores = make([]score, a.To-a.From+1)
		total, most = total+t.folds, max(most, t.folds)
	}
	done := 0
	show := func(more int) {
		if done += more; by.Progress != nil {
			by.Progress(done, total)
		}
	}
	show(0)
	made := 0
	for _, parts := range looks {
		if !race || parts >= most {
			break
		}
		if err := fitWithout(ctx, all, out, made, parts, by.Threads, show); err != nil {
			return nil, err
		}
		made = parts
		leaveBehind(out, parts)
	}
	return out, fitWithout(ctx, all, out, made, most, by.Threads, show)
}

// fitWithout fits alternatives without each of the parts from one to before another, and scores them by it. One that
// fails is left with the error of the first part at which it does.
func fitWithout(ctx context.Context, all []Alternative, out []crossed, from, to, threads int,
	show func(more int)) error {
	type task struct{ of, fold int }
	var tasks []task
	for i, o := range out {
		if o.scores == nil { // none of its fits are to be made
			continue
		}
		for fold := from; fold < min(to, o.table.folds); fold++ {
			if o.err != nil || o.to < all[i].From { // it has failed, or all are left
				show(1)
				continue
			}
			tasks = append(tasks, task{i, fold})
		}
	}
	fits, failed := make([]criterion.Fits, len(tasks)), make([]error, len(tasks))
	if threads < 1 {
		threads = runtime.GOMAXPROCS(0)
	}
	workers := max(1, min(threads, len(tasks)))
	var mu sync.Mutex
	next, ended := 0, make([]bool, len(all)) // of alternatives, where a part has failed
	take := func() (at int, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		for ; next < len(tasks) && ended[tasks[next].of]; next++ {
			show(1)
		}
		next++
		return next - 1, next <= len(tasks)
	}
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for at, ok := take(); ok; at, ok = take() {
				a, o := all[tasks[at].of], out[tasks[at].of]
				rest := o.table.without(tasks[at].fold)
				fits[at], failed[at] = a.Fit(ctx, rest, a.From, o.to, max(1, threads/workers))
				mu.Lock()
				ended[tasks[at].of] = ended[tasks[at].of] || failed[at] != nil
				show(1)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
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
		left := o.table.left(task.fold)
		for k := a.From; k <= o.to && o.err == nil; k++ {
			o.err = o.scores[k-a.From].add(ctx, a.Activation, fits[at][k], left)
		}
	}
	return nil
}

// looks are after how many parts a race is looked at.
var looks = []int{1, 2, 3, 5, 7}

// earlyRows in the parts so far, or groups, are needed at least for a description to be left.
const earlyRows = 30

// mostBehind is how many standard errors below the best a description of more parameters may be after this share of
// the parts. To be taken it would have to end a standard error above all of fewer parameters. One that is two better,
// which would be taken 84 times of 100, is left in .7 of these, one that is as good in .3 of its 16.
func mostBehind(share float64) float64 { return 2.25 - 2.5*share }

// leaveBehind leaves the largest numbers of experts of alternatives that are far behind the best of all after so many
// parts, with more parameters: further than mostBehind, and than a unit for each parameter more, twice what these cost
// new rows where they are of no use. What gains by a few rows that the parts so far have not is not lost so.
// Smaller numbers of experts are fitted beside those that are not left.
func leaveBehind(all []crossed, parts int) {
	var top *score
	for i := range all {
		for j := range all[i].scores {
			s := &all[i].scores[j]
			if all[i].err == nil && s.sound() &&
				(top == nil || s.predictive.logLikelihood > top.predictive.logLikelihood) {
				top = s
			}
		}
	}
	if top == nil || len(top.weights) < earlyRows {
		return
	}
	for i := range all {
		o := &all[i]
		for j := len(o.scores) - 1; j >= 0 && o.err == nil; j-- {
			s := &o.scores[j]
			if s.left != nil {
				continue
			}
			more := s.parameters - top.parameters
			if len(s.weights) != len(top.weights) || more <= 0 {
				break
			}
			share := float64(parts) / float64(o.table.folds)
			by, se := s.below(top)
			if s.sound() && !(by > mostBehind(share)*se && by > share*float64(more)) {
				break
			}
			s.left = &behind{parts, by, se}
			o.to--
		}
	}
}

// sourceKey tells the tables of alternatives apart.
func (a Alternative) sourceKey() any {
	var key any = a.Intercept
	for _, src := range a.Sources {
		if !reflect.ValueOf(src).Comparable() {
			return new(byte) // of a table that nothing says to be another
		}
		key = [2]any{key, src}
	}
	return key
}
