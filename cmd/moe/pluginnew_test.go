package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
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
