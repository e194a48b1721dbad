package strictjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
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
		err = fmt.Errorf("%s is %s, want %s", cmp.Or(typed.Field, "the file"), found(typed.Value), wanted(typed))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		offset = int64(len(data))
		err = errors.New("the file is empty or cut short")
	}
	return &Fault{offset, err.Error()}
}

// found is a value that encoding/json describes, with its article.
func found(value string) string {
	switch {
	case value == "array", value == "object":
		return "an " + value
	case value == "bool":
		return "true or false"
	case strings.HasPrefix(value, "number "):
		return "the " + value
	}
	return "a " + value
}

// wanted is what stands where a value of another kind was found, in the words of JSON.
func wanted(e *json.UnmarshalTypeError) string {
	switch t := e.Type; t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number from 0 on"
	case reflect.Float32, reflect.Float64:
		if strings.HasPrefix(e.Value, "number ") {
			return "one that double precision holds"
		}
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Map, reflect.Struct:
		return "an object"
	default:
		return t.String()
	}
}

// Place is where an offset in data stands, both counted from 1, the column in bytes.
func Place(data []byte, offset int64) (line, col int) {
	before := data[:min(max(offset, 0), int64(len(data)))]
	line = 1 + bytes.Count(before, []byte{'\n'})
	return line, max(len(before)-bytes.LastIndexByte(before, '\n')-1, 1)
}
