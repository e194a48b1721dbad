package minibatch

import (
	"context"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/solver"
)

// L4 is the loss of [tensor.L4] (002 Eq. 7) as a sum over rows, in ℝ^d and without forming any
// tensor:
//
//	L4(A) = Σ_{i≠j} mean q4·t1(a_i,a_j,x) − Mu·Σ_i mean q4·t2(a_i,x)
//	      + Lambda·Σ_i (mean q2·t3(a_i,x) − 1)² + (Ridge/2)·‖A‖²_F
//
// with q4 = (Q4(y) − its mean over the rows)/c4 and q2 likewise, or other transforms of
// order 4 and 2 in their place. Its argument
// holds the k×d matrix A in rows. On mini-batches of fresh samples its gradient
// is what the papers' experiments descend. On a fixed table it is that of the
// tensors, and unbounded below: see there. It keeps scratch space: it is not safe
// for concurrent use.
type L4 struct {
	K, D              int
	Mu, Lambda, Ridge float64
	// UnitNorm puts Lambda·Σ_i (|a_i|² − 1)² in the place of the terms in T2: the L4 of
	// 001, which a large Lambda bounds from below.
	UnitNorm bool

	out    solver.Outputs
	q4, q2 []float64 // of all rows
	p      []float64 // k×BlockRows: ⟨a_i,x⟩
	w, w2  []float64 // k×BlockRows: what multiplies x in the gradient
	cross  []float64 // k×k: mean q4·⟨a_i,x⟩⟨a_j,x⟩
	gram   []float64 // k×k: ⟨a_i,a_j⟩
	two    []float64 // k: mean q2·t3(a_i,x)
	grad2  []float64 // k×d: mean q2·⟨a_i,x⟩·x
	a      *model.Params
}

// NewL4 returns the loss of k rows over d features.
func NewL4(k, d int, out solver.Outputs, mu, lambda, ridge float64) *L4 {
	kn := func() []float64 { return make([]float64, k*model.BlockRows) }
	return &L4{
		K: k, D: d, Mu: mu, Lambda: lambda, Ridge: ridge, out: out,
		p: kn(), w: kn(), w2: kn(), cross: make([]float64, k*k), gram: make([]float64, k*k),
		two: make([]float64, k), grad2: make([]float64, k*d), a: model.NewParams(k, d),
	}
}

// Dim returns k·d.
func (l *L4) Dim() int { return l.K * l.D }

// GradOn writes ∇L4 over the rows to dst and returns L4. With
// p_i = ⟨a_i,x⟩ and c_ij = ⟨a_i,a_j⟩,
//
//	∂t1(a_i,a_j)/∂a_i = (2p_i p_j² − 4p_j c_ij − 2c_jj p_i)·x − 2p_j²a_i − 4p_i p_j a_j + 2c_jj a_i + 4c_ij a_j
//	∂t2(a_i)/∂a_i = (4p_i³ − 12c_ii p_i)·x − 12p_i²a_i + 12c_ii a_i
//	∂t3(a_i)/∂a_i = 2p_i·x − 2a_i
//
// and the terms without x vanish in the mean, because q4 and q2 are centred.
func (l *L4) GradOn(ctx context.Context, dst, a []float64, rows model.Rows) (float64, error) {
	k, d := l.K, l.D
	copy(l.a.Regressors, a)
	for i := range k {
		for j := range k {
			l.gram[i*k+j] = floats.Dot(a[i*d:(i+1)*d], a[j*d:(j+1)*d])
		}
	}
	if err := l.transform(ctx, rows); err != nil {
		return 0, err
	}
	clear(dst)
	clear(l.cross)
	clear(l.two)
	clear(l.grad2)
	value, at := 0.0, 0
	err := model.InOrder(ctx, rows, func(b *model.Block) error {
		value += l.block(dst, b, l.q4[at:at+b.N], l.q2[at:at+b.N])
		at += b.N
		return nil
	})
	if err != nil {
		return 0, err
	}
	inv := 1 / float64(at)
	for _, s := range [][]float64{dst, l.cross, l.two, l.grad2} {
		floats.Scale(inv, s)
	}
	value *= inv
	return value + l.finish(dst, a), nil
}

// transform writes q4 and q2 of every row.
func (l *L4) transform(ctx context.Context, rows model.Rows) error {
	l.q4, l.q2 = l.q4[:0], l.q2[:0]
	err := model.InOrder(ctx, rows, func(b *model.Block) error {
		l.q4, l.q2 = append(l.q4, b.Y...), append(l.q2, b.Y...)
		return nil
	})
	if err != nil {
		return err
	}
	c4, c2 := 1.0, 1.0
	if o, ok := l.out.(solver.Transform); ok {
		c4, c2 = o.C4, o.C2
		o.C4, o.C2 = 1, 1 // scaled once they are centred
		o.Apply(4, l.q4, l.q4)
		o.Apply(2, l.q2, l.q2)
	} else {
		l.out.Apply(4, l.q4, l.q4)
		l.out.Apply(2, l.q2, l.q2)
	}
	centre(l.q4, c4)
	centre(l.q2, c2)
	return nil
}

// centre takes the mean off q and divides by c.
func centre(q []float64, c float64) {
	mean := floats.Sum(q) / float64(len(q))
	for i := range q {
		q[i] = (q[i] - mean) / c
	}
}

// block adds the sums over a block: to dst what multiplies x in the quartic
// gradient, to cross, two and grad2 what finish needs. It returns the block's
// share in the quartic terms.
func (l *L4) block(dst []float64, b *model.Block, q4, q2 []float64) float64 {
	k, d, n := l.K, l.D, b.N
	p, w, w2 := l.p[:k*n], l.w[:k*n], l.w2[:n]
	l.a.Predictors(p, b)
	value := 0.0
	for i := range k {
		pi, wi, cii := p[i*n:(i+1)*n], w[i*n:(i+1)*n], l.gram[i*k+i]
		own := 0.0
		for r, u := range pi {
			u2, q := u*u, q4[r]
			wi[r] = -l.Mu * q * (4*u2 - 12*cii) * u
			own += q * (u2 - 6*cii) * u2
			w2[r] = q2[r] * u
		}
		value -= l.Mu * own
		l.two[i] += floats.Dot(w2, pi)
		addColumns(l.grad2[i*d:(i+1)*d], w2, b)
		for j := range k {
			pj := p[j*n : (j+1)*n]
			cij, cjj := l.gram[i*k+j], l.gram[j*k+j]
			if j == i {
				for r, u := range pi {
					l.cross[i*k+i] += q4[r] * u * u
				}
				continue
			}
			pair, both := 0.0, 0.0
			for r, u := range pi {
				v, q := pj[r], q4[r]
				wi[r] += 4 * q * (u*(v*v-cjj) - 2*v*cij)
				both += q * u * v
				pair += q * (u*u*(v*v-cjj) - cii*v*v)
			}
			l.cross[i*k+j] += both
			value += pair - 4*cij*both
		}
		addColumns(dst[i*d:(i+1)*d], wi, b)
	}
	return value
}

// finish adds the terms of the gradient along the a_j, the terms in T2 and the
// ridge, and returns the value of the last two.
func (l *L4) finish(dst, a []float64) float64 {
	k, d := l.K, l.D
	value := l.Ridge / 2 * floats.Dot(a, a)
	for i := range k {
		g := dst[i*d : (i+1)*d]
		for j := range k {
			aj := a[j*d : (j+1)*d]
			if j == i {
				floats.AddScaled(g, 12*l.Mu*l.cross[i*k+i], aj)
				continue
			}
			floats.AddScaled(g, -4*l.cross[j*k+j], a[i*d:(i+1)*d])
			floats.AddScaled(g, -8*l.cross[i*k+j], aj)
		}
		if own := a[i*d : (i+1)*d]; l.UnitNorm {
			excess := floats.Dot(own, own) - 1
			value += l.Lambda * excess * excess
			floats.AddScaled(g, 4*l.Lambda*excess+l.Ridge, own)
			continue
		}
		excess := l.two[i] - 1 // q2 is centred: the mean of q2·|a|² is 0
		value += l.Lambda * excess * excess
		floats.AddScaled(g, 4*l.Lambda*excess, l.grad2[i*d:(i+1)*d])
		floats.AddScaled(g, l.Ridge, a[i*d:(i+1)*d])
	}
	return value
}
