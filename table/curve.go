// Package table makes an activation of a curve that is known at points:
//
//	act, err := table.Open("curve.csv")                    // columns z, g and, where it is known, dg
//	act, err := table.New(z, g, nil)                       // the same from numbers
//
// Between the points g is a cubic on each interval with values and slopes that are those of its
// neighbours, so that g′ is continuous; beyond them it goes on as a line. Slopes that are not given are
// those of the natural cubic spline, whose g″ is continuous too and 0 at both ends; where the values
// rise or fall throughout they are cut, as far as it takes, so that the curve does as well.
package table

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
)

// Version is that of how a table is made a function of.
const Version = "1"

// The bounds of a table.
const (
	MinPoints = 3
	MaxPoints = 4096
	MaxZ      = 1e6  // of |z|
	MaxValue  = 1e12 // of |g| and |g′|
	closest   = 1e-9 // distance of neighbours, relative to max(1, |z|)
)

// Kind says where the slopes of a table come from.
type Kind string

// The kinds.
const (
	Given    Kind = "given"    // the column dg
	Spline   Kind = "spline"   // the natural cubic spline
	Monotone Kind = "monotone" // that, cut so that the curve rises or falls as the values do
)

// Data are the numbers of a table, as files have them.
type Data struct {
	Kind   Kind      `json:"kind"`
	Z      []float64 `json:"z"` // ascending
	G      []float64 `json:"g"`
	Slopes []float64 `json:"slopes"` // g′ at the points
}

// Table is an activation given by points. It is safe for concurrent use.
type Table struct {
	data  Data
	name  string
	first []int32 // the interval in which each of the cells of equal width begins
	width float64 // cells in a unit of z
}

// New returns the table through the points (z_i, g_i) with slopes dg_i, or nil where those are not
// known. Points that are too few, too many, out of order or out of bounds are a [*PointError].
func New(z, g, dg []float64) (*Table, error) {
	if err := check(z, g, dg); err != nil {
		return nil, err
	}
	d := Data{Kind: Given, Z: slices.Clone(z), G: slices.Clone(g), Slopes: slices.Clone(dg)}
	if dg == nil {
		d.Slopes = Natural(z, g)
		d.Kind = Spline
		if cut(d.Slopes, z, g) {
			d.Kind = Monotone
		}
	}
	return d.Open()
}

// Open returns the table with these numbers; what no table has is an error.
func (d Data) Open() (*Table, error) {
	if d.Kind != Given && d.Kind != Spline && d.Kind != Monotone {
		return nil, fmt.Errorf("table: kind is %q, want %q, %q or %q", d.Kind, Given, Spline, Monotone)
	}
	if d.Slopes == nil {
		d.Slopes = []float64{}
	}
	if err := check(d.Z, d.G, d.Slopes); err != nil {
		return nil, err
	}
	t := &Table{data: d, name: nameOf(d)}
	t.index()
	return t, nil
}

// nameOf is table- and the beginning of the SHA-256 of the numbers.
func nameOf(d Data) string {
	var b []byte
	for _, column := range [][]float64{d.Z, d.G, d.Slopes} {
		for _, v := range column {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v+0)) // −0 is 0
		}
	}
	sum := sha256.Sum256(b)
	return "table-" + hex.EncodeToString(sum[:6])
}

// PointError is a point that a table cannot have.
type PointError struct {
	Point int // counted from 1; 0 where it is none alone
	Msg   string
}

func (e *PointError) Error() string {
	if e.Point == 0 {
		return "table: " + e.Msg
	}
	return fmt.Sprintf("table: point %d: %s", e.Point, e.Msg)
}

// check holds points against the bounds.
func check(z, g, dg []float64) error {
	n := len(z)
	switch {
	case len(g) != n || dg != nil && len(dg) != n:
		return &PointError{0, fmt.Sprintf("%d z, %d g and %d slopes", n, len(g), len(dg))}
	case n < MinPoints || n > MaxPoints:
		return &PointError{0, fmt.Sprintf("points: %d; want %d to %d", n, MinPoints, MaxPoints)}
	}
	for i, v := range z {
		switch {
		case !(math.Abs(v) <= MaxZ):
			return &PointError{i + 1, fmt.Sprintf("z is %v; want numbers within ±%g", v, MaxZ)}
		case !(math.Abs(g[i]) <= MaxValue):
			return &PointError{i + 1, fmt.Sprintf("g is %v; want numbers within ±%g", g[i], MaxValue)}
		case dg != nil && !(math.Abs(dg[i]) <= MaxValue):
			return &PointError{i + 1, fmt.Sprintf("dg is %v; want numbers within ±%g", dg[i], MaxValue)}
		case i == 0:
		case v <= z[i-1]:
			return &PointError{i + 1, fmt.Sprintf("z is %v after %v; want z ascending, each once", v, z[i-1])}
		case v-z[i-1] < closest*max(1, math.Abs(v)):
			return &PointError{i + 1, fmt.Sprintf("z is %v after %v; want neighbours further apart", v, z[i-1])}
		}
	}
	return nil
}

// Natural returns the slopes at z of the natural cubic spline: those with which g″ is continuous and 0 at the
// ends,
//
//	(m_{i−1} + 2m_i)/h_{i−1} + (2m_i + m_{i+1})/h_i = 3(s_{i−1}/h_{i−1} + s_i/h_i),  2m_0 + m_1 = 3s_0,
//
// with h the widths and s the slopes of the chords.
func Natural(z, g []float64) []float64 {
	n := len(z)
	m, ratio := make([]float64, n), make([]float64, n)
	inverse := func(i int) float64 { return 1 / (z[i+1] - z[i]) }
	chord := func(i int) float64 { return (g[i+1] - g[i]) / (z[i+1] - z[i]) }
	for i := range n { // elimination downwards
		var left, middle, right, b float64
		if i > 0 {
			h := inverse(i - 1)
			left, middle, b = h, 2*h, 3*h*chord(i-1)
		}
		if i < n-1 {
			h := inverse(i)
			right, middle, b = h, middle+2*h, b+3*h*chord(i)
		}
		if i > 0 {
			middle -= left * ratio[i-1]
			b -= left * m[i-1]
		}
		ratio[i], m[i] = right/middle, b/middle
	}
	for i := n - 2; i >= 0; i-- {
		m[i] -= ratio[i] * m[i+1]
	}
	return m
}

// cut makes slopes so small that the curve rises, or falls, throughout where the values do: between 0
// and three times the lesser of the chords on both sides, which is enough (Fritsch and Carlson 1980). It
// says whether it has changed any that had to be.
func cut(m, z, g []float64) bool {
	up, down := slices.IsSorted(g), slices.IsSortedFunc(g, func(a, b float64) int {
		switch {
		case a > b:
			return -1
		case a < b:
			return 1
		}
		return 0
	})
	if !up && !down || monotone(m, z, g) {
		return false
	}
	sign := 1.0
	if down {
		sign = -1
	}
	for i := range m {
		least := math.Inf(1)
		for _, j := range []int{i - 1, i} {
			if j >= 0 && j < len(z)-1 {
				least = min(least, sign*(g[j+1]-g[j])/(z[j+1]-z[j]))
			}
		}
		m[i] = sign * min(max(sign*m[i], 0), 3*least)
	}
	return true
}

// monotone says whether each cubic rises or falls as its ends do: its slope, a parabola, is nowhere
// between them of the other sign.
func monotone(m, z, g []float64) bool {
	for i := range len(z) - 1 {
		s := (g[i+1] - g[i]) / (z[i+1] - z[i])
		if s == 0 {
			if m[i] != 0 || m[i+1] != 0 {
				return false
			}
			continue
		}
		a, b := m[i]/s, m[i+1]/s
		if a < 0 || b < 0 {
			return false
		}
		// slope/s at u: a + 2(3 − 2a − b)u + 3(a + b − 2)u²
		if p, q := 3-2*a-b, a+b-2; q > 0 && -p > 0 && -p < 3*q && a < p*p/(3*q) {
			return false
		}
	}
	return true
}

// Data returns the numbers of t. They are not copied.
func (t *Table) Data() Data { return t.data }

// Range returns the first and the last z.
func (t *Table) Range() (lo, hi float64) { return t.data.Z[0], t.data.Z[len(t.data.Z)-1] }

// Info returns the name, which is made of the numbers, and no kinks: g′ is continuous.
func (t *Table) Info() sdk.Info { return sdk.Info{Name: t.name, Version: Version} }

// Eval writes g(z_i) to dst_i.
func (t *Table) Eval(_ context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths(t.name, dst, z); err != nil {
		return err
	}
	for i, v := range z {
		dst[i] = t.value(v)
	}
	return nil
}

// Deriv writes g′(z_i) to dst_i.
func (t *Table) Deriv(_ context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths(t.name, dst, z); err != nil {
		return err
	}
	for i, v := range z {
		dst[i] = t.slope(v)
	}
	return nil
}

func (t *Table) value(v float64) float64 {
	d := &t.data
	last := len(d.Z) - 1
	switch {
	case !(v > d.Z[0]): // or no number
		return d.G[0] + d.Slopes[0]*(v-d.Z[0])
	case v >= d.Z[last]:
		return d.G[last] + d.Slopes[last]*(v-d.Z[last])
	}
	i, u, c, e := t.cubic(v)
	return d.G[i] + u*(d.Slopes[i]+u*(c+u*e))
}

func (t *Table) slope(v float64) float64 {
	d := &t.data
	last := len(d.Z) - 1
	switch {
	case v != v:
		return v
	case v <= d.Z[0]:
		return d.Slopes[0]
	case v >= d.Z[last]:
		return d.Slopes[last]
	}
	i, u, c, e := t.cubic(v)
	return d.Slopes[i] + u*(2*c+3*u*e)
}

// cubic is the interval of v and, with u = v − z_i, the cubic G_i + u·(slope_i + u·(c + u·e)) there.
func (t *Table) cubic(v float64) (i int, u, c, e float64) {
	d := &t.data
	i = t.interval(v)
	h := d.Z[i+1] - d.Z[i]
	s := (d.G[i+1] - d.G[i]) / h
	return i, v - d.Z[i], (3*s - 2*d.Slopes[i] - d.Slopes[i+1]) / h, (d.Slopes[i] + d.Slopes[i+1] - 2*s) / (h * h)
}

// index lays cells of equal width over the range, some for each interval.
func (t *Table) index() {
	const cells = 4
	lo, hi := t.Range()
	n := cells * len(t.data.Z)
	t.width = float64(n) / (hi - lo)
	t.first = make([]int32, n+1)
	i := 0
	for c := range t.first {
		edge := lo + float64(c)/t.width
		for i < len(t.data.Z)-2 && t.data.Z[i+1] <= edge {
			i++
		}
		t.first[c] = int32(i)
	}
}

// interval returns i with z_i ≤ v < z_{i+1}, for v within the range.
func (t *Table) interval(v float64) int {
	z := t.data.Z
	c := min(int((v-z[0])*t.width), len(t.first)-1)
	i := int(t.first[c])
	for i > 0 && v < z[i] { // rounding at a cell's edge
		i--
	}
	if i+8 < len(z)-1 && v >= z[i+8] { // points that crowd in a cell
		at, found := slices.BinarySearch(z, v)
		if !found {
			at--
		}
		return min(at, len(z)-2)
	}
	for i < len(z)-2 && v >= z[i+1] {
		i++
	}
	return i
}

// Moments returns the Gaussian moments by quadrature that is split at the points, where g is a
// polynomial on each side: it is exact to rounding.
func (t *Table) Moments(ctx context.Context) (sdk.Moments, error) {
	grid, err := gauss.NewGrid(ctx, t.Eval, t.data.Z)
	if err != nil {
		return sdk.Moments{}, fmt.Errorf("moments of activation %q: %w", t.name, err)
	}
	return sdk.MomentsOn(grid), nil
}

// Error is what the table says of its own error: the largest difference, at the points between, from a
// table of every second point alone. That of the whole table is less where g is smooth at the scale of
// the points. NaN where there are too few.
func (t *Table) Error() float64 {
	var z, g, dg []float64
	d := &t.data
	for i := 0; i < len(d.Z); i += 2 {
		z, g = append(z, d.Z[i]), append(g, d.G[i])
		if d.Kind == Given {
			dg = append(dg, d.Slopes[i])
		}
	}
	half, err := New(z, g, dg)
	if err != nil {
		return math.NaN()
	}
	largest := 0.0
	for i := 1; i < len(d.Z)-1; i += 2 {
		largest = max(largest, math.Abs(half.value(d.Z[i])-d.G[i]))
	}
	return largest
}

// Notes are what there is to know of t beside its values, a line each.
func (t *Table) Notes() []string {
	lo, hi := t.Range()
	d := &t.data
	how := map[Kind]string{
		Given:    "cubics with the slopes given",
		Spline:   "the natural cubic spline",
		Monotone: "cubics that rise or fall as the values do",
	}[d.Kind]
	notes := []string{
		fmt.Sprintf("%d points from z = %.6g to %.6g, between them %s", len(d.Z), lo, hi, how),
		fmt.Sprintf("beyond them lines of slope %.4g and %.4g; %.2g of N(0,1) is there", d.Slopes[0],
			d.Slopes[len(d.Z)-1],
			math.Erfc(-lo/math.Sqrt2)/2+math.Erfc(hi/math.Sqrt2)/2),
	}
	if e := t.Error(); e == e {
		notes = append(notes, fmt.Sprintf("error: every second point alone gives the others to %.2g", e))
	} else {
		notes = append(notes, "error: there are too few points to tell")
	}
	return notes
}
