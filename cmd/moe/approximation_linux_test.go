package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/internal/pluginproc/plugintest"
)

// TestApproximationScripts runs the scripts in testdata/approximation. They find
// the binaries of the plugins smoothrelu, leakyrelu and sigmoid in their work
// directory, and have one more command:
//
//	parameters MODEL MODEL BOUND  the two models' parameters differ by at most BOUND
//	values FILE                   takes the values of the activation out of the file
func TestApproximationScripts(t *testing.T) {
	built := builtPlugins(t, "smoothrelu", "leakyrelu", "sigmoid")
	buildAnother(t, filepath.Join(built, "another"))
	testscript.Run(t, testscript.Params{
		Dir: "testdata/approximation",
		Setup: func(env *testscript.Env) error {
			env.Setenv("MOE_CONFIG_DIR", filepath.Join(env.WorkDir, ".config"))
			return links(env.WorkDir, built)
		},
		Condition: ifSlow,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":      cmdExits,
			"refuses":    cmdRefuses,
			"json":       cmdJSON,
			"replace":    cmdReplace,
			"likelihood": cmdLikelihood,
			"parameters": cmdParameters,
			"values":     cmdValues,
			"schema":     cmdSchema,
		},
	})
}

// pluginsBuilt is a directory with the plugins of [builtPlugins].
var pluginsBuilt = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "plugins")
	if err != nil {
		return "", err
	}
	atExit = append(atExit, func() { os.RemoveAll(dir) })
	for _, of := range []string{"plugins/relu/moe-plugin-relu", "plugins/leakyrelu/moe-plugin-leakyrelu", "plugins/sigmoid/moe-plugin-sigmoid", "examples/plugins/moe-plugin-smoothrelu"} {
		if err := plugintest.Program("github.com/gatedlearning/moe/"+of, filepath.Join(dir, filepath.Base(of))); err != nil {
			return "", err
		}
	}
	return dir, nil
})

// builtPlugins returns a directory of the test's own with plugins, moe-plugin-NAME each.
// They are links: what changes them copies them first.
func builtPlugins(t *testing.T, names ...string) (dir string) {
	t.Helper()
	from, err := pluginsBuilt()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for _, name := range names {
		if err := os.Link(filepath.Join(from, "moe-plugin-"+name), filepath.Join(dir, "moe-plugin-"+name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// buildAnother builds a plugin that calls itself smoothrelu, of the same version, and
// is another function by one part in ten million.
func buildAnother(t *testing.T, dir string) {
	t.Helper()
	source, err := filepath.Abs("../../examples/plugins/moe-plugin-smoothrelu/main.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	other := strings.ReplaceAll(string(text), "beta := p[\"beta\"]", "beta := p[\"beta\"] * (1 + 1e-7)")
	if other == string(text) {
		t.Fatal("the edit changes nothing")
	}
	work := t.TempDir()
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{source: filepath.Join(work, "main.go")}})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"main.go": []byte(other), "overlay.json": overlay} {
		if err := os.WriteFile(filepath.Join(work, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	err = plugintest.Program("github.com/gatedlearning/moe/examples/plugins/moe-plugin-smoothrelu", filepath.Join(dir, "moe-plugin-smoothrelu"), "-overlay="+filepath.Join(work, "overlay.json"))
	if err != nil {
		t.Fatal(err)
	}
}

// cmdValues takes the values of the activation out of a file.
func cmdValues(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 1, "values FILE")
	edit(ts, args[0], func(data []byte) []byte {
		var file map[string]any
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		ts.Check(dec.Decode(&file))
		named := file["activation"].(map[string]any)
		if named["values"] == nil {
			ts.Fatalf("%s has no values", args[0])
		}
		delete(named, "values")
		data, err := json.Marshal(file)
		ts.Check(err)
		return data
	})
}

func cmdParameters(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 3, "parameters MODEL MODEL BOUND")
	bound, err := strconv.ParseFloat(args[2], 64)
	ts.Check(err)
	a, err := fitted.Read(ts.MkAbs(args[0]))
	ts.Check(err)
	b, err := fitted.Read(ts.MkAbs(args[1]))
	ts.Check(err)
	p, q := a.Params(), b.Params()
	for _, pair := range [][2][]float64{{p.Regressors, q.Regressors}, {p.Gating, q.Gating}, {p.Sigma, q.Sigma}} {
		for i, v := range pair[0] {
			if !(math.Abs(v-pair[1][i]) <= bound) {
				ts.Fatalf("parameters %v and %v, further apart than %v", v, pair[1][i], bound)
			}
		}
	}
}
