package atomicfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var errDisk = errors.New("the disk has failed")

// failNth lets the n-th operation fail, counted from 1; done says whether it came
// to that. Operations is what there was to count.
func failNth(t *testing.T, n int) (operations *[]Op) {
	t.Helper()
	operations = new([]Op)
	t.Cleanup(Fault(func(op Op, _ string) error {
		*operations = append(*operations, op)
		if len(*operations) == n {
			return errDisk
		}
		return nil
	}))
	return operations
}

// pair writes two files that belong together.
func pair(dir string) error {
	var files []*File
	for _, name := range []string{"a", "b"} {
		f, err := Create(context.Background(), filepath.Join(dir, name))
		if err != nil {
			return err
		}
		defer f.Discard()
		if _, err := f.Write([]byte("new " + name)); err != nil {
			return err
		}
		files = append(files, f)
	}
	return CommitAll(files...)
}

// Whatever operation fails, both files are new or both are as they were, those
// that were not there among them; nothing else is left.
func TestCommitAllOrNone(t *testing.T) {
	for _, old := range [][]string{{}, {"a"}, {"b"}, {"a", "b"}} {
		for n := 1; ; n++ {
			dir := t.TempDir()
			for _, name := range old {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("old "+name), 0o640); err != nil {
					t.Fatal(err)
				}
			}
			operations := failNth(t, n)
			err := pair(dir)
			if len(*operations) < n {
				if err != nil || content(t, filepath.Join(dir, "a")) != "new a" || content(t, filepath.Join(dir, "b")) != "new b" {
					t.Fatalf("nothing failed: %v", err)
				}
				expect(t, dir, "a b")
				if n < 10 {
					t.Errorf("only %d operations: %v", n-1, *operations)
				}
				break
			}
			what := fmt.Sprintf("old %v, operation %d (%s)", old, n, (*operations)[n-1])
			if !errors.Is(err, errDisk) {
				t.Errorf("%s: error %v", what, err)
			}
			expect(t, dir, strings.Join(old, " "))
			for _, name := range old {
				if got := content(t, filepath.Join(dir, name)); got != "old "+name {
					t.Errorf("%s: %s holds %q", what, name, got)
				}
			}
		}
	}
}

// A file that was ended meanwhile takes the others with it.
func TestCommitAllAfterDiscard(t *testing.T) {
	dir := t.TempDir()
	a, err := Create(context.Background(), filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Create(context.Background(), filepath.Join(dir, "b"))
	if err != nil {
		t.Fatal(err)
	}
	b.Discard()
	if err := CommitAll(a, b); err == nil {
		t.Error("no error")
	}
	expect(t, dir, "")
}

// A tree is whole or not there.
func TestWriteTree(t *testing.T) {
	files := []TreeFile{{"one", []byte("1"), 0o644}, {"two", []byte("2"), 0o755}}
	for n := 1; ; n++ {
		dir := t.TempDir()
		operations := failNth(t, n)
		err := WriteTree(filepath.Join(dir, "tree"), files)
		if len(*operations) >= n {
			if !errors.Is(err, errDisk) {
				t.Errorf("operation %d (%s): error %v", n, (*operations)[n-1], err)
			}
			expect(t, dir, "")
			continue
		}
		if err != nil || n < 10 {
			t.Fatalf("nothing failed: %v after %v", err, *operations)
		}
		expect(t, filepath.Join(dir, "tree"), "one two")
		info, err := os.Stat(filepath.Join(dir, "tree", "two"))
		if err != nil || info.Mode().Perm()&0o700 != 0o700 || content(t, filepath.Join(dir, "tree", "one")) != "1" {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		var exists *CreateError
		if err := WriteTree(filepath.Join(dir, "tree"), files); !errors.As(err, &exists) {
			t.Errorf("a second time: %v", err)
		}
		return
	}
}
