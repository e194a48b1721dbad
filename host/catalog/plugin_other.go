//go:build !linux

package catalog

import (
	"context"
	"runtime"

	"github.com/gatedlearning/moe/sdk"
)

func (c Catalog) openFile(_ context.Context, path string, _ sdk.Params) (*Plugin, error) {
	return nil, notHere(path)
}

func (c Catalog) trustFile(_ context.Context, path string) (Record, error) {
	return Record{}, notHere(path)
}

func notHere(path string) error {
	return &UnsupportedError{Plugin: path, OS: runtime.GOOS}
}
