package experiment

import (
	"context"
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/loss/minibatch"
)

// deviation is Lemma 4: how far a step on n rows is from one on the population.
func deviation(z size) *Figure {
	draws, rows := z.of(100, 200), z.of(100000, 1000000)
	f := &Figure{
		ID: "002-L4", Title: "A gating step on n rows and on the population", Source: "002 Lemma 4",
		Claim: "‖G_n(W,A) − G(W,A)‖ ≤ c_2·√(d·log(k/δ)/n) with probability 1 − δ, for any fixed W in Ω and A, " +
			"from n of order d·log(1/δ) on, with one constant.",
		Settings: fmt.Sprintf("k = 2, σ = 0.05, step 1 without the projection, which brings no two points farther "+
			"apart; W random in the unit ball and A with an error of 0.3 in every row, of random direction, both "+
			"fixed; %d rows in place of the population, and %d draws of n = 100, 300, 1000 and 3000 rows for each n "+
			"and d. Drawn is the 90th percentile, δ = 0.1; c_2 is taken from it, and for δ = 0.5 from the median.",
			rows, draws),
		X: Axis{Label: "n/d", Log: true}, Y: Axis{Label: "‖G_n − G‖, 90 %", Log: true}, measure: measureUpper,
		judge: judgeDeviation,
	}
	for _, g := range []string{"identity", "relu"} {
		for _, d := range deviationDims {
			s := paper(g, 2)
			s.d = d
			f.units = append(f.units, deviationUnit(s, rows, draws))
		}
	}
	return f
}

var (
	deviationDims = []int{5, 20}
	deviationRows = []int{100, 300, 1000, 3000}
)

const (
	measureUpper  = "90th percentile"
	measureMiddle = "median"
)

func deviationSeries(g string, d int) string { return fmt.Sprintf("%s, d = %d", g, d) }

func deviationUnit(s setting, rows, draws int) unit {
	return unit{key: fmt.Sprintf("deviation %+v rows %d draws %d", s, rows, draws),
		run: func(ctx context.Context, seed uint64) (*output, error) {
			st, data, err := s.openTable(ctx, seed, rows)
			if err != nil {
				return nil, err
			}
			p, w := st.truth.Clone(), st.unitRows(1)
			floats.Scale(math.Pow(st.rng.Float64(), 1/float64(s.d)), w)
			floats.AddScaled(p.Regressors, 0.3, st.unitRows(s.k))
			l := minibatch.NewGate(st.act, p)
			whole, g := make([]float64, s.d), make([]float64, s.d)
			if _, err := l.GradOn(ctx, whole, w, data); err != nil {
				return nil, err
			}
			upper, middle := new(trace), new(trace)
			for _, n := range deviationRows {
				batches := st.sampler.Batches(n)
				var far []float64
				for range draws {
					batch, err := batches.Next(ctx)
					if err != nil {
						return nil, err
					}
					if _, err := l.GradOn(ctx, g, w, batch); err != nil {
						return nil, err
					}
					far = append(far, floats.Distance(g, whole, 2))
				}
				at := float64(n) / float64(s.d)
				upper.add(at, Quantile(far, 0.9))
				middle.add(at, median(far))
			}
			out := new(output)
			out.add(measureUpper, deviationSeries(s.g, s.d), 0, upper)
			out.add(measureMiddle, deviationSeries(s.g, s.d), 0, middle)
			return out, nil
		}}
}

// judgeDeviation asks for the slope −½ of every curve, and for constants that do not
// depend on n, d or δ: within 1.6 of each other for one activation.
func judgeDeviation(o *Outcome) Verdict {
	v := Verdict{Agrees: true}
	var measured []string
	for _, g := range []string{"identity", "relu"} {
		var constants []float64
		for _, d := range deviationDims {
			c := o.Of(deviationSeries(g, d))[0]
			b := slope(c.X, c.Y)
			measured = append(measured, fmt.Sprintf("%s %.2f", c.Series, b))
			if math.Abs(b+0.5) > 0.1 {
				v.Agrees, v.Because = false, fmt.Sprintf("the slope of %s is not −½", c.Series)
			}
			middle := o.beside(c.Series)
			for i, x := range c.X {
				constants = append(constants, c.Y[i]*math.Sqrt(x/math.Log(20)), middle[i]*math.Sqrt(x/math.Log(4)))
			}
		}
		least, most := Quantile(constants, 0), Quantile(constants, 1)
		measured = append(measured, fmt.Sprintf("c_2 of %s %.2f to %.2f", g, least, most))
		if most > 1.6*least && v.Agrees {
			v.Agrees, v.Because = false, fmt.Sprintf("c_2 of %s is not a constant", g)
		}
	}
	v.Measured = "slopes on log n: " + strings.Join(measured, "; ")
	return v
}
