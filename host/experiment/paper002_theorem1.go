package experiment

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/internal/stream"
)

// landscape is Theorem 1: stationary points of the population L4.
func landscape(z size) *Figure {
	m := landscapeMixture()
	f := &Figure{
		ID: "002-T1", Title: "Stationary points of the population L4", Source: "002 Theorem 1",
		Claim: "L4 has no spurious local minima: all minima are global, there (A†)ᵀ = P·D·Γ·A* with D close to 1, " +
			"and every saddle has a direction of negative curvature.",
		Settings: fmt.Sprintf("Population L4, k = 3, d = 7, random unit regressors that are not orthogonal, "+
			"proportions 0.5, 0.3, 0.2; μ = %g, λ = %g and ridge %.2g, the bounds of Remark 2 with its c = 0.01 and "+
			"ε₀ = %g. What of A lies outside the regressors' span enters L4 by the ridge alone and is 0 at every "+
			"stationary point, so that all is done in the span's nine coordinates; outside, the Hessian is the "+
			"ridge. %d random starts, descended by L-BFGS and Newton's method. Other stationary points: Newton's "+
			"method on the gradient, from the starts, and from where the gradient is least along gradient descents. "+
			"Two are distinct if a coordinate differs by more than 1e−5; up to order and signs, if value or least "+
			"curvature does. E: the largest entry of (A†)ᵀ − PΓA*, and the same of A itself, which would do if the "+
			"regressors were orthogonal. In the picture a spurious minimum would be a point of the lowest row "+
			"elsewhere than at 1, where the global ones are drawn.", m.mu, m.lambda, m.ridge, landscapeError,
			20*z.of(5, 20)),
		Columns: []string{"directions of descent", "points met", "distinct", "up to order and signs",
			"L4 above its minimum", "least curvature"}, measure: measurePoints,
		X: Axis{Label: "L4 above its minimum", Log: true}, Y: Axis{Label: "directions of descent"}, Scatter: true,
		judge: judgeLandscape, table: landscapeTable,
	}
	for run := range z.of(5, 20) {
		f.units = append(f.units, unit{key: fmt.Sprintf("landscape in the span, run %d", run),
			run: func(ctx context.Context, seed uint64) (*output, error) {
				return m.run(ctx, run, seed)
			}})
	}
	return f
}

const (
	seriesMinima  = "where descents end"
	seriesSaddles = "where Newton's method ends"
	seriesPseudo  = "E of (A†)ᵀ"
	seriesDirect  = "E of A"
	seriesWhich   = "the minimum met"
	seriesStrict  = "least curvature of a minimum"
	seriesFlat    = "least curvature of a saddle"
	seriesPoint   = "the saddle met"
	seriesHeight  = "height of a minimum"
	measurePoints = "points"
	measureE      = "E"

	landscapeError = 0.01 // ε₀, the E that Theorem 1 is to allow
	lowestHeight   = 1e-4 // up to which L4 is at its minimum, but for how descents end
	drawnMinimum   = 1    // where such heights are drawn
)

// landscapeMix is the mixture of the landscape, and L4's constants.
type landscapeMix struct {
	p                 []float64
	d                 int
	regressors        *mat.Dense // in coordinates of their span, k×k
	mu, lambda, ridge float64
	condition         float64 // of M = Σ p_i a_i⊗a_i
	gradient, tau     float64 // ε and τ of Theorem 1: the conditions of an approximate local minimum
}

// landscapeMixture is the same in all runs, only the starts differ.
func landscapeMixture() landscapeMix {
	rows := mat.NewDense(3, 7, nil)
	normalRows(rows, stream.New(20, stream.Study, 1), 0)
	return newLandscapeMix(rows)
}

// normalRows fills rows with e_i·axis + N(0, I), each to unit length.
func normalRows(rows *mat.Dense, rng *rand.Rand, axis float64) {
	k, _ := rows.Dims()
	for i := range k {
		row := rows.RawRowView(i)
		for j := range row {
			row[j] = rng.NormFloat64()
		}
		row[i] += axis
		floats.Scale(1/floats.Norm(row, 2), row)
	}
}

// newLandscapeMix has the rows as regressors. The constants are the bounds of 002 Remark 2, the ridge's with the larger
// condition number for its κ.
func newLandscapeMix(rows *mat.Dense) landscapeMix {
	const c = 0.01
	k, d := rows.Dims()
	var lq mat.LQ
	lq.Factorize(rows)
	var lower mat.Dense
	lq.LTo(&lower)
	m := landscapeMix{p: []float64{0.5, 0.3, 0.2}, d: d, regressors: mat.DenseCopyOf(lower.Slice(0, k, 0, k))}
	t2, _ := tensor.Population(m.p, m.regressors)
	var eig mat.EigenSym
	eig.Factorize(t2, false)
	values := eig.Values(nil)
	m.condition = values[k-1] / values[0]
	rare, frequent := slices.Min(m.p), slices.Max(m.p) // the remark's a_i* are 1/p_i
	m.mu, m.lambda = c*rare/frequent, frequent/c
	m.tau = c * min(m.mu*rare/(max(m.condition, frequent/rare)*float64(d)), m.lambda) * values[0]
	m.ridge = min(c*landscapeError*rare/(float64(k)*math.Sqrt(float64(d)*math.Sqrt(m.condition))), m.tau/2)
	m.gradient = min(m.lambda*math.Sqrt(values[0]), c*m.ridge/math.Sqrt(values[k-1]),
		c*landscapeError*m.ridge*values[0])
	return m
}

func (m landscapeMix) loss() *tensor.L4 {
	t2, t4 := tensor.Population(m.p, m.regressors)
	return tensor.NewL4(len(m.p), t2, t4, m.mu, m.lambda, m.ridge)
}

func (m landscapeMix) run(ctx context.Context, run int, seed uint64) (*output, error) {
	l, k := m.loss(), len(m.p)
	rng := stream.New(seed, stream.Study, 2)
	minimum, err := lowest(ctx, l)
	if err != nil {
		return nil, err
	}
	var minima, heights, saddles, pseudo, direct, which, least, flat, point trace
	for range 20 {
		x := make([]float64, l.Dim())
		for i := range x {
			x[i] = rng.NormFloat64() / math.Sqrt(float64(m.d))
		}
		best, err := optim.LBFGS(ctx, l, x, optim.Settings{Iterations: 5000, Tolerance: 1e-9})
		if err != nil {
			return nil, err
		}
		if at, ok := stationary(ctx, l, best.X); ok {
			best.X = at
		}
		v, _ := l.Value(ctx, best.X)
		lowest, down := curvature(ctx, l, best.X)
		start := float64(minima.n())
		height := v - minimum
		heights.add(start, height)
		if height <= lowestHeight {
			height = drawnMinimum
		}
		minima.add(height, float64(down))
		least.add(start, lowest)
		a := mat.NewDense(k, k, best.X)
		rows, err := tensor.PseudoInverseRows(mat.DenseCopyOf(a))
		if err != nil {
			return nil, err
		}
		e, labels := farthest(rows, m.p, m.regressors)
		pseudo.add(start, e)
		which.add(start, labels)
		e, _ = farthest(a, m.p, m.regressors)
		direct.add(start, e)
		for _, s := range append(plateaus(ctx, l, x), x) {
			at, ok := stationary(ctx, l, s)
			if !ok {
				continue
			}
			if v, _ := l.Value(ctx, at); v-minimum > lowestHeight {
				lowest, down := curvature(ctx, l, at)
				saddles.add(v-minimum, float64(down))
				flat.add(v-minimum, lowest)
				point.add(v-minimum, nameOf(at))
			}
		}
	}
	out := new(output)
	for _, c := range []struct {
		measure, series string
		of              *trace
	}{
		{measurePoints, seriesMinima, &minima}, {measurePoints, seriesSaddles, &saddles},
		{measureE, seriesPseudo, &pseudo}, {measureE, seriesDirect, &direct}, {measureE, seriesWhich, &which},
		{measureE, seriesStrict, &least}, {measureE, seriesFlat, &flat}, {measureE, seriesPoint, &point},
		{measureE, seriesHeight, &heights},
	} {
		if c.of.n() > 0 {
			out.add(c.measure, c.series, run, c.of)
		}
	}
	return out, nil
}

// nameOf is a number that tells points apart whose coordinates, to 1e−5, differ.
func nameOf(x []float64) float64 {
	h := fnv.New32a()
	for _, v := range x {
		fmt.Fprint(h, int(math.Round(v*1e5)), " ")
	}
	return float64(h.Sum32())
}

// stationaryPoint is a point that Newton's method ended at.
type stationaryPoint struct {
	height, least, name float64
	down                int // negative eigenvalues
}

// stationaryPoints are the saddles, and maxima, of all runs.
func stationaryPoints(o *Outcome) (all []stationaryPoint) {
	down, least, names := o.values(seriesSaddles), o.beside(seriesFlat), o.beside(seriesPoint)
	var heights []float64
	for _, c := range o.Of(seriesSaddles) {
		heights = append(heights, c.X...)
	}
	for i, height := range heights {
		all = append(all, stationaryPoint{height, least[i], names[i], int(down[i])})
	}
	return all
}

// kinds counts the points that differ, and those that differ by more than the order and
// the signs of their rows: by value or least curvature.
func kinds(points []stationaryPoint) (distinctPoints, orbits int) {
	var names, of []float64
	for _, s := range points {
		names = append(names, s.name)
		of = append(of, nameOf([]float64{math.Log(s.height), math.Log(math.Abs(s.least))}))
	}
	return distinct(names), distinct(of)
}

func landscapeTable(o *Outcome) (rows [][]string) {
	byDown := map[int][]stationaryPoint{}
	for _, s := range stationaryPoints(o) {
		byDown[s.down] = append(byDown[s.down], s)
	}
	least := o.beside(seriesStrict)
	rows = append(rows, []string{"0 (minima)", fmt.Sprint(len(least)), fmt.Sprint(distinct(o.beside(seriesWhich))), "1",
		"0", g2(slices.Min(least))})
	for _, down := range slices.Sorted(maps.Keys(byDown)) {
		points, orbits := kinds(byDown[down])
		var heights, flat []float64
		for _, s := range byDown[down] {
			heights, flat = append(heights, s.height), append(flat, s.least)
		}
		rows = append(rows, []string{fmt.Sprint(down), fmt.Sprint(len(byDown[down])), fmt.Sprint(points),
			fmt.Sprint(orbits),
			g2(slices.Min(heights)) + " to " + g2(slices.Max(heights)), g2(slices.Min(flat)) + " to " +
				g2(slices.Max(flat))})
	}
	return rows
}

// distinct counts the values that differ.
func distinct(v []float64) int { return len(slices.Compact(slices.Sorted(slices.Values(v)))) }

// lowest is the least value of L4 over 30 starts of its own.
func lowest(ctx context.Context, l *tensor.L4) (float64, error) {
	rng := stream.New(21, stream.Study, 1)
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
func plateaus(ctx context.Context, l *tensor.L4, x []float64) [][]float64 {
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

// hessian is the Hessian of L4 by differences of its gradient, which are exact but for
// rounding: the gradient is cubic.
func hessian(ctx context.Context, l *tensor.L4, x []float64) *mat.SymDense {
	n := len(x)
	g, x := make([]float64, n), slices.Clone(x)
	full := mat.NewDense(n, n, nil)
	for i := range n {
		v := x[i]
		for _, c := range []struct{ at, times float64 }{{-0.1, -8}, {0.1, 8}, {-0.2, 1}, {0.2, -1}} {
			x[i] = v + c.at
			_, _ = l.Grad(ctx, g, x)
			floats.AddScaled(full.RawRowView(i), c.times/1.2, g)
		}
		x[i] = v
	}
	out := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			out.SetSym(i, j, (full.At(i, j)+full.At(j, i))/2)
		}
	}
	return out
}

// eigenpairs are the eigenvalues of a symmetric matrix, the least first, with their unit vectors; false where they are
// not found.
func eigenpairs(m mat.Symmetric) (values []float64, vectors [][]float64, ok bool) {
	var eig mat.EigenSym
	if !eig.Factorize(m, true) {
		return nil, nil, false
	}
	var columns mat.Dense
	eig.VectorsTo(&columns)
	values = eig.Values(nil)
	for i := range values {
		vectors = append(vectors, mat.Col(nil, i, &columns))
	}
	return values, vectors, true
}

// curvature is the least eigenvalue of the Hessian, and how many are negative.
func curvature(ctx context.Context, l *tensor.L4, x []float64) (least float64, negative int) {
	var eig mat.EigenSym
	if !eig.Factorize(hessian(ctx, l, x), false) {
		return math.NaN(), 0
	}
	values := eig.Values(nil)
	return values[0], below(values, 0)
}

// stationary is Newton's method on the gradient from x: it finds saddles as it
// finds minima. It reports whether it arrived.
func stationary(ctx context.Context, l *tensor.L4, x []float64) ([]float64, bool) {
	x = slices.Clone(x)
	g := make([]float64, len(x))
	for range 60 {
		if _, err := l.Grad(ctx, g, x); err != nil {
			return nil, false
		}
		if floats.Norm(g, 2) < 1e-10 {
			return x, true
		}
		values, vectors, ok := eigenpairs(hessian(ctx, l, x))
		if !ok {
			return nil, false
		}
		step := make([]float64, len(x))
		for i, e := range values {
			if math.Abs(e) > 1e-9 {
				floats.AddScaled(step, -floats.Dot(vectors[i], g)/e, vectors[i])
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
	var flat []float64
	above, met := o.beside(seriesHeight), stationaryPoints(o)
	for _, s := range met {
		flat = append(flat, s.least)
	}
	points, orbits := kinds(met)
	least := o.beside(seriesStrict)
	pseudo, direct, which := o.beside(seriesPseudo), o.beside(seriesDirect), o.beside(seriesWhich)
	v := Verdict{Measured: fmt.Sprintf("%d of %d starts end within 1e−4 of the lowest value, at %d of the 48 minima "+
		"that differ by order and signs, with least curvature %s in the span; %d other stationary points, %d up to "+
		"order and signs, the flattest of them with least curvature %s; largest entry of E %s, where A in place of "+
		"(A†)ᵀ has %s",
		below(above, lowestHeight), len(above), distinct(which), g2(slices.Min(least)), points, orbits, flattest(flat),
		g2(worst(pseudo)), g2(slices.Min(direct)))}
	switch {
	case below(above, lowestHeight) < len(above):
		v.Because = "a start ended in another minimum"
	case slices.Min(least) <= 0:
		v.Because = "a minimum is not strict"
	case distinct(which) < 2:
		v.Because = "all starts ended at the same minimum"
	case len(met) == 0:
		v.Because = "no saddle was met"
	case slices.Max(flat) >= 0:
		v.Because = "a saddle without negative curvature was met"
	case worst(pseudo) > landscapeError:
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
