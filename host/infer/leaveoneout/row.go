package leaveoneout

import "math"

// step is the step of one row that is left out, of its m predictors, in flat matrices of m rows: m is 2k or so,
// too small for a library's routines to be worth their calls.
type step struct {
	m    int
	c    []float64 // C, the upper triangle
	info []float64 // M, all of it
	u    []float64 // the score

	root, half, left []float64 // R, upper triangular with RᵀR = C; R·M; I − R·M·Rᵀ, and its factor
	first, x         []float64
}

func newStep(m int) *step {
	square, vector := func() []float64 { return make([]float64, m*m) }, func() []float64 { return make([]float64, m) }
	return &step{m, square(), square(), vector(), square(), square(), square(), vector(), vector()}
}

// nothingLeft is the pivot of I − R·M·Rᵀ below which it counts as 0: rounding of the products, beside 1.
const nothingLeft = 1e-14

// take puts C·(I − M·C)⁻¹·u = Rᵀ·(I − R·M·Rᵀ)⁻¹·R·u in the place of u, and returns uᵀ times it, the move, and whether
// the matrix in brackets is not positive definite: then the row is lost, and the step C·u.
func (r *step) take() (move float64, lost bool) {
	m := r.m
	r.takeRoot()
	for i := range m {
		root, half := r.root[i*m:(i+1)*m], r.half[i*m:(i+1)*m]
		clear(half)
		first := 0.0
		for h := i; h < m; h++ {
			v := root[h]
			first += v * r.u[h]
			for j, a := range r.info[h*m : (h+1)*m] {
				half[j] += v * a
			}
		}
		r.first[i] = first
	}
	for i := range m {
		half := r.half[i*m : (i+1)*m]
		for j := i; j < m; j++ {
			v := 0.0
			for h, a := range r.root[j*m+j : (j+1)*m] {
				v -= half[j+h] * a
			}
			r.left[i*m+j] = v
		}
		r.left[i*m+i]++
	}
	copy(r.x, r.first)
	lost = !r.solve()
	for j := range m {
		v := 0.0
		for i := 0; i <= j; i++ {
			v += r.root[i*m+j] * r.x[i]
		}
		r.u[j] = v
	}
	for i, v := range r.first {
		move += v * r.x[i]
	}
	return move, lost
}

// takeRoot makes R of C by Cholesky's algorithm, its rows 0 where C has no more rank.
func (r *step) takeRoot() {
	const least = 1e-12 // of a diagonal entry that is left
	m := r.m
	clear(r.root)
	for i := range m {
		v := r.c[i*m+i]
		for h := range i {
			v -= r.root[h*m+i] * r.root[h*m+i]
		}
		if !(v > least*r.c[i*m+i]) {
			continue
		}
		d := math.Sqrt(v)
		r.root[i*m+i] = d
		for j := i + 1; j < m; j++ {
			s := r.c[i*m+j]
			for h := range i {
				s -= r.root[h*m+i] * r.root[h*m+j]
			}
			r.root[i*m+j] = s / d
		}
	}
}

// solve solves left·x = first by Cholesky's algorithm, in place, and says whether it could; x is first where not.
func (r *step) solve() bool {
	m, u := r.m, r.left
	for i := range m {
		for j := i; j < m; j++ {
			s := u[i*m+j]
			for h := range i {
				s -= u[h*m+i] * u[h*m+j]
			}
			switch {
			case j > i:
				u[i*m+j] = s / u[i*m+i]
			case !(s > nothingLeft):
				return false
			default:
				u[i*m+i] = math.Sqrt(s)
			}
		}
	}
	for i := range m { // Uᵀ
		s := r.x[i]
		for h := range i {
			s -= u[h*m+i] * r.x[h]
		}
		r.x[i] = s / u[i*m+i]
	}
	for i := m - 1; i >= 0; i-- {
		s := r.x[i]
		for h := i + 1; h < m; h++ {
			s -= u[i*m+h] * r.x[h]
		}
		r.x[i] = s / u[i*m+i]
	}
	return true
}
