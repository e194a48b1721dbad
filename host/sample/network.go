package sample

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/memory"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/stream"
)

// NetworkConfig describes a sample from a network with one hidden layer.
type NetworkConfig struct {
	Activation model.Activation
	K, D, N    int     // units, features, rows
	Sigma      float64 // of the noise, ≥ 0
	Condition  float64 // κ of W, its largest singular value over the least, 1 to 1e15; 0: 1
	Output     []float64
	Seed       uint64
}

// NetworkSampler is a [dataset.Source] of N rows with x ~ N(0, I) and
//
//	y = Σ_i v_i·φ(⟨w_i, x⟩) + σ·N(0,1)
//
// Every pass gives the same rows; passes may run at the same time.
type NetworkSampler struct {
	Truth *model.Network

	cfg NetworkConfig
}

// mostCondition is the largest condition that weights in float64 can have: rounding of their entries, 2⁻⁵³ of the
// largest singular value, is near the least from there on.
const mostCondition = 1e15

// NewNetwork returns the sampler of cfg. W is P·diag(s)·Qᵀ with random orthogonal
// P (k×k) and Q (d×k) and singular values evenly spaced from κ to 1 times a
// common factor that makes the mean squared norm of a row 1: at κ = 1 the rows
// are orthonormal. v is cfg.Output, or random signs where that is nil. The
// error is one of cfg: k, d, n, κ or σ out of range, k > d, zeros in v.
func NewNetwork(cfg NetworkConfig) (*NetworkSampler, error) {
	if cfg.Condition == 0 {
		cfg.Condition = 1
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	rng := stream.Sample(cfg.Seed, stream.Parameters)
	s := &NetworkSampler{cfg: cfg, Truth: model.NewNetwork(cfg.K, cfg.D)}
	s.Truth.Sigma = cfg.Sigma
	conditioned(s.Truth.Weights, cfg.K, cfg.D, cfg.Condition, rng)
	for i := range s.Truth.Output {
		s.Truth.Output[i] = 1
		if rng.Float64() < 0.5 {
			s.Truth.Output[i] = -1
		}
	}
	if cfg.Output != nil {
		copy(s.Truth.Output, cfg.Output)
	}
	return s, nil
}

func (c *NetworkConfig) check() error {
	if err := checkSize(c.K, c.D, c.N, c.Sigma); err != nil {
		return err
	}
	switch {
	case c.K > c.D:
		return fmt.Errorf("k = %d units over d = %d features: their weights cannot be linearly independent; want k "+
			"of at most d", c.K, c.D)
	case !(c.Condition >= 1) || !numeric.Finite(c.Condition):
		return fmt.Errorf("condition = %v, want a finite number of at least 1", c.Condition)
	case c.Condition > mostCondition:
		return fmt.Errorf("condition = %v: beyond %v the weights are dependent to rounding; want less", c.Condition,
			float64(mostCondition))
	case c.K == 1 && c.Condition != 1:
		return fmt.Errorf("condition = %v with a single unit, whose weights have condition 1", c.Condition)
	case c.Output != nil && len(c.Output) != c.K:
		return fmt.Errorf("%d output weights for k = %d units", len(c.Output), c.K)
	}
	for i, v := range c.Output {
		if v == 0 || !numeric.Finite(v) {
			return fmt.Errorf("output weight %d is %v: a unit that does not enter y cannot be learned; want numbers "+
				"other than 0", i+1, v)
		}
	}
	return memory.Check(fmt.Sprintf("the weights of %d units over %d features", c.K, c.D),
		4*8*float64(c.K)*float64(c.D))
}

// conditioned fills the k×d matrix w as [NewNetwork] says.
func conditioned(w []float64, k, d int, condition float64, rng *rand.Rand) {
	s := make([]float64, k)
	for i := range s {
		s[i] = 1
		if k > 1 {
			s[i] = condition - (condition-1)*float64(i)/float64(k-1)
		}
	}
	floats.Scale(math.Sqrt(float64(k))/floats.Norm(s, 2), s)
	left, right := orthogonal(k, k, rng), orthogonal(d, k, rng)
	var half, out mat.Dense
	half.Mul(left, mat.NewDiagDense(k, s))
	out.Mul(&half, right.T())
	copy(w, out.RawMatrix().Data)
}

// orthogonal returns a d×k matrix of random orthonormal columns.
func orthogonal(d, k int, rng *rand.Rand) *mat.Dense {
	m := mat.NewDense(d, k, nil)
	var span [][]float64
	for i := range k {
		v := make([]float64, d)
		unitVector(v, span, rng)
		span = append(span, v)
		m.SetCol(i, v)
	}
	return m
}

// Schema names the columns x1 … xd and y.
func (s *NetworkSampler) Schema() dataset.Schema { return dataset.Names(s.cfg.D, true) }

// Read draws the rows. Block b comes from a random stream of its own, which
// gives for every row in turn d normal numbers (x) and a normal number (the
// noise).
func (s *NetworkSampler) Read(ctx context.Context, fn func(*model.Block) error) error {
	const rows = model.BlockRows
	x, y := make([]float64, s.cfg.D*rows), make([]float64, rows)
	noise, units := make([]float64, rows), make([]float64, s.cfg.K*rows)
	return blocks(ctx, s.cfg.N, func(at, n int) error {
		b := &model.Block{N: n, X: x[:s.cfg.D*n], Y: y[:n]}
		rng := stream.Sample(s.cfg.Seed, uint64(at/rows))
		for i := range n {
			for j := range s.cfg.D {
				b.X[j*n+i] = rng.NormFloat64()
			}
			noise[i] = rng.NormFloat64()
		}
		if err := s.Truth.Mean(ctx, b.Y, units, s.cfg.Activation, b); err != nil {
			return err
		}
		floats.AddScaled(b.Y, s.cfg.Sigma, noise[:n])
		if err := finite(b.Y, at); err != nil {
			return err
		}
		return fn(b)
	})
}

// finite refuses targets that are not finite; at is the number of rows before.
func finite(y []float64, at int) error {
	for i, v := range y {
		if !numeric.Finite(v) {
			return fmt.Errorf("row %d: y = %v; the activation is not finite there", at+i+1, v)
		}
	}
	return nil
}
