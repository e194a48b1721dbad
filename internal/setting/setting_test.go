package setting

import (
	"errors"
	"fmt"
	"testing"
)

func asFlag(key Key, value string) string {
	if value == "" {
		return "--" + string(key)
	}
	return "--" + string(key) + " " + value
}

func TestKey(t *testing.T) {
	for key, want := range map[Key]string{
		"drop": "drop", "max-leaves": "max_leaves", "intercept": "intercepts", "robust": "errors robust", "hac": "errors hac",
		"weights": "roles.weights", "trials": "roles.trials",
	} {
		if got := key.String(); got != want {
			t.Errorf("%q is %q in files, want %q", string(key), got, want)
		}
	}
}

// TestText: a message has its settings as files have them, or in any other words; all else is as fmt has it.
func TestText(t *testing.T) {
	inner := Textf("see %s", Key("max-leaves"))
	text := Textf("column %q, %d of %s: leave it out with %s, or %q; %s", "--drop x", 3, "drop: x", To("drop", "x"),
		To("plugin-timeout", ""), inner)
	if got, want := text.String(),
		`column "--drop x", 3 of drop: x: leave it out with drop: x, or "plugin_timeout"; see max_leaves`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got, want := text.Worded(asFlag),
		`column "--drop x", 3 of drop: x: leave it out with --drop x, or "--plugin-timeout"; see --max-leaves`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := text.String(); text.Worded(InFile) != got {
		t.Errorf("wording changes a message: %s", got)
	}
	if (Text{}).String() != "" || !(Text{}).IsZero() || text.IsZero() {
		t.Error("the zero value is not the only message with nothing in it")
	}
}

type wrapper struct{ err error }

func (w wrapper) Error() string { return "elsewhere" }
func (w wrapper) Unwrap() error { return w.err }

// TestMessage: the settings of errors are said in other words wherever they are wrapped, and nothing else is.
func TestMessage(t *testing.T) {
	bad, worse := Errorf("want %s", To("drop", "x")), Errorf("want %s", Key("gate-shared"))
	for _, c := range []struct {
		err        error
		file, flag string
	}{
		{errors.New("want drop: x"), "want drop: x", "want drop: x"},
		{bad, "want drop: x", "want --drop x"},
		{fmt.Errorf("a: %w; b", fmt.Errorf("c: %w", bad)), "a: c: want drop: x; b", "a: c: want --drop x; b"},
		{Errorf("%s: %v", Key("k"), bad), "k: want drop: x", "--k: want --drop x"},
		{errors.Join(bad, worse), "want drop: x\nwant gate_shared", "want --drop x\nwant --gate-shared"},
		{fmt.Errorf("%w and %w", worse, bad), "want gate_shared and want drop: x", "want --gate-shared and want --drop x"},
		{wrapper{bad}, "elsewhere", "elsewhere"},
		{wrapper{nil}, "elsewhere", "elsewhere"},
	} {
		if got := c.err.Error(); got != c.file {
			t.Errorf("%q, want %q", got, c.file)
		}
		if got := Message(c.err, InFile); got != c.file {
			t.Errorf("as in files: %q, want %q", got, c.file)
		}
		if got := Message(c.err, asFlag); got != c.flag {
			t.Errorf("as flags: %q, want %q", got, c.flag)
		}
	}
}
