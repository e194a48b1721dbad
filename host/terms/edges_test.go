package terms

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// TestNumbers: how far a number goes, and its value by that of strconv.
func TestNumbers(t *testing.T) {
	for text, want := range map[string]int{
		"0": 1, "9": 1, "19.25": 5, "1e5": 3, "1E9": 3, "1e+5": 4, "1e-05*x": 5, "2.e3)": 4, ".5": 2, "10:x": 2,
		"1e": 1, "1e+": 1, "1e-x": 1, "1ex": 1, "1e5e6": 3, "3x": 1, "7 ": 1, "4e0": 3, "4e9": 3, "4f3": 1,
	} {
		if got := numberLength(text); got != want {
			t.Errorf("%q: a number of %d bytes, want %d", text, got, want)
		}
	}
	for _, text := range []string{"19.25", "1e+3", "2E-2", ".5", "1.5e1"} {
		want, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		name := "I(x * " + text + ")"
		got := made(t, "x,z,y\n1,2,3\n2,3,4\n4,1,0\n", "y ~ z + "+name)[name]
		if !slices.Equal(got, []float64{want, 2 * want, 4 * want}) {
			t.Errorf("%s is %v", name, got)
		}
	}
}

// made are the features that a formula makes of a table, with blocks of the size that they say.
func made(t *testing.T, csv, formula string) map[string][]float64 {
	t.Helper()
	table, err := Open(t.Context(), text(csv), Request{Formula: mustParse(t, formula)})
	if err != nil {
		t.Fatalf("%s: %v", formula, err)
	}
	d := len(table.Source.Schema().Features)
	err = table.Source.Read(t.Context(), func(b *model.Block) error {
		if len(b.X) != b.N*d {
			t.Errorf("%s: %d values in a block of %d rows and %d features", formula, len(b.X), b.N, d)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", formula, err)
	}
	return columns(t, table.Source)
}

// TestNesting: 200 levels of parentheses and signs, and no more; what is closed is not counted.
func TestNesting(t *testing.T) {
	for _, c := range []struct {
		formula string
		at      int // of the error; 0 for none
	}{
		{"y ~ " + strings.Repeat("(", 199) + "x" + strings.Repeat(")", 199), 0},
		{"y ~ " + strings.Repeat("(", 200) + "x" + strings.Repeat(")", 200), 205},
		{"y ~ " + strings.Repeat("(", 900) + "x" + strings.Repeat(")", 900), 205},
		{"y ~ " + strings.Repeat("-", 199) + "x", 0},
		{"y ~ " + strings.Repeat("-", 200) + "x", 205},
		{"y ~ " + strings.Repeat("-", 201) + "x", 205},
		{"y ~ " + strings.Repeat("+", 900) + "x", 205},
		{"y ~ " + strings.Repeat("(x) + ", 300) + "x", 0},
		{"y ~ " + strings.Repeat("(-x) + ", 300) + "x", 0},
		{"y ~ x" + strings.Repeat(" ", 1<<16-5), 0},
	} {
		_, err := Parse(c.formula)
		if f := (*Error)(nil); (err != nil) != (c.at > 0) || err != nil && (!errors.As(err, &f) || f.At != c.at || f.Msg != "more than 200 levels of parentheses") {
			t.Errorf("%.20s… of %d bytes: error %v, want one at %d", c.formula, len(c.formula), err, c.at)
		}
	}
	if _, err := Parse("y ~ x" + strings.Repeat(" ", 1<<16-4)); err == nil || !strings.Contains(err.Error(), "65537 bytes, want at most 65536") {
		t.Errorf("a formula of 65537 bytes: %v", err)
	}
}

// TestNamesInBackticks: columns of any name stand in backticks, and a feature's name has them
// where the column's is not one word, as in R.
func TestNamesInBackticks(t *testing.T) {
	const data = "a b,1a,x9,.,y\n1,2,3,4,5\n2,1,7,3,1\n3,3,3,1,1\n"
	got := made(t, data, "y ~ `a b` + I(`a b`^2) + I(`1a` * 2) + I(`x9` + 1) + `x9`")
	for name, want := range map[string][]float64{
		"a b": {1, 2, 3}, "I(`a b`^2)": {1, 4, 9}, "I(`1a` * 2)": {4, 2, 6}, "I(x9 + 1)": {4, 8, 4}, "x9": {3, 7, 3},
	} {
		if !slices.Equal(got[name], want) {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if got := made(t, data, "y ~ `.`"); len(got) != 1 || !slices.Equal(got["."], []float64{4, 3, 1}) {
		t.Errorf("the column named . is %v", got)
	}
	for formula, want := range map[string]string{
		"y ~ ``": `no column ""`, "y ~ `a b": "character 5: a backtick is opened and not closed", "y ~ I(.)": `"." stands for all columns`, "y ~ I(`.`) + log(`1a`, x9)": "log has 2 arguments, want 1",
	} {
		var err error
		if f, bad := Parse(formula); bad != nil {
			err = bad
		} else {
			_, err = Open(t.Context(), text(data), Request{Formula: f})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", formula, err, want)
		}
	}
}

// TestTermsOnce: a term that is there already is not added, and powers from 1 on mean what R's do.
func TestTermsOnce(t *testing.T) {
	const data = "a,b,c,y\n1,2,3,4\n2,1,5,3\n3,3,2,2\n5,4,1,1\n"
	for formula, want := range map[string]string{
		"y ~ a + a": "a", "y ~ a + b + a + b:a + a:b": "a b a:b", "y ~ (a + b)^1": "a b", "y ~ (a + b + c)^2 - a:b": "a b c a:c b:c", "y ~ (a + b)^9": "a b a:b",
		"y ~ a*b - a": "b a:b", "y ~ . - c": "a b", "y ~ a:a": "a",
	} {
		table, err := Open(t.Context(), text(data), Request{Formula: mustParse(t, formula)})
		if err != nil {
			t.Errorf("%s: %v", formula, err)
		} else if got := strings.Join(table.Experts, " "); got != want {
			t.Errorf("%s: terms %s, want %s", formula, got, want)
		}
	}
	if _, err := Open(t.Context(), text(data), Request{Formula: mustParse(t, "y ~ (a + b)^0")}); err == nil || !strings.Contains(err.Error(), "want a whole number from 1") {
		t.Errorf("power 0: %v", err)
	}
}

// TestManyTerms: operators multiply out to 4,096 terms, and to no more; an error names up to
// twelve columns.
func TestManyTerms(t *testing.T) {
	wide := func(left, right int) (string, []string) {
		var a, b []string
		for i := range left {
			a = append(a, fmt.Sprint("a", i))
		}
		for i := range right {
			b = append(b, fmt.Sprint("b", i))
		}
		return "y ~ (" + strings.Join(a, "+") + "):(" + strings.Join(b, "+") + ")", append(append(a, b...), "y")
	}
	formula, known := wide(64, 64)
	if _, experts, _, err := mustParse(t, formula).expand(known, nil); err != nil || len(experts.terms) != 4096 {
		t.Errorf("%d terms, error %v", len(experts.terms), err)
	}
	formula, known = wide(17, 241)
	if _, _, _, err := mustParse(t, formula).expand(known, nil); err == nil || !strings.Contains(err.Error(), "more than 4096 terms") {
		t.Errorf("4097 terms: %v", err)
	}
	_, known = wide(6, 5)
	_, _, _, err := mustParse(t, "y ~ z").expand(known, nil)
	if want := "there are a0, a1, a2, a3, a4, a5, b0, b1, b2, b3, b4, y"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	_, known = wide(6, 6)
	_, _, _, err = mustParse(t, "y ~ z").expand(known, nil)
	if want := "there are a0, a1, a2, a3, a4, a5, b0, b1, b2, b3, b4, …, y"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestPolynomialsOfAnyUnit: orthonormal polynomials do not depend on the unit of x, here a power
// of 2, which changes no digit of theirs; nor does it how many different values they need.
func TestPolynomialsOfAnyUnit(t *testing.T) {
	values := func(distinct int, unit float64) []float64 {
		x := make([]float64, 40)
		for i := range x {
			x[i] = unit * float64(i*i%distinct+i%distinct+1)
		}
		return x
	}
	evaluated := func(x []float64, degree int) (out [][]float64) {
		p, ok := orthonormal("x", x, degree)
		if !ok {
			return nil
		}
		for i := range p {
			var column []float64
			for _, v := range x {
				column = append(column, p[i].at(v))
			}
			out = append(out, column)
		}
		return out
	}
	want := evaluated(values(11, 1), 4)
	for i, p := range want {
		for j, q := range want[:i+1] {
			dot, sum := 0.0, 0.0
			for r := range p {
				dot, sum = dot+p[r]*q[r], sum+p[r]
			}
			expected := 0.0
			if i == j {
				expected = 1
			}
			if math.Abs(dot-expected) > 1e-12 || math.Abs(sum) > 1e-12 {
				t.Errorf("polynomials %d and %d have the product %v, the first the sum %v", i+1, j+1, dot, sum)
			}
		}
	}
	for _, unit := range []float64{0x1p40, 0x1p-40} {
		if diff := cmp.Diff(want, evaluated(values(11, unit), 4)); diff != "" {
			t.Errorf("unit %v: %s", unit, diff)
		}
		three := make([]float64, 40)
		for i := range three {
			three[i] = unit * (1 + float64(i%3)/3)
		}
		if evaluated(three, 3) != nil || evaluated(three, 2) == nil {
			t.Errorf("unit %v: of three values there are polynomials of degree 3, or none of degree 2", unit)
		}
	}
	x := "x,y\n"
	for i := range 30 {
		x += fmt.Sprintf("%d,%d\n", i, i*i%7)
	}
	if got := made(t, x, "y ~ poly(x, 20)"); len(got) != 20 {
		t.Errorf("%d polynomials", len(got))
	}
	_, err := Open(t.Context(), text(x), Request{Formula: mustParse(t, "y ~ poly(x, 21)")})
	if err == nil || !strings.Contains(err.Error(), "want a degree from 1 to 20") {
		t.Errorf("degree 21: %v", err)
	}
}

// TestDesignsFromFiles: what a model file may not say of features.
func TestDesignsFromFiles(t *testing.T) {
	one := func(v Value) *Design {
		return &Design{Columns: []string{"x", "z"}, Terms: []Term{{Name: "a", Product: []Value{v}}}}
	}
	polynomial := func(degree int, norm float64) Value {
		p := &Polynomial{Expression: "x", Alpha: make([]float64, degree), Norms: slices.Repeat([]float64{1}, degree+1)}
		p.Norms[degree] = norm
		return Value{Polynomial: p}
	}
	for name, c := range map[string]struct {
		value Value
		want  string // "" for none
	}{
		"a column":          {Value{Column: "z"}, ""},
		"no column":         {Value{Column: "w"}, `column "w" is not among`},
		"an expression":     {Value{Expression: "I(x + log(z))^2"}, ""},
		"two expressions":   {Value{Expression: "x z"}, "want the end"},
		"closed":            {Value{Expression: "x)"}, "want the end"},
		"open":              {Value{Expression: "(x"}, "it ends here"},
		"all columns":       {Value{Expression: "."}, "stands for all columns"},
		"of another":        {Value{Expression: "x + w"}, `column "w" of "x + w"`},
		"a product":         {Value{Expression: "x:z"}, "is no arithmetic"},
		"no function":       {Value{Expression: "sin(x)"}, "no function sin"},
		"a polynomial":      {polynomial(20, 1), ""},
		"of degree 1":       {polynomial(1, 1), ""},
		"of degree 21":      {polynomial(21, 1), "of degree 1 to 20"},
		"of degree 0":       {polynomial(0, 1), "of degree 1 to 20"},
		"without norm":      {polynomial(3, 0), "the norms above 0"},
		"with a norm below": {polynomial(3, -1), "the norms above 0"},
		"an infinite norm":  {polynomial(3, math.Inf(1)), "all finite"},
	} {
		if err := one(c.value).Validate(); (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestGateSeesMore: the gate may see columns that the experts do not; nothing is named where
// both see all.
func TestGateSeesMore(t *testing.T) {
	const data = "g,h,x,y\na,p,1,2\nb,q,2,3\na,q,3,5\nc,p,4,4\n"
	for _, c := range []struct {
		features, gate       []string
		experts, sees, table []string
	}{
		{nil, nil, nil, nil, []string{"gb", "gc", "hq", "x"}},
		{[]string{"x", "g"}, []string{"h", "x"}, []string{"x", "gb", "gc"}, []string{"hq", "x"}, []string{"x", "gb", "gc", "hq"}},
		{[]string{"x", "g"}, []string{"g"}, nil, []string{"gb", "gc"}, []string{"x", "gb", "gc"}},
		{[]string{"x", "g"}, nil, nil, nil, []string{"x", "gb", "gc"}},
	} {
		table, err := Open(t.Context(), text(data), Request{Selection: dataset.Selection{Target: "y", Features: c.features}, Gate: c.gate})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([][]string{c.experts, c.sees, c.table}, [][]string{table.Experts, table.Gate, table.Source.Schema().Features}); diff != "" {
			t.Errorf("experts of %v, a gate of %v: %s", c.features, c.gate, diff)
		}
	}
}

// TestLevels: up to 100 levels are a factor's; of the commonest the first in byte order is the
// reference; a table of numbers alone, as one in memory, has factors where they are named.
func TestLevels(t *testing.T) {
	many := func(n int) string {
		out := "w,v,x,y\n"
		for i := range n {
			out += fmt.Sprintf("p%d,%d,%d,%d\n", i, i, i*i%17, i%5)
		}
		return out
	}
	open := func(data, formula string) (*Table, error) {
		r := Request{}
		if formula != "" {
			r.Formula = mustParse(t, formula)
		}
		return Open(t.Context(), text(data), r)
	}
	for formula, features := range map[string]int{"": 99 + 2, "y ~ w": 99, "y ~ factor(w)": 99, "y ~ factor(v)": 99, "y ~ factor(v) + w + x": 199} {
		if table, err := open(many(100), formula); err != nil {
			t.Errorf("100 levels, %q: %v", formula, err)
		} else if n := len(table.Source.Schema().Features); n != features {
			t.Errorf("100 levels, %q: %d features, want %d", formula, n, features)
		}
	}
	for formula, want := range map[string]string{"": "holds 101 different words", "y ~ factor(v)": `column "v" as a factor has more than 100 levels`} {
		if _, err := open(many(101), formula); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("101 levels, %q: %v", formula, err)
		}
	}
	for numbers, want := range map[string]string{"9 10 9 10 2": "10", "10 9 10 9 2": "10", "9 9 10 10 9": "9", "2 2 10 9 9": "2", "3 1 2 3 1 2 1": "1"} {
		data := "v,y\n"
		for i, v := range strings.Fields(numbers) {
			data += fmt.Sprintf("%s,%d\n", v, i*i)
		}
		table, err := open(data, "y ~ factor(v)")
		if err != nil {
			t.Fatal(err)
		}
		if f := table.Design.Factors[0]; f.Reference != want {
			t.Errorf("of %s the reference is %s, want %s", numbers, f.Reference, want)
		}
	}
	x := mat.NewDense(5, 2, []float64{1, 7, 2, 8, 1, 7, 3, 9, 1, 7})
	memory := func(dataset.Selection) (dataset.Source, error) {
		return dataset.Matrix(x, []float64{1, 2, 3, 4, 6}), nil
	}
	table, err := Open(t.Context(), memory, Request{Categorical: []string{"x1"}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]float64{"x12": {0, 1, 0, 0, 0}, "x13": {0, 0, 0, 1, 0}, "x2": {7, 8, 7, 9, 7}}
	if diff := cmp.Diff(want, columns(t, table.Source)); diff != "" {
		t.Error(diff)
	}
}

// TestCellsOfAFactor: a column that is named is a factor whatever kinds of cells stand in it, in
// whatever numbers; one without rows is none.
func TestCellsOfAFactor(t *testing.T) {
	kinds := []string{"1 2", "0x1p3 1_000", "2020-01-02 2021-01-02", "a b"}
	for i := range kinds {
		for j := range i {
			data := "v,y\n"
			for r, cell := range strings.Fields(kinds[i] + " " + kinds[j]) {
				data += fmt.Sprintf("%s,%d\n", cell, r*r)
			}
			table, err := Open(t.Context(), text(data), Request{Categorical: []string{"v"}})
			if err != nil {
				t.Errorf("%s and %s: %v", kinds[i], kinds[j], err)
			} else if n := len(table.Source.Schema().Features); n != 3 {
				t.Errorf("%s and %s: %d features, want 3", kinds[i], kinds[j], n)
			}
		}
	}
	if _, err := Open(t.Context(), text("g,x,y\n"), Request{}); err != nil && strings.Contains(err.Error(), "has no value in any row") {
		t.Errorf("a table without rows: %v", err)
	}
}

// TestRowsOfFaults: an error names the row, of whichever feature it is, and a level that was seen
// is not taken for the reference.
func TestRowsOfFaults(t *testing.T) {
	table, err := Open(t.Context(), text("x,z,y\n5,2,3\n7,3,4\n5,1,0\n7,1,0\n7,1,9\n"), Request{Formula: mustParse(t, "y ~ x + I(z * 2) + log(z) + factor(x)")})
	if err != nil {
		t.Fatal(err)
	}
	other := func(csv string, unseen bool) dataset.Source {
		src, err := text(csv)(table.Design.Selection("y", unseen))
		if err != nil {
			t.Fatal(err)
		}
		return table.Design.Source(src, unseen)
	}
	long := "x,z,y\n" + strings.Repeat("5,1,1\n", model.BlockRows+4)
	for data, want := range map[string]string{
		"x,z,y\n5,1,1\n5,1,2\n5,0,3\n": "row 3: log(z) is -Inf", long + "5,0,1\n": fmt.Sprintf("row %d: log(z) is -Inf", model.BlockRows+5),
	} {
		err := other(data, false).Read(t.Context(), func(*model.Block) error { return nil })
		if fault := (*dataset.Error)(nil); !errors.As(err, &fault) || fault.Msg != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	var got []float64
	err = other("x,z,y\n5,1,1\n7,1,2\n6,1,3\n", true).Read(context.Background(), func(b *model.Block) error {
		got = append(got, b.Col(3)...)
		return nil
	})
	// The reference is 7: the level 5 has 1, that and what is neither 0.
	if err != nil || !slices.Equal(got, []float64{1, 0, 0}) {
		t.Errorf("factor(x)5 is %v, error %v", got, err)
	}
}
