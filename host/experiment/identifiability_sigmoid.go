package experiment

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/gatedlearning/moe/internal/stream"
)

// The truth of the figure identifiability-sigmoid, σ(wx + c)·g(z_1) + σ(−wx − c)·g(z_2), a mixture of two
// under either gate, and the bound of a gate's parameters.
var sigmoidTruth = struct{ w, c, a1, b1, a2, b2, sigma float64 }{1.2, .4, 1.5, .5, -1, 1, .3}

const (
	sigmoidPoints, sigmoidStarts = 41, 2
	sigmoidBound, sigmoidMoved   = 4., .2
)

// sigmoidExperts are its activations.
var sigmoidExperts = []plainExpert{plainTanh, plainIdentity}

// sigmoidSeries names a line.
func sigmoidSeries(g, gate string) string { return g + ", " + gate }

// identifiabilitySigmoid is what one expert too many costs under sigmoid and softmax gates.
func identifiabilitySigmoid(z size) *Figure {
	ns, sets := []int64{1e4, 1e6, 1e8, 1e10}, z.of(6, 24)
	if z.quick {
		ns = []int64{1e6, 1e10}
	}
	t := sigmoidTruth
	f := &Figure{
		ID: "identifiability-sigmoid", Title: "One expert too many under sigmoid and softmax gates",
		Source: "arXiv 2405.13997 (Nguyen, Ho & Rinaldo)",
		Claim: "On one truth with one expert too many, least squares finds the experts at a faster rate under " +
			"sigmoid gates than under softmax gates, where gates have slopes.",
		Settings: fmt.Sprintf("The source's design could not be read; this one is ours. The mean σ(wx + c)·g(%gx "+
			"+ %g) + σ(−wx − c)·g(%gx + %g), w = %g and c = %g, is a mixture of two under sigmoid gates, Σ σ(w_ix "+
			"+ c_i)·g_i, and under a softmax gate. y has noise of %g at %d equidistant x in [−2, 2]; its means at "+
			"each are drawn, so that n may be large. Three are fitted by least squares from the truth, moved by "+
			"N(0, %g²), the better of %d starts: under the softmax gate the first in two parts of equal shares; "+
			"sigmoid gates with slopes do not add up to such a one, so that the third there is 0 with the gate of "+
			"the first. Gates' parameters are within ±%g. Errors √(Σ s_i|Δ_i|²) of all experts' slopes and "+
			"intercepts, the third's from 0 under sigmoid gates, with the means s_i of the gates' values. Powers "+
			"of n are of medians, with two standard errors. The rule: for each g the sigmoid's is below the "+
			"softmax's by two standard errors of the difference. Of lines σ_1g_1 = σ_1(g_1 − δ) + σ_1δ, and no "+
			"rate is to be expected of either.",
			t.a1, t.b1, t.a2, t.b2, t.w, t.c, t.sigma, sigmoidPoints, sigmoidMoved, sigmoidStarts, sigmoidBound),
		X: Axis{Label: "n", Log: true}, Y: Axis{Label: "error", Log: true}, measure: regressors, judge: judgeSigmoid,
	}
	for _, g := range sigmoidExperts {
		f.Views = append(f.Views, View{Title: g.name, Part: g.name, Y: f.Y})
	}
	f.units = unitsOverRows("identifiability sigmoid", ns, sets, sigmoidRun)
	return f
}

// sigmoidRun is a data set of each activation with its fits.
func sigmoidRun(_ context.Context, seed uint64, n int64, run int) (*output, error) {
	rng, out := stream.New(seed, stream.Study, 1), new(output)
	for _, g := range sigmoidExperts {
		y, t := make([]float64, sigmoidPoints), sigmoidTruth
		for i := range y {
			x := sigmoidX(i)
			s := logistic(t.w*x + t.c)
			y[i] = s*g.of(t.a1*x+t.b1) + (1-s)*g.of(t.a2*x+t.b2) +
				t.sigma*math.Sqrt(sigmoidPoints/float64(n))*rng.NormFloat64()
		}
		for _, soft := range []bool{false, true} {
			least, best := 0.0, math.Inf(1)
			for range sigmoidStarts {
				start := sigmoidStart(rng, soft)
				if at, sum := marquardt(sigmoidMean(soft, g.of), y, start); sum < best {
					least, best = sigmoidError(soft, at), sum
				}
			}
			gate := "sigmoid"
			if soft {
				gate = "softmax"
			}
			out.point(regressors, sigmoidSeries(g.name, gate), run, float64(n), least)
		}
	}
	return out, nil
}

// sigmoidX is the i-th x.
func sigmoidX(i int) float64 { return -2 + 4*float64(i)/(sigmoidPoints-1) }

// gateWithin takes a free parameter of a gate to within the bound, and gateFree takes it back.
func gateWithin(u float64) float64 { return sigmoidBound * math.Tanh(u/sigmoidBound) }
func gateFree(v float64) float64   { return sigmoidBound * math.Atanh(v/sigmoidBound) }

// sigmoidStart is three experts near the truth: w, c, a and b of each, the gates' free. The last of a softmax has no
// gate.
func sigmoidStart(rng *rand.Rand, soft bool) []float64 {
	t := sigmoidTruth
	p := []float64{
		gateFree(t.w), gateFree(t.c), t.a1, t.b1,
		gateFree(t.w), gateFree(t.c), 0, 0,
		gateFree(-t.w), gateFree(-t.c), t.a2, t.b2,
	}
	if soft {
		p[1] = gateFree(t.c - math.Ln2)
		copy(p[4:], p[:4])
	}
	for i := range p {
		p[i] += sigmoidMoved * rng.NormFloat64()
	}
	if soft {
		p[8], p[9] = 0, 0
	}
	return p
}

// sigmoidGates are the gates' values at x.
func sigmoidGates(soft bool, p []float64, x float64) (out [3]float64) {
	var sum float64
	for j := range out {
		u := gateWithin(p[4*j])*x + gateWithin(p[4*j+1])
		switch {
		case !soft:
			out[j] = logistic(u)
		case j == 2:
			out[j] = 1
		default:
			out[j] = math.Exp(u)
		}
		sum += out[j]
	}
	if soft {
		for j := range out {
			out[j] /= sum
		}
	}
	return out
}

// sigmoidMean is the mean of y as a function of the parameters.
func sigmoidMean(soft bool, g func(float64) float64) func(p, out []float64) {
	return func(p, out []float64) {
		for i := range out {
			x := sigmoidX(i)
			out[i] = 0
			for j, gate := range sigmoidGates(soft, p, x) {
				out[i] += gate * g(p[4*j+2]*x+p[4*j+3])
			}
		}
	}
}

// sigmoidError is that of the experts, weighted by their gates' means.
func sigmoidError(soft bool, p []float64) float64 {
	t := sigmoidTruth
	want := [3][2]float64{{t.a1, t.b1}, {0, 0}, {t.a2, t.b2}}
	if soft {
		want[1] = want[0]
	}
	var sum float64
	for i := range sigmoidPoints {
		for j, gate := range sigmoidGates(soft, p, sigmoidX(i)) {
			sum += gate / sigmoidPoints *
				(math.Pow(p[4*j+2]-want[j][0], 2) + math.Pow(p[4*j+3]-want[j][1], 2))
		}
	}
	return math.Sqrt(sum)
}

// judgeSigmoid asks for a smaller power of n under sigmoid gates.
func judgeSigmoid(o *Outcome) Verdict {
	var measured, not []string
	for _, g := range sigmoidExperts {
		a, sa := o.rate(sigmoidSeries(g.name, "sigmoid"))
		b, sb := o.rate(sigmoidSeries(g.name, "softmax"))
		_, ma := o.medians(sigmoidSeries(g.name, "sigmoid"))
		_, mb := o.medians(sigmoidSeries(g.name, "softmax"))
		measured = append(measured, fmt.Sprintf("%s %.2f ± %.2f under sigmoid gates, %.2f ± %.2f under softmax gates, "+
			"errors at the largest n %.2g and %.2g", g.name, a, 2*sa, b, 2*sb, ma[len(ma)-1], mb[len(mb)-1]))
		if !(b-a > 2*math.Hypot(sa, sb)) {
			not = append(not, g.name+" is not faster under sigmoid gates")
		}
	}
	return Verdict{Agrees: len(not) == 0, Because: strings.Join(not, "; "),
		Measured: "powers of n: " + strings.Join(measured, "; ")}
}
