package export

import (
	"bytes"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/fitted"
)

// TestCells: text that stands for a missing cell is NULL where SQLite has columns of text, and the module in Python
// names a column of another length. Without y it takes a table without trials, as moe predict does.
func TestCells(t *testing.T) {
	if err := exec.Command(systemPython, "-c", "import numpy").Run(); err != nil {
		t.Skip("no python3 with numpy")
	}
	dir := t.TempDir()
	m := mixtureOf(rand.New(rand.NewPCG(37, 3)), 2, numbered(2), "y", "identity")
	m.Format = m.FormatOf()
	export := func(m *fitted.Model, request Request, name string) {
		var text bytes.Buffer
		if err := Write(t.Context(), &text, m, request); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), text.Bytes())
	}
	export(m, Request{Language: SQL, Keep: []string{"id"}}, "cells.sql")
	export(m, Request{Language: Python}, "cells.py")
	for trials, name := range map[string]string{"n": "trials.py", "cbind(y, n)": "failures.py"} {
		m := mixtureOf(rand.New(rand.NewPCG(37, 4)), 2, numbered(2), "y", "sigmoid")
		m.Family, m.Sigma, m.Roles = "binomial", nil, map[string]string{"trials": trials}
		m.Format = m.FormatOf()
		export(m, Request{Language: Python}, name)
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
trials: True, a probability: True, with y: KeyError('n')
failures: True, a probability: True, with y: KeyError('n')
`
	if got := run(t, systemPython, filepath.Join("testdata", "cells.py"), dir); got != want {
		t.Errorf("%s\nwant\n%s", strings.TrimSpace(got), want)
	}
}
