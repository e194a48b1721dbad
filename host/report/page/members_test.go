package page_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/report/diagnosis"
	"github.com/gatedlearning/moe/host/report/page"
	"github.com/gatedlearning/moe/host/terms"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
)

// people is a table with numbers, a factor and weights, and its cells.
type people struct {
	age, tall, y, weight []float64
	town                 []string
}

func drawPeople(n int) *people {
	p := &people{}
	for i := range n {
		u := func(a float64) float64 { return math.Abs(math.Mod(math.Sin(float64(i+1)*a)*43758.5453, 1)) }
		age, town := 20+50*u(12.9898), []string{"Ely", "York", "Bath"}[int(2.9999*u(78.233))]
		tall := 0.0
		if u(3.7) > 0.6 {
			tall = 1
		}
		y := 3 + 0.1*age + 0.2*(u(5.1)-0.5)
		if u(9.3) < 1/(1+math.Exp(-(age-45)/5)) && town != "Bath" {
			y = 20 - 0.2*age + tall + 0.2*(u(6.7)-0.5)
		}
		p.age, p.tall, p.town = append(p.age, age), append(p.tall, tall), append(p.town, town)
		p.y, p.weight = append(p.y, y), append(p.weight, 0.5+u(2.3))
	}
	return p
}

// file writes the table as CSV.
func (p *people) file(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	out.WriteString("age,town,tall,weight,y\n")
	for i := range p.y {
		fmt.Fprintf(&out, "%v,%s,%v,%v,%v\n", p.age[i], p.town[i], p.tall[i], p.weight[i], p.y[i])
	}
	path := filepath.Join(t.TempDir(), "people.csv")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// open opens it, its words as factors, with a formula where there is one.
func (p *people) open(t *testing.T, formula string) *terms.Table {
	t.Helper()
	path := p.file(t)
	r := terms.Request{Selection: dataset.Selection{Target: "y", Roles: dataset.Roles{model.Weights: "weight"}}}
	if formula != "" {
		f, err := terms.Parse(formula)
		if err != nil {
			t.Fatal(err)
		}
		r.Formula = f
	}
	table, err := terms.Open(t.Context(), func(sel dataset.Selection) (dataset.Source, error) { return dataset.Open(path, sel) }, r)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// fitPage fits a table and returns the model, the diagnosis and the page.
func fitPage(t *testing.T, src dataset.Source, cfg host.Config) (*fitted.Model, *diagnosis.Diagnosis, string) {
	t.Helper()
	act, err := identity.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := host.Fit(t.Context(), act, src, cfg)
	if err != nil {
		t.Fatal(err)
	}
	d, err := diagnosis.Of(t.Context(), m, act, src)
	if err != nil {
		t.Fatal(err)
	}
	return m, d, pageOf(t, m, d)
}

func pageOf(t *testing.T, m *fitted.Model, d *diagnosis.Diagnosis) string {
	t.Helper()
	var out bytes.Buffer
	if err := page.Fits(&out, []page.Setting{{Name: "--k", Value: "2"}}, page.Fitted{Model: m, Diagnosis: d}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestMembers: means, standard deviations and shares by expert are those of plain sums over the rows, each with its weight
// times its posterior, written out; so are the differences.
func TestMembers(t *testing.T) {
	p := drawPeople(700)
	table := p.open(t, "")
	cfg := host.Config{K: 2, Intercepts: host.BothIntercepts}.For(table)
	m, d, _ := fitPage(t, table.Source, cfg)

	// The posterior of a row, from the parameters by the names of the features.
	at := func(i int, name string) float64 {
		switch name {
		case "age":
			return p.age[i]
		case "tall":
			return p.tall[i]
		}
		if "town"+p.town[i] == name {
			return 1
		}
		return 0
	}
	var mass [2]float64
	sums := map[string]*[2][2]float64{"age": {}, "tall": {}, "y": {}}
	towns := map[string]*[2]float64{"Ely": {}, "York": {}, "Bath": {}}
	for i := range p.y {
		logit, mean := m.GatingIntercepts[0], slices.Clone(m.RegressorIntercepts)
		for j, name := range m.Features {
			logit += m.Gating[0][j] * at(i, name)
			for e := range mean {
				mean[e] += m.Regressors[e][j] * at(i, name)
			}
		}
		joint := [2]float64{1 / (1 + math.Exp(-logit)), 1 / (1 + math.Exp(logit))}
		for e := range joint {
			joint[e] *= math.Exp(-(p.y[i]-mean[e])*(p.y[i]-mean[e])/(2*m.Sigma[0]*m.Sigma[0])) + 1e-300
		}
		for e := range joint {
			w := p.weight[i] * joint[e] / (joint[0] + joint[1])
			mass[e] += w
			for name, v := range map[string]float64{"age": p.age[i], "tall": p.tall[i], "y": p.y[i]} {
				sums[name][e][0] += w * v
				sums[name][e][1] += w * v * v
			}
			towns[p.town[i]][e] += w
		}
	}
	const tolerance = 1e-9 // of sums of 700 numbers up to 5,000, and of a posterior by exp without a shift
	near := func(what string, got, want float64) {
		t.Helper()
		if !(math.Abs(got-want) <= tolerance*max(1, math.Abs(want))) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	total := mass[0] + mass[1]
	number := func(got diagnosis.Members, name string) {
		of := sums[name]
		mean := (of[0][0] + of[1][0]) / total
		variance := (of[0][1]+of[1][1])/total - mean*mean
		between := 0.0
		for e := range mass {
			own := of[e][0] / mass[e]
			near(fmt.Sprintf("mean of %s in expert %d", name, e+1), got.Means[e], own)
			near(fmt.Sprintf("sd of %s in expert %d", name, e+1), got.SDs[e], math.Sqrt(of[e][1]/mass[e]-own*own))
			between += mass[e] / total * (own - mean) * (own - mean)
		}
		near("mean of "+name, got.Mean, mean)
		near("sd of "+name, got.SD, math.Sqrt(variance))
		near("difference of "+name, got.Differs, math.Sqrt(between/variance))
	}
	if len(d.Members) != 3 {
		t.Fatalf("%d columns", len(d.Members))
	}
	number(d.Members[0], "age")
	number(d.Members[2], "tall")
	number(d.Target, "y")
	if !d.Members[2].Binary || d.Members[0].Binary {
		t.Error("which columns are of zeros and ones")
	}
	town, chi := d.Members[1], 0.0
	for l, name := range town.Levels {
		share := (towns[name][0] + towns[name][1]) / total
		near("share of "+name, town.Shares[l], share)
		for e := range mass {
			own := towns[name][e] / mass[e]
			near(fmt.Sprintf("share of %s in expert %d", name, e+1), town.Experts[e][l], own)
			chi += mass[e] / total * (own - share) * (own - share) / share
		}
	}
	near("difference of town", town.Differs, math.Sqrt(chi)) // two experts: Cramér's V
	for e := range mass {
		near(fmt.Sprintf("share of expert %d", e+1), d.Shares[e], mass[e]/total)
	}
	for j, name := range m.Features {
		sum, squares, weights := 0.0, 0.0, 0.0
		for i, w := range p.weight {
			sum, squares, weights = sum+w*at(i, name), squares+w*at(i, name)*at(i, name), weights+w
		}
		near("SD of "+name, d.SD[j], math.Sqrt(squares/weights-sum*sum/weights/weights))
	}
}

// TestProfiles: along a column experts and gate are those of the formula, the others at the median, a factor at its
// commonest level; terms that are made of a column move with it.
func TestProfiles(t *testing.T) {
	p := drawPeople(701)
	table := p.open(t, "y ~ age + I(age^2) + town + tall | age + town")
	m, d, _ := fitPage(t, table.Source, host.Config{K: 2}.For(table))
	ages := slices.Sorted(slices.Values(p.age))
	if len(d.Profiles) != 3 {
		t.Fatalf("%d profiles", len(d.Profiles))
	}
	for _, pr := range d.Profiles[:2] { // tall is not in the gate
		if pr.Name == "tall" {
			t.Errorf("tall is among the first, of which the gate knows nothing")
		}
	}
	i := slices.IndexFunc(d.Profiles, func(p diagnosis.Profile) bool { return p.Name == "age" })
	pr := d.Profiles[i]
	if pr.At[0] < ages[0] || pr.At[len(pr.At)-1] > ages[700] || len(pr.Ticks) < 100 || len(pr.Ticks) > 120 {
		t.Errorf("from %v to %v with %d ticks", pr.At[0], pr.At[len(pr.At)-1], len(pr.Ticks))
	}
	count := map[string]float64{}
	for i, town := range p.town {
		count[town] += p.weight[i]
	}
	commonest := "Ely"
	for town, n := range count {
		if n > count[commonest] {
			commonest = town
		}
	}
	tall := slices.Sorted(slices.Values(p.tall))[350]
	for at, age := range pr.At {
		value := map[string]float64{"age": age, "I(age^2)": age * age, "tall": tall, "town" + commonest: 1}
		logit := m.GatingIntercepts[0]
		for j, name := range m.Features {
			logit += m.Gating[0][j] * value[name]
		}
		if want := 1 / (1 + math.Exp(-logit)); math.Abs(pr.Gate[0][at]-want) > 1e-9 {
			t.Fatalf("gate at %v: %v, want %v", age, pr.Gate[0][at], want)
		}
		for e := range 2 {
			want := m.RegressorIntercepts[e]
			for j, name := range m.Features {
				want += m.Regressors[e][j] * value[name]
			}
			if math.Abs(pr.Means[e][at]-want) > 1e-9*max(1, math.Abs(want)) {
				t.Fatalf("expert %d at %v: %v, want %v", e+1, age, pr.Means[e][at], want)
			}
		}
	}
}

// headings are those of a page, in their order.
func headings(page string) (out []string) {
	for _, h := range regexp.MustCompile(`<h([123])>([^<]*)</h`).FindAllStringSubmatch(page, -1) {
		out = append(out, h[1]+" "+h[2])
	}
	return out
}

// TestOrderOfPage: the sentence, the picture, who is in each expert, the coefficients, what to doubt; the notes are last. Of one
// number and one factor the picture is the scatter, a panel for every level.
func TestOrderOfPage(t *testing.T) {
	testslow.Mark(t)
	p := drawPeople(600)
	table := p.open(t, "y ~ age * town")
	cfg := host.Config{K: 2}.For(table)
	_, d, page := fitPage(t, table.Source, cfg)
	want := []string{
		"1 2 identity experts, 600 rows", "2 Data and experts", "2 Who is in each expert", "2 Along the columns that the gate depends on the most", "2 Coefficients", "2 What to doubt",
		"3 Residuals", "3 Predicted and observed", "3 Each expert along its index", "3 Residuals against features", "3 How sure the assignment is", "3 Certificate", "3 Starts", "2 Settings", "2 Notes",
	}
	if got := headings(page); !slices.Equal(got, want) {
		t.Errorf("headings\n%q\nwant\n%q", got, want)
	}
	if at := strings.Index(page, `<p class="sentence">600 rows of y follow 2 experts: `); at < 0 || at > strings.Index(page, "<svg viewBox=\"0 0 520") {
		t.Error("the sentence does not stand before the first picture")
	}
	rows := 0
	for _, panel := range d.Panels {
		rows += len(panel.Rows)
		for at, i := range panel.Rows {
			if panel.X[at] != p.age[i] || p.town[i] != panel.Level || d.Points[i].Y != p.y[i] {
				t.Fatalf("row %d stands in the panel of %s at %v", i, panel.Level, panel.X[at])
			}
		}
	}
	if len(d.Panels) != 3 || rows != 600 {
		t.Errorf("%d panels with %d rows", len(d.Panels), rows)
	}

	tree, err := model.ParseHierarchy("2x(1,2)")
	if err != nil {
		t.Fatal(err)
	}
	flat := p.open(t, "")
	_, _, page = fitPage(t, flat.Source, host.Config{K: 3, Hierarchy: tree, Intercepts: host.BothIntercepts}.For(flat))
	if got := headings(page); !slices.Equal(got[1:6], []string{"2 Data and experts", "2 Tree", "2 Who is in each expert", "2 Along the columns that the gate depends on the most", "2 Coefficients"}) {
		t.Errorf("headings of a tree %q", got)
	}
	_, _, page = fitPage(t, flat.Source, host.Config{K: 1, Intercepts: host.BothIntercepts}.For(flat))
	if got := headings(page); !slices.Equal(got[1:5], []string{"2 Data and experts", "2 The rows", "2 Along the columns that the expert depends on the most", "2 Coefficients"}) {
		t.Errorf("headings of one expert %q", got)
	}
}

// manyColumns is a table of d columns with long names, and two kinds of rows.
func manyColumns(n, d int) (dataset.Source, []string) {
	x, y, names := mat.NewDense(n, d, nil), make([]float64, n), make([]string, d)
	for j := range names {
		names[j] = fmt.Sprintf("the %dth of all the columns <of a questionnaire>, in a hundred words & more", j+1)
	}
	for i := range n {
		for j := range d {
			x.Set(i, j, math.Sin(float64((i+1)*(j+3)*7919)))
		}
		y[i] = x.At(i, 1) + 0.1*math.Sin(float64(i*i))
		if math.Sin(float64(i*31)) > 0.3*x.At(i, 0) {
			y[i] = 5 - y[i]
		}
	}
	return dataset.Matrix(x, y).Named(names, "y"), names
}

// drawnPage is the page of a model of k experts that was not fitted, to the rows of a table.
func drawnPage(t *testing.T, src dataset.Source, names []string, k int) (*diagnosis.Diagnosis, string) {
	t.Helper()
	m := &fitted.Model{
		Activation: stated.Activation{Name: "identity"}, D: len(names), K: k, Features: names, Target: "y", Sigma: fitted.Sigma{1},
		Fit: fitted.Fit{N: 900, Method: "em", Converged: true, Starts: []fitted.Start{{Kind: "random", Rows: 900, LogLikelihood: -1, Agrees: true}}},
	}
	for i := range k {
		regressor, gate := make([]float64, m.D), make([]float64, m.D)
		for j := range regressor {
			regressor[j], gate[j] = float64(i+1)/float64(j+1), math.Cos(float64(i*j))
		}
		m.Regressors, m.Proportions = append(m.Regressors, regressor), append(m.Proportions, 1/float64(k))
		if i < k-1 {
			m.Gating = append(m.Gating, gate)
		}
	}
	act, err := identity.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := diagnosis.Of(t.Context(), m, act, src)
	if err != nil {
		t.Fatal(err)
	}
	return d, pageOf(t, m, d)
}

// TestWideAndLong: of 200 columns twelve are open and the others folded; the pictures say what they leave out, and have the names
// of their rows whole. Ten experts have ten colours.
func TestWideAndLong(t *testing.T) {
	src, names := manyColumns(900, 200)
	d, page := drawnPage(t, src, names, 2)
	for _, want := range []string{"<summary>188 columns more, in which the experts differ less</summary>", "The pictures have the 24 features of the largest."} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	strongest := slices.MaxFunc(d.Members, func(a, b diagnosis.Members) int {
		if a.Differs < b.Differs {
			return -1
		}
		return 1
	})
	first := strings.Index(page, "(target)</th>")
	if after := page[first:]; !strings.Contains(after[strings.Index(after, "<tr>"):][:400], strings.NewReplacer("<", "&lt;", ">", "&gt;", "&", "&amp;").Replace(strongest.Name)) {
		t.Errorf("%s does not come first", strongest.Name)
	}
	if strings.Contains(page, "…") && strings.Contains(page, "<tspan") && regexp.MustCompile(`<tspan[^>]*>[^<]*…`).MatchString(page) {
		t.Error("a name in a picture is cut")
	}
	whole := make(map[string]bool)
	for _, text := range regexp.MustCompile(`<text text-anchor="end">(<tspan.*?)</text>`).FindAllStringSubmatch(page, -1) {
		name := regexp.MustCompile(`</?tspan[^>]*>`).ReplaceAllString(text[1], "")
		name = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(name)
		whole[regexp.MustCompile(` \(SD [^)]*\)$`).ReplaceAllString(name, "")] = true
	}
	for name := range whole {
		if !slices.Contains(names, name) {
			t.Errorf("a row of a picture is called %q", name)
		}
	}
	if len(whole) < 24 {
		t.Errorf("%d names in pictures", len(whole))
	}
	if most := strings.Count(page, `class="ticks"`); most == 0 || most > 8 {
		t.Errorf("%d pictures with ticks", most)
	}
	_, page = drawnPage(t, src, names, 10)
	for _, want := range []string{`class="e9"`, "5 others share the rest", "expert 10"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of ten experts lacks %q", want)
		}
	}
}

// TestPageOfManyRows: of 60,000 rows in passes the pictures have a fixed part, which the page says, and the page is the same to the
// byte at any number of processors; means are those of all rows.
func TestPageOfManyRows(t *testing.T) {
	const n = 60_000
	src := rows(n, 2)
	act, err := identity.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := host.Fit(t.Context(), act, src, host.Config{K: 2, Method: host.EM{Starts: 1}, Intercepts: host.BothIntercepts})
	if err != nil {
		t.Fatal(err)
	}
	var pages []string
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, threads := range []int{1, 4} {
		runtime.GOMAXPROCS(threads)
		d, err := diagnosis.Of(t.Context(), m, act, src)
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Points) != 1500 {
			t.Errorf("%d points", len(d.Points))
		}
		sum := 0.0
		if err := src.Read(t.Context(), func(b *model.Block) error {
			for _, v := range b.Col(0) {
				sum += v
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if math.Abs(d.Members[0].Mean-sum/n) > 1e-12 {
			t.Errorf("mean %v, want %v", d.Members[0].Mean, sum/n)
		}
		pages = append(pages, pageOf(t, m, d))
	}
	if pages[0] != pages[1] {
		t.Error("pages differ by the number of processors")
	}
	for _, want := range []string{"The picture has 1500 of the 60000 rows, evenly.", "Medians and ticks are of 1500 of the 60000 rows, evenly."} {
		if !strings.Contains(pages[0], want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
