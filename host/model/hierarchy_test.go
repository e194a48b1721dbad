package model_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/model"
)

func TestParseHierarchy(t *testing.T) {
	for _, c := range []struct {
		text          string
		leaves, depth int
		same          string // how it is written, where not as given
	}{
		{"1", 1, 0, ""},
		{"4", 4, 1, ""},
		{"2x1", 2, 1, "2"},
		{"2x2", 4, 2, ""},
		{"3x2", 6, 2, ""},
		{"2x2x2", 8, 3, ""},
		{"2x(1,2)", 3, 2, ""},
		{"2x(3,1)", 4, 2, ""},
		{"2x(2,2)", 4, 2, "2x2"},
		{"3x(1,2x2,2x(1,3))", 9, 3, ""},
		{"2x2048", 4096, 2, ""}, // as many as there may be
	} {
		h, err := model.ParseHierarchy(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if h.Leaves() != c.leaves || h.Depth() != c.depth {
			t.Errorf("%s: %d leaves, depth %d; want %d, %d", c.text, h.Leaves(), h.Depth(), c.leaves, c.depth)
		}
		if h.String() != cmp.Or(c.same, c.text) {
			t.Errorf("%s is written %s", c.text, h)
		}
		again, err := model.ParseHierarchy(h.String())
		if err != nil || !again.Equal(h) {
			t.Errorf("%s: read again as %s, %v", c.text, again, err)
		}
	}
}

// TestParseHierarchyErrors: every refusal says where.
func TestParseHierarchyErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "character 1: want a number of branches",
		"two":                     "character 1: want a number of branches",
		"0":                       "character 1: a gate has two branches or more",
		"1x2":                     "character 1: a gate has two branches or more",
		"2x":                      "character 3: want a number of branches",
		"2x(1,2":                  "character 7: want ) after 2 branches",
		"2x(1,2,3)":               "character 7: want ) after 2 branches",
		"2x(1)":                   "character 5: 1 of 2 branches, want a comma and the next",
		"2x(1,0)":                 "character 6: a gate has two branches or more",
		"2x2 ":                    "character 4: want the end",
		"-2x2":                    "character 1: want a number of branches",
		"5000":                    "character 1: more than 4096 leaves",
		"100x100":                 "character 1: more than 4096 leaves",
		"2x(3000,3000)":           "more than 4096 leaves",
		"99999999999999999999999": "character 1: more than 4096 leaves",
	} {
		if _, err := model.ParseHierarchy(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzParseHierarchy(f *testing.F) {
	for _, s := range []string{"2x(1,2)", "2x2x2", "3x(1,2x2,2x(1,3))", "1", "((", "9x9x9x9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := model.ParseHierarchy(s)
		if err != nil {
			return
		}
		if again, err := model.ParseHierarchy(h.String()); err != nil || !again.Equal(h) {
			t.Fatalf("%q: written %q, read again as %q, %v", s, h, again, err)
		}
	})
}
