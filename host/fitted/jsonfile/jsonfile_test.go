package jsonfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/dataset"
)

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestHead: files are told apart by their format and whether they have outputs; what is no JSON object is a fault of
// the file.
func TestHead(t *testing.T) {
	for text, want := range map[string]Head{
		`{"k": 2}`: {}, `{"format": "moe-model/v1", "later": 1}`: {Format: "moe-model/v1"},
		` {"outputs": [], "format": "moe-model/v2"}`: {"moe-model/v2", true},
	} {
		if _, got, err := OpenHead(file(t, text)); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x,y\n1,2\n", "[1]", `{"format": "a"} {}`, `{"format": "a", "format": "b"}`} {
		path := file(t, text)
		_, _, err := OpenHead(path)
		if bad := (*dataset.Error)(nil); !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), path) {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

// TestSized: sizes that a file is too short for are refused, and members that nobody reads are named.
func TestSized(t *testing.T) {
	type sized struct {
		K int `json:"k"`
		D int `json:"d"`
	}
	read := func(text string) (unknown []string, err error) {
		var v sized
		return Read(file(t, text), func(f *File) ([]string, error) {
			return f.Sized(&v, func() (k, d int) { return v.K, v.D })
		})
	}
	if unknown, err := read(`{"k": 2, "d": 3, "z": 1}`); err != nil || len(unknown) != 1 || unknown[0] != "z" {
		t.Errorf("%v, error %v", unknown, err)
	}
	if _, err := read(`{"k": 2, "d": 300}`); err == nil || !strings.Contains(err.Error(), "have no room for k times d numbers") {
		t.Errorf("error %v", err)
	}
}

// TestIndent: the innermost lists stand on one line, whatever brackets stand in their words.
func TestIndent(t *testing.T) {
	got, err := Indent(map[string]any{"a": [][]any{{1, 2.5}, {"x], [\"y"}}, "b": []any{}, "c": []any{map[string]any{"d": 1}}})
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "a": [
    [1, 2.5],
    ["x], [\"y"]
  ],
  "b": [],
  "c": [
    {
      "d": 1
    }
  ]
}
`
	if string(got) != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
