package explore

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host/dataset"
)

// explored is what there is to say of a file of this content.
func explored(t *testing.T, name, content string) (*Table, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return Of(t.Context(), func(sel dataset.Selection) (dataset.Source, error) { return dataset.Open(path, sel) })
}

// TestSummary: numbers are those of a library that holds all rows, far from 0 too, and of NaN in
// an array nothing counts.
func TestSummary(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	columns := make([][]float64, 3)
	text.WriteString("near,far,long\n")
	for range 5000 {
		row := []float64{rng.NormFloat64(), 1e6 + rng.ExpFloat64(), math.Exp(rng.NormFloat64())}
		for j, v := range row {
			columns[j] = append(columns[j], v)
		}
		fmt.Fprintf(&text, "%v,%v,%v\n", row[0], row[1], row[2])
	}
	table, err := explored(t, "a.csv", text.String())
	if err != nil {
		t.Fatal(err)
	}
	for j, c := range table.Columns {
		x := columns[j]
		mean, variance := stat.PopMeanVariance(x, nil)
		skew := stat.MomentAbout(3, x, mean, nil) / math.Pow(variance, 1.5)
		s := c.Numbers
		if s.Min != slices.Min(x) || s.Max != slices.Max(x) || math.Abs(*s.Mean-mean) > 1e-9*math.Abs(mean)+1e-12 ||
			math.Abs(*s.SD-math.Sqrt(variance)) > 1e-9 || math.Abs(*s.Skew-skew) > 1e-6 {
			t.Errorf("%s: %v %v %v %v %v, want mean %v, sd %v, skew %v", c.Name, s.Min, s.Max, *s.Mean, *s.SD, *s.Skew, mean, math.Sqrt(variance), skew)
		}
		if c.Distinct != nil { // 5,000 of them
			t.Errorf("%s: %d values", c.Name, *c.Distinct)
		}
	}
	if !table.Columns[2].Has(Skewed) || table.Columns[0].Has(Skewed) {
		t.Error("a long tail is not told from none")
	}
	table, err = explored(t, "a.csv", "x,y\n1e300,1\n-1e300,2\n1e300,3\n")
	if err != nil || table.Columns[0].Numbers.SD != nil || table.Columns[0].Numbers.Max != 1e300 {
		t.Errorf("numbers whose squares are none: error %v", err)
	}
}

// TestColumns: what cells are, and what is said of them.
func TestColumns(t *testing.T) {
	head := "id,const,two,few,count,mass,site,code,mark,day,money,none,only,y\n"
	var text strings.Builder
	text.WriteString(head)
	for i := range 200 {
		mass, mark, code := fmt.Sprint(float64(i)/7), fmt.Sprint(i), []string{"4", "f", "r"}[i%3]
		if i%4 == 0 {
			mass = "-9.5"
		}
		if i == 77 {
			mark = "?"
		}
		site := []string{"a", "b", "NA"}[i%3]
		fmt.Fprintf(&text, "%d,5,%d,%d,%d,%s,%s,%s,%s,2020-01-%02d,\"1,%03d\",,w%d,%v\n", i+3, i%2, i%4, i%50, mass, site, code, mark, i%28+1, i, i, 1/float64(i+1))
	}
	table, err := explored(t, "a.csv", text.String())
	if err != nil {
		t.Fatal(err)
	}
	if table.Rows != 200 {
		t.Errorf("%d rows", table.Rows)
	}
	for _, want := range []struct {
		name    string
		kind    Kind
		missing int
		notes   []Note
	}{
		{"id", Numbers, 0, []Note{RowNumber}},
		{"const", Numbers, 0, []Note{Constant}},
		{"two", Numbers, 0, []Note{TwoValues}},
		{"few", Numbers, 0, []Note{Counts, FewValues}},
		{"count", Numbers, 0, []Note{Counts}},
		{"mass", Numbers, 0, []Note{Massed}},
		{"site", Words, 66, nil},
		{"code", Mixed, 0, nil},
		{"mark", Mixed, 0, []Note{Marked}},
		{"day", Dates, 0, nil},
		{"money", Spelled, 0, nil},
		{"none", Empty, 200, nil},
		{"only", Words, 0, []Note{Levels}},
		{"y", Numbers, 0, []Note{Skewed}},
	} {
		i := slices.IndexFunc(table.Columns, func(c Column) bool { return c.Name == want.name })
		if c := table.Columns[i]; c.Kind != want.kind || c.Missing != want.missing || !slices.Equal(c.Notes, want.notes) {
			t.Errorf("%s: %s, %d missing, notes %q, want %s, %d, %q", c.Name, c.Kind, c.Missing, c.Notes, want.kind, want.missing, want.notes)
		}
	}
	if want := []string{"y", "mass", "count"}; !slices.Equal(table.Targets, want) {
		t.Errorf("targets %q, want %q", table.Targets, want)
	}
	drop, categorical, missing := table.Fit("y")
	if want := []string{"id", "const", "mark", "day", "money", "none", "only"}; !slices.Equal(drop, want) || !slices.Equal(categorical, []string{"code"}) || !missing {
		t.Errorf("drop %q, want %q; categorical %q; missing %v", drop, want, categorical, missing)
	}
	if mass := table.Columns[5].Common; mass.Value != "-9.5" || mass.Rows != 50 {
		t.Errorf("%v is the commonest", mass)
	}
	if table, err := explored(t, "a.csv", "a\n1\n2\n4\n"); err != nil || len(table.Columns) != 1 || math.Abs(*table.Columns[0].Numbers.Mean-7./3) > 1e-15 {
		t.Errorf("one column: error %v", err)
	}
	if _, err := explored(t, "a.csv", "a,b\n"); err == nil || !strings.Contains(err.Error(), "no rows") {
		t.Errorf("no rows: error %v", err)
	}
}
