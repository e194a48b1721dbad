package page_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/report/diagnosis"
	"github.com/gatedlearning/moe/plugins/exp"
	"github.com/gatedlearning/moe/plugins/sigmoid"
)

// lawTable is a table of two features, a target and a column that its law depends on, read by a role's description.
func lawTable(t *testing.T, header, role string, of model.Role, rows [][4]float64) dataset.Source {
	t.Helper()
	text := header + "\n"
	for _, r := range rows {
		text += fmt.Sprintf("%v,%v,%v,%v\n", r[0], r[1], r[2], r[3])
	}
	path := filepath.Join(t.TempDir(), "law.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var roles dataset.Roles
	roles[of] = role
	src, err := dataset.Open(path, dataset.Selection{Target: "y", Roles: roles.Raw()})
	if err != nil {
		t.Fatal(err)
	}
	return dataset.Made(src, roles)
}

// lawModel has two experts, whose gate depends on u alone and whose means depend on x alone.
func lawModel(family, activation string, roles map[string]string, n int) *fitted.Model {
	return &fitted.Model{
		Activation: stated.Activation{Name: activation}, D: 2, K: 2, Features: []string{"x", "u"}, Target: "y", Family: family, Roles: roles,
		Regressors: [][]float64{{0.8, 0}, {-0.5, 0}}, RegressorIntercepts: []float64{0.4, -0.2},
		Gating: [][]float64{{0, 1.5}}, GatingIntercepts: []float64{0.3}, Proportions: []float64{0.5, 0.5},
		Fit: fitted.Fit{N: n, Method: "em", Converged: true, Starts: []fitted.Start{{Kind: "random", Rows: n, LogLikelihood: -1, Agrees: true}}},
	}
}

// drawing is what a picture has drawn, read back by its ticks: y of its dots and lines.
type drawing struct {
	label string
	dots  []float64
	lines [][]float64
}

// drawingsOf are the pictures of a page with numbers on both axes.
func drawingsOf(page, title string) (out []drawing) {
	number := func(s string) float64 {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return math.NaN()
		}
		return v
	}
	for _, svg := range regexp.MustCompile(`(?s)<svg viewBox[^>]*aria-label="`+title+`">.*?</svg></svg>`).FindAllString(page, -1) {
		var at, of []float64
		for _, tick := range regexp.MustCompile(`y="([\d.]+)" text-anchor="end">([-\d.e+]+)</text>`).FindAllStringSubmatch(svg, -1) {
			at, of = append(at, number(tick[1])-4), append(of, number(tick[2]))
		}
		last := len(at) - 1
		value := func(s string) float64 { return of[0] + (number(s)-at[0])/(at[last]-at[0])*(of[last]-of[0]) }
		var d drawing
		if label := regexp.MustCompile(`x="4" y="14">([^<]*)<`).FindStringSubmatch(svg); label != nil {
			d.label = label[1]
		}
		for _, dot := range regexp.MustCompile(`cy="([-\d.]+)"`).FindAllStringSubmatch(svg, -1) {
			d.dots = append(d.dots, value(dot[1]))
		}
		for _, line := range regexp.MustCompile(`<polyline[^>]*points="([^"]*)"`).FindAllStringSubmatch(svg, -1) {
			var values []float64
			for _, point := range strings.Fields(line[1]) {
				values = append(values, value(point[strings.Index(point, ",")+1:]))
			}
			d.lines = append(d.lines, values)
		}
		out = append(out, d)
	}
	return out
}

// pixel is what a tenth of a unit of a picture is of an axis of this length, at least, which is 150 units.
func pixel(length float64) float64 { return length / 1500 }

func nearTo(got, want, within float64) bool { return math.Abs(got-want) <= within }

// TestTrialsAreShares: pictures of successes in trials have shares, and say so: rows y/m, and curves the
// probabilities that predictions have.
func TestTrialsAreShares(t *testing.T) {
	var rows [][4]float64
	for i := range 90 {
		m := float64(1 + i%7)
		rows = append(rows, [4]float64{math.Sin(float64(i)), math.Cos(3 * float64(i)), math.Floor(m * float64(i%3) / 2), m})
	}
	act, err := sigmoid.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ header, role, label string }{
		{"x,u,y,m", "m", "y / m"},
		{"x,u,y,none", "cbind(y, none)", "y / (y + none)"},
	} {
		of := slices.Clone(rows)
		for i := range of {
			if c.role != "m" {
				of[i][3] -= of[i][2] // failures
			}
		}
		src := lawTable(t, c.header, c.role, model.Trials, of)
		m := lawModel("binomial", "sigmoid", map[string]string{"trials": c.role}, len(rows))
		d, err := diagnosis.Of(t.Context(), m, act, src)
		if err != nil {
			t.Fatal(err)
		}
		var want []float64
		for _, r := range rows {
			want = append(want, r[2]/r[3])
		}
		var got []float64
		for _, p := range d.Points {
			got = append(got, p.Y)
			if !(p.Mean > 0 && p.Mean < 1) {
				t.Errorf("the mean of a share is %v", p.Mean)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("shares %v\nwant %v", got, want)
		}
		html := pageOf(t, m, d)
		tall := 1.1 // the axis of shares from 0 to 1
		rowsDrawn := 0
		for _, picture := range drawingsOf(html, `rows of expert \d along its index`) {
			rowsDrawn += len(picture.dots)
			if picture.label != c.label {
				t.Errorf("the axis is of %q", picture.label)
			}
			for _, v := range append(picture.dots, picture.lines[0]...) {
				if v < -pixel(tall) || v > 1+pixel(tall) {
					t.Errorf("a share of %v", v)
				}
			}
		}
		if rowsDrawn != 90 {
			t.Errorf("%d rows along indices", rowsDrawn)
		}
		predicted, along := experts(t, m, act, src.Schema(), d.Profiles[1], 0), drawingsOf(html, "experts along x")
		if len(along) != 1 || along[0].label != c.label || len(along[0].lines) != 2 {
			t.Fatalf("pictures along x: %+v", along)
		}
		for e, line := range along[0].lines {
			for at, v := range line {
				if !nearTo(v, predicted[e][at], pixel(tall)) {
					t.Fatalf("expert %d at %v is drawn at %v, predicted %v", e+1, d.Profiles[1].At[at], v, predicted[e][at])
				}
			}
		}
		if len(drawingsOf(html, "experts along u"))+len(drawingsOf(html, "gate along x")) > 0 || len(drawingsOf(html, "gate along u")) != 1 {
			t.Error("what does not depend on a column is drawn along it")
		}
		if !strings.Contains(html, "<h2>Along the columns that the gate and the experts depend on the most</h2>") {
			t.Errorf("headings %q", headings(html))
		}
	}
}

// experts are what predictions of a model say of its experts along a profile of x, with u at its median and one offset.
func experts(t *testing.T, m *fitted.Model, act model.Activation, schema dataset.Schema, p diagnosis.Profile, offset float64) [][]float64 {
	t.Helper()
	if p.Name != "x" {
		t.Fatalf("the profile of %s", p.Name)
	}
	b := &model.Block{N: len(p.At), X: make([]float64, 2*len(p.At))} // u has no part
	copy(b.Col(0), p.At)
	if schema.Roles[model.Offsets] != "" {
		b.Role[model.Offsets] = slices.Repeat([]float64{offset}, b.N)
	}
	pred, err := predict.NewPredictor(m.Params(), act, "").Predict(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	return [][]float64{pred.Experts[:b.N], pred.Experts[b.N:]}
}

// TestOffsetAtItsMedian: along a column experts are those of a row with the median offset, which the page says; so are curves over
// rows, of one feature.
func TestOffsetAtItsMedian(t *testing.T) {
	var rows [][4]float64
	var hours []float64
	for i := range 91 {
		h := 50 + 3*float64((i*17)%91)
		hours = append(hours, h)
		rows = append(rows, [4]float64{math.Sin(float64(i)), math.Cos(3 * float64(i)), math.Floor(2 * h * float64(i%3) / 3), h})
	}
	slices.Sort(hours)
	act, err := exp.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	median := hours[45] // 185
	for role, offset := range map[string]float64{"log(hours)": math.Log(median), "hours": median} {
		of := slices.Clone(rows)
		if role == "hours" { // small enough for exp
			offset /= 100
			for i := range of {
				of[i][3] /= 100
			}
		}
		src := lawTable(t, "x,u,y,hours", role, model.Offsets, of)
		m := lawModel("poisson", "exp", map[string]string{"offset": role}, len(rows))
		d, err := diagnosis.Of(t.Context(), m, act, src)
		if err != nil {
			t.Fatal(err)
		}
		if d.Offset == nil || d.Offset.Column != role || !nearTo(d.Offset.Value, offset, 1e-12) {
			t.Fatalf("offset %+v, want %v", d.Offset, offset)
		}
		predicted := experts(t, m, act, src.Schema(), d.Profiles[1], offset)
		for e, want := range predicted {
			for at, v := range d.Profiles[1].Means[e] {
				if !nearTo(v, want[at], 1e-12*want[at]) {
					t.Fatalf("expert %d at %v: %v, predicted %v", e+1, d.Profiles[1].At[at], v, want[at])
				}
			}
		}
		if html := pageOf(t, m, d); strings.Contains(html, "in σ") || strings.Contains(html, "Gaussian") || strings.Count(html, ">quantile residual") != 4 {
			t.Errorf("the page speaks of normal noise, or %d times of quantile residuals", strings.Count(html, ">quantile residual"))
		}
		if says := fmt.Sprintf("The offset %s is at its median, %.4g.", role, offset); !strings.Contains(pageOf(t, m, d), says) {
			t.Errorf("the page lacks %q", says)
		}

		m.D, m.Features, m.Regressors, m.Gating = 1, []string{"x"}, [][]float64{{0.8}, {-0.5}}, [][]float64{{1.5}}
		d, err = diagnosis.Of(t.Context(), m, act, onlyX{src})
		if err != nil {
			t.Fatal(err)
		}
		for at, x := range d.Curves.X {
			if want := math.Exp(0.8*x + 0.4 + offset); !nearTo(d.Curves.Means[0][at], want, 1e-12*want) {
				t.Fatalf("curve at %v: %v, want %v", x, d.Curves.Means[0][at], want)
			}
		}
	}
}

// onlyX is a table without its second feature.
type onlyX struct{ dataset.Source }

func (o onlyX) Schema() dataset.Schema {
	s := o.Source.Schema()
	s.Features = s.Features[:1]
	return s
}

func (o onlyX) Read(ctx context.Context, fn func(*model.Block) error) error {
	return o.Source.Read(ctx, func(b *model.Block) error {
		of := *b
		of.X = b.Col(0)
		return fn(&of)
	})
}

// TestGateHasTheZeroExpert: along a column the gate's lines are those of all classes, the zero expert's last, and add up to 1.
func TestGateHasTheZeroExpert(t *testing.T) {
	var rows [][4]float64
	for i := range 60 {
		rows = append(rows, [4]float64{math.Sin(float64(i)), math.Cos(3 * float64(i)), float64(i % 4), 0.1})
	}
	act, err := exp.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	m := lawModel("poisson", "exp", map[string]string{"offset": "o"}, len(rows))
	m.ZeroExpert, m.Gating, m.GatingIntercepts = true, [][]float64{{0, 1.5}, {0, -0.5}}, []float64{0.3, 0.1}
	d, err := diagnosis.Of(t.Context(), m, act, lawTable(t, "x,u,y,o", "o", model.Offsets, rows))
	if err != nil {
		t.Fatal(err)
	}
	html := pageOf(t, m, d)
	along := drawingsOf(html, "gate along u")
	if len(along) != 1 || len(along[0].lines) != 3 || !strings.Contains(html, "<g><title>zero expert</title>") {
		t.Fatalf("pictures of the gate: %+v", along)
	}
	for at, u := range d.Profiles[0].At {
		one, two := math.Exp(0.3+1.5*u), math.Exp(0.1-0.5*u)
		if zero := along[0].lines[2][at]; !nearTo(zero, 1/(1+one+two), 0.002) { // a tenth of a unit of 92
			t.Fatalf("the zero expert at %v is drawn at %v, want %v", u, zero, 1/(1+one+two))
		}
	}
}
