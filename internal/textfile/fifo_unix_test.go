//go:build unix

package textfile

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A pipe that nobody writes to does not keep anyone waiting.
func TestFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := Read(f, 10, anything); err != nil || len(got) > 0 {
		t.Errorf("%q, %v", got, err)
	}
	if f, err := Regular(path); err == nil {
		f.Close()
		t.Error("a pipe is a regular file")
	}
}
