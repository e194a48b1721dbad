package experiment

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatedlearning/moe/internal/testslow"
)

// seed moves the runs of TestClaims, to see how its numbers spread:
//
//	for s in 2 3 4 5; do go test ./host/experiment -run TestClaims -v -seed $s; done
var (
	seed = flag.Uint64("seed", 1, "of the figures in TestClaims")
	only = flag.String("figures", "", "those of TestClaims, separated by commas; all; longest; or, if empty, all but the longest")
)

// longest are the figures that TestClaims leaves to
//
//	go test ./host/experiment -run TestClaims -figures longest
//
// which .ci/run does. 002-2a is shown by TestSessions to the last digit, and 002-2b
// is made of the same runs; of the others TestClaimsInSmall has a part, but for those of trees and of
// recurrent layers, whose fits host.TestTrees and host/gru/states.TestLearn have.
var longest = []string{"002-2a", "002-2b", "002-3a", "002-3b", "000-3a", "000-3b", "efficiency-2", "efficiency-3", "trees", "trees-flat", "gru-states", "families"}

// number is a number of a figure with the bounds that it must keep.
type number struct {
	name   string
	of     func(o *Outcome) float64
	lo, hi float64
}

// claim is what a figure at quick size must show: its verdict and its numbers;
// and a way to spoil its data that must be noticed.
type claim struct {
	agrees  bool
	numbers []number
	spoil   func(o *Outcome)
}

// check says what of the claim an outcome does not keep.
func (c claim) check(o *Outcome) error {
	v := o.judge(o)
	var faults []error
	if v.Agrees != c.agrees {
		faults = append(faults, fmt.Errorf("agrees is %v, want %v", v.Agrees, c.agrees))
	}
	if !v.Agrees && v.Because == "" {
		faults = append(faults, errors.New("does not agree and does not say why"))
	}
	for _, n := range c.numbers {
		if x := n.of(o); !(x >= n.lo && x <= n.hi) {
			faults = append(faults, fmt.Errorf("%s = %.4g, want %g to %g", n.name, x, n.lo, n.hi))
		}
	}
	return errors.Join(faults...)
}

// claims are what the figures must show. A bound that is not a count lies four
// standard deviations or more from the mean of what twelve seeds gave, on a
// logarithmic scale where it is an error: a false alarm in less than one seed in
// a thousand for each figure. Where a count decides, the rate stands beside it. The
// figures run with one fixed seed, so that an alarm means that something changed.
var claims = map[string]claim{
	"002-2a": {agrees: true, spoil: replace(seriesL4, seriesL2), numbers: []number{
		{"runs of L4 with the small step below 0.01", recoveredOf(seriesL4Small), 4, 5},
		{"runs of L4 below 0.01", recoveredOf(seriesL4), 5, 5},
		{"worst E_reg of L4", worstOf(seriesL4), 0, 0.005},
		// ℓ2 gets stuck in 27 of 64 starts by SGD and in 33 of 64 by Adam: none of
		// five and five in 0.2 % of the seeds.
		{"runs of ℓ2 stuck", awayOf(seriesL2, seriesL2Adam), 1, 10},
	}},
	"002-2b": {agrees: true, spoil: replace(seriesByL4, seriesByL2), numbers: []number{
		{"worst E_gating at A*", worstOf(seriesTrue), 0, 0.003},
		{"worst E_gating with A by L4", worstOf(seriesByL4), 0, 0.005},
		{"runs with A by ℓ2 above 0.05", awayOf(seriesByL2, seriesByAdam), 1, 10}, // as in 002-2a
	}},
	"002-3a": {agrees: true, spoil: scale("k = 2", 30), numbers: obliqueNumbers},
	"002-3b": {agrees: true, spoil: scale("k = 3", 100), numbers: obliqueNumbers},
	"002-3-relu": {agrees: false, spoil: scale(seriesOblique, 1e-3), numbers: []number{
		{"worst E_reg, random gating", worstOf(seriesOblique), 0.01, 1},
		{"median E_reg, orthogonal gating", medianOf(seriesOrthogonal), 5e-5, 0.01},
	}},
	"000-3a": {agrees: true, spoil: scale("k = 3", 40), numbers: obliqueNumbers},
	"000-3b": {agrees: true, spoil: scale("k = 2", 80), numbers: obliqueNumbers},
	"002-4": {agrees: true, spoil: replace(batch128, batch128wide), numbers: []number{
		{"median E_reg at the end, batch 128", medianOf(batch128), 0, 0.01},
		{"median E_reg at the end, batch 1024", medianOf(batch1024), 0, 0.002},
		{"median E_reg at the end, batch 128 and λ = 50", medianOf(batch128wide), 0.1, 1},
	}},
	"000-1a": {agrees: false, spoil: replace(seriesFree, seriesL2), numbers: []number{
		{"runs of L4 away", awayOf(seriesL4), 0, 0},
		// ℓ2 gets stuck in 46 of 64 starts by SGD and in 49 of 64 by Adam: at most one
		// of four and four in 0.1 % of the seeds.
		{"runs of ℓ2 stuck", awayOf(seriesL2, seriesL2Adam), 2, 8},
		{"runs of EM away, σ free", awayOf(seriesFree), 0, 0},
		{"runs of EM away, σ fixed", awayOf(seriesFixed), 0, 0},
		{"median E_reg of L4", medianOf(seriesL4), 2e-4, 0.005},
		{"median E_reg of EM, σ free", medianOf(seriesFree), 5e-7, 5e-5},
	}},
	"000-1b": {agrees: true, spoil: replace("L_log after L4", seriesL2), numbers: []number{
		{"median E_gating after L4", medianOf("L_log after L4"), 0, 0.0015},
		{"runs of ℓ2 away", awayOf(seriesL2, seriesL2Adam), 2, 8},
		{"median E_gating of EM, σ free", medianOf(seriesFree), 0.001, 0.02},
	}},
	"000-1b-em": {agrees: false, spoil: scale(seriesAfterL4, 0.1), numbers: []number{
		{"median E_gating after L4 at n = 1e5", medianAt(seriesAfterL4, 1e5), 1e-4, 2e-3},
		{"median E_gating of EM at n = 1e5", medianAt(seriesFree, 1e5), 1e-4, 1e-3},
	}},
	"000-1c": {agrees: true, spoil: scale(seriesL4, 20), numbers: []number{
		// 600 of 600 other starts ended below, the worst at 0.0051: with 95 % confidence
		// fewer than one in 200 does not.
		{"starts below 0.01", recoveredOf(seriesL4), 10, 10},
		{"worst E_reg", worstOf(seriesL4), 0, recovered},
	}},
	"000-3c": {agrees: false, spoil: scale("‖μ‖ = 1, p = 0.5", 20), numbers: []number{
		{"median E_reg at ‖μ‖ = 1, p = 0.5", medianOf("‖μ‖ = 1, p = 0.5"), 0, learned},
		{"median E_reg at ‖μ‖ = √d, p = 0.5", medianOf("‖μ‖ = √d, p = 0.5"), 0.02, 1},
	}},
	"000-3c-bias": {agrees: true, spoil: scale("‖μ‖ = 2", 2), numbers: []number{
		{"median E_reg of the population's L4 at ‖μ‖ = 1, p = 0.5", biasOf("population, ‖μ‖ = 1, p = 0.5"), 0.002, 0.1},
	}},
	"000-3c-law": {agrees: true, spoil: replace("weights φ/f, p = 0.1", "Hermite's polynomials, p = 0.1"), numbers: []number{
		// 1/E[φ(x)/f(x)] over N(0, I), by quadrature 0.1776 and 0.2670; the share of 10 000
		// rows and more is within 3 % of it.
		{"share of rows, p = 0.1", lawShare(0.1), 0.172, 0.183},
		{"share of rows, p = 0.5", lawShare(0.5), 0.259, 0.275},
		{"slope by weights, p = 0.1", slopeOf("weights φ/f, p = 0.1"), -1.5, -0.4},
		{"slope by the score of x, p = 0.5", slopeOf("score of x, p = 0.5"), -1.5, -0.4},
		{"E_reg by the score of x, p = 0.1", medianAt("score of x, p = 0.1", 1e5), 0.005, 0.2},
	}},
	"001-2": {agrees: true, spoil: scaleBeside(seriesFixed, 1e6), numbers: []number{
		{"starts away, σ free", func(o *Outcome) float64 { return float64(away(o.beside(seriesFree))) }, 0, 0},
		{"median E_reg, σ free", func(o *Outcome) float64 { return median(o.beside(seriesFree)) }, 2e-6, 2e-4},
		{"largest E_reg over the least of its mixture", func(o *Outcome) float64 {
			most := 0.0
			for _, c := range o.Of(seriesFixed) {
				most = max(most, c.Y[0]/c.X[0])
			}
			return most
		}, 1, 10},
	}},
	"001-3":        {agrees: false, spoil: replace(seriesFree, seriesMoments), numbers: slideNumbers(10000, 5e-5, 0.08, 0.04)},
	"001-4":        {agrees: false, spoil: replace(seriesFree, seriesMoments), numbers: slideNumbers(10000, 5e-5, 0.2, 0.08)},
	"001-3-random": {agrees: false, spoil: replace(seriesFree, seriesMoments), numbers: slideNumbers(10000, 5e-5, 0.2, 0.08)},
	"001-4-random": {agrees: false, spoil: replace(seriesFree, seriesMoments), numbers: slideNumbers(10000, 5e-5, 0.7, 0.3)},
	// The moments say next to nothing of four ReLU experts on 10 000 rows.
	"001-4-relu": {agrees: false, spoil: replace(seriesFree, seriesMoments), numbers: slideNumbers(10000, 2e-4, 1, 1)},
	"001-L4": {agrees: false, spoil: func(o *Outcome) {
		for i := range o.aside {
			if o.aside[i].Measure == "curvature" {
				o.aside[i].Y[0] -= 1e-3
			}
		}
	}, numbers: []number{
		{"fall of L4 at k = 2, d = 5 over 12μs⁴", func(o *Outcome) float64 {
			c := o.Of("k = 2, d = 5")[0]
			return c.Last() / (12 * slidesMu * math.Pow(c.X[len(c.X)-1], 4))
		}, 1 - 1e-6, 1 + 1e-6},
		{"power of s at k = 3, d = 6", slopeOf("k = 3, d = 6"), 3.9999, 4.0001},
		{"power of s at k = 2, d = 2", slopeOf("k = 2, d = 2"), 1.9, 2.1},
		{"least curvature at k = 2, d = 2", func(o *Outcome) float64 { return o.beside("k = 2, d = 2")[0] }, -100, -0.01},
	}},
	"001-gate": {agrees: true, spoil: scale(floorSeries("identity", worstErrors), 1e4), numbers: []number{
		{"‖ŵ − w‖/ε of identity at σ = 0.1, worst errors", medianAt(floorSeries("identity", worstErrors), 0.1), 1e-4, 0.3},
	}},
	"002-B": {agrees: false, spoil: replace(printedAlpha, rightAlpha), numbers: []number{ // nothing random
		{"α as printed, σ² = 0.25", worstOf(printedAlpha), 21.61, 21.63},
		{"α, σ² = 0.25", worstOf(rightAlpha), -5.3524827, -5.3524826}, // 002 Example 2, solved
		{"activations", func(o *Outcome) float64 { return float64(len(o.Rows)) }, 14, 14},
	}},
	"002-T1": {agrees: true, spoil: func(o *Outcome) {
		for i := range o.aside { // the rows of A where those of (A†)ᵀ belong
			if o.aside[i].Series == seriesPseudo {
				o.aside[i].Series = seriesDirect
			} else if o.aside[i].Series == seriesDirect {
				o.aside[i].Series = seriesPseudo
			}
		}
	}, numbers: []number{
		// 100 starts at 48 minima, if they were equally likely, would meet 42 ± 2.
		{"minima met", func(o *Outcome) float64 { return float64(distinct(o.beside(seriesWhich))) }, 30, 48},
		{"distinct saddles", func(o *Outcome) float64 { n, _ := kinds(stationaryPoints(o)); return float64(n) }, 60, 1000},
		{"up to order and signs", func(o *Outcome) float64 { _, n := kinds(stationaryPoints(o)); return float64(n) }, 3, 60},
		{"least curvature of the flattest saddle", func(o *Outcome) float64 { return worst(o.beside(seriesFlat)) }, -1, -1e-4},
		{"largest entry of E", func(o *Outcome) float64 { return worst(o.beside(seriesPseudo)) }, 0, 0.001},
		{"the same of A", func(o *Outcome) float64 { return slices.Min(o.beside(seriesDirect)) }, 1, 10},
	}},
	"002-T1-condition": {agrees: true, spoil: scale(seriesSlack, 1e-12), numbers: []number{
		{"largest entry of E", func(o *Outcome) float64 { return worst(o.beside(seriesPseudo)) }, 0, 0.001},
		{"curvature of the flattest saddle over τ/2", func(o *Outcome) float64 {
			return slices.Min(o.beside(seriesSaddle))
		}, 10, 1e9},
	}},
	"002-T2": {agrees: false, spoil: func(o *Outcome) {
		for i := range o.aside { // a bottom on every ray
			o.aside[i].Y[0] = 1
		}
	}, numbers: []number{
		{"slope of identity", slopeOf("identity"), -1.4, -0.6}, // see sampleTolerance
		{"slope of sigmoid", slopeOf("sigmoid"), -1.4, -0.6},
		{"slope of ReLU", slopeOf("relu"), -1.5, -0.15},
		{"data sets in which L4 in ℝ^d falls", func(o *Outcome) float64 {
			return float64(below(o.beside("identity"), 0) + below(o.beside("relu"), 0) + below(o.beside("sigmoid"), 0))
		}, 3, 3},
	}},
	"002-T2d": {agrees: true, spoil: scale("identity", 5), numbers: []number{
		{"slope of identity", slopeOf("identity"), 0.2, 1.3}, // see overDTolerance
		{"slope of sigmoid", slopeOf("sigmoid"), 0.35, 1.45},
	}},
	"002-T2-time": {agrees: true, spoil: scale("d = 10", 100), numbers: []number{
		{"E_reg after the longest descent, d = 5", func(o *Outcome) float64 {
			_, y := o.medians(timeSeries(5))
			return y[len(y)-1]
		}, 1e-6, 3e-3},
	}},
	"002-T3": {agrees: false, spoil: replace(byStep(1, "identity"), byEM("identity")), numbers: []number{
		{"rate of EM, identity, σ = 0.01", medianAt(byEM("identity"), 0.01), 0, 0.04},
		{"rate of EM, ReLU, σ = 0.01", medianAt(byEM("relu"), 0.01), 0.2, 0.6},
		{"rate of EM, identity, σ = 1", medianAt(byEM("identity"), 1), 0.7, 0.86},
		{"rate of step 1 less its limit, σ = 0.01", func(o *Outcome) float64 {
			return medianAt(byStep(1, "identity"), 0.01)(o) - o.computed(limitOf(1)).Last()
		}, -0.045, 0.045},
		{"rate of step 4 less its limit, σ = 0.01", func(o *Outcome) float64 {
			return medianAt(byStep(4, "identity"), 0.01)(o) - o.computed(limitOf(4)).Last()
		}, -0.12, 0.12},
		{"largest ratio of gradient descent", func(o *Outcome) float64 {
			largest := 0.0
			for _, c := range o.aside {
				largest = max(largest, c.Last())
			}
			return largest
		}, 0, 0.9999},
	}},
	"002-T3d": {agrees: true, spoil: func(o *Outcome) { // a rate that goes as log d
		for i := range o.Curves {
			o.Curves[i].Y[0] *= math.Log(o.Curves[i].X[0])
		}
	}, numbers: []number{
		{"rate of step 1, identity, d = 40", medianAt(byStep(1, "identity"), 40), 0.7, 0.95},
		{"rate of EM, identity, d = 40", medianAt(byEM("identity"), 40), 0, 0.5},
	}},
	"002-T3a": {agrees: true, spoil: func(o *Outcome) {
		for i := range o.Curves {
			o.Curves[i].Y[0] = 1 - o.Curves[i].Y[0]
		}
	}, numbers: []number{
		{"rate of EM, identity, at 0.1", medianAt(byEM("identity"), 0.1), 0.7, 1},
		{"rate of EM, identity, at √2", medianAt(byEM("identity"), math.Sqrt2), 0, 0.3},
	}},
	// Errors are as large as σ at the largest ε, where the floor is not quite proportional.
	"002-T3e": {agrees: true, spoil: scale(floorSeries("identity", alongGate), 1e4), numbers: []number{
		{"slope of the floor on ε, identity, at random", slopeOf(floorSeries("identity", atRandom)), 0.8, 1.6},
		{"slope of the floor on ε, identity, along w", slopeOf(floorSeries("identity", alongGate)), 0.8, 1.6},
	}},
	"002-T4n": {agrees: true, spoil: reverse, numbers: gateSlopes(-0.5)},
	"002-T4d": {agrees: true, spoil: reverse, numbers: gateSlopes(0.5)},
	"002-T4T": {agrees: true, spoil: func(o *Outcome) { // an error that grows like T
		for i := range o.Curves {
			copy(o.Curves[i].Y, o.Curves[i].X)
		}
	}, numbers: []number{
		{"slope of identity from T = 3 on", slopeOf("identity"), -0.3, 0.8},
	}},
	"002-L4": {agrees: true, spoil: scale("identity, d = 5", 3), numbers: []number{
		{"deviation of identity at n/d = 20", medianAt("identity, d = 5", 20), 0.05, 0.3},
	}},
	"002-L3": {agrees: true, spoil: scale("relu", 100), numbers: []number{
		{"largest κ of identity", func(o *Outcome) float64 { return slices.Max(o.values("identity")) }, 0.005, 0.1},
		{"largest κ of ReLU", func(o *Outcome) float64 { return slices.Max(o.values("relu")) }, 0.01, 0.2},
		{"largest κ of sigmoid", func(o *Outcome) float64 { return slices.Max(o.values("sigmoid")) }, 0.001, 0.02},
		{"largest directed κ of ReLU over the random", func(o *Outcome) float64 {
			return slices.Max(o.values(directed("relu"))) / slices.Max(o.values("relu"))
		}, 1, 20},
	}},
	"ray": {agrees: false, spoil: func(o *Outcome) {
		for _, row := range o.Rows {
			row[1], row[3] = "0.0001", "never"
		}
	}, numbers: []number{
		{"coefficient of t⁴ at n = 1000", cell(0, 1), -0.01, -3e-4},
		{"coefficient of t⁴ at n = 100000", cell(2, 1), -1e-3, -3e-5},
		{"coefficient of t⁴ of the population", cell(3, 1), 0, 0.05},
	}},
	// What is measured does not depend on the seed: nothing of tone and faithful is drawn but starts.
	"gain-bound": {agrees: true, spoil: func(o *Outcome) {
		for _, row := range o.Rows {
			row[6] = "5.5"
		}
	}, numbers: []number{
		{"bound of tone, k = 2", cell(1, 6), 29, 31},
		{"bound of faithful, k = 2", cell(4, 6), 0.2, 0.4},
	}},
	"fixed-table": {agrees: false, spoil: func(o *Outcome) {
		for i := range o.Curves {
			o.Curves[i].Status = ""
		}
	}, numbers: []number{
		// 6 of 6 runs with other seeds diverged, the last of them after 2300 of the 4000
		// steps.
		{"runs on tables that diverge, λ = 50", diverged(fixedSeries(1500, 50)), 3, 3},
		{"runs on fresh rows that diverge", diverged(fixedSeries(0, 50), fixedSeries(0, 20)), 0, 0},
		{"worst E_reg on fresh rows, λ = 20", worstOf(fixedSeries(0, 20)), 0, 0.02},
	}},
	"transforms-2": {agrees: true, spoil: replace("relu, cubic optimal", "relu, cubic polynomial"), numbers: transformsNumbers(.002, .02)},
	"transforms-3": {agrees: true, spoil: replace("sigmoid, cubic optimal", "relu, cubic polynomial"), numbers: transformsNumbers(.005, .06)},
	"transforms-6": {agrees: true, spoil: replace("identity, cubic optimal", "relu, cubic polynomial"), numbers: transformsNumbers(.02, .6)},
	"efficiency-2": {agrees: true, spoil: scale("refined, relu", 1.5), numbers: efficiencyNumbers(0.25)},
	"efficiency-3": {agrees: true, spoil: scale("refined, leakyrelu", 1.5), numbers: efficiencyNumbers(0.25)},
	"trees": {agrees: true, spoil: reverse, numbers: []number{
		{"error of regressors, 2x2 relu, n = 4000", medianAt("2x2 relu, regressors", 4000), 0.005, 0.06},
		{"error of gates, 2x(1,2) mixed, n = 4000", medianAt("2x(1,2) mixed, gates", 4000), 0.04, 0.5},
	}},
	"families": {agrees: true, spoil: scale("Cauchy by identity, moments", 4), numbers: []number{
		{"E_reg of Poisson by moments, n = 15000", medianAt("Poisson by exp, moments", 15000), 0.004, 0.05},
		{"E_reg of Poisson by likelihood, n = 15000", medianAt("Poisson by exp, likelihood", 15000), 0.0006, 0.0035},
		{"E_reg of t by moments, n = 15000", medianAt("t of 3 degrees of freedom by identity, moments", 15000), 0.0012, 0.01},
		{"E_reg of t by likelihood, n = 15000", medianAt("t of 3 degrees of freedom by identity, likelihood", 15000), 7e-6, 4.5e-5},
	}},
	"overfit": {agrees: false, spoil: scale("expert's intercept, 3 experts", 0.05), numbers: []number{
		{"error of the gate's slope of three experts, n = 20000", medianAt("gate's slope, 3 experts", 20000), 0.44, 2.6},
		{"error of the intercept of three experts", medianAt("expert's intercept, 3 experts", 20000), 0.035, 0.25},
		{"error of the slope of three experts", medianAt("expert's slope, 3 experts", 20000), 0.029, 0.24},
		{"error of the variance of three experts", medianAt("variance, 3 experts", 20000), 0.0026, 0.0163},
		{"error of the intercept of two experts", medianAt("expert's intercept, 2 experts", 20000), 0.0008, 0.019},
	}},
	"overfit-two": {agrees: false, spoil: scale("expert's intercept, 4 experts", 0.05), numbers: []number{
		{"error of the intercept of four experts, n = 1e8", medianAt("expert's intercept, 4 experts", 1e8), 0.02, 0.2},
		{"error of the slope of four experts", medianAt("expert's slope, 4 experts", 1e8), 0.004, 0.1},
		{"error of the intercept of two experts", medianAt("expert's intercept, 2 experts", 1e8), 1e-5, 5e-4},
	}},
	"identifiability": {agrees: false, spoil: scale("identity, likelihood, σ known", 20), numbers: []number{
		{"error of tanh by squares, n = 1e7", medianAt("tanh, least squares", 1e7), 0.03, 0.6},
		{"error of tanh with σ estimated, n = 1e9", medianAt("tanh, likelihood, σ estimated", 1e9), 0.0012, 0.03},
		{"error of lines with σ known, n = 1e9", medianAt("identity, likelihood, σ known", 1e9), 0.0001, 0.006},
	}},
	"identifiability-sigmoid": {agrees: false, spoil: scale("tanh, sigmoid", 20), numbers: []number{
		{"error of tanh under sigmoid gates, n = 1e10", medianAt("tanh, sigmoid", 1e10), 0.002, 0.08},
		{"error of tanh under softmax gates", medianAt("tanh, softmax", 1e10), 0.004, 0.12},
	}},
	"identifiability-quadratic": {agrees: true, spoil: scale("quadratic monomial, tanh, least squares", 1e-9)},
	"overfit-held": {agrees: false, spoil: reverse, numbers: []number{ // nothing random; by hand 4, 8, 4 and 4
		{"power of δ of the gate's slope", heldPower("gate's slope"), 3.95, 4.05},
		{"power of δ of the intercept", heldPower("expert's intercept"), 7.8, 8.1},
		{"power of δ of the slope", heldPower("expert's slope"), 3.95, 4.05},
		{"power of δ of the variance", heldPower("variance"), 3.8, 4.1},
	}},
	"oblique": {agrees: true, spoil: scale(seriesDeflated, 0.1), numbers: []number{
		{"E_reg by power iterations, n = 1e6", medianAt(seriesDeflated, 1e6), 0.11, 0.44},
		{"E_reg by the least-squares fit, n = 1e6", medianAt(seriesJointly, 1e6), 0.0105, 0.042},
		{"E_reg of the likelihood, n = 1e5", medianAt(seriesFromThere, 1e5), 1e-7, 1e-5},
	}},
	"em-rate": {agrees: true, spoil: scale("k = 3 and ‖w‖ = 4", 0.99), numbers: []number{
		{"rate at k = 2, ‖w‖ = 1, σ = .1", func(o *Outcome) float64 { return o.values("k = 2 and ‖w‖ = 1")[0] }, 0.12, 0.21},
		{"rate at k = 3, ‖w‖ = 1, σ = 1", func(o *Outcome) float64 { return o.values("k = 3 and ‖w‖ = 1")[4] }, 0.8, 0.96},
	}},
	"trees-flat": {agrees: true, spoil: replace("2x(1,2) mixed, tree", "2x(1,2) mixed, flat"), numbers: []number{ // over q/(2n)
		{"divergence of the tree, 2x(1,2) mixed", medianAt("2x(1,2) mixed, tree", 4000), 0.46, 2.2},
		{"divergence of the flat fit, 2x(1,2) mixed", medianAt("2x(1,2) mixed, flat", 4000), 12, 20},
	}},
	"trees-recurrent": {agrees: true, spoil: reverse, numbers: []number{
		{"error of the identity's regressor, n = 4000", medianAt("identity, regressors", 4000), 0.0015, 0.015},
		{"error of the inner gate, n = 4000", medianAt("tanh against tanh, gates", 4000), 0.03, 0.5},
	}},
	"gru-states": {agrees: true, spoil: scale("W, σ = 0.01, learned", 2), numbers: []number{
		{"error of W, n = 1600", medianAt("W, σ = 0.01, learned", 1600), 0.0002, 0.016},
		{"error of U, n = 1600", medianAt("U, σ = 0.01, learned", 1600), 0.0006, 0.072},
	}},
}

func heldPower(series string) func(*Outcome) float64 {
	return func(o *Outcome) float64 {
		c := o.computed(series)
		return slope(c.X[:2], c.Y[:2])
	}
}

func biasOf(series string) func(*Outcome) float64 {
	return func(o *Outcome) float64 { return median(o.beside(series)) }
}

func lawShare(p float64) func(*Outcome) float64 {
	return func(o *Outcome) float64 {
		return median(o.besideAt(inputCase{mixtureLengths()[1], p}.share(), 1e5))
	}
}

var obliqueNumbers = []number{
	{"worst error at k = 2", worstOf("k = 2"), 0, 0.005},
	{"worst error at k = 3", worstOf("k = 3"), 0, 0.03},
}

// transformsNumbers bound the median E_reg of ReLU on 10 000 rows, .0055 at k = 2 and
// .014 at k = 3 over 40 data sets with d = 10; a median of four is within a factor 3.
func transformsNumbers(least, most float64) []number {
	return []number{{"median E_reg of ReLU by the optimal cubic tensor", medianAt("relu, cubic optimal", 10000), least, most}}
}

// slideNumbers bound the median E_reg at n of EM with σ free, of L4 and of the cubic
// tensor.
func slideNumbers(n, em, l4, cubic float64) []number {
	return []number{
		// Of 120 runs of identity experts on 10 000 rows with k = 2 to 4 none ended away.
		{"runs of EM away, σ free", awayAt(seriesFree, n), 0, 1},
		{"median E_reg of EM, σ free", medianAt(seriesFree, n), 1e-6, em},
		{"median E_reg of L4", medianAt(seriesMoments, n), 0.002, l4},
		{"median E_reg of the cubic tensor", medianAt(seriesCubic, n), 0.001, cubic},
	}
}

func gateSlopes(want float64) []number {
	var out []number
	for _, g := range []string{"identity", "relu"} {
		for _, s := range []string{"minimum, ", "sample splitting, "} {
			out = append(out, number{"slope of " + s + g, slopeOf(s + g), want - 0.3, want + 0.3})
		}
	}
	return out
}

// efficiencyNumbers: 40 data sets leave the mean of the ratios with a standard
// deviation of 0.05; within is the most that it may be off 1.
func efficiencyNumbers(within float64) []number {
	var out []number
	for _, g := range []string{"identity", "relu", "sigmoid", "leakyrelu"} {
		mean := func(kind string) func(o *Outcome) float64 {
			return func(o *Outcome) float64 {
				sum, v := 0.0, o.at(kind+", "+g, 10000)
				for _, x := range v {
					sum += x
				}
				return sum / float64(len(v))
			}
		}
		out = append(out, number{"MSE over the bound, " + g, mean("refined"), 1 - within, 1 + within},
			number{"MSE of the moments over the bound, " + g, mean("moments"), 20, 1e6})
	}
	return out
}

// TestClaims holds every figure at quick size against what it must show, and
// its data, spoiled, against the same: that must be noticed.
func TestClaims(t *testing.T) {
	testslow.Mark(t)
	var ids []string
	if testing.Short() {
		ids = []string{"002-B", "002-T1", "002-L3", "001-3"}
	}
	switch *only {
	case "", "all":
	case "longest":
		ids = longest
	default:
		ids = strings.Split(*only, ",")
	}
	figures, err := Find(ids, true)
	if err != nil {
		t.Fatal(err)
	}
	if *only == "" {
		figures = slices.DeleteFunc(figures, func(f *Figure) bool { return slices.Contains(longest, f.ID) })
	}
	start := time.Now()
	outcomes, err := Run(t.Context(), figures, Options{Seed: *seed})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d figures in %.0f s", len(figures), time.Since(start).Seconds())
	for _, o := range outcomes {
		c, ok := claims[o.ID]
		if !ok {
			t.Errorf("figure %s has no claim in this test", o.ID)
			continue
		}
		c.hold(t, o)
	}
}

// hold checks an outcome, and that its data, spoiled, are noticed.
func (c claim) hold(t *testing.T, o *Outcome) {
	t.Logf("%s: %s: %s", o.ID, o.Verdict.Measured, o.Verdict.Sentence())
	if testing.Verbose() {
		for _, n := range c.numbers {
			t.Logf("%s number %s = %.4g", o.ID, n.name, n.of(o))
		}
	}
	if err := c.check(o); err != nil {
		t.Errorf("%s: %v", o.ID, err)
	}
	if err := (&output{Curves: slices.Concat(o.Curves, o.aside)}).check(); err != nil {
		t.Errorf("%s: %v", o.ID, err)
	}
	bad := o.clone()
	if c.spoil(bad); c.check(bad) == nil {
		t.Errorf("%s: spoiled data are not noticed", o.ID)
	}
}

// TestClaimsInSmall has one of the five runs of every case of 002-3, within the
// bounds of each, and ten of the forty data sets of efficiency-2, at n = 10000: the mean
// of the ratios then has a standard deviation of 0.1.
func TestClaimsInSmall(t *testing.T) {
	testslow.Mark(t)
	if *only != "" || testing.Short() {
		t.Skip("TestClaims has them whole, or it is to be short")
	}
	quick := size{quick: true}
	byL4, gate, attained := oblique(quick, "002-3a", regressors), oblique(quick, "002-3b", gating), efficiency(quick, efficiencyBuiltins(2))
	byL4.units, gate.units = everyFifth(byL4.units), everyFifth(gate.units)
	attained.units = nil
	for _, s := range efficiencyBuiltins(2) {
		attained.units = append(attained.units, efficiencyUnit(&bound{setting: s, rows: 50000}, 0, 10, []int{10000}))
	}
	figures := []*Figure{byL4, gate, attained}
	for _, f := range figures { // their judges want all runs
		f.judge = func(*Outcome) Verdict { return Verdict{Agrees: true} }
	}
	outcomes, err := Run(t.Context(), figures, Options{Seed: *seed})
	if err != nil {
		t.Fatal(err)
	}
	claims["002-3a"].hold(t, outcomes[0])
	claims["002-3b"].hold(t, outcomes[1])
	claim{agrees: true, spoil: scale("refined, relu", 2), numbers: efficiencyNumbers(0.4)}.hold(t, outcomes[2])
}

func everyFifth(units []unit) (out []unit) {
	for i := 0; i < len(units); i += 5 {
		out = append(out, units[i])
	}
	return out
}
