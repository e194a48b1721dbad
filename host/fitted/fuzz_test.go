package fitted

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gatedlearning/moe/host/fitted/fittedtest"
	"github.com/gatedlearning/moe/host/fitted/jsonfile"
)

// Files of small trees and of several targets.
const (
	smallTree = `{"format": "moe-model/v2", "hierarchy": "2x2", "activation": {"name": "relu"}, "d": 1, "k": 4, "features": ["x"], "target": "y",
		"regressors": [[1], [2], [3], [4]], "gating": [[1], [2], [3]], "sigma": [1], "proportions": [0.25, 0.25, 0.25, 0.25], "fit": {"n": 1}}`
	smallVector = `{"format": "moe-model/v2", "hierarchy": "2", "leaves": [{"name": "relu", "params": {}, "version": "1"}, {"name": "tanh", "params": {}, "version": "1"}],
		"d": 2, "k": 2, "features": ["x1", "x2"], "outputs": [
		{"target": "a", "regressors": [[1, 0], [0, 1]], "gating": [[1, 2]], "regressor_intercepts": null, "gating_intercepts": [0.5], "sigma": 0.1},
		{"target": "b", "regressors": [[1, 0], [0, 1]], "gating": [[1, 2]], "regressor_intercepts": [1, 2], "gating_intercepts": null, "sigma": null}]}`
	sharedVector = `{"format": "moe-model/v2", "hierarchy": "2", "leaves": [{"name": "relu"}, {"name": "relu"}], "d": 1, "k": 2, "features": ["x"], "outputs": [
		{"target": "a", "regressors": [[1], [2]], "gating": [[1]], "regressor_intercepts": null, "gating_intercepts": null, "sigma": 1},
		{"target": "b", "regressors": [[1], [2]], "gating": [[1]], "regressor_intercepts": null, "gating_intercepts": null, "sigma": 2}],
		"shared_gate": {"noise_covariance": "full", "correlations": [[[1, 0.5], [0.5, 1]]]}}`
)

// seeds adds the golden model file, its damaged halves and small models.
func seeds(f *testing.F) {
	f.Helper()
	golden, err := filepath.Glob("testdata/*.json")
	if err != nil || len(golden) == 0 {
		f.Fatal("no golden files", err)
	}
	for _, path := range golden {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Add([]byte(smallTree))
	f.Add([]byte(`{"format": "moe-model/v1", "activation": {"name": "relu"}, "d": 1, "k": 1, "features": ["x"], "target": "y", "regressors": [[1]], "gating": [], "sigma": [1], "proportions": [1], "fit": {"n": 1}}`))
}

// FuzzModel looks for content that is read as a model and is none: that cannot be
// written, or is another when it is read again.
func FuzzModel(f *testing.F) {
	seeds(f)
	file := fittedtest.NewContent(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		file.Write(t, data)
		m, err := Read(string(file))
		fittedtest.OnlyDataErrors(t, err)
		if err != nil {
			return
		}
		fittedtest.Whole(t, m.Params())
		fittedtest.Again(t, file, m, Read)
	})
}

// FuzzVector looks for content that is read as a model of several targets, or the truth of
// one, and is none.
func FuzzVector(f *testing.F) {
	f.Add([]byte(smallVector))
	f.Add([]byte(sharedVector))
	file := fittedtest.NewContent(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		file.Write(t, data)
		_, head, err := jsonfile.OpenHead(string(file))
		fittedtest.OnlyDataErrors(t, err)
		v, err := ReadVector(string(file))
		fittedtest.OnlyDataErrors(t, err)
		if err != nil {
			return
		}
		if !head.Several {
			t.Error("a model of several targets does not look like one")
		}
		for j := range v.Outputs {
			if v.Outputs[j].Sigma != nil { // else its mean is all there is
				fittedtest.Whole(t, v.Params(j))
				fittedtest.Whole(t, v.Model(j).Params())
			}
		}
		fittedtest.Again(t, file, v, ReadVector)
	})
}

// TestSmallFiles: what fuzzing begins with is read, so that it gets behind the first check.
func TestSmallFiles(t *testing.T) {
	for text, read := range map[string]func(string) error{
		smallTree:    func(path string) error { _, err := Read(path); return err },
		smallVector:  func(path string) error { _, err := ReadVector(path); return err },
		sharedVector: func(path string) error { _, err := ReadVector(path); return err },
	} {
		path := filepath.Join(t.TempDir(), "small.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := read(path); err != nil {
			t.Error(err)
		}
	}
}
