package experiment

import (
	"context"
	"fmt"
)

// slides001 is the comparison with EM in 001.
func slides001(z size) []*Figure {
	var out []*Figure
	sets := z.of(6, 60)
	for _, k := range []int{3, 4} {
		f := &Figure{
			ID: fmt.Sprintf("001-%d", k), Title: fmt.Sprintf("Moment estimate and EM, %d experts", k), Source: fmt.Sprintf("001, Comparison with EM, %d mixtures", k),
			Claim:    "The method of moments recovers the parameters; EM often gets stuck in local optima.",
			Settings: fmt.Sprintf("Identity, k = %d, d = 10, σ = 0.05 (nothing is given in the source); %d data sets of each size. The moment estimate is by L4 on the reduced problem, with μ = 1 and σ estimated, not by the slides' cubic tensor. EM: one random start for each data set, unit regressors and W = 0, σ fixed at the truth or free and started at the target's rms, until the mean log-likelihood rises by less than 1e−9, at most %d iterations.", k, sets, emSteps),
			X:        Axis{Label: "n", Log: true}, Y: axisReg, measure: regressors, judge: judgeSlides,
		}
		for run := range sets {
			for _, n := range []int{1000, 3000, 10000} {
				f.units = append(f.units, slideUnit(paper("identity", k), n, run))
			}
		}
		out = append(out, f)
	}
	return out
}

const seriesMoments = "moments"

// slideUnit is one data set, by the moments and by EM.
func slideUnit(s setting, n, run int) unit {
	key := fmt.Sprintf("slides %+v n %d run %d", s, n, run)
	return s.unit(key, n, func(ctx context.Context, st *study, out *output) error {
		e, err := st.byMoments(ctx)
		if err != nil {
			return err
		}
		out.point(regressors, seriesMoments, run, float64(n), e)
		data, err := st.table(ctx)
		if err != nil {
			return err
		}
		for _, fixed := range []bool{true, false} {
			reg, _, err := st.em(ctx, data, fixed, emSteps)
			if err != nil {
				return err
			}
			out.point(regressors, emSeries(fixed), run, float64(n), reg.y[len(reg.y)-1])
		}
		return nil
	})
}

func judgeSlides(o *Outcome) Verdict {
	of := func(v []float64) string { return fmt.Sprintf("%d of %d", away(v), len(v)) }
	m, fixed, free := o.at(seriesMoments, 10000), o.at(seriesFixed, 10000), o.at(seriesFree, 10000)
	v := Verdict{Measured: fmt.Sprintf("E_reg above 0.05: EM with σ fixed %s at n = 1000 and %s at n = 10000, with σ free %s at n = 1000 and %s at n = 10000; moments %s at n = 10000, where their median is %s against %s of EM with σ free",
		of(o.at(seriesFixed, 1000)), of(fixed), of(o.at(seriesFree, 1000)), of(free), of(m), g2(median(m)), g2(median(free)))}
	switch {
	case median(m) > stuck:
		v.Because = "the moment estimate does not recover the parameters at n = 10000"
	case 4*away(free) < len(free):
		v.Because = fmt.Sprintf("at n = 10000 EM with σ free gets stuck in %s data sets, and its median E_reg is %s of the moments'", of(free), g2(median(free)/median(m)))
	default:
		v.Agrees = true
	}
	return v
}
