package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/host/search/starts"
)

// groupFit is what came out for one data set.
type groupFit struct {
	Group, Name    string
	Seed           uint64
	LogLikelihood  float64
	FromTruth      float64 // log-likelihood of the maximum that the truth leads to
	Known          float64 // the greatest known: of the fit, from the truth, from random starts
	Optimum, Model string
	Reason         string  // for the verdict on the optimum
	Survey         *survey // what was seen of the optima, nil where there was none
	PValue         float64
	PValues        map[string]float64 // of the tests
	Starts         int
	Converged      bool
}

// survey is a [fitted.Survey] without its optima.
type survey struct{ Starts, Moves, Optima, Singles, Met int }

// missed says whether a better optimum is known, by more than 1.
func (f groupFit) missed() bool { return f.Known > f.LogLikelihood+1 }

// groups is the study of the certificate by groups, which docs/studies/certificate.md reports. It goes in pieces,
// each of which adds a line per fit to a file, and is summed up from the files:
//
//	go -C tools/studies run . groups -group rare -from 5001 -sets 2 -to $PWD/out/rare-5001
//	go -C tools/studies run . groups -sum "$PWD/out/*"
//
// Seeds up to 1000 are for choosing, those from 5001 on for reporting.
func groups(ctx context.Context) {
	out := fileFlags()
	group := flag.String("group", "", "`group` of designs")
	from := flag.Uint64("from", 5001, "first seed")
	sets := flag.Int("sets", 1, "data sets of each design")
	starts := flag.Int("starts", 200, "random EM starts on all rows")
	parse()
	if *out.sum != "" {
		sumGroups(*out.sum)
		return
	}
	if !slices.ContainsFunc(searchtest.Groups, func(g searchtest.Design) bool { return g.Group == *group }) {
		log.Fatalf("-group %q: no design is of that", *group)
	}
	for seed := *from; seed < *from+uint64(*sets); seed++ {
		for _, g := range searchtest.Groups {
			if g.Group == *group {
				out.add(tryGroup(ctx, g, seed, *starts))
			}
		}
	}
}

// tryGroup fits one data set and looks for what the fit missed.
func tryGroup(ctx context.Context, g searchtest.Design, seed uint64, starts int) groupFit {
	src, truth := g.Draw(seed)
	cfg := configOf(g)
	cfg.Transform = moment.Polynomial
	m := must(host.Fit(ctx, g.Act, src, cfg))
	p, e := problemOf(ctx, g.Act, src, cfg)
	f := groupFit{
		Group: g.Group, Name: g.Name, Seed: seed, LogLikelihood: m.Fit.LogLikelihood,
		Starts: len(m.Fit.Starts), Converged: m.Fit.Converged, PValues: map[string]float64{},
	}
	if s := m.Fit.Survey; s != nil {
		f.Survey = &survey{s.Starts, s.Moves, s.Optima, s.Singles, s.Met}
	}
	if c := m.Fit.Certificate; c != nil {
		f.Optimum, f.Model, f.PValue, f.Reason = c.Optimum, c.Model, c.PValue, c.Reason
		for _, x := range c.Tests {
			f.PValues[x.Name] = x.PValue
		}
	}
	f.FromTruth = climbed(ctx, p, p.Units.Into(truth))
	f.Known = best(ctx, p, e, seed, starts, max(f.LogLikelihood, f.FromTruth))
	return f
}

// best returns the greatest log-likelihood of so many random starts on all rows, and known
// if that is greater. Every second start begins with a small σ, and every third
// with experts of unlike sizes; a start is given up that would not reach the best
// in 200 more iterations as good as its last.
func best(ctx context.Context, p *problem.Problem, e *moment.Evidence, seed uint64, number int, known float64) float64 {
	n := float64(p.N())
	for stream := range uint64(number) {
		rng := rand.New(rand.NewPCG(seed, 1<<40+stream))
		q := must(starts.Random(p, e).Draw(ctx, rng))
		if stream%2 == 1 {
			floats.Scale(0.3, q.Sigma)
		}
		if stream%3 == 2 {
			for i := range q.K {
				floats.Scale(math.Exp(rng.NormFloat64()), q.Regressor(i))
			}
		}
		l := loss.NewLikelihood(p.Rows, p.G, q, p.Shape.Free(), 1)
		if at, value := climbWithin(ctx, l, q, -known/n); at != nil && -value*n > known {
			if degenerate, err := l.Degenerate(ctx, at); err != nil || !degenerate {
				known = -value * n
			}
		}
	}
	return known
}

// climbWithin climbs from q unless that falls behind best; nil if it does, or fails.
func climbWithin(ctx context.Context, l *loss.Likelihood, q *model.Params, best float64) (*model.Params, float64) {
	last := math.Inf(1)
	behind := false
	r, err := climb.Climb(ctx, l, l.Theta(q), func(iteration int, value float64) bool {
		gain := last - value
		last = value
		behind = iteration >= 10 && value-best > 200*gain
		return behind
	})
	if err != nil || behind || math.IsNaN(r.Value) {
		return nil, 0
	}
	return l.Params(r.X), r.Value
}

// groupTally counts over fits.
type groupTally struct {
	fits, passes, missedPasses int
	best, optimumSuspect       int // fits at the best known, and those called suspect
	modelSuspect               int // of those at the best
	starts, tests, small       int
	worst                      float64 // most that a pass was below the best known
}

func (n *groupTally) add(f groupFit) {
	n.fits++
	n.starts += f.Starts
	for _, p := range f.PValues {
		n.tests++
		if p < 0.05 {
			n.small++
		}
	}
	if f.Optimum == infer.Pass {
		n.passes++
		n.worst = max(n.worst, f.Known-f.LogLikelihood)
		if f.missed() {
			n.missedPasses++
		}
	}
	if f.missed() {
		return
	}
	n.best++
	if f.Optimum == infer.Suspect {
		n.optimumSuspect++
	}
	if f.Model == infer.Suspect {
		n.modelSuspect++
	}
}

// row is a line of the table, with one-sided 95 % Clopper–Pearson bounds.
func (n *groupTally) row(name string) string {
	share := func(times, of int) string {
		most := 1.0
		if times < of {
			most = distuv.Beta{Alpha: float64(times) + 1, Beta: float64(of - times)}.Quantile(0.95)
		}
		return fmt.Sprintf("%d of %d (≤ %.3f)", times, of, most)
	}
	return fmt.Sprintf("| %s | %d | %s | %.1f | %s | %s | %.3f | %.1f |", name, n.fits,
		share(n.missedPasses, n.passes), n.worst, share(n.optimumSuspect, n.best), share(n.modelSuspect, n.best),
		float64(n.small)/float64(max(n.tests, 1)), float64(n.starts)/float64(max(n.fits, 1)))
}

// sumGroups prints the table of what the files with such names hold, a line for
// every design and one for every group.
func sumGroups(pattern string) {
	all, designs := map[string]*groupTally{}, map[string]*groupTally{}
	count := func(in map[string]*groupTally, key string, f groupFit) {
		if in[key] == nil {
			in[key] = new(groupTally)
		}
		in[key].add(f)
	}
	eachLine(pattern, func(_ string, f groupFit) {
		count(all, f.Group, f)
		count(designs, f.Group+": "+f.Name, f)
	})
	fmt.Println("| data | fits | passes with a better optimum known | at most by | optimum suspect at the best " +
		"| model suspect at the best | p < 0.05 | starts |\n|---|---|---|---|---|---|---|---|")
	last := ""
	for _, g := range searchtest.Groups {
		if n := designs[g.Group+": "+g.Name]; n != nil {
			fmt.Println(n.row(g.Group + ": " + g.Name))
		}
	}
	for _, g := range searchtest.Groups {
		if n := all[g.Group]; n != nil && g.Group != last {
			fmt.Println(n.row("**all " + g.Group + "**"))
		}
		last = g.Group
	}
}
