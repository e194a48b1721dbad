package tensor_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/tensor"
)

// sumOf is Σ_i T(u_i,u_i,u_i,u_i) over the rows of u.
func sumOf(s *tensor.Sym4, u *mat.Dense) (sum float64) {
	m, _ := u.Dims()
	for i := range m {
		sum += contract4(s, u.RawRowView(i), u.RawRowView(i))
	}
	return sum
}

// TestOrthogonalIsTheBestStart: of a tensor that is no sum of orthogonal ones the rows that are
// returned are the best that its starts reach one by one, as many agree as come within 1e−6 of
// these, and no turn in the plane of two rows is better. The same in other units.
func TestOrthogonalIsTheBestStart(t *testing.T) {
	const m, starts = 4, 2
	first, last := false, false // is the better one
	for at := range uint64(12) {
		seed, skip := at/2, int(at%2) // the second start is the first of another run
		rng := rand.New(rand.NewPCG(seed, 31))
		s := tensor.NewSym4(m)
		for i := range s.Data {
			s.Data[i] = rng.NormFloat64()
		}
		var top *mat.Dense
		best, sums := math.Inf(-1), []float64(nil)
		stream := func() *rand.Rand {
			r := rand.New(rand.NewPCG(seed, 32))
			for range skip * m * m {
				r.NormFloat64()
			}
			return r
		}
		one := stream()
		for range starts {
			u, agreeing := s.Orthogonal(one, 1)
			if agreeing != 1 {
				t.Errorf("seed %d: %d of 1 start agree", seed, agreeing)
			}
			sum := sumOf(s, u)
			sums = append(sums, sum)
			if sum > best {
				top, best = u, sum
			}
		}
		want := 0
		for _, v := range sums {
			if best-v <= 1e-6*math.Abs(best) {
				want++
			}
		}
		first, last = first || sums[0]-sums[1] > 1e-3, last || sums[1]-sums[0] > 1e-3
		for _, unit := range []float64{1, 0x1p-20, 0x1p20} {
			scaled := tensor.NewSym4(m)
			copy(scaled.Data, s.Data)
			scaled.Scale(unit)
			u, agreeing := scaled.Orthogonal(stream(), starts)
			if got := sumOf(s, u); math.Abs(got-best) > 1e-12*math.Abs(best) || agreeing != want {
				t.Errorf("seed %d, unit %v: Σ T(u,u,u,u) = %v with %d starts, want %v with %d", seed, unit, got, agreeing, best, want)
			}
		}
		for i := range m {
			for j := range i {
				for step := 1; step < 32; step++ {
					sin, cos := math.Sincos(math.Pi * float64(step) / 32)
					turned := mat.DenseCopyOf(top)
					floats.AddScaledTo(turned.RawRowView(i), scaledBy(cos, top.RawRowView(i)), sin, top.RawRowView(j))
					floats.AddScaledTo(turned.RawRowView(j), scaledBy(cos, top.RawRowView(j)), -sin, top.RawRowView(i))
					if v := sumOf(s, turned); v > best+1e-9 {
						t.Fatalf("seed %d: a turn of rows %d and %d by %dπ/32 gives %v, more than %v", seed, i, j, step, v, best)
					}
				}
			}
		}
	}
	if !first || !last {
		t.Error("starts end in the same place, or always the same one is the better: the test says nothing of the other")
	}
	if _, agreeing := tensor.NewSym4(3).Orthogonal(rand.New(rand.NewPCG(1, 33)), 3); agreeing != 3 {
		t.Errorf("of zero: %d of 3 starts agree", agreeing)
	}
}

func scaledBy(c float64, v []float64) []float64 {
	return floats.ScaleTo(make([]float64, len(v)), c, v)
}

// TestPowerInOtherUnits: c·T has the vectors of T, c times its values and as many starts that
// agree; and of 0 every start is as good as another, and the vectors are unit vectors still.
func TestPowerInOtherUnits(t *testing.T) {
	const m, restarts = 4, 12
	apart := false
	for seed := range uint64(6) {
		s := tensor.NewSym3(m)
		for i := range m {
			v := make([]float64, m)
			v[i] = 1
			s.AddRankOne(float64(i+1), v)
		}
		want := s.Power(rand.New(rand.NewPCG(seed, 34)), restarts)
		apart = apart || want.Agreeing < restarts
		for _, unit := range []float64{0x1p-24, 0x1p24} {
			floats.Scale(unit, s.Data)
			got := s.Power(rand.New(rand.NewPCG(seed, 34)), restarts)
			floats.Scale(1/unit, s.Data)
			floats.Scale(1/unit, got.Values)
			if got.Agreeing != want.Agreeing || !mat.EqualApprox(got.Vectors, want.Vectors, 1e-12) || !floats.EqualApprox(got.Values, want.Values, 1e-12) {
				t.Errorf("seed %d, unit %v: %d starts agree and values are %v, want %d and %v", seed, unit, got.Agreeing, got.Values, want.Agreeing, want.Values)
			}
		}
	}
	if !apart {
		t.Error("all starts agree: the test says nothing of those that do not")
	}
	zero := tensor.NewSym3(m).Power(rand.New(rand.NewPCG(1, 34)), restarts)
	if zero.Agreeing != restarts {
		t.Errorf("of zero: %d of %d starts agree", zero.Agreeing, restarts)
	}
	for i := range m {
		if norm := floats.Norm(zero.Vectors.RawRowView(i), 2); math.Abs(norm-1) > 1e-12 {
			t.Errorf("of zero: vector %d has norm %v", i, norm)
		}
	}
}

// BenchmarkOrthogonal is one start on a tensor that is noise but for its diagonal.
func BenchmarkOrthogonal(b *testing.B) {
	for _, m := range []int{3, 10, 32} {
		b.Run(fmt.Sprintf("m=%d", m), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 34))
			s := tensor.NewSym4(m)
			for i := range s.Data {
				s.Data[i] = rng.NormFloat64()
			}
			for b.Loop() {
				s.Orthogonal(rand.New(rand.NewPCG(1, 35)), 1)
			}
		})
	}
}
