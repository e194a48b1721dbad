package terms

import (
	"context"
	"errors"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

func file(path string) Opener {
	return func(sel dataset.Selection) (dataset.Source, error) { return dataset.Open(path, sel) }
}

func text(csv string) Opener {
	return func(sel dataset.Selection) (dataset.Source, error) {
		return dataset.NewReader("data.csv", strings.NewReader(csv), sel)
	}
}

// columns reads the features of a table by name.
func columns(t *testing.T, src dataset.Source) map[string][]float64 {
	t.Helper()
	out := make(map[string][]float64)
	err := src.Read(context.Background(), func(b *model.Block) error {
		for j, name := range src.Schema().Features {
			out[name] = append(out[name], b.Col(j)...)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func mustParse(t *testing.T, formula string) *Formula {
	t.Helper()
	f, err := Parse(formula)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// matrix is a design matrix of R.
type matrix struct {
	formula string
	part    string
	names   []string
	columns map[string][]float64
}

// oracle reads what oracle.R wrote.
func oracle(t *testing.T) (list []matrix) {
	t.Helper()
	data, err := os.ReadFile("testdata/oracle.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, chunk := range strings.Split("\n"+string(data), "\nformula ")[1:] {
		lines := strings.Split(strings.TrimSuffix(chunk, "\n"), "\n")
		m := matrix{
			formula: strings.TrimSpace(lines[0]), part: strings.TrimSpace(strings.TrimPrefix(lines[1], "part")),
			names: strings.Split(lines[2], "\t"), columns: make(map[string][]float64),
		}
		for _, line := range lines[3:] {
			for j, cell := range strings.Split(line, "\t") {
				v, err := strconv.ParseFloat(cell, 64)
				if err != nil {
					t.Fatal(err)
				}
				m.columns[m.names[j]] = append(m.columns[m.names[j]], v)
			}
		}
		list = append(list, m)
	}
	return list
}

// TestModelMatrix: names, order and values of the columns are those of R's
// model.matrix for factors with the commonest level first, which made
// testdata/oracle.txt by testdata/oracle.R. Values differ by rounding only: R makes
// orthogonal polynomials by a QR decomposition, which for these costs some 1e−15.
func TestModelMatrix(t *testing.T) {
	formulas := make(map[string]bool)
	for _, want := range oracle(t) {
		formulas[want.formula] = true
		table, err := Open(context.Background(), file("testdata/data.csv"), Request{Formula: mustParse(t, want.formula)})
		if err != nil {
			t.Errorf("%s: %v", want.formula, err)
			continue
		}
		names, intercept := table.Experts, table.ExpertIntercept
		if want.part == "2" {
			names, intercept = table.Gate, table.GateIntercept
		}
		if intercept {
			names = append([]string{"(Intercept)"}, names...)
		}
		if diff := cmp.Diff(want.names, names); diff != "" {
			t.Errorf("%s, part %s: %s", want.formula, want.part, diff)
			continue
		}
		got := columns(t, table.Source)
		for name, column := range want.columns {
			for i, v := range column {
				if name != "(Intercept)" && !(math.Abs(got[name][i]-v) <= 1e-13*(1+math.Abs(v))) {
					t.Errorf("%s: row %d of %s is %v, want %v", want.formula, i+1, name, got[name][i], v)
				}
			}
		}
	}
	if len(formulas) < 20 {
		t.Errorf("%d formulas", len(formulas))
	}
}

// TestPredictionsNeedRawColumns: a design from a file makes of other rows what R's
// predict would: levels in their places, the polynomial of the fit's rows.
func TestPredictionsNeedRawColumns(t *testing.T) {
	table, err := Open(context.Background(), file("testdata/data.csv"), Request{Formula: mustParse(t, "y ~ poly(x3,2) + sex*x1 + factor(dose)")})
	if err != nil {
		t.Fatal(err)
	}
	all := columns(t, table.Source)
	rows, err := os.ReadFile("testdata/data.csv")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(rows), "\n")
	const from = 9 // the rows 10 and 11, without the target
	few := text(lines[0] + "\n" + lines[1+from] + "\n" + lines[2+from] + "\n")
	sel := table.Design.Selection("", false)
	sel.Target = "nowhere"
	src, err := few(sel)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range columns(t, table.Design.Source(src, false)) {
		if want := all[name][from : from+2]; !slices.Equal(got, want) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// TestFlatFactors: without a formula every column of words is 0/1 columns against
// its commonest level, in the place where it stood.
func TestFlatFactors(t *testing.T) {
	const data = "colour,x,size,y\nred,1,S,1\nblue,2,L,2\nblue,3,S,3\nred,4,M,4\ngreen,5,S,6\n"
	table, err := Open(context.Background(), text(data), Request{Reference: map[string]string{"size": "M"}, Gate: []string{"colour"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"colourgreen", "colourred", "x", "sizeL", "sizeS"}
	if diff := cmp.Diff(want, table.Source.Schema().Features); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"colourgreen", "colourred"}, table.Gate); diff != "" {
		t.Error(diff)
	}
	got := columns(t, table.Source)
	for name, want := range map[string][]float64{
		"colourgreen": {0, 0, 0, 0, 1}, "colourred": {1, 0, 0, 1, 0}, "x": {1, 2, 3, 4, 5}, "sizeL": {0, 1, 0, 0, 0}, "sizeS": {1, 0, 1, 0, 1},
	} {
		if !slices.Equal(got[name], want) {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	// Two colours stand in two rows each: the first in byte order is the reference.
	if f := table.Design.factor("colour"); f.Reference != "blue" || !slices.Equal(f.Levels, []string{"blue", "green", "red"}) {
		t.Errorf("factor %+v", f)
	}
}

// TestNumbersStayAsTheyAre: a table of numbers has no design, and a pass over it is
// one over the file.
func TestNumbersStayAsTheyAre(t *testing.T) {
	table, err := Open(context.Background(), text("a,b,y\n1,2,3\n4,5,6\n"), Request{})
	if err != nil || table.Design != nil {
		t.Errorf("design %v, error %v", table.Design, err)
	}
}

// TestRefusals: what is no factor, and what is no formula, with its place.
func TestRefusals(t *testing.T) {
	many := "id,x,y\n"
	for i := range 101 {
		many += "p" + strconv.Itoa(i) + "," + strconv.Itoa(i*i) + "," + strconv.Itoa(i) + "\n"
	}
	const small = "g,x,y\na,1,2\nb,2,3\na,3,5\n"
	for _, c := range []struct {
		data, formula string
		request       Request
		want          string
	}{
		{data: many, want: `data.csv: column "id" holds 101 different words, such as "p0", more than 100; leave it out with drop: id, or take each as a level with categorical: id`},
		{data: "d,x,y\n2020-01-02,1,2\n2020-02-03,2,4\n", want: `data.csv: column "d" holds dates or times, such as "2020-01-02"; leave it out with drop: d`},
		{data: "g,x,y\nNA,1,2\n,2,4\n", want: `data.csv: column "g" has no value in any row; leave it out with drop: g`},
		{data: "g,x,y\na,1,2\na,2,4\n", want: `data.csv: column "g" is "a" in every row`},
		{data: "g,x,y\n\"1,5\",1,2\n\"2,5\",2,4\n", want: `data.csv:2:1: "1,5" in column "g" is not a finite decimal number; a decimal comma? write 1.5, or give decimal: ,; 2 such cells`},
		{data: "g,x,y\n0x1p3,1,2\n1_000,2,4\n", want: `data.csv:2:1: "0x1p3" in column "g" is not a finite decimal number; 2 such cells`},
		{data: "g,x,y\n1,1,low\n2,2,high\n", want: `data.csv:2:3: column "y" holds words, such as "low", and no number; it is the target, which must be a number; target names another`},
		{data: "g,x,y\n1,1,2\na,2,4\n", want: `data.csv:3:1: "a" in column "g" is not a finite decimal number`},
		{data: small, request: Request{Reference: map[string]string{"g": "c"}}, want: `reference g=c: the column has no such level; there are a, b`},
		{data: small, request: Request{Reference: map[string]string{"x": "1"}}, want: `reference x=1: x is no column of words among the features`},
		{data: small, request: Request{Categorical: []string{"y"}}, want: `column "y" is the target, which is a number, and categorical`},
		{data: small, request: Request{Categorical: []string{"z"}}, want: `column "z" is categorical and not among the features`},
		{data: "g,gb,y\na,1,2\nb,2,3\na,3,5\n", want: `data.csv: terms[1]: the name "gb" is empty or stands twice; rename a column`},

		{data: "a,b,a:b,y\n1,2,3,4\n2,3,4,9\n", formula: "y ~ a*b + `a:b`", want: "formula \"y ~ a*b + `a:b`\", character 5: two different terms are called \"a:b\"; rename a column"},
		{data: "a,b,a:b,y\n1,2,3,4\n2,3,4,9\n", formula: "y ~ . ^ 2", want: "formula \"y ~ . ^ 2\", character 5: two different terms are called \"a:b\"; rename a column"},
		{data: "b,log(b),y\n1,2,3\n2,3,4\n", formula: "y ~ . + log(b)", want: "formula \"y ~ . + log(b)\", character 9: two different terms are called \"log(b)\"; rename a column"},
		{data: small, formula: "y ~ x +", want: `formula "y ~ x +", character 8: it ends here, want a column`},
		{data: small, formula: "y ~ x + z", want: `formula "y ~ x + z", character 9: no column "z"; there are g, x, y`},
		{data: small, formula: "z ~ x", want: `formula "z ~ x", character 1: no column "z"`},
		{data: small, formula: "exp(y) ~ x", want: `formula "exp(y) ~ x", character 1: the left side is a column, or log, sqrt or 1/ of one, or cbind(successes, failures), then ~`},
		{data: small, formula: "2/y ~ x", want: `formula "2/y ~ x", character 1: "2" stands here, want the target's column, then ~`},
		{data: small, formula: "log(y + 1) ~ x", want: `formula "log(y + 1) ~ x", character 1: the left side is a column`},
		{data: small, formula: "cbind(y) ~ x", want: `formula "cbind(y) ~ x", character 1: want cbind(COLUMN, COLUMN): successes, failures`},
		{data: small, formula: "cbind(y, n) ~ x", want: `formula "cbind(y, n) ~ x", character 1: no column "n"; there are`},
		{data: small, formula: "y ~ g - offset(x)", want: `formula "y ~ g - offset(x)", character 9: an offset is added, and here stands a minus`},
		{data: small, formula: "y ~ g + offset(x) + offset(x)", want: `formula "y ~ g + offset(x) + offset(x)", character 21: there is an offset already, x`},
		{data: small, formula: "y ~ g + offset(sqrt(x))", want: `formula "y ~ g + offset(sqrt(x))", character 9: want offset(COLUMN) or offset(log(COLUMN))`},
		{data: small, formula: "y ~ g | offset(x)", want: `formula "y ~ g | offset(x)", character 9: an offset is a term of the experts`},
		{data: small, formula: "y ~ g:offset(x)", want: `formula "y ~ g:offset(x)", character 7: an offset is a term of the experts`},
		{data: small, formula: "y ~ offset(x) | g - g", want: `formula "y ~ offset(x) | g - g", character 1: no term but the intercept`},
		{data: small, formula: "log(y)", want: `formula "log(y)", character 7: it ends here; want ~ behind the left side`},
		{data: small, formula: "log(y) ~ y", want: `formula "log(y) ~ y", character 10: y is the target and stands on the right`},
		{data: "x,y\n1,2\n2,0\n3,1\n", formula: "log(y) ~ x", want: `data.csv: row 2: column "y" is 0, and log(y) needs values above 0`},
		{data: "x,y\n1,2\n2,-1\n3,1\n", formula: "sqrt(y) ~ x", want: `data.csv: row 2: column "y" is -1, and sqrt(y) needs values above 0`},
		{data: "x,y\n1,0\n2,1\n3,1\n", formula: "I(1/y) ~ x", want: `data.csv: row 1: column "y" is 0, and 1/y needs values above 0`},
		{data: small, formula: "y ~ x ~ g", want: `formula "y ~ x ~ g", character 7: "~" stands here`},
		{data: small, formula: "y ~ (x", want: `formula "y ~ (x", character 7: it ends here, want ")"`},
		{data: small, formula: "y ~ x / g", want: `formula "y ~ x / g", character 7: "/" is not an operator of terms`},
		{data: small, formula: "y ~ sin(x)", want: `formula "y ~ sin(x)", character 5: no function sin; there are I, log, exp, sqrt, poly, factor`},
		{data: small, formula: "y ~ I(x:g)", want: `formula "y ~ I(x:g)", character 8: ":" is no arithmetic`},
		{data: small, formula: "y ~ log(g)", want: `formula "y ~ log(g)", character 5: column "g" holds words`},
		{data: small, formula: "y ~ 2", want: `formula "y ~ 2", character 5: 2 is no term`},
		{data: small, formula: "y ~ 1", want: `formula "y ~ 1", character 1: no term but the intercept: a mixture needs at least one column; behind a bar the gate alone sees it, as in y ~ 1 | x`},
		{data: small, formula: "y ~ x | 0", want: `formula "y ~ x | 0", character 1: the gate has neither terms nor an intercept`},
		{data: small, formula: "y ~ x + y", want: `formula "y ~ x + y", character 9: y is the target and stands on the right`},
		{data: small, formula: "y ~ poly(x, 3)", want: `formula "y ~ poly(x, 3)", character 5: poly(x, 3): its degree must be less than the number of different values`},
		{data: small, formula: "y ~ poly(x)", want: `formula "y ~ poly(x)", character 5: want poly(COLUMN, DEGREE)`},
		{data: small, formula: "y ~ x ? g", want: `formula "y ~ x ? g", character 7: "?" has no meaning here`},
		{data: "x,y\n1,2\n0,3\n2,2\n", formula: "y ~ log(x)", want: `data.csv: row 2: log(x) is -Inf`},
	} {
		_, err := func() (map[string][]float64, error) {
			r := c.request
			if c.formula != "" {
				f, err := Parse(c.formula)
				if err != nil {
					return nil, err
				}
				r.Formula = f
			}
			table, err := Open(context.Background(), text(c.data), r)
			if err != nil {
				return nil, err
			}
			return nil, table.Source.Read(context.Background(), func(*model.Block) error { return nil })
		}()
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s%q:\n error %v\n want  %s…", c.formula, c.data[:min(len(c.data), 40)], err, c.want)
		}
		if f := (*Error)(nil); c.formula != "" && !strings.HasPrefix(c.want, "data.csv: row") && !errors.As(err, &f) {
			t.Errorf("%s: error of type %T", c.formula, err)
		}
	}
}

// TestUnseenLevels: a level that the fit has not seen is an error that names it, or
// the reference, where all 0/1 columns are 0.
func TestUnseenLevels(t *testing.T) {
	for formula, bad := range map[string]string{"y ~ g + x": `"c" in column "g" is none of the levels`, "y ~ factor(x)": `row 2: 7 in column "x" is none of the levels`} {
		table, err := Open(context.Background(), text("g,x,y\na,1,2\nb,2,3\na,1,5\n"), Request{Formula: mustParse(t, formula)})
		if err != nil {
			t.Fatal(err)
		}
		other := text("g,x,y\nb,1,2\nc,7,2\n")
		src, err := other(table.Design.Selection("y", false))
		if err != nil {
			t.Fatal(err)
		}
		err = table.Design.Source(src, false).Read(context.Background(), func(*model.Block) error { return nil })
		if err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: error %v, want one with %s", formula, err, bad)
		}
		if src, err = other(table.Design.Selection("y", true)); err != nil {
			t.Fatal(err)
		}
		got := columns(t, table.Design.Source(src, true))
		for _, name := range []string{"gb", "factor(x)2"} {
			if v := got[name]; v != nil && v[1] != 0 {
				t.Errorf("%s: %s is %v for an unseen level", formula, name, v[1])
			}
		}
	}
}

// TestMissingRowsMakeNoLevel: rows that are left out count for no level.
func TestMissingRowsMakeNoLevel(t *testing.T) {
	const data = "g,x,y\na,1,2\nb,2,3\nc,NA,4\na,3,5\nNA,2,2\nb,4,1\na,,3\na,2,NA\n"
	table, err := Open(context.Background(), text(data), Request{Selection: dataset.Selection{Absent: dataset.Drop}})
	if err != nil {
		t.Fatal(err)
	}
	got := columns(t, table.Source)
	if want := []float64{0, 1, 0, 1}; !slices.Equal(got["gb"], want) || len(got) != 2 {
		t.Errorf("columns %v, want gb %v and x", got, want)
	}
	if n := dataset.Dropped(table.Source); n != 4 {
		t.Errorf("%d rows dropped, want 4", n)
	}
}

// FuzzParse: any text is a formula or an error with a place in it.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"y ~ x1 + sex | log(x)", "`a b` ~ (x + z)^2 - 1", "y~poly(x,2):I(-x^2e3)", "y ~ ((((", "y ~ \x00", "~", "y ~ ."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := Parse(text)
		if err != nil {
			if e := (*Error)(nil); !errors.As(err, &e) || e.At < 0 || e.At > len(text)+1 {
				t.Errorf("%q: error %v", text, err)
			}
			return
		}
		parsed.expand([]string{"y", "x"}, []string{"x"})
	})
}

// FuzzFormula: any formula makes features of a table, which its design makes again, or is an
// error that names what is wrong.
func FuzzFormula(f *testing.F) {
	for _, seed := range []string{"y ~ x + g | log(x)", "y ~ (x + g)^2 - 1", "y ~ poly(x, 2):I(-x^2) + 0", "y ~ factor(x)*g", "y ~ .", "`a b` ~ x", "y ~ I(x^1e300) + sqrt(x - 1)", "y ~ poly(x, 99)"} {
		f.Add(seed)
	}
	table := text("g,x,y,a b\na,1,2,3\nb,2,3,5\na,1,5,1\nb,4,1,0\nc,3,2,2\n")
	f.Fuzz(func(t *testing.T, formula string) {
		parsed, err := Parse(formula)
		if err != nil {
			return
		}
		ctx := context.Background()
		out, err := Open(ctx, table, Request{Formula: parsed})
		if err == nil {
			err = out.Source.Read(ctx, func(*model.Block) error { return nil })
		}
		selection, data, place := (*dataset.SelectionError)(nil), (*dataset.Error)(nil), (*Error)(nil)
		switch {
		case errors.As(err, &selection), errors.As(err, &data), errors.As(err, &place):
			return
		case err != nil:
			t.Fatalf("%q: %v is none of the errors that Open promises", formula, err)
		case out.Design == nil:
			return
		}
		if err := out.Design.Validate(); err != nil {
			t.Errorf("%q: a design that is none: %v", formula, err)
		}
	})
}

// TestOffsetTerms: wherever an offset stands in the sum of the experts' terms, it is out of it, and the rest means what it
// means without.
func TestOffsetTerms(t *testing.T) {
	for text, same := range map[string]string{
		"y ~ offset(log(h)) + x": "y ~ x", "y ~ x + offset(log(h))": "y ~ x", "y ~ x + (offset(log(h)))": "y ~ x", "y ~ 0 + offset(log(h)) + x": "y ~ 0 + x",
		"y ~ offset(log(h)) - 1 + x": "y ~ -1 + x", "y ~ (x + offset(log(h))) - 1 | x": "y ~ (x) - 1 | x", "y ~ offset(log(h)) | x": "y ~ 1 | x",
		"y ~ . + offset(log(h))": "y ~ .", "y ~ x - (x) + offset(log(h)) + g": "y ~ x - x + g",
	} {
		with, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		without, err := Parse(same)
		if err != nil {
			t.Fatal(err)
		}
		if with.Roles[model.Offsets] != "log(h)" {
			t.Errorf("%s: the offset is %q", text, with.Roles[model.Offsets])
		}
		known := []string{"g", "h", "x", "y"}
		_, experts, gate, err := with.expand(known, []string{"g", "x"})
		_, wantExperts, wantGate, other := without.expand(known, []string{"g", "x"})
		if err != nil || other != nil || !reflect.DeepEqual(experts, wantExperts) || !reflect.DeepEqual(gate, wantGate) {
			t.Errorf("%s is %v | %v, error %v; %s is %v | %v, error %v", text, experts, gate, err, same, wantExperts, wantGate, other)
		}
	}
}

// TestSets: the levels of a factor are one set, with a number as without, whatever their place among the terms; all else is
// alone, a polynomial's terms too.
func TestSets(t *testing.T) {
	csv := "y,x,site,sex\n"
	for i := range 24 {
		csv += strconv.Itoa(i*i%7) + "," + strconv.Itoa(i%5) + "," + string(rune('a'+i%3)) + "," + string(rune('m'+i%2)) + "\n"
	}
	table, err := Open(t.Context(), text(csv), Request{Formula: mustParse(t, "y ~ site * x + sex + poly(x, 2) + site:sex")})
	if err != nil {
		t.Fatal(err)
	}
	names, sets := table.Design.Sets()
	got, features := make(map[string][]string), table.Design.Features()
	for i, set := range sets {
		for _, at := range set {
			got[names[i]] = append(got[names[i]], features[at])
		}
	}
	want := map[string][]string{
		"site": {"siteb", "sitec"}, "x": {"x"}, "site:x": {"siteb:x", "sitec:x"}, "sex": {"sexn"}, "site:sex": {"siteb:sexn", "sitec:sexn"},
		"poly(x, 2)1": {"poly(x, 2)1"}, "poly(x, 2)2": {"poly(x, 2)2"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestBeside: the table of a target beside others is that of the rows with all targets: the same features, of which the
// levels of words are those of such rows, the same targets, and as many left out as were not there; from columns and from
// a formula. Where missing cells are refused nothing of other columns is asked.
func TestBeside(t *testing.T) {
	const head = "y2,x,kind,y1\n"
	whole := head + "1,2,a,3\n2,5,b,6\n5,1,a,2\n3,3,b,1\n"
	gaps := head + "1,2,a,3\n,7,c,6\n2,5,b,6\n5,1,a,2\n4,1,c,\n,1,a,\n3,3,b,1\n"
	read := func(text string, r Request) (map[string][]float64, []float64, int) {
		table, err := Open(t.Context(), func(sel dataset.Selection) (dataset.Source, error) {
			return dataset.NewReader("data.csv", strings.NewReader(text), sel)
		}, r)
		if err != nil {
			t.Fatal(err)
		}
		x := columns(t, table.Source)
		var y []float64
		err = table.Source.Read(t.Context(), func(b *model.Block) error {
			y = append(y, b.Y...)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return x, y, dataset.Dropped(table.Source)
	}
	for _, target := range []string{"y1", "y2"} {
		other := map[string]string{"y1": "y2", "y2": "y1"}[target]
		for _, formula := range []string{"", target + " ~ kind*x", target + " ~ ."} {
			r := Request{Selection: dataset.Selection{Target: target, Drop: []string{other}, Absent: dataset.Drop}}
			if formula != "" {
				r.Formula = mustParse(t, formula)
			}
			x, y, none := read(whole, r)
			r.Beside = []string{other}
			gotX, gotY, dropped := read(gaps, r)
			if diff := cmp.Diff(x, gotX); diff != "" || !slices.Equal(y, gotY) || none != 0 || dropped != 3 {
				t.Errorf("%s, %q: %d left out, targets %v, want 3 and %v; features %s", target, formula, dropped, gotY, y, diff)
			}
			if len(x) == 0 || len(y) != 4 || x["kindb"] == nil {
				t.Errorf("%s, %q: %v of %v", target, formula, x, y)
			}
		}
	}
	one := Request{Selection: dataset.Selection{Target: "y1", Features: []string{"x"}}, Beside: []string{"y2"}}
	if _, y, _ := read(head+",2,a,3\n2,5,b,6\n", one); len(y) != 2 {
		t.Errorf("refusing missing cells: targets %v", y)
	}
}
