package search

import (
	"context"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
)

// DefaultStarts is the budget of starts of a search.
const DefaultStarts = 32

// Settings are those of a search for the highest joint likelihood.
type Settings struct {
	Mu     float64       // weight μ of L4 (002 Eq. 7) in the moment estimate
	Starts int           // at most
	Own    *model.Params // a start of the user's, in the units of the data; nil for none
	Resume State         // where an earlier search stood; zero for a new one
	Follow
}

// Found is what a search came to.
type Found struct {
	Best        *Candidate
	All         []*Candidate       // as they were refined, best of the screening first
	Estimate    *moment.Estimate   // nil where the tensors cannot give one
	Certificate *infer.Certificate // nil where there is none
	Notes       []string           // for the user
}

// Auto looks for the highest joint likelihood from the moment estimate and
// starts of other kinds, until the certificate of what it found asks for no more.
func Auto(ctx context.Context, p *problem.Problem, e *moment.Evidence, s Settings) (*Found, error) {
	estimate, obstacle, err := moment.EstimateParams(ctx, p, e, s.Mu)
	if err != nil {
		return nil, err
	}
	out := &Found{Estimate: estimate}
	if estimate != nil {
		out.Notes = append(out.Notes, estimate.Notes...)
	} else {
		out.Notes = append(out.Notes, "no moment estimate: "+obstacle+"; the likelihood was maximised from other starts")
	}
	if note := p.Inputs.Note(); note != "" {
		out.Notes = append(out.Notes, note)
	}
	t, err := newTask(ctx, p, e, estimate, s)
	if err != nil {
		return nil, err
	}
	var none string // why there is no certificate
	out.Best, out.All, err = Run(ctx, t, s.Resume, func(ctx context.Context, best *Candidate, all []*Candidate) (int, error) {
		var err error
		out.Certificate, none, err = Certify(ctx, p, best, all)
		return wanted(out.Certificate), err
	})
	if none != "" {
		out.Notes = append(out.Notes, none)
	}
	return out, err
}

// newTask is the search: which starts, on which rows. The user's own and the
// moment estimate come first, then the kinds in turn.
func newTask(ctx context.Context, p *problem.Problem, e *moment.Evidence, estimate *moment.Estimate, s Settings) (*Task, error) {
	part := ScreeningPart(p)
	t := &Task{Problem: p, Part: part, Starts: s.Starts, Follow: s.Follow}
	if s.Own != nil {
		t.First = append(t.First, Own(p, s.Own))
	}
	if estimate != nil {
		t.First = append(t.First, Moments(p, e, KindMoments, estimate, part))
	}
	if e.Optimal != nil { // with polynomials it is no better than the start from L4
		spectral, _, err := moment.EstimateSpectral(ctx, p, e)
		if err != nil {
			return nil, err
		}
		if spectral != nil {
			t.First = append(t.First, Moments(p, e, KindSpectral, spectral, part))
		}
	}
	random := Random(p, e)
	var subspace Start
	within := e.Subspace != nil && p.Shape.K > 1
	if within {
		projected, err := model.InMemory(ctx, e.Subspace.Project(part))
		if err != nil {
			return nil, err
		}
		subspace = Subspace(p, e, projected)
	}
	switch general := p.Shape.Intercept || p.Shape.GateIntercept && !p.Shape.ConstantGate || !p.Inputs.Standard(); {
	case within && general:
		t.Cycle = []Start{KMeans(p, part), subspace, random}
	case within:
		t.Cycle = []Start{subspace, subspace, random}
	case general:
		t.Cycle = []Start{KMeans(p, part), random}
	default:
		t.Cycle = []Start{random}
	}
	return t, nil
}
