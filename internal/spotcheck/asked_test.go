package spotcheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// doubling is an activation whose values are twice their arguments, from the call turn on three times.
func doubling(chunk, turn int) (*Asked, *int) {
	calls := new(int)
	call := func(_ context.Context, _ string, dst, z []float64) error {
		*calls++
		if len(z) > chunk {
			return fmt.Errorf("%d values at once, %d at most", len(z), chunk)
		}
		by := 2.0
		if *calls >= turn {
			by = 3
		}
		for i := range z {
			dst[i] = by * z[i]
		}
		return nil
	}
	return NewAsked("double", chunk, call, func(method, reason string, cause error) error {
		return fmt.Errorf("%s: %s", method, errors.Join(errors.New(reason), cause))
	}), calls
}

// TestCanaries: what is asked for again at every check are values of the first eight batches, up to 16 of
// those that were due together, with what was said there; of later batches none.
func TestCanaries(t *testing.T) {
	a, _ := doubling(100, 1000)
	for i := range 20 {
		z := []float64{1 + float64(i)}
		if err := a.Eval(t.Context(), z, z); err != nil {
			t.Fatal(err)
		}
	}
	z, values := a.eval.kept()
	first := slices.Sorted(slices.Values(z))
	if !slices.Equal(first, []float64{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("asked again are %v, want those of the first eight batches", z)
	}
	for i := range z {
		if values[i] != 2*z[i] {
			t.Errorf("%v at %v, want twice that", values[i], z[i])
		}
	}
}

// TestChunks: values are asked for a message at a time, also those that are asked for again; what has become
// another function is found when it is rechecked, and a message that is another the second time at once.
func TestChunks(t *testing.T) {
	z := make([]float64, 95)
	for i := range z {
		z[i] = float64(i)
	}
	out := make([]float64, len(z))
	a, calls := doubling(10, 1000)
	if err := errors.Join(a.Deriv(t.Context(), out, z), a.Recheck(t.Context())); err != nil || out[94] != 188 {
		t.Errorf("%v, %v", out[94], err)
	}
	if *calls < 10 {
		t.Errorf("%d calls for 95 values of at most 10", *calls)
	}
	turned, _ := doubling(100, 4) // the first call, the same again, and a batch
	err := errors.Join(turned.Eval(t.Context(), out[:5], z[1:6]), turned.Eval(t.Context(), out[:1], z[1:2]))
	if err == nil {
		err = turned.Recheck(t.Context())
	}
	if err == nil || !strings.HasPrefix(err.Error(), "Eval: ") {
		t.Errorf("a function that changes: %v", err)
	}
}
