package tensor

import (
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Decomposition is T ≈ Σ_i Values[i]·u_i⊗u_i⊗u_i with the u_i, the rows of Vectors,
// orthonormal and Values[i] = T(u_i,u_i,u_i).
type Decomposition struct {
	Values  []float64
	Vectors *mat.Dense // k×k
	// Agreeing is how many of the restarts for the first u reached its value.
	Agreeing int
}

const (
	powerSteps  = 100
	powerTol    = 1e-13 // of |u_{t+1} − u_t|²
	polishSteps = 500
)

// Orthogonal decomposes a tensor that is near Σ_i λ_i·v_i⊗v_i⊗v_i with m
// orthonormal v_i. The vectors of [Sym3.Power] are made orthonormal and, all
// together, climb Σ_i T(u_i,u_i,u_i)², the least-squares fit of the decomposition
// (Comon 1994), by U ← polar(Values[i]·T(·,u_i,u_i)): the errors of each deflation would
// else be in what comes after it.
func (t *Sym3) Orthogonal(rng *rand.Rand, restarts int) Decomposition {
	d := t.Power(rng, restarts)
	d.Vectors = polar(d.Vectors)
	d.polish(t.Full())
	return d
}

// Power is the tensor power method (Anandkumar, Ge, Hsu, Kakade & Telgarsky 2014):
// iterations u ← T(·,u,u)/|T(·,u,u)| from restarts random directions find the u of the
// largest T(u,u,u), which is taken off, and so on. Its vectors are unit vectors, and
// orthogonal only as far as T is what it should be.
func (t *Sym3) Power(rng *rand.Rand, restarts int) Decomposition {
	m := t.M
	left := t.Full()
	d := Decomposition{Vectors: mat.NewDense(m, m, nil)}
	for i := range m {
		u, agreeing := largest(left, rng, m, restarts)
		if i == 0 {
			d.Agreeing = agreeing
		}
		d.Vectors.SetRow(i, u)
		value := along(left, u)
		d.Values = append(d.Values, value)
		for a := range m {
			for b := range m {
				floats.AddScaled(left[(a*m+b)*m:(a*m+b+1)*m], -value*u[a]*u[b], u)
			}
		}
	}
	return d
}

// largest returns the direction of the largest T(u,u,u) over restarts.
func largest(full []float64, rng *rand.Rand, m, restarts int) (best []float64, agreeing int) {
	var values []float64
	for range restarts {
		u := make([]float64, m)
		for j := range u {
			u[j] = rng.NormFloat64()
		}
		floats.Scale(1/floats.Norm(u, 2), u)
		next := make([]float64, m)
		for range powerSteps {
			contract(next, full, u)
			norm := floats.Norm(next, 2)
			if norm == 0 {
				break
			}
			floats.Scale(1/norm, next)
			moved := floats.Distance(next, u, 2)
			copy(u, next)
			if moved*moved < powerTol {
				break
			}
		}
		v := along(full, u)
		if v < 0 { // T(−u,−u,−u) = −T(u,u,u)
			floats.Scale(-1, u)
			v = -v
		}
		if best == nil || v > values[0] {
			best = u
			values = append([]float64{v}, values...)
			continue
		}
		values = append(values, v)
	}
	for _, v := range values {
		if values[0]-v <= 1e-6*values[0] {
			agreeing++
		}
	}
	return best, agreeing
}

// along returns T(u,u,u).
func along(full, u []float64) float64 {
	c := make([]float64, len(u))
	contract(c, full, u)
	return floats.Dot(c, u)
}

// polar returns the orthogonal matrix nearest to a.
func polar(a *mat.Dense) *mat.Dense {
	var svd mat.SVD
	m, _ := a.Dims()
	if !svd.Factorize(a, mat.SVDFull) {
		return eye(m)
	}
	var u, v, out mat.Dense
	svd.UTo(&u)
	svd.VTo(&v)
	out.Mul(&u, v.T())
	return &out
}

func eye(m int) *mat.Dense {
	out := mat.NewDense(m, m, nil)
	for i := range m {
		out.Set(i, i, 1)
	}
	return out
}

// polish climbs Σ Values² over orthonormal vectors until a step no longer raises it.
func (d *Decomposition) polish(full []float64) {
	m, _ := d.Vectors.Dims()
	value, gradient := d.fit(full)
	for range polishSteps {
		next := Decomposition{Vectors: polar(gradient)}
		v, g := next.fit(full)
		if !(v > value*(1+1e-15)) {
			break
		}
		value, gradient = v, g
		d.Vectors = next.Vectors
	}
	d.Values = make([]float64, m)
	for i := range m {
		u := d.Vectors.RawRowView(i)
		if d.Values[i] = along(full, u); d.Values[i] < 0 {
			floats.Scale(-1, u)
			d.Values[i] = -d.Values[i]
		}
	}
}

// fit returns Σ T(u_i,u_i,u_i)² and the rows T(u_i,u_i,u_i)·T(·,u_i,u_i).
func (d *Decomposition) fit(full []float64) (value float64, gradient *mat.Dense) {
	m, _ := d.Vectors.Dims()
	gradient = mat.NewDense(m, m, nil)
	for i := range m {
		u, g := d.Vectors.RawRowView(i), gradient.RawRowView(i)
		contract(g, full, u)
		v := floats.Dot(g, u)
		value += v * v
		floats.Scale(v, g)
	}
	return value, gradient
}
