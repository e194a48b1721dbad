package pluginproc

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gatedlearning/moe/internal/sandbox"
)

// TestSealWaits: a copy of which somebody has hold of a page is sealed when that is let go, and
// then cannot be written.
func TestSealWaits(t *testing.T) {
	f, err := sandbox.Executable("moe-test", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("a plugin"); err != nil {
		t.Fatal(err)
	}
	held, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); err != unix.EBUSY {
		t.Fatalf("sealing a page that is held: %v, want EBUSY", err)
	}
	free := make(chan error, 1)
	go func() {
		time.Sleep(60 * time.Millisecond)
		free <- unix.Munmap(held)
	}()
	if err := seal(f); err != nil {
		t.Errorf("sealing: %v", err)
	}
	if err := <-free; err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("b"), 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("writing to a sealed copy: %v, want EPERM", err)
	}
}
