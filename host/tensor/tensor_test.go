package tensor_test

import (
	"fmt"
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
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
)

// problem is a drawn data set with everything that the tensors are made of.
type problem struct {
	data      *model.Data
	truth     *model.Params
	transform solver.Transform
	second    *tensor.Second
	fourth    *tensor.Fourth
}

func eye(d int) *mat.Dense {
	m := mat.NewDense(d, d, nil)
	for i := range d {
		m.Set(i, i, 1)
	}
	return m
}

func draw(t testing.TB, f sdk.Family, k, d, n int, seed uint64) *problem {
	t.Helper()
	act, err := f.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	const sigma = 0.05
	s, err := sample.New(sample.Config{Activation: act, K: k, D: d, N: n, Sigma: sigma, Design: sample.OrthogonalGating, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	p := &problem{truth: s.Truth}
	if p.data, err = dataset.Load(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	m, err := sdk.MomentsOf(t.Context(), act)
	if err != nil {
		t.Fatal(err)
	}
	p.transform, _ = solver.Solve(m, m.System(sigma), sigma)
	if p.second, err = tensor.SumSecond(t.Context(), p.data, 2); err != nil {
		t.Fatal(err)
	}
	if p.fourth, err = tensor.SumFourth(t.Context(), p.data, eye(d), nil, 2); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *problem) t4() *tensor.Sym4 {
	return p.fourth.T4(p.transform)
}

// rows calls fn with every row.
func (p *problem) rows(fn func(x []float64, y float64)) {
	x := make([]float64, p.data.D)
	for i := range p.data.Blocks {
		b := &p.data.Blocks[i]
		for r := range b.N {
			for j := range x {
				x[j] = b.Col(j)[r]
			}
			fn(x, b.Y[r])
		}
	}
}

// t1, t2 and t3 are the contractions of 002 Section 3.1, written out.
func t1(u, v, x []float64) float64 {
	ux, vx, uv := floats.Dot(u, x), floats.Dot(v, x), floats.Dot(u, v)
	uu, vv := floats.Dot(u, u), floats.Dot(v, v)
	return ux*ux*vx*vx - uu*vx*vx - 4*ux*vx*uv - vv*ux*ux + uu*vv + 2*uv*uv
}

func t2(u, x []float64) float64 {
	ux, uu := floats.Dot(u, x), floats.Dot(u, u)
	return ux*ux*ux*ux - 6*uu*ux*ux + 3*uu*uu
}

func t3(u, x []float64) float64 { ux := floats.Dot(u, x); return ux*ux - floats.Dot(u, u) }

// meanTransforms returns the sample means of Q4 and Q2.
func (p *problem) meanTransforms() (q4, q2 float64) {
	p.rows(func(_ []float64, y float64) { q4 += p.transform.Q4(y); q2 += p.transform.Q2(y) })
	return q4 / float64(p.data.N), q2 / float64(p.data.N)
}

func randomRows(rng *rand.Rand, k, d int) []float64 {
	a := make([]float64, k*d)
	for i := range a {
		a[i] = rng.NormFloat64() / math.Sqrt(float64(d))
	}
	return a
}

// orthonormal returns a random orthonormal basis of d columns.
func orthonormal(rng *rand.Rand, d int) *mat.Dense {
	var qr mat.QR
	qr.Factorize(mat.NewDense(d, d, randomRows(rng, d, d)))
	q := new(mat.Dense)
	qr.QTo(q)
	return q
}

// TestTheorem5 is the identity behind the loss: 002 Eq. 7, summed row by row
// with t1, t2 and t3, equals L4 of the tensors; and at the population tensors
// L4 equals 002 Eq. 8.
func TestTheorem5(t *testing.T) {
	const k, d, mu, lambda, ridge = 3, 4, 0.3, 2.0, 0.1
	rng := rand.New(rand.NewPCG(1, 2))
	a := randomRows(rng, k, d)
	row := func(i int) []float64 { return a[i*d : (i+1)*d] }
	for _, f := range []sdk.Family{identity.Family, relu.Family, sigmoid.Family} {
		p := draw(t, f, 2, d, 3000, 3)
		q := p.transform
		m4, m2 := p.meanTransforms()
		cross, self, norm := 0.0, 0.0, make([]float64, k)
		p.rows(func(x []float64, y float64) {
			q4, q2 := (q.Q4(y)-m4)/q.C4, (q.Q2(y)-m2)/q.C2
			for i := range k {
				self += q4 * t2(row(i), x)
				norm[i] += q2 * t3(row(i), x)
				for j := range k {
					if j != i {
						cross += q4 * t1(row(i), row(j), x)
					}
				}
			}
		})
		n := float64(p.data.N)
		want := cross/n - mu*self/n + ridge/2*floats.Dot(a, a)
		for i := range k {
			want += lambda * (norm[i]/n - 1) * (norm[i]/n - 1)
		}
		s2 := p.second.T2(q.Delta, nil)
		s2.ScaleSym(1/q.C2, s2)
		s4 := p.t4()
		s4.Scale(1 / q.C4)
		got, err := tensor.NewL4(k, s2, s4, mu, lambda, ridge).Value(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		// Sums of 3,000 terms of up to 1e6: 1e−9 of the value.
		if math.Abs(got-want) > 1e-9*(1+math.Abs(want)) {
			t.Errorf("%s: L4 = %v, row by row %v", f.Name, got, want)
		}
	}

	proportions := []float64{0.5, 0.2, 0.3}
	truth := mat.NewDense(k, d, randomRows(rng, k, d))
	want := ridge / 2 * floats.Dot(a, a)
	inner := func(m, i int) float64 { return floats.Dot(truth.RawRowView(m), row(i)) }
	for i := range k {
		norm := 0.0
		for m, pm := range proportions {
			want -= mu * pm * math.Pow(inner(m, i), 4)
			norm += pm * inner(m, i) * inner(m, i)
			for j := range k {
				if j != i {
					want += pm * math.Pow(inner(m, i)*inner(m, j), 2)
				}
			}
		}
		want += lambda * (norm - 1) * (norm - 1)
	}
	p2, p4 := tensor.Population(proportions, truth)
	got, _ := tensor.NewL4(k, p2, p4, mu, lambda, ridge).Value(t.Context(), a)
	if math.Abs(got-want) > 1e-12*math.Abs(want) {
		t.Errorf("population: L4 = %v, 002 Eq. 8 gives %v", got, want)
	}
}

// TestTensorsAreUnbiased: contractions of the empirical tensors, and L4, are
// within 4 standard errors of 002 Eq. 8 and Lemma 1. The standard errors come
// from 50 independent data sets. 3 activations × 4 numbers at 4.4 standard
// errors of a t with 49 degrees of freedom: one false alarm in 1,500 seeds.
func TestTensorsAreUnbiased(t *testing.T) {
	const k, d, n, sets = 2, 5, 4000, 50
	rng := rand.New(rand.NewPCG(3, 2))
	for _, f := range []sdk.Family{identity.Family, relu.Family, sigmoid.Family} {
		u, v, a := randomRows(rng, 1, d), randomRows(rng, 1, d), randomRows(rng, k, d)
		var diff [4][]float64
		for set := range uint64(sets) {
			p := draw(t, f, k, d, n, 100+set)
			q := p.transform
			s2, s4 := p.second.T2(q.Delta, nil), p.t4()
			s2.ScaleSym(1/q.C2, s2)
			s4.Scale(1 / q.C4)
			p2, p4 := tensor.Population(p.proportions(), mat.NewDense(k, d, p.truth.Regressors))
			for i, m := range []*mat.SymDense{s2, p2} {
				sign := 1 - 2*float64(i)
				s := []*tensor.Sym4{s4, p4}[i]
				// Lambda = 0: squares of means are biased by their variance.
				l4, _ := tensor.NewL4(k, m, s, 0.5, 0, 0).Value(t.Context(), a)
				for j, x := range []float64{contract2(m, u), contract4(s, u, u), contract4(s, u, v), l4} {
					if i == 0 {
						diff[j] = append(diff[j], 0)
					}
					diff[j][set] += sign * x
				}
			}
		}
		for j, name := range []string{"T2(u,u)", "T4(u,u,u,u)", "T4(u,u,v,v)", "L4"} {
			mean := floats.Sum(diff[j]) / sets
			variance := 0.0
			for _, x := range diff[j] {
				variance += (x - mean) * (x - mean) / (sets - 1)
			}
			if z := mean / math.Sqrt(variance/sets); math.Abs(z) > 4 {
				t.Errorf("%s: %s is %.2f standard errors from its population value", f.Name, name, z)
			}
		}
	}
}

// proportions estimates E[p_i(x)] of the truth to 1e−3 from the rows at hand:
// for two experts whose gate is a centred direction it is ½ by symmetry.
func (p *problem) proportions() []float64 { return []float64{0.5, 0.5} }

func contract2(m *mat.SymDense, u []float64) float64 {
	v := mat.NewVecDense(len(u), u)
	return mat.Inner(v, m, v)
}

func contract4(s *tensor.Sym4, u, v []float64) float64 {
	outer := func(a []float64) *mat.VecDense {
		o := mat.NewVecDense(len(a)*len(a), nil)
		for i, x := range a {
			for j, y := range a {
				o.SetVec(i*len(a)+j, x*y)
			}
		}
		return o
	}
	return mat.Inner(outer(u), s.Pairs(), outer(v))
}

// TestProjectionIsContraction: sums over a projection give the contraction of
// the full tensor, also about another centre.
func TestProjectionIsContraction(t *testing.T) {
	const d, m = 5, 3
	p := draw(t, relu.Family, 2, d, 3000, 5)
	rng := rand.New(rand.NewPCG(5, 2))
	q := orthonormal(rng, d)
	u := mat.DenseCopyOf(q.Slice(0, d, 0, m))
	f, err := tensor.SumFourth(t.Context(), p.data, u, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	small, full := f.T4(p.transform), p.t4()
	for i := range m {
		for j := range m {
			ui, uj := mat.Col(nil, i, u), mat.Col(nil, j, u)
			ei, ej := make([]float64, m), make([]float64, m)
			ei[i], ej[j] = 1, 1
			if got, want := contract4(small, ei, ej), contract4(full, ui, uj); math.Abs(got-want) > 1e-10*(1+math.Abs(want)) {
				t.Errorf("T4(u%d,u%d): %v, full tensor %v", i, j, got, want)
			}
		}
	}
	centre := randomRows(rng, 1, d)
	shifted := &model.Data{N: p.data.N, D: d}
	for _, b := range p.data.Blocks {
		x := append([]float64(nil), b.X...)
		for j := range d {
			for i := range b.N {
				x[j*b.N+i] += centre[j]
			}
		}
		shifted.Blocks = append(shifted.Blocks, model.Block{N: b.N, X: x, Y: b.Y})
	}
	g, err := tensor.SumFourth(t.Context(), shifted, u, centre, 1)
	if err != nil {
		t.Fatal(err)
	}
	if !floats.EqualApprox(g.T4(p.transform).Data, small.Data, 1e-9) {
		t.Error("T4 about a centre differs from T4 of centred data")
	}
	s, err := tensor.SumSecond(t.Context(), shifted, 1)
	if err != nil {
		t.Fatal(err)
	}
	if !mat.EqualApprox(s.T2(p.transform.Delta, centre), p.second.T2(p.transform.Delta, nil), 1e-11) {
		t.Error("T2 about a centre differs from T2 of centred data")
	}
}

// TestSumsMerge: rows added in two parts and merged give the sums of all, and
// any number of workers the same bytes.
func TestSumsMerge(t *testing.T) {
	p := draw(t, sigmoid.Family, 2, 4, 9000, 6)
	var w tensor.Scratch
	a, b := tensor.NewSecond(4), tensor.NewSecond(4)
	for i := range p.data.Blocks {
		if i%2 == 0 {
			a.Add(&p.data.Blocks[i], &w)
		} else {
			b.Add(&p.data.Blocks[i], &w)
		}
	}
	a.Merge(b)
	if a.N != p.second.N || !floats.EqualApprox(a.XX[2], p.second.XX[2], 1e-9) || !floats.EqualApprox(a.Y[:], p.second.Y[:], 1e-9) {
		t.Error("merged sums differ")
	}
	for _, workers := range []int{1, 7} {
		s, _ := tensor.SumSecond(t.Context(), p.data, workers)
		f, _ := tensor.SumFourth(t.Context(), p.data, eye(4), nil, workers)
		if !floats.Same(s.XX[1], p.second.XX[1]) || !floats.Same(f.Four[3], p.fourth.Four[3]) {
			t.Errorf("%d workers give other bytes", workers)
		}
	}
}

func BenchmarkMoments(b *testing.B) {
	run := func(name string, n int, pass func() error) {
		b.Run(fmt.Sprintf("%s/n=%d", name, n), func(b *testing.B) {
			for b.Loop() {
				if err := pass(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/row")
		})
	}
	for _, c := range []struct{ n, d, k int }{{10_000, 10, 3}, {1_000_000, 10, 3}, {100_000, 50, 10}} {
		p := draw(b, identity.Family, c.k, c.d, c.n, 1)
		u := mat.DenseCopyOf(eye(c.d).Slice(0, c.d, 0, c.k))
		run(fmt.Sprintf("T2/d=%d", c.d), c.n, func() error {
			_, err := tensor.SumSecond(b.Context(), p.data, 1)
			return err
		})
		run(fmt.Sprintf("T4/k=%d", c.k), c.n, func() error {
			_, err := tensor.SumFourth(b.Context(), p.data, u, nil, 1)
			return err
		})
	}
}
