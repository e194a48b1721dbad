package fitted

import (
	"context"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// tanh is an activation.
type tanh struct{}

func (tanh) Eval(_ context.Context, dst, z []float64) error {
	for i, v := range z {
		dst[i] = math.Tanh(v)
	}
	return nil
}

func (tanh) Deriv(_ context.Context, dst, z []float64) error {
	for i, v := range z {
		dst[i] = 1 - math.Tanh(v)*math.Tanh(v)
	}
	return nil
}

// identity is another, without bounds.
type identity struct{}

func (identity) Eval(_ context.Context, dst, z []float64) error { copy(dst, z); return nil }

func (identity) Deriv(_ context.Context, dst, _ []float64) error {
	for i := range dst {
		dst[i] = 1
	}
	return nil
}

func example() *Model {
	return &Model{
		Format:     Format,
		Activation: Activation{Name: "leakyrelu", Params: map[string]float64{"slope": 0.1}, Version: "1"},
		D:          2, K: 2, Features: []string{"x1", "a \"b\", [c]"}, Target: "y",
		Regressors:  [][]float64{{1, -1.0 / 3}, {1e-300, 5e22}},
		Gating:      [][]float64{{0.5, 2}},
		Sigma:       Sigma{0.05},
		Proportions: []float64{0.25, 0.75},
		Fit: Fit{
			Method: "auto", Seed: 1, N: 100, LogLikelihood: -12.5, BIC: 1, AIC: 2, Converged: true, Status: "gradient", Iterations: 7,
			Starts: []Start{
				{Kind: "moments", LogLikelihood: -12.5, Converged: true, Status: "converged", Agrees: true, Rows: 100, Path: []float64{-0.5, -0.125}},
				{Kind: "random", LogLikelihood: -99, Status: "stopped early", Rows: 50, Path: []float64{}},
			},
			MomentsEstimate: &MomentsEstimate{Regressors: [][]float64{{1, 0}, {0, 1}}, Proportions: []float64{0.5, 0.5}},
			Notes:           []string{"a note"},
		},
		Truth: &Recovery{EReg: 1e-6, EGating: 0.01},
	}
}

func write(t *testing.T, m *Model) (path, content string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "model.json")
	if err := m.Write(context.Background(), path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, string(data)
}

func TestModelFile(t *testing.T) {
	path, content := write(t, example())
	golden := filepath.Join("testdata", "model.json")
	if *update {
		if err := os.WriteFile(golden, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), content); diff != "" {
		t.Error(diff)
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, again := write(t, got); again != content {
		t.Error("a model that was read is written otherwise")
	}
	if diff := cmp.Diff(example().Params(), got.Params()); diff != "" {
		t.Error(diff)
	}
}

// k = 1, noise per expert and intercepts survive the file.
func TestModelShapes(t *testing.T) {
	one := example()
	one.K, one.Regressors, one.Gating, one.Proportions = 1, one.Regressors[:1], nil, []float64{1}
	one.Fit.MomentsEstimate, one.Fit.Starts, one.Fit.Notes, one.Activation.Params = nil, nil, nil, nil
	path, content := write(t, one)
	for _, part := range []string{`"gating": []`, `"starts": []`, `"notes": []`, `"params": {}`, `"certificate": null`, `"standard_errors": null`, `"gating_intercepts": null`} {
		if !strings.Contains(content, part) {
			t.Errorf("%s is missing", part)
		}
	}
	if _, err := Read(path); err != nil {
		t.Error(err)
	}
	full := example()
	full.Sigma = Sigma{0.05, 2}
	full.RegressorIntercepts, full.GatingIntercepts = []float64{1, 2}, []float64{3}
	path, content = write(t, full)
	if !strings.Contains(content, `"sigma": [0.05, 2]`) {
		t.Error("noise per expert is not a list")
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(full.Params(), got.Params()); diff != "" {
		t.Error(diff)
	}
}

// Every fault of a file is an error that names the file, and the place where
// it is one of JSON.
func TestModelFaults(t *testing.T) {
	_, good := write(t, example())
	for _, test := range []struct{ old, new, want string }{
		{good, "", ":1:1: not the JSON expected: the file is empty or cut short"},
		{good, "null", ":1:1: not the JSON expected: want a JSON object"},
		{good, " \n [{}]", ":2:2: not the JSON expected: want a JSON object"},
		{good, "{}", ": format is"},
		{good[len(good)/2:], "", "the file is empty or cut short"},
		{"\n}\n", "\n} {}", "something follows the object"},
		{`"d": 2`, `"d": 2,,`, ":10:10: not the JSON expected: invalid character ','"},
		{`"d": 2`, `"d": "2"`, "d is a string, want a int"},
		{`"d": 2`, `"d": 3`, ": features has 2 names, want d = 3"},
		{`"d": 2`, `"d": -1`, ": k = 2, d = -1"},
		{`"d": 2`, `"d": 1000000000000`, ": features has 2 names"},
		{`"k": 2`, `"k": 0`, ": k = 0, d = 2"},
		{`"k": 2`, `"k": 3`, ": regressors has 2 rows, want 3"},
		{`moe-model/v1`, `moe-model/v2`, `: format is "moe-model/v2", want "moe-model/v1"`},
		{`"leakyrelu"`, `"../evil"`, `: activation.name "../evil"`},
		{`"leakyrelu"`, `""`, `: activation.name is missing`},
		{`"target": "y"`, `"target": ""`, ": target is missing"},
		{`"target": "y"`, `"target": "x1"`, `: features[0] = "x1" is empty or named twice`},
		{`[1, -0.3333333333333333]`, `[1, null]`, "null in a list"},
		{`[1, -0.3333333333333333]`, `[1]`, ": regressors[0] has 1 values, want 2"},
		{`[1, -0.3333333333333333]`, `[1, 1e999]`, "regressors is a number 1e999"},
		{`[1, -0.3333333333333333]`, `[1, NaN]`, "invalid character 'N'"},
		{`[0.5, 2]`, `[0.5, 2], [1, 1]`, ": gating has 2 rows, want 1"},
		{`"sigma": 0.05`, `"sigma": 0`, ": sigma = 0"},
		{`"sigma": 0.05`, `"sigma": [1, 2, 3]`, ": sigma has 3 values"},
		{`"sigma": 0.05`, `"sigma": []`, ": sigma has 0 values"},
		{`"sigma": 0.05`, `"sigma": "x"`, "string"},
		{`[0.25, 0.75]`, `[0.25, 1.75]`, ": proportions[1] = 1.75 is not between 0 and 1"},
		{`"regressor_intercepts": null`, `"regressor_intercepts": [1]`, ": regressor_intercepts has 1 values, want 2"},
		{`"n": 100`, `"n": 0`, ": fit.n = 0"},
	} {
		if strings.Count(good, test.old) < 1 {
			t.Fatalf("the model file has no %s", test.old)
		}
		path := filepath.Join(t.TempDir(), "model.json")
		if err := os.WriteFile(path, []byte(strings.Replace(good, test.old, test.new, 1)), 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := Read(path)
		var fault *dataset.Error
		if !errors.As(err, &fault) || !strings.HasPrefix(err.Error(), path) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s → %.30s: error %v, want …%s", test.old[:min(20, len(test.old))], test.new, err, test.want)
		}
	}
	// Keys that a later version adds are passed over.
	path := filepath.Join(t.TempDir(), "model.json")
	if err := os.WriteFile(path, []byte(strings.Replace(good, `"d": 2`, `"later": [{"x": null}], "d": 2`, 1)), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err != nil {
		t.Error(err)
	}
}

// A start that led to no likelihood is in the file, without a number.
func TestFailedStart(t *testing.T) {
	m := example()
	m.Fit.Starts[1].LogLikelihood, m.Fit.Starts[1].Status = math.NaN(), "diverged"
	path, content := write(t, m)
	if !strings.Contains(content, `"log_likelihood": null`) || strings.Contains(content, "NaN") {
		t.Errorf("the file is %s", content)
	}
	back, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if s := back.Fit.Starts[1]; !math.IsNaN(s.LogLikelihood) || s.Status != "diverged" || s.Kind != "random" || s.Rows != 50 {
		t.Errorf("read back as %+v", s)
	}
	if _, again := write(t, back); again != content {
		t.Error("written again it is another file")
	}
}

// A number that is not finite never reaches a file.
func TestNothingNonFiniteIsWritten(t *testing.T) {
	for name, change := range map[string]func(*Model){
		"regressor":  func(m *Model) { m.Regressors[1][1] = math.NaN() },
		"gating":     func(m *Model) { m.Gating[0][0] = math.Inf(1) },
		"sigma":      func(m *Model) { m.Sigma[0] = math.Inf(1) },
		"proportion": func(m *Model) { m.Proportions[0] = math.NaN() },
		"likelihood": func(m *Model) { m.Fit.LogLikelihood = math.Inf(-1) },
		"start":      func(m *Model) { m.Fit.Starts[0].LogLikelihood = math.Inf(-1) },
		"parameter":  func(m *Model) { m.Activation.Params["slope"] = math.NaN() },
		"truth":      func(m *Model) { m.Truth.EReg = math.NaN() },
		"moments":    func(m *Model) { m.Fit.MomentsEstimate.Regressors[0][0] = math.NaN() },
	} {
		m := example()
		change(m)
		path := filepath.Join(t.TempDir(), "model.json")
		if err := m.Write(context.Background(), path); err == nil {
			t.Errorf("%s: written", name)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: there is a file", name)
		}
	}
}

func TestTruthFile(t *testing.T) {
	p := model.NewParams(2, 3)
	copy(p.Regressors, []float64{1, 0, 0, 0, 1, 0})
	copy(p.Gating, []float64{0, 0, 1})
	p.Sigma[0] = 0.05
	truth := NewTruth(Activation{Name: "relu", Params: map[string]float64{}}, p)
	path := filepath.Join(t.TempDir(), "truth.json")
	if err := truth.Write(context.Background(), path); err != nil {
		t.Fatal(err)
	}
	got, err := ReadTruth(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, got.Params()); diff != "" {
		t.Error(diff)
	}
	r, err := Compare(p, got.Params())
	if err != nil || r != (Recovery{}) {
		t.Errorf("the truth against itself: %+v, %v", r, err)
	}
	if _, err := Compare(model.NewParams(3, 3), p); err == nil {
		t.Error("k = 3 compares with k = 2")
	}
	for _, text := range []string{"{}", `{"k": 1, "d": 1, "activation": {"name": "relu"}, "regressors": [[1, 2]], "gating": []}`, "["} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadTruth(path); err == nil || !strings.HasPrefix(err.Error(), path) {
			t.Errorf("%s: error %v", text, err)
		}
	}
}

// randomModel returns parameters with everything a mixture may have, and rows.
func randomModel(n int) (*model.Params, *mat.Dense, []float64) {
	rng := rand.New(rand.NewPCG(7, 7))
	p := model.NewParams(3, 2)
	p.RegressorIntercepts, p.GatingIntercepts, p.Sigma = make([]float64, 3), make([]float64, 2), []float64{0.5, 1, 2}
	for _, v := range [][]float64{p.Regressors, p.Gating, p.RegressorIntercepts, p.GatingIntercepts} {
		for i := range v {
			v[i] = rng.NormFloat64()
		}
	}
	x, y := mat.NewDense(n, 2, nil), make([]float64, n)
	for i := range n {
		x.SetRow(i, []float64{rng.NormFloat64(), rng.NormFloat64()})
		y[i] = rng.NormFloat64()
	}
	return p, x, y
}

// naive evaluates the model's formulas for one row as they are written.
func naive(p *model.Params, x []float64, y float64) (mean float64, gate, posterior []float64, density float64) {
	linear := func(c []float64, b float64) float64 { return c[0]*x[0] + c[1]*x[1] + b }
	gate, posterior = make([]float64, p.K), make([]float64, p.K)
	total := 0.0
	for i := range gate {
		gate[i] = 1
		if i < p.K-1 {
			gate[i] = math.Exp(linear(p.Gate(i), p.GatingIntercepts[i]))
		}
		total += gate[i]
	}
	for i := range gate {
		gate[i] /= total
		g := math.Tanh(linear(p.Regressor(i), p.RegressorIntercepts[i]))
		mean += gate[i] * g
		s := p.SigmaOf(i)
		posterior[i] = gate[i] * math.Exp(-(y-g)*(y-g)/(2*s*s)) / (s * math.Sqrt(2*math.Pi))
		density += posterior[i]
	}
	for i := range posterior {
		posterior[i] /= density
	}
	return mean, gate, posterior, density
}

func TestPredictions(t *testing.T) {
	const n = 2*model.BlockRows + 5
	p, x, y := randomModel(n)
	src := Predictions(p, tanh{}, dataset.Matrix(x, y), Extras{})
	want := []string{"mean", "p1", "p2", "p3", "posterior1", "posterior2", "posterior3"}
	if diff := cmp.Diff(want, src.Schema().Columns()); diff != "" {
		t.Error(diff)
	}
	at := 0
	err := src.Read(context.Background(), func(b *model.Block) error {
		for i := range b.N {
			mean, gate, posterior, _ := naive(p, x.RawRowView(at), y[at])
			for j, v := range append(append([]float64{mean}, gate...), posterior...) {
				if got := b.Col(j)[i]; math.Abs(got-v) > 1e-13 { // sums of a few terms of order 1
					t.Fatalf("row %d, %s: %v, want %v", at, want[j], got, v)
				}
			}
			at++
		}
		return nil
	})
	if err != nil || at != n {
		t.Errorf("%d rows, %v", at, err)
	}
	without := Predictions(p, tanh{}, dataset.Matrix(x, nil), Extras{})
	if diff := cmp.Diff(want[:4], without.Schema().Columns()); diff != "" {
		t.Error(diff)
	}
}

func TestEvaluate(t *testing.T) {
	const n = 2*model.BlockRows + 5
	p, x, y := randomModel(n)
	for i := range y {
		y[i] += 1e6 // far from 0: Σy² − nȳ² would lose ten digits of R2
	}
	p.Sigma = []float64{1e6, 2e6, 3e6}
	var want Evaluation
	var sum, sse, sst float64
	for _, v := range y {
		sum += v
	}
	for i, v := range y {
		mean, _, _, density := naive(p, x.RawRowView(i), v)
		want.LogLikelihood += math.Log(density)
		sse += (v - mean) * (v - mean)
		sst += (v - sum/n) * (v - sum/n)
	}
	want.RMSE, want.R2 = math.Sqrt(sse/n), 1-sse/sst
	got, err := Evaluate(context.Background(), p, tanh{}, dataset.Matrix(x, y))
	if err != nil {
		t.Fatal(err)
	}
	relative := func(a, b float64) float64 { return math.Abs(a-b) / math.Abs(b) }
	// y carries 10 digits of its spread: ȳ, and with it Σ(y − ȳ)², keep 9.
	if got.N != n || relative(got.LogLikelihood, want.LogLikelihood) > 1e-12 || relative(got.RMSE, want.RMSE) > 1e-12 || relative(got.R2, want.R2) > 1e-9 {
		t.Errorf("got %+v, want %+v", *got, want)
	}
	if _, err := Evaluate(context.Background(), p, tanh{}, dataset.Matrix(x, nil)); err == nil {
		t.Error("no target, and no error")
	}
	for i := range y {
		y[i] = 3
	}
	if _, err := Evaluate(context.Background(), p, tanh{}, dataset.Matrix(x, y)); err == nil {
		t.Error("a constant target, and no error")
	}
}

// A row of weight w counts as w rows, and one of weight 0 not at all.
func TestEvaluateWeighted(t *testing.T) {
	const n = model.BlockRows + 40
	p, x, y := randomModel(n)
	w := make([]float64, n)
	var rows, targets []float64
	for i := range n {
		w[i] = float64(i % 4)
		for range i % 4 {
			rows, targets = append(rows, x.RawRowView(i)...), append(targets, y[i])
		}
	}
	got, err := Evaluate(context.Background(), p, tanh{}, dataset.WeightedMatrix(x, y, w))
	if err != nil {
		t.Fatal(err)
	}
	want, err := Evaluate(context.Background(), p, tanh{}, dataset.Matrix(mat.NewDense(len(targets), p.D, rows), targets))
	if err != nil {
		t.Fatal(err)
	}
	want.N, want.Weight = n, float64(len(targets))
	// The sums differ in order alone.
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-12, 0)); diff != "" {
		t.Error(diff)
	}
	if _, err := Evaluate(context.Background(), p, tanh{}, dataset.WeightedMatrix(x, y, make([]float64, n))); err == nil {
		t.Error("no weight at all, and no error")
	}
}

// Logits of ±800 and beyond, densities that underflow and squares that
// overflow give finite numbers.
func TestPredictAtTheEdges(t *testing.T) {
	p := model.NewParams(2, 1)
	copy(p.Regressors, []float64{1, -1})
	p.Sigma[0] = 0.05
	for _, test := range []struct{ w, x, y, gate float64 }{
		{800, 1, 1, 1}, {-800, 1, 1, 0}, {1e308, 1, 1, 1}, {-1e308, 1, 1, 0}, {1, 1e10, 5, 1}, {0, 1, 1e200, 0.5}, {0, 1e150, -1e150, 0.5}, {0, 1, 1e308, 0.5},
	} {
		p.Gating[0] = test.w
		b := &model.Block{N: 1, X: []float64{test.x}, Y: []float64{test.y}}
		got, err := NewPredictor(p, identity{}, "").Predict(context.Background(), b)
		if err != nil {
			t.Errorf("%+v: %v", test, err)
			continue
		}
		for _, v := range append(append([]float64{got.Mean[0], got.LogDens[0]}, got.Gate...), got.Posterior...) {
			if !isFinite(v) {
				t.Errorf("%+v: %+v", test, *got)
			}
		}
		if got.Gate[0] != test.gate || math.Abs(got.Posterior[0]+got.Posterior[1]-1) > 1e-15 {
			t.Errorf("%+v: gate %v, posterior %v", test, got.Gate, got.Posterior)
		}
	}
	p.Gating[0] = 0
	p.Regressors[0] = 1e10
	b := &model.Block{N: 1, X: []float64{1e300}}
	_, err := NewPredictor(p, identity{}, "data.csv").Predict(context.Background(), b)
	if err == nil || err.Error() != "data.csv: the prediction for row 1 is +Inf: its values are too large" {
		t.Errorf("error %v", err)
	}
}

func BenchmarkPredict(b *testing.B) {
	const n = 100 * model.BlockRows
	p := model.NewParams(3, 10)
	p.Sigma[0] = 0.05
	x, y := mat.NewDense(n, 10, nil), make([]float64, n)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range p.Regressors {
		p.Regressors[i] = rng.NormFloat64()
	}
	for i := range n {
		for j := range 10 {
			x.Set(i, j, rng.NormFloat64())
		}
	}
	data, err := dataset.Load(context.Background(), dataset.Matrix(x, y))
	if err != nil {
		b.Fatal(err)
	}
	predictor := NewPredictor(p, identity{}, "")
	b.SetBytes(n * 11 * 8)
	b.ReportAllocs()
	for b.Loop() {
		for i := range data.Blocks {
			if _, err := predictor.Predict(context.Background(), &data.Blocks[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
}
