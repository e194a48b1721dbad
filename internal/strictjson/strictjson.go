// Package strictjson holds JSON against the type that it is read as, where encoding/json goes
// too far to meet it: it takes "D" for "d", the last of two members of one name, and null in a
// list for 0.
package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Fault is what is wrong, and where.
type Fault struct {
	Offset int64 // in bytes: behind it
	Msg    string
}

func (f *Fault) Error() string { return f.Msg }

// Unknown is a member that nobody reads, as "fit.seeds", and where it stands.
type Unknown struct {
	Name   string
	Offset int64 // in bytes: behind its name
}

// Members refuses a member that stands twice in its object, one whose name differs
// from one that is read as t in capitals alone, and null in a list, but within a member called
// nulls. It returns the members that nobody reads in the order in which they stand; where t is
// nil, none. data is JSON that has been decoded before, of one value. Errors are a [*Fault].
func Members(data []byte, t reflect.Type, nulls string) (unknown []Unknown, err error) {
	m := &members{dec: json.NewDecoder(bytes.NewReader(data)), nulls: nulls,
		known: make(map[reflect.Type]map[string]reflect.Type)}
	m.dec.UseNumber()
	err = m.value(t, "", false, false)
	return m.unknown, err
}

type members struct {
	dec     *json.Decoder
	nulls   string
	known   map[reflect.Type]map[string]reflect.Type
	unknown []Unknown
}

func (m *members) fault(format string, args ...any) error {
	return &Fault{m.dec.InputOffset(), fmt.Sprintf(format, args...)}
}

// value passes over the next value, which is read as t, or by nobody where t is nil.
func (m *members) value(t reflect.Type, at string, inList, nulls bool) error {
	token, err := m.dec.Token()
	if err != nil {
		return m.fault("%v", err)
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch token {
	case json.Delim('{'):
		err = m.object(t, at, nulls)
	case json.Delim('['):
		var of reflect.Type
		if t != nil && t.Kind() == reflect.Slice {
			of = t.Elem()
		}
		for err == nil && m.dec.More() {
			err = m.value(of, at, true, nulls)
		}
	case nil:
		if inList && !nulls {
			return m.fault("null in a list")
		}
		return nil
	default:
		return nil
	}
	if err == nil {
		_, err = m.dec.Token() // the bracket's end
	}
	return err
}

// object passes over the members of an object.
func (m *members) object(t reflect.Type, at string, nulls bool) error {
	seen := make(map[string]bool)
	for m.dec.More() {
		token, err := m.dec.Token()
		if err != nil {
			return m.fault("%v", err)
		}
		name := token.(string)
		if seen[name] {
			return m.fault("member %q stands twice in its object", name)
		}
		seen[name] = true
		within := name
		if at != "" {
			within = at + "." + name
		}
		of, err := m.member(t, name, within)
		if err != nil {
			return err
		}
		if err := m.value(of, within, false, nulls || name == m.nulls); err != nil {
			return err
		}
	}
	return nil
}

// member returns what the member of this name of an object that is read as t is read as; nil where
// nobody reads it.
func (m *members) member(t reflect.Type, name, within string) (reflect.Type, error) {
	switch {
	case t == nil:
		return nil, nil
	case t.Kind() == reflect.Map:
		return t.Elem(), nil
	case t.Kind() != reflect.Struct:
		return nil, nil
	}
	known := m.fields(t)
	if of, ok := known[name]; ok {
		return of, nil
	}
	for other := range known {
		if strings.EqualFold(other, name) {
			return nil, m.fault("member %q: want %q", name, other)
		}
	}
	m.unknown = append(m.unknown, Unknown{within, m.dec.InputOffset()})
	return nil, nil
}

// fields are the members that a struct is read from, and what they are read as.
func (m *members) fields(t reflect.Type) map[string]reflect.Type {
	if known, ok := m.known[t]; ok {
		return known
	}
	known := make(map[string]reflect.Type)
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		if f.IsExported() && !f.Anonymous && f.Tag.Get("json") != "-" {
			known[name] = f.Type
		}
	}
	m.known[t] = known
	return known
}
