package export

import (
	"bytes"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCells: text that stands for a missing cell is NULL where SQLite has columns of text, and the module in Python
// names a column of another length.
func TestCells(t *testing.T) {
	if err := exec.Command(systemPython, "-c", "import numpy").Run(); err != nil {
		t.Skip("no python3 with numpy")
	}
	dir := t.TempDir()
	m := mixtureOf(rand.New(rand.NewPCG(37, 3)), 2, numbered(2), "y", "identity")
	m.Format = m.FormatOf()
	for to, name := range map[Language]string{SQL: "cells.sql", Python: "cells.py"} {
		request := Request{Language: to}
		if to == SQL {
			request.Keep = []string{"id"}
		}
		var text bytes.Buffer
		if err := Write(t.Context(), &text, m, request); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), text.Bytes())
	}
	const want = `[1, 1, 1]
[2, 0, 0]
[3, 0, 0]
[4, 0, 0]
[5, 1, 0]
[6, 1, 0]
[7, 1, 1]
'x2' has shape (3,): want (2,), as column 'x1' has
'x2' has shape (1,): want (2,), as column 'x1' has
'x2' has shape (): want (2,), as column 'x1' has
y has shape (1,): want (2,), as column 'x1' has
y has shape (2, 1): want (2,), as column 'x1' has
`
	if got := run(t, systemPython, filepath.Join("testdata", "cells.py"), dir); got != want {
		t.Errorf("%s\nwant\n%s", strings.TrimSpace(got), want)
	}
}
