package registry

import (
	"slices"
	"testing"
)

type word string

func (w word) Name() string { return string(w) }

// TestRegistry: a name is taken once, and names are in order.
func TestRegistry(t *testing.T) {
	r := New[word]("b", "c")
	if !r.Add("a") || r.Add("b") {
		t.Error("a free name is taken, or a taken one free")
	}
	if got := r.Names(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("names %v", got)
	}
	if v, known := r.Find("a"); v != "a" || !known {
		t.Errorf("a is %q, %v", v, known)
	}
	if _, known := r.Find("d"); known {
		t.Error("d is known")
	}
}
