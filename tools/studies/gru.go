package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math"
	"math/rand/v2"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/gru"
	"github.com/gatedlearning/moe/host/gru/states"
	"github.com/gatedlearning/moe/host/infer"
)

// recordingFlags are those of what is recorded of a layer.
func recordingFlags() (of struct {
	steps, first *int
	sigma        *float64
}) {
	of.steps, of.sigma = flag.Int("steps", 2000, "recorded"), flag.Float64("sigma", .01, "of the noise")
	of.first = flag.Int("first", 1, "seed of the first network")
	return of
}

// networkFlags are those of random layers.
func networkFlags() (of struct{ networks, inputs, hidden *int }) {
	of.networks = flag.Int("networks", 8, "networks, with random weights")
	of.inputs, of.hidden = flag.Int("inputs", 2, "of them"), flag.Int("hidden", 2, "units")
	return of
}

// layers learns layers with random weights, gates of 0 and 1 unless they have a sharpness, and prints the candidate's
// errors beside what the information of known gates allows, decisions, free runs, verdicts and coverage:
//
//	go -C tools/studies run . layers -networks 8
func layers(ctx context.Context) {
	of, drawn := recordingFlags(), networkFlags()
	sharpness := flag.Float64("sharpness", 0, "factor of the gates' predictors, which are soft; 0: gates of 0 and 1")
	observed := flag.Bool("observed", false, "the noise is of the record alone, and of both states of a row")
	parse()
	var total tally
	for n := range *drawn.networks {
		seed := uint64(*of.first + n)
		l := balanced(ctx, seed, *drawn.inputs, *drawn.hidden)
		r := gru.Recording{Steps: *of.steps, Sigma: *of.sigma, Gates: gru.Binary, Seed: seed, Observed: *observed}
		if *sharpness > 0 {
			sharpen(l, *sharpness)
			r.Gates = gru.Soft
		}
		src := states.Record(l, r)
		rows := dataset.InMemory(src.Schema(), must(dataset.Load(ctx, src)))
		one := tallyOf(ctx, l, must(states.Learn(ctx, rows, states.Config{Hidden: *drawn.hidden, HAC: true})), r)
		fmt.Printf("network %d: %s\n", seed, one)
		total.add(one)
	}
	fmt.Printf("all %d: %s\n", *drawn.networks, total)
}

// candidate is that of a unit of a layer.
func candidate(l *gru.Layer, j int) *gru.Candidate {
	return &gru.Candidate{Row: gru.Row{W: l.Candidate.W.RawRowView(j), U: l.Candidate.U.RawRowView(j),
		B: l.Candidate.B[j]},
		C: l.RecurrentBias[j]}
}

// flat are the values of a candidate: W, U, b and c.
func flat(c *gru.Candidate) []float64 {
	return append(append(append([]float64{}, c.W...), c.U...), c.B, c.C)
}

// balanced is a random layer of which both gates of every unit are open on half of the states or so.
func balanced(ctx context.Context, seed uint64, inputs, hidden int) *gru.Layer {
	l := gru.Random(rand.New(rand.NewPCG(seed, 0)), inputs, hidden)
	check(gru.Balance(ctx, l, seed))
	return l
}

// sharpen multiplies the gates' predictors.
func sharpen(l *gru.Layer, by float64) {
	for _, a := range []gru.Affine{l.Update, l.Reset} {
		a.W.Scale(by, a.W)
		a.U.Scale(by, a.U)
		for i := range a.B {
			a.B[i] *= by
		}
	}
}

// tally is what networks came to.
type tally struct {
	units, switching, suspect, notUnits, unjudged int // suspect is of models
	w, u                                          off
	differ, decisions, apart, parted              int
	largest                                       float64
	held, heldHAC, intervals                      int
}

// off are the squares of an estimate's errors, of those with known gates, of their standard errors, and of the norm.
type off struct{ learned, known, bound, norm float64 }

func (o *off) add(p off) {
	o.learned, o.known, o.bound, o.norm = o.learned+p.learned, o.known+p.known, o.bound+p.bound, o.norm+p.norm
}

func (o off) String() string {
	return fmt.Sprintf("%.2g (%.2f of the bound, with known gates %.2f)", math.Sqrt(o.learned/o.norm),
		math.Sqrt(o.learned/o.bound), math.Sqrt(o.known/o.bound))
}

func tallyOf(ctx context.Context, l *gru.Layer, got *states.Learned, r gru.Recording) (out tally) {
	best := must(gru.Oracles(ctx, l, r))
	for j, u := range got.Units {
		out.units++
		if c := u.Fit.Fit.Certificate; c != nil && c.Model == infer.Suspect {
			out.suspect++
		}
		if !u.IsUnit() {
			out.notUnits++
		}
		if !u.Judged() {
			out.unjudged++
		}
		if _, resets := u.Switches(); !resets || !u.Has(gru.Keep) || best[j] == nil {
			continue
		}
		out.switching++
		want, values := flat(candidate(l, j)), flat(&u.Candidate)
		out.compare(want, values, best[j], l.Inputs())
		if u.Errors == nil || u.HAC == nil {
			continue
		}
		se, hac := flat(u.Errors), flat(u.HAC)
		for i, v := range want {
			out.intervals++
			if math.Abs(values[i]-v) <= 1.96*se[i] {
				out.held++
			}
			if math.Abs(values[i]-v) <= u.Fit.HAC.CriticalValue*hac[i] {
				out.heldHAC++
			}
		}
	}
	rec := must(got.Recovered(ctx, l, r.Gates, r.Seed))
	out.differ, out.decisions = rec.Update.Differ+rec.Reset.Differ, rec.Update.Decisions+rec.Reset.Decisions
	out.largest, out.apart, out.parted = rec.Free.Largest, rec.Free.Apart, rec.Free.Parted
	return out
}

func (s *tally) add(o tally) {
	s.units, s.switching, s.suspect = s.units+o.units, s.switching+o.switching, s.suspect+o.suspect
	s.notUnits, s.unjudged = s.notUnits+o.notUnits, s.unjudged+o.unjudged
	s.w.add(o.w)
	s.u.add(o.u)
	s.differ, s.decisions = s.differ+o.differ, s.decisions+o.decisions
	s.largest, s.apart = max(s.largest, o.largest), s.apart+o.apart
	s.held, s.heldHAC, s.intervals = s.held+o.held, s.heldHAC+o.heldHAC, s.intervals+o.intervals
}

func (s tally) String() string {
	return fmt.Sprintf("%d of %d units switch, %d models suspect, %d no units, %d not judged; W off by %s, U by %s; "+
		"%.3g %% of %d decisions differ; free run off by %.2g, apart at %d steps, first at %d; 95 %% intervals "+
		"hold %.1f %%, for dependent rows %.1f %% of %d", s.switching, s.units, s.suspect, s.notUnits, s.unjudged,
		s.w, s.u, 100*float64(s.differ)/float64(s.decisions), s.decisions, s.largest, s.apart, s.parted,
		100*float64(s.held)/float64(s.intervals), 100*float64(s.heldHAC)/float64(s.intervals), s.intervals)
}

// layerBound prints the errors of a learned layer's candidate as multiples of what the information of known gates
// allows, beside those of an estimate from the same rows that knows the gates, of every unit and of all:
//
//	go -C tools/studies run . layer-bound -truth TRUTH -learned LEARNED -steps 100000
func layerBound(ctx context.Context) {
	of := recordingFlags()
	right := flag.String("truth", "", "a layer, an .npz `file`")
	learned := flag.String("learned", "",
		"the layer that was learned from -steps of its states with -sigma and the seed -first, another `file`")
	parse()
	truth, got := must(gru.Read(*right, gru.Selection{})), must(gru.Read(*learned, gru.Selection{}))
	r := gru.Recording{Steps: *of.steps, Sigma: *of.sigma, Gates: gru.Soft, Seed: uint64(*of.first)}
	var all tally
	for j, best := range must(gru.Oracles(ctx, truth, r)) {
		if best == nil {
			log.Fatalf("unit %d: no information", j+1)
		}
		var one tally
		one.compare(flat(candidate(truth, j)), flat(candidate(got, j)), best, truth.Inputs())
		fmt.Printf("unit %d: W off by %s, U by %s\n", j+1, one.w, one.u)
		all.add(one)
	}
	fmt.Printf("all: W off by %s, U by %s\n", all.w, all.u)
}

// compare adds up the errors of a candidate's W and U.
func (s *tally) compare(want, learned []float64, best *gru.Oracle, inputs int) {
	for i, w := range want[:len(want)-2] { // the last two are b and c
		one := off{math.Pow(learned[i]-w, 2), math.Pow(best.Estimate[i]-w, 2), best.Covariance.At(i, i), w * w}
		if i < inputs {
			s.w.add(one)
		} else {
			s.u.add(one)
		}
	}
}
