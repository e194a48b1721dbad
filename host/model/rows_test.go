package model

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
)

// TestMap: a view of a view of a part has the values of the functions applied in
// turn, targets and weights of what it is a view of, and leaves that as it was.
func TestMap(t *testing.T) {
	d := blocks(20*BlockRows + 7)
	for i := range d.Blocks {
		d.Blocks[i].Role[Weights] = slices.Repeat([]float64{2}, d.Blocks[i].N)
	}
	double := func(dst, src *Block) {
		for j, v := range src.X {
			dst.X[j] = 2 * v
		}
	}
	twoColumns := func(dst, src *Block) {
		copy(dst.Col(0), src.Col(0))
		for r, v := range src.Col(0) {
			dst.Col(1)[r] = -v
		}
		dst.Role[Weights] = nil
	}
	for _, rows := range []Rows{d, Part(d, 5*BlockRows)} {
		view := Map(Map(rows, 1, double), 2, twoColumns)
		n, _ := rows.Dims()
		if gotN, gotD := view.Dims(); gotN != n || gotD != 2 {
			t.Fatalf("%d rows and %d features, want %d and 2", gotN, gotD, n)
		}
		kept, err := InMemory(t.Context(), view, 2)
		if err != nil {
			t.Fatal(err)
		}
		for i := range Blocks(rows) {
			b, err := rows.Block(i, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := &kept.Blocks[i]
			if !slices.Equal(got.Y, b.Y) || got.Role[Weights] != nil {
				t.Fatalf("block %d: another target, or weights", i)
			}
			for r, v := range b.X {
				if got.Col(0)[r] != 2*v || got.Col(1)[r] != -2*v {
					t.Fatalf("block %d, row %d: %v and %v of %v", i, r, got.Col(0)[r], got.Col(1)[r], v)
				}
			}
		}
	}
	if d.Blocks[1].X[0] != BlockRows || d.Blocks[1].Role[Weights][0] != 2 {
		t.Error("the view changed the rows")
	}
}

// TestTotals: weight, root mean square and standard deviation by their definitions, of
// targets of which one is far from 0.
func TestTotals(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	const n, m = 2*BlockRows + 9, 2
	for _, weighted := range []bool{false, true} {
		d := &Data{N: n, D: 1}
		var all [m][]float64
		weight := 0.0
		for left := n; left > 0; left -= BlockRows {
			b := Block{N: min(left, BlockRows)}
			b.X = make([]float64, b.N)
			for c := range m {
				for range b.N {
					y := 3*rng.NormFloat64() + 1e3*float64(c)
					b.Y, all[c] = append(b.Y, y), append(all[c], y)
				}
			}
			for range b.N {
				w := 1.0
				if weighted {
					w = rng.Float64()
					b.Role[Weights] = append(b.Role[Weights], w)
				}
				weight += w
			}
			d.Blocks = append(d.Blocks, b)
		}
		got, err := TotalsOfEach(d, m)
		if err != nil {
			t.Fatal(err)
		}
		for c, v := range all {
			// Rounding of sums of 1e6's, n of them.
			near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-11*math.Abs(b) }
			if rms, sd := floats.Norm(v, 2)/math.Sqrt(n), stat.PopStdDev(v, nil); !near(got[c].Weight, weight) || !near(got[c].RMS, rms) || !near(got[c].Deviation, sd) {
				t.Errorf("weighted %v, target %d: %+v, want %v, %v, %v", weighted, c, got[c], weight, rms, sd)
			}
		}
	}
}

// TestWorkers: as many as are asked for, within reason; 0 are as many as there are
// processors.
func TestWorkers(t *testing.T) {
	for threads, want := range map[int]int{-1: runtime.GOMAXPROCS(0), 0: runtime.GOMAXPROCS(0), 1: 1, 1 << 10: 1 << 10, math.MaxInt: 1 << 10} {
		if got := Workers(threads); got != want {
			t.Errorf("%d threads: %d workers, want %d", threads, got, want)
		}
	}
	// With one processor the first two would not differ from one thread.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	if got := Workers(0); got != 3 {
		t.Errorf("%d workers on 3 processors", got)
	}
}

// TestFirstCause: one's failure cancels the others, and is what is reported, not
// their cancellations; where all were cancelled, that is.
func TestFirstCause(t *testing.T) {
	bad, worse := errors.New("bad"), errors.New("worse")
	canceled := fmt.Errorf("part: %w", context.Canceled)
	for _, c := range []struct {
		errs []error
		want error
	}{
		{nil, nil},
		{[]error{nil, nil}, nil},
		{[]error{nil, canceled, bad, worse}, bad},
		{[]error{worse, canceled, bad}, worse},
		{[]error{nil, canceled, context.Canceled}, canceled},
	} {
		if got := firstCause(c.errs); got != c.want {
			t.Errorf("%v: %v, want %v", c.errs, got, c.want)
		}
	}
	err := Parallel(t.Context(), 4, 4, func(ctx context.Context, i int) error {
		if i == 2 {
			return bad
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			t.Error("the others were not cancelled")
		}
		return ctx.Err()
	})
	if err != bad {
		t.Errorf("error %v, want %v", err, bad)
	}
}
