package fitted

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
)

func vector() *Vector {
	return &Vector{
		Format: FormatV2, Hierarchy: "2x(1,2)", K: 3, D: 1, Features: []string{"x"},
		Leaves:  []stated.Activation{{Name: "identity"}, {Name: "tanh"}, {Name: "tanh"}},
		Outputs: []Output{NewOutput("y", model.NewParams(3, 1)), NewOutput("z", model.NewParams(3, 1))},
	}
}

// TestVectorFaults: what is wrong with a model of several targets is said, in a file
// and before one is written.
func TestVectorFaults(t *testing.T) {
	if err := vector().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*Vector){
		`format is "moe-model/v1", want "moe-model/v2"`:           func(v *Vector) { v.Format = Format },
		`hierarchy "2x(": character 4: want a number of branches`: func(v *Vector) { v.Hierarchy = "2x(" },
		"k = 2 and 3 leaves, want the 3 of the hierarchy 2x(1,2)": func(v *Vector) { v.K = 2 },
		"k = 3 and 2 leaves, want the 3 of the hierarchy 2x(1,2)": func(v *Vector) { v.Leaves = v.Leaves[1:] },
		"features has 1 names, want d = 2":                        func(v *Vector) { v.D = 2 },
		"there are no outputs":                                    func(v *Vector) { v.Outputs = nil },
		"activation.name is missing":                              func(v *Vector) { v.Leaves[1].Name = "" },
		`outputs[1].target = "y" is empty or named twice`:         func(v *Vector) { v.Outputs[1].Target = "y" },
		`outputs[0].target = "x" is empty or named twice`:         func(v *Vector) { v.Outputs[0].Target = "x" },
		"outputs[1].gating has 1 rows, want 2":                    func(v *Vector) { v.Outputs[1].Gating = v.Outputs[1].Gating[:1] },
		"outputs[0].sigma = -1, want a finite number above 0":     func(v *Vector) { v.Outputs[0].Sigma = Sigma{-1} },
	} {
		v := vector()
		spoil(v)
		if err := v.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		path := filepath.Join(t.TempDir(), "v.json")
		if err := v.Write(t.Context(), path); err == nil {
			t.Errorf("%s: written", want)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: a file is left", want)
		}
	}
}
