package terms

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// formula makes the features that a formula names.
func (b *builder) formula(ctx context.Context) (*Table, error) {
	r, f := b.request, b.request.Formula
	all, err := b.open(dataset.Selection{Decimal: r.Selection.Decimal})
	if err != nil {
		return nil, err
	}
	known := all.Schema().Columns()
	for _, name := range slices.Concat(r.Selection.Drop, r.Selection.Roles.Columns()) {
		if !slices.Contains(known, name) {
			return nil, &dataset.Error{File: all.Schema().Name, Msg: fmt.Sprintf("no column %q; there are %s", name,
				shorten(known))}
		}
	}
	dots := slices.DeleteFunc(slices.Clone(known), func(name string) bool {
		return name == f.Target || slices.Contains(r.Selection.Roles[:], name) || slices.Contains(r.Selection.Drop,
			name)
	})
	e, experts, gate, err := f.expand(known, dots)
	if err != nil {
		return nil, err
	}
	if err := sensible(f, experts, gate); err != nil {
		return nil, err
	}
	sel := r.Selection
	sel.Target, sel.Features, sel.Drop = f.Target, e.raw(known), nil
	src, err := b.factors(ctx, sel)
	if err != nil {
		return nil, err
	}
	b.design.Formula, b.design.Columns = f.Text, src.Schema().Features
	coded, err := b.code(ctx, e, src)
	if err != nil {
		return nil, err
	}
	t := &Table{ExpertIntercept: experts.intercept, GateIntercept: gate.intercept, Implied: f.gate == nil}
	if t.Experts, t.Shared, err = b.add(e, coded, experts); err != nil {
		return nil, err
	}
	if experts.sharedIntercept {
		t.Shared = append(t.Shared, model.InterceptName)
	}
	if t.Gate, _, err = b.add(e, coded, gate); err != nil {
		return nil, err
	}
	return b.finish(t, src)
}

// sensible refuses parts of which nothing is left.
func sensible(f *Formula, experts, gate part) error {
	switch {
	case len(experts.terms) == 0 && len(gate.terms) == 0:
		return f.parser.fail(0, "no term but the intercept: a mixture needs at least one column; behind a bar "+
			"the gate alone sees it, as in y ~ 1 | x")
	case len(experts.terms) == 0 && !experts.intercept:
		return f.parser.fail(0, "the experts have neither terms nor an intercept")
	case len(gate.terms) == 0 && !gate.intercept:
		return f.parser.fail(0, "the gate has neither terms nor an intercept")
	}
	return nil
}

// raw returns the raw columns of all variables, in the table's order.
func (e *expansion) raw(known []string) []string {
	var used []string
	for _, v := range e.variables {
		n := v.node
		if v.kind == factor || v.kind == polynomial {
			n = n.args[0]
		}
		used = columnsOf(used, n)
	}
	return slices.DeleteFunc(slices.Clone(known), func(name string) bool { return !slices.Contains(used, name) })
}

// coding is what a variable of a formula is made of.
type coding struct {
	factor *Factor // nil for numbers
	terms  []Term  // of a variable of numbers
}

// code finds the factors and polynomials among the variables.
func (b *builder) code(ctx context.Context, e *expansion, src dataset.Source) ([]coding, error) {
	expressions, columns := make(map[string]*node), []string(nil)
	for _, v := range e.variables {
		switch {
		case v.kind == polynomial:
			expressions[v.node.args[0].String()] = v.node.args[0]
		case v.kind == factor && b.levels[v.column] == nil && !slices.Contains(columns, v.column):
			columns = append(columns, v.column)
		}
		if err := b.numbersOnly(e, v); err != nil {
			return nil, err
		}
	}
	found := &measured{}
	if len(expressions) > 0 || len(columns) > 0 {
		var err error
		if found, err = measure(ctx, src, expressions, columns); err != nil {
			return nil, err
		}
	}
	out := make([]coding, len(e.variables))
	for i, v := range e.variables {
		var err error
		if out[i], err = b.codeOne(e, v, src.Schema(), found); err != nil {
			return nil, err
		}
		if f := out[i].factor; f != nil {
			b.design.Factors = append(b.design.Factors, *f)
		}
	}
	return out, nil
}

// numbersOnly refuses arithmetic with words.
func (b *builder) numbersOnly(e *expansion, v variable) error {
	if v.kind == bare || v.kind == factor {
		return nil
	}
	for _, name := range columnsOf(nil, v.node) {
		if b.levels[name] != nil {
			return e.parser.fail(v.node.at, "column %q holds words, of which %s cannot be computed", name, v.name)
		}
	}
	return nil
}

func (b *builder) codeOne(e *expansion, v variable, schema dataset.Schema, found *measured) (coding, error) {
	words := b.levels[v.column]
	switch {
	case v.kind == bare && words != nil:
		return coding{factor: words}, nil
	case v.kind == bare:
		return coding{terms: []Term{{Name: v.name, Product: []Value{{Column: v.column}}}}}, nil
	case v.kind == factor && words != nil:
		f := *words
		f.Name = v.name
		again, err := b.withReference(&f)
		return coding{factor: again}, err
	case v.kind == factor:
		f, err := b.numberFactor(schema, v.name, v.column, found.levels[v.column])
		return coding{factor: f}, err
	case v.kind == expression:
		return coding{terms: []Term{{Name: v.name, Product: []Value{{Expression: v.node.String()}}}}}, nil
	}
	text := v.node.args[0].String()
	polynomials, ok := orthonormal(text, found.values[text], v.degree)
	if !ok {
		return coding{}, e.parser.fail(v.node.at, "%s: its degree must be less than the number of different values",
			v.name)
	}
	var out coding
	for i := range polynomials {
		name := fmt.Sprintf("%s%d", v.name, i+1)
		if v.degree == 1 { // as R names a matrix of one column
			name = v.name
		}
		out.terms = append(out.terms, Term{Name: name, Product: []Value{{Polynomial: &polynomials[i]}}})
	}
	return out, nil
}

// add adds the features of a part to the design and returns their names, and of those that are shared.
func (b *builder) add(e *expansion, coded []coding, p part) (names, shared []string, err error) {
	names = []string{}
	full := p.indicators(coded)
	for i, t := range p.terms {
		columns := []Term{{}}
		for j, v := range t {
			own := coded[v].terms
			if f := coded[v].factor; f != nil {
				own = contrasts(f, full[i][j])
			}
			if columns = times(columns, own); len(columns) > dataset.MaxColumns {
				return nil, nil, e.parser.fail(0, "a term makes more than %d features", dataset.MaxColumns)
			}
		}
		for _, c := range columns {
			names = append(names, c.Name)
			if slices.ContainsFunc(p.shared, func(u term) bool { return slices.Equal(t, u) }) {
				shared = append(shared, c.Name)
			}
			switch at := slices.IndexFunc(b.design.Terms, func(t Term) bool { return t.Name == c.Name }); {
			case at < 0:
				b.design.Terms = append(b.design.Terms, c)
			case !reflect.DeepEqual(b.design.Terms[at], c):
				return nil, nil, e.parser.fail(e.variables[t[0]].node.at, "two different terms are called %q; rename "+
					"a column", c.Name)
			}
		}
	}
	return names, shared, nil
}

// times multiplies columns, those of the first fastest.
func times(a, b []Term) []Term {
	out := make([]Term, 0, len(a)*len(b))
	for _, right := range b {
		for _, left := range a {
			name := left.Name + ":" + right.Name
			if left.Name == "" {
				name = right.Name
			}
			out = append(out, Term{Name: name, Product: slices.Concat(left.Product, right.Product)})
		}
	}
	return out
}

// indicators says of every factor in every term whether it stands with all its
// levels: as R has it, where the term without it is in no term before, and, in a part
// without an intercept, for the first factor of all.
func (p part) indicators(coded []coding) [][]bool {
	full, first := make([][]bool, len(p.terms)), !p.intercept
	for i, t := range p.terms {
		full[i] = make([]bool, len(t))
		for j, v := range t {
			if coded[v].factor == nil {
				continue
			}
			rest := slices.Delete(slices.Clone(t), j, j+1)
			covers := func(u term) bool {
				return !slices.ContainsFunc(rest, func(w int) bool { return !slices.Contains(u, w) })
			}
			full[i][j] = len(rest) > 0 && !slices.ContainsFunc(p.terms[:i], covers)
			if first {
				full[i][j], first = true, false
			}
		}
	}
	return full
}
