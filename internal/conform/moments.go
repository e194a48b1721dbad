package conform

import (
	"context"
	"fmt"
	"math"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
)

// agreement is the difference that is allowed between a plugin's own moments
// or system and quadrature of its g, relative to the natural size of an entry,
// apart from the errors that both state. Closed forms and quadrature agree to
// 1e-13; a wrong formula is off by far more.
const agreement = 1e-9

// sizes returns the natural sizes E[g⁴]^(p/4)·E|Z|^q of the moments.
func sizes(m sdk.Moments) (s [sdk.MaxOrder + 1][sdk.MaxOrder + 1]float64) {
	g := math.Pow(m.Value[4][0], 0.25)
	for p := range s {
		for q := range s[p] {
			s[p][q] = math.Pow(g, float64(p)) * gauss.AbsMoment(q)
		}
	}
	return s
}

func checkMoments(ctx context.Context, act sdk.Activation) error {
	if _, ok := act.(sdk.MomentsProvider); !ok {
		return nil
	}
	own, err := sdk.MomentsOf(ctx, act)
	if err != nil {
		return err
	}
	ours, err := sdk.Quadrature(ctx, act)
	if err != nil {
		return err
	}
	size := sizes(ours)
	for p := range own.Value {
		for q := range own.Value[p] {
			stated := own.Error[p][q]
			if stated > 1e-6*size[p][q] {
				return fmt.Errorf("E[g^%d·Z^%d] is stated with an error of %.1g: too uncertain to use", p, q, stated)
			}
			tol := agreement*size[p][q] + stated + ours.Error[p][q]
			if !(math.Abs(own.Value[p][q]-ours.Value[p][q]) <= tol) {
				return fmt.Errorf("E[g^%d·Z^%d] is given as %.12g, quadrature of g gives %.12g ± %.1g", p, q, own.Value[p][q], ours.Value[p][q], tol)
			}
		}
	}
	return nil
}

// checkSystem compares entry by entry at two noise levels: a misplaced σ² shows
// at the larger one.
func checkSystem(ctx context.Context, act sdk.Activation) error {
	own, ok := act.(sdk.SystemProvider)
	if !ok {
		return nil
	}
	m, err := sdk.Quadrature(ctx, act)
	if err != nil {
		return err
	}
	for _, sigma := range []float64{0, 0.05, 0.5} {
		got, err := own.System(ctx, sigma)
		if err != nil {
			return fmt.Errorf("at sigma = %v: %w", sigma, err)
		}
		want := m.System(sigma)
		if got.Sigma != sigma {
			return fmt.Errorf("asked for sigma = %v, it answers for %v", sigma, got.Sigma)
		}
		g := math.Pow(m.Value[4][0], 0.25) + sigma
		a, b := entries(got, g), entries(want, g)
		for i := range a {
			if !(math.Abs(a[i].value-b[i].value) <= agreement*b[i].size) {
				return fmt.Errorf("at sigma = %v %s is given as %.12g, quadrature of g gives %.12g", sigma, a[i].name, a[i].value, b[i].value)
			}
		}
	}
	return nil
}

type entry struct {
	name        string
	value, size float64
}

// entries lists the numbers of a system with their names and natural sizes, g
// being the size of one factor y. The factor 24 covers the coefficients: 6σ²
// and those of He_4.
func entries(s sdk.System, g float64) []entry {
	var out []entry
	add := func(name string, power int, v float64) {
		out = append(out, entry{name, v, 24 * math.Pow(g, float64(power))})
	}
	for i, row := range s.Matrix {
		for j, v := range row {
			add(fmt.Sprintf("matrix[%d][%d]", i, j), 3-j, v)
		}
	}
	for i, v := range s.RHS {
		add(fmt.Sprintf("rhs[%d]", i), 4, v)
	}
	for i, v := range s.C4 {
		add(fmt.Sprintf("c4[%d]", i), 4-i, v)
	}
	for i, v := range s.Delta {
		add(fmt.Sprintf("delta[%d]", i), 1+i, v)
	}
	for i, v := range s.C2 {
		add(fmt.Sprintf("c2[%d]", i), 2-i, v)
	}
	for i, row := range s.Cubic.Matrix {
		for j, v := range row {
			add(fmt.Sprintf("cubic matrix[%d][%d]", i, j), 2-j, v)
		}
	}
	for i, v := range s.Cubic.RHS {
		add(fmt.Sprintf("cubic rhs[%d]", i), 3, v)
	}
	for i, v := range s.Cubic.C3 {
		add(fmt.Sprintf("c3[%d]", i), 3-i, v)
	}
	return out
}
