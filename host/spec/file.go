package spec

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/internal/strictjson"
	"github.com/gatedlearning/moe/internal/suggest"
)

// MaxSize is the most bytes that a description may have.
const MaxSize = 16 << 20

// Parse reads a description that a file of this name holds. A key that there is not, or that
// stands twice, is an error. It does not look at what the keys say: see [Fit.Check]. Errors are a
// *dataset.Error with the file and the place.
func Parse(file string, data []byte) (*Fit, error) {
	fault := func(err error) error {
		out := &dataset.Error{File: file, Msg: "not a description of a fit: " + err.Error()}
		if at := (*strictjson.Fault)(nil); errors.As(err, &at) {
			out.Line, out.Col = strictjson.Place(data, at.Offset)
		}
		return out
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors begin files with it
	if len(data) > MaxSize {
		return nil, fault(fmt.Errorf("%d bytes, want at most %d", len(data), MaxSize))
	}
	if text := bytes.TrimLeft(data, " \t\r\n"); len(text) == 0 || text[0] != '{' {
		return nil, fault(&strictjson.Fault{Offset: int64(len(data) - len(text) + 1), Msg: "want a JSON object"})
	}
	f := Default()
	f.Format = ""
	if err := strictjson.Decode(data, f); err != nil {
		return nil, fault(err)
	}
	t := reflect.TypeFor[Fit]()
	strangers, err := strictjson.Members(data, t, "")
	switch {
	case err != nil:
		return nil, fault(err)
	case len(strangers) > 0:
		first := strangers[0]
		msg := fmt.Sprintf("unknown key %q%s", first.Name, nearest(first.Name))
		return nil, fault(&strictjson.Fault{Offset: first.Offset, Msg: msg})
	case f.Format != Format:
		return nil, fault(fmt.Errorf("format = %q, want %q", f.Format, Format))
	}
	return f, nil
}

// nearest asks whether a key was meant that there is; "" if none is near.
func nearest(key string) string {
	var keys []string
	collect(reflect.TypeFor[Fit](), "", &keys)
	if near := suggest.Nearest(key, keys); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

func collect(t reflect.Type, within string, keys *[]string) {
	for f := range t.Fields() {
		name, _, _ := bytes.Cut([]byte(f.Tag.Get("json")), []byte(","))
		*keys = append(*keys, within+string(name))
		if f.Type.Kind() == reflect.Struct {
			collect(f.Type, within+string(name)+".", keys)
		}
	}
}
