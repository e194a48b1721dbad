package gru

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Oracle is what recorded steps say of a unit's candidate φ = (W, U, b, c) to one who
// knows the gates, and knows them to be 0 or 1: with J the derivatives of
// tanh(⟨W,x⟩ + b + r·(⟨U,h⟩ + c)) at the steps on which that is the state after, the least
// squares φ̂ and their covariance (JᵀJ)⁻¹σ². No unbiased estimate from the same steps
// does better.
type Oracle struct {
	Estimate   []float64
	Covariance *mat.SymDense // at the true φ
}

// oracleSteps are those of Gauss and Newton from the truth; the second is within 1e−3 of a standard error already.
const oracleSteps = 4

// Oracles are those of all units of a layer for the steps of a recording, nil of one of which the steps do not
// determine φ. Errors are those of ctx.
func Oracles(ctx context.Context, l *Layer, r Recording) ([]*Oracle, error) {
	out := make([]*Oracle, l.Hidden())
	at := make([][]float64, len(out))
	for j := range out {
		at[j] = phiOf(l, j)
	}
	for step := range oracleSteps {
		all, err := squaresOf(ctx, l, at, r)
		if err != nil {
			return nil, err
		}
		for j, s := range all {
			var root mat.Cholesky
			if !root.Factorize(s.information) {
				out[j] = nil
				continue
			}
			if step == 0 {
				v := mat.NewSymDense(len(at[j]), nil)
				if root.InverseTo(v) != nil {
					continue
				}
				out[j] = &Oracle{Covariance: v}
			}
			move := mat.NewVecDense(len(at[j]), nil)
			if out[j] != nil && root.SolveVecTo(move, s.score) == nil {
				floats.Add(at[j], move.RawVector().Data)
				out[j].Estimate = at[j]
			}
		}
	}
	return out, nil
}

// phiOf is unit j's φ.
func phiOf(l *Layer, j int) []float64 {
	phi := append([]float64{}, l.Candidate.W.RawRowView(j)...)
	phi = append(phi, l.Candidate.U.RawRowView(j)...)
	return append(phi, l.Candidate.B[j], l.RecurrentBias[j])
}

// squares are JᵀJ/σ² of a unit and Jᵀ(h_t − tanh(…))/σ².
type squares struct {
	information *mat.SymDense
	score       *mat.VecDense
}

// squaresOf are those of all units at these φ.
func squaresOf(ctx context.Context, l *Layer, at [][]float64, r Recording) ([]squares, error) {
	inputs, d := l.Inputs(), l.Inputs()+l.Hidden()
	all := make([]squares, len(at))
	for j := range all {
		all[j] = squares{mat.NewSymDense(d+2, nil), mat.NewVecDense(d+2, nil)}
	}
	one := mat.NewVecDense(d+2, nil)
	err := Record(ctx, l, r, func(row []float64) error {
		for j, s := range all {
			if l.Update.at(j, row[:d]) > 0 {
				continue
			}
			open := 0.0
			if l.Reset.at(j, row[:d]) > 0 {
				open = 1
			}
			for i, v := range row[:d] {
				if i >= inputs {
					v *= open
				}
				one.SetVec(i, v)
			}
			one.SetVec(d, 1)
			one.SetVec(d+1, open)
			mean := math.Tanh(mat.Dot(one, mat.NewVecDense(d+2, at[j])))
			one.ScaleVec((1-mean*mean)/r.Sigma, one)
			s.information.SymRankOne(s.information, 1, one)
			s.score.AddScaledVec(s.score, (row[d+j]-mean)/r.Sigma, one)
		}
		return nil
	})
	return all, err
}

// at is unit j's predictor at (x, h).
func (a Affine) at(j int, row []float64) float64 {
	w := a.W.RawRowView(j)
	return floats.Dot(w, row[:len(w)]) + floats.Dot(a.U.RawRowView(j), row[len(w):]) + a.B[j]
}
