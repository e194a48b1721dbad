package atomicfile

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUnnamed: where the file system has files without a name, what is written has none until it is whole.
func TestUnnamed(t *testing.T) {
	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Skipf("no files without a name in %s: %v", dir, err)
	}
	unix.Close(fd)
	f := openUnnamed(dir, 0o600)
	if f == nil {
		t.Fatal("it has a name")
	}
	defer f.Close()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
	path := filepath.Join(dir, "named")
	if err := name(f, path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if f := openUnnamed(filepath.Join(dir, "none"), 0o600); f != nil {
		t.Error("a file in a directory that there is not")
	}
}
