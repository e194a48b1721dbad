package export

import (
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/expression"
	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/native"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/scaling"
	"github.com/gatedlearning/moe/host/terms"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/table"
)

// examples are models of everything that travels, with a table of rows each.
type example struct {
	name    string
	m       *fitted.Model
	table   tableOf
	refused map[Language]string // what an [UnsupportedError] names, by language
}

// tableOf is a table of raw columns; NaN and "" are missing, and so is an unseen word for the reference.
type tableOf struct {
	names  []string
	number map[string][]float64
	word   map[string][]string
	y      []float64
}

const rows = 1000

// level is of the intervals whose ends are compared with quantiles.
const level = 0.9

func floats(rng *rand.Rand, n int, scale float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = scale * rng.NormFloat64()
	}
	return out
}

// mixtureOf is a model of k experts over features, with parameters of about 1.
func mixtureOf(rng *rand.Rand, k int, features []string, target, activation string) *fitted.Model {
	d := len(features)
	p := model.NewParams(k, d)
	copy(p.Regressors, floats(rng, k*d, 1))
	copy(p.Gating, floats(rng, max(k-1, 0)*d, 1))
	p.RegressorIntercepts = floats(rng, k, 0.5)
	if k > 1 {
		p.GatingIntercepts = floats(rng, k-1, 0.5)
	}
	p.Sigma = nil
	for range k {
		p.Sigma = append(p.Sigma, 0.3+rng.Float64())
	}
	m := &fitted.Model{Features: features, Target: target, Activation: stated.Activation{Name: activation,
		Params: map[string]float64{}}}
	m.SetParams(p)
	m.Proportions = make([]float64, k)
	for i := range m.Proportions {
		m.Proportions[i] = 1 / float64(k)
	}
	m.Fit.N = rows
	return m
}

// numbers is a table of columns of N(0,1) and targets about as large, some of them missing.
func numbers(rng *rand.Rand, names []string) tableOf {
	t := tableOf{names: names, number: map[string][]float64{}, word: map[string][]string{}}
	for _, name := range names {
		t.number[name] = floats(rng, rows, 1)
	}
	t.y = floats(rng, rows, 2)
	t.number[names[0]][17], t.y[33], t.y[34] = math.NaN(), math.NaN(), math.NaN()
	return t
}

// counts is a table of numbers whose targets are counts up to most.
func counts(rng *rand.Rand, names []string, most int) tableOf {
	t := numbers(rng, names)
	for i, y := range t.y {
		if !math.IsNaN(y) {
			t.y[i] = float64(rng.IntN(most + 1))
		}
	}
	return t
}

func numbered(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint("x", i+1))
	}
	return names
}

// builtinsAndExpressions are activations of models over numbers.
var builtinsAndExpressions = []struct {
	name    string
	params  sdk.Params
	refused map[Language]string
}{
	{"identity", nil, nil}, {"relu", nil, nil}, {"leakyrelu", sdk.Params{"slope": 0.1}, nil}, {"sigmoid", nil, nil},
	{"tanh", nil, nil}, {"exp", nil, nil},
	{"expr: z*Phi(z)", nil, nil},
	{"expr: beta*z/(1 + exp(-beta*z))", sdk.Params{"beta": 1.5}, nil},
	{"expr: erf(z) + 0.1*erfc(2*z) + log1p(z^2)", nil, nil},
	{"expr: where(z < -1 or not z <= 2, abs(z)^0.7, softplus(3*z) - sign(z)*expm1(-abs(z)/9))", nil, nil},
	{"expr: cbrt(z) + sinh(z/3) - cosh(z/4) + max(z, min(0.3, z^3)) + 1 - tanh(z)^2", nil, nil},
	{"expr: sqrt(1 + z^2) + sigmoid(z)*(1 - sigmoid(z)) + 2^(z/5)", nil, nil},
	{"expr: atan(z)", nil, map[Language]string{ONNX: "the function atan"}},
}

// hostile are names of columns and levels that are code in some language where they are not quoted.
var hostile = []string{`a"; DROP TABLE data; --`, `b'c\`, "d\n*/ e", "π `f` ${g}"}

func examples(t *testing.T) (out []example) {
	t.Helper()
	rng := rand.New(rand.NewPCG(37, 1))
	add := func(name string, m *fitted.Model, table tableOf, refused map[Language]string) {
		out = append(out, example{name, m, table, refused})
	}
	for i, a := range builtinsAndExpressions {
		names := numbered(2 + i%3)
		m := mixtureOf(rng, 1+(i+1)%3, names, "y", a.name)
		if expression.Is(a.name) {
			act, err := expression.Parse(a.name, a.params)
			if err != nil {
				t.Fatal(err)
			}
			m.Activation = stated.Of(act.Info())
		} else if a.params != nil {
			m.Activation.Params = a.params
		}
		if i == 1 {
			m.OutputScale = &fitted.OutputScale{Offset: []float64{0.3}, Scale: []float64{1.7}}
		}
		if i == 2 {
			m.Sigma = m.Sigma[:1]
		}
		add(fmt.Sprint("activation", i), m, numbers(rng, names), a.refused)
	}

	// trees, the larger with several activations
	m := mixtureOf(rng, 5, numbered(3), "y", stated.Mixed)
	m.Hierarchy = "2x(1,2x2)"
	for _, name := range []string{"tanh", "relu", "tanh", "identity", "sigmoid"} {
		m.Leaves = append(m.Leaves, stated.Activation{Name: name, Params: map[string]float64{}})
	}
	add("tree", m, numbers(rng, numbered(3)), nil)
	m = mixtureOf(rng, 4, numbered(2), "y", "identity")
	m.Hierarchy = "2x2"
	add("tree2", m, numbers(rng, numbered(2)), nil)

	// a gate that separates rows: its logits are differences of large numbers
	m = mixtureOf(rng, 3, numbered(2), "y", "relu")
	for j := range m.Gating {
		for i := range m.Gating[j] {
			m.Gating[j][i] *= 1e7
		}
		m.GatingIntercepts[j] = -m.Gating[j][0] - m.Gating[j][1]
	}
	table := numbers(rng, numbered(2))
	for i := range rows {
		if i%3 == 0 { // near the boundary, by the last digits
			table.number["x1"][i], table.number["x2"][i] = 1+1e-9*rng.NormFloat64(), 1+1e-8*rng.NormFloat64()
		}
	}
	add("steep", m, table, nil)

	add("curve", withTable(t, mixtureOf(rng, 2, numbered(2), "y", "")), numbers(rng, numbered(2)), nil)
	add("native", withApproximation(t, mixtureOf(rng, 2, numbered(2), "y", "")), numbers(rng, numbered(2)), nil)

	// arrangements with weights
	m = mixtureOf(rng, 2, numbered(2), "y", "identity")
	weights := []float64{0.6, 0.3, 0.1}
	m.Arrangements = &fitted.Arrangements{Rows: []float64{500, 500}, Weight: &weights[0]}
	for i := range 2 {
		a := fitted.Arrangement{Rows: []float64{500, 500}, Weight: &weights[1+i]}
		a.SetParams(mixtureOf(rng, 2, numbered(2), "y", "identity").Params())
		m.Arrangements.Others = append(m.Arrangements.Others, a)
	}
	add("arrangements", m, numbers(rng, numbered(2)), nil)

	for _, s := range []scaling.Scale{scaling.Log, scaling.Sqrt, scaling.Reciprocal} {
		m, table := mixtureOf(rng, 2, numbered(2), "y", "tanh"), numbers(rng, numbered(2))
		m.TargetScale = s
		for i := range table.y {
			table.y[i] = math.Abs(table.y[i])
		}
		var refused map[Language]string
		if s == scaling.Reciprocal {
			refused = map[Language]string{ONNX: "the median", SQL: "the median"}
		}
		add("scale-"+string(s), m, table, refused)
	}
	m = mixtureOf(rng, 2, numbered(2), "y", "identity") // of which much is one number
	m.Gating, m.GatingIntercepts, m.Regressors = [][]float64{{0, 0}}, nil, [][]float64{{0, 0}, {0, 0}}
	m.RegressorIntercepts = []float64{1, 1}
	m.Sigma = []float64{0.5}
	add("constant", m, numbers(rng, numbered(2)), nil)
	for _, family := range []struct {
		name       string
		sigma      fitted.Sigma
		own        fitted.Own
		activation string
	}{{"student-t", fitted.Sigma{0.5, 1.2}, fitted.Own{"dof": {3, 40}}, "tanh"},
		{"gamma", nil, fitted.Own{"shape": {0.7, 30}}, "exp"}, {"poisson", nil, nil, "exp"},
		{"negative-binomial", nil, fitted.Own{"theta": {1.5}}, "exp"}} {
		m, table := mixtureOf(rng, 2, numbered(2), "y", family.activation), numbers(rng, numbered(2))
		m.Family, m.Sigma, m.Own = family.name, family.sigma, family.own
		if family.activation == "exp" { // counts, and the one of gamma is above 0
			for i := range table.y {
				table.y[i] = math.Ceil(math.Abs(table.y[i]))
			}
		}
		add(family.name, m, table, nil)
	}
	m, table = mixtureOf(rng, 4, numbered(2), "y", "exp"), counts(rng, numbered(2), 3)
	m.Family, m.Sigma, m.Hierarchy = "poisson", nil, "2x2"
	add("tree-poisson", m, table, nil)
	for _, zero := range []struct {
		family string
		own    fitted.Own
	}{{"poisson", nil}, {"negative-binomial", fitted.Own{"theta": {1.5}}}} {
		m, table := mixtureOf(rng, 2, numbered(2), "y", "exp"), counts(rng, numbered(2), 3)
		m.Family, m.Sigma, m.Own, m.ZeroExpert = zero.family, nil, zero.own, true
		m.Gating, m.GatingIntercepts = [][]float64{{0.3, -1}, {0.5, 0.2}}, []float64{0.4, -0.3}
		m.Proportions = []float64{0.3, 0.4}
		add("zero-"+zero.family, m, table, nil)
	}
	for _, far := range []struct {
		family, activation string
		own                fitted.Own
		zero               bool
	}{{"poisson", "exp", nil, false}, {"poisson", "exp", nil, true}, {"negative-binomial", "exp", fitted.Own{"theta": {1.5}}, false},
		{"gamma", "exp", fitted.Own{"shape": {2.5}}, false}, {"poisson", "softplus", nil, false},
		{"binomial", "sigmoid", nil, false}} {
		m, table := mixtureOf(rng, 3, numbered(1), "y", far.activation), counts(rng, numbered(1), 3)
		m.Family, m.Sigma, m.Own, m.ZeroExpert = far.family, nil, far.own, far.zero
		m.Regressors, m.RegressorIntercepts = [][]float64{{1}, {0.8}, {-0.6}}, []float64{0, 0.1, 0.2}
		m.Gating, m.GatingIntercepts = [][]float64{{0}, {0}}, []float64{0.3, -0.2}
		if far.activation == "softplus" {
			m.Activation.Params["beta"] = 0.7
		}
		if far.zero {
			m.Gating, m.GatingIntercepts = append(m.Gating, []float64{0}), []float64{0.3, -0.2, 0.1}
			m.Proportions = []float64{0.3, 0.3, 0.2}
		}
		for i := range rows {
			if far.family == "gamma" && !math.IsNaN(table.y[i]) {
				table.y[i] = math.Exp(table.y[i])
			} else if far.family == "binomial" {
				table.y[i] = math.Min(table.y[i], 1)
			}
			table.number["x1"][i] = farIndex(rng, m)
		}
		table.number["x1"][17] = math.NaN()
		add(fmt.Sprintf("far-%s-%s-%t", far.family, far.activation, far.zero), m, table, nil)
	}
	for name, offset := range []string{"x3", "log(x3)"} {
		m, table := mixtureOf(rng, 2, numbered(2), "y", "exp"), counts(rng, numbered(3), 3)
		m.Family, m.Sigma, m.Roles = "poisson", nil, map[string]string{"offset": offset}
		for i, v := range table.number["x3"] {
			table.number["x3"][i] = math.Exp(v / 2)
		}
		add(fmt.Sprint("offset-", name+1), m, table, nil)
	}
	for name, trials := range []string{"", "x3", "cbind(y, x3)"} {
		m, table := mixtureOf(rng, 2, numbered(2), "y", "sigmoid"), counts(rng, numbered(3), 1)
		m.Family, m.Sigma = "binomial", nil
		for i := range table.y { // of up to 6 trials, or failures
			table.number["x3"][i] = float64(1 + i%6)
			switch name {
			case 1:
				table.y[i] = math.Mod(table.y[i]*float64(i%7), table.number["x3"][i]+1)
			case 2: // with no target there are no trials, and moe predict has nothing to say
				table.y[i] = float64(i % 4)
			}
		}
		if trials == "" {
			table.names = numbered(2)
		} else {
			m.Roles = map[string]string{"trials": trials}
		}
		add(fmt.Sprint("binomial-", name), m, table, nil)
	}
	add("hostile", mixtureOf(rng, 2, hostile[:3], hostile[3], "identity"), numbers(rng, hostile[:3]), nil)
	return append(out, formulas(t, rng)...)
}

// farIndex is a regressor at which powers of indices leave the range of numbers on either side, or are near to. None of
// them is subnormal, for those have fewer digits.
func farIndex(rng *rand.Rand, m *fitted.Model) float64 {
	for {
		x := math.Exp(math.Log(300) + rng.Float64()*math.Log(1e3))
		if rng.IntN(2) == 0 {
			x = -x
		}
		if !slices.ContainsFunc(m.Regressors, func(w []float64) bool {
			z := w[0] * x * max(m.Activation.Params["beta"], 1)
			return -750 < z && z < -700 || -750 < 0.7*z && 0.7*z < -700
		}) {
			return x
		}
	}
}

func withTable(t *testing.T, m *fitted.Model) *fitted.Model {
	t.Helper()
	var z, g []float64
	for i := range 40 {
		z = append(z, -2+4*float64(i)/39)
		g = append(g, math.Sin(3*z[i]))
	}
	curve, err := table.New(z, g, nil)
	if err == nil {
		m.Activation, err = stated.Describe(context.Background(), curve)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func withApproximation(t *testing.T, m *fitted.Model) *fitted.Model {
	t.Helper()
	act, err := expression.Parse("z*sigmoid(z)", nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := native.Build(context.Background(), act)
	if err != nil {
		t.Fatal(err)
	}
	m.Activation = stated.Activation{Name: "swish", Params: map[string]float64{}}
	m.Approximation = f.Coefficients()
	return m
}

// formulas are models whose features are made of raw columns.
func formulas(t *testing.T, rng *rand.Rand) (out []example) {
	t.Helper()
	const word, year, size = `arm'"; --`, "year", `size (m²)\`
	levels := []string{"control", `o'brien"`, `\"; DROP`, "naïve", "%s {x}"}
	table := numbers(rng, []string{size, "dose"})
	table.names = append(table.names, word, year)
	for i := range rows {
		table.word[word] = append(table.word[word], levels[rng.IntN(len(levels))])
		table.number[year] = append(table.number[year], float64(1990+rng.IntN(3)))
		table.number[size][i] = 0.2 + math.Abs(table.number[size][i])
	}
	for name, formula := range map[string]string{
		"formula": fmt.Sprintf("y ~ `%s`*log(`%s`) + poly(dose, 3) + I(dose^2/2) + exp(-dose) + factor(year) | dose + `%[1]s`", word, size),
		"flat":    "",
	} {
		full := table
		full.y = append([]float64(nil), table.y...)
		full.y[33], full.y[34] = 0, 0 // for the fit's own reading
		full.number = map[string][]float64{}
		for key, column := range table.number {
			full.number[key] = append([]float64(nil), column...)
			full.number[key][17] = 1990
		}
		path := full.write(t, "y", nil)
		request := terms.Request{Selection: dataset.Selection{Target: "y"}}
		if formula != "" {
			parsed, err := terms.Parse(formula)
			if err != nil {
				t.Fatal(err)
			}
			request.Formula = parsed
		}
		made, err := terms.Open(context.Background(), func(s dataset.Selection) (dataset.Source, error) {
			return dataset.Open(path, s)
		}, request)
		if err != nil {
			t.Fatal(err)
		}
		m := mixtureOf(rng, 3, made.Design.Features(), "y", "tanh")
		m.Design = made.Design
		used := table
		used.number, used.word = map[string][]float64{}, map[string][]string{word: append([]string(nil), table.word[word]...)}
		for key, column := range table.number {
			used.number[key] = append([]float64(nil), column...)
		}
		used.word[word][50], used.word[word][51] = "", "unseen"
		used.number[size][17] = math.NaN()
		out = append(out, example{name, m, used, nil})
	}
	for _, a := range []stated.Activation{{Name: "softplus", Params: sdk.Params{"beta": 2}}, {Name: "probit", Params: sdk.Params{}}} {
		m := mixtureOf(rng, 2, numbered(3), "y", a.Name)
		m.Activation = a
		out = append(out, example{a.Name, m, numbers(rng, numbered(3)), nil})
	}
	return out
}

// write writes a table as CSV, words that are not in known, where that is given, as missing.
func (t tableOf) write(test *testing.T, target string, known map[string][]string) string {
	test.Helper()
	path := filepath.Join(test.TempDir(), "data.csv")
	f, err := os.Create(path)
	if err != nil {
		test.Fatal(err)
	}
	defer f.Close()
	w := csv.NewWriter(f)
	w.Write(append(append([]string(nil), t.names...), target))
	text := func(v float64) string {
		if v != v {
			return ""
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	for i := range rows {
		var record []string
		for _, name := range t.names {
			if words, ok := t.word[name]; ok {
				if known != nil && !slices.Contains(known[name], words[i]) {
					record = append(record, "")
				} else {
					record = append(record, words[i])
				}
				continue
			}
			record = append(record, text(t.number[name][i]))
		}
		w.Write(append(record, text(t.y[i])))
	}
	if w.Flush(); w.Error() != nil {
		test.Fatal(w.Error())
	}
	return path
}

// said is what a model says of all rows.
type saidOf struct {
	Mean, Lower, Upper []*float64
	Gate, Posterior    [][]*float64
}

// reference is what host/predict says of an example.
func reference(t *testing.T, e example) saidOf {
	t.Helper()
	e.m.Format = e.m.FormatOf()
	if err := e.m.Validate(); err != nil {
		t.Fatalf("%s: %v", e.name, err)
	}
	var known map[string][]string
	if e.m.Design != nil {
		known = map[string][]string{}
		for _, f := range e.m.Design.Factors {
			known[f.Column] = f.Levels
		}
	}
	path := e.table.write(t, e.m.Target, known)
	act, err := predict.ActivationOf(t.Context(), e.m, "", func(ctx context.Context, named stated.Activation) (model.Activation, error) {
		p, err := catalog.Open(ctx, named.Name, named.Params)
		if err != nil {
			return nil, err
		}
		return p.Activation, nil
	})
	if err != nil {
		t.Fatal(e.name, err)
	}
	interval := level
	if e.m.Family != "" { // quantiles are of normal noise
		interval = 0
	}
	sel := predict.Selection(e.m, false)
	sel.Absent = dataset.Keep
	src, err := dataset.Open(path, sel)
	if err != nil {
		t.Fatal(err)
	}
	predictions := predict.Predictions(e.m.Params(), act, predict.Features(e.m, src, false),
		predict.Extras{Interval: interval, Uncertainty: predict.UncertaintyOf(e.m)})
	names := predictions.Schema().Features
	var out saidOf
	err = predictions.Read(t.Context(), func(b *model.Block) error {
		for r := range b.N {
			var gate, posterior []*float64
			for j, name := range names {
				v := &b.X[j*b.N+r]
				if math.IsNaN(*v) {
					v = nil
				} else {
					v = &[]float64{*v}[0]
				}
				switch {
				case name == "mean", name == "median" && !slices.Contains(names, "mean"):
					out.Mean = append(out.Mean, v)
				case name == "lower":
					out.Lower = append(out.Lower, v)
				case name == "upper":
					out.Upper = append(out.Upper, v)
				case strings.HasPrefix(name, "posterior"):
					posterior = append(posterior, v)
				case name[0] == 'p':
					gate = append(gate, v)
				}
			}
			out.Gate, out.Posterior = append(out.Gate, gate), append(out.Posterior, posterior)
		}
		return nil
	})
	if err != nil {
		t.Fatal(e.name, err)
	}
	return out
}
