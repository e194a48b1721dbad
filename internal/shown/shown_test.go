package shown

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	for name, want := range map[string]string{
		"":                            "",
		"data.csv":                    "data.csv",
		"größe µ.csv":                 "größe µ.csv",
		"a\x1b[31mb":                  `"a\x1b[31mb"`,
		"a\nmoe: all is well":         `"a\nmoe: all is well"`,
		"\u009b31m":                   `"\u009b31m"`,
		"user\u202efdp.csv":           `"user\u202efdp.csv"`,
		"latin-1 \xe9":                `"latin-1 \xe9"`,
		"\a\b\t\x7f":                  `"\a\b\t\x7f"`,
		"quotes \" and \\ alone":      "quotes \" and \\ alone",
		"no-break\u00a0space, U+2028": "\"no-break\\u00a0space, U+2028\"",
	} {
		if got := Name(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	got := fmt.Sprintf("%s %d %v %v", Names([]any{"a\x1b", 3, errors.New("two\nlines \x1b"), 0.5})...)
	if want := `"a\x1b" 3 two lines \x1b 0.5`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                            "plain",
		"two\nlines\tand  blanks ":         "two lines and blanks",
		"\x1b[2J\u202e 'x' \xff\U000e0001": `\x1b[2J\u202e 'x' \xff\U000e0001`,
	} {
		if got := Line(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// However text is cut into writes, what comes out is the same.
func TestWriter(t *testing.T) {
	const text = "größe \x1b[31m\n∑ \u009b \xff\xfe 😀\n"
	const want = "größe \\x1b[31m\n∑ \\u009b \\xff\\xfe 😀\n"
	for size := 1; size <= len(text); size++ {
		var out strings.Builder
		w := Writer(&out)
		for at := 0; at < len(text); at += size {
			part := text[at:min(at+size, len(text))]
			if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		if out.String() != want {
			t.Errorf("in writes of %d: %q, want %q", size, out.String(), want)
		}
	}
}

// JSON stays the same value and shows nothing that is not printable.
func TestJSON(t *testing.T) {
	const text = "a\x1b \x7f \u009b31m größe \u2028 \u202e 😀 \U000e0001"
	data, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	got := JSON(data)
	if strings.ContainsFunc(string(got), hidden) {
		t.Errorf("%q is not printable", got)
	}
	var back string
	if err := json.Unmarshal(got, &back); err != nil || back != text {
		t.Errorf("%q, %v, want %q", back, err, text)
	}
}
