package expression

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// The range in which roots are bracketed where they cannot be computed: steps of 1/128 to
// ±20, where all of N(0,1) lies, and of 1 % from there to ±1e6.
const (
	bracketFine  = 20
	bracketStep  = 1.0 / 128
	bracketRatio = 1.01
	bracketRange = 1e6
	maxKinks     = 256
	maxBracketed = 4000 // operations of all functions that are bracketed
	maxRoots     = 512  // of all of them
)

// kinks are where g is not smooth.
type kinks struct {
	at        []float64 // ascending
	bracketed []string  // arguments of which the roots were bracketed
	unseen    int       // arguments whose roots were not all looked for
	left      int       // the outermost, beyond maxKinks, that were not looked at
}

// grid lists the points between which roots are bracketed, ascending.
func grid() (z []float64) {
	for v := bracketFine * bracketRatio; v < bracketRange*bracketRatio; v *= bracketRatio {
		z = append(z, -v)
	}
	slices.Reverse(z)
	n := len(z)
	for v := -float64(bracketFine); v <= bracketFine; v += bracketStep {
		z = append(z, v)
	}
	for i := n - 1; i >= 0; i-- {
		z = append(z, -z[i])
	}
	return z
}

// switches says of a node which function's roots are those of another branch: u of |u| and
// sign(u), u − v of min, max and comparisons; and of √u, ∛u and u^n, which are not smooth
// where u is 0; and u/v, which may jump where v is 0. It is none for others.
func switches(g *graph, r ref) (u ref, singular bool) {
	n := g.nodes[r]
	a, b := n.args[0], n.args[1]
	switch n.op {
	case opAbs, opSign:
		return a, false
	case opMin, opMax, opLess, opLessEqual, opEqual:
		return g.sub(a, b), false
	case opSqrt, opCbrt:
		return a, true
	case opDiv:
		return b, true
	case opPow:
		if v, ok := g.number(b); !ok || v != math.Trunc(v) {
			return a, true
		}
	}
	return none, false
}

// rootsOf finds the roots of nodes, each once.
type rootsOf struct {
	g       *graph
	analyst *analyst
	grid    []float64
	found   map[ref][]float64
	steps   int // of what was bracketed
	roots   int // that were found
	skipped int // functions that were not looked at, or not to the end
}

func newRoots(g *graph) *rootsOf {
	return &rootsOf{g, &analyst{g: g, known: map[ref]*piecewise{}}, grid(), map[ref][]float64{}, 0, 0, 0}
}

// of returns the roots of u, and whether they are all of them.
func (f *rootsOf) of(u ref) (at []float64, exact bool) {
	if p := f.analyst.linear(u); p != nil {
		for _, r := range p.roots() {
			if z, _ := r.Float64(); finite(z) {
				at = append(at, z)
			}
		}
		return at, true
	}
	if at, ok := f.found[u]; ok {
		return at, false
	}
	at = f.bracket(u)
	f.found[u] = at
	return at, false
}

// bracket looks for the roots of u between the points of the grid: where it changes its
// sign, and where u² turns upwards and u is 0 but for rounding.
func (f *rootsOf) bracket(u ref) (at []float64) {
	if f.steps > maxBracketed || f.roots > maxRoots {
		f.skipped++
		return nil
	}
	p, d := compile(f.g, u), compile(f.g, f.g.derivative(u))
	f.steps += len(p.steps)
	defer func() { f.roots += len(at) }()
	v := make([]float64, len(f.grid))
	p.run(v, f.grid)
	for i, z := range f.grid {
		if len(at)+f.roots > maxRoots {
			f.skipped++
			break
		}
		switch {
		case v[i] == 0: // one root, or an end of many
			if i == 0 || i == len(v)-1 || v[i-1] != 0 || v[i+1] != 0 {
				at = append(at, f.edge(p, i, v)...)
			}
		case i > 0 && v[i]*v[i-1] < 0:
			at = append(at, crossing(p, f.grid[i-1], z))
		case i > 0 && i < len(v)-1 && math.Abs(v[i]) <= math.Abs(v[i-1]) && math.Abs(v[i]) < math.Abs(v[i+1]) &&
			v[i-1]*v[i+1] > 0:
			turn := crossing(d, f.grid[i-1], f.grid[i+1])
			if w := one(p, turn); math.Abs(w) <= 1e-12*math.Abs(v[i+1]) {
				at = append(at, turn)
			}
		}
	}
	return at
}

// edge is where the zeros of which the i-th value is one begin or end: between the points
// of the grid, unless it is alone.
func (f *rootsOf) edge(p *program, i int, v []float64) (at []float64) {
	before, after := i > 0 && v[i-1] == 0, i < len(v)-1 && v[i+1] == 0
	if !before && !after {
		return []float64{f.grid[i]}
	}
	zero := func(z float64) bool { return one(p, z) == 0 }
	if !before && i > 0 {
		at = append(at, boundary(zero, f.grid[i], f.grid[i-1]))
	}
	if !after && i < len(v)-1 {
		at = append(at, boundary(zero, f.grid[i], f.grid[i+1]))
	}
	return at
}

func one(p *program, z float64) float64 {
	v := [1]float64{z}
	p.run(v[:], v[:])
	return v[0]
}

// crossing returns where p changes its sign between lo and hi: a root, or one of the two
// numbers beside it.
func crossing(p *program, lo, hi float64) float64 {
	below := math.Signbit(one(p, lo))
	return boundary(func(z float64) bool { v := one(p, z); return v != 0 && math.Signbit(v) == below }, lo, hi)
}

// boundary returns the point next to the last, from inside towards outside, at which a
// condition holds that holds inside, to the last digit.
func boundary(holds func(float64) bool, inside, outside float64) float64 {
	for {
		mid := inside + (outside-inside)/2
		if mid == inside || mid == outside {
			return outside
		}
		if holds(mid) {
			inside = mid
		} else {
			outside = mid
		}
	}
}

// findKinks adds to g what it takes to list where r is not smooth: the roots of what its branches depend on, those
// apart at which both branches are one function, as |u| + log1p(exp(−2|u|)) is.
func findKinks(g *graph, r ref) kinks {
	f := newRoots(g)
	at := map[float64][]ref{} // the nodes that change their branch there; nil: for certain
	value := compile(g, r)
	var k kinks
	for _, n := range g.reached(r) {
		u, singular := switches(g, n)
		if u == none {
			continue
		}
		roots, exact := f.of(u)
		if !exact && g.nodes[n].op != opDiv {
			k.bracketed = append(k.bracketed, shown(g, u))
		}
		for _, z := range roots {
			old, seen := at[z]
			switch {
			case g.nodes[n].op == opDiv && !jumps(value, z):
			case singular || seen && old == nil:
				at[z] = nil
			default:
				at[z] = append(old, n)
			}
		}
	}
	k.unseen = f.skipped
	candidates := slices.SortedFunc(maps.Keys(at), func(a, b float64) int {
		return cmp.Or(cmp.Compare(math.Abs(a), math.Abs(b)), cmp.Compare(a, b))
	})
	if k.left = max(0, len(candidates)-maxKinks); k.left > 0 {
		candidates = candidates[:maxKinks]
	}
	for _, z := range candidates {
		if nodes := at[z]; nodes == nil || !smooth(g, r, z, nodes, candidates) {
			k.at = append(k.at, z)
		}
	}
	slices.Sort(k.at)
	slices.Sort(k.bracketed)
	k.bracketed = slices.Compact(k.bracketed)
	return k
}

// smooth says whether the branches of nodes left and right of z make one function of r: two
// analytic functions that agree at 16 points around z to rounding are one.
func smooth(g *graph, r ref, z float64, nodes []ref, others []float64) bool {
	nearest := math.Inf(1)
	for _, o := range others {
		if o != z {
			nearest = min(nearest, math.Abs(o-z))
		}
	}
	scale := max(1, math.Abs(z))
	beside := min(nearest/2, 1e-3*scale)
	left, right := map[ref]ref{}, map[ref]ref{}
	for _, n := range nodes {
		left[n], right[n] = branch(g, n, z-beside), branch(g, n, z+beside)
	}
	l, q := g.replaced(r, left), g.replaced(r, right)
	if l == q {
		return true
	}
	const points = 16
	var zs, a, b [points]float64
	for i := range zs {
		zs[i] = z + 0.25*scale*(2*(float64(i)+0.5)/points-1)
	}
	compile(g, l).run(a[:], zs[:])
	compile(g, q).run(b[:], zs[:])
	size := 0.0
	for i := range a {
		size = max(size, math.Abs(a[i]), math.Abs(b[i]))
	}
	for i := range a {
		if !(math.Abs(a[i]-b[i]) <= 1e-13*size) {
			return false
		}
	}
	return true
}

// jumps says whether p has other values left and right of z, as tanh(1/z) has at 0 and
// tanh(z)/z has not.
func jumps(p *program, z float64) bool {
	by := 1e-9 * max(1, math.Abs(z))
	left, right := one(p, z-by), one(p, z+by)
	return !(math.Abs(left-right) <= 1e-6*(math.Abs(left)+math.Abs(right)))
}

// branch is what the node n is at z, and beyond.
func branch(g *graph, n ref, z float64) ref {
	node := g.nodes[n]
	a, b := node.args[0], node.args[1]
	if node.op.compares() {
		return g.truth(one(compile(g, n), z) != 0)
	}
	u, _ := switches(g, n)
	v := one(compile(g, u), z)
	switch node.op {
	case opAbs:
		if v < 0 {
			return g.neg(a)
		}
		return a
	case opSign:
		return g.num(opSign.of(v, 0, 0))
	}
	if (v > 0) == (node.op == opMax) {
		return a
	}
	return b
}

// listed are the first numbers of a list.
func listed(v []float64) string {
	const most = 8
	var b strings.Builder
	for i, z := range v {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(v)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%.6g", z)
	}
	return b.String()
}

// shown is a node as a text of bounded length.
func shown(g *graph, r ref) string {
	const most = 160
	sizes := map[ref]float64{} // as texts, in which nothing is shared: of |u|′ twice that of u′
	for _, at := range g.reached(r) {
		sizes[at] = 1
		for _, a := range g.nodes[at].args {
			if a != none {
				sizes[at] += sizes[a]
			}
		}
	}
	if sizes[r] > MaxTerms {
		return "an expression of many terms"
	}
	text := []rune(g.term(r).String())
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}

// Notes says what was made of the text: g′, the kinks and how they were found, and where g or
// g′ overflows.
func (e *Expression) Notes() (notes []string) {
	notes = append(notes, "g′ = "+shown(e.graph, e.slope))
	switch how := "computed from the text"; {
	case len(e.kinks.at) > 0:
		if len(e.kinks.bracketed) > 0 {
			how = "bracketed"
		}
		notes = append(notes, fmt.Sprintf("kinks or jumps at z = %s, %s", listed(e.kinks.at), how))
	case len(e.kinks.bracketed) > 0:
		notes = append(notes, "no kinks were found")
	default:
		notes = append(notes, "no kinks")
	}
	for _, u := range e.kinks.bracketed {
		notes = append(notes, fmt.Sprintf("where %s is 0 was bracketed on |z| <= %.0e, in steps of 1/128 to 20 and 1 "+
			"%% beyond: a kink between two roots that are closer is not seen", u, bracketRange))
	}
	if e.kinks.unseen > 0 {
		notes = append(notes, fmt.Sprintf("of %d arguments of abs, min, max, sign and where kinks were not all "+
			"looked for: there are too many", e.kinks.unseen))
	}
	if e.kinks.left > 0 {
		notes = append(notes, fmt.Sprintf("there may be %d more kinks, further out, that are not declared",
			e.kinks.left))
	}
	points := e.points()
	z, found := e.value.overflows(points)
	if found {
		notes = append(notes, fmt.Sprintf("g is too large for a number at z = %.6g, and a row that leads there "+
			"cannot be predicted", z))
	}
	if at, also := e.first.overflows(points); also && (!found || math.Abs(at) < math.Abs(z)) {
		notes = append(notes, fmt.Sprintf("g' is not finite at z = %.6g", at))
	}
	return notes
}
