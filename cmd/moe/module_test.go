package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/internal/testslow"
)

// TestModuleLanguages builds what moe plugin new writes for every language of modules by the command in its
// README, and fits with it. A language whose compiler is not there is skipped.
func TestModuleLanguages(t *testing.T) {
	testslow.Mark(t)
	dir := t.TempDir()
	moe, err := exec.LookPath("moe") // the one of the scripts
	if err != nil {
		t.Fatal(err)
	}
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

			// With parameters, at their defaults and given, it is the function that its comment says.
			name += "-p"
			run(t, dir, moe, append([]string{"plugin", "new", name, "--lang", c.lang, "--param", "slope=0.25,0,1", "--param", "tilt=2"}, c.flags...)...)
			project = filepath.Join(dir, "moe-plugin-"+name)
			run(t, project, "sh", "-c", strings.ReplaceAll(build, "soft-"+c.lang, name))
			if out := run(t, project, moe, "plugin", "verify", "./"+name+".wasm"); !strings.Contains(out, "All checks passed.") || !strings.Contains(out, "(slope=1, tilt=2)") {
				t.Error(out)
			}
			for given, linear := range map[string]string{"slope=0.25": "2.25", "slope=1": "3"} {
				draw := []string{"--k", "2", "--d", "3", "--n", "50"}
				run(t, project, moe, append([]string{"sample", "./" + name + ".wasm", "--param", given, "-o", "got.csv"}, draw...)...)
				run(t, project, moe, append([]string{"sample", "expr: z/(1 + abs(z)) + " + linear + "*z", "-o", "want.csv"}, draw...)...)
				if got, want := lastColumn(t, project, "got.csv"), lastColumn(t, project, "want.csv"); len(want) != 50 || !floats.EqualApprox(got, want, 1e-12) {
					t.Errorf("%s: y = %v, want %v", given, got, want)
				}
			}
		})
	}
}

// lastColumn returns the last column of a CSV file with a head.
func lastColumn(t *testing.T, dir, name string) (out []float64) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		v, err := strconv.ParseFloat(line[strings.LastIndex(line, ",")+1:], 64)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// TestPythonParameters runs the head of what moe plugin new --lang python writes, which needs nothing that
// Python does not have itself.
func TestPythonParameters(t *testing.T) {
	if exec.Command("python3", "--version").Run() != nil {
		t.Skip("no python3")
	}
	project, err := (&newPluginFlags{name: "steep", lang: "python", params: []string{"slope=0.25,0,1", "tilt=2"}}).project()
	if err != nil {
		t.Fatal(err)
	}
	files, err := project.render("python")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, strings.Replace(f.Name, project.File, "steep.py", 1)), f.Data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("python3", "-c", `
from steep import complete, derivative, g
print(complete({}), g(-1.0, complete({})), derivative(1.0, complete({"slope": 1.0})))
for wrong in {"slope": 1.5}, {"slope": float("nan")}, {"steep": 1.0}:
    try:
        print("taken", complete(wrong))
    except ValueError as error:
        print("refused")
`)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if want := "{'slope': 0.25, 'tilt': 2.0} -2.75 3.25\nrefused\nrefused\nrefused\n"; err != nil || string(out) != want {
		t.Errorf("%v, %q, want %q", err, out, want)
	}
}
