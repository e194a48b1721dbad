package experiment

import (
	"context"
	"fmt"
	"math"
	"strings"
)

// timeOf says how 002-T2-time descends: runs, features and mini-batches.
type timeOf struct {
	runs        int
	dims, steps []int
}

func timeSizes(z size) timeOf {
	if z.quick {
		return timeOf{3, []int{5, 10}, []int{60, 125, 250, 500, 1000, 2000}}
	}
	return timeOf{4, []int{5, 10, 20}, []int{60, 125, 250, 500, 1000, 2000, 4000}}
}

// workOfDescent is Theorem 2 on time: how many rows SGD on L4 works through for a precision.
func workOfDescent(z size) *Figure {
	sizes := timeSizes(z)
	f := &Figure{
		ID: "002-T2-time", Title: "Error of L4 by SGD against its work", Source: "002 Theorem 2",
		Claim: "SGD on the empirical L4 comes near to a global minimum in time polynomial in d and 1/ε.",
		Settings: fmt.Sprintf("Identity, k = 2, σ = 0.05, L4 in ℝ^d with μ = 0.01, λ = 20, ridge 1; mini-batches of "+
			"%d fresh rows, since L4 of a table has no lower bound in ℝ^d (002-T2, ray, fixed-table); step 0.04/d "+
			"falling to 0 along a cosine; %d random starts for each d and length of descent. A point is the end of a "+
			"descent. Work is the rows that it went through, each of which costs some kd operations, never a clock. "+
			"The work for ε is where the medians come to an E_reg of ε. A polynomial's powers do not grow: that of "+
			"1/ε from 0.01 to 0.003 may be twice that from 0.03 to 0.01, or 1 more, and that of d at 0.003 for the "+
			"last two d the same of that for the first two. That errors level off below 0.001 at these lengths is "+
			"not judged.", timeBatch, sizes.runs),
		X: Axis{Label: "rows worked through", Log: true}, Y: axisReg, measure: regressors, judge: judgeTime(sizes),
	}
	for _, d := range sizes.dims {
		for _, steps := range sizes.steps {
			for run := range sizes.runs {
				f.units = append(f.units, timeUnit(d, steps, run))
			}
		}
	}
	return f
}

const timeBatch = 1024

func timeSeries(d int) string { return fmt.Sprintf("d = %d", d) }

func timeUnit(d, steps, run int) unit {
	s := paper("identity", 2)
	s.d = d
	how := descent{batch: timeBatch, steps: steps, size: 0.04 / float64(d), schedule: cosine, mu: 0.01, lambda: 20,
		ridge: 1, points: 1}
	key := fmt.Sprintf("time of l4 %+v %+v run %d", s, how, run)
	return s.unit(key, 1, func(ctx context.Context, st *study, out *output) error {
		_, curve, err := st.l4(ctx, st.sampler.Batches(how.batch), how)
		if err != nil {
			return err
		}
		e := curve.last()
		if curve.status != "" { // diverged: the error of a guess
			e = 1
		}
		out.point(regressors, timeSeries(d), run, float64(steps*timeBatch), e)
		return nil
	})
}

// workFor is where a falling line comes to an error, NaN if it does not.
func workFor(x, y []float64, e float64) float64 {
	for i := range y {
		switch {
		case y[i] > e:
		case i == 0:
			return x[0]
		default:
			by := math.Log(y[i-1]/e) / math.Log(y[i-1]/y[i])
			return x[i-1] * math.Pow(x[i]/x[i-1], by)
		}
	}
	return math.NaN()
}

func judgeTime(sizes timeOf) func(*Outcome) Verdict {
	return func(o *Outcome) Verdict {
		var measured, wrong []string
		var dims, works []float64
		for _, d := range sizes.dims {
			x, y := o.medians(timeSeries(d))
			var work, power []float64
			for i, e := range timeErrors {
				work = append(work, workFor(x, y, e))
				if i > 0 {
					power = append(power, math.Log(work[i]/work[i-1])/math.Log(timeErrors[i-1]/e))
				}
			}
			dims, works = append(dims, float64(d)), append(works, work[len(work)-1])
			measured = append(measured, fmt.Sprintf("at d = %d %.2g, %.2g and %.2g rows for 0.03, 0.01 and 0.003, as "+
				"ε^−%.2f and then ε^−%.2f", d, work[0], work[1], work[2], power[0], power[1]))
			if !steady(power[0], power[1]) {
				wrong = append(wrong, fmt.Sprintf("at d = %d", d))
			}
		}
		last := len(dims) - 1
		first, end := slope(dims[:2], works[:2]), slope(dims[last-1:], works[last-1:])
		v := Verdict{Measured: fmt.Sprintf("%s; as d^%.2f at the first two d, d^%.2f at the last two",
			strings.Join(measured, "; "), first, end), Agrees: len(wrong) == 0 && steady(first, end)}
		switch {
		case len(wrong) > 0:
			v.Because = "the power of 1/ε grows, or the errors do not come down to 0.003, " +
				strings.Join(wrong, " and ")
		case !v.Agrees:
			v.Because = fmt.Sprintf("the power of d grows from %.2f to %.2f", first, end)
		default:
			v.Because = "of SGD on fresh rows; on a table it diverges (fixed-table)"
		}
		return v
	}
}

// timeErrors are the ε to which the work is taken, the last of them over d.
var timeErrors = []float64{0.03, 0.01, 0.003}
