package gru

import (
	"context"

	"github.com/gatedlearning/moe/internal/stream"
)

// Recording says how a layer is recorded.
type Recording struct {
	Steps int
	Sigma float64 // of the noise, as of Observed
	Gates Gates
	Seed  uint64
	// Number tells records of one seed apart: those of two numbers share no random numbers.
	Number uint64
	// Observed makes the noise one of the record alone: the layer goes on without it, and both
	// states of a row have it. Where it is false the noise is the state's own: h_t goes on with
	// it, and the record is exact.
	Observed bool
}

// Record goes through inputs drawn from N(0, I) from the state 0, and calls fn with the
// rows (x_t, h_{t−1}, h_t), I + 2H values that are valid until fn returns,
//
//	h_t = f(x_t, h_{t−1}) + σ·N(0, I)
//
// Equal seeds give equal rows, and more steps begin with the same ones. An error of fn ends it,
// and is returned as it is; so is that of ctx.
func Record(ctx context.Context, l *Layer, r Recording, fn func(row []float64) error) error {
	inputs, hidden := l.Inputs(), l.Hidden()
	rng := stream.Sample(r.Seed, r.Number)
	step := l.NewStepper(r.Gates)
	row := make([]float64, inputs+2*hidden)
	x, before, after := row[:inputs], row[inputs:inputs+hidden], row[inputs+hidden:]
	state, noise := make([]float64, hidden), make([]float64, hidden)
	for t := range r.Steps {
		if t%4096 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		copy(before, state)
		if r.Observed {
			for j, v := range noise {
				before[j] += v // that of the row before
			}
		}
		step.Next(state, x, state)
		for j := range noise {
			noise[j] = r.Sigma * rng.NormFloat64()
			after[j] = state[j] + noise[j]
		}
		if !r.Observed {
			copy(state, after)
		}
		if err := fn(row); err != nil {
			return err
		}
	}
	return nil
}
