package experiment

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/search/starts"
)

// paper000 is 000 Section 4.
func paper000(z size) []*Figure {
	s := paper("identity", 3)
	steps, gate := z.of(3000, 10000), gateDescent(z.of(500, 2000))
	var units []unit
	runs := z.of(4, 10)
	for run := range runs {
		units = append(units, l4Unit(s, l4Descent(steps), gate, seriesL4, seriesAfterL4, run))
	}
	for run := range runs {
		units = append(units, emUnit(s, true, emRows, emSteps, run))
	}
	for run := range runs {
		units = append(units, emUnit(s, false, emRows, emSteps, run))
	}
	for run := range runs {
		units = append(units, l2Unit(s, l2Descent(steps, false), descent{}, seriesL2, seriesL2, run))
	}
	for run := range runs {
		units = append(units, l2Unit(s, l2Descent(steps, true), descent{}, seriesL2Adam, seriesL2Adam, run))
	}
	for i := range units {
		units[i] = inRows(units[i])
	}
	settings := fmt.Sprintf("Identity, k = 3, d = 10, σ = 0.05; the numbers do not survive in the text of the "+
		"source: d and σ are those of 002, k and the number of runs, here %d, are ours. EM, of which the source "+
		"gives no settings: n = %d rows, random unit regressors, W = 0, σ fixed at the truth, or free and started at "+
		"the target's rms, until the mean log-likelihood rises by less than 1e−9, at most %d iterations. The "+
		"abscissa counts rows processed, with repetition, so that the methods can be compared. ", runs, emRows,
		emSteps) + l4Settings + l2Settings
	return []*Figure{
		{
			ID: "000-1a", Title: "Regressors by EM, ℓ2 and L4", Source: "000 Figure 1a",
			Claim:    "L4 recovers the regressors, whereas SGD on ℓ2 as well as EM get stuck in local optima.",
			Settings: settings, X: axisRows, Y: axisReg, measure: regressors, units: units, judge: judge1a,
		},
		{
			ID: "000-1b", Title: "Gating by EM, ℓ2 and L_log after L4", Source: "000 Figure 1b",
			Claim: "L_log after L4 learns the gating considerably better than ℓ2, which learns it jointly.",
			Settings: settings + gateSettings +
				"Its rows are counted from its own start. EM, of which the source says the same, is drawn, with its " +
				"10000 rows; on the same rows it is judged in 000-1b-em.", X: axisRows, Y: axisGating, Level: stuck,
			measure: gating, units: units, judge: judge1b,
		},
		sameRows(z),
		manyStarts(z),
		oblique(z, "000-3a", regressors), oblique(z, "000-3b", gating),
		mixtureInputs(z), inputBias(z), inputLaw(z),
	}
}

// inRows gives the curves of a unit, whose abscissa is steps, one in rows: a
// batch of 1024 a step, or the table of EM. The start, at no rows, has no place on
// a logarithmic axis.
func inRows(u unit) unit {
	run := u.run
	return unit{key: u.key + " by rows", run: func(ctx context.Context, seed uint64) (*output, error) {
		out, err := run(ctx, seed)
		if err != nil {
			return nil, err
		}
		for i := range out.Curves {
			c := &out.Curves[i]
			step := 1024.0
			if c.Series == seriesFree || c.Series == seriesFixed {
				step = emRows
			}
			c.X, c.Y = c.X[1:], c.Y[1:]
			for i := range c.X {
				c.X[i] *= step
			}
		}
		return out, nil
	}}
}

func judge1a(o *Outcome) Verdict {
	l4, l2, adam, fixed, free := o.lasts(seriesL4), o.lasts(seriesL2), o.lasts(seriesL2Adam), o.lasts(seriesFixed),
		o.lasts(seriesFree)
	v := Verdict{Measured: fmt.Sprintf("of %d runs each, E_reg above 0.05 at the end: L4 %d, ℓ2 %d by SGD and %d by "+
		"Adam, EM %d with σ fixed and %d with σ free; median E_reg of L4 %s, of EM %s with σ fixed and %s with σ free",
		len(l4), away(l4), away(l2), away(adam), away(fixed), away(free), g2(median(l4)), g2(median(fixed)),
		g2(median(free)))}
	closer := ""
	if median(free) < median(l4) {
		closer = ", and ends closer than L4"
	}
	switch {
	case away(l4) > 0:
		v.Because = "L4 missed the regressors in some run"
	case o.diverged(seriesL2, seriesL2Adam):
		v.Because = "a run of ℓ2 diverged"
	case away(l2)+away(adam) == 0:
		v.Because = "ℓ2 did not get stuck"
	case away(fixed)+away(free) == 0:
		v.Because = "EM does not get stuck here, with σ fixed or free" + closer + "; ℓ2 does get stuck"
	case away(free) == 0:
		v.Because = "EM gets stuck with σ fixed alone; with σ free it does not" + closer + "; ℓ2 does get stuck"
	default:
		v.Agrees = true
	}
	return v
}

func judge1b(o *Outcome) Verdict {
	ours, l2, adam := o.lasts(seriesAfterL4), o.lasts(seriesL2), o.lasts(seriesL2Adam)
	v := Verdict{Measured: fmt.Sprintf("median final E_gating: L_log after L4 %s, ℓ2 %s by SGD and %s by Adam",
		g2(median(ours)), g2(median(l2)), g2(median(adam)))}
	if v.Agrees = 10*median(ours) < min(median(l2), median(adam)); !v.Agrees {
		v.Because = "the median of ℓ2 is not ten times as large"
	}
	return v
}

// sameRows is what 000 Figure 1b says of EM, with the same rows for both.
func sameRows(z size) *Figure {
	ns, sets := []int{1000, 10000, 100000}, []int{z.of(4, 40), z.of(4, 40), z.of(4, 40)}
	if !z.quick {
		ns, sets = append(ns, 1000000), append(sets, 10)
	}
	f := &Figure{
		ID: "000-1b-em", Title: "Gating by EM and by L_log after L4 on the same rows", Source: "000 Figure 1b",
		Claim: "L_log after L4 learns the gating considerably better than EM, which learns it jointly.",
		Settings: fmt.Sprintf("Identity, k = 3, d = 10, σ = 0.05, %d data sets of each size, %d of the largest. L4 "+
			"on the reduced problem with μ = 1, σ estimated, then the minimum of L_log on all rows with its "+
			"regressors. EM on the same rows: one random start, unit regressors, W = 0, σ fixed at the truth or "+
			"free, until the mean log-likelihood rises by less than 1e−9, at most %d iterations. Data sets are "+
			"pairs: which method is better at a size is told where the two-sided sign test against both EMs has p "+
			"below 5 %% over the number of sizes; considerably is by a factor of 2 in the median ratio.", sets[0],
			sets[len(sets)-1], emSteps),
		X: Axis{Label: "n", Log: true}, Y: axisGating, Apart: true, Level: stuck, measure: gating, judge: judgeSameRows,
	}
	for i := len(ns) - 1; i >= 0; i-- { // the dear ones first
		for run := range sets[i] {
			f.units = append(f.units, sameRowsUnit(paper("identity", 3), ns[i], run))
		}
	}
	return f
}

const seriesAfterL4 = "L_log after L4"

func sameRowsUnit(s setting, n, run int) unit {
	key := fmt.Sprintf("same rows %+v n %07d run %d", s, n, run)
	return s.onTable(key, n, func(ctx context.Context, st *study, data *model.Data, out *output) error {
		p, e, err := st.measured(ctx, st.seed)
		if err != nil {
			return err
		}
		found := 1.0 // the error of a guess, where there is no estimate
		estimate, _, err := moment.EstimateParams(ctx, p, e, moment.UnitMu)
		if err != nil {
			return err
		}
		if estimate != nil {
			q, _, err := starts.FitGate(ctx, p, p.Rows, p.Shape.Adopt(estimate.Params), 0, 1)
			if err != nil {
				return err
			}
			found = st.egating(p.Units.OutOf(q))
		}
		out.point(gating, seriesAfterL4, run, float64(n), found)
		for _, fixed := range []bool{true, false} {
			_, gate, err := st.em(ctx, data, fixed, emSteps)
			if err != nil {
				return err
			}
			out.point(gating, emSeries(fixed), run, float64(n), gate.last())
		}
		return nil
	})
}

// judgeSameRows compares the methods data set by data set, by the sign test at each size. It is told which of them is
// better at a size where p is below 5 % over the number of sizes.
func judgeSameRows(o *Outcome) Verdict {
	x, ours := o.medians(seriesAfterL4)
	var measured []string
	better, worse := 0, 0 // sizes at which it is told that L_log after L4 is better, and considerably so, and worse
	for i, n := range x {
		least, most := math.Inf(1), math.Inf(-1)
		tellsBetter, tellsWorse := true, true
		text := fmt.Sprintf("n = %g: median E_gating %s after L4", n, g2(ours[i]))
		for _, s := range []string{seriesFixed, seriesFree} {
			var ratios []float64
			lower, pairs := 0, 0
			after, em := o.at(seriesAfterL4, n), o.at(s, n)
			for j := range em {
				ratios = append(ratios, after[j]/em[j])
				if after[j] != em[j] {
					pairs++
				}
				if after[j] < em[j] {
					lower++
				}
			}
			p := signTest(lower, pairs)
			told := p < 0.05/float64(len(x))
			tellsBetter, tellsWorse = tellsBetter && told && 2*lower > pairs, tellsWorse && told && 2*lower < pairs
			least, most = min(least, median(ratios)), max(most, median(ratios))
			text += fmt.Sprintf(", %s by %s, which is better in %d of %d pairs (p = %s)", g2(median(em)), s,
				pairs-lower, pairs, g2(p))
		}
		measured = append(measured, fmt.Sprintf("%s, the median ratio %.2f to %.2f", text, least, most))
		if tellsBetter && most < 0.5 {
			better++
		}
		if tellsWorse {
			worse++
		}
	}
	v := Verdict{Measured: strings.Join(measured, "; "), Agrees: better == len(x)}
	if !v.Agrees {
		v.Because = fmt.Sprintf("on the same rows L_log after L4 is told to be considerably better than EM at %d of "+
			"%d sizes, and EM to be better at %d", better, len(x), worse)
	}
	return v
}

// manyStarts is 000 Figure 1c.
func manyStarts(z size) *Figure {
	s, runs := paper("identity", 3), z.of(10, 30)
	f := &Figure{
		ID: "000-1c", Title: fmt.Sprintf("L4 from %d random starts", runs), Source: "000 Figure 1c",
		Claim: "L4 recovers the regressors from all random initialisations (30 of 30).",
		Settings: fmt.Sprintf("Identity, k = 3, d = 10, σ = 0.05; %d starts, each with mini-batches of its own. ",
			runs) + l4Settings,
		X: axisBatches, Y: axisReg, measure: regressors, judge: judge1c,
	}
	for run := range runs {
		f.units = append(f.units, l4Unit(s, l4Descent(z.of(3000, 10000)), descent{}, seriesL4, "", 1000+run))
	}
	return f
}

func judge1c(o *Outcome) Verdict {
	l4 := o.lasts(seriesL4)
	v := Verdict{Measured: fmt.Sprintf("%d of %d starts end below E_reg 0.01; worst %s", below(l4, recovered), len(l4),
		g2(worst(l4)))}
	if v.Agrees = below(l4, recovered) == len(l4); !v.Agrees {
		v.Because = "a start did not end at the regressors"
	}
	return v
}

// mixtureInputs is 000 Figure 3c.
func mixtureInputs(z size) *Figure {
	return &Figure{
		ID: "000-3c", Title: "L4 with inputs from a symmetric mixture", Source: "000 Figure 3c",
		Claim: "With x ~ p·N(μ, I) + (1−p)·N(−μ, I) L4 learns the regressors at all mixing proportions p.",
		Settings: fmt.Sprintf("Identity, k = 2, d = 10, σ = 0.05; μ a random vector, another one in every run, of "+
			"length 1, 2 and √d (the source has one fixed random vector; its length, if given, and the p do not "+
			"survive in its text); p = 0.1, 0.3 and 0.5, of which 1 − p gives the same law up to the sign of μ, with "+
			"%d runs each. The transforms are those for N(0, I), as in the source. What of the error is a bias: "+
			"000-3c-bias. ", inputRuns(z)) + l4Settings,
		X: axisBatches, Y: axisReg, measure: regressors, judge: judge3c,
		Views: views("p = 0.1", "p = 0.3", "p = 0.5"), units: biasUnits(z),
	}
}

type mixtureLength struct {
	name string
	norm float64
}

func mixtureLengths() []mixtureLength {
	return []mixtureLength{{"‖μ‖ = 1", 1}, {"‖μ‖ = 2", 2}, {"‖μ‖ = √d", math.Sqrt(10)}}
}

// learned is the error at which regressors are nearly learned where the theory does
// not hold: a correlation of 0.9.
const learned = 0.1

func judge3c(o *Outcome) Verdict {
	var measured, reached []string
	var medians []float64
	v := Verdict{Agrees: true}
	for _, length := range mixtureLengths() {
		var all []float64
		for _, s := range o.Series() {
			if strings.HasPrefix(s, length.name+", ") {
				all = append(all, o.lasts(s)...)
			}
		}
		measured = append(measured, fmt.Sprintf("%s (%s) at %s", g2(median(all)), g2(worst(all)), length.name))
		medians = append(medians, median(all))
		v.Agrees = v.Agrees && worst(all) <= recovered
		reached = append(reached, fmt.Sprintf("%d of %d within %g and %d within %g at %s", below(all, recovered),
			len(all), recovered, below(all, learned), learned, length.name))
	}
	v.Measured = "final E_reg over all p, median (worst): " + strings.Join(measured, ", ")
	if !v.Agrees {
		grows := ""
		if slices.IsSorted(medians) {
			grows = " that grows with μ"
		}
		v.Because = "Q4 and Q2 are made for N(0, I), which leaves a bias" + grows + ": " + strings.Join(reached, ", ")
	}
	return v
}
