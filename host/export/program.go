// Package export writes a fitted model in other languages, in which it predicts without this program: an ONNX graph,
// a statement of SQL, a function of Go, and one of Python with numpy.
//
//	err := export.Write(ctx, w, m, export.Request{Language: export.SQL})
//
// All four are written from one form of the prediction, a [program]: operations on numbers of one row, from the raw
// columns to the mean, the gate and the posterior, in which equal ones are one. A language says how it writes each;
// what it has not is composed of others ([lowered]), or refused by name ([UnsupportedError]). Numbers are float64, and
// written such that they are read as the same.
package export

import (
	"fmt"
	"math"
	"slices"
)

// op is an operation of a program.
type op string

// The operations. Conditions are values of their own kind, which only where, and, or and not take.
const (
	opNumber op = "a number"
	opColumn op = "a column"             // text is its name
	opCode   op = "a level's place"      // of a column of words among levels; −1 of any other word
	opY      op = "the target"           //
	opSum    op = "an exact sum"         // numbers[0] + Σ_j numbers[j+1]·args[j], as if in twice the digits
	opPieces op = "a function of panels" // of args[0]

	opNeg   op = "neg"
	opAdd   op = "+"
	opSub   op = "-"
	opMul   op = "*"
	opDiv   op = "/"
	opPow   op = "^"
	opMin   op = "min"
	opMax   op = "max"
	opWhere op = "where"

	opExp      op = "exp"
	opLog      op = "log"
	opLog1p    op = "log1p"
	opExpm1    op = "expm1"
	opSqrt     op = "sqrt"
	opCbrt     op = "cbrt"
	opAbs      op = "abs"
	opTanh     op = "tanh"
	opSinh     op = "sinh"
	opCosh     op = "cosh"
	opAtan     op = "atan"
	opErf      op = "erf"
	opErfc     op = "erfc"
	opPhi      op = "Phi"
	opSoftplus op = "softplus"
	opSigmoid  op = "sigmoid"
	opSign     op = "sign"
	opSech2    op = "sech2"
	opDensity  op = "density"

	opTrue      op = "true"
	opFalse     op = "false"
	opLess      op = "<"
	opLessEqual op = "<="
	opEqual     op = "=="
	opAnd       op = "and"
	opOr        op = "or"
	opNot       op = "not"
)

// ref names a node of a program: its place.
type ref int

// node is an operation of earlier nodes.
type node struct {
	op      op
	args    []ref
	number  float64   // of opNumber
	text    string    // the column of opColumn and opCode
	levels  []string  // of opCode
	numbers []float64 // of opSum
	pieces  *pieces   // of opPieces
	label   string    // a name for those who read the text; "" for none
}

// pieces is a function that is a polynomial on each panel from edges[i] to edges[i+1], the latter excluded:
//
//	Σ_j coefficients[i][j]·t^j,   t = (z − centre[i])·slope[i]
//
// Panels may reach to ±∞; beyond the first and the last edge it has no value, NaN.
type pieces struct {
	number        int // of those of a program, from 1
	edges         []float64
	centre, slope []float64
	coefficients  [][]float64 // all of the same length
}

// program computes what a model says of a row.
type program struct {
	nodes  []node
	places map[string]ref // of nodes by what they are

	columns []column // that are read
	target  string
	single  string // a column without which, where no target is told, trials are 1; "" where there is none

	k         int  // experts, the one that is always 0 among them
	zero      bool // there is that one, the last
	steep     bool // a gate has coefficients so large that the rounding of its sums is seen
	mean      ref  // −1 where there is none
	gate      []ref
	posterior []ref // nil where the target is not read
	// The mixture of normal distributions that h(y) has, for quantiles: weights and means by row, and deviations.
	weights, means []ref
	sigma          []float64
	scale          string // h
}

// column is a raw column that a program reads.
type column struct {
	name  string
	words bool // else numbers
}

func newProgram() *program { return &program{places: map[string]ref{}, mean: -1} }

// add returns the node n, which may be there already.
func (p *program) add(n node) ref {
	key := n.key()
	if r, ok := p.places[key]; ok {
		return r
	}
	r := ref(len(p.nodes))
	p.nodes, p.places[key] = append(p.nodes, n), r
	return r
}

// named gives a node a name.
func (p *program) named(r ref, label string) ref {
	if n := &p.nodes[r]; n.label == "" && n.op != opNumber && n.op != opColumn && n.op != opY {
		n.label = label
	}
	return r
}

// num is a number; −0 is 0.
func (p *program) num(v float64) ref { return p.add(node{op: opNumber, number: v + 0}) }

// constant returns the number that r is.
func (p *program) constant(r ref) (float64, bool) {
	n := &p.nodes[r]
	return n.number, n.op == opNumber
}

// is says whether r is the number v.
func (p *program) is(r ref, v float64) bool {
	c, ok := p.constant(r)
	return ok && c == v
}

// make returns o of args, or what that is where it is simpler for all numbers.
func (p *program) make(o op, args ...ref) ref {
	if r, ok := p.folded(o, args); ok {
		return r
	}
	switch o {
	case opAdd:
		if p.is(args[0], 0) {
			return args[1]
		}
		if p.is(args[1], 0) {
			return args[0]
		}
	case opSub:
		if p.is(args[1], 0) {
			return args[0]
		}
	case opMul:
		if p.is(args[0], 1) {
			return args[1]
		}
		if p.is(args[1], 1) {
			return args[0]
		}
	case opDiv:
		if p.is(args[1], 1) {
			return args[0]
		}
	case opPow:
		if n, ok := p.constant(args[1]); ok {
			if r, ok := p.whole(args[0], n); ok {
				return r
			}
		}
	case opAnd:
		if p.nodes[args[0]].op == opTrue {
			return args[1]
		}
		if p.nodes[args[1]].op == opTrue {
			return args[0]
		}
	}
	return p.add(node{op: o, args: slices.Clone(args)})
}

// folded computes sums, differences and products of numbers, and quotients, where they are finite.
func (p *program) folded(o op, args []ref) (ref, bool) {
	var v [2]float64
	for i, a := range args {
		c, ok := p.constant(a)
		if !ok || len(args) > 2 {
			return 0, false
		}
		v[i] = c
	}
	var out float64
	switch o {
	case opNeg:
		out = -v[0]
	case opAdd:
		out = v[0] + v[1]
	case opSub:
		out = v[0] - v[1]
	case opMul:
		out = v[0] * v[1]
	case opDiv:
		out = v[0] / v[1]
	default:
		return 0, false
	}
	if math.IsNaN(out) || math.IsInf(out, 0) {
		return 0, false
	}
	return p.num(out), true
}

// whole is u^n by products, for small whole n.
func (p *program) whole(u ref, n float64) (ref, bool) {
	square := func() ref { return p.make(opMul, u, u) }
	switch n {
	case 1:
		return u, true
	case 2:
		return square(), true
	case 3:
		return p.make(opMul, square(), u), true
	case 4:
		return p.make(opMul, square(), square()), true
	}
	return 0, false
}

// sum is constant + Σ_j w_j·x_j from the left, without the terms whose w is 0.
func (p *program) sum(constant float64, w []float64, x []ref) ref {
	out := p.num(constant)
	for j, c := range w {
		if c != 0 {
			out = p.make(opAdd, out, p.make(opMul, p.num(c), x[j]))
		}
	}
	return out
}

// exactSum is the same, in which no digits are lost where large terms cancel.
func (p *program) exactSum(constant float64, w []float64, x []ref) ref {
	n := node{op: opSum, numbers: []float64{constant}}
	for j, c := range w {
		if c != 0 {
			n.args, n.numbers = append(n.args, x[j]), append(n.numbers, c)
		}
	}
	if len(n.args) == 0 {
		return p.num(constant)
	}
	return p.add(n)
}

// where is a where the condition holds, else b.
func (p *program) where(condition, a, b ref) ref { return p.make(opWhere, condition, a, b) }

// between says whether lo <= u <= hi.
func (p *program) between(lo float64, u ref, hi float64) ref {
	return p.make(opAnd, p.make(opLessEqual, p.num(lo), u), p.make(opLessEqual, u, p.num(hi)))
}

// finite says whether u is a finite number.
func (p *program) finite(u ref) ref { return p.between(-math.MaxFloat64, u, math.MaxFloat64) }

// fold is o of all values from the left.
func (p *program) fold(o op, values []ref) ref {
	out := values[0]
	for _, v := range values[1:] {
		out = p.make(o, out, v)
	}
	return out
}

// softmax is e^{s_i}/Σ_i e^{s_i}; the largest goes first.
func (p *program) softmax(scores []ref) []ref {
	if len(scores) == 1 {
		return []ref{p.num(1)}
	}
	top := p.fold(opMax, scores)
	powers, out := make([]ref, len(scores)), make([]ref, len(scores))
	for i, s := range scores {
		powers[i] = p.make(opExp, p.make(opSub, s, top))
	}
	total := p.fold(opAdd, powers)
	for i := range out {
		out[i] = p.make(opDiv, powers[i], total)
	}
	return out
}

// logSumExp is log Σ_i e^{s_i}.
func (p *program) logSumExp(scores []ref) ref {
	if len(scores) == 1 {
		return scores[0]
	}
	top := p.fold(opMax, scores)
	powers := make([]ref, len(scores))
	for i, s := range scores {
		powers[i] = p.make(opExp, p.make(opSub, s, top))
	}
	return p.make(opAdd, top, p.make(opLog, p.fold(opAdd, powers)))
}

// outputs are the nodes that a program is for, without those of quantiles.
func (p *program) outputs() (out []ref) {
	if p.mean >= 0 {
		out = append(out, p.mean)
	}
	return append(append(out, p.gate...), p.posterior...)
}

// panels are the functions of panels that p has.
func (p *program) panels() (out []*pieces) {
	for _, n := range p.nodes {
		if n.pieces != nil && !slices.Contains(out, n.pieces) {
			out = append(out, n.pieces)
		}
	}
	return out
}

// class names what is of class i of the gate, from 0.
func (p *program) class(prefix string, i int) string {
	if p.zero && i == p.k-1 {
		return prefix + "_zero"
	}
	return fmt.Sprint(prefix, i+1)
}
