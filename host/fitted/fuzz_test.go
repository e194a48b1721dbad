package fitted

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted/jsonfile"
	"github.com/gatedlearning/moe/host/model"
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

// content is where a fuzz target's worker keeps what it reads.
func content(f *testing.F) (path string, write func(*testing.T, []byte)) {
	path = filepath.Join(f.TempDir(), "content.json")
	return path, func(t *testing.T, data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// onlyDataErrors fails for an error that is not one of the file's content.
func onlyDataErrors(t *testing.T, err error) {
	t.Helper()
	if bad := (*dataset.Error)(nil); err != nil && !errors.As(err, &bad) {
		t.Errorf("%v (%T)", err, err)
	}
}

// whole fails for parameters whose slices do not have their shape.
func whole(t *testing.T, p *model.Params) {
	t.Helper()
	if len(p.Regressors) != p.K*p.D || len(p.Gating) != (p.K-1)*p.D || len(p.Sigma) != 1 && len(p.Sigma) != p.K {
		t.Errorf("k = %d, d = %d: %d, %d and %d values", p.K, p.D, len(p.Regressors), len(p.Gating), len(p.Sigma))
	}
	for _, s := range p.Sigma {
		if !(s > 0) {
			t.Errorf("sigma %v", s)
		}
	}
}

// FuzzModel looks for content that is read as a model and is none: that cannot be
// written, or is another when it is read again.
func FuzzModel(f *testing.F) {
	seeds(f)
	path, write := content(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		write(t, data)
		m, err := Read(path)
		onlyDataErrors(t, err)
		if err != nil {
			return
		}
		whole(t, m.Params())
		text, err := m.JSON()
		if err != nil {
			t.Fatalf("read and not written: %v", err)
		}
		write(t, text)
		again, err := Read(path)
		if err != nil {
			t.Fatalf("written and not read: %v", err)
		}
		if second, err := again.JSON(); err != nil || string(second) != string(text) {
			t.Errorf("another file the second time: %v", err)
		}
	})
}

// FuzzVector looks for content that is read as a model of several targets, or the truth of
// one, and is none.
func FuzzVector(f *testing.F) {
	f.Add([]byte(smallVector))
	f.Add([]byte(sharedVector))
	path, write := content(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		write(t, data)
		head, err := jsonfile.HeadOf(path)
		onlyDataErrors(t, err)
		v, err := ReadVector(path)
		onlyDataErrors(t, err)
		if err != nil {
			return
		}
		if !head.Several {
			t.Error("a model of several targets does not look like one")
		}
		for j := range v.Outputs {
			if v.Outputs[j].Sigma != nil { // else its mean is all there is
				whole(t, v.Params(j))
				whole(t, v.Model(j).Params())
			}
		}
		text, err := v.JSON()
		if err != nil {
			t.Fatalf("read and not written: %v", err)
		}
		write(t, text)
		again, err := ReadVector(path)
		if err != nil {
			t.Fatalf("written and not read: %v", err)
		}
		if second, err := again.JSON(); err != nil || string(second) != string(text) {
			t.Errorf("another file the second time: %v", err)
		}
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
