package gru

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/internal/stream"
)

// Gap is how far the next state of a layer's trees is from that of the layer, over the
// steps of a sequence and all hidden units.
type Gap struct {
	RMS, Max float64
	State    float64 // rms of the layer's own states, to compare with
}

// Compare goes through steps inputs drawn from N(0, I) with the layer whose gates'
// predictors are multiplied by sharpness, and measures its trees at every state.
func (l *Layer) Compare(steps int, gates Gates, sharpness float64, seed uint64) Gap {
	l = l.sharpened(sharpness)
	unit := l.NewStepper(gates)
	trees := &Trees{unit} // at the same predictors
	rng := stream.New(seed, stream.Sequence, 0)
	x, h := make([]float64, l.Inputs()), make([]float64, l.Hidden())
	own, mean := make([]float64, len(h)), make([]float64, len(h))
	var gap Gap
	for range steps {
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		unit.Next(own, x, h)
		trees.means(mean, h)
		for j, v := range own {
			d := math.Abs(mean[j] - v)
			gap.Max = max(gap.Max, d) // NaN stays
			gap.RMS += d * d
			gap.State += v * v
		}
		h, own = own, h
	}
	n := float64(steps * len(h))
	gap.RMS, gap.State = math.Sqrt(gap.RMS/n), math.Sqrt(gap.State/n)
	return gap
}

// sharpened returns the layer with the predictors of its gates multiplied by s.
func (l *Layer) sharpened(s float64) *Layer {
	out := *l
	out.Update, out.Reset = l.Update.scaled(s), l.Reset.scaled(s)
	return &out
}

func (a Affine) scaled(s float64) Affine {
	out := Affine{W: new(mat.Dense), U: new(mat.Dense), B: make([]float64, len(a.B))}
	out.W.Scale(s, a.W)
	out.U.Scale(s, a.U)
	floats.ScaleTo(out.B, s, a.B)
	return out
}
