// Package setting has messages that speak of what can be set: a column to leave out, a limit that is too short. A
// program in which that is a flag, a member of a file or an argument of a function says so in words of its own.
package setting

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Key names something that can be set, as moe's flags call it.
type Key string

// roles are the keys that stand among the roles of columns in a description of a fit.
var roles = []Key{"weights", "group", "cluster", "offset", "trials"}

// String is the key as it stands in files that describe fits.
func (k Key) String() string {
	switch {
	case k == "intercept":
		return "intercepts"
	case k == "hac" || k == "robust":
		return "errors " + string(k)
	case slices.Contains(roles, k):
		return "roles." + string(k)
	}
	return strings.ReplaceAll(string(k), "-", "_")
}

// Words says a key, with a value that it is to have, or alone where value is "".
type Words func(key Key, value string) string

// InFile says a key as files that describe fits have it, "drop: x": words that belong to no program.
func InFile(key Key, value string) string {
	if value == "" {
		return key.String()
	}
	return key.String() + ": " + value
}

// Setting is a key with the value that it is to have.
type Setting struct {
	Key   Key
	Value string
}

// To sets a key.
func To(key Key, value string) Setting { return Setting{key, value} }

func (s Setting) String() string { return InFile(s.Key, s.Value) }

// Text is a message with keys and settings in it. The zero value is none.
type Text struct {
	format string
	args   []any
}

// Textf is the message that fmt.Sprintf makes of format and args. A [Key], a [Setting], a [Text] and an error among
// args are said as whoever prints the message says them.
func Textf(format string, args ...any) Text {
	if false {
		_ = fmt.Sprintf(format, args...) // so that go vet holds the args against the format
	}
	return Text{format, args}
}

// IsZero says whether there is no message.
func (t Text) IsZero() bool { return t.format == "" }

// String is the message with its settings [InFile].
func (t Text) String() string { return t.Worded(InFile) }

// Worded is the message with its settings in these words.
func (t Text) Worded(as Words) string {
	args := slices.Clone(t.args)
	for i, a := range args {
		switch a := a.(type) {
		case Key:
			args[i] = as(a, "")
		case Setting:
			args[i] = as(a.Key, a.Value)
		case Text:
			args[i] = a.Worded(as)
		case error:
			args[i] = Message(a, as)
		}
	}
	return fmt.Sprintf(t.format, args...)
}

// Error is an error that has nothing but its message.
type Error struct{ Text }

// Errorf is the error with this message: see [Textf].
func Errorf(format string, args ...any) error {
	if false {
		_ = fmt.Sprintf(format, args...) // as in Textf
	}
	return &Error{Text{format, args}}
}

func (e *Error) Error() string { return e.String() }

// Message is what err says, with the settings that it, or an error that it wraps, speaks of in these words.
func Message(err error, as Words) string {
	if said, ok := err.(interface{ Worded(Words) string }); ok {
		return said.Worded(as)
	}
	wrapped := []error{errors.Unwrap(err)}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		wrapped = several.Unwrap()
	}
	text := err.Error()
	for _, w := range wrapped {
		if w != nil {
			text = strings.Replace(text, w.Error(), Message(w, as), 1)
		}
	}
	return text
}
