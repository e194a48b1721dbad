package fitted

import (
	"context"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted/stated"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func example() *Model {
	return &Model{
		Format:     Format,
		Activation: stated.Activation{Name: "leakyrelu", Params: map[string]float64{"slope": 0.1}, Version: "1"},
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
		{`"d": 2`, `"d": "2"`, "d is a string, want a whole number"},
		{`"d": 2`, `"d": 2, "d": 2`, `:10:13: not the JSON expected: member "d" stands twice in its object`},
		{`"d": 2`, `"D": 2, "d": 2`, `:10:5: not the JSON expected: member "D": want "d"`},
		{`"k": 2`, `"\u212a": 2`, `: want "k"`}, // a Kelvin sign, which json takes for k
		{`"name": "leakyrelu"`, `"Name": "leakyrelu"`, `member "Name": want "name"`},
		{`"n": 100`, `"n": 100, "later": {"x": 1, "x": 1}`, `member "x" stands twice`},
		{`"d": 2`, `"d": 3`, ": features has 2 names, want d = 3"},
		{`"d": 2`, `"d": -1`, ": k = 2, d = -1"},
		{`"d": 2`, `"d": 1000000000000`, ": k = 2, d = 1000000000000: 1356 bytes have no room for k times d numbers"},
		{`"d": 2`, `"d": 9223372036854775807`, " bytes have no room for k times d numbers"},
		{`"k": 2`, `"k": 9223372036854775807`, " bytes have no room for k times d numbers"},
		{`"d": 2`, `"d": 300`, ": features has 2 names"},
		{`"k": 2`, `"k": 0`, ": k = 0, d = 2"},
		{`"k": 2`, `"k": 3`, ": regressors has 2 rows, want 3"},
		{`moe-model/v1`, `moe-model/v2`, `: format is "moe-model/v2", want "moe-model/v1"`},
		{`"leakyrelu"`, `"../evil"`, `: activation.name "../evil"`},
		{`"leakyrelu"`, `""`, `: activation.name is missing`},
		{`"target": "y"`, `"target": ""`, ": target is missing"},
		{`"target": "y"`, `"target": "y\u0000"`, `: the name "y\x00" holds a NUL character`},
		{`"x1"`, `"x\u00001"`, `: the name "x\x001" holds a NUL character`},
		{`"target": "y"`, `"target": "x1"`, `: features[0] = "x1" is empty or named twice`},
		{`[1, -0.3333333333333333]`, `[1, null]`, "null in a list"},
		{`[1, -0.3333333333333333]`, `[1]`, ": regressors[0] has 1 values, want 2"},
		{`[1, -0.3333333333333333]`, `[1, 1e999]`, "regressors is the number 1e999, want one that double precision holds"},
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
	// Members that a later version adds are passed over, and named.
	path := filepath.Join(t.TempDir(), "model.json")
	if err := os.WriteFile(path, []byte(strings.Replace(good, `"d": 2`, `"later": [{"x": null}], "d": 2`, 1)), 0o666); err != nil {
		t.Fatal(err)
	}
	if m, err := Read(path); err != nil || !slices.Equal(m.Unknown, []string{"later"}) {
		t.Errorf("%v, unknown %v", err, m.Unknown)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(good, `"n": 100`, `"later": 1, "n": 100, "Later": 1`, 1)), 0o666); err != nil {
		t.Fatal(err)
	}
	if m, err := Read(path); err != nil || !slices.Equal(m.Unknown, []string{"fit.later", "fit.Later"}) {
		t.Errorf("%v, unknown %v", err, m.Unknown)
	}
	if err := os.WriteFile(path, []byte(good), 0o666); err != nil {
		t.Fatal(err)
	}
	if m, err := Read(path); err != nil || m.Unknown != nil {
		t.Errorf("%v, unknown %v in our own file", err, m.Unknown)
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

// Experts without standard errors have null for them, the gates between them too, and come back so.
func TestWithoutErrors(t *testing.T) {
	m := example()
	m.StandardErrors = NewStandardErrors("observed", m.Params(), true)
	whole := len(m.StandardErrors.Regressors[0])
	m.StandardErrors.Without([]int{1}, []int{0}, []int{0})
	_, content := write(t, m)
	path, _ := write(t, m)
	back, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range back.StandardErrors.Regressors {
		for j := range whole {
			if want := i == 1 && j > 0; math.IsNaN(row[j]) != want {
				t.Errorf("coefficient %d of expert %d has the error %v", j+1, i+1, row[j])
			}
		}
	}
	if !math.IsNaN(back.StandardErrors.Gating[0][0]) {
		t.Errorf("the gate has %v", back.StandardErrors.Gating)
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
