package gram

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
)

// block draws n rows of features, with weights where they are wanted, of which some are 0.
func block(rng *rand.Rand, n, features int, weighted bool) *model.Block {
	b := &model.Block{N: n, X: make([]float64, n*features)}
	for i := range b.X {
		b.X[i] = rng.NormFloat64()
	}
	if weighted {
		b.Role[model.Weights] = make([]float64, n)
		for t := range n {
			b.Role[model.Weights][t] = float64(t % 4)
		}
	}
	return b
}

// column returns x_tj of a block, 1 behind its features.
func column(b *model.Block, j, t int) float64 {
	if at := j*b.N + t; at < len(b.X) {
		return b.X[at]
	}
	return 1
}

// terms writes a number for this share of the rows, else 0, which may have a sign.
func terms(rng *rand.Rand, dst []float64, share float64) {
	for t := range dst {
		dst[t] = math.Copysign(0, float64(t%2)-0.5)
		if rng.Float64() < share {
			dst[t] = rng.NormFloat64()
		}
	}
}

// rounding of sums of hundreds of terms of order 1, some 10, in another order.
const rounding = 1e-11

// TestMatrices: sums over blocks are those of loops over the rows, of all ways to sum: in tiles and in rows, of few
// rows and of many, of as many matrices as wait for each other, and of more. Next may write over nothing but its terms.
func TestMatrices(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 0))
	for _, d := range []int{1, 2, 3, 4, 5, 8, fewColumns, fewColumns + 1, 17, someColumns, someColumns + 1} {
		for _, n := range []int{1, manyMatrices - 1, manyMatrices, 2*manyMatrices - 1, 2 * manyMatrices, 15, 16, 17, 33} {
			for _, full := range []bool{false, true} {
				m := New(d, n)
				if full {
					m = NewFull(d, n)
				}
				inRows := n >= 6 && d <= 12 || full && n >= 12 && d <= 32
				if m.inRows != inRows {
					t.Errorf("%d matrices of %d columns, full %v: in rows %v", n, d, full, m.inRows)
				}
				testMatrices(t, fmt.Sprintf("%d matrices of %d columns, full %v", n, d, full), rng, &m, d, n)
			}
		}
	}
}

func testMatrices(t *testing.T, name string, rng *rand.Rand, m *Matrices, d, n int) {
	t.Helper()
	x := NewDesign(d)
	want := make([]float64, n*d*d)
	for at, rows := range []int{model.BlockRows, 1, 7, 100} { // a block after a longer one, and before
		b := block(rng, rows, d-at%2, at > 1) // and of one feature less, ones in its place
		if d == 1 {
			b = block(rng, rows, d, at > 1)
		}
		given := b.Clone()
		x.Take(b)
		a := m.Begin(&x)
		for i := range n {
			if len(a.Terms) != rows {
				t.Fatalf("%s: room for %d terms of %d rows", name, len(a.Terms), rows)
			}
			terms(rng, a.Terms, []float64{0, 0.01, 0.3, 0.8, 1}[i%5])
			for r, w := range a.Terms {
				for j := range d {
					for l := range d {
						want[(i*d+j)*d+l] += b.Weight(r) * w * column(b, j, r) * column(b, l, r)
					}
				}
			}
			a.Next()
		}
		if !slices.Equal(b.X, given.X) || !slices.Equal(b.Role[model.Weights], given.Role[model.Weights]) {
			t.Fatalf("%s: the block has changed", name)
		}
	}
	for i := range n {
		for j := range d {
			for l := range d {
				if got := m.At(i, j, l); !(math.Abs(got-want[(i*d+j)*d+l]) <= rounding) {
					t.Fatalf("%s: entry (%d, %d) of matrix %d is %v, want %v", name, j, l, i, got, want[(i*d+j)*d+l])
				}
			}
		}
	}
}

// TestPut: rows and columns of a matrix stand in their block, times the factor, and what is outside it, and below the
// diagonal, stays.
func TestPut(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 1))
	for _, n := range []int{2, manyMatrices} { // in tiles, in rows
		const d, size = 6, 9
		m, x := New(d, n), NewDesign(d)
		x.Take(block(rng, 50, d, false))
		a := m.Begin(&x)
		for range n {
			terms(rng, a.Terms, 0.9)
			a.Next()
		}
		for _, c := range []struct {
			r, c       int
			rows, cols []int
		}{{2, 2, []int{0, 3, 5}, []int{0, 3, 5}}, {0, 0, []int{0, 1, 2, 3, 4, 5}, []int{0, 1, 2, 3, 4, 5}},
			{1, 5, []int{4, 5}, []int{0, 2, 5}}, {0, 3, []int{1, 2, 5}, []int{4}}, {3, 4, nil, nil}} {
			h := mat.NewSymDense(size, nil)
			for i := range h.RawSymmetric().Data {
				h.RawSymmetric().Data[i] = 1000 + float64(i)
			}
			was := slices.Clone(h.RawSymmetric().Data)
			m.Put(h, 1, c.r, c.c, c.rows, c.cols, -2.5)
			for i, got := range h.RawSymmetric().Data {
				r, l := i/size-c.r, i%size-c.c
				want := was[i]
				if r >= 0 && r < len(c.rows) && l >= 0 && l < len(c.cols) && i/size <= i%size {
					want = -2.5 * m.At(1, c.rows[r], c.cols[l])
				}
				if got != want {
					t.Errorf("%d matrices, block at (%d, %d): place %d has %v, want %v", n, c.r, c.c, i, got, want)
				}
			}
		}
	}
}

// TestDesign: the other sums are those of loops over the rows.
func TestDesign(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 2))
	const d, many = 6, 5
	x := NewDesign(d)
	for _, c := range []struct {
		rows, features int
		weighted       bool
	}{{model.BlockRows, d, false}, {33, d - 1, true}, {1, d - 1, false}, {100, d, true}} {
		b := block(rng, c.rows, c.features, c.weighted)
		x.Take(b)
		all := make([][]float64, many)
		for i := range all {
			all[i] = make([]float64, c.rows)
			terms(rng, all[i], 0.7)
		}
		for _, named := range [][]int{{0, 1, 2, 3, 4, 5}, {5}, {1, 4}, nil} {
			for _, s := range []struct {
				name string
				add  func(dst []float64)
				of   func(w, x, v float64) float64
			}{
				{"AddColumns", func(dst []float64) { x.AddColumns(dst, all, named) },
					func(w, x, _ float64) float64 { return w * x }},
				{"AddSquares", func(dst []float64) { x.AddSquares(dst, all, named) },
					func(w, x, _ float64) float64 { return w * x * x }},
				{"AddWeighted", func(dst []float64) {
					for i, w := range all {
						x.AddWeighted(dst[i*len(named):(i+1)*len(named)], slices.Clone(w), named)
					}
				}, func(w, x, v float64) float64 { return v * w * x }},
			} {
				got := slices.Repeat([]float64{3}, many*len(named)) // which is there
				s.add(got)
				for i, w := range all {
					for at, j := range named {
						want := 3.0
						for r := range c.rows {
							want += s.of(w[r], column(b, j, r), b.Weight(r))
						}
						if v := got[i*len(named)+at]; !(math.Abs(v-want) <= rounding) {
							t.Errorf("%s of %d rows: column %d with terms %d is %v, want %v", s.name, c.rows, j, i, v, want)
						}
					}
				}
			}
		}
		want := 0.0
		for r, w := range all[0] {
			want += b.Weight(r) * w
		}
		if got := x.Sum(all[0]); !(math.Abs(got-want) <= rounding) {
			t.Errorf("the sum of %d terms is %v, want %v", c.rows, got, want)
		}
		weighed := slices.Clone(all[0])
		x.WeighRows(weighed)
		for r, w := range all[0] {
			if weighed[r] != b.Weight(r)*w {
				t.Errorf("term %v of weight %v is %v", w, b.Weight(r), weighed[r])
			}
		}
	}
}

// TestAllocatesNothing: once there was a block others take no memory.
func TestAllocatesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 3))
	const d = 10
	tiles, rows, x, dst := New(d, 3), New(d, 20), NewDesign(d), make([]float64, d)
	system, named := NewSystem(d), []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	for i := range d {
		system.H.SetSym(i, i, 1)
	}
	b, w := block(rng, 200, d-1, true), make([]float64, 200)
	add := func() {
		x.Take(b)
		for _, m := range []*Matrices{&tiles, &rows} {
			a := m.Begin(&x)
			for i := range m.n {
				terms(rng, a.Terms, float64(i%2))
				a.Next()
			}
			m.Put(system.H, 0, 0, 0, named, named, 0)
		}
		x.AddWeighted(dst, w, named)
		for i := range d {
			system.H.SetSym(i, i, 1)
		}
		if !system.Factorize() {
			t.Error("no factor")
		}
		system.Square(system.Solve(dst))
	}
	add()
	if n := testing.AllocsPerRun(10, add); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Benchmark: matrices of a block whose weights are hardly ever 0, and read into their system, as of experts' steps on a
// table of few rows.
func Benchmark(b *testing.B) {
	rng := rand.New(rand.NewPCG(14, 4))
	for _, d := range []int{2, 6, 11, 14, 27} {
		b.Run(fmt.Sprint(d), func(b *testing.B) {
			m, x, w := New(d, 3), NewDesign(d), make([]float64, model.BlockRows)
			x.Take(block(rng, model.BlockRows, d-1, false))
			terms(rng, w, 1)
			system, named := NewSystem(d), make([]int, d)
			for i := range named {
				named[i] = i
			}
			for b.Loop() {
				a := m.Begin(&x)
				for i := range m.n {
					copy(a.Terms, w)
					a.Next()
					m.Put(system.H, i, 0, 0, named, named, 1)
				}
			}
		})
	}
}
