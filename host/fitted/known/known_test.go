package known

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/fittedtest"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
)

// Files of small truths.
const (
	smallTreeTruth = `{"format": "moe-truth/v2", "k": 3, "d": 1, "sigma": 0.1, "hierarchy": "2x(1,2)", "activation": {"name": "mixed", "params": {}, "version": ""},
		"leaves": [{"name": "relu", "params": {}, "version": "1"}, {"name": "identity", "params": {}, "version": "1"}, {"name": "relu", "params": {}, "version": "1"}],
		"regressors": [[1], [2], [-1]], "gating": [[1], [0.5]]}`
	smallTruth = `{"k": 2, "d": 2, "sigma": 0.1, "activation": {"name": "relu", "params": {}, "version": "1"}, "regressors": [[1, 0], [0, 1]], "gating": [[1, 2]]}`
)

func tree() *fitted.Model {
	m := &fitted.Model{
		Format: fitted.FormatV2, Activation: stated.Activation{Name: stated.Mixed, Params: map[string]float64{}},
		Leaves:   []stated.Activation{{Name: "identity", Params: map[string]float64{}}, {Name: "tanh", Params: map[string]float64{}}, {Name: "tanh", Params: map[string]float64{}}},
		Features: []string{"x"}, Target: "y", Proportions: []float64{0.5, 0.25, 0.25}, Fit: fitted.Fit{N: 1},
	}
	p := model.NewParams(3, 1)
	p.Tree = model.Hierarchy{Branches: []model.Hierarchy{{}, model.FlatHierarchy(2)}}
	p.Regressors, p.Gating, p.Sigma[0] = []float64{1, 2, 3}, []float64{-1, 2}, 0.5
	m.SetParams(p)
	return m
}

func TestTruthFile(t *testing.T) {
	p := model.NewParams(2, 3)
	copy(p.Regressors, []float64{1, 0, 0, 0, 1, 0})
	copy(p.Gating, []float64{0, 0, 1})
	p.Sigma[0] = 0.05
	truth := NewTruth(stated.Activation{Name: "relu", Params: map[string]float64{}}, p)
	path := filepath.Join(t.TempDir(), "truth.json")
	if err := truth.Write(t.Context(), path); err != nil {
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
	if err != nil || r != (fitted.Recovery{}) {
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

// TestTreeTruth: truth files of trees say so in their format, and those of flat mixtures
// have none, as ever.
func TestTreeTruth(t *testing.T) {
	m := tree()
	truth := NewTruth(stated.Activation{}, m.Params(), m.Leaves...)
	path := filepath.Join(t.TempDir(), "t.json")
	if err := truth.Write(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	back, err := ReadReference(path, []string{"x"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m.Params(), back.Params); diff != "" || !back.Same(m.Activation, m.Leaves) {
		t.Errorf("%v, %s", back.Leaves, diff)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flat := strings.Replace(string(text), `"format": "moe-truth/v2",`, "", 1)
	if err := os.WriteFile(path, []byte(flat), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadReference(path, []string{"x"}); err == nil || !strings.Contains(err.Error(), `want "moe-truth/v2"`) {
		t.Errorf("a tree in a truth file without a format: error %v", err)
	}
	p := m.Params()
	p.Tree = model.Hierarchy{}
	if f := NewTruth(stated.Activation{Name: "tanh"}, p).Format; f != "" {
		t.Errorf("the format of a flat truth is %q", f)
	}
}

// TestCompareTrees: trees of different shapes do not compare.
func TestCompareTrees(t *testing.T) {
	m := tree()
	p := m.Params()
	p.Tree = model.Hierarchy{}
	if _, err := Compare(m.Params(), p); err == nil || err.Error() != "the model is the tree 2x(1,2), the truth 3" {
		t.Errorf("error %v", err)
	}
	if r, err := Compare(m.Params(), m.Params(), m.Leaves...); err != nil || r.EReg != 0 || r.EGating != 0 {
		t.Errorf("%+v, error %v", r, err)
	}
}

// TestSmallTruths: what fuzzing begins with is read, so that it gets behind the first check.
func TestSmallTruths(t *testing.T) {
	for _, text := range []string{smallTreeTruth, smallTruth} {
		file := fittedtest.NewContent(t)
		file.Write(t, []byte(text))
		if _, err := ReadTruth(string(file)); err != nil {
			t.Error(err)
		}
	}
}

// FuzzTruth looks for content that is read as true parameters and is none.
func FuzzTruth(f *testing.F) {
	f.Add([]byte(smallTreeTruth))
	f.Add([]byte(smallTruth))
	file := fittedtest.NewContent(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		file.Write(t, data)
		truth, err := ReadTruth(string(file))
		if err != nil {
			fittedtest.OnlyDataErrors(t, err)
			return
		}
		fittedtest.Whole(t, truth.Params())
		if err := truth.Write(t.Context(), string(file)); err != nil {
			t.Fatalf("read and not written: %v", err)
		}
		if _, err := ReadTruth(string(file)); err != nil {
			t.Errorf("written and not read: %v", err)
		}
		if _, err := Compare(truth.Params(), truth.Params()); err != nil {
			t.Error(err)
		}
	})
}

// pair is a model of two targets.
func pair() *fitted.Vector {
	a, b := tree(), tree()
	b.Target = "z"
	v := fitted.NewVector([]*fitted.Model{a, b})
	for j := range v.Outputs {
		v.Outputs[j].Fit = nil
	}
	return v
}

// FuzzReference looks for a model, of one target or of several, whose parameters are not read as those of a table with
// its features.
func FuzzReference(f *testing.F) {
	for _, m := range []interface{ JSON() ([]byte, error) }{tree(), pair()} {
		text, err := m.JSON()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	file := fittedtest.NewContent(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		file.Write(t, data)
		if m, err := fitted.Read(string(file)); err == nil {
			r, err := ReadReference(string(file), m.Features)
			if err != nil {
				t.Fatal(err)
			}
			fittedtest.Whole(t, r.Params)
		}
		v, err := fitted.ReadVector(string(file))
		if err != nil {
			return
		}
		var targets []string
		for _, o := range v.Outputs {
			targets = append(targets, o.Target)
		}
		all, err := ReadReferences(string(file), v.Features, targets)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			if r.Params.Sigma != nil { // else its mean is all there is
				fittedtest.Whole(t, r.Params)
			}
			if _, err := Compare(r.Params, r.Params, r.Leaves...); err != nil {
				t.Error(err)
			}
		}
	})
}
