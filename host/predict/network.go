package predict

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/numeric"
)

// networkPredictor predicts block by block, reusing its memory.
type networkPredictor struct {
	net   *model.Network
	act   model.Activation
	table string // what errors call the table
	seen  int    // rows predicted so far

	mean, units []float64
}

func newNetworkPredictor(n *model.Network, act model.Activation, table string) *networkPredictor {
	return &networkPredictor{net: n, act: act, table: table, mean: make([]float64, model.BlockRows),
		units: make([]float64, n.K*model.BlockRows)}
}

// predict returns E[y|x] and the values φ(⟨w_i, x⟩) of the units, K rows of b.N;
// both are valid until the next call. A mean that is not finite is a
// *dataset.Error.
func (p *networkPredictor) predict(ctx context.Context, b *model.Block) (mean, units []float64, err error) {
	mean, units = p.mean[:b.N], p.units[:p.net.K*b.N]
	if err := p.net.Mean(ctx, mean, units, p.act, b); err != nil {
		return nil, nil, err
	}
	for r, v := range mean {
		if !numeric.Finite(v) {
			return nil, nil, &dataset.Error{File: p.table,
				Msg: fmt.Sprintf("the prediction for row %d is %v: its values are too large", p.seen+r+1, v)}
		}
	}
	p.seen += b.N
	return mean, units, nil
}

// networkTable is the table of what a network says of another table.
type networkTable struct {
	net    *model.Network
	act    model.Activation
	src    dataset.Source
	extras Extras
}

// NetworkPredictions returns the predictions of a network for a table as a table:
// mean, then the extras: unit1 … unitk with v_i·φ(⟨w_i, x⟩), what each unit adds to
// the mean, and the prediction interval of normal noise. Rows correspond, as with
// [Predictions]. It panics if extras has an interval's level outside [0, 1).
func NetworkPredictions(n *model.Network, act model.Activation, src dataset.Source, extras Extras) dataset.Source {
	mustBeLevel(extras.Interval)
	return &networkTable{net: n, act: act, src: src, extras: extras}
}

// Schema names the columns; none of them is a target.
func (t *networkTable) Schema() dataset.Schema {
	names := []string{"mean"}
	if t.extras.Experts {
		names = append(names, numbered("unit", t.net.K)...)
	}
	if t.extras.Interval > 0 {
		names = append(names, "lower", "upper")
	}
	return dataset.Schema{Name: t.src.Schema().Name, Features: names}
}

// Read implements [dataset.Source].
func (t *networkTable) Read(ctx context.Context, fn func(*model.Block) error) error {
	if err := fits(t.src.Schema(), t.net.D); err != nil {
		return err
	}
	p := newNetworkPredictor(t.net, t.act, t.src.Schema().Name)
	half := t.net.Sigma * distuv.UnitNormal.Quantile((1+t.extras.Interval)/2)
	var x []float64
	return t.src.Read(ctx, func(b *model.Block) error {
		mean, units, err := p.predict(ctx, b)
		if err != nil {
			return err
		}
		x = append(x[:0], mean...)
		if t.extras.Experts {
			for i, v := range t.net.Output {
				floats.Scale(v, units[i*b.N:(i+1)*b.N])
			}
			x = append(x, units...)
		}
		if t.extras.Interval > 0 {
			for _, side := range []float64{-half, half} {
				for _, m := range mean {
					x = append(x, m+side)
				}
			}
		}
		return fn(&model.Block{N: b.N, X: x})
	})
}

// NetworkEvaluation is how well a network describes data. What rests on its
// noise is absent where that has no level, Sigma = 0.
type NetworkEvaluation struct {
	N             int        `json:"n"`
	Weight        float64    `json:"weight,omitempty"`
	LogLikelihood *float64   `json:"log_likelihood"` // null where Sigma is 0
	RMSE          float64    `json:"rmse"`
	R2            *float64   `json:"r2"` // null where the targets are equal
	Calibration   []Coverage `json:"calibration,omitempty"`
	PITHistogram  []float64  `json:"pit_histogram,omitempty"`
}

// EvaluateNetwork is [Evaluate] for a network with normal noise.
func EvaluateNetwork(ctx context.Context, n *model.Network, act model.Activation,
	src dataset.Source) (*NetworkEvaluation, error) {
	noise := distuv.Normal{Sigma: n.Sigma}
	if n.Sigma == 0 {
		noise.Sigma = 1
	}
	p := newNetworkPredictor(n, act, src.Schema().Name)
	density := make([]float64, model.BlockRows)
	e, err := evaluate(ctx, src, n.D, simpler{}, nil, func(ctx context.Context, b *model.Block) (*described, error) {
		mean, _, err := p.predict(ctx, b)
		if err != nil {
			return nil, err
		}
		for r, y := range b.Y {
			density[r] = noise.LogProb(y - mean[r])
		}
		return &described{mean: mean, logDens: density, law: func(r int, y float64) lawful {
			u := noise.CDF(y - mean[r])
			return lawful{u, u, math.NaN()}
		}}, nil
	})
	if err != nil {
		return nil, err
	}
	out := &NetworkEvaluation{N: e.N, Weight: e.Weight, RMSE: e.RMSE, R2: e.R2}
	if n.Sigma > 0 {
		out.LogLikelihood, out.Calibration, out.PITHistogram = &e.LogLikelihood, e.Calibration, e.PITHistogram
	}
	return out, nil
}
