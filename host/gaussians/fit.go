package gaussians

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Limits of an estimate.
const (
	starts    = 2    // of EM for each number of components
	mostSteps = 60   // of EM from each
	tolerance = 1e-4 // of the mean log-likelihood in a step
	ridge     = 1e-6 // on covariances, of points with covariance I
	thinnest  = 1e-3 // least variance of a component in any direction, of points with covariance I
	patience  = 2    // numbers of components without a gain in BIC after which no more are tried
)

// Parameters counts those of a mixture of so many components over d features.
func Parameters(components, d int) int { return components*(1+d+d*(d+1)/2) - 1 }

// Fit estimates a mixture of at most so many components from the rows of x, n×d, whose covariance is about I, with
// weights or nil: EM from k-means++ starts for each number of components, of which the one with the least BIC is
// returned. A component has to have more rows than parameters of its own, and a variance that is not next to nothing
// in any direction, or its number of components does not stand. It is nil where not even one does. rng makes the
// generator of start i.
func Fit(ctx context.Context, x *mat.Dense, weights []float64, most int, rng func(i int) *rand.Rand) (*Mixture, error) {
	n, d := x.Dims()
	points := newPoints(x, weights)
	var best *Mixture
	least, behind := math.Inf(1), 0
	for components := 1; components <= most && behind < patience; components++ {
		if Parameters(components, d) >= n {
			break
		}
		var found *Mixture
		value := math.Inf(-1)
		for s := range starts {
			if s > 0 && components == 1 {
				break
			}
			m, v, err := points.climb(ctx, points.begin(components, rng(components*starts+s)))
			if err != nil {
				return nil, err
			}
			if m != nil && v > value {
				found, value = m, v
			}
		}
		if found == nil {
			behind++
			continue
		}
		bic := -2*value*points.total + float64(Parameters(components, d))*math.Log(points.total)
		if bic < least {
			best, least, behind = found, bic, 0
		} else {
			behind++
		}
	}
	return best, nil
}

// Refine takes at most so many steps of EM from m on the rows of x; it is m where they lead to no mixture.
func (m *Mixture) Refine(ctx context.Context, x *mat.Dense, weights []float64, steps int) (*Mixture, error) {
	p := newPoints(x, weights)
	for range steps {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		posterior, _ := p.expected(m)
		next := p.maximised(posterior, len(m.Components))
		if next == nil {
			return m, nil
		}
		m = next
	}
	return m, nil
}

// points are the rows of a table as columns, with their weights.
type points struct {
	n, d    int
	columns *mat.Dense // d×n
	weights []float64
	total   float64
}

func newPoints(x *mat.Dense, weights []float64) *points {
	n, d := x.Dims()
	p := &points{n: n, d: d, columns: mat.DenseCopyOf(x.T()), weights: weights}
	if weights == nil {
		p.weights = make([]float64, n)
		floats.AddConst(1, p.weights)
	}
	p.total = floats.Sum(p.weights)
	return p
}

// climb is EM from posteriors, and the mean log-likelihood that it reaches; nil where a component comes to nothing.
func (p *points) climb(ctx context.Context, posterior []float64) (*Mixture, float64, error) {
	components := len(posterior) / p.n
	before := math.Inf(-1)
	m := p.maximised(posterior, components)
	for range mostSteps {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		if m == nil {
			return nil, 0, nil
		}
		var value float64
		posterior, value = p.expected(m)
		if value-before < tolerance {
			return m, value, nil
		}
		before = value
		m = p.maximised(posterior, components)
	}
	return m, before, nil
}

// expected are the posteriors under m, and the mean log-likelihood.
func (p *points) expected(m *Mixture) (posterior []float64, value float64) {
	posterior = make([]float64, len(m.Components)*p.n)
	logs := m.LogDensity(posterior, p.columns.RawMatrix().Data, p.n)
	return posterior, floats.Dot(logs, p.weights) / p.total
}

// maximised is the mixture of these posteriors; nil where a component comes to nothing.
func (p *points) maximised(posterior []float64, components int) *Mixture {
	var weights []float64
	var means [][]float64
	var covariances []*mat.SymDense
	for c := range components {
		w := make([]float64, p.n)
		floats.MulTo(w, posterior[c*p.n:(c+1)*p.n], p.weights)
		sum := floats.Sum(w)
		if sum/p.total*float64(p.n) <= float64(Parameters(1, p.d)) {
			return nil
		}
		mean := make([]float64, p.d)
		off := mat.DenseCopyOf(p.columns)
		root := make([]float64, p.n)
		for i, v := range w {
			root[i] = math.Sqrt(v / sum)
		}
		for j := range mean {
			row := off.RawRowView(j)
			mean[j] = floats.Dot(row, w) / sum
			floats.AddConst(-mean[j], row)
			floats.Mul(row, root)
		}
		covariance := mat.NewSymDense(p.d, nil)
		covariance.SymOuterK(1, off)
		for j := range mean {
			covariance.SetSym(j, j, covariance.At(j, j)+ridge)
		}
		var eig mat.EigenSym
		if !eig.Factorize(covariance, false) || eig.Values(nil)[0] < thinnest {
			return nil
		}
		weights, means, covariances = append(weights, sum/p.total), append(means, mean), append(covariances, covariance)
	}
	m, ok := New(weights, means, covariances)
	if !ok {
		return nil
	}
	return m
}

// begin deals the points to components: k-means++ centres, and some of Lloyd's iterations.
func (p *points) begin(components int, rng *rand.Rand) []float64 {
	const rounds = 10
	near := make([]float64, p.n)
	for i := range near {
		near[i] = math.Inf(1)
	}
	at := func(i int) []float64 { return mat.Col(nil, i, p.columns) }
	distances := func(centre []float64) []float64 {
		out := make([]float64, p.n)
		for j, v := range centre {
			for i, x := range p.columns.RawRowView(j) {
				out[i] += (x - v) * (x - v)
			}
		}
		return out
	}
	centres := [][]float64{at(rng.IntN(p.n))}
	for len(centres) < components {
		for i, v := range distances(centres[len(centres)-1]) {
			near[i] = min(near[i], v)
		}
		pick, u := 0, rng.Float64()*floats.Sum(near)
		for ; pick < p.n-1 && u >= near[pick]; pick++ {
			u -= near[pick]
		}
		centres = append(centres, at(pick))
	}
	posterior := make([]float64, components*p.n)
	for range rounds {
		clear(posterior)
		least, label := make([]float64, p.n), make([]int, p.n)
		for c, centre := range centres {
			for i, v := range distances(centre) {
				if c == 0 || v < least[i] {
					least[i], label[i] = v, c
				}
			}
		}
		for i, c := range label {
			posterior[c*p.n+i] = 1
		}
		for c := range centres {
			mine := posterior[c*p.n : (c+1)*p.n]
			count := max(floats.Sum(mine), 1)
			for j := range centres[c] {
				centres[c][j] = floats.Dot(mine, p.columns.RawRowView(j)) / count
			}
		}
	}
	return posterior
}
