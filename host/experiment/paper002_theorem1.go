package experiment

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/tensor"
)

// landscape is Theorem 1: stationary points of the population L4.
func landscape(z size) *Figure {
	f := &Figure{
		ID: "002-T1", Title: "Stationary points of the population L4", Source: "002 Theorem 1",
		Claim:    "L4 has no spurious local minima: all minima are global, there (A†)ᵀ = P·D·Γ·A* with D close to 1, and every saddle has a direction of negative curvature.",
		Settings: fmt.Sprintf("Population L4, k = 3, d = 7, random unit regressors that are not orthogonal, proportions 0.5, 0.3, 0.2; μ = 0.004 and λ = 50, the bounds of Remark 2 with its c = 0.01, and ridge 0.001; %d random starts, descended by L-BFGS. Saddles: where the gradient is least along a gradient descent, and from there Newton's method on the gradient. E: the largest entry of (A†)ᵀ − PΓA*, and the same of A itself, which would do if the regressors were orthogonal.", 20*z.of(5, 20)),
		Columns:  []string{"starts", "distinct minima", "saddles met", "largest entry of E", "with A for (A†)ᵀ"}, measure: measurePoints,
		X: Axis{Label: "L4 above its minimum", Log: true}, Y: Axis{Label: "|least eigenvalue of the Hessian|", Log: true}, Scatter: true, judge: judgeLandscape,
	}
	for run := range z.of(5, 20) {
		f.units = append(f.units, unit{key: fmt.Sprintf("landscape run %d", run), run: func(ctx context.Context, seed uint64) (*output, error) {
			return landscapeRun(ctx, run, seed)
		}})
	}
	return f
}

const (
	seriesMinima  = "minima: eigenvalue > 0"
	seriesSaddles = "saddles: eigenvalue < 0"
	seriesPseudo  = "E of (A†)ᵀ"
	seriesDirect  = "E of A"
	seriesWhich   = "the minimum met"
	measurePoints = "points"
	measureE      = "E"
)

// landscapeMix is the mixture of the landscape: the same in all runs, only the
// starts differ.
func landscapeMix() (p []float64, regressors *mat.Dense) {
	const k, d = 3, 7
	rng := rand.New(rand.NewPCG(20, 1))
	regressors = mat.NewDense(k, d, nil)
	for i := range k {
		row := regressors.RawRowView(i)
		for j := range row {
			row[j] = rng.NormFloat64()
		}
		floats.Scale(1/floats.Norm(row, 2), row)
	}
	return []float64{0.5, 0.3, 0.2}, regressors
}

func landscapeRun(ctx context.Context, run int, seed uint64) (*output, error) {
	p, regress := landscapeMix()
	k, d := regress.Dims()
	t2, t4 := tensor.Population(p, regress)
	l := loss.NewL4(k, t2, t4, 0.004, 50, 1e-3)
	rng := rand.New(rand.NewPCG(seed, 2))
	minimum, err := lowest(ctx, l)
	if err != nil {
		return nil, err
	}
	minima, saddles, pseudo, direct, which := new(trace), new(trace), new(trace), new(trace), new(trace)
	for range 20 {
		x := make([]float64, l.Dim())
		for i := range x {
			x[i] = rng.NormFloat64() / math.Sqrt(float64(d))
		}
		best, err := optim.LBFGS(ctx, l, x, optim.Settings{Iterations: 5000, Tolerance: 1e-9})
		if err != nil {
			return nil, err
		}
		minima.add(max(best.Value-minimum, 1e-12), leastCurvature(ctx, l, best.X))
		a := mat.NewDense(k, d, best.X)
		rows, err := loss.PseudoInverseRows(mat.DenseCopyOf(a))
		if err != nil {
			return nil, err
		}
		start := float64(minima.n())
		e, labels := farthest(rows, p, regress)
		pseudo.add(start, e)
		which.add(start, labels)
		e, _ = farthest(a, p, regress)
		direct.add(start, e)
		for _, s := range plateaus(ctx, l, x) {
			if at, ok := stationary(ctx, l, s); ok {
				v, _ := l.Value(ctx, at)
				if v-minimum > 1e-6 {
					saddles.add(v-minimum, leastCurvature(ctx, l, at))
				}
			}
		}
	}
	out := new(output)
	out.add(measurePoints, seriesMinima, run, minima)
	if saddles.n() > 0 {
		out.add(measurePoints, seriesSaddles, run, saddles)
	}
	out.add(measureE, seriesPseudo, run, pseudo)
	out.add(measureE, seriesDirect, run, direct)
	out.add(measureE, seriesWhich, run, which)
	out.Rows = [][]string{{fmt.Sprintf("%d to %d", 20*run+1, 20*run+20), fmt.Sprint(distinct(which.y)), fmt.Sprint(saddles.n()), g2(worst(pseudo.y)), g2(worst(direct.y))}}
	return out, nil
}

// distinct counts the values that differ.
func distinct(v []float64) int { return len(slices.Compact(slices.Sorted(slices.Values(v)))) }

// lowest is the least value of L4 over 30 starts of its own.
func lowest(ctx context.Context, l *loss.L4) (float64, error) {
	rng := rand.New(rand.NewPCG(21, 1))
	value := math.Inf(1)
	for range 30 {
		x := make([]float64, l.Dim())
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		r, err := optim.LBFGS(ctx, l, x, optim.Settings{Iterations: 5000, Tolerance: 1e-9})
		if err != nil {
			return 0, err
		}
		value = min(value, r.Value)
	}
	return value, nil
}

// farthest is the largest entry of M − PΓA*, Γ = diag(√p), for the rows of M
// each with the sign and the regressor that suit it best, and a number that
// names these signs and regressors. The D of Theorem 1 is not freed: how far it
// is from 1 counts.
func farthest(m *mat.Dense, p []float64, regress *mat.Dense) (far, labels float64) {
	k, _ := regress.Dims()
	row := make([]float64, len(m.RawRowView(0)))
	for i := range k {
		best, label := math.Inf(1), 0
		for n := range 2 * k {
			sign := float64(1 - 2*(n%2))
			floats.AddScaledTo(row, m.RawRowView(i), -sign*math.Sqrt(p[n/2]), regress.RawRowView(n/2))
			if e := floats.Norm(row, math.Inf(1)); e < best {
				best, label = e, n
			}
		}
		far, labels = max(far, best), labels*float64(2*k)+float64(label)
	}
	return far, labels
}

// plateaus are the points of a gradient descent from x at which the gradient is
// smaller than at its neighbours in time.
func plateaus(ctx context.Context, l *loss.L4, x []float64) [][]float64 {
	x = slices.Clone(x)
	g := make([]float64, len(x))
	var out [][]float64
	var before []float64
	last, falling := math.Inf(1), false
	for range 6000 {
		if _, err := l.Grad(ctx, g, x); err != nil {
			return out
		}
		norm := floats.Norm(g, 2)
		if norm > last && falling {
			out = append(out, before)
		}
		falling, last, before = norm < last, norm, slices.Clone(x)
		floats.AddScaled(x, -2e-3/max(1, norm/50), g)
	}
	return out
}

// hessian is the Hessian of L4 by central differences of its gradient.
func hessian(ctx context.Context, l *loss.L4, x []float64) *mat.SymDense {
	const h = 1e-5
	n := len(x)
	up, down, x := make([]float64, n), make([]float64, n), slices.Clone(x)
	full := mat.NewDense(n, n, nil)
	for i := range n {
		v := x[i]
		x[i] = v + h
		_, _ = l.Grad(ctx, up, x)
		x[i] = v - h
		_, _ = l.Grad(ctx, down, x)
		x[i] = v
		for j := range n {
			full.Set(i, j, (up[j]-down[j])/(2*h))
		}
	}
	out := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			out.SetSym(i, j, (full.At(i, j)+full.At(j, i))/2)
		}
	}
	return out
}

func leastCurvature(ctx context.Context, l *loss.L4, x []float64) float64 {
	var eig mat.EigenSym
	if !eig.Factorize(hessian(ctx, l, x), false) {
		return math.NaN()
	}
	return eig.Values(nil)[0]
}

// stationary is Newton's method on the gradient from x: it finds saddles as it
// finds minima. It reports whether it arrived.
func stationary(ctx context.Context, l *loss.L4, x []float64) ([]float64, bool) {
	x = slices.Clone(x)
	g := make([]float64, len(x))
	for range 60 {
		if _, err := l.Grad(ctx, g, x); err != nil {
			return nil, false
		}
		if floats.Norm(g, 2) < 1e-8 {
			return x, true
		}
		var eig mat.EigenSym
		if !eig.Factorize(hessian(ctx, l, x), true) {
			return nil, false
		}
		var v mat.Dense
		eig.VectorsTo(&v)
		step := make([]float64, len(x))
		for i, e := range eig.Values(nil) {
			if math.Abs(e) > 1e-9 {
				u := mat.Col(nil, i, &v)
				floats.AddScaled(step, -floats.Dot(u, g)/e, u)
			}
		}
		if n := floats.Norm(step, 2); n > 0.3 {
			floats.Scale(0.3/n, step)
		}
		floats.Add(x, step)
	}
	return nil, false
}

func judgeLandscape(o *Outcome) Verdict {
	var above []float64
	for _, c := range o.Of(seriesMinima) {
		above = append(above, c.X...)
	}
	least, saddle := o.values(seriesMinima), o.values(seriesSaddles)
	pseudo, direct, which := o.beside(seriesPseudo), o.beside(seriesDirect), o.beside(seriesWhich)
	v := Verdict{Measured: fmt.Sprintf("%d of %d starts end within 1e−6 of the lowest value, at %d of the 48 minima that differ by order and signs, with least curvature %s; %d saddles met, the flattest of them with least curvature %s; largest entry of E %s, where A in place of (A†)ᵀ has %s",
		below(above, 1e-6), len(above), distinct(which), g2(slices.Min(least)), len(saddle), flattest(saddle), g2(worst(pseudo)), g2(slices.Min(direct)))}
	switch {
	case below(above, 1e-6) < len(above):
		v.Because = "a start ended in another minimum"
	case slices.Min(least) <= 0:
		v.Because = "a minimum is not strict"
	case distinct(which) < 2:
		v.Because = "all starts ended at the same minimum"
	case len(saddle) == 0:
		v.Because = "no saddle was met"
	case slices.Max(saddle) >= 0:
		v.Because = "a saddle without negative curvature was met"
	case worst(pseudo) > 0.01:
		v.Because = "the rows of (A†)ᵀ are not those of ΓA*"
	case slices.Min(direct) < 10*worst(pseudo):
		v.Because = "the rows of A itself are as close: this mixture does not tell them from those of (A†)ᵀ"
	default:
		v.Agrees = true
	}
	return v
}

func flattest(saddles []float64) string {
	if len(saddles) == 0 {
		return "(none)"
	}
	return g2(slices.Max(saddles))
}
