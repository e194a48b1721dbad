// Package designtest has designs of regressors that are not orthogonal, for tests.
package designtest

import "gonum.org/v1/gonum/mat"

// Gram is that of k unit vectors of which any two have the product rho.
func Gram(k int, rho float64) *mat.SymDense {
	g := mat.NewSymDense(k, nil)
	for i := range k {
		for j := range i {
			g.SetSym(i, j, rho)
		}
		g.SetSym(i, i, 1)
	}
	return g
}

// Regressors has rows in ℝ^d with these products, its lower Cholesky factor in the first coordinates. It panics where
// there are none.
func Regressors(gram *mat.SymDense, d int) *mat.Dense {
	var factor mat.Cholesky
	if !factor.Factorize(gram) {
		panic("designtest: no vectors have these products")
	}
	var l mat.TriDense
	factor.LTo(&l)
	k, _ := gram.Dims()
	a := mat.NewDense(k, d, nil)
	a.Slice(0, k, 0, k).(*mat.Dense).Copy(&l)
	return a
}
