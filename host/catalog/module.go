package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gatedlearning/moe/internal/wasm"
)

// moduleSuffix is how the names of files end that are taken for modules whatever is in them.
const moduleSuffix = ".wasm"

// recorded reports whether the module at path is the one that its record and the project's lock file allow.
func recorded(path string, code []byte, record Record, project lock) error {
	sum := sha256.Sum256(code)
	now := hex.EncodeToString(sum[:])
	if record.SHA256 != now {
		return &UntrustedError{path, fmt.Sprintf("it has changed since %s was made its name (sha256 %s, was %s); if "+
			"you trust the new one: moe plugin trust %s",
			record.Name, now, record.SHA256, path)}
	}
	return project.allows(path, now)
}

// readModule returns the file at path, or nil where it is no module but, perhaps, a program.
func readModule(path string) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		if strings.HasSuffix(path, moduleSuffix) {
			return nil, fileFault(path, err)
		}
		return nil, nil // who opens it as a program says what is wrong
	}
	defer f.Close()
	head := make([]byte, 4)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fileFault(path, err)
	}
	if !wasm.Is(head[:n]) && !strings.HasSuffix(path, moduleSuffix) {
		return nil, nil
	}
	rest, err := io.ReadAll(io.LimitReader(f, wasm.MaxSize+1-int64(n)))
	if err != nil {
		return nil, fileFault(path, err)
	}
	return append(head[:n:n], rest...), nil
}
