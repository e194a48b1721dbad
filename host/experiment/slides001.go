package experiment

import (
	"context"
	"fmt"

	"github.com/gatedlearning/moe/host"
)

// slides is the comparison with EM in 001.
func slides(z size) []*Figure {
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

func slideUnit(s setting, n, run int) unit {
	return unit{key: fmt.Sprintf("slides %+v n %d run %d", s, n, run), run: func(ctx context.Context, seed uint64) (*output, error) {
		st, err := s.open(ctx, seed, n)
		if err != nil {
			return nil, err
		}
		out := new(output)
		put := func(series string, e float64) {
			out.add(regressors, series, run, &trace{x: []float64{float64(n)}, y: []float64{e}})
		}
		m, err := host.Fit(ctx, st.act, st.sampler, host.Config{K: s.k, Method: host.Moments{}, Seed: seed, Threads: 1, Truth: st.truth})
		switch {
		case err == nil:
			put(seriesMoments, m.Truth.EReg)
		case isRequest(err): // too few rows for T2
			put(seriesMoments, 1)
		default:
			return nil, err
		}
		data, err := st.table(ctx)
		if err != nil {
			return nil, err
		}
		for _, fixed := range []bool{true, false} {
			reg, _, err := st.em(ctx, data, fixed, emSteps)
			if err != nil {
				return nil, err
			}
			series := seriesFree
			if fixed {
				series = seriesFixed
			}
			put(series, reg.y[len(reg.y)-1])
		}
		return out, nil
	}}
}

func judgeSlides(o *Outcome) Verdict {
	at := func(series string, n float64) []float64 {
		var v []float64
		for _, c := range o.Of(series) {
			if c.X[0] == n {
				v = append(v, c.Y[0])
			}
		}
		return v
	}
	of := func(v []float64) string { return fmt.Sprintf("%d of %d", away(v), len(v)) }
	m, fixed, free := at(seriesMoments, 10000), at(seriesFixed, 10000), at(seriesFree, 10000)
	v := Verdict{Measured: fmt.Sprintf("E_reg above 0.05: EM with σ fixed %s at n = 1000 and %s at n = 10000, with σ free %s at n = 1000 and %s at n = 10000; moments %s at n = 10000, where their median is %s against %s of EM with σ free",
		of(at(seriesFixed, 1000)), of(fixed), of(at(seriesFree, 1000)), of(free), of(m), g2(median(m)), g2(median(free)))}
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
