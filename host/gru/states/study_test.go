package states

import (
	"context"
	"flag"
	"fmt"
	"math"
	"testing"

	"github.com/gatedlearning/moe/host/gru"
	"github.com/gatedlearning/moe/host/infer"
)

var study = struct {
	networks, first, inputs, hidden, steps *int
	sigma, sharpness                       *float64
	observed                               *bool
}{
	flag.Int("networks", 0, "networks of TestStudy, with random weights; 0: it is left out"),
	flag.Int("first", 1, "seed of the first"), flag.Int("inputs", 2, "of them"), flag.Int("hidden", 2, "units"),
	flag.Int("steps", 2000, "recorded"), flag.Float64("sigma", .01, "of the noise"),
	flag.Float64("sharpness", 0, "factor of the gates' predictors, which are soft; 0: gates of 0 and 1"),
	flag.Bool("observed", false, "the noise is of the record alone, and of both states of a row"),
}

// TestStudy learns layers with random weights, gates of 0 and 1 unless they have a sharpness, and prints the candidate's
// errors beside what the information of known gates allows, decisions, free runs, verdicts and coverage:
//
//	go test ./host/gru/states -run TestStudy -networks 8 -v -timeout 0
func TestStudy(t *testing.T) {
	if *study.networks == 0 {
		t.Skip("a study: -networks 8 -v -timeout 0")
	}
	var total tally
	for n := range *study.networks {
		seed := uint64(*study.first + n)
		l := balanced(t, seed, *study.inputs, *study.hidden)
		r := gru.Recording{Steps: *study.steps, Sigma: *study.sigma, Gates: gru.Binary, Seed: seed, Observed: *study.observed}
		if s := *study.sharpness; s > 0 {
			sharpen(l, s)
			r.Gates = gru.Soft
		}
		got := learned(t, inMemory(t, Record(l, r)), Config{Hidden: *study.hidden, HAC: true})
		one := tallyOf(t, l, got, r)
		t.Logf("network %d: %s", seed, one)
		total.add(one)
	}
	t.Logf("all %d: %s", *study.networks, total)
}

// balanced is a random layer of which both gates of every unit are open on half of the states or so.
func balanced(t *testing.T, seed uint64, inputs, hidden int) *gru.Layer {
	l := random(seed, inputs, hidden)
	if err := gru.Balance(t.Context(), l, seed); err != nil {
		t.Fatal(err)
	}
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

// oracles are those of a layer's units, see [gru.Oracles].
func oracles(t *testing.T, l *gru.Layer, r gru.Recording) []*gru.Oracle {
	all, err := gru.Oracles(t.Context(), l, r)
	if err != nil {
		t.Fatal(err)
	}
	return all
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

func tallyOf(t *testing.T, l *gru.Layer, got *Learned, r gru.Recording) (out tally) {
	best := oracles(t, l, r)
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
	rec, err := got.Recovered(context.Background(), l, r.Gates, r.Seed)
	if err != nil {
		t.Fatal(err)
	}
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

var layers = struct{ truth, learned *string }{
	flag.String("truth", "", "layer of TestBound, an .npz file; empty: it is left out"),
	flag.String("learned", "", "the layer that was learned from -steps of its states with -sigma and the seed -first"),
}

// TestBound prints the errors of a learned layer's candidate as multiples of what the information of known gates allows,
// beside those of an estimate from the same rows that knows the gates, of every unit and of all:
//
//	go test ./host/gru/states -run TestBound -truth TRUTH -learned LEARNED -steps 100000 -v
func TestBound(t *testing.T) {
	if *layers.truth == "" {
		t.Skip("a study: -truth TRUTH -learned LEARNED -v")
	}
	var read [2]*gru.Layer
	for i, path := range []string{*layers.truth, *layers.learned} {
		var err error
		if read[i], err = gru.Read(path, gru.Selection{}); err != nil {
			t.Fatal(err)
		}
	}
	truth, got := read[0], read[1]
	r := gru.Recording{Steps: *study.steps, Sigma: *study.sigma, Gates: gru.Soft, Seed: uint64(*study.first)}
	var all tally
	for j, best := range oracles(t, truth, r) {
		if best == nil {
			t.Fatalf("unit %d: no information", j+1)
		}
		var one tally
		one.compare(flat(candidate(truth, j)), flat(candidate(got, j)), best, truth.Inputs())
		t.Logf("unit %d: W off by %s, U by %s", j+1, one.w, one.u)
		all.add(one)
	}
	t.Logf("all: W off by %s, U by %s", all.w, all.u)
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
