package main

import (
	"bytes"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
)

const smallModel = `{"format": "moe-model/v1", "activation": {"name": "relu", "params": {}, "version": "1"}, "d": 1, "k": 1,
"features": ["x1"], "target": "y", "regressors": [[1]], "gating": [], "sigma": 1, "proportions": [1], "fit": {"n": 1}}`

// digits is a stream of digits without an end to its line.
type digits struct{}

func (digits) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '1'
	}
	return len(p), nil
}

// A gigabyte without a newline ends in one line of error and little memory.
func TestGigabyteLine(t *testing.T) {
	model := t.TempDir() + "/model.json"
	if err := os.WriteFile(model, []byte(smallModel), 0o666); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var stderr, stdout bytes.Buffer
	root := newRoot(new(bool), "")
	root.SetArgs([]string{"predict", model, "-"})
	root.SetIn(io.MultiReader(strings.NewReader("x1,y\n"), io.LimitReader(digits{}, 1<<30)))
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	err := root.ExecuteContext(t.Context())
	runtime.ReadMemStats(&after)
	if exitCode(err) != exitData || !strings.Contains(err.Error(), "stdin:2") || strings.Contains(err.Error(), "\n") || len(err.Error()) > 300 {
		t.Errorf("exit code %d: %v", exitCode(err), err)
	}
	if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 256 {
		t.Errorf("%d MiB allocated", used)
	}
}
