package host

import (
	"cmp"
	"context"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
)

// Auto looks for the highest joint likelihood: candidates from the moment
// estimate and other starts are screened on part of the data, the best refined
// on all of it, and a certificate says whether to trust it.
type Auto struct {
	Mu     float64 // weight μ of L4 (002 Eq. 7) in the moment estimate; 0: 1
	Starts int     // most starts; 0: 32
}

// Name returns "auto".
func (Auto) Name() string { return "auto" }

func (m Auto) check(Config) error {
	return firstError(checkPositive("mu", m.Mu), checkStarts(m.Starts))
}

func (Auto) admit(dataset.Schema) error { return nil }

func (m Auto) mu() float64 { return cmp.Or(m.Mu, moment.DefaultMu) }

func (m Auto) starts() int { return startsOr(m.Starts, 32) }

func (m Auto) fit(ctx context.Context, p *problem.Problem, e *moment.Evidence, c run) (*outcome, error) {
	c.show(StageMoments, 1, 2)
	out := &outcome{joint: true}
	estimate, obstacle, err := moment.EstimateParams(ctx, p, e, m.mu())
	if err != nil {
		return nil, err
	}
	if estimate != nil {
		out.estimate = estimate
		out.note(estimate.Notes...)
	} else {
		out.note("no moment estimate: " + obstacle + "; the likelihood was maximised from other starts")
	}
	out.note(inputsNote(p))
	task, err := m.task(ctx, p, e, estimate, c)
	if err != nil {
		return nil, err
	}
	var judged certified
	out.best, out.all, err = search.Run(ctx, task, c.resume, func(ctx context.Context, best *search.Candidate, all []*search.Candidate) (int, error) {
		var err error
		judged, err = certify(ctx, p, best, all)
		return judged.wanted(), err
	})
	if err != nil {
		return nil, err
	}
	out.certificate = judged.certificate
	out.note(judged.notes...)
	return out, nil
}

// task is the search: which starts, on which rows. The user's own and the moment
// estimate come first, then the kinds in turn.
func (m Auto) task(ctx context.Context, p *problem.Problem, e *moment.Evidence, estimate *moment.Estimate, c run) (*search.Task, error) {
	part := search.ScreeningPart(p)
	t := &search.Task{
		Problem: p, Part: part, Starts: m.starts(),
		Screening: c.shows(StageRace), Refining: c.shows(StageFinish),
	}
	if c.checkpoint != nil {
		t.Checkpoint = func(s search.State) { c.checkpoint(p, s) }
	}
	if c.Start != nil {
		t.First = append(t.First, search.Own(p, c.Start))
	}
	if estimate != nil {
		t.First = append(t.First, search.Moments(p, e, estimate, part))
	}
	random := search.Random(p, e)
	var subspace search.Start
	within := e.Subspace != nil && p.Shape.K > 1
	if within {
		projected, err := model.InMemory(ctx, e.Subspace.Project(part))
		if err != nil {
			return nil, err
		}
		subspace = search.Subspace(p, e, projected)
	}
	switch general := p.Shape.Intercept || !p.Inputs.Standard(); {
	case within && general:
		t.Cycle = []search.Start{search.KMeans(p, part), subspace, random}
	case within:
		t.Cycle = []search.Start{subspace, subspace, random}
	case general:
		t.Cycle = []search.Start{search.KMeans(p, part), random}
	default:
		t.Cycle = []search.Start{random}
	}
	return t, nil
}
