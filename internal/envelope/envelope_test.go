package envelope

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// TestUnmarshal: what was written is read, indented too; what was edited, or is another version's, is refused.
func TestUnmarshal(t *testing.T) {
	data, err := Marshal("f/v1", map[string]int{"a": 1})
	if err != nil || !bytes.HasPrefix(data, []byte(`{"format":"f/v1"`)) {
		t.Fatalf("%s, %v", data, err)
	}
	read := func(data []byte, format string) (v map[string]int, err error) {
		return v, Unmarshal(data, format, &v, func(msg string) error { return errors.New("refused: " + msg) })
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, data, "", "\t"); err != nil {
		t.Fatal(err)
	}
	for _, whole := range [][]byte{data, indented.Bytes()} {
		if v, err := read(whole, "f/v1"); err != nil || v["a"] != 1 {
			t.Errorf("%s: %v, %v", whole, v, err)
		}
	}
	for _, c := range []struct{ data, format, want string }{
		{string(data), "f/v2", `refused: the checkpoint's format is "f/v1", want "f/v2"`},
		{strings.Replace(string(data), `"a":1`, `"a":2`, 1), "f/v1", "refused: the checkpoint is damaged: its checksum"},
		{`{"format":"f/v1"}`, "f/v1", "refused: the checkpoint is damaged: it has no state"},
		{`{"format":`, "f/v1", "unexpected end"},
	} {
		if _, err := read([]byte(c.data), c.format); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.data, err, c.want)
		}
	}
}
