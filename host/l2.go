package host

import (
	"cmp"
	"context"

	"github.com/gatedlearning/moe/host/descent"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/result"
)

// L2 descends the squared loss by mini-batches, as the papers' baseline does.
type L2 struct {
	MiniBatches
	Optimiser descent.Optimiser // nil is descent.SGD
	Starts    int               // so many; 0: 8
}

// Name returns "l2".
func (L2) Name() string { return "l2" }

func (m L2) settings() descent.L2 {
	return descent.L2{MiniBatches: m.MiniBatches, Optimiser: m.Optimiser}
}

// Takes implements [Method].
func (L2) Takes() []Option {
	return append([]Option{OptStart, OptStarts, OptOptimiser}, batchOptions...)
}

func (m L2) check() error { return cmp.Or(checkStarts(m.Starts), m.settings().Check()) }

func (L2) order() int { return 0 }

func (m L2) fit(ctx context.Context, p *problem.Problem, e *moment.Evidence, c run) (*result.Outcome, error) {
	all := randomStarts(c.Config, cmp.Or(m.Starts, 8))
	record, notes, err := m.settings().Fit(ctx, p, e, all, c.Start, c.shows(StageDescent))
	if err != nil {
		return nil, err
	}
	out := &result.Outcome{Best: all[0], All: all, Descended: record}
	out.Note(notes...)
	out.Note(noCertificate(m))
	return out, nil
}
