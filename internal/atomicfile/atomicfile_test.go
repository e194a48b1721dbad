package atomicfile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// entries lists a directory.
func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func expect(t *testing.T, dir, want string) {
	t.Helper()
	if got := strings.Join(entries(t, dir), " "); got != want {
		t.Errorf("files %q, want %q", got, want)
	}
}

// await waits until dir holds no more than n files; go test ends a wait that
// is in vain.
func await(t *testing.T, dir string, n int) {
	t.Helper()
	for len(entries(t, dir)) > n {
		time.Sleep(time.Millisecond)
	}
}

func TestCommitReplaces(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	if err := os.WriteFile(path, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	f, err := Create(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("new")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("N"), 0); err != nil {
		t.Fatal(err)
	}
	if got := content(t, path); got != "old" {
		t.Errorf("before Commit: %q", got)
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	f.Discard()
	if got := content(t, path); got != "New" {
		t.Errorf("after Commit: %q", got)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v: want the old file's", info.Mode(), err)
	}
	expect(t, dir, "out")
	if err := f.Commit(); err == nil {
		t.Error("a second Commit succeeds")
	}
}

func TestDiscardAndCancelLeaveWhatWas(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	if err := WriteFile(context.Background(), path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	f, err := Create(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	f.Write([]byte("new"))
	f.Discard()
	expect(t, dir, "out")

	cause := errors.New("cause")
	ctx, cancel := context.WithCancelCause(context.Background())
	f, err = Create(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	f.Write([]byte("new"))
	cancel(cause)
	await(t, dir, 1) // the file goes without anyone's doing
	if _, err := f.Write([]byte("more")); !errors.Is(err, cause) {
		t.Errorf("Write: error %v", err)
	}
	if err := f.Commit(); !errors.Is(err, cause) {
		t.Errorf("Commit: error %v", err)
	}
	if got := content(t, path); got != "old" {
		t.Errorf("content %q", got)
	}
	if _, err := Create(ctx, path); err == nil {
		await(t, dir, 1)
	}
}

func TestCannotCreate(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := WriteFile(context.Background(), file, nil); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "missing", "out"), filepath.Join(file, "out"), dir, ""} {
		var fault *CreateError
		if err := Check(path); !errors.As(err, &fault) {
			t.Errorf("%s: error %v", path, err)
		} else if strings.Contains(err.Error(), ".tmp") {
			t.Errorf("%s: error %v names the temporary file", path, err)
		}
	}
	expect(t, dir, "file")
	if err := Check(filepath.Join(dir, "out")); err != nil {
		t.Error(err)
	}
	expect(t, dir, "file")
}

func TestSymbolicLinksStay(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := WriteFile(context.Background(), target, []byte("old")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("target", link); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	if err := WriteFile(context.Background(), link, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Error("the link was replaced by a file")
	}
	if got := content(t, target); got != "new" {
		t.Errorf("target holds %q", got)
	}
}

func TestDevicesAreWrittenInPlace(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	if err := WriteFile(context.Background(), os.DevNull, []byte("x")); err != nil {
		t.Error(err)
	}
	var fault *WriteError
	if err := WriteFile(context.Background(), "/dev/full", []byte("x")); !errors.As(err, &fault) {
		t.Errorf("a full device: error %v", err)
	}
}
