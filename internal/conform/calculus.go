package conform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/internal/claims"
	"github.com/gatedlearning/moe/sdk"
)

// checkDerivative compares g′ with differences of g, at many more points than a
// host does before it relies on it.
func checkDerivative(ctx context.Context, _ sdk.Activation, c *claims.Claims) error {
	return reason(c.DerivativeAt(ctx, points(3000)))
}

// reason leaves out of an error what a finding says anyway.
func reason(err error) error {
	if claim := (*claims.Error)(nil); errors.As(err, &claim) {
		return errors.New(claim.Reason)
	}
	return err
}

func largest(v []float64) float64 {
	var m float64
	for _, x := range v {
		m = max(m, math.Abs(x))
	}
	return m
}

// checkKinks looks for jumps of g and g′ between the declared kinks, and at
// each kink compares g′ with its values on both sides.
func checkKinks(ctx context.Context, act sdk.Activation) error {
	kinks := act.Info().Kinks
	for _, m := range methods {
		if err := findJump(ctx, act, m, kinks); err != nil {
			return err
		}
	}
	return checkOneSided(ctx, act, kinks)
}

// findJump bisects the cells of a grid across which the function changes most,
// keeping the half with the larger change. At a cell of 1e-12 a smooth function
// changes by less than 1e-6 of its range even where its slope is 1e5 times as
// steep as that; a jump stays.
func findJump(ctx context.Context, act sdk.Activation, m method, kinks []float64) error {
	const cells, candidates, narrow = 4096, 8, 1e-12
	grid := make([]float64, cells+1)
	for i := range grid {
		grid[i] = claims.Reach * (2*float64(i)/cells - 1)
	}
	// A third of a cell off: dyadic points are where kinks are likely, and a
	// kink at a grid point would fall between two cells.
	for i := range grid {
		grid[i] += claims.Reach * 2.0 / cells / 3
	}
	v, err := m.of(ctx, act, grid)
	if err != nil {
		return err
	}
	var order []int
	for i := range cells {
		if !slices.ContainsFunc(kinks, func(k float64) bool { return grid[i] <= k && k <= grid[i+1] }) {
			order = append(order, i)
		}
	}
	change := func(i int) float64 { return math.Abs(v[i+1] - v[i]) }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(change(b), change(a)) })
	height := slices.Max(v) - slices.Min(v)
	for _, i := range order[:min(candidates, len(order))] {
		lo, hi, vlo, vhi := grid[i], grid[i+1], v[i], v[i+1]
		for hi-lo > narrow {
			mid := lo + (hi-lo)/2
			val, err := m.of(ctx, act, []float64{mid})
			if err != nil {
				return err
			}
			if math.Abs(val[0]-vlo) >= math.Abs(vhi-val[0]) {
				hi, vhi = mid, val[0]
			} else {
				lo, vlo = mid, val[0]
			}
		}
		if jump := math.Abs(vhi - vlo); jump > 1e-6*height {
			return fmt.Errorf("%s jumps from %.6g to %.6g at z = %.6g, which is not declared as a kink", m.name, vlo,
				vhi, lo)
		}
	}
	return nil
}

// checkOneSided compares g′ at each kink with g′ at 1e-7 from it, where a
// smooth side has changed by 1e-7 of g″; 1e-4 of the largest g′ is allowed.
func checkOneSided(ctx context.Context, act sdk.Activation, kinks []float64) error {
	const step, tol = 1e-7, 1e-4
	for _, k := range kinks {
		by := step * max(1, math.Abs(k))
		d, err := methods[1].of(ctx, act, []float64{k - by, k, k + by})
		if err != nil {
			return err
		}
		allowed := tol * max(largest(d), math.SmallestNonzeroFloat64)
		if !(math.Abs(d[1]-d[0]) <= allowed || math.Abs(d[1]-d[2]) <= allowed) {
			return fmt.Errorf("g′ at the kink %v is %.6g, neither %.6g as on the left nor %.6g as on the right", k,
				d[1], d[0], d[2])
		}
	}
	return nil
}
