package conform

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/setting"
	"github.com/gatedlearning/moe/internal/stream"
	"github.com/gatedlearning/moe/internal/wire"
	"github.com/gatedlearning/moe/sdk"
)

// method is Eval or Deriv, with its name.
type method struct {
	name string
	call func(sdk.Activation, context.Context, []float64, []float64) error
}

var methods = []method{{"Eval", sdk.Activation.Eval}, {"Deriv", sdk.Activation.Deriv}}

// of returns the method's values at z, which it must leave alone.
func (m method) of(ctx context.Context, act sdk.Activation, z []float64) ([]float64, error) {
	dst := make([]float64, len(z))
	before := slices.Clone(z)
	if err := m.call(act, ctx, dst, z); err != nil {
		return nil, fmt.Errorf("%s of %d values: %w", m.name, len(z), err)
	}
	if i := differ(z, before); i >= 0 {
		return nil, fmt.Errorf("%s changed z[%d] from %v to %v", m.name, i, before[i], z[i])
	}
	return dst, nil
}

// differ returns the first index at which the bits of a and b differ, or −1.
func differ(a, b []float64) int {
	for i := range a {
		if math.Float64bits(a[i]) != math.Float64bits(b[i]) {
			return i
		}
	}
	return -1
}

// points returns n values: the special ones 0, −0 and ±1, then a sample of
// N(0, 3²). The seed is a constant, for a check must fail each time or never.
func points(n int) []float64 {
	rng := stream.New(1, stream.Conformance, 0)
	z := []float64{0, math.Copysign(0, -1), 1, -1}
	for len(z) < n {
		z = append(z, 3*rng.NormFloat64())
	}
	return z[:n]
}

func checkInfo(_ context.Context, act sdk.Activation) error {
	info := act.Info()
	if err := wire.CheckInfo(info); err != nil {
		return err
	}
	if again := act.Info(); !reflect.DeepEqual(info, again) {
		return fmt.Errorf("first %+v, then %+v", info, again)
	}
	return nil
}

func checkValues(ctx context.Context, act sdk.Activation) error {
	z := points(2000)
	for _, m := range methods {
		first, err := m.of(ctx, act, z)
		if err != nil {
			return err
		}
		for i, v := range first {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("%s at z = %v is %v", m.name, z[i], v)
			}
		}
		again, err := m.of(ctx, act, z)
		if err != nil {
			return err
		}
		if i := differ(first, again); i >= 0 {
			return fmt.Errorf("%s at z = %v is first %v, then %v", m.name, z[i], first[i], again[i])
		}
	}
	return nil
}

// checkFar probes g and g′ where no row of standard features leads, but one of
// others may: a model whose g is not finite there cannot predict that row. It asks
// for each value alone, for a plugin that overflows fails in its batch.
func checkFar(ctx context.Context, act sdk.Activation) error {
	var found []any
	for _, m := range methods {
		for _, z := range []float64{-1e6, -1e3, -100, 100, 1e3, 1e6} {
			v, err := m.of(ctx, act, []float64{z})
			beyond := (*numeric.NotFiniteError)(nil)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.As(err, &beyond):
				found = append(found, fmt.Sprintf("%s at z = %v is %v", m.name, z, beyond.Value))
			case err != nil:
				found = append(found, setting.Textf("%s at z = %v fails: %v", m.name, z, err))
			case !numeric.Finite(v...):
				found = append(found, fmt.Sprintf("%s at z = %v is %v", m.name, z, v[0]))
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	all := strings.Repeat(", %v", len(found))[len(", "):]
	return warning{setting.Textf(all+": rows that lead there cannot be predicted", found...)}
}

func checkLengths(ctx context.Context, act sdk.Activation) error {
	for _, m := range methods {
		if err := m.call(act, ctx, nil, nil); err != nil {
			return fmt.Errorf("%s of no values: %w", m.name, err)
		}
		for _, n := range []int{1, 3} {
			if err := m.call(act, ctx, make([]float64, n), make([]float64, 2)); err == nil {
				return fmt.Errorf("%s with %d places for 2 values is no error", m.name, n)
			}
		}
	}
	return nil
}

// checkBatches evaluates the same values in one batch longer than a message,
// backwards, and in pieces of many lengths.
func checkBatches(ctx context.Context, act sdk.Activation) error {
	z := points(wire.Chunk + 1000)
	back := slices.Clone(z)
	slices.Reverse(back)
	for _, m := range methods {
		whole, err := m.of(ctx, act, z)
		if err != nil {
			return err
		}
		reversed, err := m.of(ctx, act, back)
		if err != nil {
			return err
		}
		slices.Reverse(reversed)
		if i := differ(whole, reversed); i >= 0 {
			return fmt.Errorf("%s at z = %v is %v, in the reversed batch %v", m.name, z[i], whole[i], reversed[i])
		}
		for lo, n := 0, 1; lo < 5000; lo, n = lo+n, n%97+1 {
			part, err := m.of(ctx, act, z[lo:lo+n])
			if err != nil {
				return err
			}
			if i := differ(whole[lo:lo+n], part); i >= 0 {
				return fmt.Errorf("%s at z = %v is %v, in a batch of %d %v", m.name, z[lo+i], whole[lo+i], n, part[i])
			}
		}
	}
	return nil
}

func checkInPlace(ctx context.Context, act sdk.Activation) error {
	z := points(3000)
	for _, m := range methods {
		want, err := m.of(ctx, act, z)
		if err != nil {
			return err
		}
		got := slices.Clone(z)
		if err := m.call(act, ctx, got, got); err != nil {
			return err
		}
		if i := differ(want, got); i >= 0 {
			return fmt.Errorf("%s at z = %v is %v, in place %v", m.name, z[i], want[i], got[i])
		}
	}
	return nil
}

func checkNonFinite(ctx context.Context, act sdk.Activation) error {
	z := points(200)
	mixed := slices.Clone(z)
	for i := 5; i < len(mixed); i += 7 {
		mixed[i] = []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[i%3]
	}
	for _, m := range methods {
		want, err := m.of(ctx, act, z)
		if err != nil {
			return err
		}
		got, err := m.of(ctx, act, mixed)
		if err != nil {
			return fmt.Errorf("with NaN and ±Inf in the batch: %w", err)
		}
		for i := range z {
			if mixed[i] == z[i] && math.Float64bits(got[i]) != math.Float64bits(want[i]) {
				return fmt.Errorf("%s at z = %v is %v, beside NaN and ±Inf %v", m.name, z[i], want[i], got[i])
			}
		}
	}
	return nil
}

func checkConcurrency(ctx context.Context, act sdk.Activation) error {
	const workers, calls = 8, 20
	z := points(4096)
	for _, m := range methods {
		want, err := m.of(ctx, act, z)
		if err != nil {
			return err
		}
		errs := make([]error, workers)
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for c := range calls {
					lo := (w*calls + c) * 13
					errs[w] = guard(ctx, func() error {
						got, err := m.of(ctx, act, z[lo:])
						if err != nil {
							return err
						}
						if i := differ(got, want[lo:]); i >= 0 {
							return fmt.Errorf("%s at z = %v is %v, in calls at the same time %v", m.name, z[lo+i],
								want[lo+i], got[i])
						}
						return nil
					})
					if errs[w] != nil {
						return
					}
				}
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return errs[slices.IndexFunc(errs, func(e error) bool { return e != nil })]
		}
	}
	return nil
}
