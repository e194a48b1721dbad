// Package sample draws data sets from mixtures of experts
//
//	y = g(⟨a_z, x⟩) + σ·N(0,1),  P(z = i | x) = softmax_i(⟨w_1,x⟩, …, ⟨w_{k−1},x⟩, 0)
//
// (002 Eq. 1), or under a tree of gates, of known parameters, block by block: a sample of any size takes
// the memory of one block. A [Sampler] is a dataset.Source and knows the Truth:
//
//	data, err := sample.New(sample.Config{Activation: g, K: 3, D: 8, N: 5000, Sigma: 0.1, Seed: 1})
package sample

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/memory"
	"github.com/gatedlearning/moe/internal/stream"
)

// Config describes a sample.
type Config struct {
	Activation model.Activation
	Leaves     model.PerExpert // the experts' own activations; nil: all have Activation
	Tree       model.Hierarchy // of their gates; the zero value is one gate
	K, D, N    int             // experts, features, rows
	Sigma      float64         // of the noise, ≥ 0
	// the density of y, by its name in host/mixture, whose first own parameter Sigma then is; "" is normal noise
	Family string
	Own    []float64 // its other own parameters
	Zero   bool      // beside the experts of counts there is one that is always 0
	Trials int       // of the binomial in every row, a column behind the target; 0 is one, without the column
	Design Design    // "" is Paper
	Inputs Inputs
	// Recurrent makes the last feature of every row the target of the row before, 0 for
	// the first: a state, drawn with noise around the experts of (inputs, state before).
	Recurrent bool
	Seed      uint64
}

// Sampler is a [dataset.Source] of N rows. Every pass gives the same rows;
// passes may run at the same time.
type Sampler struct {
	Truth *model.Params // the parameters that the rows are drawn from

	cfg     Config
	density mixture.Density
	psi     []float64 // its own parameters
	mean    []float64 // μ of the inputs; nil where it is 0
}

// New returns the sampler of cfg. The error is one of cfg: k, d, n or σ out of
// range, or d too small for the design.
func New(cfg Config) (*Sampler, error) {
	if cfg.Design == "" {
		cfg.Design = Paper
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	rng := stream.Sample(cfg.Seed, stream.Parameters)
	s := &Sampler{cfg: cfg}
	var err error
	if s.Truth, err = cfg.Design.draw(cfg.K, cfg.D, cfg.Zero, rng); err != nil {
		return nil, err
	}
	s.Truth.Sigma[0], s.Truth.Tree = cfg.Sigma, cfg.Tree
	if s.density = mixture.DensityOf(cfg.Family); !mixture.Normal(s.density) {
		s.Truth.Family = cfg.Family
	}
	if cfg.Trials > 0 {
		s.density = mixture.OfTrials(s.density, []float64{float64(cfg.Trials)})
	}
	if len(s.density.Own()) == 0 {
		s.Truth.Sigma = nil
	}
	for _, v := range cfg.Own {
		s.Truth.Own = append(s.Truth.Own, []float64{v})
	}
	s.psi = s.Truth.OwnOf(nil, 0)
	if cfg.Inputs.Mixture {
		s.mean = make([]float64, cfg.D)
		unitVector(s.mean, nil, rng)
		floats.Scale(cfg.Inputs.norm(), s.mean)
	}
	return s, nil
}

func (c *Config) check() error {
	if err := checkSize(c.K, c.D, c.N, c.Sigma); err != nil {
		return err
	}
	if err := c.checkFamily(); err != nil {
		return err
	}
	switch {
	case len(c.Tree.Branches) > 0 && c.Tree.Leaves() != c.K:
		return fmt.Errorf("k = %d, the tree %s has %d leaves", c.K, c.Tree, c.Tree.Leaves())
	case c.Zero && (c.Recurrent || len(c.Tree.Branches) > 0 || !mixture.Counts(mixture.DensityOf(c.Family))):
		return fmt.Errorf("a zero expert is for counts under one gate, and for rows that do not follow each other")
	case c.Leaves != nil && len(c.Leaves) != c.K:
		return fmt.Errorf("%d activations for k = %d experts", len(c.Leaves), c.K)
	case c.Inputs.Mixture && !(c.Inputs.P >= 0 && c.Inputs.P <= 1):
		return fmt.Errorf("p = %v of the mixture of inputs, want 0 to 1", c.Inputs.P)
	case c.Inputs.Mixture && !(c.Inputs.Norm >= 0 && c.Inputs.Norm <= maxNorm):
		return fmt.Errorf("norm %v of the mixture of inputs, want a positive number, at most %g", c.Inputs.Norm,
			maxNorm)
	}
	least, err := c.Design.least(min(c.K, dataset.MaxColumns), c.Zero) // more experts fit no table
	if err != nil {
		return err
	}
	if c.D < least {
		return fmt.Errorf("d = %d is too small: design %s with k = %d needs d of at least %d", c.D, c.Design, c.K,
			least)
	}
	return memory.Check(fmt.Sprintf("the parameters of %d experts over %d features", c.K, c.D),
		4*8*float64(c.K)*float64(c.D))
}

// checkSize refuses sizes and noise that no sample has.
func checkSize(k, d, n int, sigma float64) error {
	const most int64 = math.MaxInt64 / 8 / dataset.MaxColumns
	switch {
	case k < 1:
		return fmt.Errorf("k = %d, want at least 1", k)
	case n < 1:
		return fmt.Errorf("n = %d, want at least 1", n)
	case d >= dataset.MaxColumns:
		return fmt.Errorf("d = %d, want less than %d", d, dataset.MaxColumns)
	case int64(n) > most:
		return fmt.Errorf("n = %d rows are more than a file holds, want at most %d", n, most)
	case !(sigma >= 0) || math.IsInf(sigma, 0):
		return fmt.Errorf("sigma = %v, want a finite number that is not negative", sigma)
	}
	return nil
}

// Mean returns μ of the inputs' mixture, nil where they are N(0, I).
func (s *Sampler) Mean() []float64 { return slices.Clone(s.mean) }

// Schema names the columns x1 … xd, y and trials where there are any.
func (s *Sampler) Schema() dataset.Schema {
	schema := dataset.Names(s.cfg.D, true)
	if s.cfg.Trials > 0 {
		schema.Roles[model.Trials] = "trials"
	}
	return schema
}

// Read draws the rows. Block b comes from a random stream of its own, which
// gives for every row in turn: with a mixture of inputs a uniform number (its
// sign of μ is + below p), d normal numbers (x, the last unused where it is a state), a uniform number (z, by the
// cumulated gate probabilities), and a normal number (the noise; of another density the quantile of y at
// the share of smaller ones).
func (s *Sampler) Read(ctx context.Context, fn func(*model.Block) error) error {
	return s.ReadLabelled(ctx, func(b *model.Block, _ []int) error { return fn(b) })
}

// ReadLabelled is Read with the hidden expert z of every row of the block,
// which is valid, like the block, until fn returns.
func (s *Sampler) ReadLabelled(ctx context.Context, fn func(b *model.Block, z []int) error) error {
	d := newDraw(s)
	return blocks(ctx, s.cfg.N, func(at, n int) error {
		if err := d.block(ctx, at, n); err != nil {
			return err
		}
		return fn(&d.b, d.z[:n])
	})
}

// blocks calls fn for every block of a sample with its first row and its length.
func blocks(ctx context.Context, rows int, fn func(at, n int) error) error {
	for at := 0; at < rows; at += model.BlockRows {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := fn(at, min(model.BlockRows, rows-at)); err != nil {
			return err
		}
	}
	return nil
}

// draw is the state of one pass.
type draw struct {
	s                       *Sampler
	b                       model.Block
	z                       []int
	x, pick, noise          []float64
	others                  [][]float64 // noise of further targets
	logits, predictor, mean []float64

	gate  mixture.Mixture
	row   []float64 // features of one row, where they are recurrent
	state float64   // the last target
}

func newDraw(s *Sampler) *draw {
	const n = model.BlockRows
	return &draw{
		gate: mixture.Mixture{Gate: mixture.GateOf(s.cfg.Tree)}, row: make([]float64, s.cfg.D),
		s: s, z: make([]int, n),
		x: make([]float64, s.cfg.D*n), pick: make([]float64, n), noise: make([]float64, n),
		logits: make([]float64, s.Truth.Classes()*n), predictor: make([]float64, s.cfg.K*n), mean: make([]float64, n),
	}
}

// block draws n rows, the first of them row at of the sample.
func (d *draw) block(ctx context.Context, at, n int) error {
	d.b = model.Block{N: n, X: d.x[:d.s.cfg.D*n], Y: d.mean[:n]}
	if trials := d.s.cfg.Trials; trials > 0 {
		d.b.Role[model.Trials] = slices.Repeat([]float64{float64(trials)}, n)
	}
	d.random(stream.Sample(d.s.cfg.Seed, uint64(at/model.BlockRows)))
	if d.s.cfg.Recurrent {
		if err := d.recur(ctx); err != nil {
			return err
		}
		return finite(d.b.Y, at)
	}
	if err := d.choose(ctx); err != nil {
		return err
	}
	if mixture.Normal(d.s.density) {
		floats.AddScaled(d.b.Y, d.s.cfg.Sigma, d.noise[:n])
		return finite(d.b.Y, at)
	}
	for t, mean := range d.b.Y {
		if d.z[t] == d.s.cfg.K { // always 0
			continue
		}
		d.b.Y[t] = mixture.FromNormal(d.s.density, mean, d.s.psi, d.noise[t])
	}
	return finite(d.b.Y, at)
}

// random draws what is random of the rows, in the documented order.
func (d *draw) random(rng *rand.Rand) {
	cfg := &d.s.cfg
	for i := range d.b.N {
		sign := 0.0
		if cfg.Inputs.Mixture {
			sign = -1
			if rng.Float64() < cfg.Inputs.P {
				sign = 1
			}
		}
		for j := range cfg.D {
			d.b.X[j*d.b.N+i] = rng.NormFloat64()
		}
		d.pick[i] = rng.Float64()
		d.noise[i] = rng.NormFloat64()
		for _, noise := range d.others {
			noise[i] = rng.NormFloat64()
		}
		for j, m := range d.s.mean {
			d.b.X[j*d.b.N+i] += sign * m
		}
	}
}

// choose sets every row's expert z and leaves g_z(⟨a_z, x⟩) in Y, 0 for the expert that is always 0, which is z = K.
func (d *draw) choose(ctx context.Context) error {
	n, k, classes := d.b.N, d.s.cfg.K, d.s.Truth.Classes()
	logits, predictor := d.logits[:classes*n], d.predictor[:k*n]
	d.gate.Prior(logits, d.s.Truth, &d.b)
	d.s.Truth.Predictors(predictor, &d.b)
	if d.s.cfg.Leaves != nil {
		if err := d.s.cfg.Leaves.Eval(ctx, predictor, predictor); err != nil {
			return err
		}
	}
	for i := range n {
		if d.z[i] = classOf(logits[i:], n, classes, d.pick[i]); d.z[i] < k {
			d.b.Y[i] = predictor[d.z[i]*n+i]
		}
	}
	if d.s.cfg.Leaves != nil {
		return nil
	}
	err := d.s.cfg.Activation.Eval(ctx, d.b.Y, d.b.Y)
	for i, z := range d.z[:n] {
		if z == k { // the one that is always 0
			d.b.Y[i] = 0
		}
	}
	return err
}

// classOf is the class that a uniform number falls to, by cumulated probabilities of k
// classes, stride n apart.
func classOf(p []float64, n, k int, u float64) int {
	z, below := 0, p[0]
	for z < k-1 && u >= below {
		z++
		below += p[z*n]
	}
	return z
}

// recur draws the targets one after the other, each with the one before as its last
// feature.
func (d *draw) recur(ctx context.Context) error {
	cfg, n := &d.s.cfg, d.b.N
	p, g, last := d.logits[:cfg.K], d.predictor[:cfg.K], d.b.Col(cfg.D-1)
	row := model.Block{N: 1, X: d.row}
	var act model.Activation = cfg.Leaves
	if cfg.Leaves == nil {
		act = cfg.Activation
	}
	for i := range n {
		last[i] = d.state
		for j := range d.row {
			d.row[j] = d.b.X[j*n+i]
		}
		d.gate.Prior(p, d.s.Truth, &row)
		d.s.Truth.Predictors(g, &row)
		if err := act.Eval(ctx, g, g); err != nil {
			return err
		}
		d.z[i] = classOf(p, 1, cfg.K, d.pick[i])
		d.state = mixture.FromNormal(d.s.density, g[d.z[i]], d.s.psi, d.noise[i])
		d.b.Y[i] = d.state
	}
	return nil
}
