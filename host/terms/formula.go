package terms

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/scaling"
)

// Formula is a formula in two parts, y ~ experts | gate, as R writes them, or with log(y), sqrt(y) or 1/y for y, or
// cbind(y, failures), whose trials are the sum of both. Behind a second bar stands the column of the ids of groups,
// whose rows have one expert. A term offset(COLUMN) or offset(log(COLUMN)) of the experts is added with no coefficient.
type Formula struct {
	Text   string
	Target string        // the column
	Scale  scaling.Scale // what is fitted of it
	// the columns that are neither, as descriptions write them: ids behind a second bar, offset(), trials by cbind()
	Roles dataset.Roles

	parser  *parser
	experts *node
	gate    *node // nil where there is no bar: the gate has the experts' terms
}

// Parse reads a formula. Errors are an *[Error].
func Parse(text string) (*Formula, error) {
	p, err := newParser(text)
	if err != nil {
		return nil, err
	}
	f := &Formula{Text: text, parser: p}
	if first := p.token; first.kind != "name" && first.text != "1" || first.text == "." {
		return nil, p.fail(first.at, "%s, want the target's column, then ~", p.found())
	}
	left, err := p.binary(0)
	if err != nil {
		return nil, err
	}
	if err := f.left(left); err != nil {
		return nil, err
	}
	if !p.is("~") {
		return nil, p.fail(p.token.at, "%s; want ~ behind the left side", p.found())
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	if f.experts, err = p.binary(0); err != nil {
		return nil, err
	}
	if f.experts, err = f.offset(f.experts, true); err != nil {
		return nil, err
	}
	if f.experts == nil {
		f.experts = &node{op: "number", text: "1"}
	}
	if p.is("|") {
		if err := p.next(); err != nil {
			return nil, err
		}
		if f.gate, err = p.binary(0); err != nil {
			return nil, err
		}
	}
	if p.is("|") {
		if err := f.group(); err != nil {
			return nil, err
		}
	}
	if p.token.kind != "end" {
		return nil, p.fail(p.token.at, "%s; a formula is y ~ experts, y ~ experts | gate or "+
			"y ~ experts | gate | group", p.found())
	}
	return f, nil
}

// group reads what stands behind the second bar: the name of a column.
func (f *Formula) group() error {
	p := f.parser
	if err := p.next(); err != nil {
		return err
	}
	at := p.token.at
	n, err := p.binary(0)
	if err != nil {
		return err
	}
	if n.op != "name" || n.text == "." {
		return p.fail(at, "behind the second bar stands the column of the groups' ids")
	}
	f.Roles[model.Groups] = n.text
	return nil
}

// offset takes the offset out of a sum of terms, which has no meaning among them; added says whether the sum is added.
// nil is nothing left.
func (f *Formula) offset(n *node, added bool) (*node, error) {
	var err error
	switch {
	case n.op == "call" && n.text == "offset":
		return nil, f.takeOffset(n, added)
	case n.op == "(":
		if n.args[0], err = f.offset(n.args[0], added); n.args[0] == nil {
			return nil, err
		}
	case n.op == "-" && len(n.args) == 1:
		_, err = f.offset(n.args[0], false)
	case (n.op == "+" || n.op == "-") && len(n.args) == 2:
		left, err := f.offset(n.args[0], added)
		if err != nil {
			return nil, err
		}
		right, err := f.offset(n.args[1], added && n.op == "+")
		switch {
		case err != nil:
			return nil, err
		case left == nil && n.op == "-":
			return &node{op: "-", at: n.at, args: []*node{right}}, nil
		case left == nil:
			return right, nil
		case right == nil:
			return left, nil
		}
		return &node{op: n.op, at: n.at, args: []*node{left, right}}, nil
	}
	return n, err
}

// takeOffset takes the column of an offset.
func (f *Formula) takeOffset(n *node, added bool) error {
	if !added {
		return f.parser.fail(n.at, "an offset is added, and here stands a minus")
	}
	if was := f.Roles[model.Offsets]; was != "" {
		return f.parser.fail(n.at, "there is an offset already, %s; add them up in a column", was)
	}
	of, text := n, "%s"
	if len(n.args) == 1 && n.args[0].op == "call" && n.args[0].text == "log" {
		of, text = n.args[0], "log(%s)"
	}
	if len(of.args) != 1 || of.args[0].op != "name" {
		return f.parser.fail(n.at, "want offset(COLUMN) or offset(log(COLUMN))")
	}
	f.Roles[model.Offsets] = fmt.Sprintf(text, of.args[0].text)
	return nil
}

// left reads the left side.
func (f *Formula) left(n *node) error {
	of := n
	switch {
	case n.op == "call" && n.text == "cbind":
		for _, a := range n.args {
			if a.op != "name" || a.text == "." || len(n.args) != 2 {
				return f.parser.fail(n.at, "want cbind(COLUMN, COLUMN): successes, failures")
			}
		}
		of = n.args[0]
		f.Roles[model.Trials] = dataset.Cbind(of.text, n.args[1].text)
	case n.op == "call" && len(n.args) == 1 && (n.text == "log" || n.text == "sqrt"):
		f.Scale, of = scaling.Scale(n.text), n.args[0]
	case n.op == "call" && len(n.args) == 1 && n.text == "I" && n.args[0].op == "/":
		return f.left(n.args[0])
	case n.op == "/" && n.args[0].op == "number" && n.args[0].text == "1":
		f.Scale, of = scaling.Reciprocal, n.args[1]
	}
	if of.op != "name" {
		return f.parser.fail(n.at, "the left side is a column, or log, sqrt or 1/ of one, or cbind(successes, "+
			"failures), then ~")
	}
	f.Target = of.text
	return nil
}

// variable is what terms are products of.
type variable struct {
	name   string // as R names it
	node   *node
	kind   kind
	column string // of a bare column, or of factor()
	degree int    // of poly
}

type kind int

const (
	bare       kind = iota // a column as it is: numbers, or a factor of words
	expression             // arithmetic
	polynomial             // poly(expression, degree)
	factor                 // factor(column)
)

// part is one side of the bar.
type part struct {
	intercept bool
	terms     []term
	// those whose coefficients are the same in all experts, and whether the intercept is among them
	shared          []term
	sharedIntercept bool
}

// term is a product of variables, by their places in ascending order.
type term []int

// expansion is a formula with its operators carried out.
type expansion struct {
	parser    *parser
	columns   []string // those that "." stands for
	known     []string // of the table
	variables []variable
}

// expand carries out the operators of both parts. known are the columns of the
// table, dots those for which "." stands.
func (f *Formula) expand(known, dots []string) (e *expansion, experts, gate part, err error) {
	e = &expansion{parser: f.parser, columns: dots, known: known}
	if !slices.Contains(known, f.Target) {
		return nil, experts, gate, f.parser.fail(0, "no column %q; there are %s", f.Target, shorten(known))
	}
	if experts, err = e.part(f.experts); err != nil {
		return nil, experts, gate, err
	}
	gate = experts
	if f.gate != nil {
		if gate, err = e.part(f.gate); err != nil {
			return nil, experts, gate, err
		}
		if gate.sharedIntercept || gate.shared != nil {
			return nil, experts, gate, f.parser.fail(f.gate.at, "shared() is of the experts' terms, before the bar")
		}
	}
	for i, v := range e.variables {
		if slices.Contains(columnsOf(nil, v.node), f.Target) {
			return nil, experts, gate, f.parser.fail(v.node.at, "%s is the target and stands on the right",
				e.variables[i].name)
		}
	}
	for _, column := range f.Roles.Raw().Columns() {
		if !slices.Contains(known, column) {
			return nil, experts, gate, f.parser.fail(0, "no column %q; there are %s", column, shorten(known))
		}
	}
	return e, experts, gate, nil
}

// part carries out the operators of one side; terms of few variables come first.
func (e *expansion) part(n *node) (part, error) {
	p := part{intercept: true}
	err := e.sum(&p, n, true)
	slices.SortStableFunc(p.terms, func(a, b term) int { return len(a) - len(b) })
	return p, err
}

// sum adds to p, or takes from it, the terms of a sum.
func (e *expansion) sum(p *part, n *node, add bool) error {
	switch {
	case (n.op == "+" || n.op == "-") && len(n.args) == 2:
		if err := e.sum(p, n.args[0], add); err != nil {
			return err
		}
		return e.sum(p, n.args[1], add == (n.op == "+"))
	case (n.op == "+" || n.op == "-") && len(n.args) == 1:
		return e.sum(p, n.args[0], add == (n.op == "+"))
	case n.op == "(":
		return e.sum(p, n.args[0], add)
	case n.op == "call" && n.text == "shared":
		return e.share(p, n, add)
	case n.op == "number" && (n.text == "0" || n.text == "1"):
		p.intercept = add == (n.text == "1")
		return nil
	}
	list, err := e.terms(n)
	if err != nil {
		return err
	}
	for _, t := range list {
		i := slices.IndexFunc(p.terms, func(u term) bool { return slices.Equal(t, u) })
		switch {
		case add && i < 0:
			p.terms = append(p.terms, t)
		case !add && i >= 0:
			p.terms = slices.Delete(p.terms, i, i+1)
		}
	}
	return nil
}

// share adds the terms of shared(a + b) to p; the intercept is among them where a 1 is.
func (e *expansion) share(p *part, n *node, add bool) error {
	if len(n.args) != 1 || !add {
		return e.parser.fail(n.at, "want + shared(TERMS), of terms that have one coefficient for all experts")
	}
	var of part
	if err := e.sum(&of, n.args[0], true); err != nil {
		return err
	}
	p.terms, p.shared = unite(p.terms, of.terms), unite(p.shared, of.terms)
	if of.intercept {
		p.intercept, p.sharedIntercept = true, true
	}
	return nil
}

// terms returns those of a node other than the intercept.
func (e *expansion) terms(n *node) ([]term, error) {
	switch {
	case n.op == "(" || (n.op == "+" || n.op == "-"):
		var p part
		err := e.sum(&p, n, true)
		return p.terms, err
	case n.op == "*" || n.op == ":":
		left, err := e.terms(n.args[0])
		if err != nil {
			return nil, err
		}
		right, err := e.terms(n.args[1])
		if err != nil {
			return nil, err
		}
		both := products(left, right)
		if n.op == "*" {
			both = unite(unite(left, right), both)
		}
		return both, e.bound(n, both)
	case n.op == "^":
		return e.power(n)
	case n.op == "/":
		return nil, e.parser.fail(n.at, "\"/\" is not an operator of terms; write it in I()")
	case n.op == "number":
		return nil, e.parser.fail(n.at, "%s is no term; 0 and 1 stand for the intercept, arithmetic in I()", n.text)
	case n.op == "name" && n.text == "." && e.parser.text[n.at] == '.':
		var list []term
		for _, name := range e.columns {
			i, err := e.variable(&node{op: "name", text: name, at: n.at})
			if err != nil {
				return nil, err
			}
			list = unite(list, []term{{i}})
		}
		return list, nil
	}
	i, err := e.variable(n)
	return []term{{i}}, err
}

// power returns the terms of (a + b)^n.
func (e *expansion) power(n *node) ([]term, error) {
	degree := n.args[1]
	times, err := strconv.Atoi(degree.text)
	if degree.op != "number" || err != nil || times < 1 {
		return nil, e.parser.fail(degree.at,
			"want a whole number from 1 as the power of terms; write arithmetic in I()")
	}
	base, err := e.terms(n.args[0])
	if err != nil {
		return nil, err
	}
	list := base
	for i := 1; i < min(times, len(base)); i++ {
		list = unite(list, products(list, base))
		if err := e.bound(n, list); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// maxTerms bounds what operators may multiply out to.
const maxTerms = 1 << 12

func (e *expansion) bound(n *node, list []term) error {
	if len(list) > maxTerms {
		return e.parser.fail(n.at, "more than %d terms", maxTerms)
	}
	return nil
}

// unite returns the terms of both lists, in order, each once.
func unite(a, b []term) []term {
	out := slices.Clone(a)
	for _, t := range b {
		if !slices.ContainsFunc(out, func(u term) bool { return slices.Equal(t, u) }) {
			out = append(out, t)
		}
	}
	return out
}

// products returns a:b for all pairs, the first of a with each of b first.
func products(a, b []term) (out []term) {
	for _, s := range a {
		for _, t := range b {
			u := slices.Concat(s, t)
			slices.Sort(u)
			out = unite(out, []term{slices.Compact(u)})
			if len(out) > maxTerms {
				return out
			}
		}
	}
	return out
}

// variable returns the place of what a node names, which it adds where it is new.
func (e *expansion) variable(n *node) (int, error) {
	name := n.String()
	if n.op == "name" {
		name = n.text
	}
	for i, v := range e.variables {
		if v.name == name && (v.kind == bare) == (n.op == "name") { // a column may have the name of what is computed
			return i, nil
		}
	}
	v, err := e.read(n)
	if err != nil {
		return 0, err
	}
	v.name, v.node = name, n
	for _, column := range columnsOf(nil, v.node) {
		if !slices.Contains(e.known, column) {
			return 0, e.parser.fail(n.at, "no column %q; there are %s", column, shorten(e.known))
		}
	}
	e.variables = append(e.variables, v)
	return len(e.variables) - 1, nil
}

// read says what kind of variable a node is.
func (e *expansion) read(n *node) (variable, error) {
	switch {
	case n.op == "name":
		return variable{kind: bare, column: n.text}, nil
	case n.op != "call":
		return variable{}, e.parser.fail(n.at, "%q has no meaning among terms", n.op)
	case n.text == "I" || slices.Contains(functions, n.text):
		return variable{kind: expression}, checkArithmetic(e.parser, n)
	case n.text == "offset":
		return variable{}, e.parser.fail(n.at, "an offset is a term of the experts, which stands in no other and not "+
			"behind the bar")
	case n.text == "factor":
		if len(n.args) != 1 || n.args[0].op != "name" {
			return variable{}, e.parser.fail(n.at, "want factor(COLUMN)")
		}
		return variable{kind: factor, column: n.args[0].text}, nil
	case n.text == "poly":
		if len(n.args) != 2 || n.args[1].op != "number" {
			return variable{}, e.parser.fail(n.at, "want poly(COLUMN, DEGREE)")
		}
		degree, err := strconv.Atoi(n.args[1].text)
		if err != nil || degree < 1 || degree > maxDegree {
			return variable{}, e.parser.fail(n.args[1].at, "want a degree from 1 to %d", maxDegree)
		}
		return variable{kind: polynomial, degree: degree}, checkArithmetic(e.parser, n.args[0])
	}
	if n.text == "shared" {
		return variable{}, e.parser.fail(n.at, "shared() stands by itself in the sum of the experts' terms")
	}
	return variable{}, e.parser.fail(n.at, "no function %s; there are I, %s, poly, factor", n.text,
		strings.Join(functions, ", "))
}

// shorten joins names, leaving out the middle of a long list.
func shorten(names []string) string {
	const most = 12
	if len(names) > most {
		names = slices.Concat(names[:most-1], []string{"…"}, names[len(names)-1:])
	}
	return strings.Join(names, ", ")
}
