package export

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// binding is how tightly the last operation of a text holds its terms.
type binding int

const (
	bindWeak binding = iota // conditions and what else is to stand in parentheses
	bindSum
	bindProduct
	bindTerm
)

// phrase is a text of a language with its binding.
type phrase struct {
	text   string
	bind   binding
	number bool // a literal
}

// within is the text of a phrase where at least this binding is wanted.
func (p phrase) within(least binding) string {
	if p.bind < least {
		return "(" + p.text + ")"
	}
	return p.text
}

// tongue is a language as a text.
type tongue interface {
	// has says whether there is an operation.
	has(o op) bool
	// phrase writes an operation of texts; sums, differences, products and quotients are written for it.
	phrase(n *node, args []phrase) phrase
	// repeats says whether it writes its arguments several times.
	repeats(o op) bool
}

// text is a program in a language: expressions, of which those that are used several times have names.
type text struct {
	*program
	tongue
	names []string // of nodes; "" of those that stand where they are used
	level []int    // of nodes with a name: that of the deepest named node below, and 1
	order []ref    // the named nodes, arguments first
	memo  map[ref]phrase
}

// deepest is how many operations may stand within one another in an expression: SQLite's parser has a stack of 100.
const deepest = 12

// textOf names the nodes that outputs need.
func textOf(p *program, t tongue, outputs []ref) *text {
	x := &text{program: p, tongue: t, names: make([]string, len(p.nodes)), level: make([]int, len(p.nodes)),
		memo: map[ref]phrase{}}
	uses, depth := make([]int, len(p.nodes)), make([]int, len(p.nodes))
	needed := make([]bool, len(p.nodes))
	for _, r := range outputs {
		needed[r] = true
		uses[r] += 2
	}
	for r := len(p.nodes) - 1; r >= 0; r-- {
		n := &p.nodes[r]
		if !needed[r] {
			continue
		}
		for _, a := range n.args {
			needed[a] = true
			uses[a]++
			if t.repeats(n.op) {
				uses[a]++
			}
		}
	}
	taken := map[string]int{}
	for r := range p.nodes {
		n := &p.nodes[r]
		if !needed[r] || n.op == opNumber || n.op == opColumn || n.op == opY || n.op == opTrue {
			continue
		}
		for _, a := range n.args {
			if x.names[a] == "" {
				depth[r] = max(depth[r], depth[a]+1)
			}
			x.level[r] = max(x.level[r], x.level[a])
		}
		if n.label == "" && uses[r] < 2 && depth[r] < deepest {
			continue
		}
		name := n.label
		switch taken[name]++; {
		case name == "":
			name = fmt.Sprint("v", taken[name])
		case taken[name] > 1:
			name = fmt.Sprint(name, "_", taken[name])
		}
		x.names[r], depth[r] = name, 0
		x.level[r]++
		x.order = append(x.order, ref(r))
	}
	return x
}

// use is a node as others use it: by its name where it has one.
func (x *text) use(r ref) phrase {
	if name := x.names[r]; name != "" {
		return phrase{text: name, bind: bindTerm}
	}
	return x.define(r)
}

// define is a node as an expression.
func (x *text) define(r ref) phrase {
	if p, ok := x.memo[r]; ok {
		return p
	}
	n := &x.nodes[r]
	args := make([]phrase, len(n.args))
	for i, a := range n.args {
		args[i] = x.use(a)
	}
	var out phrase
	switch n.op {
	case opAdd, opSub:
		out = phrase{bind: bindSum, text: args[0].within(bindSum) + " " + string(n.op) + " " +
			args[1].within(bindProduct)}
	case opMul, opDiv:
		if d, ok := x.tongue.(interface{ divisor(p phrase) phrase }); ok && n.op == opDiv {
			args[1] = d.divisor(args[1])
		}
		out = phrase{text: args[0].within(bindProduct) + string(n.op) + args[1].within(bindTerm), bind: bindProduct}
	default:
		out = x.phrase(n, args)
	}
	x.memo[r] = out
	return out
}

// call is a function of texts.
func call(name string, args ...phrase) phrase {
	texts := make([]string, len(args))
	for i, a := range args {
		texts[i] = a.text
	}
	return phrase{text: name + "(" + strings.Join(texts, ", ") + ")", bind: bindTerm}
}

// infix is an operation between two texts.
func infix(sign string, args []phrase) phrase {
	return phrase{text: args[0].within(bindSum) + " " + sign + " " + args[1].within(bindSum), bind: bindWeak}
}

// joined is a chain of conditions.
func joined(word string, args []phrase) phrase {
	return phrase{text: args[0].within(bindTerm) + " " + word + " " + args[1].within(bindTerm), bind: bindWeak}
}

// decimal is a finite number as all languages read it: to the last bit.
func decimal(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// numeral is a number in a text; NaN is not one of them.
func numeral(v float64) phrase {
	return phrase{text: decimal(v), bind: bindOf(v)}
}

// bindOf is the binding of a number: a sign binds as a difference does.
func bindOf(v float64) binding {
	if math.Signbit(v) {
		return bindSum
	}
	return bindTerm
}
