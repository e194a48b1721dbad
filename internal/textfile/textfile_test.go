package textfile

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func anything([]byte) error { return nil }

// TestMark leaves out what some editors begin a file with, there alone.
func TestMark(t *testing.T) {
	if got, err := Read(strings.NewReader("\ufeff{\ufeff}"), 100, anything); err != nil || string(got) != "{\ufeff}" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestRead(t *testing.T) {
	for _, n := range []int{0, 1, 511, 512, 513, readSize + 511, readSize + 512, readSize + 513, 3*readSize + 7} {
		text := strings.Repeat("x", n)
		got, err := Read(strings.NewReader(text), int64(n), func(head []byte) error {
			if want := text[:min(n, headSize)]; string(head) != want {
				t.Errorf("%d bytes: shown %d", n, len(head))
			}
			return nil
		})
		if err != nil || string(got) != text {
			t.Errorf("%d bytes: %d read, %v", n, len(got), err)
		}
		if n <= headSize { // the beginning is read in any case
			continue
		}
		if _, err := Read(strings.NewReader(text), int64(n-1), anything); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%d bytes, one more than allowed: %v", n, err)
		}
	}
	no := errors.New("no")
	if _, err := Read(strings.NewReader("x"), 10, func([]byte) error { return no }); err != no {
		t.Errorf("refused: %v", err)
	}
}

// zeros never ends; that it was asked for more than a little fails.
type zeros struct{ n int }

func (z *zeros) Read(p []byte) (int, error) {
	if z.n += len(p); z.n > 2*readSize {
		return 0, errors.New("read on and on")
	}
	clear(p)
	return len(p), nil
}

func TestNoText(t *testing.T) {
	for _, head := range []string{"", "{", strings.Repeat("{", headSize)} {
		if _, err := Read(io.MultiReader(strings.NewReader(head), new(zeros)), 1<<40, anything); !errors.Is(err, ErrNotText) {
			t.Errorf("after %d bytes: %v", len(head), err)
		}
	}
}

func TestRegular(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("text"), 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := Regular(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := Read(f, 10, anything); err != nil || !bytes.Equal(got, []byte("text")) {
		t.Errorf("%q, %v", got, err)
	}
	for _, path := range []string{dir, os.DevNull, filepath.Join(dir, "none")} {
		if f, err := Regular(path); err == nil {
			f.Close()
			t.Errorf("%s is opened", path)
		}
	}
}

// A sparse file of more than it may be is not read.
func TestSparse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sparse")
	if err := os.WriteFile(path, bytes.Repeat([]byte("{"), headSize), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Skip(err)
	}
	f, err := Regular(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := Read(f, 1<<30, anything); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v", err)
	}
}
