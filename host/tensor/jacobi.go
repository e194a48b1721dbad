package tensor

import (
	"math"
	"math/rand/v2"
	"slices"

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
	m, in := t.M, t.inRows(u)
	for range jacobiSweeps {
		largest := 0.0
		for i := range m {
			for j := i + 1; j < m; j++ {
				angle := math.Atan2(in.at(i, i, i, j)-in.at(i, j, j, j),
					(in.at(i, i, i, i)+in.at(j, j, j, j)-6*in.at(i, i, j, j))/4) / 4
				largest = max(largest, math.Abs(angle))
				s, c := math.Sincos(angle)
				in.rotate(i, j, c, s)
				turn(u.RawRowView(i), u.RawRowView(j), c, s)
			}
		}
		if largest < jacobiTol {
			break
		}
	}
	for i := range m {
		sum += in.at(i, i, i, i)
	}
	return u, sum
}

// turn turns x and y in their plane, to c·x + s·y and c·y − s·x.
func turn(x, y []float64, c, s float64) {
	for a, v := range x {
		w := y[a]
		x[a], y[a] = c*v+s*w, c*w-s*v
	}
}

// rotating is a tensor that turns in planes of coordinates. Entry (a,b,c,d), a ≤ b ≤ c ≤ d, is at
// first[a] + second[b] + third[c] + d of the data.
type rotating struct {
	m                    int
	data                 []float64
	first, second, third []int
}

// inRows returns the tensor in the coordinates of the orthonormal rows of u: these are signs of the present
// coordinates, turned in planes (Givens).
func (t *Sym4) inRows(u *mat.Dense) *rotating {
	type plane struct {
		i, j int
		c, s float64
	}
	m := t.M
	var planes []plane
	triangle := mat.DenseCopyOf(u) // which turns make a diagonal of signs
	for col := range m {
		for row := col + 1; row < m; row++ {
			x, y := triangle.RawRowView(col), triangle.RawRowView(row)
			length := math.Hypot(x[col], y[col])
			if length == 0 {
				continue
			}
			c, s := x[col]/length, y[col]/length
			turn(x, y, c, s)
			planes = append(planes, plane{col, row, c, s})
		}
	}
	signs := make([]float64, m)
	for i := range signs {
		signs[i] = math.Copysign(1, triangle.At(i, i))
	}
	turned := Sym4{m, slices.Clone(t.Data)}
	turned.ScaleModes(signs)
	out := newRotating(turned)
	for _, p := range slices.Backward(planes) {
		out.rotate(p.i, p.j, p.c, -p.s)
	}
	return out
}

func newRotating(t Sym4) *rotating {
	m := t.M
	r := &rotating{m, t.Data, make([]int, m), make([]int, m), make([]int, m)}
	for a := range m {
		left := m - a
		r.first[a] = monomials(m, 4) - monomials(left, 4) + monomials(left, 3)
		r.second[a] = monomials(left, 2) - monomials(left, 3)
		r.third[a] = -monomials(left, 2) - a
	}
	return r
}

// at is entry (a,b,c,d), a ≤ b ≤ c ≤ d.
func (t *rotating) at(a, b, c, d int) float64 { return t.data[t.first[a]+t.second[b]+t.third[c]+d] }

// place is where the entry of these indices is, in whatever order.
func (t *rotating) place(a, b, c, d int) int {
	a, b = min(a, b), max(a, b)
	c, d = min(c, d), max(c, d)
	a, c = min(a, c), max(a, c)
	b, d = min(b, d), max(b, d)
	b, c = min(b, c), max(b, c)
	return t.first[a] + t.second[b] + t.third[c] + d
}

// rotate turns all indices in the plane of i < j. Entries with the same other indices turn among each other: two
// where there are three others, and so on to five where there is none.
func (t *rotating) rotate(i, j int, c, s float64) {
	three, four := inPlane(3, c, s), inPlane(4, c, s)
	cc, cs, ss := c*c, c*s, s*s
	for a := range t.m {
		if a == i || a == j {
			continue
		}
		for b := a; b < t.m; b++ {
			if b == i || b == j {
				continue
			}
			t.rotateFrom(a, b, i, j, c, s)
			ii, ij, jj := t.place(a, b, i, i), t.place(a, b, i, j), t.place(a, b, j, j)
			x, y, z := t.data[ii], t.data[ij], t.data[jj]
			t.data[ii], t.data[ij], t.data[jj] = cc*x+2*cs*y+ss*z, (cc-ss)*y+cs*(z-x), ss*x-2*cs*y+cc*z
		}
		t.mix(&three, t.place(a, i, i, i), t.place(a, i, i, j), t.place(a, i, j, j), t.place(a, j, j, j))
	}
	t.mix(&four, t.place(i, i, i, i), t.place(i, i, i, j), t.place(i, i, j, j), t.place(i, j, j, j),
		t.place(j, j, j, j))
}

// rotateFrom turns the entries (i,a,b,d) and (j,a,b,d) of all other d ≥ b ≥ a. Where d is above i, or j, they lie side
// by side.
func (t *rotating) rotateFrom(a, b, i, j int, c, s float64) {
	fromI, fromJ := t.place(a, b, i, t.m-1)-(t.m-1), t.place(a, b, j, t.m-1)-(t.m-1)
	ab := t.first[a] + t.second[b]
	for d := b; d < i; d++ {
		from := ab + t.third[d]
		turnAt(t.data, from+i, from+j, c, s)
	}
	for d := max(b, i+1); d < j; d++ {
		turnAt(t.data, fromI+d, ab+t.third[d]+j, c, s)
	}
	above := max(b, j+1)
	turn(t.data[fromI+above:fromI+t.m], t.data[fromJ+above:fromJ+t.m], c, s)
}

func turnAt(data []float64, i, j int, c, s float64) {
	x, y := data[i], data[j]
	data[i], data[j] = c*x+s*y, c*y-s*x
}

// mix turns entries of which l indices are j, for l = 0, 1, …, and the others of those that turn i.
func (t *rotating) mix(turn *[5][5]float64, places ...int) {
	var old [5]float64
	for l, at := range places {
		old[l] = t.data[at]
	}
	for l, at := range places {
		sum := 0.0
		for of := range places {
			sum += turn[l][of] * old[of]
		}
		t.data[at] = sum
	}
}

// inPlane is how the entries of n indices i and j turn: in row l are the coefficients of (c + s·J)^(n−l)·(c·J − s)^l,
// a polynomial in J.
func inPlane(n int, c, s float64) (out [5][5]float64) {
	for l := range n + 1 {
		row := &out[l]
		row[0] = 1
		for of := range n {
			constant, slope := c, s
			if of < l {
				constant, slope = -s, c
			}
			for power := of + 1; power > 0; power-- {
				row[power] = constant*row[power] + slope*row[power-1]
			}
			row[0] *= constant
		}
	}
	return out
}
