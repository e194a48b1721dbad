package experiment

import (
	"context"
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
)

// overfitHeld is how little the best mixture with two experts apart differs from one without.
func overfitHeld() *Figure {
	f := &Figure{
		ID: "overfit-held", Title: "One expert too many: divergence at a distance that is held",
		Source: "arXiv 2305.03288 (Nguyen, Nguyen & Ho), Theorem 2",
		Claim: "The slowest rates are n^(−1/8) of the gate's slopes and the experts' intercepts, n^(−1/4) of the " +
			"experts' slopes and variances: at distances δ the divergence from the truth is as small as δ⁸ and δ⁴.",
		Settings: fmt.Sprintf("The mixture of overfit at %d equidistant x in [0, 1], its law in place of rows. Of "+
			"three experts the first two have the first's parameters but for one, which is held at its value ± δ, δ "+
			"in units of 5 of the gate's slope, of 2σ = .6 of the intercept, of σ of the slope, and of σ². All "+
			"others are those of least Kullback–Leibler divergence, by Newton's method; in y by sums over points .15 "+
			"σ apart, whose error is below rounding. n rows tell a divergence of order 1/n from 0, so that a power "+
			"of m leaves a distance of order n^(−1/m) to be "+
			"found by nobody. The powers are between the two least δ.", heldPoints),
		X: Axis{Label: "δ", Log: true}, Y: Axis{Label: "divergence", Log: true}, judge: judgeHeld,
	}
	f.units = []unit{{key: fmt.Sprintf("overfit held %v at %d", heldAt, heldPoints), run: heldRun}}
	return f
}

// heldAt are the distances, heldPoints the number of points x.
var heldAt = []float64{.1, .12, .14, .17, .2}

const heldPoints = 60

// heldRun computes all the divergences.
func heldRun(ctx context.Context, _ uint64) (*output, error) {
	truth := lambda()
	data, err := lawOfLambda(ctx, truth)
	if err != nil {
		return nil, err
	}
	act, err := paper("identity", 2).activation(ctx)
	if err != nil {
		return nil, err
	}
	whole := parted(truth, 1)
	entropy, err := loss.NewLikelihood(data, act, whole, loss.All, 1).LogLikelihood(ctx, whole)
	if err != nil {
		return nil, err
	}
	out := new(output)
	for j, q := range crowded {
		t := new(trace)
		for _, at := range heldAt {
			p, free := parted(truth, 2), loss.All
			for i, side := range []float64{at, -at} {
				switch j {
				case 0:
					p.Gating[2*i] += 5 * side
					free.GateColumns = []int{1}
				case 1:
					p.Regressors[2*i+1] += 2 * truth.Sigma[0] * side
					free.ExpertColumns = []int{0}
				case 2:
					p.Regressors[2*i] += truth.Sigma[0] * side
					free.ExpertColumns = []int{1}
				default:
					p.Sigma[i] *= math.Sqrt(1 + side)
					free.Sigma = false
				}
			}
			l := loss.NewLikelihood(data, act, p, free, 1)
			r, err := optim.Newton(ctx, l, l.Theta(p), optim.Settings{Iterations: 300, Tolerance: 1e-16})
			if err != nil {
				return nil, err
			}
			t.add(at, r.Value+entropy/l.Rows())
		}
		out.reference("", q.name, t)
	}
	return out, nil
}

// parted is the mixture with its first expert so many times with equal shares, of the features x and 1 without other
// intercepts.
func parted(truth *model.Params, parts int) *model.Params {
	p := model.NewParams(parts+1, 2)
	p.Sigma = make([]float64, p.K)
	for i := range p.K {
		of := 0
		if i == parts {
			of = 1
		} else {
			p.Gating[2*i] = truth.Gating[0]
			p.Gating[2*i+1] = truth.GatingIntercepts[0] - math.Log(float64(parts))
		}
		p.Regressors[2*i], p.Regressors[2*i+1] = truth.Regressors[of], truth.RegressorIntercepts[of]
		p.Sigma[i] = truth.Sigma[of]
	}
	return p
}

// lawOfLambda is the law as rows (x, 1, y) with weights, of which those of an x add up to 1.
func lawOfLambda(ctx context.Context, p *model.Params) (*model.Data, error) {
	const by, far = .045, 9.
	var xs, ys, weights []float64
	for i := range heldPoints {
		x := float64(i) / (heldPoints - 1)
		gate := logistic(p.GatingIntercepts[0] + p.Gating[0]*x)
		density := func(y float64) float64 {
			sum := 0.0
			for j, share := range []float64{gate, 1 - gate} {
				z := (y - p.RegressorIntercepts[j] - p.Regressors[j]*x) / p.Sigma[j]
				sum += share / p.Sigma[j] * math.Exp(-z*z/2) / math.Sqrt(2*math.Pi)
			}
			return sum
		}
		first := len(ys)
		for y := -25.; y <= 25; y += by {
			if w := by * density(y); w > math.Exp(-far*far/2) {
				xs, ys, weights = append(xs, x, 1), append(ys, y), append(weights, w)
			}
		}
		floats.Scale(1/floats.Sum(weights[first:]), weights[first:])
	}
	return weighted(ctx, xs, ys, weights)
}

// judgeHeld asks for powers of 8, 8, 4 and 4 within 5 %.
func judgeHeld(o *Outcome) Verdict {
	var measured, not []string
	for j, q := range crowded {
		c, want := o.computed(q.name), -1/claimed(j, 2)
		power := slope(c.X[:2], c.Y[:2])
		says := fmt.Sprintf("%s δ^%.2f", q.name, power)
		measured = append(measured, says)
		if !(math.Abs(power/want-1) <= .05) {
			not = append(not, fmt.Sprintf("%s, n^(−1/%.0f), where the source has n^(−1/%.0f)", says, power, want))
		}
	}
	v := Verdict{Agrees: len(not) == 0, Measured: "divergence " + strings.Join(measured, ", ")}
	if !v.Agrees {
		v.Because = "a bound need not be reached: " + strings.Join(not, "; ")
	}
	return v
}
