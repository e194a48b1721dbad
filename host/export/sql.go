package export

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// sql is the SQL that DuckDB, PostgreSQL and SQLite have in common. An operation that an engine ends the statement for,
// as the logarithm of 0, gives NULL.
type sql struct{ places map[string]string }

// sqlFunctions are those with a name, and that end no statement.
var sqlFunctions = map[op]string{opAbs: "abs", opTanh: "tanh", opAtan: "atan"}

func (sql) has(o op) bool {
	switch o {
	case opSum, opErf, opErfc, opLog1p, opExpm1, opSinh, opCosh, opCbrt:
		return false
	}
	return !composed(o)
}

func (sql) repeats(o op) bool {
	switch o {
	case opMin, opMax, opExp, opLog, opSqrt, opPow, opPieces:
		return true
	}
	return false
}

// divisor is one that is never 0.
func (sql) divisor(p phrase) phrase {
	if p.number {
		return p
	}
	return call("nullif", p, sqlNumber(0))
}

// The powers of e that are taken: below there is 0 in their place, and above the last. PostgreSQL ends a statement in
// which a product of numbers comes to 0.
const (
	leastPower = -650
	mostPower  = 700
)

func (s sql) phrase(n *node, args []phrase) phrase {
	at := func(i int) string { return args[i].within(bindSum) }
	switch n.op {
	case opNumber:
		return sqlNumber(n.number)
	case opColumn, opY:
		return phrase{text: s.places[n.text], bind: bindTerm}
	case opCode:
		b := []byte("CASE " + s.places[n.text])
		for i, level := range n.levels {
			b = fmt.Appendf(b, " WHEN %s THEN %s", sqlString(level), sqlNumber(float64(i)).text)
		}
		return phrase{text: fmt.Sprintf("CAST(%s ELSE -1 END AS DOUBLE PRECISION)", b), bind: bindTerm}
	case opNeg:
		return phrase{text: "-" + args[0].within(bindTerm), bind: bindSum}
	case opTrue:
		return phrase{text: "1 = 1", bind: bindWeak}
	case opFalse:
		return phrase{text: "1 = 0", bind: bindWeak}
	case opLess, opLessEqual:
		return infix(string(n.op), args)
	case opEqual:
		return infix("=", args)
	case opAnd:
		return joined("AND", args)
	case opOr:
		return joined("OR", args)
	case opNot:
		return phrase{text: "NOT " + args[0].within(bindTerm), bind: bindWeak}
	case opMin:
		return choice(at(0)+" < "+at(1), args[0], args[1])
	case opMax:
		return choice(at(0)+" > "+at(1), args[0], args[1])
	case opWhere:
		return choice(args[0].text, args[1], args[2])
	case opExp:
		most := sqlNumber(mostPower)
		power := call("exp", choice(at(0)+" < "+most.text, args[0], most))
		return choice(at(0)+" > "+sqlNumber(leastPower).text, power, sqlNumber(0))
	case opLog:
		return choice(at(0)+" > "+sqlNumber(0).text, call("ln", args[0]), sqlNumber(math.NaN()))
	case opSqrt:
		return choice(at(0)+" >= "+sqlNumber(0).text, call("sqrt", args[0]), sqlNumber(math.NaN()))
	case opPow:
		zero := sqlNumber(0).text
		return phrase{text: fmt.Sprintf("CASE WHEN %s > %s OR (%s < %s AND floor(%s) = %s) THEN %s WHEN %s > %s "+
			"THEN %s END", at(0), zero, at(0), zero, at(1), at(1), call("power", args...).text, at(1), zero, zero),
			bind: bindTerm}
	case opPieces:
		return phrase{text: sqlPanels(n.pieces, at(0), 0, len(n.pieces.centre)), bind: bindTerm}
	}
	return call(sqlFunctions[n.op], args...)
}

// choice is a where the condition holds, else b.
func choice(condition string, a, b phrase) phrase {
	text := "CASE WHEN " + condition + " THEN " + a.text
	if b.text != null {
		text += " ELSE " + b.text
	}
	text += " END"
	if a.number && b.number { // decimal fractions of PostgreSQL
		text = "CAST(" + text + " AS DOUBLE PRECISION)"
	}
	return phrase{text: text, bind: bindTerm}
}

const null = "NULL"

// sqlNumber is a number with an exponent, which no engine takes for one of decimals of its own; NaN is NULL.
func sqlNumber(v float64) phrase {
	if math.IsNaN(v) {
		return phrase{text: null, bind: bindTerm, number: true}
	}
	return phrase{text: strconv.FormatFloat(v, 'e', -1, 64), bind: bindOf(v), number: true}
}

func sqlString(word string) string { return "'" + strings.ReplaceAll(word, "'", "''") + "'" }

func sqlName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// sqlCell is the number in a column. SQLite takes any text for a number: what host/dataset takes for a missing cell
// would be 0.
func sqlCell(name string) string {
	cell := "t." + sqlName(name)
	return "CASE WHEN trim(CAST(" + cell + " AS TEXT)) IN ('', 'NA', 'NaN', 'nan', 'null', 'NULL') THEN NULL\n" +
		"      ELSE CAST(" + cell + " AS DOUBLE PRECISION) END"
}

// sqlPanels is the function of panels from lo to hi−1 at z, by halves.
func sqlPanels(p *pieces, z string, lo, hi int) string {
	if hi-lo > 1 {
		mid := (lo + hi) / 2
		return fmt.Sprintf("CASE WHEN %s < %s THEN %s ELSE %s END", z, sqlNumber(p.edges[mid-1]).text,
			sqlPanels(p, z, lo, mid), sqlPanels(p, z, mid, hi))
	}
	t := z
	if c := p.centre[lo]; c != 0 {
		t = fmt.Sprintf("(%s - %s)", z, sqlNumber(c).within(bindTerm))
	}
	if s := p.slope[lo]; s != 1 {
		t = fmt.Sprintf("(%s*%s)", t, sqlNumber(s).text)
	}
	c := p.coefficients[lo]
	last := len(c) - 1
	for last > 0 && c[last] == 0 {
		last--
	}
	text := sqlNumber(c[last]).within(bindTerm)
	for j := last - 1; j >= 0; j-- {
		text = fmt.Sprintf("(%s*%s + %s)", text, t, sqlNumber(c[j]).within(bindTerm))
	}
	return text
}

// The most columns and bytes of a statement: PostgreSQL takes 1,664 columns, SQLite 1,000,000 bytes.
const (
	mostColumns = 1600
	mostBytes   = 1_000_000
)

// sqlOf is one statement: a row of predictions for every row of a table, step by step, such that what is used several
// times is computed once.
func sqlOf(p *program, r Request, title string) ([]byte, error) {
	if err := noMean(p, SQL); err != nil {
		return nil, err
	}
	s := sql{map[string]string{}}
	var input []string
	for i, c := range p.columns {
		name, cell := fmt.Sprint("c", i+1), sqlCell(c.name)
		if c.words {
			cell = fmt.Sprintf("CAST(t.%s AS TEXT)", sqlName(c.name))
		}
		s.places[c.name] = name
		input = append(input, cell+" AS "+name)
	}
	if p.posterior != nil {
		s.places[""] = "y"
		input = append(input, sqlCell(p.target)+" AS y")
	}
	var always, final []string
	for i, name := range r.Keep {
		own := fmt.Sprint("k", i+1)
		input, always = append(input, fmt.Sprintf("t.%s AS %s", sqlName(name), own)), append(always, own)
		final = append(final, own+" AS "+sqlName(name))
	}
	p, err := p.lowered(SQL, s.has, p.steep)
	if err != nil {
		return nil, err
	}
	t := textOf(p, s, p.outputs())
	named := func(r ref, name string) {
		text := t.use(r).text
		if text != name {
			text += " AS " + name
		}
		final = append(final, text)
	}
	named(p.mean, "mean")
	for i, r := range p.gate {
		named(r, p.class("p", i))
	}
	for i, r := range p.posterior {
		named(r, p.class("posterior", i))
	}
	table := r.Table
	if table == "" {
		table = "data"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "-- Code generated by moe export: predictions of %s.\n", title)
	b.WriteString("-- A row with a missing number, or a word that the model does not know, has NULL for all of them.\n")
	fmt.Fprintf(&b, "WITH step0 AS MATERIALIZED (\n  SELECT %s\n  FROM %s AS t\n)", strings.Join(input, ",\n    "),
		sqlName(table))
	steps, err := t.steps(always)
	if err != nil {
		return nil, err
	}
	for i, step := range steps {
		columns := strings.Join(step, ",\n    ")
		fmt.Fprintf(&b, ",\nstep%d AS MATERIALIZED (\n  SELECT %s\n  FROM step%d\n)", i+1, columns, i)
	}
	fmt.Fprintf(&b, "\nSELECT %s\nFROM step%d;\n", strings.Join(final, ",\n  "), len(steps))
	if b.Len() > mostBytes {
		what := fmt.Sprintf("the statement has %d bytes, and SQLite takes %d", b.Len(), mostBytes)
		return nil, &UnsupportedError{What: what, To: SQL}
	}
	return b.Bytes(), nil
}

// steps are the columns of the steps: the names that are defined at each level, and those of before that are used
// later.
func (x *text) steps(always []string) ([][]string, error) {
	last := 0
	for _, r := range x.order {
		last = max(last, x.level[r])
	}
	until := map[string]int{} // the last step that reads a name of an earlier one
	reads := func(r ref, step int) {
		var visit func(r ref)
		visit = func(r ref) {
			for _, a := range x.nodes[r].args {
				if name := x.names[a]; name != "" {
					until[name] = max(until[name], step)
				} else {
					visit(a)
				}
			}
			if n := &x.nodes[r]; n.op == opColumn || n.op == opCode || n.op == opY {
				name := x.tongue.(sql).places[n.text]
				until[name] = max(until[name], step)
			}
		}
		visit(r)
	}
	for _, r := range x.order {
		reads(r, x.level[r])
	}
	for _, r := range x.outputs() {
		until[x.names[r]] = last + 1
	}
	var carried []string
	for name := range x.tongue.(sql).columns() {
		carried = append(carried, name)
	}
	slices.Sort(carried)
	steps := make([][]string, last)
	for step := 1; step <= last; step++ {
		columns := slices.Clone(always)
		var next []string
		for _, name := range carried {
			if until[name] > step {
				columns, next = append(columns, name), append(next, name)
			}
		}
		for _, r := range x.order {
			if x.level[r] == step {
				columns = append(columns, x.define(r).text+" AS "+x.names[r])
				next = append(next, x.names[r])
			}
		}
		if len(columns) > mostColumns {
			return nil, &UnsupportedError{What: fmt.Sprintf("a statement with %d columns, of which PostgreSQL takes %d",
				len(columns), mostColumns), To: SQL}
		}
		steps[step-1], carried = columns, next
	}
	return steps, nil
}

// columns are the names of the first step.
func (s sql) columns() map[string]bool {
	out := map[string]bool{}
	for _, name := range s.places {
		out[name] = true
	}
	return out
}
