package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Decode reads the one value that data hold into v. Errors are a [*Fault].
func Decode(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	err := dec.Decode(v)
	offset := dec.InputOffset()
	if err == nil {
		if _, err = dec.Token(); err == io.EOF {
			return nil
		}
		err = errors.New("something follows the object")
	}
	var (
		syntax *json.SyntaxError
		typed  *json.UnmarshalTypeError
	)
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &typed):
		offset = typed.Offset
		err = fmt.Errorf("%s is a %s, want a %s", typed.Field, typed.Value, typed.Type)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		offset = int64(len(data))
		err = errors.New("the file is empty or cut short")
	}
	return &Fault{offset, err.Error()}
}

// Place is where an offset in data stands, both counted from 1, the column in bytes.
func Place(data []byte, offset int64) (line, col int) {
	before := data[:min(max(offset, 0), int64(len(data)))]
	line = 1 + bytes.Count(before, []byte{'\n'})
	return line, max(len(before)-bytes.LastIndexByte(before, '\n')-1, 1)
}
