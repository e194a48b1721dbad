package sample

import (
	"context"
	"fmt"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/mixture/joint"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/stream"
)

// VectorSampler draws rows of several targets y1 … yM from experts with vector outputs under
// one gate (002 Eq. 4 with the gate shared). It is a [dataset.Source] of a table with the
// columns x1 … xd, y1 … yM, of which the last is the schema's target. Every pass gives the same
// rows.
type VectorSampler struct {
	Truth *model.VectorParams

	of *Sampler // of the first target
}

// NewVector returns the sampler of so many targets. Every one has regressors of its own by
// the design, which go to the experts one further on from target to target: those of design
// paper are the same for all. The noise of two targets of a row has this correlation, that of
// each the level of cfg. With one target it draws what [New] does.
func NewVector(cfg Config, targets int, correlation float64) (*VectorSampler, error) {
	switch {
	case targets < 1 || targets+cfg.D > dataset.MaxColumns:
		return nil, fmt.Errorf("%d targets, want at least 1, and with the features at most %d columns", targets,
			dataset.MaxColumns)
	case cfg.Recurrent && targets > 1:
		return nil, fmt.Errorf("a recurrent sample has one target")
	}
	if least := -1 / max(float64(targets-1), 1); !(correlation > least && correlation < 1) || !(cfg.Sigma > 0) {
		return nil, fmt.Errorf("correlation %v of %d targets with sigma %v, want a sigma above 0 and a correlation "+
			"between %.3g and 1", correlation, targets, cfg.Sigma, least)
	}
	first, err := New(cfg)
	if err != nil {
		return nil, err
	}
	coordinates := []*model.Params{first.Truth}
	for c := 1; c < targets; c++ {
		next, err := first.cfg.Design.draw(cfg.K, cfg.D, false, stream.Sample(cfg.Seed, stream.Parameters-uint64(c)))
		if err != nil {
			return nil, err
		}
		q := first.Truth.Clone()
		for i := range cfg.K {
			copy(q.Regressor(i), next.Regressor((i+c)%cfg.K))
		}
		coordinates = append(coordinates, q)
	}
	cov := mat.NewSymDense(targets, nil)
	for c := range targets {
		for b := range c {
			cov.SetSym(c, b, cfg.Sigma*cfg.Sigma*correlation)
		}
		cov.SetSym(c, c, cfg.Sigma*cfg.Sigma)
	}
	noise, ok := model.VectorNoiseOf(cov, correlation != 0)
	if !ok {
		return nil, fmt.Errorf("correlation %v of %d targets with sigma %v is out of the range of float64", correlation,
			targets, cfg.Sigma)
	}
	return &VectorSampler{Truth: model.JoinCoordinates(coordinates, []model.VectorNoise{noise}), of: first}, nil
}

// Under returns the sampler of the same rows with targets of a family of host/mixture/joint at these own parameters,
// and the scales of s in the place of its normal noise.
func (s *VectorSampler) Under(family string, own []float64) (*VectorSampler, error) {
	if s.Truth.M == 1 || !joint.Known(family) || len(joint.Of(family).Own(s.Truth.M)) != len(own) {
		return nil, fmt.Errorf("%d targets with the %d own parameters %v of the family %q, which there is not",
			s.Truth.M, len(own), own, family)
	}
	out := &VectorSampler{Truth: s.Truth.Clone(), of: s.of}
	out.Truth.Family, out.Truth.Noise = family, []model.VectorNoise{{Own: own}}
	for range s.Truth.M {
		out.Truth.Noise[0].Scale = append(out.Truth.Noise[0].Scale, s.of.cfg.Sigma)
	}
	return out, nil
}

// Targets names the targets: y1 … yM, y where there is one.
func (s *VectorSampler) Targets() []string {
	if s.Truth.M == 1 {
		return []string{"y"}
	}
	names := make([]string, s.Truth.M)
	for c := range names {
		names[c] = fmt.Sprintf("y%d", c+1)
	}
	return names
}

// Schema implements [dataset.Source].
func (s *VectorSampler) Schema() dataset.Schema {
	out := s.of.Schema()
	names := s.Targets()
	last := len(names) - 1
	out.Features, out.Target = append(out.Features, names[:last]...), names[last]
	return out
}

// Read draws the rows. Block b comes from a random stream of its own, which gives for every
// row in turn what that of [Sampler.Read] does, with a normal number for the noise of every
// target.
func (s *VectorSampler) Read(ctx context.Context, fn func(*model.Block) error) error {
	p := s.Truth
	d := newDraw(s.of)
	for range p.M - 1 {
		d.others = append(d.others, make([]float64, model.BlockRows))
	}
	predictors := make([]float64, p.K*p.M*model.BlockRows)
	columns := make([]float64, (p.D+p.M)*model.BlockRows)
	return blocks(ctx, s.of.cfg.N, func(at, n int) error {
		d.b = model.Block{N: n, X: d.x[:p.D*n], Y: d.mean[:n]}
		rng := stream.Sample(s.of.cfg.Seed, uint64(at/model.BlockRows))
		d.random(rng)
		if err := d.choose(ctx); err != nil {
			return err
		}
		x, y := columns[:p.D*n], columns[p.D*n:(p.D+p.M)*n]
		copy(x, d.b.X)
		if err := s.means(ctx, y, predictors[:p.K*p.M*n], d); err != nil {
			return err
		}
		if p.Family != "" {
			s.drawAbout(rng, y, n)
		} else {
			s.addNoise(y, d)
		}
		if err := finite(y, at); err != nil {
			return err
		}
		last := (p.D + p.M - 1) * n
		return fn(&model.Block{N: n, X: columns[:last], Y: columns[last : last+n]})
	})
}

// means writes g of every row's expert to y, M columns.
func (s *VectorSampler) means(ctx context.Context, y, predictors []float64, d *draw) error {
	p, n := s.Truth, d.b.N
	p.Predictors(predictors, &d.b)
	var act model.Activation = s.of.cfg.Leaves
	if s.of.cfg.Leaves == nil {
		act = s.of.cfg.Activation
	}
	if err := act.Eval(ctx, predictors, predictors); err != nil {
		return err
	}
	for r, z := range d.z[:n] {
		for c := range p.M {
			y[c*n+r] = predictors[(z*p.M+c)*n+r]
		}
	}
	return nil
}

// drawAbout draws the targets of a block about the means y, from what its stream gives after the normal noise.
func (s *VectorSampler) drawAbout(rng *rand.Rand, y []float64, n int) {
	law, row := joint.NoisesOf(s.Truth)[0].Law, make([]float64, s.Truth.M)
	for r := range n {
		for c := range row {
			row[c] = y[c*n+r]
		}
		law.Draw(rng, row, row)
		for c, v := range row {
			y[c*n+r] = v
		}
	}
}

// addNoise adds the noise of a block to y: ε_c = s_c·N(0,1) − Σ_{b<c} u_cb·ε_b.
func (s *VectorSampler) addNoise(y []float64, d *draw) {
	n, noise := d.b.N, s.Truth.Noise[0]
	unit, m := noise.Unit(), s.Truth.M
	columns := append([][]float64{d.noise}, d.others...)
	for c, column := range columns {
		column = column[:n]
		floats.Scale(noise.Scale[c], column)
		for b := range c {
			floats.AddScaled(column, -unit[c*m+b], columns[b][:n])
		}
		floats.Add(y[c*n:(c+1)*n], column)
	}
}
