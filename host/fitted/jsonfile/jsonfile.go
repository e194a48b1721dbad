// Package jsonfile reads and lays out the JSON files of models, networks and truths, and tells them apart.
package jsonfile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/internal/atomicfile"
	"github.com/gatedlearning/moe/internal/strictjson"
	"github.com/gatedlearning/moe/internal/textfile"
)

// Indent returns v as indented JSON with a newline at the end, where lists
// that hold no list or object stand on one line.
func Indent(v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(joinLists(data), '\n'), nil
}

// Write writes the JSON of v to a file, beside path and then renamed.
func Write(ctx context.Context, path string, v interface{ JSON() ([]byte, error) }) error {
	data, err := v.JSON()
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(ctx, path, data)
}

// joinLists puts the innermost lists of indented JSON on one line each.
func joinLists(data []byte) []byte {
	out := make([]byte, 0, len(data))
	for len(data) > 0 {
		switch data[0] {
		case '"':
			n := stringEnd(data)
			out, data = append(out, data[:n]...), data[n:]
		case '[':
			list, n := flatList(data)
			out, data = append(out, list...), data[n:]
		default:
			out, data = append(out, data[0]), data[1:]
		}
	}
	return out
}

// stringEnd returns the length of the JSON string at the start of data.
func stringEnd(data []byte) int {
	for i := 1; ; i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// flatList returns the list at the start of data on one line, and its length;
// where the list holds a list or an object, just its bracket.
func flatList(data []byte) (list []byte, n int) {
	for i := 0; i < len(data); {
		switch c := data[i]; c {
		case '"':
			n := stringEnd(data[i:])
			list = append(list, data[i:i+n]...)
			i += n
			continue
		case '[', '{':
			if i > 0 {
				return data[:1], 1
			}
			list = append(list, c)
		case ']':
			return append(list, c), i + 1
		case ',':
			list = append(list, ',', ' ')
		case ' ', '\n':
		default:
			list = append(list, c)
		}
		i++
	}
	return data[:1], 1
}

// File is the text of a file of ours: one JSON object. It is read once, as a pipe can be.
type File struct {
	Path string
	text []byte
}

// Head is what tells files of ours apart.
type Head struct {
	Format  string // "" where it has none
	Several bool   // it has outputs, those of a model of several targets
}

// Head reads the file's head.
func (f *File) Head() (Head, error) {
	var head struct {
		Format  *string          `json:"format"`
		Outputs *json.RawMessage `json:"outputs"`
	}
	if _, err := f.decode(&head); err != nil {
		return Head{}, err
	}
	out := Head{Several: head.Outputs != nil}
	if head.Format != nil {
		out.Format = *head.Format
	}
	return out, nil
}

// Sized reads the file of k rows of d numbers into v, the sizes that v has when it is read, and returns the members of
// it that nobody reads. Sizes that the file is too short for are a fault before anything is made of them: a number
// takes two bytes at least. Faults are a *dataset.Error with the line and column, in bytes, where they stand.
func (f *File) Sized(v any, sizes func() (k, d int)) (unknown []string, err error) {
	if unknown, err = f.decode(v); err != nil {
		return nil, err
	}
	if k, d := sizes(); 2*float64(k)*float64(d) > float64(len(f.text)) {
		return nil, &dataset.Error{File: f.Path,
			Msg: fmt.Sprintf("k = %d, d = %d: %d bytes have no room for k times d numbers", k, d, len(f.text))}
	}
	return unknown, nil
}

// decode reads the file's object into v, and returns the members of it that nobody reads.
func (f *File) decode(v any) (unknown []string, err error) {
	err = strictjson.Decode(f.text, v)
	if err == nil {
		var found []strictjson.Unknown
		// Null standard errors say that there are none.
		found, err = strictjson.Members(f.text, reflect.TypeOf(v), "standard_errors")
		for _, u := range found {
			unknown = append(unknown, u.Name)
		}
	}
	if fault := (*strictjson.Fault)(nil); errors.As(err, &fault) {
		err = jsonFault(f.Path, f.text, fault.Offset, fault.Msg)
	}
	return unknown, err
}

// maxFile bounds what is read: a matrix of a hundred million numbers fits.
const maxFile = 2 << 30

// Open reads a file that begins with a brace; of anything else, such as
// a data file given for a model, it reads no more than the beginning.
func Open(path string) (*File, error) {
	f, err := textfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := textfile.Read(f, maxFile, func(head []byte) error {
		if text := bytes.TrimSpace(head); len(text) > 0 && text[0] != '{' {
			return jsonFault(path, head, int64(bytes.IndexByte(head, text[0])+1), "want a JSON object")
		}
		return nil
	})
	if errors.Is(err, textfile.ErrTooLarge) || errors.Is(err, textfile.ErrNotText) {
		return nil, &dataset.Error{File: path, Msg: "not a model or truth file: " + err.Error()}
	}
	if err != nil {
		return nil, err
	}
	return &File{path, text}, nil
}

// OpenHead is [Open] and [File.Head].
func OpenHead(path string) (*File, Head, error) {
	f, err := Open(path)
	if err != nil {
		return nil, Head{}, err
	}
	head, err := f.Head()
	return f, head, err
}

// Read opens the file at path and reads what it holds.
func Read[T any](path string, of func(*File) (T, error)) (none T, err error) {
	f, err := Open(path)
	if err != nil {
		return none, err
	}
	return of(f)
}

func jsonFault(path string, data []byte, offset int64, msg string) error {
	line, col := strictjson.Place(data, offset)
	return &dataset.Error{File: path, Line: line, Col: col, Msg: "not the JSON expected: " + msg}
}
