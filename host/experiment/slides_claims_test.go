package experiment

import (
	"maps"
	"math"
	"slices"
)

// What the figures of 003 and 004 must show; the rule for bounds is that of claims.
func init() {
	maps.Copy(claims, map[string]claim{
		"003-rho": {agrees: false, spoil: func(o *Outcome) { o.Rows[0][2] = "0.0" }, numbers: []number{ // nothing random
			{"ρ(1) of ReLU", cell(0, 2), 0.090845, 0.090846},
			{"ρ(1) of tanh", cell(4, 2), 0.049192, 0.049194},
			{"ρ(10) of z²", cell(6, 3), -400.1, -399.9},
		}},
		"003-hessian": {agrees: true, spoil: scale("ReLU", 1.001), numbers: []number{
			{"least eigenvalue of ReLU", func(o *Outcome) float64 { return worst(o.values("ReLU")) }, 0.090845, 0.090846},
			{"null space of z at d = 4", cell(8, 4), 12, 12},
			{"null space of z² at d = 4", cell(11, 4), 6, 6},
		}},
		"003-recovery": {agrees: true, spoil: scaleBeside(seriesTensors, 1e15), numbers: []number{
			// 40 of 40 problems at full size.
			{"worst error from the tensors", func(o *Outcome) float64 { return worst(o.beside(seriesTensors)) }, 0, 1e-6},
			// A random start finds the signs in 5 of 20 problems: three of three in 2 %.
			{"random starts that find the signs", func(o *Outcome) float64 { n, _ := recoveredIn(o, seriesRandom, 2); return float64(n) }, 0, 3},
		}},
		"003-steps": {agrees: true, spoil: reverse, numbers: []number{
			{"worst error at the end, κ = 1", worstOf(kappaSeries(1)), 0, 0.01},
		}},
		"003-d": {agrees: true, spoil: func(o *Outcome) {
			for i := range o.Curves {
				if o.Curves[i].Run == 20 {
					o.Curves[i].Y[0] /= 2
				}
			}
		}, numbers: []number{
			{"share recovered at n = 4d, d = 20", func(o *Outcome) float64 {
				i := slices.IndexFunc(o.Curves, func(c Curve) bool { return c.Run == 20 && c.X[0] == 4 })
				return o.Curves[i].Y[0]
			}, 0, 0.6},
		}},
		"003-k": {agrees: true, spoil: tooMany, numbers: []number{
			{"rows needed over d, k = 2", medianAt(seriesNeeded, 2), 8, 512},
		}},
		"003-kappa": {agrees: true, spoil: tooMany, numbers: []number{
			{"rows needed over d, κ = 1", medianAt(seriesNeeded, 1), 8, 512},
		}},
		"003-epsilon": {agrees: true, spoil: func(o *Outcome) {
			for _, c := range asideOf(o, measureRows, precisionSeries(10)) { // rows that go as 1/ε
				for i := range c.Y {
					c.Y[i] = math.Pow(10, c.X[i])
				}
			}
		}, numbers: []number{
			{"rows over d for 1e−12, d = 10", func(o *Outcome) float64 { return median(o.besideAt(precisionSeries(10), mostDigits)) }, 2e4, 6e5},
		}},
		"004-identities": {agrees: true, spoil: func(o *Outcome) {
			for i := range o.Curves {
				o.Curves[i].Y[0] += 1e-9
			}
		}, numbers: []number{
			{"worst error of ∂L/∂W = D·r", worstOf(identities[0]), leastIdentity, 1e-12},
		}},
		"004-gram": {agrees: true, spoil: scale(seriesLeast, 0.5), numbers: []number{
			{"median λ_m(G_n) at n = 50", medianAt(seriesLeast, 50), 0.06, 0.095},
			{"median λ_m(G_n) at n = 400", medianAt(seriesLeast, 400), 0.085, 0.12},
			{"median λ_m(G)", medianAt(seriesIdeal, 400), 0.09, 0.12},
		}},
		"004-gamma": {agrees: true, spoil: scale(idealSeries(20), 0.5), numbers: []number{
			{"median λ_m(G) at m = 100, d = 20", medianAt(idealSeries(20), 100), 0.09, 0.12},
		}},
		"004-order": {agrees: false, spoil: scale(orderSeries(20), 2), numbers: []number{ // nothing random
			{"230·γ_230 at d = 20", medianAt(orderSeries(20), 230), 0.1744, 0.1746}, // γ_22 = … = γ_230 = 7.586e−4
		}},
		"004-bound": {agrees: true, spoil: func(o *Outcome) {
			for i := range o.Curves { // a ratio that grows with n
				for j := range o.Curves[i].Y {
					o.Curves[i].Y[j] *= float64(j + 1)
				}
			}
		}, numbers: []number{
			{"median ‖G − G_n‖/(√m·L2) at n = 800, m = 100", medianAt(boundCases[1].series(), 800), 0.6, 1.2},
		}},
		"004-moved": {agrees: false, spoil: func(o *Outcome) {
			for i := range o.Curves {
				o.Curves[i].Y[0] = 1
			}
		}, numbers: []number{
			{"least ratio at random", func(o *Outcome) float64 { return slices.Min(o.values(movedRandomly)) }, 0.5, 1.5},
			{"least ratio with λ₀ of G_n", func(o *Outcome) float64 { return slices.Min(o.values(movedByOne)) }, 0.8, 1},
		}},
		"004-smallest": {agrees: true, spoil: func(o *Outcome) {
			for _, c := range o.Curves {
				c.Y[0] /= c.X[0]
			}
		}, numbers: []number{
			{"median s_m(D)²/m at m = 75, as supposed", medianAt(smallestDesigns[0].name, 75), 0.2, 2},
			{"median s_m(D)²/m at m = 75, n = 100", medianAt(smallestDesigns[3].name, 75), 0.05, 0.6},
		}},
		"004-L2": {agrees: true, spoil: scale(discrepancySeries(10), 7), numbers: []number{
			{"L2 at n = 400, d = 10", medianAt(discrepancySeries(10), 400), 0.017, 0.026},
		}},
		"004-R": {agrees: false, spoil: func(o *Outcome) {
			for _, c := range slices.Concat(o.Curves, o.aside) {
				if c.Series == seriesWith || c.Series == seriesWith+" train" {
					c.Y[0] /= 1e3
				}
			}
		}},
		"004-flow": {agrees: false, spoil: func(o *Outcome) {
			for i := range o.aside {
				if o.aside[i].Series == "moved" {
					o.aside[i].Y[0] = 100
				}
			}
		}, numbers: []number{
			{"movement over the bound as corrected", func(o *Outcome) float64 { f := flowFactsOf(o); return f.moved / f.corrected }, 1e-3, 1},
			{"least λ_min over λ₀", func(o *Outcome) float64 { return flowFactsOf(o).least }, 0.5, 1},
		}},
		"004-train": {agrees: true, spoil: scale(trainingSeries(150), 2)},
	})
}

// tooMany spoils rows needed.
func tooMany(o *Outcome) {
	for _, c := range o.Curves {
		c.Y[0] = 2 * mostRatio
	}
}
