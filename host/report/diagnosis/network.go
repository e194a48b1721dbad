package diagnosis

import (
	"context"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/network/networkfile"
	"github.com/gatedlearning/moe/internal/numeric"
)

// Network is what the page of a network shows of the rows: a sample of
// them, and the distribution of the residuals over all.
type Network struct {
	Rows   int
	Points []NetworkPoint
	// Residuals are the shares of rows by (y − f(x))/σ, in residualBins bins on
	// [−ResidualRange, ResidualRange]; the outer bins take what lies beyond. They are
	// nil where σ is 0.
	Residuals []float64
	// Z and Units are every unit's ⟨w_i, x⟩ over the range of the points, and
	// v_i·φ of it.
	Z, Units [][]float64
}

// NetworkPoint is one row.
type NetworkPoint struct {
	Y, Mean float64
	Index   []float64 // ⟨w_i, x⟩ of every unit
	Units   []float64 // v_i·φ(⟨w_i, x⟩)
}

// OfNetwork reads the rows of src once through the network.
func OfNetwork(ctx context.Context, f *networkfile.Network, act model.Activation,
	src dataset.Source) (*Network, error) {
	n := f.Model()
	d := new(Network)
	if n.Sigma > 0 {
		d.Residuals = make([]float64, residualBins)
	}
	stride := (f.Fit.N + maxPoints - 1) / maxPoints
	mean, units := make([]float64, model.BlockRows), make([]float64, n.K*model.BlockRows)
	index := make([]float64, n.K*model.BlockRows)
	err := src.Read(ctx, func(b *model.Block) error {
		if err := n.Mean(ctx, mean[:b.N], units, act, b); err != nil {
			return err
		}
		model.Linear(index[:n.K*b.N], n.Weights, nil, b)
		for r := range b.N {
			if d.Residuals != nil {
				e := (b.Y[r] - mean[r]) / n.Sigma
				d.Residuals[bin((e+ResidualRange)/(2*ResidualRange), residualBins)]++
			}
			if d.Rows%stride == 0 {
				p := NetworkPoint{Y: b.Y[r], Mean: mean[r]}
				for i, v := range n.Output {
					p.Index, p.Units = append(p.Index, index[i*b.N+r]), append(p.Units, v*units[i*b.N+r])
				}
				d.Points = append(d.Points, p)
			}
			d.Rows++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	floats.Scale(1/float64(max(d.Rows, 1)), d.Residuals)
	return d, d.along(ctx, n, act)
}

// along evaluates the units over the ranges of the points.
func (d *Network) along(ctx context.Context, n *model.Network, act model.Activation) error {
	for i, v := range n.Output {
		var own []float64
		for _, p := range d.Points {
			own = append(own, p.Index[i])
		}
		lo, hi := numeric.Extent(own)
		z, u := make([]float64, curvePoints), make([]float64, curvePoints)
		floats.Span(z, lo, hi)
		if err := act.Eval(ctx, u, z); err != nil {
			return err
		}
		floats.Scale(v, u)
		d.Z, d.Units = append(d.Z, z), append(d.Units, u)
	}
	return nil
}
