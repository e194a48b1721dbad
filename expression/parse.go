package expression

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gatedlearning/moe/internal/suggest"
	"github.com/gatedlearning/moe/sdk"
)

// term is a part of a text as it was written.
type term struct {
	op     op
	args   []*term
	number float64 // of opNumber
	name   string  // of opParameter
	at     int     // where it begins
}

// functions are those of the language, by name.
var functions = map[string]struct {
	op    op
	arity int
}{
	"exp": {opExp, 1}, "log": {opLog, 1}, "log1p": {opLog1p, 1}, "expm1": {opExpm1, 1}, "sqrt": {opSqrt, 1},
	"cbrt": {opCbrt, 1},
	"abs":  {opAbs, 1}, "min": {opMin, 2}, "max": {opMax, 2}, "tanh": {opTanh, 1}, "sinh": {opSinh, 1},
	"cosh": {opCosh, 1},
	"atan": {opAtan, 1}, "erf": {opErf, 1}, "erfc": {opErfc, 1}, "Phi": {opPhi, 1}, "softplus": {opSoftplus, 1},
	"sigmoid": {opSigmoid, 1}, "sign": {opSign, 1}, "where": {opWhere, 3},
}

// words are operations by name.
var words = []string{"and", "or", "not"}

// Functions lists the functions of the language, ascending.
func Functions() (names []string) {
	for name := range functions {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// infix are the operations between two terms, by how tightly they bind.
var infix = map[string]struct {
	op    op
	power int
}{
	"or": {opOr, 1}, "and": {opAnd, 2},
	"<": {opLess, 4}, "<=": {opLessEqual, 4}, ">": {opGreater, 4}, ">=": {opGreaterEqual, 4}, "==": {opEqual, 4},
	"+": {opAdd, 5}, "-": {opSub, 5}, "*": {opMul, 6}, "/": {opDiv, 6}, "^": {opPow, 8},
}

// The binding of what stands before a term.
const (
	bindNot     = 3
	bindCompare = 4
	bindSign    = 7
	bindPow     = 8
	bindTerm    = 9
)

type tokenKind int

const (
	tokenEnd tokenKind = iota
	tokenNumber
	tokenName
	tokenMark
)

type token struct {
	kind tokenKind
	text string
	at   int
}

// parser reads a text by precedence climbing (Pratt 1973).
type parser struct {
	text   string
	params sdk.Params
	next   token
	pos    int // behind next
	terms  int
	depth  int
}

// failure carries an *Error to [parse].
type failure struct{ *Error }

func (p *parser) fail(at int, format string, args ...any) {
	panic(failure{&Error{p.text, at, fmt.Sprintf(format, args...)}})
}

// parse reads a text, which has the names of params.
func parse(text string, params sdk.Params) (t *term, err error) {
	if len(text) > MaxLength {
		return nil, fmt.Errorf("expression: it has %d bytes, and %d are allowed", len(text), MaxLength)
	}
	p := &parser{text: text, params: params}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			t, err = nil, r.Error
		default:
			panic(r)
		}
	}()
	if !utf8.ValidString(text) {
		at := strings.IndexRune(text, utf8.RuneError)
		p.fail(at, "it is not UTF-8")
	}
	for _, name := range params.Names() {
		if err := checkParameter(name); err != nil {
			return nil, err
		}
	}
	if Is(text) {
		p.pos = len(Prefix)
	}
	p.advance()
	t = p.expression(0)
	if p.next.kind != tokenEnd {
		p.fail(p.next.at, "want an operation or the end")
	}
	if t.op.condition() {
		p.fail(t.at, "a condition is no value of g: want where(condition, a, b)")
	}
	if n := len(t.String()); n > MaxLength {
		return nil, fmt.Errorf("expression: written out it has %d bytes, and %d are allowed", n, MaxLength)
	}
	return t, nil
}

// checkParameter refuses names that parameters may not have.
func checkParameter(name string) error {
	for i := range len(name) {
		if !letter(name[i]) && !(i > 0 && digit(name[i])) {
			return fmt.Errorf("expression: parameter %q: want letters, digits and _, a letter first", name)
		}
	}
	if _, taken := functions[name]; taken || name == "z" || name == "" || slices.Contains(words, name) {
		return fmt.Errorf("expression: parameter %q: the language has that name", name)
	}
	return nil
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

// advance reads the next token.
func (p *parser) advance() {
	s := p.text
	for p.pos < len(s) && (s[p.pos] == ' ' || s[p.pos] == '\t') {
		p.pos++
	}
	at := p.pos
	if at == len(s) {
		p.next = token{tokenEnd, "", at}
		return
	}
	kind := tokenMark
	switch c := s[at]; {
	case digit(c) || c == '.':
		kind = tokenNumber
		p.number()
	case letter(c):
		kind = tokenName
		for p.pos < len(s) && (letter(s[p.pos]) || digit(s[p.pos])) {
			p.pos++
		}
	case strings.IndexByte("+-*/^(),<>=", c) >= 0:
		p.pos++
		if p.pos < len(s) && s[p.pos] == '=' && strings.IndexByte("<>=", c) >= 0 {
			p.pos++
		}
	default:
		r, _ := utf8.DecodeRuneInString(s[at:])
		p.fail(at, "%q is not of the language%s", r, meant[r])
	}
	p.next = token{kind, s[at:p.pos], at}
	if p.next.text == "=" {
		p.fail(at, `want ==`)
	}
}

// meant says of signs what stands for them.
var meant = map[rune]string{
	'−': "; want -", '–': "; want -", '×': "; want *", '·': "; want *", '÷': "; want /", '²': "; want ^2",
	'³': "; want ^3",
	'≤': "; want <=", '≥': "; want >=", '&': "; want and", '|': "; want or, or abs", '!': "; want not",
	'Φ': "; want Phi", '√': "; want sqrt",
}

// number moves behind a number's digits, point and exponent.
func (p *parser) number() {
	s := p.text
	digits := func() {
		for p.pos < len(s) && digit(s[p.pos]) {
			p.pos++
		}
	}
	digits()
	if p.pos < len(s) && s[p.pos] == '.' {
		p.pos++
		digits()
	}
	if p.pos < len(s) && (s[p.pos] == 'e' || s[p.pos] == 'E') {
		exponent := p.pos + 1
		if exponent < len(s) && (s[exponent] == '+' || s[exponent] == '-') {
			exponent++
		}
		if exponent < len(s) && digit(s[exponent]) {
			p.pos = exponent
			digits()
		}
	}
}

// node counts a term, and holds its arguments against what the operation takes.
func (p *parser) node(o op, at int, args ...*term) *term {
	t := &term{op: o, args: args, at: at}
	if p.terms++; p.terms > MaxTerms {
		p.fail(at, "more than %d terms", MaxTerms)
	}
	for i, a := range args {
		switch wants := o.logical() || o == opWhere && i == 0; {
		case wants && !a.op.condition():
			p.fail(a.at, "want a condition, such as z < 0")
		case !wants && a.op.condition():
			p.fail(a.at, "want a number, not a condition: where(condition, a, b) makes one of it")
		}
	}
	return t
}

// expression reads what binds tighter than power.
func (p *parser) expression(power int) *term {
	if p.depth++; p.depth > MaxDepth {
		p.fail(p.next.at, "more than %d expressions within one another", MaxDepth)
	}
	defer func() { p.depth-- }()
	left := p.prefix()
	for {
		in, ok := infix[p.next.text]
		if !ok || in.power <= power {
			return left
		}
		if in.power == bindCompare && left.op.compares() && left.at < p.next.at && power < bindCompare &&
			!p.closed(left) {
			p.fail(p.next.at, "comparisons do not chain: want a < z and z < b")
		}
		p.advance()
		right := in.power
		if in.op == opPow { // to the right, and a sign may follow: z^-2
			right = bindSign - 1
		}
		left = p.node(in.op, left.at, left, p.expression(right))
	}
}

// closed says whether a term ends in the parenthesis that began before it.
func (p *parser) closed(t *term) bool { return p.text[t.at] == '(' }

// prefix reads a term with what stands before it.
func (p *parser) prefix() *term {
	at := p.next
	switch at.text {
	case "-":
		p.advance()
		return p.node(opNeg, at.at, p.expression(bindSign-1))
	case "+":
		p.advance()
		return p.expression(bindSign - 1)
	case "not":
		p.advance()
		return p.node(opNot, at.at, p.expression(bindNot))
	case "(":
		p.advance()
		t := p.expression(0)
		p.expect(")", at.at)
		inner := *t
		inner.at = at.at // where an error about it is shown
		return &inner
	}
	switch at.kind {
	case tokenNumber:
		return p.literal()
	case tokenName:
		return p.named()
	}
	p.fail(at.at, "want a number, z, a parameter or a function")
	return nil
}

// literal reads a number.
func (p *parser) literal() *term {
	v, err := strconv.ParseFloat(p.next.text, 64)
	if err != nil {
		if math.IsInf(v, 0) {
			p.fail(p.next.at, "the number is too large")
		}
		p.fail(p.next.at, "want a number")
	}
	t := p.node(opNumber, p.next.at)
	t.number = v
	p.advance()
	return t
}

// expect reads a mark that closes what was opened.
func (p *parser) expect(mark string, opened int) {
	if p.next.text != mark {
		p.fail(p.next.at, "want %s for the ( at character %d", mark, len([]rune(p.text[:opened]))+1)
	}
	p.advance()
}

// named reads z, a parameter or a function.
func (p *parser) named() *term {
	name, at := p.next.text, p.next.at
	p.advance()
	call := p.next.text == "("
	switch f, ok := functions[name]; {
	case ok && call:
		return p.call(name, at, f.op, f.arity)
	case ok:
		p.fail(p.next.at, "want ( after %s", name)
	case call:
		p.fail(at, "there is no function %s%s", name, near(name, Functions()))
	}
	if name == "z" {
		return p.node(opZ, at)
	}
	if _, ok := p.params[name]; !ok {
		known := append(Functions(), p.params.Names()...)
		p.fail(at, "there is no %s%s (z, functions and parameters are known, and a parameter needs its value, as in "+
			"%s=1)", name, near(name, append(known, "z")), name)
	}
	t := p.node(opParameter, at)
	t.name = name
	return t
}

// near suggests a name.
func near(name string, known []string) string {
	if i := slices.IndexFunc(known,
		func(k string) bool { return len(name) > 2 && strings.HasPrefix(k, name) }); i >= 0 {
		return fmt.Sprintf("; did you mean %s?", known[i]) // tan is tanh rather than atan
	}
	if other := suggest.Nearest(name, known); other != "" {
		return fmt.Sprintf("; did you mean %s?", other)
	}
	return ""
}

// call reads a function's arguments.
func (p *parser) call(name string, at int, o op, arity int) *term {
	opened := p.next.at
	p.advance()
	var args []*term
	for p.next.text != ")" {
		if len(args) > 0 {
			p.expectComma(name, arity, opened)
		}
		args = append(args, p.expression(0))
		if len(args) > arity {
			break
		}
	}
	if len(args) != arity {
		p.fail(at, "%s takes %s", name, arguments(arity))
	}
	p.expect(")", opened)
	return p.node(o, at, args...)
}

func (p *parser) expectComma(name string, arity, opened int) {
	if p.next.text == "," {
		p.advance()
		return
	}
	p.fail(p.next.at, "want , or ) for the ( at character %d: %s takes %s", len([]rune(p.text[:opened]))+1, name,
		arguments(arity))
}

func arguments(n int) string {
	if n == 1 {
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", n)
}

// has says whether a parameter is in t.
func (t *term) has(name string) bool {
	return t.op == opParameter && t.name == name || slices.ContainsFunc(t.args,
		func(a *term) bool { return a.has(name) })
}

// String is the canonical text: no parentheses that are not needed, one blank where
// there are any.
func (t *term) String() string {
	var b strings.Builder
	t.write(&b, 0)
	return b.String()
}

// write writes t, in parentheses where it binds less tightly than what is around it.
func (t *term) write(b *strings.Builder, around int) {
	own := t.op.binding()
	if t.op == opNumber && math.Signbit(t.number) { // of derivatives
		own = bindSign
	}
	if own < around {
		b.WriteByte('(')
		defer b.WriteByte(')')
	}
	switch {
	case t.op == opNumber:
		b.WriteString(strconv.FormatFloat(t.number, 'g', -1, 64))
	case t.op == opZ:
		b.WriteByte('z')
	case t.op == opParameter:
		b.WriteString(t.name)
	case t.op == opNeg:
		b.WriteByte('-')
		t.args[0].write(b, bindSign)
	case t.op == opNot:
		b.WriteString("not ")
		t.args[0].write(b, bindNot)
	case t.op == opPow:
		t.args[0].write(b, bindTerm)
		b.WriteByte('^')
		t.args[1].write(b, bindSign)
	case own < bindTerm:
		left, right := own, own+1
		if t.op.compares() {
			left = own + 1
		}
		t.args[0].write(b, left)
		b.WriteString(t.op.sign())
		t.args[1].write(b, right)
	default:
		b.WriteString(t.op.String())
		for i, a := range t.args {
			b.WriteString([...]string{"(", ", "}[min(i, 1)])
			a.write(b, 0)
		}
		b.WriteByte(')')
	}
}
