package tensor_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
)

// weighted is the data with weights 1, 2 and 3 in turn.
func weighted(data *model.Data) *model.Data {
	out := &model.Data{N: data.N, D: data.D}
	for _, b := range data.Blocks {
		b.Role[model.Weights] = make([]float64, b.N)
		for i := range b.Role[model.Weights] {
			b.Role[model.Weights][i] = float64(1 + i%3)
		}
		out.Blocks = append(out.Blocks, b)
	}
	return out
}

// TestTransformedIsPowers: with the polynomials as outputs the sums of orders 2 and 4
// give what those over powers of y give, about a centre, on a subspace, and with
// weights; merged halves give the whole.
func TestTransformedIsPowers(t *testing.T) {
	p := draw(t, relu.Family, 2, 5, 3000, 3)
	q := p.transform
	rng := rand.New(rand.NewPCG(4, 4))
	basis, centre := mat.NewDense(5, 3, randomRows(rng, 5, 3)), randomRows(rng, 1, 5)
	for _, data := range []*model.Data{p.data, weighted(p.data)} {
		second, err := tensor.SumSecond(t.Context(), data, 2)
		if err != nil {
			t.Fatal(err)
		}
		fourth, err := tensor.SumFourth(t.Context(), data, basis, centre, 2)
		if err != nil {
			t.Fatal(err)
		}
		sums := func(order int, u *mat.Dense) *tensor.Transformed {
			s, err := tensor.SumTransformed(t.Context(), data, q, order, u, centre, 2)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		got2, want2 := sums(2, nil).T2(), second.T2(q.Delta, centre)
		want2.ScaleSym(1/q.C2, want2)
		if !mat.EqualApprox(got2, want2, 1e-10) {
			t.Errorf("T2\n%v, want\n%v", mat.Formatted(got2), mat.Formatted(want2))
		}
		var inner mat.Dense // on the subspace: Uᵀ·T2·U
		inner.Product(basis.T(), want2, basis)
		if got := sums(2, basis).T2(); !mat.EqualApprox(got, &inner, 1e-10) {
			t.Errorf("T2 on a subspace\n%v, want\n%v", mat.Formatted(got), mat.Formatted(&inner))
		}
		got4, want4 := sums(4, basis).T4(), fourth.T4(q)
		want4.Scale(1 / q.C4)
		if !floats.EqualApprox(got4.Data, want4.Data, 1e-9) {
			t.Errorf("T4 %v, want %v", got4.Data, want4.Data)
		}
		whole := sums(3, basis)
		half := tensor.NewTransformed(q, 3, 5, basis, centre)
		other := tensor.NewTransformed(q, 3, 5, basis, centre)
		var w tensor.Scratch
		for i := range data.Blocks {
			to := half
			if i%2 == 1 {
				to = other
			}
			to.Add(&data.Blocks[i], &w)
		}
		half.Merge(other)
		if half.N != whole.N || !floats.EqualApprox(half.T3().Data, whole.T3().Data, 1e-11) {
			t.Errorf("merged %v, want %v", half.T3().Data, whole.T3().Data)
		}
	}
}

// TestThird: T̂3 row by row as 001 defines it, mean[(T(y) − mean T)·S3(x)] with all 27
// entries of S3, by the polynomial and by the transform of minimum variance.
func TestThird(t *testing.T) {
	const d = 3
	p := draw(t, relu.Family, 1, d, 700, 5)
	for _, out := range outputsOf(t, relu.Family, .05, 2) {
		var mean float64
		v := make([]float64, 1)
		value := func(y float64) float64 { out.Apply(3, v, []float64{y}); return v[0] }
		p.rows(func(_ []float64, y float64) { mean += value(y) / float64(p.data.N) })
		want := make([]float64, d*d*d)
		p.rows(func(x []float64, y float64) {
			for a := range d {
				for b := range d {
					for c := range d {
						s := x[a] * x[b] * x[c]
						if b == c {
							s -= x[a]
						}
						if a == c {
							s -= x[b]
						}
						if a == b {
							s -= x[c]
						}
						want[(a*d+b)*d+c] += (value(y) - mean) * s / float64(p.data.N)
					}
				}
			}
		})
		sums, err := tensor.SumTransformed(t.Context(), p.data, out, 3, nil, nil, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := sums.T3().Full(); !floats.EqualApprox(got, want, 1e-10) {
			t.Errorf("%T: %v, want %v", out, got, want)
		}
	}
}

// outputsOf are the polynomials and the transforms of minimum variance.
func outputsOf(t testing.TB, f sdk.Family, sigma float64, k int) []solver.Outputs {
	t.Helper()
	act, err := f.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := sdk.MomentsOf(t.Context(), act)
	if err != nil {
		t.Fatal(err)
	}
	q, _ := solver.Solve(m, m.System(sigma), sigma)
	o, err := solver.NewOptimal(t.Context(), act, sigma, k)
	if err != nil {
		t.Fatal(err)
	}
	return []solver.Outputs{q, o}
}

// TestTensorsOfAnyTransformAreUnbiased: with a gate, T̂2, T̂3 and T̂4 by either
// transform are Σ p_i a_i⊗…⊗a_i within five standard errors of each entry, found from
// 40 parts of the rows; entries are 104 each, so 1 in 5,000 runs fails by chance.
// Without the transform they are not: E[y·S3(x)] sees the gate (001).
func TestTensorsOfAnyTransformAreUnbiased(t *testing.T) {
	const d, parts, rows = 4, 40, 5000
	for _, f := range []sdk.Family{identity.Family, relu.Family} {
		var papers []*model.Data // a_1 = e1, a_2 = e2, w_1 = e3
		act, err := f.Activation(nil)
		if err != nil {
			t.Fatal(err)
		}
		for part := range parts {
			s, err := sample.New(sample.Config{Activation: act, K: 2, D: d, N: rows, Sigma: .05, Design: sample.Paper, Seed: uint64(100 + part)})
			if err != nil {
				t.Fatal(err)
			}
			data, err := dataset.Load(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			papers = append(papers, data)
		}
		outputs := append(outputsOf(t, f, .05, 2), naive{})
		for _, out := range outputs {
			for _, order := range []int{2, 3, 4} {
				if _, plain := out.(naive); plain && order != 3 {
					continue
				}
				var means [][]float64
				var want []float64
				for part := range parts {
					sums, err := tensor.SumTransformed(t.Context(), papers[part], out, order, nil, nil, 2)
					if err != nil {
						t.Fatal(err)
					}
					means = append(means, entries(sums))
					want = wanted(order, d)
				}
				worst := 0.0
				for i := range want {
					var m, s float64
					for _, v := range means {
						m += v[i] / parts
					}
					for _, v := range means {
						s += (v[i] - m) * (v[i] - m) / (parts - 1)
					}
					worst = max(worst, math.Abs(m-want[i])/math.Sqrt(s/parts))
				}
				if _, plain := out.(naive); plain {
					if worst < 20 {
						t.Errorf("%s: E[y·S3] is within %.1f standard errors of the regressors' tensor", f.Name, worst)
					}
				} else if worst > 5 {
					t.Errorf("%s, %T: T%d is off by %.1f standard errors", f.Name, out, order, worst)
				}
			}
		}
	}
}

// naive is y itself in place of a transform.
type naive struct{}

func (naive) Has(int) bool                  { return true }
func (naive) Apply(_ int, dst, y []float64) { copy(dst, y) }

func entries(s *tensor.Transformed) []float64 {
	switch s.Order {
	case 2:
		var out []float64
		t2 := s.T2()
		for a := range s.M {
			for b := a; b < s.M; b++ {
				out = append(out, t2.At(a, b))
			}
		}
		return out
	case 3:
		return s.T3().Data
	}
	return s.T4().Data
}

// wanted are the entries of ½·e1^{⊗r} + ½·e2^{⊗r}.
func wanted(order, d int) []float64 {
	e1, e2 := make([]float64, d), make([]float64, d)
	e1[0], e2[1] = 1, 1
	switch order {
	case 2:
		out := make([]float64, d*(d+1)/2)
		out[0], out[d] = .5, .5
		return out
	case 3:
		s := tensor.NewSym3(d)
		s.AddRankOne(.5, e1)
		s.AddRankOne(.5, e2)
		return s.Data
	}
	s := tensor.NewSym4(d)
	s.AddRankOne(.5, e1)
	s.AddRankOne(.5, e2)
	return s.Data
}

// TestOrthogonal: an exact decomposition is found to rounding whatever the weights,
// and under a small symmetric noise the vectors turn by what perturbation theory of
// the least-squares fit says, to second order.
func TestOrthogonal(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, m := range []int{1, 2, 3, 6, 10} {
		v := orthonormal(rng, m)
		s := tensor.NewSym3(m)
		weight := make([]float64, m)
		for i := range m {
			weight[i] = 1 + 2*rng.Float64()
			s.AddRankOne(weight[i], mat.Row(nil, i, v))
		}
		noise := tensor.NewSym3(m)
		const eps = 1e-4
		for i := range noise.Data {
			noise.Data[i] = eps * rng.NormFloat64()
		}
		for _, noisy := range []bool{false, true} {
			if noisy {
				floats.Add(s.Data, noise.Data)
			}
			d := s.Orthogonal(rng, 10)
			full := noise.Full()
			at := func(a, b, c []float64) (e float64) {
				for i := range m {
					for j := range m {
						for k := range m {
							e += full[(i*m+j)*m+k] * a[i] * b[j] * c[k]
						}
					}
				}
				return e
			}
			for i := range m {
				vi := mat.Row(nil, i, v)
				best := 0
				for r := range m {
					if floats.Dot(d.Vectors.RawRowView(r), vi) > floats.Dot(d.Vectors.RawRowView(best), vi) {
						best = r
					}
				}
				u := d.Vectors.RawRowView(best)
				for j := range m {
					vj, want := mat.Row(nil, j, v), 0.0
					if j == i {
						want = 1
					} else if noisy {
						want = (weight[i]*at(vj, vi, vi) - weight[j]*at(vi, vj, vj)) / (weight[i]*weight[i] + weight[j]*weight[j])
					}
					tol := 1e-7 // of the power iterations and the polish
					if noisy {
						tol = 1000 * eps * eps
					}
					if got := floats.Dot(u, vj); math.Abs(got-want) > tol {
						t.Errorf("m = %d, noisy %v: ⟨u%d, v%d⟩ = %v, want %v", m, noisy, i, j, got, want)
					}
				}
			}
		}
	}
	zero := tensor.NewSym3(3).Orthogonal(rng, 5)
	if zero.Vectors == nil || floats.HasNaN(zero.Vectors.RawMatrix().Data) || floats.HasNaN(zero.Values) {
		t.Errorf("of zero: %v", zero)
	}
}

// TestPower: of an exact Σ_i λ_i·v_i⊗v_i⊗v_i a start u goes to the i with the largest |λ_i⟨v_i, u⟩|
// (Anandkumar et al. 2014, Theorem 4.1): so the first vector is that of the largest |λ| among
// those that a start goes to, as many starts agree as go there, and the others follow when it
// is taken off. Values are not negative.
func TestPower(t *testing.T) {
	apart := false
	for _, m := range []int{1, 2, 4, 7} {
		for seed := range uint64(6) {
			rng := rand.New(rand.NewPCG(seed, 21))
			v := orthonormal(rng, m)
			s := tensor.NewSym3(m)
			weight := make([]float64, m)
			for i := range m {
				weight[i] = math.Copysign(float64(i+1), rng.NormFloat64()) * 1e3
				s.AddRankOne(weight[i], mat.Row(nil, i, v))
			}
			const restarts = 12
			reached := make([]int, m)
			again := rand.New(rand.NewPCG(seed, 22))
			for range restarts {
				u := make([]float64, m)
				for j := range u {
					u[j] = again.NormFloat64()
				}
				to := 0
				pull := func(i int) float64 { return math.Abs(weight[i] * floats.Dot(u, mat.Row(nil, i, v))) }
				for i := range m {
					if pull(i) > pull(to) {
						to = i
					}
				}
				reached[to]++
			}
			first := m - 1 // of the largest weight that is reached
			for reached[first] == 0 {
				first--
			}
			apart = apart || reached[first] < restarts
			d := s.Power(rand.New(rand.NewPCG(seed, 22)), restarts)
			if d.Agreeing != reached[first] {
				t.Errorf("m = %d, seed %d: %d starts agree, want %d", m, seed, d.Agreeing, reached[first])
			}
			left := make([]bool, m)
			for r := range m {
				u := d.Vectors.RawRowView(r)
				if norm := floats.Norm(u, 2); math.Abs(norm-1) > 1e-12 {
					t.Errorf("m = %d, seed %d: vector %d has norm %v", m, seed, r, norm)
				}
				best, cos := 0, 0.0
				for i := range m {
					if c := floats.Dot(u, mat.Row(nil, i, v)); math.Abs(c) > math.Abs(cos) {
						best, cos = i, c
					}
				}
				// Steps end when they move by less than 3e−7.
				if left[best] || math.Abs(cos*math.Copysign(1, weight[best])-1) > 1e-12 || math.Abs(d.Values[r]-math.Abs(weight[best])) > 1e-6*math.Abs(weight[best]) || r == 0 && best != first {
					t.Errorf("m = %d, seed %d: vector %d is number %d with cosine %v and value %v; weights %v", m, seed, r, best, cos, d.Values[r], weight)
				}
				left[best] = true
			}
		}
	}
	if !apart {
		t.Error("all starts go to the same vector: the test says nothing of those that do not")
	}
}

// TestOrthogonalOfOrderFour: of an exact Σ_i λ_i·v_i⊗v_i⊗v_i⊗v_i the v_i are found to rounding
// from every start, up to sign, and under a small symmetric noise E they turn by what
// perturbation theory says, θ_ij = (E(v_j,v_i,v_i,v_i) − E(v_i,v_j,v_j,v_j))/(λ_i + λ_j), to
// second order.
func TestOrthogonalOfOrderFour(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, m := range []int{1, 2, 3, 6, 10} {
		v := orthonormal(rng, m)
		s, noise := tensor.NewSym4(m), tensor.NewSym4(m)
		weight := make([]float64, m)
		for i := range m {
			weight[i] = 1 + 2*rng.Float64()
			s.AddRankOne(weight[i], mat.Row(nil, i, v))
		}
		const eps = 1e-4
		for i := range noise.Data {
			noise.Data[i] = eps * rng.NormFloat64()
		}
		pairs := noise.Pairs()
		along := func(a, b []float64) (e float64) { // E(a, b, b, b)
			for i := range m * m {
				for j := range m * m {
					e += pairs.At(i, j) * a[i/m] * b[i%m] * b[j/m] * b[j%m]
				}
			}
			return e
		}
		for _, noisy := range []bool{false, true} {
			if noisy {
				floats.Add(s.Data, noise.Data)
			}
			u, agreeing := s.Orthogonal(rng, 4)
			if agreeing != 4 {
				t.Errorf("m = %d, noisy %v: %d of 4 starts agree", m, noisy, agreeing)
			}
			for i := range m {
				vi, best := mat.Row(nil, i, v), 0
				for r := range m {
					if math.Abs(floats.Dot(u.RawRowView(r), vi)) > math.Abs(floats.Dot(u.RawRowView(best), vi)) {
						best = r
					}
				}
				found := u.RawRowView(best)
				if floats.Dot(found, vi) < 0 {
					floats.Scale(-1, found)
				}
				for j := range m {
					vj, want, tol := mat.Row(nil, j, v), 0.0, 1e-10
					if j == i {
						want = 1
					} else if noisy {
						want = (along(vj, vi) - along(vi, vj)) / (weight[i] + weight[j])
					}
					if noisy {
						tol = 1000 * eps * eps
					}
					if got := floats.Dot(found, vj); math.Abs(got-want) > tol {
						t.Errorf("m = %d, noisy %v: ⟨u%d, v%d⟩ = %v, want %v", m, noisy, i, j, got, want)
					}
				}
			}
		}
	}
	if zero, _ := tensor.NewSym4(3).Orthogonal(rng, 2); floats.HasNaN(zero.RawMatrix().Data) {
		t.Errorf("of zero: %v", zero)
	}
}

func BenchmarkSumTransformed(b *testing.B) {
	p := draw(b, relu.Family, 3, 10, 20_000, 1)
	out := outputsOf(b, relu.Family, .05, 3)[1]
	for b.Loop() {
		if _, err := tensor.SumTransformed(b.Context(), p.data, out, 2, nil, nil, 1); err != nil {
			b.Fatal(err)
		}
	}
}
