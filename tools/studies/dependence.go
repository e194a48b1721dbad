package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/gru"
	"github.com/gatedlearning/moe/host/gru/states"
)

// dependence learns random layers of which inputs and noise go on from step to step, both first-order autoregressions
// with that coefficient, and prints how many 95 % intervals for the candidate's weights hold their truth:
//
//	go -C tools/studies run . dependence -carried 0.8 -networks 20 -first 301 -steps 2000
func dependence(ctx context.Context) {
	of, drawn := recordingFlags(), networkFlags()
	carried := flag.Float64("carried", .8, "correlation of inputs, and of noise, with those of the step before")
	parse()
	type count struct{ of, held, heldHAC int }
	all := map[string]*count{"W": {}, "U": {}, "b and c": {}}
	doubtful, suspect, units := 0, 0, 0
	for n := range *drawn.networks {
		seed := uint64(*of.first + n)
		l := busy(ctx, seed, *drawn.inputs, *drawn.hidden)
		src := dependent(l, *of.steps, *of.sigma, *carried, seed)
		got := must(states.Learn(ctx, src, states.Config{Hidden: l.Hidden(), HAC: true}))
		for j, u := range got.Units {
			units++
			if u.Doubtful() {
				doubtful++
			}
			if c := u.Fit.Fit.Certificate; c != nil && c.Model == "suspect" {
				suspect++
			}
			if _, resets := u.Switches(); !resets || !u.Has(gru.Keep) || u.Errors == nil || u.HAC == nil {
				continue
			}
			values, se, hac := flat(&u.Candidate), flat(u.Errors), flat(u.HAC)
			for i, want := range flat(candidate(l, j)) {
				c := all["b and c"]
				switch {
				case i < l.Inputs():
					c = all["W"]
				case i < l.Inputs()+l.Hidden():
					c = all["U"]
				}
				c.of++
				if math.Abs(values[i]-want) <= 1.96*se[i] {
					c.held++
				}
				if math.Abs(values[i]-want) <= u.Fit.HAC.CriticalValue*hac[i] {
					c.heldHAC++
				}
			}
		}
	}
	for _, part := range []string{"W", "U", "b and c"} {
		c := all[part]
		fmt.Printf("%s: 95 %% intervals hold %.1f %%, with --hac %.1f %%, of %d\n", part,
			100*float64(c.held)/float64(c.of), 100*float64(c.heldHAC)/float64(c.of), c.of)
	}
	fmt.Printf("%d units, %d in doubt, %d models suspect\n", units, doubtful, suspect)
}

// busy is the first of the random layers from seed·1000 on of which every unit does each of what it can on a tenth of
// its steps.
func busy(ctx context.Context, seed uint64, inputs, hidden int) *gru.Layer {
	for try := uint64(0); ; try++ {
		l := balanced(ctx, 1000*seed+try, inputs, hidden)
		shares := must(gru.Shares(ctx, l, gru.Recording{Steps: 2000, Sigma: .01, Seed: seed}))
		if !slices.ContainsFunc(shares, func(s [3]float64) bool { return slices.Min(s[:]) < .1 }) {
			return l
		}
	}
}

// dependent are the states of a layer with gates of 0 and 1 whose inputs and noise each are by so much that of the step
// before.
func dependent(l *gru.Layer, steps int, sigma, carried float64, seed uint64) dataset.Source {
	rng := rand.New(rand.NewPCG(seed, 1))
	next := func(v []float64) {
		for i := range v {
			v[i] = carried*v[i] + math.Sqrt(1-carried*carried)*rng.NormFloat64()
		}
	}
	inputs, hidden := l.Inputs(), l.Hidden()
	features, after := states.Names(inputs, hidden)
	x, y := mat.NewDense(steps, inputs+2*hidden-1, nil), make([]float64, steps)
	in, noise, h := make([]float64, inputs), make([]float64, hidden), make([]float64, hidden)
	step := l.NewStepper(gru.Binary)
	for t := range steps {
		next(in)
		next(noise)
		row := slices.Concat(in, h)
		step.Next(h, in, h)
		for j := range h {
			h[j] += sigma * noise[j]
		}
		row = append(row, h...)
		x.SetRow(t, row[:len(row)-1])
		y[t] = row[len(row)-1]
	}
	names := append(features, after...)
	return dataset.Matrix(x, y).Named(names[:len(names)-1], names[len(names)-1])
}
