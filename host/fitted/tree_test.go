package fitted

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
)

func tree() *Model {
	m := &Model{
		Format: FormatV2, Activation: stated.Activation{Name: stated.Mixed, Params: map[string]float64{}},
		Leaves:   []stated.Activation{{Name: "identity", Params: map[string]float64{}}, {Name: "tanh", Params: map[string]float64{}}, {Name: "tanh", Params: map[string]float64{}}},
		Features: []string{"x"}, Target: "y", Proportions: []float64{0.5, 0.25, 0.25}, Fit: Fit{N: 1},
	}
	p := model.NewParams(3, 1)
	p.Tree = model.Hierarchy{Branches: []model.Hierarchy{{}, model.FlatHierarchy(2)}}
	p.Regressors, p.Gating, p.Sigma[0] = []float64{1, 2, 3}, []float64{-1, 2}, 0.5
	m.SetParams(p)
	return m
}

// TestTreeFile: a tree's file gives back its parameters, and what does not go together in
// it is said.
func TestTreeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.json")
	if err := tree().Write(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	back, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tree().Params(), back.Params()); diff != "" || back.Hierarchy != "2x(1,2)" {
		t.Errorf("hierarchy %q, %s", back.Hierarchy, diff)
	}
	for want, spoil := range map[string]func(*Model){
		`format is "moe-model/v1", want "moe-model/v2"`:         func(m *Model) { m.Format = Format },
		`hierarchy "2x(": character 4: want a number`:           func(m *Model) { m.Hierarchy = "2x(" },
		"k = 3, the hierarchy 2x2 has 4 leaves":                 func(m *Model) { m.Hierarchy = "2x2" },
		"leaves has 2 activations, want k = 3":                  func(m *Model) { m.Leaves = m.Leaves[1:] },
		`activation.name is "tanh" beside leaves, want "mixed"`: func(m *Model) { m.Activation.Name = "tanh" },
		`leaves: activation.name "/bin/sh"`:                     func(m *Model) { m.Leaves[1].Name = "/bin/sh" },
	} {
		m := tree()
		spoil(m)
		if err := m.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
