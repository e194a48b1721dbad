// Package recheck computes the log-likelihood of a result, or the loss of a network, a second time, before it is
// returned: by plain sums in another order than the passes of a fit have, and on some of the
// rows in numbers of many digits, with exp and log by series of its own. It has nothing in
// common with the passes but the parameters, g and the rows: what they do to be fast, or to
// lose no digits, is what it is there to check.
package recheck

import (
	"context"
	"fmt"
	"math"

	"github.com/gatedlearning/moe/host/model"
)

// Fit is a result that is to be checked. Weights multiply the rows' log-densities.
type Fit struct {
	Rows model.Rows
	Act  model.Activation // g
	// Result is what is returned, Passes the same as the passes had it, where another order
	// of the experts or other units lie between: both in the units of the rows.
	Result, Passes Mixture
	// LogLikelihood is what is stated: Σ_rows w·log p(y|x), all constants included.
	LogLikelihood float64
	// Shift is |mean|/sd of every feature where the result is stated in other units than those
	// of the rows, nil where it is not: so much larger are the terms that its intercepts cancel.
	Shift []float64
	// Targets are what was taken off each target, nil for nothing: the intercepts of the result were stated with it.
	Targets []float64
	// Widened returns what the passes have for the log-likelihood where all noise levels are
	// so many times as large. It is asked of fits that are exact to rounding alone.
	Widened func(ctx context.Context, times float64) (float64, error)
	Workers int // 0: one per processor; nothing depends on it
	// Grouped says that rows with one value in the column of groups have one expert.
	Grouped bool
}

// Error is a result whose log-likelihood, or loss, is not what was stated: a defect of the program.
type Error struct {
	What           string
	Stated, Second float64
}

// What is checked.
const (
	ofMixture = "log-likelihood"
	ofNetwork = "loss"
)

func (e *Error) Error() string {
	return fmt.Sprintf("the fit has a %s of %.10g, and a second computation of it gives %.10g: this is a defect of "+
		"moe, and nothing was written; please report it with the data", e.What, e.Stated, e.Second)
}

const (
	// agreed is how far two computations may differ, relative to Σ|log p(y|x)|, beside what
	// rounding explains.
	agreed = 1e-9
	// sampled rows are computed in many digits.
	sampled = 8
)

// Check returns an [*Error] unless the second computation gives the log-likelihood that is
// stated, and the one in many digits that of the sampled rows: both to 1e−9 of Σ|log p(y|x)|
// and what the rounding of y, means and logits alone explains ([rounding]). A fit that is exact to rounding, whose
// residuals are nothing else, is held in its means: by its likelihood with more noise. Other
// errors are those of the rows and of g.
func (f Fit) Check(ctx context.Context) error {
	s, err := f.sum(ctx, f.Result, false)
	if err != nil {
		return err
	}
	if s.agrees(f.LogLikelihood) {
		return nil
	}
	// What rounding explains costs as much again, and is seldom wanted.
	if s, err = f.explained(ctx, 1); err != nil {
		return err
	}
	if !s.agrees(f.LogLikelihood) {
		return &Error{ofMixture, f.LogLikelihood, s.loglik.value()}
	}
	if f.Widened == nil || s.exact() {
		return nil
	}
	for times := 10.0; times <= mostWidened; times *= 10 {
		if s, err = f.explained(ctx, times); err != nil {
			return err
		}
		if !s.exact() {
			continue
		}
		stated, err := f.Widened(ctx, times)
		if err == nil && !s.agrees(stated) {
			err = &Error{ofMixture, stated, s.loglik.value()}
		}
		return err
	}
	return nil
}

// Impossible returns the first row, counted from 1, whose density under a mixture is below the
// smallest number, or is none; 0 where no row's is.
func Impossible(ctx context.Context, rows model.Rows, act model.Activation, m Mixture) (row int, err error) {
	r, at := newRoom(m, nil), 0
	err = model.InOrder(ctx, rows, func(b *model.Block) error {
		if row > 0 {
			return nil
		}
		if err := r.take(ctx, act, b, false); err != nil {
			return err
		}
		for t := range b.N {
			if v := r.term(b, t); math.IsInf(v, -1) || math.IsNaN(v) {
				row = at + t + 1
				break
			}
		}
		at += b.N
		return nil
	})
	return row, err
}

// mostWidened is how many times larger noise levels are taken at most.
const mostWidened = 1e12

// explained is the sum at the result, with noise levels so many times as large, and what
// rounding explains there and where the passes were.
func (f Fit) explained(ctx context.Context, times float64) (sums, error) {
	s, err := f.sum(ctx, f.Result.widened(times), true)
	if err != nil {
		return s, err
	}
	passes, err := f.sum(ctx, f.Passes.widened(times), true)
	s.rounding.add(passes.rounding.value())
	return s, err
}

// sums are those of a pass: of terms a row, log p or, of a network, −(y − f)²/2.
type sums struct {
	loglik, size neumaier // Σ w·term, Σ w·|term|
	rounding     neumaier // what rounding explains of the first
	weight       neumaier // Σ w
	// Of the sampled rows Σ w·|term − that in many digits|, Σ w·|term|, and what rounding explains.
	apart, sampleSize, sampleRounding float64
}

// agrees says whether what is stated is the log-likelihood, and the sample agrees.
func (s *sums) agrees(stated float64) bool {
	own := s.loglik.value()
	near := stated == own || math.Abs(stated-own) <= agreed*s.size.value()+s.rounding.value()
	return near && s.apart <= agreed*s.sampleSize+s.sampleRounding
}

// exact says whether rounding explains less of the log-likelihood than agreed.
func (s *sums) exact() bool { return s.rounding.value() <= agreed*s.size.value() }

func (s *sums) add(o *sums) {
	s.loglik.join(o.loglik)
	s.size.join(o.size)
	s.rounding.join(o.rounding)
	s.weight.join(o.weight)
	s.apart += o.apart
	s.sampleSize += o.sampleSize
	s.sampleRounding += o.sampleRounding
}

// terms are those of the rows of one block after the other.
type terms interface {
	take(ctx context.Context, act model.Activation, b *model.Block, rounding bool) error
	term(b *model.Block, t int) float64
	// rounding is by how much two computations of a term that is v may differ. It follows on term of the row.
	rounding(b *model.Block, t int, v float64) float64
	// exactly is the term in many digits, where there is such a computation.
	exactly(ctx context.Context, act model.Activation, b *model.Block, t int) (v float64, ok bool, err error)
}

// sum passes over the rows.
func (f Fit) sum(ctx context.Context, m Mixture, rounding bool) (sums, error) {
	if f.Grouped {
		return f.sumGroups(ctx, m, rounding)
	}
	return sumOf(ctx, f.Rows, f.Act, f.Workers, rounding, func() terms { return f.room(m) })
}

// room is that of m, which knows what was taken off features and targets.
func (f Fit) room(m Mixture) *room {
	r := newRoom(m, f.Shift)
	r.targets = f.Targets
	return r
}

// sumOf passes over rows, each worker with terms of its own.
func sumOf(ctx context.Context, rows model.Rows, act model.Activation, workers int, rounding bool,
	room func() terms) (sums, error) {
	n, _ := rows.Dims()
	of := map[int][]int{} // the sampled rows of each block
	for s := range min(sampled, n) {
		row := (2*s + 1) * n / (2 * min(sampled, n))
		of[row/model.BlockRows] = append(of[row/model.BlockRows], row%model.BlockRows)
	}
	workers = model.Workers(workers)
	rooms, chunks := make([]terms, workers), make([]sums, model.Chunks(rows))
	err := model.Each(ctx, rows, workers, func(worker, chunk, block int, b *model.Block) error {
		if rooms[worker] == nil {
			rooms[worker] = room()
		}
		return chunks[chunk].block(ctx, rooms[worker], act, b, of[block], rounding)
	})
	var total sums
	for c := len(chunks) - 1; c >= 0; c-- {
		total.add(&chunks[c])
	}
	return total, err
}

// block adds a block's rows.
func (s *sums) block(ctx context.Context, r terms, act model.Activation, b *model.Block, sample []int,
	rounding bool) error {
	if err := r.take(ctx, act, b, rounding); err != nil {
		return err
	}
	for t := b.N - 1; t >= 0; t-- {
		w := b.Weight(t)
		if w == 0 {
			continue
		}
		v := r.term(b, t)
		s.loglik.add(w * v)
		s.size.add(w * math.Abs(v))
		s.weight.add(w)
		if rounding {
			s.rounding.add(w * r.rounding(b, t, v))
		}
	}
	for _, t := range sample {
		w := b.Weight(t)
		if w == 0 {
			continue
		}
		exact, ok, err := r.exactly(ctx, act, b, t)
		if err != nil || !ok {
			return err
		}
		v := r.term(b, t)
		if v != exact { // both may be −Inf
			s.apart += w * math.Abs(v-exact)
		}
		s.sampleSize += w * math.Abs(exact)
		if rounding {
			s.sampleRounding += w * r.rounding(b, t, v)
		}
	}
	return nil
}

// neumaier is a sum and what its additions have lost (Neumaier 1974).
type neumaier struct{ sum, lost float64 }

func (s *neumaier) add(v float64) {
	next := s.sum + v
	if math.Abs(s.sum) >= math.Abs(v) {
		s.lost += (s.sum - next) + v
	} else {
		s.lost += (v - next) + s.sum
	}
	s.sum = next
}

func (s *neumaier) join(o neumaier) {
	s.add(o.sum)
	s.lost += o.lost
}

// value returns the sum; what is lost of an infinite one is no number.
func (s neumaier) value() float64 {
	if math.IsInf(s.sum, 0) {
		return s.sum
	}
	return s.sum + s.lost
}
