package kernel

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// TestPieceSize holds a Piece to the layout that the assembly knows.
func TestPieceSize(t *testing.T) {
	var p Piece
	if unsafe.Sizeof(p) != 8*pieceValues || unsafe.Offsetof(p.Right) != 64 || unsafe.Offsetof(p.Centre) != 72 || unsafe.Offsetof(p.Slope) != 80 {
		t.Error("the values of a Piece are not where the assembly looks for them")
	}
	var h Hinge
	if unsafe.Sizeof(h) != 56 || unsafe.Offsetof(h.Below) != 24 || unsafe.Offsetof(h.Above) != 40 {
		t.Error("the values of a Hinge are not where the assembly looks for them")
	}
}

// piecewise is a random function of some pieces, curves and lines. Its edges are on the
// grid of cells, beside it, and many to a cell.
func piecewise(rng *rand.Rand) *Piecewise {
	edges := []float64{-40 + 39*rng.Float64()}
	for range 2 + rng.IntN(60) {
		z := 70*rng.Float64() - 35
		switch rng.IntN(4) {
		case 0:
			z = math.Floor(z*perUnit) / perUnit
		case 1:
			z = math.Nextafter(math.Floor(z*perUnit)/perUnit, z)
		case 2:
			z = edges[0] + 1 + rng.Float64()/500
		}
		if z > edges[0] {
			edges = append(edges, z)
		}
	}
	edges = append(edges, 36)
	slices.Sort(edges)
	edges = slices.Compact(edges)
	pieces := make([]Piece, len(edges)-1)
	for i := range pieces {
		p, l, r := &pieces[i], edges[i], edges[i+1]
		p.Right, p.Slope = r, 1
		m := 1 + rng.IntN(8)
		if m > 2 {
			p.Centre, p.Slope = (l+r)/2, 2/(r-l)
		}
		for j := range m {
			p.C[j] = rng.NormFloat64()
		}
	}
	return NewPiecewise(edges[0], pieces)
}

// sines is sin(z) in some hundred pieces on −20 ≤ z < 20, by Taylor's series.
func sines() *Piecewise {
	var pieces []Piece
	for i := range 100 {
		p := Piece{Centre: -20 + 0.4*(float64(i)+0.5), Slope: 1}
		p.Right = p.Centre + 0.2
		c, factorial := [4]float64{math.Sin(p.Centre), math.Cos(p.Centre), -math.Sin(p.Centre), -math.Cos(p.Centre)}, 1.0
		for j := range p.C {
			p.C[j] = c[j%4] / factorial
			factorial *= float64(j + 1)
		}
		pieces = append(pieces, p)
	}
	return NewPiecewise(-20, pieces)
}

// arguments of f: anywhere in its range, at its edges, and beside them.
func arguments(rng *rand.Rand, f *Piecewise, n int) []float64 {
	z := make([]float64, n)
	for i := range z {
		z[i] = f.lo + (f.hi-f.lo)*rng.Float64()
		edge := f.lo
		if p := rng.IntN(len(f.pieces)); p > 0 {
			edge = f.pieces[p-1].Right
		}
		switch rng.IntN(5) {
		case 0:
			z[i] = edge
		case 1:
			z[i] = math.Nextafter(edge, math.Inf(1))
		case 2:
			z[i] = max(f.lo, math.Nextafter(edge, math.Inf(-1)))
		case 3:
			z[i] = f.lo + min(2, f.hi-f.lo)*rng.Float64()
		}
		if !(z[i] < f.hi) {
			z[i] = math.Nextafter(f.hi, 0)
		}
	}
	return z
}

// outsiders are arguments that are in no range.
func outsiders(lo, hi float64) []float64 {
	return []float64{math.NaN(), math.Inf(1), math.Inf(-1), hi, math.Nextafter(lo, math.Inf(-1)), math.MaxFloat64, -math.MaxFloat64}
}

// TestPiecewise holds all versions to the definition: the piece that the edges say, its
// polynomial to some 150 bits, each value's bits the same wherever it stands, and the
// first argument outside the range.
func TestPiecewise(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 14))
	for i := range 300 {
		f := piecewise(rng)
		most := 70
		if i%10 == 0 {
			most = 600 // several blocks of places
		}
		z := arguments(rng, f, rng.IntN(most))
		want := make([]float64, len(z))
		for i, v := range z {
			p := slices.IndexFunc(f.pieces, func(p Piece) bool { return v < p.Right })
			want[i] = f.pieces[p].At(v)
			exact, size := f.pieces[p].exact(v)
			if math.Abs(want[i]-exact) > 20*0x1p-53*size {
				t.Fatalf("piece %d at %v: %v, want %v", p, v, want[i], exact)
			}
		}
		holds(t, "Piecewise", f.Eval, z, want)
		for _, v := range outsiders(f.lo, f.hi) {
			stops(t, "Piecewise", f.Eval, z, want, rng.IntN(len(z)+1), v)
		}
	}
}

// exact returns p(z) and Σ |C_j·t^j|.
func (p *Piece) exact(z float64) (value, size float64) {
	b := func(v float64) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(v) }
	t := b(z)
	t.Sub(t, b(p.Centre)).Mul(t, b(p.Slope))
	sum, power := b(0), b(1)
	for j, c := range p.C {
		term := b(c)
		term.Mul(term, power)
		v, _ := term.Float64()
		sum.Add(sum, term)
		size += float64(j+1) * math.Abs(v)
		power.Mul(power, t)
	}
	value, _ = sum.Float64()
	return value, size
}

// TestHinge holds all versions to the two lines, at −0, 0 and beside the edge as well.
func TestHinge(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 15))
	for i := range 200 {
		h := &Hinge{Lo: -3, Hi: 5, Edge: []float64{0, 0.3, -3, 5}[i%4],
			Below: [2]float64{rng.NormFloat64(), rng.NormFloat64()}, Above: [2]float64{rng.NormFloat64(), rng.NormFloat64()}}
		z := make([]float64, rng.IntN(70))
		for i := range z {
			z[i] = 8*rng.Float64() - 3
			near := []float64{h.Edge, math.Nextafter(h.Edge, 9), math.Nextafter(h.Edge, -9), 0, math.Copysign(0, -1), -3, math.Nextafter(5, 0)}
			if v := near[rng.IntN(len(near))]; rng.IntN(2) == 0 && v >= h.Lo && v < h.Hi {
				z[i] = v
			}
		}
		want := make([]float64, len(z))
		for i, v := range z {
			want[i] = math.FMA(h.Above[1], v, h.Above[0])
			if v < h.Edge {
				want[i] = math.FMA(h.Below[1], v, h.Below[0])
			}
		}
		holds(t, "Hinge", h.Eval, z, want)
		for _, v := range outsiders(h.Lo, h.Hi) {
			stops(t, "Hinge", h.Eval, z, want, rng.IntN(len(z)+1), v)
		}
	}
}

// holds runs a function on z, in place and not, under all versions.
func holds(t *testing.T, name string, eval func(dst, z []float64) int, z, want []float64) {
	t.Helper()
	for _, v := range versions() {
		with(v, func() {
			dst := make([]float64, len(z))
			n := eval(dst, z)
			same1 := n == len(z) && same(dst, want)
			copy(dst, z)
			if n := eval(dst, dst); !same1 || n != len(z) || !same(dst, want) {
				t.Errorf("%s, version %d: %d values differ, or there are %d", name, v, len(z), n)
			}
		})
	}
}

// stops puts outside in the place at and expects the values before it, and nothing
// written behind.
func stops(t *testing.T, name string, eval func(dst, z []float64) int, z, want []float64, at int, outside float64) {
	t.Helper()
	z = slices.Insert(slices.Clone(z), at, outside)
	for _, v := range versions() {
		with(v, func() {
			dst := slices.Clone(z)
			if n := eval(dst, dst); n != at || !same(dst[:at], want[:at]) || !same(dst[at:], z[at:]) {
				t.Errorf("%s, version %d: ended at %d, %v at %d is outside", name, v, n, outside, at)
			}
		})
	}
}
