package problem

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/tensor"
)

const (
	// looked is the number of features up to which collinear ones are looked for: it costs their third power.
	looked = 500
	// inflated is the variance inflation 1/(1 − R²) of a feature, R² of its regression on the others, from which on a
	// short relation is looked for, and tied the one at which it is said without: what is left of the feature is
	// little or rounding, which the inflation, a little being added to the diagonal, does not tell apart.
	inflated, tied = 100, 1e8
	// mostTerms are so few that a relation is short, and related is the share of the rows in which it must hold.
	mostTerms, related = 4, 0.9
)

// collinear says which feature the others tell, by the sums of the features as they came; "" where none. A relation is
//
//	x_j = Σ_l β_l·x_l + c,  β_l whole numbers, at most mostTerms of them
//
// as nearly as the regression of x_j on the others has it, which then must hold to rounding in most rows.
// Without an intercept one with a constant tells no coefficients apart from others.
func collinear(ctx context.Context, names []string, intercept bool, second *tensor.Second,
	rows model.Rows) (string, error) {
	d := second.D
	if d < 2 || d > looked {
		return "", nil
	}
	sd, precision, ok := precisionOf(second.Covariance())
	if !ok {
		return "", nil
	}
	worst, most := -1, float64(tied)
	said := ""
	for j := range d {
		vif := precision.At(j, j)
		if vif < inflated {
			continue
		}
		if vif > most {
			worst, most = j, vif
		}
		r := relationOf(j, sd, precision)
		if r == nil {
			continue
		}
		holds, n, err := r.count(ctx, rows)
		if err != nil {
			return "", err
		}
		if float64(holds) >= related*float64(n) && (intercept || r.constant == 0) {
			sum := slices.Min(r.whole) > 0 // which reads best
			if said == "" || sum {
				said = r.sentence(names, holds, n)
			}
			if sum {
				break
			}
		}
	}
	if said != "" || worst < 0 || !intercept {
		return said, nil
	}
	return fmt.Sprintf("feature %s is a sum of multiples of the others, or nearly (variance inflation above %g): "+
		"their coefficients can hardly be told apart; leave one of them out", names[worst], float64(tied)), nil
}

// precisionOf returns the standard deviations and the inverse of the correlations, with a little added to their
// diagonal; not ok where there is none.
func precisionOf(cov *mat.SymDense) (sd []float64, precision *mat.SymDense, ok bool) {
	const added = 1e-10
	d := cov.SymmetricDim()
	sd = make([]float64, d)
	for j := range sd {
		if sd[j] = math.Sqrt(cov.At(j, j)); !(sd[j] > 0) || math.IsInf(sd[j], 0) {
			return nil, nil, false
		}
	}
	r := mat.NewSymDense(d, nil)
	for j := range d {
		for l := range j {
			r.SetSym(j, l, cov.At(j, l)/(sd[j]*sd[l]))
		}
		r.SetSym(j, j, 1+added)
	}
	var factor mat.Cholesky
	if !factor.Factorize(r) {
		return nil, nil, false
	}
	precision = mat.NewSymDense(d, nil)
	if err := factor.InverseTo(precision); err != nil {
		if _, ill := err.(mat.Condition); !ill {
			return nil, nil, false
		}
	}
	return sd, precision, true
}

// relation is x_of = Σ whole·x + constant, which the first row in which it holds says.
type relation struct {
	of       int
	features []int
	whole    []float64
	constant float64
}

// relationOf is the one that the regression of feature j is near; nil where it is near none.
func relationOf(j int, sd []float64, precision *mat.SymDense) *relation {
	// of a coefficient to a whole number; of a standard deviation of x_j, what counts as nothing
	const near, little = 0.1, 0.05
	r := &relation{of: j}
	for l := range sd {
		if l == j {
			continue
		}
		beta := -precision.At(j, l) / precision.At(j, j) * sd[j] / sd[l]
		whole := math.Round(beta)
		switch {
		case whole == 0 && math.Abs(beta)*sd[l] < little*sd[j]:
		case whole == 0 || math.Abs(beta-whole) > near || len(r.features) == mostTerms:
			return nil
		default:
			r.features, r.whole = append(r.features, l), append(r.whole, whole)
		}
	}
	if r.features == nil {
		return nil
	}
	return r
}

// count finds the constant, the commonest, and says in how many of the rows the relation holds with it.
func (r *relation) count(ctx context.Context, rows model.Rows) (holds, n int, err error) {
	const rounding = 1e-9
	var left []float64
	size := 0.0
	err = model.InOrder(ctx, rows, func(b *model.Block) error {
		for t, v := range b.Col(r.of) {
			for i, l := range r.features {
				x := r.whole[i] * b.Col(l)[t]
				v -= x
				size = max(size, math.Abs(x))
			}
			left = append(left, v)
		}
		return nil
	})
	if err != nil || len(left) == 0 {
		return 0, 0, err
	}
	sorted := slices.Sorted(slices.Values(left))
	r.constant = sorted[len(sorted)/2] // where it holds in most rows
	for _, v := range left {
		if math.Abs(v-r.constant) <= rounding*max(size, 1e-300) {
			holds++
		}
	}
	if math.Abs(r.constant) <= rounding*size {
		r.constant = 0
	}
	return holds, len(left), nil
}

// sentence says the relation, and what is to be done.
func (r *relation) sentence(names []string, holds, n int) string {
	var sum strings.Builder
	for i, l := range r.features {
		times := ""
		if c := math.Abs(r.whole[i]); c != 1 {
			times = fmt.Sprintf("%g*", c)
		}
		switch {
		case r.whole[i] < 0:
			sum.WriteString(" - ")
		case i > 0:
			sum.WriteString(" + ")
		}
		sum.WriteString(times + names[l])
	}
	switch {
	case r.constant > 0:
		fmt.Fprintf(&sum, " + %.6g", r.constant)
	case r.constant < 0:
		fmt.Fprintf(&sum, " - %.6g", -r.constant)
	}
	what, in := "collinear", "every row"
	if holds < n {
		what, in = "nearly collinear", fmt.Sprintf("%d of %d rows", holds, n)
	}
	return fmt.Sprintf("features are %s: %s = %s in %s, so that their coefficients can hardly be told apart; --drop %s",
		what, names[r.of], strings.TrimSpace(sum.String()), in, names[r.of])
}
