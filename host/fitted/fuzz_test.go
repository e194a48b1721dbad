package fitted

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// seeds adds the golden model file, its damaged halves and a truth file.
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
	f.Add([]byte(`{"k": 2, "d": 2, "sigma": 0.1, "activation": {"name": "relu", "params": {}, "version": "1"}, "regressors": [[1, 0], [0, 1]], "gating": [[1, 2]]}`))
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
		r, err := ReadReference(path, m.Features)
		if err != nil {
			t.Fatal(err)
		}
		whole(t, r.Params)
	})
}

// FuzzTruth looks for content that is read as true parameters and is none.
func FuzzTruth(f *testing.F) {
	seeds(f)
	path, write := content(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		write(t, data)
		truth, err := ReadTruth(path)
		onlyDataErrors(t, err)
		if err != nil {
			return
		}
		whole(t, truth.Params())
		if err := truth.Write(t.Context(), path); err != nil {
			t.Fatalf("read and not written: %v", err)
		}
		if _, err := ReadTruth(path); err != nil {
			t.Errorf("written and not read: %v", err)
		}
		if _, err := Compare(truth.Params(), truth.Params()); err != nil {
			t.Error(err)
		}
	})
}
