package loss

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

// anyDensity is the normal one, not known as such.
type anyDensity struct{ mixture.Gaussian }

// TestNoiseFloorOfEM: of data without noise, from the truth with a σ of 5 floors, every step
// of EM halves σ, and the third and all after it leave it at the floor: 1e−8 of the target's
// rms, with noise per expert 1e−3 of its standard deviation, each of a vector by its own
// coordinate.
func TestNoiseFloorOfEM(t *testing.T) {
	const n = 300
	for _, c := range []struct {
		name    string
		own     bool // noise of every expert
		density mixture.Density
	}{{"shared", false, nil}, {"per expert", true, nil}, {"shared, of any density", false, anyDensity{}}, {"per expert, of any density", true, anyDensity{}}} {
		rng := rand.New(rand.NewPCG(30, 10))
		p := randomParams(rng, 2, 3, 0, c.own)
		data := draw(rng, identity, p, n)
		for i := range p.Sigma {
			p.Sigma[i] = 5 * floorOf(data, 0, c.own)
		}
		l := NewLikelihoodOf(mixture.Mixture{Density: c.density}, data, identity, p, All, 1)
		var at []int
		for m := range p.Sigma {
			at = append(at, l.noise(m))
		}
		testNoiseFloor(t, c.name, l.EMStep, l.Theta(p), at, func(int) float64 { return floorOf(data, 0, c.own) })
	}
	for _, c := range []vectorCase{
		{"vector", identity, "2", 2, 3, 2, true, false, false}, {"vector, diagonal per expert", identity, "2", 2, 3, 2, false, true, true},
	} {
		rng := rand.New(rand.NewPCG(30, 11))
		p := c.params(rng, 0)
		for i := range p.Noise {
			clear(p.Noise[i].Lower)
		}
		data := drawVector(rng, c.act, p, n, false)
		for i := range p.Noise {
			for b := range p.Noise[i].Scale {
				p.Noise[i].Scale[b] = 5 * floorOf(data, b, c.own)
			}
		}
		l := NewVector(data, c.act, p, All, 1)
		var at []int
		var of []int // their coordinates
		for m := range p.Noise {
			for b := range c.m {
				at, of = append(at, l.noiseAt(m, b)), append(of, b)
			}
		}
		testNoiseFloor(t, c.name, l.EMStep, l.Theta(p), at, func(i int) float64 { return floorOf(data, of[i], c.own) })
	}
}

// floorOf is the least σ of a coordinate of the target, written out.
func floorOf(data *model.Data, coordinate int, own bool) float64 {
	var y, squares []float64
	for _, b := range data.Blocks {
		for _, v := range b.Y[coordinate*b.N : (coordinate+1)*b.N] {
			y, squares = append(y, v), append(squares, v*v)
		}
	}
	floor := 1e-8 * math.Sqrt(stat.Mean(squares, nil))
	if own {
		floor = max(floor, 1e-3*stat.PopStdDev(y, nil))
	}
	return floor
}

// testNoiseFloor takes six steps from θ, in which the noise levels stand at these places.
func testNoiseFloor(t *testing.T, name string, step func(context.Context, []float64, []float64) (float64, error), theta []float64, at []int, floor func(i int) float64) {
	t.Helper()
	next := make([]float64, len(theta))
	for it, factor := range []float64{5. / 2, 5. / 4, 1, 1, 1, 1} {
		if _, err := step(t.Context(), next, theta); err != nil {
			t.Fatalf("%s: step %d: %v", name, it+1, err)
		}
		for i, place := range at {
			// Rounding of a sum over the rows and of three logarithms and exponentials.
			if want := math.Log(factor * floor(i)); !(math.Abs(next[place]-want) <= 1e-12) {
				t.Errorf("%s: after step %d log σ of level %d is %v, want %v", name, it+1, i, next[place], want)
			}
		}
		copy(theta, next)
	}
}

// TestSpans: at the ends of its logarithm an own parameter of any density is one that it may be, to the last bit.
func TestSpans(t *testing.T) {
	for _, name := range mixture.Densities() {
		own := mixture.DensityOf(name).Own()
		for q, s := range spans(own, 0x1p-1000) {
			if low, high := math.Exp(s.least), math.Exp(s.most); low < own[q].Least || high > own[q].Most {
				t.Errorf("%s: %s goes from %v to %v, and may be from %v to %v", name, own[q].Name, low, high, own[q].Least, own[q].Most)
			}
		}
	}
}
