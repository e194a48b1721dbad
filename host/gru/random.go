package gru

import (
	"context"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Random is a layer of the form reset-after with weights from N(0, 1), those of the
// candidate from N(0, 0.6²) and the gates' biases from N(0, 0.3²).
func Random(rng *rand.Rand, inputs, hidden int) *Layer {
	affine := func(scale, bias float64) Affine {
		a := Affine{mat.NewDense(hidden, inputs, nil), mat.NewDense(hidden, hidden, nil), make([]float64, hidden)}
		for _, part := range []struct {
			values []float64
			scale  float64
		}{{a.W.RawMatrix().Data, scale}, {a.U.RawMatrix().Data, scale}, {a.B, bias}} {
			for i := range part.values {
				part.values[i] = part.scale * rng.NormFloat64()
			}
		}
		return a
	}
	return &Layer{Form: ResetAfter, Update: affine(1, 0.3), Reset: affine(1, 0.3), Candidate: affine(0.6, 0.6),
		RecurrentBias: make([]float64, hidden)}
}

// Balance shifts the biases of a layer's gates so that both of every unit are open on half of the
// steps, as far as twenty rounds of shifting by the mean predictor of 500 steps do. Errors
// are those of ctx.
func Balance(ctx context.Context, l *Layer, seed uint64) error {
	const rounds, steps = 20, 500
	d := l.Inputs() + l.Hidden()
	for range rounds {
		update, reset := make([]float64, l.Hidden()), make([]float64, l.Hidden())
		r := Recording{Steps: steps, Sigma: .01, Gates: Binary, Seed: seed}
		err := Record(ctx, l, r, func(row []float64) error {
			for j := range update {
				update[j] += l.Update.at(j, row[:d]) / steps
				reset[j] += l.Reset.at(j, row[:d]) / steps
			}
			return nil
		})
		if err != nil {
			return err
		}
		floats.Sub(l.Update.B, update)
		floats.Sub(l.Reset.B, reset)
	}
	return nil
}

// Shares are, of every unit of a layer, those of the steps of a recording with gates of 0
// and 1 on which it keeps its state, and takes the candidate of a closed and of an open
// reset gate: by [Leaf]. Errors are those of ctx.
func Shares(ctx context.Context, l *Layer, r Recording) ([][3]float64, error) {
	r.Gates = Binary
	d := l.Inputs() + l.Hidden()
	out := make([][3]float64, l.Hidden())
	err := Record(ctx, l, r, func(row []float64) error {
		for j := range out {
			leaf := Closed
			switch {
			case l.Update.at(j, row[:d]) > 0:
				leaf = Keep
			case l.Reset.at(j, row[:d]) > 0:
				leaf = Open
			}
			out[j][leaf] += 1 / float64(r.Steps)
		}
		return nil
	})
	return out, err
}
