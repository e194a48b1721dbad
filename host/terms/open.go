package terms

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/scaling"
	"github.com/gatedlearning/moe/internal/setting"
)

// MaxLevels is the most levels of a factor that the user has not named.
const MaxLevels = 100

// Request says how the columns of a table become features.
type Request struct {
	// Selection is the raw columns. With a formula its target and features are the
	// formula's, and what it drops is not in ".".
	Selection   dataset.Selection
	Formula     *Formula          // nil for none
	Beside      []string          // raw columns of other tables, without which a row has a missing cell
	Shared      []string          // raw columns of one coefficient for all experts, or [model.InterceptName]
	Gate        []string          // raw columns that the gate sees; nil: those of the experts
	Scale       scaling.Scale     // what is fitted of the target, where no formula says it
	Roles       dataset.Roles     // as descriptions write them, of which the selection has the raw columns
	Categorical []string          // columns that are factors whatever stands in them
	Reference   map[string]string // the reference level of a factor; the commonest where it is not named
}

// Table is a table of features.
type Table struct {
	Source  dataset.Source
	Design  *Design  // nil where the columns themselves are the features
	Experts []string // the features that the experts see; nil: all
	Gate    []string // and the gate; nil: all
	Shared  []string // the features of one coefficient for all experts, or [model.InterceptName]
	Implied bool     // Gate is what the experts see: nobody has named it

	// With a formula: which of them have an intercept.
	ExpertIntercept, GateIntercept bool
}

// Opener opens a table with a selection of its columns, any number of times.
type Opener func(dataset.Selection) (dataset.Source, error)

// Open opens a table and makes its features: columns of words become factors, and a
// formula's terms are carried out. It reads the first rows, and the table as a whole
// only where there are factors or polynomials. Errors are those of open and *[Error],
// a *dataset.SelectionError where the request contradicts itself or the table, and a
// *dataset.Error where a column can be no factor.
func Open(ctx context.Context, open Opener, r Request) (*Table, error) {
	b := &builder{open: beside(open, r.Beside), request: r, levels: make(map[string]*Factor)}
	making := b.flat
	if r.Formula != nil {
		making = b.formula
	}
	t, err := making(ctx)
	if err == nil {
		t.Source = dataset.Made(t.Source, r.Roles)
	}
	return t, err
}

// beside has open leave out rows without a value of others too, where it leaves out rows with missing cells.
func beside(open Opener, others []string) Opener {
	return func(sel dataset.Selection) (dataset.Source, error) {
		src, err := open(sel)
		if err != nil || sel.Absent != dataset.Drop || len(others) == 0 {
			return src, err
		}
		schema := src.Schema()
		sel.Target, sel.Features = schema.Target, slices.Concat(schema.Features, others)
		sel.Drop = slices.DeleteFunc(slices.Clone(sel.Drop), func(name string) bool {
			return slices.Contains(others, name)
		})
		if src, err = open(sel); err != nil {
			return nil, err
		}
		return dataset.First(src, len(schema.Features)), nil
	}
}

// builder makes the features of one table.
type builder struct {
	open    Opener
	request Request
	levels  map[string]*Factor // the factors among the raw columns
	design  Design
}

// flat makes features of all selected columns.
func (b *builder) flat(ctx context.Context) (*Table, error) {
	sel := b.request.Selection
	if sel.Features != nil {
		sel.Features = unique(sel.Features, b.request.Gate)
	}
	src, err := b.factors(ctx, sel)
	if err != nil {
		return nil, err
	}
	t := &Table{Source: src, Gate: b.request.Gate}
	if len(sel.Features) > len(b.request.Selection.Features) {
		t.Experts = b.request.Selection.Features // the gate sees more
	}
	if len(b.levels) == 0 {
		t.Shared = unique(nil, b.request.Shared)
		for _, name := range t.Shared {
			if name != model.InterceptName && !slices.Contains(src.Schema().Features, name) {
				return nil, b.noneShared(src, name)
			}
		}
		t.Source = dataset.Scaled(t.Source, b.request.Scale)
		return t, nil
	}
	b.design.Columns = src.Schema().Features
	made := make(map[string][]string) // features of a column
	for _, name := range b.design.Columns {
		terms := []Term{{Name: name, Product: []Value{{Column: name}}}}
		if f := b.levels[name]; f != nil {
			b.design.Factors = append(b.design.Factors, *f)
			terms = contrasts(f, false)
		}
		for _, term := range terms {
			made[name] = append(made[name], term.Name)
		}
		b.design.Terms = append(b.design.Terms, terms...)
	}
	for _, name := range unique(nil, b.request.Shared) {
		switch {
		case name == model.InterceptName:
			t.Shared = append(t.Shared, name)
		case made[name] == nil:
			return nil, b.noneShared(src, name)
		default:
			t.Shared = append(t.Shared, made[name]...)
		}
	}
	if t.Experts, err = features(made, t.Experts); err != nil {
		return nil, err
	}
	if t.Gate, err = features(made, t.Gate); err != nil {
		return nil, err
	}
	return b.finish(t, src)
}

// noneShared is the error of a column that is to have one coefficient and is no feature.
func (b *builder) noneShared(src dataset.Source, name string) error {
	s := src.Schema()
	return &dataset.Error{File: s.Name, Msg: fmt.Sprintf("column %q of the shared coefficients is not among the "+
		"features; there are %s and %s", name, shorten(s.Features), model.InterceptName)}
}

// finish puts the design before the raw columns.
func (b *builder) finish(t *Table, src dataset.Source) (*Table, error) {
	if n := len(b.design.Terms); n > dataset.MaxColumns {
		return nil, &dataset.Error{File: src.Schema().Name, Msg: fmt.Sprintf("%d features, want at most %d", n,
			dataset.MaxColumns)}
	}
	if b.design.Factors == nil {
		b.design.Factors = []Factor{}
	}
	if err := b.design.Validate(); err != nil {
		return nil, &dataset.Error{File: src.Schema().Name, Msg: err.Error() + "; rename a column"}
	}
	t.Design, t.Source = &b.design, b.design.Source(src, false)
	scale := b.request.Scale
	if f := b.request.Formula; f != nil && f.Scale != "" {
		scale = f.Scale
	}
	t.Source = dataset.Scaled(t.Source, scale)
	return t, nil
}

// features are those made of the named columns, nil for nil.
func features(made map[string][]string, columns []string) (out []string, err error) {
	for _, name := range columns {
		if made[name] == nil {
			return nil, &dataset.SelectionError{Msg: fmt.Sprintf("column %q of the gate is not among the columns read",
				name)}
		}
		out = append(out, made[name]...)
	}
	return out, nil
}

// unique returns the names of both lists, each once.
func unique(a, b []string) []string {
	out := slices.Clone(a)
	for _, name := range b {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// contrasts are the 0/1 columns of a factor: one for each level, the reference first,
// or one for each but that.
func contrasts(f *Factor, full bool) []Term {
	levels := slices.DeleteFunc(slices.Clone(f.Levels), func(level string) bool { return level == f.Reference })
	if full {
		levels = append([]string{f.Reference}, levels...)
	}
	out := make([]Term, len(levels))
	for i, level := range levels {
		out[i] = Term{Name: f.Name + level, Product: []Value{{Factor: f.Name, Level: &level}}}
	}
	return out
}

// headRows is how many rows are looked at before it is known that columns hold words.
const headRows = 256

// factors opens the selected columns, those of words among them as factors.
func (b *builder) factors(ctx context.Context, sel dataset.Selection) (dataset.Source, error) {
	src, err := b.open(sel)
	if err != nil {
		return nil, err
	}
	schema := src.Schema()
	if err := b.checkNames(schema); err != nil {
		return nil, err
	}
	columns, err := dataset.Inspect(ctx, src, headRows, b.request.Categorical)
	if err != nil {
		return nil, err
	}
	suspect := func(c dataset.Column) bool {
		return c.Cells[dataset.Number] == 0 || slices.Contains(b.request.Categorical, c.Name)
	}
	if slices.ContainsFunc(columns, suspect) {
		if columns, err = dataset.Inspect(ctx, src, 0, b.request.Categorical); err != nil {
			return nil, err
		}
	}
	sel.Words = make(map[string]dataset.Words)
	for _, c := range columns {
		if !suspect(c) {
			continue
		}
		f, err := b.factor(schema, c)
		if err != nil {
			return nil, err
		}
		if f != nil {
			b.levels[c.Name] = f
			sel.Words[c.Name] = dataset.Words{Levels: f.Levels, Unseen: -1}
		}
	}
	if columns == nil && len(b.request.Categorical) > 0 {
		if err := b.numbers(ctx, src); err != nil {
			return nil, err
		}
	}
	if err := b.checkReferences(); err != nil || len(sel.Words) == 0 {
		return src, err
	}
	return b.open(sel)
}

// checkNames refuses as categorical columns that are no features.
func (b *builder) checkNames(schema dataset.Schema) error {
	for _, name := range b.request.Categorical {
		switch {
		case name == schema.Target:
			return &dataset.SelectionError{Msg: fmt.Sprintf("column %q is the target, which is a number, and "+
				"categorical", name)}
		case !slices.Contains(schema.Features, name):
			return &dataset.SelectionError{Msg: fmt.Sprintf("column %q is categorical and not among the features; "+
				"there are %s", name, shorten(schema.Features))}
		}
	}
	return nil
}

// factor returns what a column without numbers is: a factor, or nil where the
// reading of the numbers will say what is wrong.
func (b *builder) factor(schema dataset.Schema, c dataset.Column) (*Factor, error) {
	named := slices.Contains(b.request.Categorical, c.Name)
	values := c.Cells[dataset.Number] + c.Cells[dataset.Spelled] + c.Cells[dataset.Date] + c.Cells[dataset.Word]
	refuse := func(what string, advice setting.Text) error {
		return &dataset.Error{File: schema.Name, Msg: fmt.Sprintf("column %q %s", c.Name, what), Advice: advice}
	}
	leave := setting.Textf("leave it out with %s", setting.To("drop", c.Name))
	levels := setting.To("categorical", c.Name)
	switch {
	case values == 0 && c.Cells[dataset.Missing] > 0:
		return nil, refuse("has no value in any row", leave)
	case values == 0, c.Name == schema.Target, slices.Contains(schema.Roles[:], c.Name), !named &&
		c.Cells[dataset.Spelled] > 0:
		return nil, nil
	case !named && c.Cells[dataset.Word] == 0:
		return nil, refuse(fmt.Sprintf("holds dates or times, such as %q", c.Levels()[0]),
			setting.Textf("%s, write it as a number, such as days since a start, or take each as a level with %s",
				leave, levels))
	case c.Full:
		return nil, refuse(fmt.Sprintf("holds more than %d different words", len(c.Words)), leave)
	case !named && len(c.Words) > MaxLevels:
		return nil, refuse(
			fmt.Sprintf("holds %d different words, such as %q, more than %d", len(c.Words), c.Levels()[0], MaxLevels),
			setting.Textf("%s, or take each as a level with %s", leave, levels))
	case len(c.Words) == 1:
		return nil, refuse(fmt.Sprintf("is %q in every row", c.Levels()[0]), leave)
	}
	return b.withReference(&Factor{Name: c.Name, Column: c.Name, Levels: c.Levels(), Reference: c.Commonest()})
}

// withReference returns a factor with the reference that was asked for.
func (b *builder) withReference(f *Factor) (*Factor, error) {
	level, ok := b.request.Reference[f.Name]
	if !ok {
		level, ok = b.request.Reference[f.Column]
	}
	if !ok {
		return f, nil
	}
	if !slices.Contains(f.Levels, level) {
		return nil, &dataset.SelectionError{Msg: fmt.Sprintf("reference %s=%s: the column has no such level; there "+
			"are %s", f.Column, level, shorten(f.Levels))}
	}
	f.Reference = level
	return f, nil
}

// checkReferences refuses the reference of what is no factor.
func (b *builder) checkReferences() error {
	for _, name := range slices.Sorted(maps.Keys(b.request.Reference)) {
		if b.levels[name] == nil && !b.inFormula(name) {
			return &dataset.SelectionError{
				Msg: fmt.Sprintf("reference %s=%s: %s is no column of words among the features", name,
					b.request.Reference[name], name),
				Advice: setting.Textf("%s makes it one", setting.To("categorical", name))}
		}
	}
	return nil
}

func (b *builder) inFormula(name string) bool {
	return b.request.Formula != nil && strings.Contains(strings.ReplaceAll(b.request.Formula.Text, " ", ""),
		"factor("+strings.TrimSuffix(strings.TrimPrefix(name, "factor("), ")")+")")
}

// numbers makes factors of columns of numbers.
func (b *builder) numbers(ctx context.Context, src dataset.Source) error {
	found, err := measure(ctx, src, nil, b.request.Categorical)
	if err != nil {
		return err
	}
	for _, name := range b.request.Categorical {
		f, err := b.numberFactor(src.Schema(), name, name, found.levels[name])
		if err != nil {
			return err
		}
		b.levels[name] = f
	}
	return nil
}

// numberFactor is the factor of a column of numbers, by its rows' number of each.
func (b *builder) numberFactor(schema dataset.Schema, name, column string, rows map[float64]int) (*Factor, error) {
	f := &Factor{Name: name, Column: column, Numbers: slices.Sorted(maps.Keys(rows))}
	most := 0
	for _, v := range f.Numbers {
		level := strconv.FormatFloat(v, 'g', -1, 64)
		f.Levels = append(f.Levels, level)
		if n := rows[v]; n > most || n == most && level < f.Reference {
			f.Reference, most = level, n
		}
	}
	if n := len(f.Levels); n < 2 || n > MaxLevels {
		return nil, &dataset.Error{File: schema.Name,
			Msg: fmt.Sprintf("column %q as a factor has %d levels, want 2 to %d", column, n, MaxLevels)}
	}
	return b.withReference(f)
}

// measured is what a pass over the raw columns finds.
type measured struct {
	levels map[string]map[float64]int // rows by value, for columns of numbers
	values map[string][]float64       // of expressions
}

// measure reads the raw columns once, for the values of expressions and the numbers
// in columns.
func measure(ctx context.Context, src dataset.Source, expressions map[string]*node,
	columns []string) (*measured, error) {
	m := &measured{levels: make(map[string]map[float64]int), values: make(map[string][]float64)}
	for _, name := range columns {
		m.levels[name] = make(map[float64]int)
	}
	schema := src.Schema()
	r := &raw{table: schema.Name, columns: schema.Features}
	err := src.Read(ctx, func(b *model.Block) error {
		r.begin(b)
		for name, counts := range m.levels {
			for _, v := range r.column(name) {
				if counts[v]++; len(counts) > MaxLevels {
					return &dataset.Error{File: schema.Name,
						Msg: fmt.Sprintf("column %q as a factor has more than %d levels", name, MaxLevels)}
				}
			}
		}
		for _, text := range slices.Sorted(maps.Keys(expressions)) {
			values := make([]float64, b.N)
			evaluate(values, expressions[text], r.column)
			r.check(text, values)
			m.values[text] = append(m.values[text], values...)
		}
		r.rows += b.N
		return r.err
	})
	return m, err
}
