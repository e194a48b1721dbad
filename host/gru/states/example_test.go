package states_test

import (
	"context"
	"fmt"
	"log"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/gru"
	"github.com/gatedlearning/moe/host/gru/states"
)

// A layer of two units over two inputs is recorded for 1,500 steps, and learned from them. Its gates decide by the sign of
// their predictors.
func ExampleLearn() {
	layer := &gru.Layer{
		Form:          gru.ResetAfter,
		Update:        affine([]float64{1, -1, .5, 1}, []float64{.5, 0, 0, -.5}),
		Reset:         affine([]float64{-1, .5, 1, 1}, []float64{0, 1, 1, 0}),
		Candidate:     affine([]float64{.8, .3, -.5, .6}, []float64{.4, -.7, .9, .2}),
		RecurrentBias: []float64{.3, -.3},
	}
	record := gru.Recording{Steps: 1000, Sigma: .01, Gates: gru.Binary, Seed: 1}
	learned, err := states.Learn(context.Background(), states.Record(layer, record), states.Config{Hidden: 2})
	if err != nil {
		log.Fatal(err)
	}
	for j, unit := range learned.Units {
		update, reset := unit.States()
		fmt.Printf("unit %d: update gate %s, reset gate %s; a unit %v, judged %v\n", j+1, update, reset, unit.IsUnit(), unit.Judged())
	}
	fmt.Printf("U of the candidate is %.2f, was %.2f\n", learned.Candidate.U.RawMatrix().Data,
		layer.Candidate.U.RawMatrix().Data)
	// Output:
	// unit 1: update gate switches, reset gate switches; a unit true, judged true
	// unit 2: update gate switches, reset gate switches; a unit true, judged true
	// U of the candidate is [0.40 -0.70 0.90 0.20], was [0.40 -0.70 0.90 0.20]
}

func affine(w, u []float64) gru.Affine {
	return gru.Affine{W: mat.NewDense(2, 2, w), U: mat.NewDense(2, 2, u), B: make([]float64, 2)}
}
