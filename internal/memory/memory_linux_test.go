package memory

import (
	"os"
	"path/filepath"
	"testing"
)

// The tightest group above the process decides, with the pages that it could
// give back.
func TestGroups(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	membership := filepath.Join(root, "cgroup")
	if got := ofGroups(membership, root); got != unknown {
		t.Errorf("no groups: %v", got)
	}
	write("cgroup", "1:name=systemd:/x\n0::/a/b\n")
	if got := ofGroups(membership, root); got != unknown {
		t.Errorf("no limits: %v", got)
	}
	write("a/b/memory.max", "max\n")
	write("a/b/memory.current", "1000\n")
	if got := ofGroups(membership, root); got != unknown {
		t.Errorf("limit max: %v", got)
	}
	write("a/memory.max", "5000\n")
	write("a/memory.current", "3000\n")
	write("a/memory.stat", "anon 1\ninactive_file 500\n")
	if got := ofGroups(membership, root); got != 2500 {
		t.Errorf("limit 5000, used 3000 of which 500 can go: %v, want 2500", got)
	}
	write("a/b/memory.max", "1500\n")
	if got := ofGroups(membership, root); got != 500 {
		t.Errorf("the inner limit: %v, want 500", got)
	}
}

// The machine has some memory, and not all that can be asked for.
func TestAvailable(t *testing.T) {
	if have := available(); !(have > 0 && have < 1<<50) {
		t.Errorf("%v bytes are available", have)
	}
	if ofMachine() == unknown {
		t.Error("the machine does not tell")
	}
}
