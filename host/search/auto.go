package search

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/internal/stream"
)

// DefaultStarts is the budget of starts of a search.
const DefaultStarts = 32

// Settings are those of a search for the highest joint likelihood.
type Settings struct {
	Mu     float64       // weight μ of L4 in the moment estimate: see [moment.EstimateParams]
	Starts int           // at most
	Own    *model.Params // a start of the user's, in the units of the data; nil for none
	Resume State         // where an earlier search stood; zero for a new one
	From   []Neighbour   // fits of one expert less or more, from which it begins too
	Steps  Steps         // made of the best on all rows
	// Untested fits are not judged: no test of the model says that the search is to go on.
	Untested bool
	Follow
}

// Found is what a search came to.
type Found struct {
	Best        *Candidate
	All         []*Candidate       // as they were refined, best of the screening first, those of the survey last
	Estimate    *moment.Estimate   // nil where the tensors cannot give one
	Survey      *Survey            // nil where none was made
	Certificate *infer.Certificate // nil where there is none
	Begun       *Begun             // nil where the best came of no neighbour
	Doubts      []Doubt            // that there are as many experts; nil where nobody asked
	Notes       []string           // for the user

	late     bool         // the survey, if there is one, was made where agreement was no evidence
	spare    *Spare       // of the best; nil where no expert was placed anew
	others   []*Candidate // that were found otherwise
	another  infer.Another
	untested bool // see [Settings.Untested]
	tests    tests
}

// Auto looks for the highest joint likelihood from the moment estimate and
// starts of other kinds, until the certificate of what it found asks for no more. Where an optimum would pass
// though the data hardly ask for an expert, or under another law than the normal one though a test of the model fails
// and few of a survey's starts have met it, another search has to end there too. None is made where BIC prefers fewer
// experts: see [Found.fewer].
func Auto(ctx context.Context, p *problem.Problem, e *moment.Evidence, s Settings) (*Found, error) {
	out, err := auto(ctx, p, e, s)
	if err != nil {
		return nil, err
	}
	unsure := out.unsure(p)
	if unsure || !s.Untested {
		if err := out.fewer(ctx, p, s.Steps.Places); err != nil {
			return nil, err
		}
	}
	if unsure && out.Certificate.Optimum == infer.Pass {
		if out, err = out.repeated(ctx, p, e, s); err != nil {
			return nil, err
		}
		if err := out.fewer(ctx, p, s.Steps.Places); err != nil {
			return nil, err
		}
	}
	out.All = joined(out.All, out.others, out.Best, SameOptimum(p.Count()))
	out.Survey = out.Survey.of(out.Best, p.Count())
	return out, nil
}

// unsure says whether it would pass by one search, and is held against another.
func (f *Found) unsure(p *problem.Problem) bool {
	c := f.Certificate
	return c != nil && c.Optimum == infer.Pass && (f.spare != nil && f.spare.Experts > 0 ||
		!p.Shape.Normal() && p.Shape.Classes() > 1 && p.OneGate() && c.PValue < infer.Doubt &&
			!f.Survey.of(f.Best, p.Count()).often())
}

// auto is one search.
func auto(ctx context.Context, p *problem.Problem, e *moment.Evidence, s Settings) (*Found, error) {
	estimate, obstacle, err := moment.EstimateParams(ctx, p.Plain(), e, s.Mu)
	if err != nil {
		return nil, err
	}
	out := &Found{Estimate: estimate, untested: s.Untested}
	if estimate != nil {
		out.Notes = append(out.Notes, estimate.Notes...)
	} else {
		out.Notes = append(out.Notes, "no moment estimate: "+obstacle+
			"; the likelihood was maximised from other starts")
	}
	if note := e.InputsNote(p); note != "" {
		out.Notes = append(out.Notes, note)
	}
	t, err := NewTask(ctx, p, e, estimate, s)
	if err != nil {
		return nil, err
	}
	if out.Survey, err = s.Steps.Survey.of(ctx, p, e, s.Starts); err != nil {
		return nil, err
	}
	t.Others = out.Survey.optima()
	if out.Survey != nil {
		t.Soft = starts.Start{} // it has made them
	}
	if begin := t.Steps.Narrower; begin != nil {
		if err := begin(ctx, t, e, out.Survey != nil); err != nil {
			return nil, err
		}
	}
	var none string // why there is no certificate
	out.Best, out.All, err = Run(ctx, t, s.Resume,
		func(ctx context.Context, best *Candidate, all []*Candidate) (int, error) {
			var err error
			out.Certificate, none, err = Certify(ctx, p, best, all, out.seen())
			return max(wanted(out.Certificate), unmet(p, all, out.Certificate, out.Survey)), err
		})
	if none != "" {
		out.Notes = append(out.Notes, none)
	}
	if err != nil {
		return nil, err
	}
	if err := out.takeCare(ctx, p, e, t, 0); err != nil {
		return nil, err
	}
	kept, err := out.keep(ctx, t, s.Own)
	if err != nil {
		return nil, err
	}
	if gained, err := out.visit(ctx, t, s.From); err != nil {
		return nil, err
	} else if kept || gained {
		if err := out.takeCare(ctx, p, e, t, 1); err != nil {
			return nil, err
		}
	}
	out.others = t.Others
	return out, nil
}

// repeated is a search, or a second one by random numbers of its own where that ends higher, judged by both.
func (f *Found) repeated(ctx context.Context, p *problem.Problem, e *moment.Evidence, s Settings) (*Found, error) {
	of := *p
	of.Seed = stream.New(p.Seed, stream.Repetition, 0).Uint64()
	s.Own, s.From, s.Resume, s.Checkpoint = nil, nil, State{}, nil
	second, err := auto(ctx, &of, e, s)
	if err != nil {
		return nil, err
	}
	out, other := f, second
	apart := f.Best.Run.Value - second.Best.Run.Value
	if second.Best.Beats(f.Best, p.Count()) {
		out, other = second, f
		out.tests = tests{} // which were made by other random numbers
		out.Best.Gains = withGain(out.Best.Gains, "another search", apart*p.Weights.Total)
	}
	out.another = infer.Another{Made: true}
	if apart = math.Abs(apart) * p.Count(); apart > sameOptimum {
		out.another.Apart = apart
	}
	out.others = append(out.others, other.Best)
	return out, out.certify(ctx, p)
}

// certify judges the best by all that was seen.
func (f *Found) certify(ctx context.Context, p *problem.Problem) (err error) {
	var none string
	f.Certificate, none, err = Certify(ctx, p, f.Best, f.All, f.seen())
	if none != "" {
		f.Notes = append(f.Notes, none)
	}
	return err
}

// fewer takes a pass back where BIC prefers two experts as one, unless a survey of few rows, which makes hundreds of
// starts, is thorough: see [infer.Certificate.Fewer].
func (f *Found) fewer(ctx context.Context, p *problem.Problem, places Places) error {
	if c := f.Certificate; c == nil || c.Optimum != infer.Pass || p.Shape.K == 1 || f.Best.Degenerate ||
		places.Doubts == nil || f.Survey.of(f.Best, p.Count()).Thorough() {
		return nil
	}
	if f.Doubts == nil {
		proportions, order, err := ByProportion(ctx, p, p.Given, f.Best.Params)
		if err != nil {
			return err
		}
		f.Doubts, err = places.Doubts(ctx, p, f.Best.Params.Relabel(order), model.Permuted(proportions, order))
		if err != nil {
			return err
		}
	}
	for _, d := range f.Doubts {
		if o := d.AsOne; o != nil {
			f.Certificate.Fewer([2]int{o.Experts[0] + 1, o.Experts[1] + 1}, o.BIC)
		}
	}
	return nil
}

// Judge is what starts on all rows have found, the best first, judged.
func Judge(ctx context.Context, p *problem.Problem, all []*Candidate, places Places) (*Found, error) {
	f := &Found{Best: all[0], All: all}
	if err := f.certify(ctx, p); err != nil {
		return nil, err
	}
	return f, f.fewer(ctx, p, places)
}

// seen is what the search has seen beside its candidates.
func (f *Found) seen() Seen {
	return Seen{Survey: f.Survey, Spare: f.spare, Another: f.another, Late: f.late, Untested: f.untested,
		tests: &f.tests}
}

// unmet is how many starts are made where the optimum would pass and so few have met it that they say nothing, and no
// survey says more; 0 for no more. Targets of two values tell so little of which expert a row is of that the first few
// starts may agree on another optimum, and no test sees it.
func unmet(p *problem.Problem, all []*Candidate, c *infer.Certificate, s *Survey) int {
	few := Count(all, func(c *Candidate) bool { return c.Agrees }) < agreeing || p.TwoValued()
	if c == nil || c.Optimum != infer.Pass || s != nil || p.Shape.Classes() == 1 || !p.OneGate() || !few ||
		len(all) >= infer.StartsWanted {
		return 0
	}
	return infer.StartsWanted
}

// keep climbs from the user's start as it is, on all rows and without a ridge, and takes what that leads to if it is
// better: behind the ridge of the screening an optimum with a steep gate may be lost.
func (f *Found) keep(ctx context.Context, t *Task, own *model.Params) (kept bool, err error) {
	if own == nil {
		return false, nil
	}
	p := t.Problem
	free, q := p.Shape.Estimated(), p.Shape.Adopt(p.Units.Into(own.Clone()))
	if !free.Sigma {
		q = p.Shape.WithNoise(q, p.Shape.Sigma)
	}
	c, err := t.ClimbFrom(ctx, free, starts.KindOwn, q)
	if c == nil || err != nil || c.Run.Status != optim.Converged || !c.Beats(f.Best, p.Count()) {
		return false, err
	}
	f.turnTo(c, "the start that was given", p)
	t.Others = append(t.Others, c)
	return true, f.certify(ctx, p)
}

// visit begins from neighbours too, and judges what it finds there, if that is better.
func (f *Found) visit(ctx context.Context, t *Task, from []Neighbour) (gained bool, err error) {
	if len(from) == 0 || t.Steps.Places.Visit == nil {
		return false, nil
	}
	c, begun, err := t.Steps.Places.Visit(ctx, t, f.Best, from)
	if c == nil || err != nil {
		return false, err
	}
	f.Begun = begun
	f.turnTo(c, "fits of fewer or more experts", t.Problem)
	t.Others = append(t.Others, c)
	return true, f.certify(ctx, t.Problem)
}

// takeCare looks further where agreement of starts is no evidence: where the data hardly ask for an expert, there was
// no survey and a test fails or the optimum does not pass, or a test fails and the noise is each expert's own. It was
// done so many times before.
func (f *Found) takeCare(ctx context.Context, p *problem.Problem, e *moment.Evidence, t *Task, before int) error {
	// those that look further estimate σ
	alone := p.Shape.K == 1 || !p.OneGate() || p.Shape.Sigma > 0 || p.Shape.Zero
	if f.Certificate == nil || alone || f.Best.Failed() || f.Best.Degenerate {
		return nil
	}
	places := t.Steps.Places
	missed, err := places.missed(ctx, p, f.Best.Params)
	if err != nil {
		return err
	}
	if f.Survey == nil && (len(missed.Spare) > 0 || f.Certificate.PValue < infer.Doubt ||
		f.Certificate.Optimum != infer.Pass && f.Certificate.Model != infer.NotJudged) {
		if f.Survey, err = t.Steps.LateSurvey.of(ctx, p, e, t.Starts); err != nil {
			return err
		}
		f.late = true
		for _, c := range f.Survey.optima() {
			if c.Beats(f.Best, p.Count()) && c.Run.Status == optim.Converged {
				f.turnTo(c, "survey", p)
			}
		}
		if f.Best, err = Make(ctx, t, t.Steps.Last, f.Best, atSurvey); err != nil {
			return err
		}
		t.Others = append(t.Others, f.Survey.optima()...)
		if missed, err = places.missed(ctx, p, f.Best.Params); err != nil {
			return err
		}
	}
	placed := *f.Best
	// An expert of little noise of its own may be met by none of thousands of a survey's starts.
	failed := f.late || p.Shape.PerExpert && f.Certificate.PValue < infer.Doubt
	var spare *Spare
	if places.Place != nil {
		if spare, err = places.Place(ctx, t, &placed, missed, failed, before); err != nil {
			return err
		}
	}
	if placed.Run != f.Best.Run {
		f.turnTo(&placed, "spare experts", p)
		t.Others = append(t.Others, &placed)
	}
	if f.spare = spare; !f.late && spare == nil {
		return nil
	}
	return f.certify(ctx, p)
}

// turnTo takes c for the best, to which a step has led; the starts that have met the one before have met another
// optimum, if it is one.
func (f *Found) turnTo(c *Candidate, step string, p *problem.Problem) {
	f.spare = nil
	c.Gains = withGain(f.Best.Gains, step, (f.Best.Run.Value-c.Run.Value)*p.Weights.Total)
	parted(f.All, f.Best, c, p.Count())
	f.Best = c
}

// parted says that none of all agrees with c, in the place of the best so far, if that is another optimum on so many
// rows.
func parted(all []*Candidate, best, c *Candidate, rows float64) {
	if c.Run.Value < best.Run.Value-SameOptimum(rows) {
		for _, o := range all {
			o.Agrees = false
		}
	}
}

// joined adds what was found otherwise to the candidates, and says which of it is the best optimum.
func joined(all, others []*Candidate, best *Candidate, tolerance float64) []*Candidate {
	for _, c := range others {
		c.Agrees = !c.Degenerate && c.Run.Status == optim.Converged && c.Run.Value <= best.Run.Value+tolerance
	}
	return append(all, others...)
}

// levelRows is how many times the rows of the screening a start by [starts.Heteroscedastic] has: an expert is found by
// rows of its own alone.
const levelRows = 2

// NewTask is the search: which starts, on which rows. The user's own and the
// moment estimate come first, then the kinds in turn.
func NewTask(ctx context.Context, p *problem.Problem, e *moment.Evidence, estimate *moment.Estimate,
	s Settings) (*Task, error) {
	part, err := ScreeningPart(ctx, p)
	if err != nil {
		return nil, err
	}
	t := &Task{Problem: p, Part: part, Starts: s.Starts, Steps: s.Steps, Follow: s.Follow}
	if s.Own != nil {
		t.First = append(t.First, starts.Own(p, s.Own))
	}
	if !p.OneGate() {
		first, cycle := s.Steps.tree(p, e, estimate, part)
		t.First, t.Cycle = append(t.First, first...), cycle
		return t, nil
	}
	random := starts.Random(p, e)
	if p.Link == nil { // they begin with noise as large as y
		t.Soft = random
	}
	if rows := screeningPart(p.Rows, levelRows*p.Shape.Parameters()); starts.Levelled(p, rows) {
		if rows, err = held(ctx, rows); err != nil {
			return nil, err
		}
		random = starts.Heteroscedastic(p, e, rows)
		if starts.Many(p) { // the others are judged by these
			t.First = append(t.First, random, random)
		}
	}
	if estimate != nil {
		t.First = append(t.First, starts.Moments(p, e, starts.KindMoments, estimate, part))
	}
	if e.Cubic() { // with polynomials it is no better than the start from L4
		spectral, _, err := moment.EstimateSpectral(ctx, p.Plain(), e)
		if err != nil {
			return nil, err
		}
		if spectral != nil {
			t.First = append(t.First, starts.Moments(p, e, starts.KindSpectral, spectral, part))
		}
	}
	var subspace starts.Start
	within := e.Subspace != nil && p.Shape.K > 1 && p.Link == nil // small mixtures there are of normal noise
	if within {
		projected, err := model.InMemory(ctx, e.Subspace.Project(part), 1)
		if err != nil {
			return nil, err
		}
		subspace = starts.Subspace(p, e, projected)
	}
	switch general := p.Shape.Intercept || p.Shape.GateIntercept && !p.Shape.ConstantGate || !p.Inputs.Standard() ||
		p.Link != nil; {
	case within && general:
		t.Cycle = []starts.Start{starts.KMeans(p, part), subspace, random}
	case within:
		t.Cycle = []starts.Start{subspace, subspace, random}
	case general:
		t.Cycle = []starts.Start{starts.KMeans(p, part), random}
	default:
		t.Cycle = []starts.Start{random}
	}
	return t, nil
}
