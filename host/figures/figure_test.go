package figures

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"html"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"github.com/gatedlearning/moe/host/experiment"
	_ "github.com/gatedlearning/moe/internal/testheap"
)

// sketch is a figure that needs no experiment: two runs of a series, one of them
// cut short, another with an error of 0, and a reference.
func sketch() Figure {
	return Figure{&experiment.Outcome{
		Figure: &experiment.Figure{
			ID: "sketch", Title: "A sketch", Source: "nowhere", Claim: "A claim.", Settings: "None.",
			X: experiment.Axis{Label: "steps"}, Y: experiment.Axis{Label: "E_reg", Log: true}, Level: 0.01,
			Columns: []string{"g", "a|b"},
		},
		Curves: []experiment.Curve{
			{Series: "L4", Run: 0, X: []float64{0, 1, 2, 3}, Y: []float64{1, 0.1, 0.01, 0.001}},
			{Series: "L4", Run: 1, X: []float64{0, 1}, Y: []float64{0.25, 0.4}, Status: "diverged, after 2 steps"},
			{Series: "L4", Run: 2, X: []float64{0, 1, 2}, Y: []float64{0.5, 0.2, 0.09}},
			{Series: "exact", Run: 0, X: []float64{0, 1, 2}, Y: []float64{1, 0, 0}},
			{Series: "bound", X: []float64{0, 3}, Y: []float64{0.5, 1.0 / 3}, Reference: true},
		},
		Rows:    [][]string{{"relu", "1|2"}},
		Verdict: experiment.Verdict{Measured: "0.001", Because: "it is a <sketch>"},
	}}
}

// The mean is geometric on a logarithmic axis, the band runs from the 10th to
// the 90th percentile, and both end where fewer than half of the runs go on.
func TestSummary(t *testing.T) {
	s := sketch().summary("L4")
	want := summary{
		x: []float64{0, 1, 2},
		y: []float64{math.Cbrt(1 * 0.25 * 0.5), math.Cbrt(0.1 * 0.4 * 0.2), math.Sqrt(0.01 * 0.09)},
		// The 10th percentile of three values lies 0.2 of the way from the first to
		// the second, the 90th 0.8 of that from the second to the third.
		low:  []float64{0.25 + 0.2*0.25, 0.1 + 0.2*0.1, 0.01 + 0.1*0.08},
		high: []float64{0.5 + 0.8*0.5, 0.2 + 0.8*0.2, 0.01 + 0.9*0.08},
	}
	for name, pair := range map[string][2][]float64{"x": {s.x, want.x}, "mean": {s.y, want.y}, "low": {s.low, want.low}, "high": {s.high, want.high}} {
		if len(pair[0]) != len(pair[1]) {
			t.Fatalf("%s is %v, want %v", name, pair[0], pair[1])
		}
		for i := range pair[0] {
			if math.Abs(pair[0][i]-pair[1][i]) > 1e-12 {
				t.Errorf("%s is %v, want %v", name, pair[0], pair[1])
			}
		}
	}
}

// In a Plain figure the mean is arithmetic, and with Errors the band is two
// standard errors, of the logarithms where the mean is geometric.
func TestPlainSummary(t *testing.T) {
	f := sketch()
	f.Plain = true
	if mean, low, high := f.band([]float64{1, 2, 3, 6}); mean != 3 || math.Abs(low-1.3) > 1e-12 || math.Abs(high-5.1) > 1e-12 {
		t.Errorf("mean %g from %g to %g", mean, low, high)
	}
	f.Errors = true
	mean, low, high := f.band([]float64{1, 2, 3, 6})
	// Deviations −2, −1, 0, 3: variance 14/3, standard error √(14/12).
	if far := 2 * math.Sqrt(14.0/12); mean != 3 || math.Abs(low-(3-far)) > 1e-12 || math.Abs(high-(3+far)) > 1e-12 {
		t.Errorf("mean %g from %g to %g", mean, low, high)
	}
	f.Plain, f.Y.Log = false, true
	// Logarithms 0, 1, 2 have variance 1, standard error 1/√3.
	mean, low, high = f.band([]float64{1, math.E, math.E * math.E})
	if far := math.Exp(2 / math.Sqrt(3)); math.Abs(mean-math.E) > 1e-12 || math.Abs(low-math.E/far) > 1e-12 || math.Abs(high-math.E*far) > 1e-12 {
		t.Errorf("geometric mean %g from %g to %g", mean, low, high)
	}
}

// A line is broken where it leaves the axis at one end and comes back at the other.
func TestUnbroken(t *testing.T) {
	f := sketch()
	y := []float64{1, 39, 90, -90, -50, 3, 200, 45}
	f.Y.Min, f.Y.Max = -40, 40
	if got := f.unbroken(y); !slices.Equal(got, [][2]int{{0, 3}, {3, 8}}) {
		t.Errorf("parts %v", got)
	}
	f.Y.Min, f.Y.Max = 0, 0
	if got := f.unbroken(y); !slices.Equal(got, [][2]int{{0, 8}}) {
		t.Errorf("without a range: parts %v", got)
	}
}

// Runs that end on both sides of the level have no mean.
func TestPart(t *testing.T) {
	f := sketch()
	f.Level = 0.01
	series := f.Series()[0]
	for i, want := range []struct {
		ends []float64
		part bool
	}{{[]float64{0.001, 0.4}, true}, {[]float64{0.001, 0.02}, false}, {[]float64{0.3, 0.4}, false}} {
		f.Curves = nil
		for run, end := range want.ends {
			f.Curves = append(f.Curves, experiment.Curve{Series: series, Run: run, X: []float64{1, 2}, Y: []float64{1, end}})
		}
		if got := f.part(series); got != want.part {
			t.Errorf("case %d: %v", i, got)
		}
	}
}

// The papers' claims are counted once each, and our own by themselves.
func TestSummaryOfClaims(t *testing.T) {
	figure := func(id, same string, own, agrees bool) Figure {
		return Figure{&experiment.Outcome{Figure: &experiment.Figure{ID: id, Same: same, Own: own}, Verdict: experiment.Verdict{Agrees: agrees}}}
	}
	all := []Figure{figure("a", "", false, true), figure("b", "", false, false), figure("b2", "b", false, false), figure("c", "", true, true)}
	for n, want := range map[int]string{
		1: "The figure agrees with its source.",
		3: "Of 2 claims of the papers 1 agree with what was measured and 1 do not.",
		4: "Of 2 claims of the papers 1 agree with what was measured and 1 do not; of 1 claim of our own 1 agree and 0 do not.",
	} {
		if got := (Results{Figures: all[:n]}).Summary(); got != want {
			t.Errorf("%d figures: %q, want %q", n, got, want)
		}
	}
	all[0].Identity, all[1].Identity = true, true // b does not agree
	if got, want := (Results{Figures: all}).Summary(), "Of 2 claims of the papers 1 agree with what was measured and 1 do not; of those that agree 0 could have come out "+
		"otherwise and 1, as identities, could not; of 1 claim of our own 1 agree and 0 do not."; got != want {
		t.Errorf("with identities: %q, want %q", got, want)
	}
	if got, want := all[0].Short()+", "+all[1].Short(), "agrees (an identity), does not agree"; got != want {
		t.Errorf("in short: %q, want %q", got, want)
	}
	if got := (Results{Figures: all[2:3]}).Summary(); got != "The figure does not agree with its source." {
		t.Errorf("a twin alone: %q", got)
	}
}

// Equal figures are equal files, whole ones, with everything named.
func TestDrawFigure(t *testing.T) {
	linear := sketch()
	linear.Y.Log, linear.Level = false, 0
	scatter := sketch()
	scatter.Scatter = true
	scatter.Curves[0].Y[0] = -1
	flat := Figure{&experiment.Outcome{Figure: &experiment.Figure{Title: "flat", X: experiment.Axis{Label: "n"}, Y: experiment.Axis{Label: "error"}}, Curves: []experiment.Curve{{Series: "one", X: []float64{1}, Y: []float64{1}}}}}
	apart := sketch()
	apart.Apart = true
	named := sketch()
	named.Y.Log, named.Level, named.Scatter, named.Names = false, 0, true, []string{"first row", "second row"}
	named.Curves = []experiment.Curve{
		{Series: "one", X: []float64{0.2, 0.5, 0.6}, Y: []float64{-1, -1, -1}},
		{Series: "two", X: []float64{0.1, 0.5, 0.9}, Y: []float64{-2, -2, -2}, Run: 1},
		{Series: "computed", X: []float64{0.1, 0.9}, Y: []float64{-1, -2}, Reference: true},
	}
	for name, f := range map[string]Figure{"log": sketch(), "linear": linear, "scatter": scatter, "apart": apart, "named": named, "one point": flat} {
		svg, again, picture := new(bytes.Buffer), new(bytes.Buffer), new(bytes.Buffer)
		for w, format := range map[*bytes.Buffer]string{svg: "svg", again: "svg", picture: "png"} {
			if err := f.Draw(w, format); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if !bytes.Equal(svg.Bytes(), again.Bytes()) {
			t.Errorf("%s: two drawings differ", name)
		}
		if strings.Contains(svg.String(), "NaN") || strings.Contains(svg.String(), "Inf") {
			t.Errorf("%s: numbers that are none", name)
		}
		labels := append(strings.Split(f.X.Label, "_"), strings.Split(f.Y.Label, "_")...) // what follows _ is a subscript
		for _, want := range slices.Concat(f.Series(), f.Names, []string{f.Title}, labels) {
			if !strings.Contains(svg.String(), ">"+want+"<") {
				t.Errorf("%s: %q is not in the picture", name, want)
			}
		}
		if _, err := png.Decode(picture); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := sketch().Draw(new(bytes.Buffer), "gif"); err == nil {
		t.Error("gif is drawn")
	}
}

// No two series look the same, and neighbours differ in grey.
func TestLooks(t *testing.T) {
	for _, names := range [][]string{
		{"L4, SGD", "ℓ2, SGD", "ℓ2, Adam", "EM, σ free", "EM, σ fixed"},
		{"moments, identity", "refined, identity", "moments, relu", "refined, relu", "moments, sigmoid", "refined, sigmoid", "moments, leakyrelu", "refined, leakyrelu"},
		{"EM, identity", "step 1, identity", "step 2, identity", "step 4, identity", "EM, relu", "step 1, relu", "step 2, relu", "step 4, relu", "step 1, σ → 0", "step 2, σ → 0", "step 4, σ → 0"},
		{"identity", "identity, predicted", "relu", "relu, predicted", "sigmoid", "sigmoid, predicted"},
	} {
		f := Figure{&experiment.Outcome{Figure: new(experiment.Figure)}}
		for _, name := range names {
			f.Curves = append(f.Curves, experiment.Curve{Series: name})
		}
		seen := map[string]string{}
		for _, l := range f.looks() {
			key := fmt.Sprint(grey(l.color), l.dashes)
			if other := seen[key]; other != "" {
				t.Errorf("%s looks like %s", l.series, other)
			}
			seen[key] = l.series
		}
	}
	for i := range seriesColors {
		for j := range i {
			if d := math.Abs(grey(seriesColors[i]) - grey(seriesColors[j])); d < 15 {
				t.Errorf("colours %d and %d differ by %.0f of 255 in grey", j, i, d)
			}
		}
	}
}

func TestShortest(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 3 * 0.1: "0.3", 10000: "10000", 160000: "1.6·10^5", 1e6: "10^6", 3e-5: "3·10^−5", 1e-12: "10^−12", math.Copysign(0, -1): "0", 2e-10: "2·10^−10", -1500: "−1500"} {
		if got := shortest(v); got != want {
			t.Errorf("%g is written %q, want %q", v, got, want)
		}
	}
}

func grey(c color.RGBA) float64 {
	return 0.2126*float64(c.R) + 0.7152*float64(c.G) + 0.0722*float64(c.B)
}

// Every value of every run can be read back from the CSV.
func TestFigureCSV(t *testing.T) {
	f := sketch()
	var b bytes.Buffer
	if err := f.CSV(&b); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := 1
	for _, c := range f.Curves {
		for i := range c.X {
			r := rows[at]
			x, _ := strconv.ParseFloat(r[4], 64)
			y, _ := strconv.ParseFloat(r[5], 64)
			if r[0] != c.Series || (r[1] == "reference") != c.Reference || r[2] != strconv.Itoa(c.Run) || r[3] != c.Status || x != c.X[i] || y != c.Y[i] {
				t.Errorf("row %d is %v, want %+v at %d", at, r, c, i)
			}
			at++
		}
	}
	if at != len(rows) {
		t.Errorf("%d rows too many", len(rows)-at)
	}
}

// The page needs nothing else and is the same every time; what comes from a
// figure is escaped, in the Markdown's tables too.
func TestResults(t *testing.T) {
	r := Results{Figures: []Figure{sketch()}, Seed: 2}
	var page, again, text, md bytes.Buffer
	for w, write := range map[*bytes.Buffer]func() error{
		&page: func() error { return r.Page(&page) }, &again: func() error { return r.Page(&again) },
		&text: func() error { return r.Text(&text) }, &md: func() error { return r.Markdown(&md) },
	} {
		if err := write(); err != nil {
			t.Fatalf("%v: %v", w, err)
		}
	}
	if !bytes.Equal(page.Bytes(), again.Bytes()) {
		t.Error("two pages differ")
	}
	outside := regexp.MustCompile(`<script|<link rel="stylesheet"|src="|url\(|href="http`)
	if found := outside.FindString(page.String()); found != "" {
		t.Errorf("the page needs more than itself: %s", found)
	}
	for buffer, wants := range map[*bytes.Buffer][]string{
		&page: {"<svg role=", "it is a &lt;sketch&gt;", "moe reproduce --seed 2 sketch", `href="#f-sketch"`, `id="f-sketch"`},
		&md:   {"[sketch](#sketch-a-sketch)", "## sketch A sketch", "the paper says: A claim · measured: 0.001 · does not, because it is a <sketch>.", `| relu | 1\|2 |`},
		&text: {"sketch  A sketch (nowhere)", "does not, because it is a <sketch>", "The figure does not agree with its source."},
	} {
		for _, want := range wants {
			if !strings.Contains(buffer.String(), want) {
				t.Errorf("%q is not in\n%.2000s", want, buffer)
			}
		}
	}
}

// label is a text in a picture: its box in points, from the lower left corner up.
type label struct {
	text           string
	size           float64
	x0, x1, y0, y1 float64
}

func (l label) meets(m label) bool {
	const slack = 0.3
	return l.x0+slack < m.x1 && m.x0+slack < l.x1 && l.y0+slack < m.y1 && m.y0+slack < l.y1
}

var svgLabel = regexp.MustCompile(`(?s)<g transform="rotate\(90\)">|</g>|<text x="([^"]*)" y="([^"]*)"[^>]*font-size:([0-9.]*)px[^>]*>(.*?)</text>`)

// labels reads the texts of a picture, and its size. Capitals are 0.73 of the type's
// size high, and nothing hangs down by more than 0.22.
func labels(t *testing.T, svg string) (list []label, width, height float64) {
	t.Helper()
	if _, err := fmt.Sscanf(svg[strings.Index(svg, "viewBox="):], `viewBox="0 0 %f %f"`, &width, &height); err != nil {
		t.Fatal(err)
	}
	turned := false
	for _, m := range svgLabel.FindAllStringSubmatch(svg, -1) {
		if m[4] == "" {
			turned = m[0] != "</g>"
			continue
		}
		x, _ := strconv.ParseFloat(m[1], 64)
		y, _ := strconv.ParseFloat(m[2], 64)
		size, _ := strconv.ParseFloat(m[3], 64)
		s := html.UnescapeString(m[4])
		face := plot.DefaultTextHandler.Cache().Lookup(sans(size), vg.Length(size))
		wide := float64(face.Width(s))
		l := label{s, size, x, x + wide, -y - 0.22*size, -y + 0.73*size}
		if turned { // a quarter to the left
			l = label{s, size, y - 0.73*size, y + 0.22*size, x, x + wide}
		}
		list = append(list, l)
	}
	return list, width, height
}

// legible says what is wrong with the texts of a picture: type of less than 6 points
// when it is printed 8.5 cm wide, what reaches over its edge, and what meets another.
func legible(t *testing.T, svg string) (wrong []string) {
	t.Helper()
	list, width, height := labels(t, svg)
	const printed = 8.5 / 2.54 * 72
	for i, l := range list {
		if size := l.size * printed / width; size < 6 {
			wrong = append(wrong, fmt.Sprintf("%q is %.2f points high at 8.5 cm", l.text, size))
		}
		if l.x0 < 0 || l.x1 > width || l.y0 < 0 || l.y1 > height {
			wrong = append(wrong, fmt.Sprintf("%q reaches over the edge: %.0f to %.0f of %.0f, %.0f to %.0f of %.0f", l.text, l.x0, l.x1, width, l.y0, l.y1, height))
		}
		for _, m := range list[:i] {
			if l.meets(m) {
				wrong = append(wrong, fmt.Sprintf("%q and %q overlap", l.text, m.text))
			}
		}
	}
	if len(list) == 0 {
		wrong = append(wrong, "no text")
	}
	return wrong
}

// Texts are as wide as they were measured in any font: the widths of Liberation Sans
// are those of Arial, in thousandths of its size 556 for a digit and 278 for a space.
func TestTextKeepsItsWidth(t *testing.T) {
	f := sketch()
	f.Title = "0 0"
	var b bytes.Buffer
	if err := f.Draw(&b, "svg"); err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`textLength="([0-9.]*)"[^>]*font-family:Liberation Sans,Arial[^>]*font-size:11.3px[^>]*>0 0<`).FindStringSubmatch(b.String())
	if m == nil {
		t.Fatal("the title has no width")
	}
	if width, _ := strconv.ParseFloat(m[1], 64); math.Abs(width-1.39*11.3) > 0.05 {
		t.Errorf("the title is %g wide, want %g", width, 1.39*11.3)
	}
	if texts, wide := strings.Count(b.String(), "<text"), strings.Count(b.String(), "textLength="); wide != texts {
		t.Errorf("%d of %d texts have a width", wide, texts)
	}
}

// crowded is a figure with much to write: long names in a grid, panels, means over some
// of the runs, many decades, scripts.
func crowded() Figure {
	f := Figure{&experiment.Outcome{Figure: &experiment.Figure{
		Title: "A title of so many words that it takes more than one of the lines above a picture",
		X:     experiment.Axis{Label: "n", Log: true}, Y: experiment.Axis{Label: "E_gating of λ_m(G_n)/2", Log: true}, Errors: true, Level: 1,
		Views: []experiment.View{{Title: "all", Y: experiment.Axis{Label: "E_reg", Log: true}}, {Title: "close", Y: experiment.Axis{Label: "E_reg", Min: 0.8, Max: 1.3}}},
	}}}
	for i, g := range []string{"leakyrelu", "relu", "identity"} {
		for run := range 5 {
			f.Curves = append(f.Curves, experiment.Curve{Series: "refined, " + g, Run: run, X: []float64{1000, 3000, 10000, 30000}, Y: []float64{1.1, 1.04, 1, 0.99}})
			if run > i {
				high := math.Pow(10, 4+0.2*float64(i))
				f.Curves = append(f.Curves, experiment.Curve{Series: "moments, " + g, Run: run, X: []float64{1000, 3000, 10000, 30000}, Y: []float64{high, 2 * high, high, high}})
			}
		}
	}
	return f
}

// Type is large enough at half a page's width, whole, and in nothing's way.
func TestLegible(t *testing.T) {
	wide := sketch()
	wide.X.Log, wide.Title = true, "Contraction of the gating error in a step, against ‖a_1 − a_2‖"
	wide.Curves = []experiment.Curve{
		{Series: "λ_m(G) − ‖G − G_n‖", X: []float64{1e-12, 1, 1e9}, Y: []float64{1e-16, 1, 1e7}},
		{Series: "the square of the error, of which there is much to say", X: []float64{1e-12, 1, 1e9}, Y: []float64{1e-15, 1, 1e7}},
	}
	roots := sketch()
	roots.X = experiment.Axis{Label: "‖a_1 − a_2‖", Log: true}
	roots.Curves = []experiment.Curve{{Series: "x", X: []float64{0.1, 0.2, 0.5, 1, math.Sqrt2}, Y: []float64{1e-5, 2e-5, 3e-5, 4e-5, 5e-5}}}
	for name, f := range map[string]Figure{"sketch": sketch(), "wide": wide, "roots": roots, "crowded": crowded()} {
		var b bytes.Buffer
		if err := f.Draw(&b, "svg"); err != nil {
			t.Fatal(err)
		}
		for _, w := range legible(t, b.String()) {
			t.Errorf("%s: %s", name, w)
		}
	}
}

// A picture whose type is small, cut and crowded is seen to be so.
func TestLegibleSees(t *testing.T) {
	const bad = `<svg viewBox="0 0 340.16 100"><text x="10" y="-50" style="font-size:8px">small</text><text x="12" y="-50" style="font-size:12px">crowd</text><text x="330" y="-20" style="font-size:12px">cut off</text></svg>`
	if wrong := legible(t, bad); len(wrong) != 3 {
		t.Errorf("%d faults are seen: %q", len(wrong), wrong)
	}
}

// A view shows the series with its part, without it; all panels have one legend, and
// axes span all where a view has none of its own.
func TestViews(t *testing.T) {
	f := sketch()
	f.Views = []experiment.View{{Title: "first", Part: "a"}, {Title: "second", Part: "b"}, {Title: "near", Y: experiment.Axis{Label: "y", Min: 1, Max: 2}}}
	f.Curves = []experiment.Curve{{Series: "a, one", X: []float64{1}, Y: []float64{1}}, {Series: "two, a", X: []float64{1}, Y: []float64{2}}, {Series: "b, one", X: []float64{1}, Y: []float64{3}}}
	for i, want := range []struct {
		series []string
		spans  int
	}{{[]string{"one", "two"}, 3}, {[]string{"one"}, 3}, {[]string{"a, one", "two, a", "b, one"}, 3}} {
		p := f.panels()[i]
		if got := p.Series(); !slices.Equal(got, want.series) || len(p.all.Curves) != want.spans {
			t.Errorf("panel %d shows %q of %d", i, got, len(p.all.Curves))
		}
	}
	f.Views[1] = experiment.View{Only: "b, one", X: experiment.Axis{Label: "x", Max: 2}}
	f.Curves[2].X, f.Curves[2].Y = []float64{0, 1, 3}, []float64{1, 2, 3}
	p := f.panels()[1]
	if !slices.Equal(p.Series(), []string{"b, one"}) || !slices.Equal(p.Curves[0].X, []float64{0, 1}) || p.X.Max != 2 || !f.panels()[0].named {
		t.Errorf("a view of one series up to x = 2 shows %q to %g, the name of the axis above it: %v", p.Series(), p.X.Max, f.panels()[0].named)
	}
	f.Views[1] = experiment.View{Title: "second", Part: "b"}
	if f.Curves[0].Series != "a, one" {
		t.Errorf("the figure's own series is %q", f.Curves[0].Series)
	}
	f.Views = f.Views[:2]
	var names []string
	for _, l := range f.looks() {
		names = append(names, l.series)
	}
	if !slices.Equal(names, []string{"one", "two"}) {
		t.Errorf("the legend has %q", names)
	}
}

// Means and bands leave out what is lost, point by point or run by run, and say how many are left.
func TestLost(t *testing.T) {
	f := sketch()
	f.Curves = nil
	for run, end := range []float64{0.01, 0.02, 1, 1, 1} {
		f.Curves = append(f.Curves, experiment.Curve{Series: "one", Run: run, X: []float64{1, 2}, Y: []float64{0.2, end}})
	}
	for _, c := range []struct {
		lost   float64
		whole  bool
		x      []float64
		runs   []int
		high   float64 // of the band at 2
		number int     // beside the last point, 0 for none
	}{{0, false, []float64{1, 2}, []int{5, 5}, 1, 0}, {0.5, false, []float64{1, 2}, []int{5, 2}, 0.019, 2}, {0.5, true, []float64{1, 2}, []int{2, 2}, 0.019, 2}} {
		f.Lost, f.Whole = c.lost, c.whole
		s := f.summary("one")
		if !slices.Equal(s.x, c.x) || !slices.Equal(s.runs, c.runs) || math.Abs(s.high[1]-c.high) > 1e-9 {
			t.Errorf("%+v: at %g of %d runs, the band's end is %g", c, s.x, s.runs, s.high)
		}
		number := 0
		for _, n := range f.fewer(look{}, s, points(s.x, s.y)) {
			number = n.runs
		}
		if number != c.number {
			t.Errorf("%+v: the number is %d", c, number)
		}
	}
}

// Numbers stand where a mean is over fewer runs than there are, once until they change.
func TestFewer(t *testing.T) {
	f := sketch()
	s := f.summary("L4")
	got := f.fewer(look{}, s, points(s.x, s.y))
	// Three runs at 0 and 1, two at 2.
	if len(got) != 1 || got[0].at.X != 2 || got[0].runs != 2 {
		t.Errorf("numbers %v", got)
	}
	c := crowded()
	for series, want := range map[string][]int{"moments, leakyrelu": {4}, "moments, identity": {2}, "refined, relu": nil} {
		s := c.summary(series)
		var runs []int
		for _, n := range c.fewer(look{}, s, points(s.x, s.y)) {
			runs = append(runs, n.runs)
		}
		if !slices.Equal(runs, want) {
			t.Errorf("%s: numbers %v, want %v", series, runs, want)
		}
	}
}

// The labels of an axis are in one style.
func TestTickLabels(t *testing.T) {
	written := func(list []plot.Tick) (out []string) {
		for _, tick := range list {
			if tick.Label != "" {
				out = append(out, tick.Label)
			}
		}
		return out
	}
	for name, c := range map[string]struct{ got, want []string }{
		"decades":      {written(decades(0.05, 200)), []string{"10^−1", "10^0", "10^1", "10^2"}},
		"one decade":   {written(decades(0.04, 0.3)), []string{"0.05", "0.1", "0.2"}},
		"half of one":  {written(decades(2.5, 8.5)), []string{"3", "4", "5", "6", "7", "8"}},
		"small":        {written(decades(4e-5, 3e-4)), []string{"5·10^−5", "10^−4", "2·10^−4"}},
		"values":       {written(valuesOf([]float64{1e4, 3e4, 1e5, 3e5}).Ticks(0, 0)), []string{"10^4", "3·10^4", "10^5", "3·10^5"}},
		"small values": {written(valuesOf([]float64{0.1, 1, math.Sqrt2}).Ticks(0, 0)), []string{"0.1", "1", "1.41"}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %q, want %q", name, c.got, c.want)
		}
	}
}

func TestCutScript(t *testing.T) {
	for in, want := range map[string][2]string{"reg": {"reg", ""}, "2‖": {"2", "‖"}, "m(G)": {"m", "(G)"}, "{1/19} x": {"1/19", " x"}, "−10": {"−10", ""}, "n − G": {"n", " − G"}} {
		if script, rest := cutScript(in); script != want[0] || rest != want[1] {
			t.Errorf("%q: %q and %q", in, script, rest)
		}
	}
}

// So are the committed pictures of the papers' figures.
func TestCommittedPicturesAreLegible(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "docs", "results", "*.svg"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d pictures: %v", len(files), err)
	}
	for _, f := range files {
		svg, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range legible(t, string(svg)) {
			t.Errorf("%s: %s", filepath.Base(f), w)
		}
	}
}
