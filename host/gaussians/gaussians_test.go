package gaussians

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

func stream(i int) *rand.Rand { return rand.New(rand.NewPCG(3, uint64(i))) }

// drawn are n points of components with these means in the plane and standard deviation s.
func drawn(n int, s float64, means ...[2]float64) *mat.Dense {
	rng := stream(1 << 20)
	x := mat.NewDense(n, 2, nil)
	for i := range n {
		m := means[rng.IntN(len(means))]
		x.SetRow(i, []float64{m[0] + s*rng.NormFloat64(), m[1] + s*rng.NormFloat64()})
	}
	return x
}

// TestFit: the number of components is that which was drawn from, and their means are found within five standard
// errors.
func TestFit(t *testing.T) {
	const n, s = 3000, .3
	for _, means := range [][][2]float64{
		{{0, 0}},
		{{-1, 0}, {1, 0}},
		{{-1, -1}, {1, -1}, {0, 1}},
	} {
		m, err := Fit(t.Context(), drawn(n, s, means...), nil, 6, stream)
		if err != nil || m == nil {
			t.Fatal(m, err)
		}
		if len(m.Components) != len(means) {
			t.Errorf("%d components of %d", len(m.Components), len(means))
			continue
		}
		bound := 5 * s / math.Sqrt(n/float64(len(means)))
		for _, want := range means {
			near := math.Inf(1)
			for _, c := range m.Components {
				near = min(near, math.Hypot(c.Mean[0]-want[0], c.Mean[1]-want[1]))
			}
			if near > bound {
				t.Errorf("a component is %.3g from %v, want at most %.3g", near, want, bound)
			}
		}
	}
}

// TestFitWeights: rows of whole weights are that many rows.
func TestFitWeights(t *testing.T) {
	x := drawn(400, .3, [2]float64{-1, 0}, [2]float64{1, 0})
	weights, twice := make([]float64, 400), mat.NewDense(800, 2, nil)
	for i := range 400 {
		weights[i] = 2
		twice.SetRow(2*i, x.RawRowView(i))
		twice.SetRow(2*i+1, x.RawRowView(i))
	}
	p, q := newPoints(x, weights), newPoints(twice, nil)
	a, b := make([]float64, 800), make([]float64, 1600)
	for i := range 400 {
		share := 1 / (1 + math.Exp(-3*x.At(i, 0)))
		a[i], a[400+i] = share, 1-share
		for _, j := range []int{2 * i, 2*i + 1} {
			b[j], b[800+j] = share, 1-share
		}
	}
	m, o := p.maximised(a, 2), q.maximised(b, 2)
	for c := range 2 {
		if d := math.Abs(m.Components[c].Weight-o.Components[c].Weight) +
			math.Abs(m.Components[c].Mean[0]-o.Components[c].Mean[0]) +
			mat.Norm(difference(m.Components[c].Covariance, o.Components[c].Covariance), 2); d > 1e-12 {
			t.Errorf("component %d differs by %g", c, d)
		}
	}
}

func difference(a, b mat.Matrix) *mat.Dense {
	var out mat.Dense
	out.Sub(a, b)
	return &out
}

// TestFitBad: what cannot be told is not told: a constant column, fewer rows than parameters, components that come to
// one row, and a column of two values, whose components would have no width.
func TestFitBad(t *testing.T) {
	constant := drawn(500, 1, [2]float64{0, 0})
	binary := drawn(500, 1, [2]float64{0, 0})
	lonely := drawn(500, 1, [2]float64{0, 0})
	for i := range 500 {
		constant.Set(i, 1, 7)
		binary.Set(i, 1, float64(2*(i%2)-1))
	}
	lonely.SetRow(0, []float64{300, 300})
	for name, c := range map[string]struct {
		x    *mat.Dense
		want int // components; 0: no mixture
	}{
		"constant": {constant, 0}, "few": {drawn(5, 1, [2]float64{0, 0}), 0},
		"two values": {binary, 1}, "an outlier": {lonely, 1},
	} {
		m, err := Fit(t.Context(), c.x, nil, 600, stream)
		if err != nil {
			t.Fatal(err)
		}
		have := 0
		if m != nil {
			have = len(m.Components)
		}
		if name == "an outlier" && have > 1 {
			for _, one := range m.Components {
				if one.Weight*500 <= float64(Parameters(1, 2)) {
					t.Errorf("%s: a component of %.3g rows", name, one.Weight*500)
				}
			}
			continue
		}
		if have != c.want {
			t.Errorf("%s: %d components, want %d", name, have, c.want)
		}
	}
}

// TestLogDensity: the density and the posteriors are those of the formula, also where every component's density is
// below the smallest number.
func TestLogDensity(t *testing.T) {
	cov := []*mat.SymDense{mat.NewSymDense(2, []float64{2, .5, .5, 1}), mat.NewSymDense(2, []float64{1, 0, 0, 3})}
	m, ok := New([]float64{.3, .7}, [][]float64{{1, 0}, {-1, 2}}, cov)
	if !ok {
		t.Fatal("no mixture")
	}
	log := func(c int, x []float64) float64 {
		one := m.Components[c]
		off := mat.NewVecDense(2, []float64{x[0] - one.Mean[0], x[1] - one.Mean[1]})
		return math.Log(one.Weight) - math.Log(2*math.Pi) - math.Log(mat.Det(cov[c]))/2 - mat.Inner(off, one.Precision, off)/2
	}
	x := []float64{.2, 100, -.4, -80} // two points, column-major
	posterior := make([]float64, 4)
	logs := m.LogDensity(posterior, x, 2)
	for i := range 2 {
		at := []float64{x[i], x[2+i]}
		a, b := log(0, at), log(1, at)
		most := max(a, b)
		want := most + math.Log(math.Exp(a-most)+math.Exp(b-most))
		if math.Abs(logs[i]-want) > 1e-12*math.Abs(want) || math.Abs(posterior[i]-math.Exp(a-want)) > 1e-12 ||
			math.Abs(posterior[i]+posterior[2+i]-1) > 1e-12 {
			t.Errorf("point %v: log f %v, want %v; posterior %v", at, logs[i], want, posterior)
		}
	}
}

// TestThrough: the density of x = L⁻¹u + centre is that of u times det L.
func TestThrough(t *testing.T) {
	m, _ := New([]float64{.4, .6}, [][]float64{{1, 0}, {-1, 1}},
		[]*mat.SymDense{mat.NewSymDense(2, []float64{1, .2, .2, .5}), mat.NewSymDense(2, []float64{.7, 0, 0, 1})})
	inverse := mat.NewSymDense(2, []float64{2, .3, .3, 1})
	centre := []float64{5, -3}
	o, ok := m.Through(inverse, centre)
	if !ok {
		t.Fatal("no mixture")
	}
	u := []float64{.3, -.8}
	x := product(inverse, u)
	room := make([]float64, 2)
	a := m.LogDensity(room, u, 1)[0]
	b := o.LogDensity(room, []float64{x.AtVec(0) + 5, x.AtVec(1) - 3}, 1)[0]
	if d := a - math.Log(mat.Det(inverse)) - b; math.Abs(d) > 1e-12 {
		t.Errorf("off by %g", d)
	}
}
