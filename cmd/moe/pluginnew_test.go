package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/internal/atomicfile"
)

// TestPublished: against what can a plugin be built without a checkout?
func TestPublished(t *testing.T) {
	const sum = "h1:MOvsFAJ1bNVjE8W8Sa4eSQbcBkMdYxyKEPK2Yd4vlsM="
	for _, c := range []struct {
		version, sum string
		want         bool
	}{
		{"v1.2.3", "", true},
		{"v0.1.0", "", true},
		{"v1.2.3-rc.1", "", true},
		{"v1.0.0-20260101", "", true}, // a tag that looks like a date
		{"", "", false},
		{"(devel)", "", false},
		{"v0.0.0-20261121184400-0123456789ab", "", false},
		{"v0.0.0-20261121184400-0123456789ab+dirty", "", false},
		{"v1.2.4-0.20261121184400-0123456789ab", "", false},
		{"v1.2.3-rc.1.0.20261121184400-0123456789ab", "", false},
		{"v1.2.3+dirty", "", false},
		{"v0.0.0-20261121184400-0123456789ab", sum, true}, // go install …@main
	} {
		if got := published(debug.Module{Version: c.version, Sum: c.sum}); got != c.want {
			t.Errorf("published(%q, sum %q) = %v", c.version, c.sum, got)
		}
	}
}

// TestNewFromClone runs moe plugin new of a build that the go command stamps
// with its commit, as it does in a clone: it does not write a project that
// requires a version that nobody can get.
func TestNewFromClone(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	if git, err := os.Stat("../../.git"); err != nil || !git.IsDir() {
		t.Skip("this is no clone: the go command stamps no worktree")
	}
	if tag, err := exec.Command("git", "tag", "--points-at", "HEAD").Output(); err != nil || len(tag) > 0 {
		t.Skipf("this commit has a tag: %s (%v)", tag, err)
	}
	dir := t.TempDir()
	moe := filepath.Join(dir, "moe")
	if out, err := exec.Command("go", "build", "-buildvcs=true", "-o", moe, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if version, err := exec.Command(moe, "version").Output(); err != nil || !strings.HasPrefix(string(version), "moe v0.0.0-") {
		t.Fatalf("the build is not stamped: %s, %v", version, err)
	}
	cmd := exec.Command(moe, "plugin", "new", "softsign")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if code := exitOf(err); code != exitUsage || !strings.Contains(string(out), "v0.0.0-") || !strings.Contains(string(out), "moe plugin new softsign --sdk ../moe") {
		t.Errorf("exit code %d, want %d: %s", code, exitUsage, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "moe-plugin-softsign")); err == nil {
		t.Error("there is a project")
	}
}

// TestReplace: go.mod leads to the checkout wherever that is.
func TestReplace(t *testing.T) {
	root := t.TempDir()
	here := filepath.Join(root, "here")
	for _, dir := range []string{here, filepath.Join(root, "moe"), filepath.Join(root, "my moe (2)"), filepath.Join(root, "far", "away")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"go.mod": "module github.com/gatedlearning/moe\n\ngo 1.26.0\n", "go.sum": ""} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	link := filepath.Join(root, "link")
	if err := os.Symlink(filepath.Join(root, "far", "away"), link); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct{ from, sdk, want string }{
		{here, "../moe", "../../moe"},
		{here, filepath.Join(root, "moe"), "../../moe"},
		{here, "../my moe (2)", "../../my moe (2)"},
		{here, ".", ".."},
		{link, filepath.Join(root, "moe"), filepath.Join(root, "moe")}, // ../moe is beside away
	} {
		t.Chdir(c.from)
		project, err := (&newPluginFlags{name: "softsign", lang: "go", sdk: c.sdk}).project()
		if err != nil {
			t.Fatal(err)
		}
		files, err := project.render("go")
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "project")
		t.Chdir(filepath.Dir(dir))
		if err := atomicfile.WriteTree("project", files); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("go", "mod", "edit", "-json", filepath.Join(dir, "go.mod")).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var mod struct {
			Replace []struct{ New struct{ Path string } }
		}
		if err := json.Unmarshal(out, &mod); err != nil || len(mod.Replace) != 1 {
			t.Fatalf("%v: %s", err, out)
		}
		if got := mod.Replace[0].New.Path; got != c.want {
			t.Errorf("from %s to %s: %q, want %q", c.from, c.sdk, got, c.want)
		}
	}
}
