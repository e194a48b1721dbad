package expression

import (
	"maps"
	"math"
	"slices"

	"github.com/gatedlearning/moe/sdk"
)

// ref names a node of a graph: its place.
type ref int32

// none stands for arguments that there are not.
const none ref = -1

// node is an operation of earlier nodes, or a number.
type node struct {
	op   op
	args [3]ref
	bits uint64 // of opNumber
}

func (n node) number() float64 { return math.Float64frombits(n.bits) }

// graph is a set of expressions of z, in which equal ones are one. Arguments stand before
// what is made of them.
type graph struct {
	nodes       []node
	at          map[node]ref
	derivatives map[ref]ref
}

func newGraph() *graph { return &graph{at: map[node]ref{}, derivatives: map[ref]ref{}} }

// clone returns a graph with the nodes of g, to which others may be added.
func (g *graph) clone() *graph {
	return &graph{slices.Clone(g.nodes), maps.Clone(g.at), maps.Clone(g.derivatives)}
}

// node returns o of args as it is; [graph.make] simplifies.
func (g *graph) node(n node) ref {
	if r, ok := g.at[n]; ok {
		return r
	}
	r := ref(len(g.nodes))
	g.nodes, g.at[n] = append(g.nodes, n), r
	return r
}

func (g *graph) raw(o op, args ...ref) ref {
	n := node{op: o, args: [3]ref{none, none, none}}
	copy(n.args[:], args)
	return g.node(n)
}

func (g *graph) num(v float64) ref {
	if v == 0 {
		v = 0 // no −0
	}
	return g.node(node{op: opNumber, args: [3]ref{none, none, none}, bits: math.Float64bits(v)})
}

func (g *graph) z() ref { return g.raw(opZ) }

// is says whether r is the number v.
func (g *graph) is(r ref, v float64) bool {
	n := g.nodes[r]
	return n.op == opNumber && n.number() == v
}

// number returns the number that r is.
func (g *graph) number(r ref) (float64, bool) {
	n := g.nodes[r]
	return n.number(), n.op == opNumber
}

// arg returns the argument of r where that is o of one.
func (g *graph) arg(r ref, o op) (ref, bool) {
	n := g.nodes[r]
	return n.args[0], n.op == o
}

// pair returns the arguments of r where that is o of two.
func (g *graph) pair(r ref, o op) (a, b ref, ok bool) {
	n := g.nodes[r]
	return n.args[0], n.args[1], n.op == o
}

// of returns a text with numbers for its parameters.
func (g *graph) of(t *term, params sdk.Params) ref {
	switch t.op {
	case opNumber:
		return g.num(t.number)
	case opParameter:
		return g.num(params[t.name])
	case opZ:
		return g.z()
	}
	args := [3]ref{none, none, none}
	for i, a := range t.args {
		args[i] = g.of(a, params)
	}
	return g.make(t.op, args)
}

// replaced returns r with other nodes in the place of some, and what follows of that.
func (g *graph) replaced(r ref, by map[ref]ref) ref {
	if to, ok := by[r]; ok {
		return to
	}
	n := g.nodes[r]
	for i, a := range n.args {
		if a != none {
			n.args[i] = g.replaced(a, by)
		}
	}
	to := r
	if n != g.nodes[r] {
		to = g.make(n.op, n.args)
	}
	by[r] = to
	return to
}

// reached lists r and what it is made of, arguments first.
func (g *graph) reached(r ref) (order []ref) {
	seen := map[ref]bool{}
	var visit func(r ref)
	visit = func(r ref) {
		if r == none || seen[r] {
			return
		}
		seen[r] = true
		for _, a := range g.nodes[r].args {
			visit(a)
		}
		order = append(order, r)
	}
	visit(r)
	return order
}

// term returns r as a text, for those who are to read it.
func (g *graph) term(r ref) *term {
	n := g.nodes[r]
	t := &term{op: n.op, number: n.number()}
	for _, a := range n.args {
		if a != none {
			t.args = append(t.args, g.term(a))
		}
	}
	switch n.op { // what texts have no name for
	case opSech2:
		tanh := &term{op: opTanh, args: t.args}
		return &term{op: opSub, args: []*term{{op: opNumber, number: 1},
			{op: opPow, args: []*term{tanh, {op: opNumber, number: 2}}}}}
	case opDensity:
		below := &term{op: opSigmoid, args: []*term{{op: opNeg, args: t.args}}}
		return &term{op: opMul, args: []*term{{op: opSigmoid, args: t.args}, below}}
	}
	return t
}
