// Package shown makes text fit to be shown. Names of files, of columns and of
// plugins are chosen by others: on a terminal their control characters would steer
// it, and a line break would be a line of ours.
package shown

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

func hidden(r rune) bool { return !unicode.IsPrint(r) }

// Name returns a name as it is where all of it is printable, in quotes with escapes
// as in Go elsewhere.
func Name(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, hidden) {
		return strconv.Quote(name)
	}
	return name
}

// List joins names as in "a, b and c".
func List(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

// Names returns the arguments of a format with every string and error among them
// as [Name] shows it.
func Names(args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case string:
			out[i] = Name(v)
		case error:
			out[i] = Line(v.Error())
		default:
			out[i] = arg
		}
	}
	return out
}

// Line returns text as one line: blanks and line breaks are one blank, what is not
// printable is escaped as in Go.
func Line(text string) string {
	return escaped(strings.Join(strings.Fields(text), " "), hidden)
}

// escaped returns text with the runes that hide, and bytes that are no UTF-8,
// escaped.
func escaped(text string, hide func(rune) bool) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, hide) {
		return text
	}
	var out strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&out, `\x%02x`, text[0])
		case hide(r):
			out.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		default:
			out.WriteString(text[:n])
		}
		text = text[n:]
	}
	return out.String()
}

// Writer returns a writer of text to w that escapes what is not printable, line
// breaks apart. What is written must end in a whole character.
func Writer(w io.Writer) io.Writer { return &writer{w: w} }

type writer struct {
	w    io.Writer
	rest []byte // the begun character at the end of what was written
}

func (e *writer) Write(p []byte) (int, error) {
	text := append(e.rest, p...)
	n := len(text)
	for back := 1; back <= min(utf8.UTFMax-1, n); back++ {
		if c := text[n-back]; utf8.RuneStart(c) {
			if !utf8.FullRune(text[n-back:]) {
				n -= back
			}
			break
		}
	}
	e.rest = append([]byte(nil), text[n:]...)
	if _, err := io.WriteString(e.w, escaped(string(text[:n]),
		func(r rune) bool { return r != '\n' && hidden(r) })); err != nil {
		return 0, err
	}
	return len(p), nil
}

// JSON returns JSON with the characters escaped that encoding/json leaves and a
// terminal may obey: DEL, those from U+0080 to U+009F, and other controls.
func JSON(data []byte) []byte {
	if !strings.ContainsFunc(string(data), func(r rune) bool { return r > '~' && hidden(r) }) {
		return data
	}
	var out strings.Builder
	for _, r := range string(data) {
		switch {
		case r <= '~' || !hidden(r):
			out.WriteRune(r)
		case r > 0xffff:
			a, b := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, a, b)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return []byte(out.String())
}
