package terms

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Error is a fault of a formula, or a formula that the data do not fit.
type Error struct {
	Formula string
	At      int // the place in Formula, in characters from 1; 0 for none
	Msg     string
}

// Error says what is wrong and where.
func (e *Error) Error() string {
	if e.At == 0 {
		return fmt.Sprintf("formula %q: %s", e.Formula, e.Msg)
	}
	return fmt.Sprintf("formula %q, character %d: %s", e.Formula, e.At, e.Msg)
}

// Bounds on what a formula may ask for.
const (
	maxFormula = 1 << 16 // bytes
	maxDepth   = 200     // of parentheses
	maxDegree  = 20      // of poly
)

// node is a part of a formula: a name, a number, an operator or a call.
type node struct {
	op   string // "name", "number", "call", "(" or an operator
	text string // of a name or a function
	at   int    // byte in the formula
	args []*node
}

// String writes a node as R does, which is how columns are named after it.
func (n *node) String() string {
	switch {
	case n.op == "name":
		return quoteName(n.text)
	case n.op == "number":
		return n.text
	case n.op == "(":
		return "(" + n.args[0].String() + ")"
	case n.op == "call":
		args := make([]string, len(n.args))
		for i, a := range n.args {
			args[i] = a.String()
		}
		return n.text + "(" + strings.Join(args, ", ") + ")"
	case len(n.args) == 1:
		return n.op + n.args[0].String()
	case n.op == "^" || n.op == ":" || n.op == "/":
		return n.args[0].String() + n.op + n.args[1].String()
	}
	return n.args[0].String() + " " + n.op + " " + n.args[1].String()
}

// quoteName writes a column's name, in backticks where it is not one word.
func quoteName(name string) string {
	for i, r := range name {
		if !(isLetter(r) || i > 0 && isDigit(r)) {
			return "`" + name + "`"
		}
	}
	return name
}

func isLetter(r rune) bool { return unicode.IsLetter(r) || r == '.' || r == '_' }
func isDigit(r rune) bool  { return r >= '0' && r <= '9' }

// token is a name, a number, a sign, or the end, of which the text is "".
type token struct {
	kind string // name, number, sign, end
	text string
	at   int
}

// parser reads a formula from left to right.
type parser struct {
	text  string
	at    int // byte behind the token
	token token
	depth int
}

func newParser(text string) (*parser, error) {
	p := &parser{text: text}
	if len(text) > maxFormula {
		return nil, &Error{Formula: text[:20] + "…", Msg: fmt.Sprintf("%d bytes, want at most %d", len(text),
			maxFormula)}
	}
	if !utf8.ValidString(text) {
		return nil, &Error{Formula: strings.ToValidUTF8(text, "\uFFFD"), Msg: "it is not UTF-8"}
	}
	return p, p.next()
}

func (p *parser) fail(at int, format string, args ...any) error {
	return &Error{Formula: p.text, At: utf8.RuneCountInString(p.text[:at]) + 1, Msg: fmt.Sprintf(format, args...)}
}

// next reads the next token.
func (p *parser) next() error {
	rest := strings.TrimLeft(p.text[p.at:], " \t\n\r")
	start := len(p.text) - len(rest)
	p.token = token{kind: "end", at: start}
	if rest == "" {
		p.at = len(p.text)
		return nil
	}
	n := 0
	switch r, size := utf8.DecodeRuneInString(rest); {
	case r == '`':
		end := strings.IndexByte(rest[1:], '`')
		if end < 0 {
			return p.fail(start, "a backtick is opened and not closed")
		}
		p.token, n = token{"name", rest[1 : 1+end], start}, end+2
	case isDigit(r) || r == '.' && len(rest) > 1 && isDigit(rune(rest[1])):
		n = numberLength(rest)
		p.token = token{"number", rest[:n], start}
	case isLetter(r):
		n = strings.IndexFunc(rest, func(r rune) bool { return !isLetter(r) && !isDigit(r) })
		if n < 0 {
			n = len(rest)
		}
		p.token = token{"name", rest[:n], start}
	case strings.ContainsRune("+-*/^:()~|,=", r):
		n = size
		p.token = token{"sign", rest[:n], start}
	default:
		return p.fail(start, "%q has no meaning here", string(r))
	}
	p.at = start + n
	return nil
}

// numberLength is the length of the decimal number at the start of a text.
func numberLength(s string) int {
	n := 0
	for n < len(s) && (isDigit(rune(s[n])) || s[n] == '.') {
		n++
	}
	if n < len(s) && s[n]|0x20 == 'e' {
		m := n + 1
		if m < len(s) && (s[m] == '+' || s[m] == '-') {
			m++
		}
		if m < len(s) && isDigit(rune(s[m])) {
			for n = m; n < len(s) && isDigit(rune(s[n])); n++ {
			}
		}
	}
	return n
}

// is says whether the token is a sign.
func (p *parser) is(sign string) bool { return p.token.kind == "sign" && p.token.text == sign }

// expect reads past a sign.
func (p *parser) expect(sign string) error {
	if !p.is(sign) {
		return p.fail(p.token.at, "%s, want %q", p.found(), sign)
	}
	return p.next()
}

func (p *parser) found() string {
	if p.token.kind == "end" {
		return "it ends here"
	}
	return fmt.Sprintf("%q stands here", p.token.text)
}

// levels are the binary operators, the loosest first. They group to the left.
var levels = [][]string{{"+", "-"}, {"*", "/"}, {":"}}

// sum reads operators of this level and those that bind closer.
func (p *parser) binary(level int) (*node, error) {
	if level == len(levels) {
		return p.unary()
	}
	left, err := p.binary(level + 1)
	for err == nil && p.token.kind == "sign" {
		op, at := p.token.text, p.token.at
		if !slices.Contains(levels[level], op) {
			break
		}
		if err = p.next(); err != nil {
			break
		}
		var right *node
		if right, err = p.binary(level + 1); err == nil {
			left = &node{op: op, at: at, args: []*node{left, right}}
		}
	}
	return left, err
}

// unary reads a sign before a term: as in R it binds less than a power.
func (p *parser) unary() (*node, error) {
	if !p.is("-") && !p.is("+") {
		return p.power()
	}
	if p.depth++; p.depth > maxDepth {
		return nil, p.fail(p.token.at, "more than %d levels of parentheses", maxDepth)
	}
	defer func() { p.depth-- }()
	op, at := p.token.text, p.token.at
	if err := p.next(); err != nil {
		return nil, err
	}
	arg, err := p.unary()
	return &node{op: op, at: at, args: []*node{arg}}, err
}

// power reads a ^ b, which groups to the right.
func (p *parser) power() (*node, error) {
	base, err := p.primary()
	if err != nil || !p.is("^") {
		return base, err
	}
	at := p.token.at
	if err := p.next(); err != nil {
		return nil, err
	}
	exponent, err := p.unary()
	return &node{op: "^", at: at, args: []*node{base, exponent}}, err
}

// primary reads a name, a number, a call or something in parentheses.
func (p *parser) primary() (*node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, p.fail(p.token.at, "more than %d levels of parentheses", maxDepth)
	}
	defer func() { p.depth-- }()
	t := p.token
	switch {
	case t.kind == "number":
		if v, err := strconv.ParseFloat(t.text, 64); err != nil || v-v != 0 {
			return nil, p.fail(t.at, "%q is not a finite number", t.text)
		}
		return &node{op: "number", text: t.text, at: t.at}, p.next()
	case p.is("("):
		if err := p.next(); err != nil {
			return nil, err
		}
		inner, err := p.binary(0)
		if err != nil {
			return nil, err
		}
		return &node{op: "(", at: t.at, args: []*node{inner}}, p.expect(")")
	case t.kind != "name":
		return nil, p.fail(t.at, "%s, want a column, a number or a function", p.found())
	}
	backtick := p.text[t.at] == '`'
	if err := p.next(); err != nil {
		return nil, err
	}
	if backtick || !p.is("(") {
		return &node{op: "name", text: t.text, at: t.at}, nil
	}
	call := &node{op: "call", text: t.text, at: t.at}
	for {
		if err := p.next(); err != nil {
			return nil, err
		}
		arg, err := p.binary(0)
		if err != nil {
			return nil, err
		}
		call.args = append(call.args, arg)
		if !p.is(",") {
			return call, p.expect(")")
		}
	}
}

// parseArithmetic reads an expression that a model file holds.
func parseArithmetic(text string) (*node, error) {
	p, err := newParser(text)
	if err != nil {
		return nil, err
	}
	n, err := p.binary(0)
	if err == nil && p.token.kind != "end" {
		err = p.fail(p.token.at, "%s, want the end", p.found())
	}
	if err != nil {
		return nil, err
	}
	return n, checkArithmetic(p, n)
}

// functions are what an expression may call, with one argument.
var functions = []string{"log", "exp", "sqrt"}

// checkArithmetic refuses what is no arithmetic of columns.
func checkArithmetic(p *parser, n *node) error {
	switch {
	case n.op == "name" && n.text == "." && p.text[n.at] == '.':
		return p.fail(n.at, "\".\" stands for all columns, of which no number can be made")
	case n.op == ":":
		return p.fail(n.at, "\":\" is no arithmetic")
	case n.op == "call" && !slices.Contains(functions, n.text) && n.text != "I":
		return p.fail(n.at, "no function %s inside an expression; there are %s", n.text, strings.Join(functions, ", "))
	case n.op == "call" && len(n.args) != 1:
		return p.fail(n.at, "%s has %d arguments, want 1", n.text, len(n.args))
	}
	for _, a := range n.args {
		if err := checkArithmetic(p, a); err != nil {
			return err
		}
	}
	return nil
}
