package fitted

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/internal/atomicfile"
	"github.com/gatedlearning/moe/internal/textfile"
)

// Read reads and validates a model file. Faults of its content are a
// *dataset.Error that names file, line and column.
func Read(path string) (*Model, error) {
	m := new(Model)
	if err := readJSON(path, m); err != nil {
		return nil, err
	}
	if err := m.Validate(); err != nil {
		return nil, &dataset.Error{File: path, Msg: err.Error()}
	}
	return m, nil
}

// Write validates the model and writes its file, beside path and then renamed.
func (m *Model) Write(ctx context.Context, path string) error {
	data, err := m.JSON()
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(ctx, path, data)
}

// JSON returns the model file: indented, one row of a matrix a line, every
// number the shortest decimal that reads back as the same float64.
func (m *Model) JSON() ([]byte, error) {
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("a model that cannot be written: %w", err)
	}
	return indent(m.withoutNils())
}

// withoutNils returns a copy whose lists and maps that hold nothing are empty,
// not null, where null means something else or nothing.
func (m *Model) withoutNils() *Model {
	c := *m
	c.Gating = append([][]float64{}, m.Gating...)
	c.Fit.Starts = append([]Start{}, m.Fit.Starts...)
	c.Fit.Notes = append([]string{}, m.Fit.Notes...)
	if c.Activation.Params == nil {
		c.Activation.Params = map[string]float64{}
	}
	return &c
}

// indent returns v as indented JSON with a newline at the end, where lists
// that hold no list or object stand on one line.
func indent(v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(joinLists(data), '\n'), nil
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

// readJSON reads one JSON object into v. Faults are a *dataset.Error with the
// line and column, in bytes, where they stand.
func readJSON(path string, v any) error {
	data, err := readObject(path)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	err = dec.Decode(v)
	offset := dec.InputOffset()
	if err == nil {
		if _, err = dec.Token(); err == io.EOF {
			return noNulls(path, data)
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
	return jsonFault(path, data, offset, err.Error())
}

// maxFile bounds what is read: a matrix of a hundred million numbers fits.
const maxFile = 2 << 30

// readObject reads a file that begins with a brace; of anything else, such as
// a data file given for a model, it reads no more than the beginning.
func readObject(path string) ([]byte, error) {
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
	before := data[:min(max(offset, 0), int64(len(data)))]
	line := 1 + bytes.Count(before, []byte{'\n'})
	col := len(before) - bytes.LastIndexByte(before, '\n') - 1
	return &dataset.Error{File: path, Line: line, Col: max(col, 1), Msg: "not the JSON expected: " + msg}
}

// noNulls refuses null inside a list, which would be read as 0, but among standard
// errors, where it says that there is none.
func noNulls(path string, data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	var lists []bool // of the open brackets: is it a list?
	within := 0      // of the brackets of the standard errors
	var last json.Token
	for {
		token, err := dec.Token()
		if err != nil {
			return nil
		}
		switch token {
		case json.Delim('['):
			lists = append(lists, true)
		case json.Delim('{'):
			lists = append(lists, false)
			if last == "standard_errors" && within == 0 { // of a model, of an output, by a kernel
				within = len(lists)
			}
		case json.Delim(']'), json.Delim('}'):
			lists = lists[:len(lists)-1]
			if len(lists) < within {
				within = 0
			}
		case nil:
			if len(lists) > 0 && lists[len(lists)-1] && within == 0 {
				return jsonFault(path, data, dec.InputOffset(), "null in a list")
			}
		}
		last = token
	}
}
