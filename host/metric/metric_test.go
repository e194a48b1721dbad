package metric

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/combin"

	"github.com/gatedlearning/moe/host/model"
)

func random(k, d int, rng *rand.Rand) *model.Params {
	p := model.NewParams(k, d)
	for _, v := range [][]float64{p.Regressors, p.Gating} {
		for i := range v {
			v[i] = rng.NormFloat64()
		}
	}
	return p
}

func cosine(u, v []float64) float64 {
	return math.Abs(floats.Dot(u, v)) / (floats.Norm(u, 2) * floats.Norm(v, 2))
}

// The definition over all k! permutations.
func TestEregIsTheBestPermutation(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		k, d := 1+rng.IntN(5), 1+rng.IntN(6)
		est, truth := random(k, d, rng), random(k, d, rng)
		want := math.Inf(1)
		wantSum := math.Inf(1)
		for _, perm := range combin.Permutations(k, k) {
			worst, sum := 0.0, 0.0
			for i, j := range perm {
				apart := 1 - cosine(est.Regressor(i), truth.Regressor(j))
				worst = max(worst, apart)
				sum += apart
			}
			// 1e-12: ties of the worst in exact arithmetic differ by rounding.
			if worst < want-1e-12 || (worst < want+1e-12 && sum < wantSum) {
				want, wantSum = worst, sum
			}
		}
		got, perm := Ereg(est, truth)
		gotWorst, gotSum := 0.0, 0.0
		for i, j := range perm {
			apart := 1 - cosine(est.Regressor(i), truth.Regressor(j))
			gotWorst = max(gotWorst, apart)
			gotSum += apart
		}
		// Cosines are sums of at most six products of numbers near 1.
		const tol = 1e-12
		if math.Abs(got-want) > tol || math.Abs(gotWorst-want) > tol || math.Abs(gotSum-wantSum) > tol {
			t.Fatalf("k = %d, d = %d: E_reg %v by %v (worst %v, sum %v), want %v and sum %v", k, d, got, perm, gotWorst, gotSum, want, wantSum)
		}
	}
}

// Maximising the sum of cosines is another problem: here it would give up the
// worst row for the others.
func TestEregIsMaxMinNotMaxSum(t *testing.T) {
	angle := func(deg float64) []float64 {
		return []float64{math.Cos(deg * math.Pi / 180), math.Sin(deg * math.Pi / 180)}
	}
	est, truth := model.NewParams(2, 2), model.NewParams(2, 2)
	copy(truth.Regressor(0), angle(0))
	copy(truth.Regressor(1), angle(40))
	copy(est.Regressor(0), angle(40))
	copy(est.Regressor(1), angle(85))
	// 40→40, 85→0: cosines 1 and 0.087; 40→0, 85→40: 0.766 and 0.707.
	got, perm := Ereg(est, truth)
	if want := 1 - math.Cos(45*math.Pi/180); math.Abs(got-want) > 1e-15 || !slices.Equal(perm, []int{0, 1}) {
		t.Errorf("E_reg %v by %v, want %v by [0 1]", got, perm, want)
	}
}

// Order, signs and norms of the regressors are free; the gate follows the order.
func TestErrorsOfTheTruthItself(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 100 {
		k := 1 + rng.IntN(7)
		d := k + rng.IntN(5)
		truth := random(k, d, rng)
		truth.RegressorIntercepts, truth.GatingIntercepts = make([]float64, k), make([]float64, k-1)
		est := truth.Relabel(rng.Perm(k))
		for i := range k {
			floats.Scale(math.Copysign(1+rng.Float64(), rng.NormFloat64()), est.Regressor(i))
		}
		ereg, perm := Ereg(est, truth)
		// Half of squared norms of rounding errors of unit vectors.
		const tol = 1e-25
		if egating := Egating(est, truth, perm); ereg > tol || egating > tol {
			t.Fatalf("k = %d: E_reg %v, E_gating %v", k, ereg, egating)
		}
	}
}

func TestKnownErrors(t *testing.T) {
	truth := model.NewParams(2, 3)
	copy(truth.Regressors, []float64{1, 0, 0, 0, 1, 0})
	copy(truth.Gating, []float64{0, 0, 1})
	est := truth.Clone()
	// Expert 1 is off by the angle whose cosine is 0.6, the gate by one of 0.8.
	copy(est.Regressor(0), []float64{0.6, 0, 0.8})
	copy(est.Gate(0), []float64{0.6, 0, 0.8})
	ereg, perm := Ereg(est, truth)
	egating := Egating(est, truth, perm)
	if math.Abs(ereg-0.4) > 1e-15 || math.Abs(egating-0.2) > 1e-15 {
		t.Errorf("E_reg %v, want 0.4; E_gating %v, want 0.2", ereg, egating)
	}
	clear(est.Regressor(1))
	if ereg, _ := Ereg(est, truth); ereg != 1 {
		t.Errorf("a zero regressor: E_reg %v, want 1", ereg)
	}
}

func BenchmarkEreg(b *testing.B) {
	rng := rand.New(rand.NewPCG(4, 4))
	est, truth := random(20, 50, rng), random(20, 50, rng)
	for b.Loop() {
		Ereg(est, truth)
	}
}

// TestUnits: a network with its units in another order and w_1 moved by 0.3 is 0.3/‖W‖
// away; one whose units have changed signs of v is not matched by weights alone.
func TestUnits(t *testing.T) {
	truth := model.NewNetwork(3, 4)
	for i := range truth.K {
		truth.Unit(i)[i] = float64(i + 1)
		truth.Output[i] = 1
	}
	est := truth.Clone()
	for i, j := range []int{2, 0, 1} {
		copy(est.Unit(i), truth.Unit(j))
	}
	est.Unit(1)[3] = 0.3
	e := Units(est, truth, false)
	if want := 0.3 / math.Sqrt(14); math.Abs(e.Weights-want) > 1e-15 || e.Output != 0 || !slices.Equal(e.Perm, []int{2, 0, 1}) {
		t.Errorf("%+v, want weights %v", e, want)
	}
	if want := 1 - 1/math.Sqrt(1.09); math.Abs(e.Directions-want) > 1e-15 {
		t.Errorf("directions %v, want %v", e.Directions, want)
	}
	// Two units that nearly agree, told apart by v.
	truth, est = model.NewNetwork(2, 2), model.NewNetwork(2, 2)
	copy(truth.Weights, []float64{1, 0, 1, 0.1})
	copy(est.Weights, []float64{1, 0, 1, 0.1})
	copy(truth.Output, []float64{1, -1})
	copy(est.Output, []float64{-1, 1})
	if e := Units(est, truth, false); !slices.Equal(e.Perm, []int{1, 0}) || e.Output != 0 {
		t.Errorf("signs of v: %+v", e)
	}
	// Of an odd φ they are the same units turned around.
	for i := range est.Weights {
		est.Weights[i] *= -1
	}
	if e := Units(est, truth, true); e.Weights != 0 || e.Output != 0 {
		t.Errorf("odd φ: %+v", e)
	}
}

// TestUnitsIsTheBestPermutation: the definition over all permutations, of networks that
// have nothing to do with each other.
func TestUnitsIsTheBestPermutation(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	network := func(k, d int) *model.Network {
		n := model.NewNetwork(k, d)
		for i := range k {
			n.Output[i] = 2 * rng.NormFloat64()
			size := math.Exp(rng.NormFloat64()) // so that the norms in the cost tell
			for j := range n.Unit(i) {
				n.Unit(i)[j] = size * rng.NormFloat64()
			}
		}
		return n
	}
	for range 200 {
		k, d := 1+rng.IntN(4), 1+rng.IntN(4)
		est, truth := network(k, d), network(k, d)
		best := math.Inf(1)
		var want NetworkError
		for _, perm := range combin.Permutations(k, k) {
			var cost, w, v, directions float64
			for i, j := range perm {
				apart, dv, norm := floats.Distance(est.Unit(i), truth.Unit(j), 2), est.Output[i]-truth.Output[j], floats.Norm(truth.Unit(j), 2)
				cost += math.Pow(apart, 2) + math.Pow(dv*norm, 2)
				w += math.Pow(apart, 2)
				v += math.Pow(dv, 2)
				directions = max(directions, 1-cosine(est.Unit(i), truth.Unit(j)))
			}
			if cost < best {
				best = cost
				want = NetworkError{Weights: math.Sqrt(w) / floats.Norm(truth.Weights, 2), Output: math.Sqrt(v) / floats.Norm(truth.Output, 2), Directions: directions, Perm: perm}
			}
		}
		got := Units(est, truth, false)
		// Sums of a few terms, relative to their own size.
		near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-12*(1+math.Abs(b)) }
		if !slices.Equal(got.Perm, want.Perm) || !near(got.Weights, want.Weights) || !near(got.Output, want.Output) || !near(got.Directions, want.Directions) {
			t.Fatalf("k = %d, d = %d: %+v, want %+v", k, d, got, want)
		}
		// Units turned around, some of both networks, are the same ones of an odd φ.
		turned := est.Clone()
		for _, n := range []*model.Network{turned, truth} {
			for i := range k {
				if rng.IntN(2) == 0 {
					n.Output[i] *= -1
					floats.Scale(-1, n.Unit(i))
				}
			}
		}
		if e := Units(turned, est, true); e.Weights != 0 || e.Output != 0 {
			t.Fatalf("turned around: %+v", e)
		}
	}
}

// TestBottleneckForbids: a permutation with one entry above the level costs more than any
// without, were all others nothing.
func TestBottleneckForbids(t *testing.T) {
	for k := 2; k <= 8; k++ {
		cost := slices.Repeat([]float64{1}, k*k)
		for i := range k {
			cost[i*k+i] = 0.9 // all of these, for the sum of the others is far less
			cost[i*k+(i+1)%k] = 0
		}
		cost[(k-1)*k] = 0.95
		level, perm := bottleneck(k, cost)
		for i, j := range perm {
			if i != j || level != 0.9 {
				t.Fatalf("k = %d: level %v by %v, want 0.9 by the diagonal", k, level, perm)
			}
		}
	}
}
