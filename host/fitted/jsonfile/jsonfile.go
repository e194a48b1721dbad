// Package jsonfile reads and lays out the JSON files of models, networks and truths, and tells them apart.
package jsonfile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync"

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

// ReadSized reads a file of k rows of d numbers, the sizes that v has when it is
// read, and returns the members of it that nobody reads. Sizes that the file is too short for are a fault before
// anything is made of them: a number takes two bytes at least.
func ReadSized(path string, v any, sizes func() (k, d int)) (unknown []string, err error) {
	data, unknown, err := readJSON(path, v)
	if err != nil {
		return nil, err
	}
	if k, d := sizes(); 2*float64(k)*float64(d) > float64(len(data)) {
		return nil, &dataset.Error{File: path,
			Msg: fmt.Sprintf("k = %d, d = %d: %d bytes have no room for k times d numbers", k, d, len(data))}
	}
	return unknown, nil
}

// Head is what tells files of ours apart.
type Head struct {
	Format  string // "" where it has none
	Several bool   // it has outputs, those of a model of several targets
}

// HeadOf reads the head of a file of ours. A pipe, which can be read once, is kept for the next that reads path.
func HeadOf(path string) (Head, error) {
	var head struct {
		Format  *string          `json:"format"`
		Outputs *json.RawMessage `json:"outputs"`
	}
	data, _, err := readJSON(path, &head)
	if err != nil {
		return Head{}, err
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		kept.Store(path, data)
	}
	out := Head{Several: head.Outputs != nil}
	if head.Format != nil {
		out.Format = *head.Format
	}
	return out, nil
}

// readJSON reads one JSON object into v, and returns the members of it that nobody
// reads beside its text. Faults are a *dataset.Error with the line and column, in bytes, where
// they stand.
func readJSON(path string, v any) (data []byte, unknown []string, err error) {
	if data, err = readObject(path); err != nil {
		return nil, nil, err
	}
	if err := decode(path, data, v); err != nil {
		return nil, nil, err
	}
	found, err := strictjson.Members(data, reflect.TypeOf(v), "standard_errors") // where null says that there is none
	for _, u := range found {
		unknown = append(unknown, u.Name)
	}
	if fault := (*strictjson.Fault)(nil); errors.As(err, &fault) {
		err = jsonFault(path, data, fault.Offset, fault.Msg)
	}
	return data, unknown, err
}

// decode reads the JSON object that a file holds into v.
func decode(path string, data []byte, v any) error {
	err := strictjson.Decode(data, v)
	if fault := (*strictjson.Fault)(nil); errors.As(err, &fault) {
		return jsonFault(path, data, fault.Offset, fault.Msg)
	}
	return err
}

// maxFile bounds what is read: a matrix of a hundred million numbers fits.
const maxFile = 2 << 30

// kept holds the text of pipes whose head was read, by path, until they are read.
var kept sync.Map

// readObject reads a file that begins with a brace; of anything else, such as
// a data file given for a model, it reads no more than the beginning.
func readObject(path string) ([]byte, error) {
	if data, ok := kept.LoadAndDelete(path); ok {
		return data.([]byte), nil
	}
	f, err := textfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := textfile.Read(f, maxFile, func(head []byte) error {
		if text := bytes.TrimSpace(head); len(text) > 0 && text[0] != '{' {
			return jsonFault(path, head, int64(bytes.IndexByte(head, text[0])+1), "want a JSON object")
		}
		return nil
	})
	if errors.Is(err, textfile.ErrTooLarge) || errors.Is(err, textfile.ErrNotText) {
		return nil, &dataset.Error{File: path, Msg: "not a model or truth file: " + err.Error()}
	}
	return data, err
}

func jsonFault(path string, data []byte, offset int64, msg string) error {
	line, col := strictjson.Place(data, offset)
	return &dataset.Error{File: path, Line: line, Col: col, Msg: "not the JSON expected: " + msg}
}
