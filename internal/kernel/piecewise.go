package kernel

import "math"

const (
	// perUnit cells of equal width to a unit of z lead to the piece; a power of two, so
	// that z·perUnit is exact and no z is taken for its neighbour's cell.
	perUnit = 64
	// farthest is the last cell: they reach to ±farthest/perUnit, and beyond stand two
	// more, one on each side.
	farthest = 32 * perUnit
	// pieceValues is the number of values of a Piece.
	pieceValues = 12
)

// Piece is p(z) = Σ_j C_j·t^j with t = (z − Centre)·Slope, up to the next piece at Right.
// The assembly knows its layout.
type Piece struct {
	C                    [8]float64
	Right, Centre, Slope float64
	_                    float64 // so that loads are of 32 bytes each
}

// At returns p(z).
func (p *Piece) At(z float64) float64 {
	c, t := &p.C, float64((z-p.Centre)*p.Slope)
	square := float64(t * t)
	v := math.FMA(c[7], t, c[6])
	v = math.FMA(v, square, math.FMA(c[5], t, c[4]))
	v = math.FMA(v, square, math.FMA(c[3], t, c[2]))
	return math.FMA(v, square, math.FMA(c[1], t, c[0]))
}

// Piecewise is a function made of pieces on lo ≤ z < hi.
type Piecewise struct {
	lo, hi float64
	pieces []Piece
	index  []uint16 // the piece in which each cell begins, where its values begin
}

// NewPiecewise returns the function of the pieces, which it keeps, from lo to the last
// one's Right: from 1 to 5,461 of them, in ascending order.
func NewPiecewise(lo float64, pieces []Piece) *Piecewise {
	n := len(pieces)
	if n == 0 || n > math.MaxUint16/pieceValues {
		panic("kernel: no pieces, or too many")
	}
	f := &Piecewise{lo: lo, hi: pieces[n-1].Right, pieces: pieces, index: make([]uint16, 2*farthest+2)}
	p := 0
	for i := 1; i < len(f.index); i++ {
		z := float64(i-1-farthest) / perUnit
		for p < n-1 && z >= pieces[p].Right {
			p++
		}
		f.index[i] = uint16(pieceValues * p)
	}
	return f
}

// At returns the value at z, which is in the range.
func (f *Piecewise) At(z float64) float64 {
	cell := int(math.Floor(z * perUnit))
	p := int(f.index[min(max(cell, -farthest-1), farthest)+farthest+1]) / pieceValues
	for z >= f.pieces[p].Right {
		p++
	}
	return f.pieces[p].At(z)
}

// Eval writes the values at z, up to the first that is not in the range, to dst, which
// may be z, and returns how many there are.
func (f *Piecewise) Eval(dst, z []float64) int {
	dst = dst[:len(z)]
	i := assembly.piecewise(dst, z, f)
	for ; i < len(z) && z[i] >= f.lo && z[i] < f.hi; i++ {
		dst[i] = f.At(z[i])
	}
	return i
}

// Hinge is a line below Edge and a line from there on, each its value at 0 and its
// slope, on Lo ≤ z < Hi. The assembly knows its layout.
type Hinge struct {
	Lo, Hi, Edge float64
	Below, Above [2]float64
}

// Eval writes the values at z, up to the first that is not in the range, to dst, which
// may be z, and returns how many there are.
func (h *Hinge) Eval(dst, z []float64) int {
	dst = dst[:len(z)]
	i := assembly.hinge(dst, z, h)
	lines := [2][2]float64{h.Above, h.Below}
	for ; i < len(z) && z[i] >= h.Lo && z[i] < h.Hi; i++ {
		// No branch, which would be mispredicted at half of all z. Adding 0 makes the
		// distance of −0 to 0 positive.
		line := &lines[math.Float64bits(z[i]-h.Edge+0)>>63]
		dst[i] = math.FMA(line[1], z[i], line[0])
	}
	return i
}
