package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestModuleLanguages builds what moe plugin new writes for every language of modules by the command in its
// README, and fits with it. A language whose compiler is not there is skipped.
func TestModuleLanguages(t *testing.T) {
	dir := t.TempDir()
	moe := filepath.Join(dir, "moe")
	run := func(t *testing.T, in, name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = in
		cmd.Env = append(os.Environ(), "MOE_CONFIG_DIR="+filepath.Join(dir, "config"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run(t, ".", "go", "build", "-o", moe, ".")
	run(t, dir, moe, "sample", "--activation", "identity", "--k", "1", "--d", "3", "--n", "400", "-o", "data.csv")
	for _, c := range []struct {
		lang  string
		flags []string
		needs string // a command that says whether the compiler is there
	}{
		{"c", nil, "clang --version && wasm-ld --version"},
		{"rust", nil, "test -d $(rustc --print sysroot)/lib/rustlib/wasm32-unknown-unknown"},
		{"assemblyscript", nil, "npx --version"},
		{"go", []string{"--wasm"}, "go version"},
	} {
		t.Run(c.lang, func(t *testing.T) {
			t.Setenv("PATH", "/usr/bin:"+os.Getenv("PATH")) // Debian's rustc has the target
			if exec.Command("sh", "-c", c.needs).Run() != nil {
				t.Skipf("no %s for modules", c.lang)
			}
			name := "soft-" + c.lang
			run(t, dir, moe, append([]string{"plugin", "new", name, "--lang", c.lang}, c.flags...)...)
			project := filepath.Join(dir, "moe-plugin-"+name)
			readme, err := os.ReadFile(filepath.Join(project, "README.md"))
			if err != nil {
				t.Fatal(err)
			}
			_, block, _ := strings.Cut(string(readme), "\n    ")
			build, _, _ := strings.Cut(block, "\n")
			run(t, project, "sh", "-c", build)
			if out := run(t, project, moe, "plugin", "verify", "./"+name+".wasm"); !strings.Contains(out, "All checks passed.") {
				t.Error(out)
			}
			args := []string{"fit", "../data.csv", "--activation", "./" + name + ".wasm", "--k", "1", "-o", "model.json"}
			if c.lang != "go" { // 2 MB
				args = append(args, "--embed")
			}
			// The data are not of a softsign: the fit is what counts, not its verdict.
			cmd := exec.Command(moe, args...)
			cmd.Dir = project
			if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() > 1 {
				t.Errorf("%v: %s", err, out)
			}
			if _, err := os.Stat(filepath.Join(project, "model.json")); err != nil {
				t.Error(err)
			}
		})
	}
}
