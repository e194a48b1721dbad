package claims

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/sdk"
)

// Values are g at fixed nodes: what tells two activations of one name apart. They
// stand in files beside the name and the parameters.
type Values struct {
	Z []float64 `json:"z"` // ascending: those of Nodes at which g is finite
	G []float64 `json:"g"` // g(z_i)
}

// Nodes returns the nodes of [Values], ascending: −8, −7.75, …, 8, where all of
// N(0,1) lies but for 1e-15, and the tails ±12, ±20, ±50, ±100 and ±1000, where
// functions show that are alike in the middle, such as a ReLU and min(ReLU, 10).
func Nodes() []float64 {
	tail := []float64{12, 20, 50, 100, 1000}
	var z []float64
	for _, v := range slices.Backward(tail) {
		z = append(z, -v)
	}
	for i := -4 * Reach; i <= 4*Reach; i++ {
		z = append(z, float64(i)/4)
	}
	return append(z, tail...)
}

// ValuesOf returns the values of act. Within Reach they must be finite; nodes
// further out at which g overflows are left out. They are asked for one by one, for
// a plugin that overflows at one of them, which may be an error there, fails in its
// batch.
func ValuesOf(ctx context.Context, act sdk.Activation) (*Values, error) {
	c := Of(act)
	within := func(z float64) bool { return math.Abs(z) <= Reach }
	var middle []float64
	for _, z := range Nodes() {
		if within(z) {
			middle = append(middle, z)
		}
	}
	g, err := c.values(ctx, "Eval", act.Eval, middle)
	if err != nil {
		return nil, err
	}
	v := new(Values)
	for _, z := range Nodes() {
		if within(z) {
			v.Z, v.G, g = append(v.Z, z), append(v.G, g[0]), g[1:]
			continue
		}
		far := []float64{z}
		err := act.Eval(ctx, far, far)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err == nil && numeric.Finite(far[0]) {
			v.Z, v.G = append(v.Z, z), append(v.G, far[0])
		}
	}
	return v, nil
}

// Recheck asks an activation in another process whether it still is the function
// that it was at first, where it can tell. It is for the end of what was computed
// with it.
func Recheck(ctx context.Context, act sdk.Activation) error {
	if r, ok := act.(interface{ Recheck(context.Context) error }); ok {
		return r.Recheck(ctx)
	}
	return nil
}

// minNodes is how many nodes values have at least: those within Reach.
const minNodes = 8*Reach + 1

// Validate refuses values that cannot have been written by us: too few, not
// finite, or at nodes that do not ascend.
func (v *Values) Validate() error {
	switch {
	case len(v.Z) != len(v.G):
		return fmt.Errorf("%d values at %d nodes", len(v.G), len(v.Z))
	case len(v.Z) < minNodes:
		return fmt.Errorf("values at %d nodes, want at least %d", len(v.Z), minNodes)
	case !numeric.Finite(v.Z...) || !numeric.Finite(v.G...):
		return errors.New("a node or value is not finite")
	}
	for i := range v.Z[1:] {
		if !(v.Z[i] < v.Z[i+1]) {
			return fmt.Errorf("node %v follows %v, want ascending nodes", v.Z[i+1], v.Z[i])
		}
	}
	return nil
}

// DifferenceError reports a place where two functions of one name differ.
type DifferenceError struct {
	Z         float64
	Was, Is   float64 // what was recorded, and what is now
	Tolerance float64
}

func (e *DifferenceError) Error() string {
	return fmt.Sprintf("g(%v) was %.12g and is %.12g", e.Z, e.Was, e.Is)
}

// Evaluator is a function of one number, by the batch.
type Evaluator interface {
	Eval(ctx context.Context, dst, z []float64) error
}

// Compare compares what is recorded with act at the same nodes. Two agree where
//
//	|Δ| ≤ 1e-9·max(|v|, sd g(Z))
//
// at every node: implementations differ by rounding, the exponentials of two
// libraries by some 1e-16, and other functions by far more. The first place where
// they do not is a [*DifferenceError].
func (v *Values) Compare(ctx context.Context, act Evaluator) error {
	now := make([]float64, len(v.Z))
	err := act.Eval(ctx, now, v.Z)
	beyond := (*numeric.NotFiniteError)(nil)
	if err != nil && !errors.As(err, &beyond) {
		return err
	}
	sd := v.deviation()
	if beyond != nil {
		i, _ := slices.BinarySearch(v.Z, beyond.Z)
		return &DifferenceError{beyond.Z, v.G[min(i, len(v.G)-1)], beyond.Value, agreement * sd}
	}
	for i, was := range v.G {
		if tol := agreement * max(math.Abs(was), sd); !(math.Abs(now[i]-was) <= tol) {
			return &DifferenceError{v.Z[i], was, now[i], tol}
		}
	}
	return nil
}

// CompareValues compares what is recorded with what is recorded elsewhere, at the
// nodes that both have, as [Values.Compare] does.
func (v *Values) CompareValues(o *Values) error {
	sd := v.deviation()
	for i, z := range v.Z {
		j, ok := slices.BinarySearch(o.Z, z)
		if !ok {
			continue
		}
		if tol := agreement * max(math.Abs(v.G[i]), sd); !(math.Abs(o.G[j]-v.G[i]) <= tol) {
			return &DifferenceError{z, v.G[i], o.G[j], tol}
		}
	}
	return nil
}

// agreement is the difference that two computations of one g may have.
const agreement = 1e-9

// deviation returns sd g(Z), Z ~ N(0,1), by trapezoids between the nodes within
// Reach: a scale, not a moment.
func (v *Values) deviation() float64 {
	var weight, mean float64
	each := func(fn func(w, g float64)) {
		for i := 1; i < len(v.Z); i++ {
			if a, b := v.Z[i-1], v.Z[i]; a >= -Reach && b <= Reach {
				fn((b-a)*math.Exp(-a*a/2), v.G[i-1])
				fn((b-a)*math.Exp(-b*b/2), v.G[i])
			}
		}
	}
	each(func(w, g float64) { weight += w; mean += w * g })
	if weight == 0 {
		return 0
	}
	mean /= weight
	var square float64
	each(func(w, g float64) { square += w * (g - mean) * (g - mean) })
	return math.Sqrt(square / weight)
}
