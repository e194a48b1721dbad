package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestPluginScripts runs the scripts in testdata/plugin. They find the binaries
// of the plugins relu and leakyrelu in their work directory.
func TestPluginScripts(t *testing.T) {
	built := t.TempDir()
	const plugins = "github.com/gatedlearning/moe/plugins"
	build := exec.Command("go", "build", "-o", built,
		plugins+"/relu/moe-plugin-relu", plugins+"/leakyrelu/moe-plugin-leakyrelu")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/plugin",
		Setup: func(env *testscript.Env) error {
			env.Setenv("MOE_CONFIG_DIR", filepath.Join(env.WorkDir, ".config"))
			// Scripts compare the files before and after: a plugin is one of them.
			return os.CopyFS(env.WorkDir, os.DirFS(built))
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":   cmdExits,
			"refuses": cmdRefuses,
			"json":    cmdJSON,
			"replace": cmdReplace,
		},
	})
}
