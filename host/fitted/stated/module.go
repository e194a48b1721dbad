package stated

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// maxModule is the size in bytes of the largest WebAssembly module that a file may have in it.
const maxModule = 256 << 10

// Module is a WebAssembly module in a file.
type Module struct {
	SHA256 string `json:"sha256"` // of Code, in hexadecimal
	Code   []byte `json:"code"`   // in base64
}

// NewModule returns the module code as files have it. One that is longer than 256 KiB is an error.
func NewModule(code []byte) (*Module, error) {
	if len(code) > maxModule {
		return nil, fmt.Errorf("a module of %d bytes; %d go into a model's file", len(code), maxModule)
	}
	return &Module{SHA256: digestOf(code), Code: code}, nil
}

func (m *Module) validate() error {
	if _, err := NewModule(m.Code); err != nil {
		return err
	}
	if sum := digestOf(m.Code); sum != m.SHA256 {
		return fmt.Errorf("sha256 is %q, and that of its code %s", m.SHA256, sum)
	}
	return nil
}

func digestOf(code []byte) string {
	sum := sha256.Sum256(code)
	return hex.EncodeToString(sum[:])
}
