//go:build !linux

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
)

func openUnnamed(string, fs.FileMode) *os.File { return nil }

func name(*os.File, string) error { return errors.ErrUnsupported }
