package network

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
)

// lengths are ‖w_i‖, with the sign that u_i has to take, and v_i.
type lengths struct{ scale, v []float64 }

// magnitudes reads ‖w_i‖, the signs and v off the coefficients of the terms in each
// tensor, v_i·m_j(‖w_i‖)·(±1)^j, by least squares with the weights 1/j! of their noise:
// those in M1 by (VÛ)†M1, in M2 by VᵀM2V, and those of the tensor that was
// decomposed.
func (e *estimator) magnitudes(units *mat.Dense, m1 *mat.VecDense, m2 *mat.SymDense, order int,
	weights []float64) *lengths {
	k := e.k
	var first mat.VecDense
	if first.SolveVec(units.T(), m1) != nil {
		return nil
	}
	gram, rhs := mat.NewSymDense(k, nil), mat.NewVecDense(k, nil)
	for i := range k {
		for j := i; j < k; j++ {
			c := mat.Dot(units.RowView(i), units.RowView(j))
			gram.SetSym(i, j, c*c)
		}
		rhs.SetVec(i, mat.Inner(units.RowView(i), m2, units.RowView(i)))
	}
	var second mat.VecDense
	if second.SolveVec(gram, rhs) != nil {
		return nil
	}
	terms := make([]term, k)
	for i := range terms {
		terms[i] = term{curves: e.curves, orders: [3]int{1, 2, order},
			value: [3]float64{first.AtVec(i), second.AtVec(i), weights[i]}}
	}
	return e.output.lengths(terms, e.given)
}

// term are the coefficients of a rank-1 term in three tensors.
type term struct {
	curves *curves
	orders [3]int
	value  [3]float64
}

var factorial = [maxOrder + 1]float64{1, 1, 2, 6, 24}

// apart is the weighted squared distance of the coefficients from those of a unit
// with output weight v, scale s and orientation sign.
func (t *term) apart(v, s, sign float64) float64 {
	sum := 0.0
	for i, j := range t.orders {
		want := v * t.curves.m(j, s)
		if j%2 == 1 {
			want *= sign
		}
		sum += (t.value[i] - want) * (t.value[i] - want) / factorial[j]
	}
	return sum
}

// withOutput returns the scale, with the orientation as its sign, that fits an
// output weight best, and how far it is from fitting.
func (t *term) withOutput(v float64) (scale, apart float64) {
	apart = math.Inf(1)
	for _, sign := range []float64{1, -1} {
		if s, a := t.curves.minimise(func(s float64) float64 { return t.apart(v, s, sign) }); a < apart {
			scale, apart = sign*s, a
		}
	}
	return scale, apart
}

// withScale returns the output weight that fits a scale best, with its
// orientation.
func (t *term) withScale(s float64) (v, sign float64) {
	least := math.Inf(1)
	for _, o := range []float64{1, -1} {
		var xy, xx float64
		for i, j := range t.orders {
			m := t.curves.m(j, s)
			if j%2 == 1 {
				m *= o
			}
			xy += m * t.value[i] / factorial[j]
			xx += m * m / factorial[j]
		}
		if a := t.apart(xy/xx, s, o); a < least {
			v, sign, least = xy/xx, o, a
		}
	}
	return v, sign
}

// Output says what is known of the output weights v.
type Output int

const (
	Given    Output = iota // v itself
	Signs                  // |v_i| = 1
	UnitRows               // nothing; the rows w_i are unit vectors instead
)

var outputNames = [...]string{"given", "signs", "unit-rows"}

func (o Output) String() string { return outputNames[o] }

// lengths reads what is unknown off the terms.
func (o Output) lengths(terms []term, given []float64) *lengths {
	k := len(terms)
	out := &lengths{scale: make([]float64, k), v: make([]float64, k)}
	switch o {
	case UnitRows:
		for i := range terms {
			out.v[i], out.scale[i] = terms[i].withScale(1)
		}
	case Signs:
		for i := range terms {
			plus, a := terms[i].withOutput(1)
			minus, b := terms[i].withOutput(-1)
			if out.v[i], out.scale[i] = 1, plus; b < a {
				out.v[i], out.scale[i] = -1, minus
			}
		}
	case Given:
		cost, scale := make([]float64, k*k), make([]float64, k*k)
		for i := range terms {
			for j, v := range given {
				scale[i*k+j], cost[i*k+j] = terms[i].withOutput(v)
			}
		}
		for i, j := range metric.Assign(k, cost) {
			out.v[i], out.scale[i] = given[j], scale[i*k+j]
		}
	}
	return out
}

// mostFolded is the number of units up to which all patterns of signs are tried.
const mostFolded = 16

// fold chooses the signs of the v_i of a φ that is odd about the constant c, w_i
// turning with v_i: all are 1 where c is 0, else the pattern for which c·Σ v_i is
// nearest to the mean of y, the first of equals. Other patterns of the same sum
// are the same network.
func (l *lengths) fold(c, mean float64) {
	best := 0
	if math.Abs(c) > vanishing && len(l.v) <= mostFolded {
		least := math.Inf(1)
		for pattern := range 1 << len(l.v) {
			sum := 0.0
			for i, v := range l.v {
				sum += folded(v, pattern, i)
			}
			if apart := math.Abs(c*sum - mean); apart < least-1e-9*math.Abs(mean) {
				best, least = pattern, apart
			}
		}
	}
	for i, v := range l.v {
		if w := folded(v, best, i); w != v {
			l.v[i], l.scale[i] = w, -l.scale[i]
		}
	}
}

// folded is |v|, negative where bit i of the pattern is set.
func folded(v float64, pattern, i int) float64 {
	if pattern>>i&1 == 1 {
		return -math.Abs(v)
	}
	return math.Abs(v)
}

// Odd says whether an activation is odd about a constant, by its values at some
// points: φ(z) + φ(−z) = 2φ(0).
func Odd(ctx context.Context, act model.Activation) (bool, error) {
	z := []float64{0, 0.3, -0.3, 1, -1, 1.7, -1.7, 2.6, -2.6}
	v := make([]float64, len(z))
	if err := act.Eval(ctx, v, z); err != nil {
		return false, err
	}
	for i := 1; i < len(v); i += 2 {
		if math.Abs(v[i]+v[i+1]-2*v[0]) > 1e-9*(math.Abs(v[i])+math.Abs(v[i+1])+math.Abs(v[0])) {
			return false, nil
		}
	}
	return true, nil
}
