package pluginproc

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gatedlearning/moe/internal/pluginproc/plugintest"
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

// TestSealGivesUp: a copy of which somebody keeps hold of a page is refused after two seconds, with the kernel's word.
func TestSealGivesUp(t *testing.T) {
	t.Parallel()
	f, err := sandbox.Executable("moe-test", []byte("a plugin"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	held, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(held)
	plugintest.Within(t, "sealing", func() {
		if err := seal(f); err != unix.EBUSY {
			t.Errorf("sealing: %v, want EBUSY", err)
		}
	})
}

// TestCopyIsBounded: as many bytes as are allowed are copied, and one more is too many, whatever a file's size
// was said to be before it was read.
func TestCopyIsBounded(t *testing.T) {
	f, err := sealedCopy(strings.NewReader("a plugin"), 8)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := make([]byte, 9)
	if n, err := f.ReadAt(got, 0); string(got[:n]) != "a plugin" || err != io.EOF {
		t.Errorf("%q, %v", got[:n], err)
	}
	if f, err := sealedCopy(strings.NewReader("a plugin!"), 8); err != errTooLarge {
		t.Errorf("nine bytes of eight: %v, %v", f, err)
	}
}

// TestTooLargeUnread: a file that is too large is refused by its size, before any of it is read.
func TestTooLargeUnread(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "plugin"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(3 << 30); err != nil {
		t.Fatal(err)
	}
	if _, err := NewImage(f); err == nil || err.Error() != "it has 3072 MiB, and 1024 are allowed" {
		t.Errorf("%v", err)
	}
	if at, err := f.Seek(0, io.SeekCurrent); at != 0 || err != nil {
		t.Errorf("%d bytes were read, %v", at, err)
	}
}

// TestImageIsSealed: what was hashed stays what it is, whatever is done to the file that it was copied from or
// to the copy itself.
func TestImageIsSealed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(path, []byte("as it was hashed"), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := NewImage(f)
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	if err := os.WriteFile(path, []byte("something else!!"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"written": func() error { _, err := img.file.WriteAt([]byte("x"), 0); return err }(), "cut": img.file.Truncate(1), "made longer": img.file.Truncate(1 << 20),
		"mapped": func() error {
			_, err := unix.Mmap(int(img.file.Fd()), 0, 16, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			return err
		}(),
	} {
		if !errors.Is(err, unix.EPERM) {
			t.Errorf("it can be %s: %v", name, err)
		}
	}
	head, err := img.Head()
	if sum := sha256.Sum256([]byte("as it was hashed")); err != nil || string(head) != "as it was hashed" || img.SHA256() != hex.EncodeToString(sum[:]) {
		t.Errorf("%q, %s, %v", head, img.SHA256(), err)
	}
}
