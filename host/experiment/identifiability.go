package experiment

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/internal/stream"
)

// The truth of the figure identifiability, one expert, and the bounds within which a fit of two counts as near.
const (
	aloneSlope, aloneIntercept, aloneSigma = 1.5, .5, .3

	alonePoints, aloneReach = 41, 2.
	aloneMoved, aloneStarts = .25, 8
	aloneNear, aloneGate    = 3., 10.

	aloneFrom = 1e7 // rows from which on powers are taken
)

// The ways to estimate in the figure identifiability.
const (
	bySquares = "least squares"
	byKnown   = "likelihood, σ known"
	byFree    = "likelihood, σ estimated"
)

// plainExpert is an activation by its name, and as a function.
type plainExpert struct {
	name string
	of   func(float64) float64
}

var (
	plainTanh     = plainExpert{"tanh", math.Tanh}
	plainIdentity = plainExpert{"identity", func(z float64) float64 { return z }}
)

// aloneExperts are the activations of the figure identifiability.
var aloneExperts = []plainExpert{plainTanh, {"sigmoid", logistic}, plainIdentity}

// aloneSeries is the errors of an activation by a way to estimate.
func aloneSeries(g, way string) string { return g + ", " + way }

// identifiability is what one expert too many costs by squares and by the likelihood.
func identifiability(z size) *Figure {
	ns, sets := []int64{1e6, 1e7, 1e8, 1e9, 1e10}, z.of(8, 48)
	if z.quick {
		ns = []int64{1e7, 1e9}
	}
	f := &Figure{
		ID: "identifiability", Title: "One expert too many: what g and σ have to do with it",
		Source: "arXiv 2402.02952 (Nguyen, Ho & Rinaldo), of least squares; arXiv 2305.03288, of the likelihood",
		Claim: "One expert too many costs no more than n^(−1/4) where g is strongly identifiable, as tanh and the " +
			"sigmoid are, and more than any power of n by least squares where it is linear. By the likelihood lines " +
			"have n^(−1/4) with σ known; estimating σ makes them slower, since ∂²f/∂m² = 2∂f/∂σ².",
		Settings: fmt.Sprintf("Of the sources' designs only those of lines could be read; this one is ours. One "+
			"expert, y = g(%gx + %g) + %g·N(0,1), at %d equidistant x in [−%g, %g]; two are fitted, with a gate "+
			"and intercepts. y is a multiple of σ/2, where normal densities still add up to 1 but for rounding: "+
			"so rows are counts and n may be larger than anybody's. %d starts a data set, slopes and intercepts "+
			"moved by N(0, %g²), the gate's by N(0, .5²); the best local optimum that is near, with an error "+
			"below %g and a gate below %g. Data sets without one are left out. Least squares of the means by the "+
			"method of Levenberg and Marquardt: under equal gates two lines with Σ s_iΔ_i = 0 have the mean of "+
			"one exactly; the likelihood by EM and Newton's method. Errors √(Σ s_i|Δ_i|²) of slopes and "+
			"intercepts, weighted by the shares s_i of the rows. Powers of n are of medians from n = 1e7 on, "+
			"where errors are small, with two standard errors. The rule: of tanh, the sigmoid, and lines with σ "+
			"known none is above −.25 by more than these; that of lines by least squares is at least −.05; of "+
			"lines with σ estimated it is above that with σ known by two standard errors of the difference. All "+
			"are rates at one truth, which may be faster than those of the worst.",
			aloneSlope, aloneIntercept, aloneSigma, alonePoints, aloneReach, aloneReach, aloneStarts, aloneMoved,
			aloneNear, aloneGate),
		X: Axis{Label: "n", Log: true}, Y: Axis{Label: "error", Log: true}, measure: regressors,
		Errors: true, judge: judgeAlone,
	}
	for _, g := range aloneExperts {
		f.Views = append(f.Views, View{Title: g.name, Part: g.name, Y: f.Y})
	}
	f.units = unitsOverRows("identifiability", ns, sets, aloneRun)
	return f
}

// aloneRun is a data set of each activation with its fits.
func aloneRun(ctx context.Context, seed uint64, n int64, run int) (*output, error) {
	rng, out := stream.New(seed, stream.Study, 1), new(output)
	for _, g := range aloneExperts {
		act, err := setting{mixture: mixture{g: g.name}}.activation(ctx)
		if err != nil {
			return nil, err
		}
		truth := model.NewParams(1, 1)
		truth.Regressors[0], truth.RegressorIntercepts = aloneSlope, []float64{aloneIntercept}
		truth.Sigma[0] = aloneSigma
		law, err := latticeOf(ctx, act, truth, alonePoints, -aloneReach, aloneReach, aloneSigma/2)
		if err != nil {
			return nil, err
		}
		data, err := law.draw(ctx, rng, n)
		if err != nil {
			return nil, err
		}
		starts := make([]*model.Params, aloneStarts)
		for i := range starts {
			starts[i] = aloneStart(rng)
		}
		add := func(way string, error float64) {
			if math.IsInf(error, 1) {
				out.point(left, aloneSeries(g.name, way), run, float64(n), 1)
				return
			}
			out.point(regressors, aloneSeries(g.name, way), run, float64(n), error)
		}
		add(bySquares, aloneSquares(law, g.of, data, starts))
		for _, way := range []string{byKnown, byFree} {
			e, err := aloneLikelihood(ctx, act, law, data, starts, way == byFree)
			if err != nil {
				return nil, err
			}
			add(way, e)
		}
	}
	return out, nil
}

// aloneStart is two experts near the truth.
func aloneStart(rng *rand.Rand) *model.Params {
	p := model.NewParams(2, 1)
	p.Sigma[0] = aloneSigma
	p.Gating[0], p.GatingIntercepts = rng.NormFloat64()/2, []float64{rng.NormFloat64() / 2}
	p.RegressorIntercepts = make([]float64, 2)
	for i := range p.K {
		p.Regressors[i] = aloneSlope + aloneMoved*rng.NormFloat64()
		p.RegressorIntercepts[i] = aloneIntercept + aloneMoved*rng.NormFloat64()
	}
	return p
}

// aloneError is √(Σ s_i·|(a_i, b_i) − (a, b)|²) with the shares s_i of the rows; +∞ where p has left.
func aloneError(p *model.Params, x []float64) float64 {
	var first, sum float64
	for _, v := range x {
		first += logistic(p.Gating[0]*v+p.GatingIntercepts[0]) / float64(len(x))
	}
	for i, share := range []float64{first, 1 - first} {
		sum += share * (math.Pow(p.Regressors[i]-aloneSlope, 2) + math.Pow(p.RegressorIntercepts[i]-aloneIntercept, 2))
	}
	if e := math.Sqrt(sum); e < aloneNear && math.Hypot(p.Gating[0], p.GatingIntercepts[0]) < aloneGate {
		return e
	}
	return math.Inf(1)
}

// aloneLikelihood is the error of the best local maximum of the likelihood that is near.
func aloneLikelihood(ctx context.Context, act model.Activation, law *lattice, data *model.Data, starts []*model.Params,
	free bool) (float64, error) {
	varies := loss.All
	varies.Sigma = free
	least, value := math.Inf(1), math.Inf(1)
	for _, p := range starts {
		l := loss.NewLikelihood(data, act, p, varies, 1)
		climbed, err := climb.Climb(ctx, l, l.Theta(p), nil)
		if err != nil {
			return 0, err
		}
		r, err := optim.Newton(ctx, l, climbed.X, optim.Settings{Iterations: 100, Tolerance: 1e-14})
		if err != nil {
			return 0, err
		}
		if e := aloneError(l.Params(r.X), law.x); !math.IsInf(e, 1) && r.Value < value {
			least, value = e, r.Value
		}
	}
	return least, nil
}

// aloneSquares is the error of the best local minimum of the squared loss that is near, from the means of y at each x.
func aloneSquares(law *lattice, g func(float64) float64, data *model.Data, starts []*model.Params) float64 {
	mean, weight := make([]float64, len(law.x)), make([]float64, len(law.x))
	step := (law.x[len(law.x)-1] - law.x[0]) / float64(len(law.x)-1)
	for _, b := range data.Blocks {
		for r := range b.N {
			i := int(math.Round((b.X[r] - law.x[0]) / step))
			mean[i] += b.Role[model.Weights][r] * b.Y[r]
			weight[i] += b.Role[model.Weights][r]
		}
	}
	for i := range mean {
		mean[i] /= weight[i]
	}
	params := func(t []float64) *model.Params {
		p := model.NewParams(2, 1)
		p.Gating[0], p.GatingIntercepts, p.Regressors, p.RegressorIntercepts = t[0], t[1:2], t[2:4], t[4:6]
		return p
	}
	least, value := math.Inf(1), math.Inf(1)
	for _, p := range starts {
		at, sum := marquardt(func(t, out []float64) {
			for i, x := range law.x {
				s := logistic(t[0]*x + t[1])
				out[i] = s*g(t[2]*x+t[4]) + (1-s)*g(t[3]*x+t[5])
			}
		}, mean, []float64{p.Gating[0], p.GatingIntercepts[0], p.Regressors[0], p.Regressors[1],
			p.RegressorIntercepts[0], p.RegressorIntercepts[1]})
		if e := aloneError(params(at), law.x); !math.IsInf(e, 1) && sum < value {
			least, value = e, sum
		}
	}
	return least
}

// judgeAlone asks for powers of n from aloneFrom on.
func judgeAlone(o *Outcome) Verdict {
	const bound, none = -.25, -.05
	var measured, not []string
	type rate struct{ power, se float64 }
	of := map[string]rate{}
	for _, g := range aloneExperts {
		for _, way := range []string{bySquares, byKnown, byFree} {
			series := aloneSeries(g.name, way)
			power, se := o.rateFrom(series, aloneFrom)
			of[series] = rate{power, se}
			says := fmt.Sprintf("%s %.2f ± %.2f", series, power, 2*se)
			measured = append(measured, says)
			if (g.name != "identity" || way == byKnown) && !(power-2*se <= bound) {
				not = append(not, says+" is slower than n^(−1/4)")
			}
		}
	}
	if r := of[aloneSeries("identity", bySquares)]; !(r.power >= none) {
		not = append(not, fmt.Sprintf("lines by least squares fall like n^%.2f ± %.2f", r.power, 2*r.se))
	}
	known, free := of[aloneSeries("identity", byKnown)], of[aloneSeries("identity", byFree)]
	if !(free.power-known.power > 2*math.Hypot(free.se, known.se)) {
		not = append(not, "lines are not slower with σ estimated")
	}
	v := Verdict{Agrees: len(not) == 0, Because: strings.Join(not, "; ")}
	last := func(way string) float64 {
		_, m := o.medians(aloneSeries("identity", way))
		return m[len(m)-1]
	}
	v.Measured = fmt.Sprintf("powers of n: %s; at the largest n estimating σ costs lines %.1f times the error; no "+
		"optimum near in %d fits", strings.Join(measured, "; "), last(byFree)/last(byKnown), strayed(o))
	return v
}

// strayed counts the fits of the figure identifiability without an optimum near.
func strayed(o *Outcome) (count int) {
	for _, c := range o.aside {
		if c.Measure == left {
			count++
		}
	}
	return count
}
