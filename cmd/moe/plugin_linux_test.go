package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/internal/pluginproc/plugintest"
)

// TestPluginScripts runs the scripts in testdata/plugin. They find the binaries
// of the plugins relu, leakyrelu and smoothrelu in their work directory, and plugins of
// activations that are even, constant, constant on most of the line, and wrong about their derivative; and this checkout
// at $CHECKOUT; the condition [python-grpc] holds where Debian's python3 has
// what a plugin in Python needs.
func TestPluginScripts(t *testing.T) {
	built := builtPlugins(t, "relu", "leakyrelu", "smoothrelu")
	modes, err := plugintest.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"even", "constant", "flat", "lies-derivative"} {
		if err := os.Link(modes, filepath.Join(built, "plugin-"+mode)); err != nil {
			t.Fatal(err)
		}
	}
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	// Linking takes half the time without debug information, and packages that do not know the directory
	// of a script are compiled once for all runs.
	goEnv := []string{"GOPROXY=off", "GOFLAGS=-trimpath -ldflags=-w"}
	if set, ok := os.LookupEnv("GOGC"); ok {
		goEnv = append(goEnv, "GOGC="+set)
	}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOTOOLCHAIN"} {
		value, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		goEnv = append(goEnv, name+"="+strings.TrimSpace(string(value)))
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/plugin",
		Setup: func(env *testscript.Env) error {
			env.Setenv("MOE_CONFIG_DIR", filepath.Join(env.WorkDir, ".config"))
			env.Setenv("CHECKOUT", checkout)
			env.Vars = append(env.Vars, goEnv...)
			// Scripts compare the files before and after: a plugin is one of them.
			return links(env.WorkDir, built)
		},
		Condition: func(name string) (bool, error) {
			if name != "python-grpc" {
				return ifSlow(name)
			}
			return exec.Command("/usr/bin/python3", "-c", "import grpc, google.protobuf").Run() == nil, nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":   cmdExits,
			"refuses": cmdRefuses,
			"json":    cmdJSON,
			"schema":  cmdSchema,
			"replace": cmdReplace,
		},
	})
}

// links gives a directory what is in another, files by links to them.
func links(dir, from string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(from, path)
		switch {
		case err != nil || path == from:
			return err
		case e.IsDir():
			return os.Mkdir(filepath.Join(dir, name), 0o777)
		}
		return os.Link(path, filepath.Join(dir, name))
	})
}

func init() {
	// Whatever is done to a file or its entry sets its ctime, by a clock that ticks a
	// hundred times a second or more.
	unchanged = func(info fs.FileInfo) any {
		s := info.Sys().(*syscall.Stat_t)
		if time.Since(time.Unix(s.Ctim.Unix())) < time.Second {
			return nil
		}
		return [5]int64{int64(s.Dev), int64(s.Ino), s.Size, int64(s.Ctim.Sec), int64(s.Ctim.Nsec)}
	}
}

// TestPythonExample compares the part of the example in Python that speaks the
// protocol with what moe plugin new writes.
func TestPythonExample(t *testing.T) {
	project, err := (&newPluginFlags{name: "swish", lang: "python"}).project()
	if err != nil {
		t.Fatal(err)
	}
	files, err := project.render("python")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("../../examples/plugins/moe-plugin-swish")
	if err != nil {
		t.Fatal(err)
	}
	const begin = "# What follows speaks the protocol"
	for _, f := range files {
		if f.Name != project.File {
			continue
		}
		_, want, ok := strings.Cut(string(f.Data), begin)
		_, got, _ := strings.Cut(string(example), begin)
		if !ok || got != want {
			t.Errorf("examples/plugins/moe-plugin-swish differs from the template after %q: copy it from there", begin)
		}
		return
	}
	t.Fatalf("no %s among the files", project.File)
}

// TestInterruptPlugin interrupts the command while a plugin hangs at its start:
// the command ends with the signal's code, the plugin and its child end with
// it, and nothing has been recorded as trusted.
func TestInterruptPlugin(t *testing.T) {
	dir := t.TempDir()
	long := fmt.Sprintf("%d.5", 1000+os.Getpid()) // which nobody else sleeps
	script := "#!/bin/sh\nsleep " + long + " &\nwait\n"
	if err := os.WriteFile(filepath.Join(dir, "hangs"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd, stderr := command(t, dir, "plugin", "trust", "./hangs")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child := func() bool {
		for _, line := range plugintest.Processes() {
			if line == "sleep\x00"+long+"\x00" {
				return true
			}
		}
		return false
	}
	waitFor(t, "the plugin's child", child)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := exitOf(cmd.Wait()); code != 130 {
		t.Errorf("exit code %d, want 130; stderr %q", code, stderr)
	}
	waitFor(t, "the end of the plugin's child", func() bool { return !child() })
	store, err := os.ReadFile(filepath.Join(dir, ".config", "trusted-plugins.json"))
	if err == nil && strings.Contains(string(store), "hangs") {
		t.Errorf("the store says %s", store)
	}
}

// BenchmarkPython measures the example in Python: a start with its end, a call
// with one value, and a large batch.
func BenchmarkPython(b *testing.B) {
	if exec.Command("/usr/bin/python3", "-c", "import grpc, google.protobuf").Run() != nil {
		b.Skip("no python3-grpcio")
	}
	script, err := os.ReadFile("../../examples/plugins/moe-plugin-swish")
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "moe-plugin-swish")
	if err := os.WriteFile(path, script, 0o755); err != nil {
		b.Fatal(err)
	}
	c := catalog.Catalog{Dir: b.TempDir(), RunUntrusted: true}
	open := func(b *testing.B) *catalog.Plugin {
		p, err := c.Open(b.Context(), path, nil)
		if err != nil {
			b.Fatal(err)
		}
		return p
	}
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			open(b).Close()
		}
	})
	for _, n := range []int{1, 1 << 16} {
		b.Run(fmt.Sprintf("eval-%d", n), func(b *testing.B) {
			p := open(b)
			defer p.Close()
			z, dst := make([]float64, n), make([]float64, n)
			for b.Loop() {
				if err := p.Activation.Eval(b.Context(), dst, z); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mvalues/s")
		})
	}
}
