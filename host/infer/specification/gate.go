package specification

import (
	"slices"

	"gonum.org/v1/gonum/mat"
)

// omitHardGates leaves out what few of the draws tell of gates: where a gate is hard few rows are in
// doubt between its branches, fewer of them were drawn, and a regression on scores that are 0
// in nearly all draws takes off anything. Of the scores of so many gates, which begin at from and
// have the coefficients of features of these scales each, those directions are left out in which
// fewer draws than rowsPerCoefficient for each coefficient are in doubt; it
// returns the gates that have no more than that in all, whose tests say nothing.
//
// A direction's draws in doubt are draws·E⟨v, s⟩² for scores s in units of the features' and
// a v of unit length: a row that two branches may have, of features of the usual size, counts
// as 1/4 at most.
func (q *quadraticForms) omitHardGates(from, gates int, scale []float64, draws float64) (hard []int) {
	coefficients := len(scale)
	size := gates * coefficients
	if size == 0 {
		return nil
	}
	least := rowsPerCoefficient * float64(coefficients) / draws
	g := mat.NewSymDense(size, nil)
	for a := range size {
		for b := a; b < size; b++ {
			g.SetSym(a, b, q.cov.At(from+a, from+b)/(scale[a%coefficients]*scale[b%coefficients]))
		}
	}
	var eig mat.EigenSym
	if !eig.Factorize(g, true) {
		return nil
	}
	values := eig.Values(nil) // ascending
	few, _ := slices.BinarySearch(values, least)
	if few == 0 {
		return nil
	}
	for j := range gates {
		doubt := 0.0
		for a := j * coefficients; a < (j+1)*coefficients; a++ {
			doubt += g.At(a, a) / float64(coefficients)
		}
		if doubt < least {
			hard = append(hard, j)
		}
	}
	turn := mat.NewDense(size, size, nil) // from scores to directions
	var vectors mat.Dense
	eig.VectorsTo(&vectors)
	turn.Apply(func(i, a int, _ float64) float64 { return vectors.At(a, i) / scale[a%coefficients] }, turn)
	q.turn(from, turn)
	q.omit(from, few)
	return hard
}

// turn replaces the terms from the given one on by their products with a square matrix.
func (q *quadraticForms) turn(from int, by *mat.Dense) {
	size, _ := by.Dims()
	step := func(terms *mat.Dense) {
		_, columns := terms.Dims()
		of := terms.Slice(from, from+size, 0, columns).(*mat.Dense)
		of.Mul(by, mat.DenseCopyOf(of))
	}
	step(mat.NewDense(len(q.sums), 1, q.sums))
	q.then(step)
	cov, all := mat.DenseCopyOf(q.cov), len(q.sums) // products with a SymDense are slow
	rows, columns := cov.Slice(from, from+size, 0, all).(*mat.Dense), cov.Slice(0, all, from, from+size).(*mat.Dense)
	var turned mat.Dense
	turned.Mul(by, rows)
	rows.Copy(&turned)
	turned.Reset()
	turned.Mul(columns, by.T())
	columns.Copy(&turned)
	for i := range q.sums {
		for j := i; j < len(q.sums); j++ {
			q.cov.SetSym(i, j, cov.At(i, j))
		}
	}
}
