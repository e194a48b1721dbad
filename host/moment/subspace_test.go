package moment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
)

// TestSubspaceIsThePlanted: the sines of the principal angles between the
// subspace and the span of the true regressors. To first order they are the
// singular values of P⊥·E·U·Λ⁻¹ (Davis & Kahan 1970), E the error of T̂2/c2: the
// expectation of the sum of their squares is that of the entries' squared standard
// errors over λ², which the rows give. Of m = (d−k)k terms the sum stays below 1 +
// 4√(2/m) times that but for 1 in 1000, as χ² with few degrees of freedom has it;
// and above a tenth of it: an error that is not there is not estimated. Features
// are N(0, I), or of another covariance, where the angles are those of the
// whitened ones.
func TestSubspaceIsThePlanted(t *testing.T) {
	const d = 6
	for _, c := range []struct {
		family sdk.Family
		k, n   int
		odd    bool
	}{
		{identity.Family, 2, 20_000, false},
		{identity.Family, 3, 20_000, true},
		{relu.Family, 2, 40_000, false},
		{sigmoid.Family, 2, 40_000, true},
	} {
		act, err := c.family.Activation(nil)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(12, uint64(c.k)))
		mix := mat.NewDense(d, d, nil)
		for i := range d {
			mix.Set(i, i, 1)
			for j := range i {
				if c.odd {
					mix.Set(i, j, 0.4*rng.NormFloat64())
				}
			}
		}
		// Regressors that are unit vectors of the whitened features, and independent
		// of which expert it is.
		planted := mat.NewDense(c.k, d, model.RandomDirections(rng, c.k, d))
		x, y, white := mat.NewDense(c.n, d, nil), make([]float64, c.n), make([]float64, d)
		for i := range y {
			for j := range white {
				white[j] = rng.NormFloat64()
			}
			x.RowView(i).(*mat.VecDense).MulVec(mix, mat.NewVecDense(d, white))
			z := []float64{floats.Dot(planted.RawRowView(rng.IntN(c.k)), white)}
			if err := act.Eval(t.Context(), z, z); err != nil {
				t.Fatal(err)
			}
			y[i] = z[0] + 0.1*rng.NormFloat64()
		}
		p, err := problem.Load(t.Context(), dataset.Matrix(x, y), act, problem.Request{K: c.k, Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		if p.Inputs.Standard() == c.odd {
			t.Fatalf("%s: inputs %q", c.family.Name, p.Inputs.Far)
		}
		e, err := Measure(t.Context(), p, Want{Transform: Polynomial})
		if err != nil || e.Subspace == nil {
			t.Fatalf("%s: no subspace, error %v", c.family.Name, err)
		}
		// ⟨planted, mix⁻¹x⟩ = ⟨mix⁻ᵀ·planted, x⟩, and x in the fit's units.
		var inverse, regressors mat.Dense
		if err := inverse.Inverse(mix); err != nil {
			t.Fatal(err)
		}
		regressors.Mul(planted, &inverse)
		for j := range d {
			if p.Units != nil {
				for i := range c.k {
					regressors.Set(i, j, regressors.At(i, j)*p.Units.SD[j])
				}
			}
		}
		basis, truth := mat.DenseCopyOf(e.Subspace.Basis), mat.DenseCopyOf(regressors.T())
		square := mat.DenseCopyOf(mat.NewDiagDense(d, []float64{1, 1, 1, 1, 1, 1})) // Cov(x)^{1/2}
		if p.Inputs.Whiten != nil {
			if err := square.Inverse(p.Inputs.Whiten); err != nil {
				t.Fatal(err)
			}
		}
		basis.Mul(square, e.Subspace.Basis)
		truth.Mul(square, regressors.T())
		basis, truth = orthonormal(basis), orthonormal(truth)
		var across mat.Dense
		across.Mul(basis.T(), truth)
		sines := float64(c.k) - floats.Dot(across.RawMatrix().Data, across.RawMatrix().Data)
		m := float64((d - c.k) * c.k)
		se := squaredErrors(t, p, e, basis)
		if sines > se*(1+4*math.Sqrt(2/m)) || sines < se/10 {
			t.Errorf("%s, other covariance %v: the squared sines of the angles sum to %.3g, expected %.3g", c.family.Name, c.odd, sines, se)
		}
	}
}

// orthonormal is a basis of the columns' span.
func orthonormal(m *mat.Dense) *mat.Dense {
	_, k := m.Dims()
	var qr mat.QR
	qr.Factorize(m)
	var q mat.Dense
	qr.QTo(&q)
	d, _ := m.Dims()
	return mat.DenseCopyOf(q.Slice(0, d, 0, k))
}

// squaredErrors is what the sum of the squared sines is expected to be: Σ
// Var(q·⟨v_j,w⟩⟨u_i,w⟩)/(n·c2²·λ_i²) over the directions v_j outside the subspace
// and u_i in it, with q = Q2(y) less its mean and w the whitened features.
func squaredErrors(t *testing.T, p *problem.Problem, e *Evidence, basis *mat.Dense) float64 {
	t.Helper()
	d, k := basis.Dims()
	// The eigenvectors again, with eigenvalues, and a complement.
	var full mat.QR
	full.Factorize(basis)
	var q mat.Dense
	full.QTo(&q)
	var rotate mat.EigenSym
	t2 := e.whitenedT2(p)
	var inside mat.Dense
	inside.Product(basis.T(), t2, basis)
	if !rotate.Factorize(numeric.Symmetric(&inside), true) {
		t.Fatal("no eigenvalues")
	}
	var vectors, u mat.Dense
	rotate.VectorsTo(&vectors)
	u.Mul(basis, &vectors)
	lambda := rotate.Values(nil)
	sums, squares := make([]float64, d*k), make([]float64, d*k)
	mean := p.Second.MeanY(2) + e.Transform.Delta*p.Second.MeanY(1)
	err := model.InOrder(t.Context(), p.Rows, func(b *model.Block) error {
		w := make([]float64, d)
		for r := range b.N {
			for j := range d {
				w[j] = b.Col(j)[r]
				if p.Inputs.Centre != nil {
					w[j] -= p.Inputs.Centre[j]
				}
			}
			if p.Inputs.Whiten != nil {
				mat.NewVecDense(d, w).MulVec(p.Inputs.Whiten, mat.NewVecDense(d, append([]float64(nil), w...)))
			}
			qy := (b.Y[r]*b.Y[r] + e.Transform.Delta*b.Y[r] - mean) / e.Transform.C2
			for j := k; j < d; j++ {
				outside := floats.Dot(mat.Col(nil, j, &q), w)
				for i := range k {
					v := qy * outside * floats.Dot(mat.Col(nil, i, &u), w)
					sums[j*k+i] += v
					squares[j*k+i] += v * v
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	n, total := float64(p.N()), 0.0
	for j := k; j < d; j++ {
		for i := range k {
			m := sums[j*k+i] / n
			total += (squares[j*k+i]/n - m*m) / n / (lambda[i] * lambda[i])
		}
	}
	return total
}

// TestLift: ⟨b, Uᵀx⟩ = ⟨U·b, x⟩ to rounding, for any U, over more than one block;
// and the target goes along.
func TestLift(t *testing.T) {
	const n, d, k = 600, 5, 2
	rng := rand.New(rand.NewPCG(13, 13))
	normal := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		return v
	}
	rows, err := dataset.Load(t.Context(), dataset.Matrix(mat.NewDense(n, d, normal(n*d)), normal(n)))
	if err != nil {
		t.Fatal(err)
	}
	s := &Subspace{Basis: mat.NewDense(d, k, normal(d*k)), Values: []float64{2, 1}}
	small, lifted := normal(3*k), make([]float64, 3*d)
	s.Lift(lifted, small)
	projected, err := model.InMemory(t.Context(), s.Project(rows), 1)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := projected.Dims(); got != n || projected.D != k {
		t.Fatalf("%d projected rows with %d features", got, projected.D)
	}
	for i := range rows.Blocks {
		from, to := &rows.Blocks[i], &projected.Blocks[i]
		for r := range from.N {
			if to.Y[r] != from.Y[r] {
				t.Fatalf("target %v of a row with %v", to.Y[r], from.Y[r])
			}
			for b := range 3 {
				var inside, outside float64
				for j := range k {
					inside += small[b*k+j] * to.Col(j)[r]
				}
				for j := range d {
					outside += lifted[b*d+j] * from.Col(j)[r]
				}
				if math.Abs(inside-outside) > 1e-12 {
					t.Fatalf("row %d: %v in the subspace, %v outside", 256*i+r, inside, outside)
				}
			}
		}
	}
	// The direction of u is that of U·Λ^{1/2}·u.
	dst, want := make([]float64, d), make([]float64, d)
	s.Lift(want, []float64{math.Sqrt2 * 0.6, 0.8})
	if norm := s.direction(dst, []float64{0.6, 0.8}); math.Abs(norm-floats.Norm(want, 2)) > 1e-12 {
		t.Errorf("norm %v of %v", norm, want)
	}
	floats.Scale(1/floats.Norm(want, 2), want)
	if !floats.EqualApprox(dst, want, 1e-12) {
		t.Errorf("direction %v, want %v", dst, want)
	}
}

// withT2 is a problem whose T̂2/c2 has these eigenvalues, and its evidence.
func withT2(t *testing.T, k int, eigenvalues ...float64) (*problem.Problem, *Evidence) {
	t.Helper()
	d := len(eigenvalues)
	q := mat.NewDense(d, d, RandomOrthonormal(rand.New(rand.NewPCG(14, 14)), d))
	var m mat.Dense
	m.Product(q.T(), mat.NewDiagDense(d, eigenvalues), q)
	s := tensor.NewSecond(d)
	s.N, s.Y[0] = 1, 1
	at := 0
	for i := range d {
		for j := i; j < d; j++ {
			s.XX[2][at] = 3 * m.At(i, j)
			at++
		}
	}
	return &problem.Problem{Second: s, Inputs: &problem.Inputs{}, Shape: problem.Shape{K: k, D: d}}, &Evidence{Transform: solver.Transform{C2: 3}, want: Want{Transform: Polynomial}}
}

// TestEigengapK on T̂2 with known eigenvalues: those that exceed twice the most
// negative one are counted.
func TestEigengapK(t *testing.T) {
	for _, c := range []struct {
		eigenvalues []float64
		want        int
	}{
		{[]float64{0.4, 0.3, 0.2, 0.01, -0.01, -0.02}, 3},
		{[]float64{0.4, 0.3, 0.039, 0.01, -0.01, -0.02}, 2},
		{[]float64{0.4, 0.3, 0.041, 0.01, -0.01, -0.02}, 3},
		{[]float64{0.4, -0.3, 0.1}, 0},
		{[]float64{0.4, 0.3, 0.1}, 0}, // nothing is noise
		{[]float64{0.01, -0.004, 0.001}, 1},
	} {
		p, e := withT2(t, 2, c.eigenvalues...)
		if got, err := e.EigengapK(p); err != nil || got != c.want {
			t.Errorf("%v: k = %d, want %d, error %v", c.eigenvalues, got, c.want, err)
		}
		e.Transform.C2 = 0
		if got, err := e.EigengapK(p); err != nil || got != 0 {
			t.Errorf("no transform: k = %d, error %v", got, err)
		}
	}
}

// TestEvidenceWith: as many leading eigenpairs as there are experts, if they are
// positive, and no subspace where there are fewer features or no transform.
func TestEvidenceWith(t *testing.T) {
	values := []float64{-0.02, 0.2, 0.5, -0.01}
	for k, want := range map[int]string{1: "[0.5]", 2: "[0.5 0.2]", 3: "", 4: "", 5: ""} {
		p, e := withT2(t, k, values...)
		got, err := e.With(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		if got.Subspace != nil {
			rounded := make([]float64, k)
			for i, v := range got.Subspace.Values {
				rounded[i] = math.Round(v*1e12) / 1e12
			}
			text = fmt.Sprint(rounded)
			var gram mat.Dense
			gram.Mul(got.Subspace.Basis.T(), got.Subspace.Basis)
			if !mat.EqualApprox(&gram, mat.NewDiagDense(k, []float64{1, 1, 1, 1}[:k]), 1e-12) {
				t.Errorf("k = %d: the basis is not orthonormal", k)
			}
		}
		if text != want || e.Subspace != nil {
			t.Errorf("k = %d: eigenvalues %s, want %s", k, text, want)
		}
		e.Transform.C2 = 0
		if got, err := e.With(t.Context(), p); err != nil || got.Subspace != nil {
			t.Errorf("k = %d: a subspace without a transform, error %v", k, err)
		}
	}
}
