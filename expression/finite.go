package expression

import (
	"fmt"
	"math"
	"slices"
)

// NotFiniteError is a part of an expression that has no value, or none that is finite, for
// some z, so that it is no activation.
type NotFiniteError struct {
	Text  string // of the expression
	Part  string // of it, the first that is not finite there
	Z     float64
	Value float64
	Pole  bool // it is finite at all numbers there are, and not bounded between them
}

func (e *NotFiniteError) Error() string {
	if e.Pole {
		return fmt.Sprintf("%s %s: %s has a pole at z = %.12g; g must be finite for every z", Prefix, e.Text, e.Part,
			e.Z)
	}
	return fmt.Sprintf("%s %s: %s is %v at z = %.12g; g must be finite for every z", Prefix, e.Text, e.Part, e.Value,
		e.Z)
}

// momentRange is the half-width of the range of Gaussian moments, in which g must be finite as
// computed; see gauss.Range.
const momentRange = 20

// Finite returns a [*NotFiniteError] where g has no finite value somewhere between ±1e6: at
// some 7,000 points, at the roots of what it divides by and takes logarithms and roots of,
// and at its kinks, and where g′ as it is computed has none within ±20 but at kinks. Values that only overflow are
// allowed beyond ±20, where no moment looks; [Expression.Notes] says where.
func (e *Expression) Finite() error {
	if z, at, bad := e.unbounded(); bad {
		return e.notFinite(z, at)
	}
	if err := e.pole(); err != nil {
		return err
	}
	return e.slopes()
}

// slopes returns an error where g′, as it is computed, is not finite within ±20 and not at a kink.
func (e *Expression) slopes() error {
	points := slices.DeleteFunc(slices.Clone(e.points()), func(z float64) bool {
		return math.Abs(z) > momentRange || slices.Contains(e.kinks.at, z)
	})
	d := make([]float64, len(points))
	e.first.run(d, points)
	for i, v := range d {
		if !finite(v) {
			return &NotFiniteError{Text: e.text, Part: "its derivative " + shown(e.graph, e.slope), Z: points[i],
				Value: v}
		}
	}
	return nil
}

// unbounded finds the z nearest to 0 at which g is not finite for another reason than its
// size, and the node at fault.
func (e *Expression) unbounded() (z float64, at ref, bad bool) {
	points := e.points()
	v := make([]float64, len(points))
	e.value.run(v, points)
	for i, g := range v {
		if finite(g) || bad && math.Abs(points[i]) >= math.Abs(z) {
			continue
		}
		node, overflow := e.culprit(points[i])
		if !overflow || math.Abs(points[i]) <= momentRange {
			z, at, bad = points[i], node, true
		}
	}
	return z, at, bad
}

// findPoints lists where g is looked at.
func (e *Expression) findPoints() []float64 {
	points := append(grid(), e.kinks.at...)
	f := newRoots(e.graph.clone())
	for _, r := range e.graph.reached(e.root) {
		if u := zeroOf(f.g, r); u != none {
			roots, _ := f.of(u)
			points = append(points, roots...)
		}
	}
	slices.Sort(points)
	return slices.Compact(points)
}

// zeroOf returns what may not be 0 in r, or less: none where there is nothing.
func zeroOf(g *graph, r ref) ref {
	n := g.nodes[r]
	switch n.op {
	case opDiv:
		return n.args[1]
	case opLog, opSqrt:
		return n.args[0]
	case opLog1p:
		return g.add(g.num(1), n.args[0])
	case opPow:
		return n.args[0]
	}
	return none
}

// culprit returns the first part of g that is not finite at z, or that a branch takes and
// is not, and whether it is so by size alone.
func (e *Expression) culprit(z float64) (at ref, overflow bool) {
	values := map[ref]float64{}
	order := e.graph.reached(e.root)
	for _, r := range order {
		n := e.graph.nodes[r]
		var in [3]float64
		for i, a := range n.args {
			if a != none {
				in[i] = values[a]
			}
		}
		switch n.op {
		case opNumber:
			values[r] = n.number()
		case opZ:
			values[r] = z
		default:
			values[r] = n.op.of(in[0], in[1], in[2])
		}
	}
	at = e.root
	for {
		next := none
		for i, a := range e.graph.nodes[at].args {
			chosen := e.graph.nodes[at].op != opWhere || i == 0 || (i == 1) == (values[e.graph.nodes[at].args[0]] != 0)
			if a != none && chosen && !finite(values[a]) {
				next = a
				break
			}
		}
		if next == none {
			break
		}
		at = next
	}
	return at, overflows(e.graph, at, values)
}

// overflows says whether a node whose arguments are finite is not only because it is too
// large.
func overflows(g *graph, r ref, values map[ref]float64) bool {
	n := g.nodes[r]
	switch n.op {
	case opExp, opExpm1, opSinh, opCosh, opAdd, opSub, opMul, opNumber:
		return true
	case opPow:
		return math.IsInf(values[r], 0) && values[n.args[0]] != 0
	case opDiv:
		return values[n.args[1]] != 0
	}
	return false
}

func (e *Expression) notFinite(z float64, at ref) error {
	n := e.graph.nodes[at]
	v := one(compile(e.graph, at), z)
	if n.op == opNumber {
		v = n.number()
	}
	return &NotFiniteError{Text: e.text, Part: shown(e.graph, at), Z: z, Value: v}
}

// pole looks for poles between numbers: g is a hundred times as large at 1e−6 of a root of a
// divisor as at 1e−3 of it.
func (e *Expression) pole() error {
	f := newRoots(e.graph.clone())
	for _, r := range e.graph.reached(e.root) {
		if e.graph.nodes[r].op != opDiv {
			continue
		}
		roots, _ := f.of(f.g.nodes[r].args[1])
		for _, z := range roots {
			for _, side := range []float64{-1, 1} {
				by := side * max(1, math.Abs(z))
				near, far := math.Abs(one(e.value, z+1e-6*by)), math.Abs(one(e.value, z+1e-3*by))
				nearer := math.Abs(one(e.value, z+1e-9*by))
				if near > 100*far && nearer > 100*near || !finite(nearer) {
					return &NotFiniteError{Text: e.text, Part: shown(e.graph, r), Z: z, Pole: true}
				}
			}
		}
	}
	return nil
}

// overflows returns the z nearest to 0 at which p is not finite, where there is one among the
// points: of neighbours of which one is finite, to the last digit.
func (p *program) overflows(points []float64) (z float64, found bool) {
	v := make([]float64, len(points))
	p.run(v, points)
	for i := range v {
		if finite(v[i]) || found && math.Abs(points[i]) >= math.Abs(z) {
			continue
		}
		z, found = points[i], true
		inner := i - 1
		if z < 0 {
			inner = i + 1
		}
		if inner >= 0 && inner < len(v) && finite(v[inner]) {
			z = boundary(func(z float64) bool { return finite(one(p, z)) }, points[inner], z)
		}
	}
	return z, found
}
