package tensor

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
)

const (
	jacobiSweeps = 100
	// jacobiTol is the rotation, in radians, below which a sweep's are rounding.
	jacobiTol = 1e-12
)

// Orthogonal returns the orthonormal rows u_i of the largest Σ_i T(u_i,u_i,u_i,u_i)
// that climbs from random rows reach, and how many of them did, to 1e−6. Of
// orthonormal rows Σ_ij T(u_i,u_i,u_j,u_j) does not depend on the rows: for any μ > −1
// these minimise Σ_{i≠j} T(u_i,u_i,u_j,u_j) − μ·Σ_i T(u_i,u_i,u_i,u_i), the terms of 002
// Eq. 7 in T4.
func (t *Sym4) Orthogonal(rng *rand.Rand, starts int) (u *mat.Dense, agreeing int) {
	sums := make([]float64, starts)
	best := 0
	for s := range sums {
		g := mat.NewDense(t.M, t.M, nil)
		g.Apply(func(int, int, float64) float64 { return rng.NormFloat64() }, g)
		var v *mat.Dense
		if v, sums[s] = t.rotated(polar(g)); s == 0 || sums[s] > sums[best] {
			u, best = v, s
		}
	}
	for _, v := range sums {
		if sums[best]-v <= 1e-6*math.Abs(sums[best]) {
			agreeing++
		}
	}
	return u, agreeing
}

// rotated climbs Σ_i T(u_i,u_i,u_i,u_i) over orthonormal u_i from the rows of u by Jacobi
// rotations (Comon 1994): in the plane of u_i and u_j the sum is a constant plus
//
//	cos 4θ·(T_iiii + T_jjjj − 6T_iijj)/4 + sin 4θ·(T_iiij − T_ijjj)
//
// whose maximum is known. It changes u, and returns it with the sum.
func (t *Sym4) rotated(u *mat.Dense) (_ *mat.Dense, sum float64) {
	m := t.M
	full := t.full()
	for mode := range 4 {
		full = inRows(full, u, mode)
	}
	at := func(a, b, c, d int) float64 { return full[((a*m+b)*m+c)*m+d] }
	for range jacobiSweeps {
		largest := 0.0
		for i := range m {
			for j := i + 1; j < m; j++ {
				angle := math.Atan2(at(i, i, i, j)-at(i, j, j, j), (at(i, i, i, i)+at(j, j, j, j)-6*at(i, i, j,
					j))/4) / 4
				largest = max(largest, math.Abs(angle))
				s, c := math.Sincos(angle)
				for mode := range 4 {
					rotate(full, m, mode, i, j, c, s)
				}
				x, y := u.RawRowView(i), u.RawRowView(j)
				for a := range x {
					x[a], y[a] = c*x[a]+s*y[a], c*y[a]-s*x[a]
				}
			}
		}
		if largest < jacobiTol {
			break
		}
	}
	for i := range m {
		sum += at(i, i, i, i)
	}
	return u, sum
}

// full returns all m⁴ entries, entry (a,b,c,d) at ((a·m+b)·m+c)·m+d.
func (t *Sym4) full() []float64 {
	m := t.M
	out := make([]float64, m*m*m*m)
	t.each(func(i, a, b, c, d int) {
		x := [4]int{a, b, c, d}
		for _, s := range permutations4 {
			out[((x[s[0]]*m+x[s[1]])*m+x[s[2]])*m+x[s[3]]] = t.Data[i]
		}
	})
	return out
}

// inRows returns the tensor with one index in the coordinates of the rows of u.
func inRows(full []float64, u *mat.Dense, mode int) []float64 {
	m, _ := u.Dims()
	step := stride(m, mode)
	out := make([]float64, len(full))
	for at := range full {
		r := at / step % m
		base := at - r*step
		for c, v := range u.RawRowView(r) {
			out[at] += v * full[base+c*step]
		}
	}
	return out
}

// rotate turns one index of the tensor in the plane of i and j.
func rotate(full []float64, m, mode, i, j int, c, s float64) {
	step := stride(m, mode)
	for outer := 0; outer < len(full); outer += m * step {
		x, y := full[outer+i*step:outer+(i+1)*step], full[outer+j*step:outer+(j+1)*step]
		for a := range x {
			x[a], y[a] = c*x[a]+s*y[a], c*y[a]-s*x[a]
		}
	}
}

// stride is how far apart two neighbours in an index are.
func stride(m, mode int) int {
	step := 1
	for range mode {
		step *= m
	}
	return step
}
