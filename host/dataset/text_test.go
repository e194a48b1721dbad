package dataset

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// Words that no model's file can hold are refused where they stand, before anything is fitted.
func TestWordsThatAreNoText(t *testing.T) {
	for text, want := range map[string][]string{
		"x,s,y\n1,a,2\n3,M\xe4d,4\n":    {"t.csv:3:2", `"M\xe4d"`, "save the file as UTF-8"},
		"x,s,y\n1,a\x00b,2\n3,c,4\n":    {"t.csv:2:2", "NUL character"},
		"x,\"s\xe4\",y\n1,a,2\n3,b,4\n": {"t.csv:1:2", "save the file as UTF-8"},
		"sep=;\nx;s;y\n1;a;2\n":         {"t.csv:1", "leave it out"},
	} {
		src, err := NewReader("t.csv", strings.NewReader(text), Selection{})
		if err == nil {
			_, err = Inspect(context.Background(), src, 0, nil)
		}
		if fault := (*Error)(nil); !errors.As(err, &fault) {
			t.Errorf("%q: error %v", text, err)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q: %v has no %q", text, err, w)
			}
		}
	}
	src, err := NewReader("t.csv", strings.NewReader("x,s,y\n1,Mäd,2\n3,b,4\n"), Selection{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Inspect(context.Background(), src, 0, nil); err != nil {
		t.Errorf("letters with accents: %v", err)
	}
}

// A target that nobody named and that leaves y among the features is said.
func TestUnnamedTargetBesideY(t *testing.T) {
	for target, notes := range map[string]int{"": 1, "w": 0, "y": 0} {
		src, err := NewReader("t.csv", strings.NewReader("x,y,w\n1,2,3\n"), Selection{Target: target})
		if err != nil || len(src.Schema().Notes) != notes {
			t.Errorf("target %q: error %v, notes %q", target, err, src.Schema().Notes)
		}
	}
}
