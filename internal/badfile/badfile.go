// Package badfile has what readers of files say of their content: messages that do not name the
// file yet, which who knows its name puts before them.
package badfile

import (
	"errors"
	"fmt"
	"io"
)

// Fault says what is wrong with a file, without its name.
type Fault string

func (f Fault) Error() string { return string(f) }

// Faultf is a [Fault] of a format.
func Faultf(format string, args ...any) error { return Fault(fmt.Sprintf(format, args...)) }

// CutShort is msg where a stream ended, and the stream's own error elsewhere.
func CutShort(err error, msg string) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return Fault(msg)
	}
	return err
}
