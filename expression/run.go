package expression

import (
	"context"
	"math"
	"sync"

	"github.com/gatedlearning/moe/internal/kernel"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/plugins/tanh"
	"github.com/gatedlearning/moe/sdk"
)

// block is the number of values that go through a program together.
const block = 256

// step is an operation on blocks: to and from are registers, of which 0 are the values z
// and 1 is where the result goes.
type step struct {
	op   op
	to   int
	from [3]int
	by   func(dst, a []float64) // in the place of op, where a number is part of it
}

const (
	registerZ   = 0
	registerOut = 1
)

// program computes one expression. It is safe for concurrent use.
type program struct {
	steps    []step
	numbers  map[int]float64 // registers that hold one number
	free     int             // the number of registers
	machines sync.Pool       // of *machine
}

// machine is the registers of a running program.
type machine struct{ registers [][]float64 }

// compile returns the program of r. Registers are taken again where nobody needs what is in
// them any more.
func compile(g *graph, r ref) *program {
	c := &compiler{g: g, p: &program{numbers: map[int]float64{}, free: 2}, in: map[ref]int{g.z(): registerZ},
		users: map[ref]int{}}
	for _, at := range c.reached(r) {
		c.step(at, at == r)
	}
	c.p.machines.New = func() any {
		m := &machine{registers: make([][]float64, c.p.free)}
		for i := range m.registers {
			m.registers[i] = make([]float64, block)
			if v, ok := c.p.numbers[i]; ok {
				for j := range m.registers[i] {
					m.registers[i][j] = v
				}
			}
		}
		return m
	}
	return c.p
}

type compiler struct {
	g     *graph
	p     *program
	in    map[ref]int // registers
	users map[ref]int // that are still to come
	spare []int
}

// reached lists r and what its steps need, arguments first, and counts who needs them.
func (c *compiler) reached(r ref) (order []ref) {
	seen := map[ref]bool{}
	var visit func(r ref)
	visit = func(r ref) {
		if seen[r] {
			return
		}
		seen[r] = true
		for _, a := range c.operands(r) {
			c.users[a]++
			visit(a)
		}
		order = append(order, r)
	}
	visit(r)
	return order
}

// operands are the nodes whose values the step of r needs.
func (c *compiler) operands(r ref) []ref {
	if a, _ := c.fused(r); a != none {
		return []ref{a}
	}
	var out []ref
	for _, a := range c.g.nodes[r].args {
		if a != none {
			out = append(out, a)
		}
	}
	return out
}

// step adds the step of r.
func (c *compiler) step(r ref, last bool) {
	n := c.g.nodes[r]
	switch {
	case n.op == opNumber && !last:
		c.in[r] = c.p.free
		c.p.numbers[c.p.free] = n.number()
		c.p.free++
		return
	case n.op == opZ && !last:
		return
	}
	s := step{op: n.op}
	_, s.by = c.fused(r)
	if n.op == opNumber {
		s.by = func(dst, _ []float64) { fill(dst, n.number()) }
	}
	operands := c.operands(r)
	for i, a := range operands {
		s.from[i] = c.in[a]
	}
	for _, a := range operands {
		if c.users[a]--; c.users[a] == 0 && c.g.nodes[a].op != opZ && c.g.nodes[a].op != opNumber {
			c.spare = append(c.spare, c.in[a])
		}
	}
	switch k := len(c.spare); {
	case last:
		s.to = registerOut
	case k > 0: // may be that of an operand: steps go value by value
		s.to, c.spare = c.spare[k-1], c.spare[:k-1]
	default:
		s.to = c.p.free
		c.p.free++
	}
	c.in[r] = s.to
	c.p.steps = append(c.p.steps, s)
}

// run writes the values at z to dst, which may be z.
func (p *program) run(dst, z []float64) {
	m := p.machines.Get().(*machine)
	for len(z) > 0 {
		n := min(block, len(z))
		m.registers[registerZ], m.registers[registerOut] = z[:n], dst[:n]
		for i := range p.steps {
			s := &p.steps[i]
			to := m.registers[s.to][:n]
			if s.by != nil {
				s.by(to, m.registers[s.from[0]][:n])
				continue
			}
			s.op.block(to, m.registers[s.from[0]][:n], m.registers[s.from[1]], m.registers[s.from[2]])
		}
		dst, z = dst[n:], z[n:]
	}
	m.registers[registerZ], m.registers[registerOut] = nil, nil
	p.machines.Put(m)
}

// fused returns the one operand, and the step, of operations that a number is part of, and
// of a choice between two numbers by the sign of a difference from a third: none elsewhere.
func (c *compiler) fused(r ref) (ref, func(dst, a []float64)) {
	g := c.g
	n := g.nodes[r]
	a, b := n.args[0], n.args[1]
	if n.op == opWhere {
		return c.fusedStep(n)
	}
	if a == none || b == none {
		return none, nil
	}
	if v, ok := g.number(a); ok {
		switch n.op {
		case opAdd, opMul, opMax, opMin:
			return b, withNumber(n.op, v)
		case opSub:
			return b, func(dst, u []float64) {
				for i, u := range u[:len(dst)] {
					dst[i] = v - u
				}
			}
		}
	}
	if v, ok := g.number(b); ok {
		switch n.op {
		case opSub:
			return a, withNumber(opAdd, -v)
		case opMax, opMin:
			return a, withNumber(n.op, v)
		case opPow:
			return a, whole(v)
		}
	}
	return none, nil
}

// withNumber is the step of u + v, v·u, max(u, v) or min(u, v).
func withNumber(o op, v float64) func(dst, a []float64) {
	switch o {
	case opAdd:
		return func(dst, u []float64) {
			for i, u := range u[:len(dst)] {
				dst[i] = u + v
			}
		}
	case opMul:
		return func(dst, u []float64) {
			for i, u := range u[:len(dst)] {
				dst[i] = v * u
			}
		}
	case opMax:
		if v == 0 {
			return func(dst, u []float64) {
				for i, u := range u[:len(dst)] {
					dst[i] = max(u, 0)
				}
			}
		}
		return func(dst, u []float64) {
			for i, u := range u[:len(dst)] {
				dst[i] = max(u, v)
			}
		}
	}
	return func(dst, u []float64) {
		for i, u := range u[:len(dst)] {
			dst[i] = min(u, v)
		}
	}
}

// whole is the step of u^n, by squares where n is a small whole number.
func whole(n float64) func(dst, a []float64) {
	switch n {
	case 2:
		return func(dst, u []float64) {
			for i, u := range u[:len(dst)] {
				dst[i] = u * u
			}
		}
	case 3:
		return func(dst, u []float64) {
			for i, u := range u[:len(dst)] {
				dst[i] = u * u * u
			}
		}
	case 4:
		return func(dst, u []float64) {
			for i, u := range u[:len(dst)] {
				s := u * u
				dst[i] = s * s
			}
		}
	}
	return func(dst, u []float64) {
		for i, u := range u[:len(dst)] {
			dst[i] = math.Pow(u, n)
		}
	}
}

// fusedStep is where(u ≤ v, x, y), or ≥, of numbers v, x and y.
func (c *compiler) fusedStep(n node) (ref, func(dst, a []float64)) {
	g := c.g
	l, r, ok := g.pair(n.args[0], opLessEqual)
	x, known := g.number(n.args[1])
	y, also := g.number(n.args[2])
	if !ok || !known || !also {
		return none, nil
	}
	if v, ok := g.number(r); ok { // u ≤ v: 0 ≤ v − u
		return l, func(dst, u []float64) {
			values := [2]float64{x, y}
			for i, u := range u[:len(dst)] {
				dst[i] = values[math.Float64bits(v-u)>>63]
			}
		}
	}
	if v, ok := g.number(l); ok {
		return r, func(dst, u []float64) {
			values := [2]float64{x, y}
			for i, u := range u[:len(dst)] {
				dst[i] = values[math.Float64bits(u-v)>>63]
			}
		}
	}
	return none, nil
}

func fill(dst []float64, v float64) {
	for i := range dst {
		dst[i] = v
	}
}

// tanh and the sigmoid are those of the built-ins.
var (
	theTanh    = member(tanh.Family)
	theSigmoid = member(sigmoid.Family)
)

func member(f sdk.Family) sdk.Activation {
	act, err := f.Activation(nil)
	if err != nil {
		panic(err)
	}
	return act
}

// scalar are the functions that are computed value by value.
var scalar = map[op]func(float64) float64{
	opLog1p: math.Log1p, opExpm1: math.Expm1, opCbrt: math.Cbrt, opSinh: math.Sinh, opCosh: math.Cosh,
	opAtan: math.Atan, opErf: math.Erf, opErfc: math.Erfc,
	opPhi: func(u float64) float64 { return 0.5 * math.Erfc(-u*(math.Sqrt2/2)) },
	opSign: func(u float64) float64 {
		switch {
		case u > 0:
			return 1
		case u < 0:
			return -1
		}
		return u // 0, or NaN
	},
}

// block writes o of blocks to dst, which may be any of them: of b and c where o takes
// them.
func (o op) block(dst, a, b, c []float64) {
	a = a[:len(dst)]
	switch o {
	case opZ:
		copy(dst, a)
	case opExp:
		kernel.Exp(dst, a)
	case opLog:
		kernel.Log(dst, a)
	case opSoftplus:
		softplus(dst, a)
	case opTanh:
		must(theTanh.Eval(context.Background(), dst, a))
	case opSech2:
		must(theTanh.Deriv(context.Background(), dst, a))
	case opSigmoid:
		must(theSigmoid.Eval(context.Background(), dst, a))
	case opDensity:
		must(theSigmoid.Deriv(context.Background(), dst, a))
	case opNeg:
		for i, u := range a {
			dst[i] = -u
		}
	case opAbs:
		for i, u := range a {
			dst[i] = math.Abs(u)
		}
	case opSqrt:
		for i, u := range a {
			dst[i] = math.Sqrt(u)
		}
	case opNot:
		for i, u := range a {
			dst[i] = 1 - u
		}
	case opTrue:
		fill(dst, 1)
	case opFalse:
		fill(dst, 0)
	case opWhere:
		choose(dst, a, b[:len(dst)], c[:len(dst)])
	default:
		if f := scalar[o]; f != nil {
			for i, u := range a {
				dst[i] = f(u)
			}
			return
		}
		o.two(dst, a, b[:len(dst)])
	}
}

func must(err error) {
	if err != nil {
		panic(err) // lengths that differ
	}
}

// two is block for operations of two numbers.
func (o op) two(dst, a, b []float64) {
	switch o {
	case opAdd:
		for i, u := range a {
			dst[i] = u + b[i]
		}
	case opSub:
		for i, u := range a {
			dst[i] = u - b[i]
		}
	case opMul:
		for i, u := range a {
			dst[i] = u * b[i]
		}
	case opDiv:
		for i, u := range a {
			dst[i] = u / b[i]
		}
	case opPow:
		for i, u := range a {
			dst[i] = math.Pow(u, b[i])
		}
	case opMin:
		for i, u := range a {
			dst[i] = min(u, b[i])
		}
	case opMax:
		for i, u := range a {
			dst[i] = max(u, b[i])
		}
	case opAnd:
		for i, u := range a {
			dst[i] = u * b[i]
		}
	case opOr:
		for i, u := range a {
			dst[i] = max(u, b[i])
		}
	default:
		o.compare(dst, a, b)
	}
}

// compare is two for comparisons: 1 where they hold, else 0.
func (o op) compare(dst, a, b []float64) {
	switch o {
	case opLess:
		for i, u := range a {
			dst[i] = truth(u < b[i])
		}
	case opLessEqual:
		for i, u := range a {
			dst[i] = truth(u <= b[i])
		}
	case opEqual:
		for i, u := range a {
			dst[i] = truth(u == b[i])
		}
	case opGreater, opGreaterEqual: // of numbers, which are folded as they were written
		map[op]op{opGreater: opLess, opGreaterEqual: opLessEqual}[o].compare(dst, b, a)
	default:
		panic("expression: no operation of two numbers")
	}
}

// truth is 1 or 0, without a branch.
func truth(holds bool) float64 {
	var bits uint64
	if holds {
		bits = 0x3ff << 52
	}
	return math.Float64frombits(bits)
}

// choose writes a_i where c_i is 1, else b_i.
func choose(dst, c, a, b []float64) {
	for i, c := range c {
		v := math.Float64bits(b[i])
		if c != 0 {
			v = math.Float64bits(a[i])
		}
		dst[i] = math.Float64frombits(v)
	}
}

// softplus writes log(1 + e^u) = max(u, 0) + log(1 + e^−|u|) to dst. With w = 1 + e rounded,
// log(1 + e) = log w + (e − (w − 1))/w to the second order in the rounding.
func softplus(dst, a []float64) {
	var room, above [block]float64
	e, w := room[:len(dst)], above[:len(dst)]
	for i, u := range a {
		e[i] = -math.Abs(u)
	}
	kernel.Exp(e, e)
	for i, e := range e {
		w[i] = 1 + e
	}
	logs := dst
	if &dst[0] == &a[0] {
		var held [block]float64
		logs = held[:len(dst)]
	}
	kernel.Log(logs, w)
	for i, u := range a {
		dst[i] = max(u, 0) + (logs[i] + (e[i]-(w[i]-1))/w[i])
	}
}
