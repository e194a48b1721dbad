// Package fittedtest is what tests of readers of files share: content that is written and read again, and what may come
// of it.
package fittedtest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// Content is a file that a fuzz target's worker writes again and again.
type Content string

// NewContent is one in a temporary directory.
func NewContent(tb testing.TB) Content {
	tb.Helper()
	return Content(filepath.Join(tb.TempDir(), "content.json"))
}

// Write makes data the content.
func (c Content) Write(t *testing.T, data []byte) {
	t.Helper()
	if err := os.WriteFile(string(c), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Again fails where what was read cannot be written, or is another when it is read again.
func Again[T interface{ JSON() ([]byte, error) }](t *testing.T, c Content, v T, read func(path string) (T, error)) {
	t.Helper()
	text, err := v.JSON()
	if err != nil {
		t.Fatalf("read and not written: %v", err)
	}
	c.Write(t, text)
	again, err := read(string(c))
	if err != nil {
		t.Fatalf("written and not read: %v", err)
	}
	if second, err := again.JSON(); err != nil || string(second) != string(text) {
		t.Errorf("another file the second time: %v", err)
	}
}

// OnlyDataErrors fails for an error that is not one of the file's content.
func OnlyDataErrors(t *testing.T, err error) {
	t.Helper()
	if bad := (*dataset.Error)(nil); err != nil && !errors.As(err, &bad) {
		t.Errorf("%v (%T)", err, err)
	}
}

// Whole fails for parameters whose slices do not have their shape.
func Whole(t *testing.T, p *model.Params) {
	t.Helper()
	if len(p.Regressors) != p.K*p.D || len(p.Gating) != (p.K-1)*p.D || len(p.Sigma) != 1 && len(p.Sigma) != p.K {
		t.Errorf("k = %d, d = %d: %d, %d and %d values", p.K, p.D, len(p.Regressors), len(p.Gating), len(p.Sigma))
	}
	for _, s := range p.Sigma {
		if !(s > 0) {
			t.Errorf("sigma %v", s)
		}
	}
}
