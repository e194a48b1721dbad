package export

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/internal/testslow"
)

// extremes are models at numbers near the ends of float64, which host/predict all takes: where an index is large the
// gate gives an expert nothing that has a mean beyond the numbers.
func extremes() (out []example) {
	rng := rand.New(rand.NewPCG(37, 5))
	for _, e := range []struct {
		name, family, activation, hierarchy string
		own                                 fitted.Own
		zero                                bool
		slope                               float64 // of the gate
	}{
		{"gaussian", "", "identity", "", nil, false, -0.1},
		{"tree", "", "identity", "2x2", nil, false, -0.1},
		{"student", "student-t", "identity", "", fitted.Own{"dof": {3, 3}}, false, -0.1},
		{"gamma", "gamma", "exp", "", fitted.Own{"shape": {3, 2}}, false, -0.1},
		{"poisson", "poisson", "exp", "", nil, false, -0.1},
		{"zero", "poisson", "exp", "", nil, true, -0.1},
		{"negative", "negative-binomial", "exp", "", fitted.Own{"theta": {1.5}}, false, -0.1},
		{"zeronegative", "negative-binomial", "exp", "", fitted.Own{"theta": {1.5}}, true, -0.1},
		{"binomial", "binomial", "sigmoid", "", nil, false, -0.1},
		{"gate", "", "tanh", "", nil, false, -30}, // whose score is beyond the numbers: not of SQL
	} {
		k := 2
		if e.hierarchy != "" {
			k = 4
		}
		m, table := mixtureOf(rng, k, numbered(1), "y", e.activation), counts(rng, numbered(1), 3)
		m.Family, m.Own, m.ZeroExpert = e.family, e.own, e.zero
		if e.hierarchy != "" {
			m.Hierarchy = e.hierarchy
		}
		if e.family != "" && e.family != "student-t" {
			m.Sigma = nil
		}
		m.Regressors = [][]float64{{0.4}, {-0.27}, {0.2}, {-0.3}}[:k]
		m.Gating = [][]float64{{e.slope}, {-0.2}, {0.15}}[:k-1]
		m.GatingIntercepts = []float64{0.3, -0.2, 0.1}[:k-1]
		if e.zero {
			m.Gating, m.GatingIntercepts = [][]float64{{-0.1}, {0.3}}, []float64{0.3, 0.1}
			m.Regressors = [][]float64{{0.4}, {-0.3}}
			m.Proportions = []float64{0.4, 0.3}
		}
		sizes := []float64{0, 5e-324, 1e-310, 1, 1e40, 1e50, 1e100, 1e150, 1e154, 1e155, 1e200, 1e300, 1e308, 1.7e308}
		for i := range rows {
			table.number["x1"][i] = sizes[i%len(sizes)] * float64(1-2*(i/len(sizes)%2))
			switch {
			case e.family == "gamma":
				table.y[i] += 0.2
			case e.family == "binomial":
				table.y[i] = math.Min(table.y[i], 1)
			}
		}
		out = append(out, example{"extreme-" + e.name, m, table, nil})
	}
	return out
}

// TestExtremes: at numbers near the ends of float64 what is exported says what host/predict says, and no number is
// missing.
func TestExtremes(t *testing.T) {
	testslow.Mark(t)
	all := extremes()
	dir := t.TempDir()
	want, data := map[string]saidOf{}, map[string]any{}
	for _, e := range all {
		want[e.name], data[e.name] = reference(t, e), rowsOf(e)
		for to, name := range map[Language]string{SQL: e.name + ".sql", Python: e.name + ".py",
			Go: filepath.Join("go", packageOf(e), "model.go")} {
			var text bytes.Buffer
			request := Request{Language: to}
			if to == SQL {
				request.Table, request.Keep = sqlTable, []string{sqlRow}
			}
			if err := Write(t.Context(), &text, e.m, request); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, name), text.Bytes())
		}
		write(t, filepath.Join(dir, e.name+".load.sql"), []byte(loading(e)))
	}
	text, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "data.json"), text)
	runGo(t, dir, all)
	compareAll(t, dir, "go", all, want, tolerance)
	if err := exec.Command(systemPython, "-c", "import numpy").Run(); err != nil {
		t.Skip("no python3 with numpy")
	}
	run(t, systemPython, filepath.Join("testdata", "run.py"), dir)
	compareAll(t, dir, "python", all, want, tolerance)
	compareAll(t, dir, "sqlite", all[:len(all)-1], want, sqlTolerance)
}
