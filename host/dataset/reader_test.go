package dataset

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSeekersAreReadAgain: what can be rewound is a source like any other, in
// every format, from where it stood.
func TestSeekersAreReadAgain(t *testing.T) {
	column, err := os.ReadFile("testdata/fortran.npy")
	if err != nil {
		t.Fatal(err)
	}
	array, err := os.ReadFile("testdata/v1.npy")
	if err != nil {
		t.Fatal(err)
	}
	const before = "what the caller has read"
	for name, content := range map[string][]byte{
		"data.csv":   []byte("x,y\n" + strings.Repeat("1,2\n3,4\n", 400)),
		"data.npy":   array,
		"column.npy": column,
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, content, 0o666); err != nil {
			t.Fatal(err)
		}
		src, err := Open(path, Selection{})
		if err != nil {
			t.Fatal(err)
		}
		want, err := readAll(src)
		if err != nil {
			t.Fatal(err)
		}
		all := append([]byte(before), content...)
		if err := os.WriteFile(path, all, 0o666); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for kind, r := range map[string]io.ReadSeeker{
			"bytes.Reader": bytes.NewReader(all),
			"os.File":      f,
			"seeker":       struct{ io.ReadSeeker }{bytes.NewReader(all)}, // and no io.ReaderAt
		} {
			if _, err := io.CopyN(io.Discard, r, int64(len(before))); err != nil {
				t.Fatal(err)
			}
			src, err := NewReader(name, r, Selection{})
			if err != nil {
				t.Errorf("%s from a %s: %v", name, kind, err)
				continue
			}
			for pass := range 3 {
				got, err := readAll(src)
				if err != nil {
					t.Errorf("%s from a %s, pass %d: %v", name, kind, pass, err)
				} else if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s from a %s, pass %d: %s", name, kind, pass, diff)
				}
			}
		}
	}
}

// TestPipesAreReadOnce: a pipe is an os.File too, and does not seek.
func TestPipesAreReadOnce(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		defer w.Close()
		io.WriteString(w, "x,y\n1,2\n")
	}()
	src, err := NewReader("stdin", r, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readAll(src); err != nil || len(got.Rows) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	_, err = readAll(src)
	if fault := (*Error)(nil); !errors.As(err, &fault) || !strings.Contains(err.Error(), "stdin: a stream can be read only once; write it to a file") {
		t.Errorf("second pass: error %v", err)
	}
}
