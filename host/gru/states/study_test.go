package states

import (
	"context"
	"flag"
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

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
		l := balanced(seed, *study.inputs, *study.hidden)
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

// balanced is a random layer whose gates' biases make both of every unit open on half of the states, as far as twenty rounds
// of shifting by the mean predictor do.
func balanced(seed uint64, inputs, hidden int) *gru.Layer {
	l := random(seed, inputs, hidden)
	for range 20 {
		z, r := make([]float64, hidden), make([]float64, hidden)
		const steps = 500
		each(l, gru.Recording{Steps: steps, Sigma: .01, Gates: gru.Binary, Seed: seed}, func(row []float64) {
			for j := range hidden {
				z[j] += predictor(l.Update, j, row) / steps
				r[j] += predictor(l.Reset, j, row) / steps
			}
		})
		for j := range hidden {
			l.Update.B[j] -= z[j]
			l.Reset.B[j] -= r[j]
		}
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

func each(l *gru.Layer, r gru.Recording, fn func(row []float64)) {
	err := gru.Record(context.Background(), l, r, func(row []float64) error { fn(row); return nil })
	if err != nil {
		panic(err)
	}
}

// predictor is unit j's of a gate at a row.
func predictor(a gru.Affine, j int, row []float64) float64 {
	x, h := row[:a.W.RawMatrix().Cols], row[a.W.RawMatrix().Cols:]
	v := a.B[j]
	for i, w := range a.W.RawRowView(j) {
		v += w * x[i]
	}
	for i, u := range a.U.RawRowView(j) {
		v += u * h[i]
	}
	return v
}

// bound is the covariance σ²(JᵀJ)⁻¹ of unit j's (W, U, b, c) where its gates are known, J the derivatives of
// tanh(⟨W,x⟩ + b + r·(⟨U,h⟩ + c)) at the rows on which it is the state after.
func bound(l *gru.Layer, j int, r gru.Recording) *mat.SymDense {
	inputs, d := l.Inputs(), l.Inputs()+l.Hidden()
	information := mat.NewSymDense(d+2, nil)
	one := mat.NewVecDense(d+2, nil)
	each(l, r, func(row []float64) {
		if predictor(l.Update, j, row) > 0 {
			return
		}
		open := 0.0
		if predictor(l.Reset, j, row) > 0 {
			open = 1
		}
		v := l.Candidate.B[j] + open*l.RecurrentBias[j]
		for i, w := range l.Candidate.W.RawRowView(j) {
			v += w * row[i]
		}
		for i, u := range l.Candidate.U.RawRowView(j) {
			v += open * u * row[inputs+i]
		}
		slope := 1 - math.Tanh(v)*math.Tanh(v)
		for i := range d {
			if i < inputs {
				one.SetVec(i, slope*row[i])
			} else {
				one.SetVec(i, slope*open*row[i])
			}
		}
		one.SetVec(d, slope)
		one.SetVec(d+1, slope*open)
		information.SymRankOne(information, 1/(r.Sigma*r.Sigma), one)
	})
	var root mat.Cholesky
	out := mat.NewSymDense(d+2, nil)
	if !root.Factorize(information) || root.InverseTo(out) != nil {
		return nil
	}
	return out
}

// tally is what networks came to.
type tally struct {
	units, switching, suspect, notUnits, unjudged int     // suspect is of models
	w, wBound, wNorm, u, uBound, uNorm            float64 // squares of errors, of standard errors with known gates, of norms
	differ, decisions, apart, parted              int
	largest                                       float64
	held, heldHAC, intervals                      int
}

func tallyOf(t *testing.T, l *gru.Layer, got *Learned, r gru.Recording) (out tally) {
	inputs := l.Inputs()
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
		v := bound(l, j, r)
		if _, resets := u.Switches(); !resets || !u.Has(gru.Keep) || v == nil {
			continue
		}
		out.switching++
		want, values := flat(candidate(l, j)), flat(&u.Candidate)
		out.compare(want, values, v, inputs)
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
	s.w, s.wBound, s.wNorm = s.w+o.w, s.wBound+o.wBound, s.wNorm+o.wNorm
	s.u, s.uBound, s.uNorm = s.u+o.u, s.uBound+o.uBound, s.uNorm+o.uNorm
	s.differ, s.decisions = s.differ+o.differ, s.decisions+o.decisions
	s.largest, s.apart = max(s.largest, o.largest), s.apart+o.apart
	s.held, s.heldHAC, s.intervals = s.held+o.held, s.heldHAC+o.heldHAC, s.intervals+o.intervals
}

func (s tally) String() string {
	return fmt.Sprintf("%d of %d units switch, %d models suspect, %d no units, %d not judged; W off by %.2g (%.2f of the bound), "+
		"U by %.2g (%.2f); %.3g %% of %d decisions differ; free run off by %.2g, apart at %d steps, first at %d; 95 %% intervals "+
		"hold %.1f %%, for dependent rows %.1f %% of %d", s.switching, s.units, s.suspect, s.notUnits, s.unjudged,
		math.Sqrt(s.w/s.wNorm), math.Sqrt(s.w/s.wBound), math.Sqrt(s.u/s.uNorm), math.Sqrt(s.u/s.uBound),
		100*float64(s.differ)/float64(s.decisions), s.decisions, s.largest, s.apart, s.parted,
		100*float64(s.held)/float64(s.intervals), 100*float64(s.heldHAC)/float64(s.intervals), s.intervals)
}

var layers = struct{ truth, learned *string }{
	flag.String("truth", "", "layer of TestBound, an .npz file; empty: it is left out"),
	flag.String("learned", "", "the layer that was learned from -steps of its states with -sigma and seed 1"),
}

// TestBound prints the errors of a learned layer's candidate as multiples of what the information of known gates allows:
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
	var s tally
	for j := range truth.Hidden() {
		v := bound(truth, j, gru.Recording{Steps: *study.steps, Sigma: *study.sigma, Gates: gru.Soft, Seed: 1})
		if v == nil {
			t.Fatalf("unit %d: no information", j+1)
		}
		s.compare(flat(candidate(truth, j)), flat(candidate(got, j)), v, truth.Inputs())
	}
	t.Logf("W off by %.2g (%.2f of the bound), U by %.2g (%.2f)", math.Sqrt(s.w/s.wNorm), math.Sqrt(s.w/s.wBound),
		math.Sqrt(s.u/s.uNorm), math.Sqrt(s.u/s.uBound))
}

// compare adds up the errors of a candidate's W and U.
func (s *tally) compare(want, values []float64, v *mat.SymDense, inputs int) {
	for i := range len(want) - 2 { // the last two are b and c
		off := math.Pow(values[i]-want[i], 2)
		if i < inputs {
			s.w, s.wBound, s.wNorm = s.w+off, s.wBound+v.At(i, i), s.wNorm+want[i]*want[i]
		} else {
			s.u, s.uBound, s.uNorm = s.u+off, s.uBound+v.At(i, i), s.uNorm+want[i]*want[i]
		}
	}
}
