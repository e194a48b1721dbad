package main

import "testing"

// TestManText: paragraphs are filled, indented lines stay, and nothing in a text is a request or an escape.
func TestManText(t *testing.T) {
	got := manText("first\n.so much\n'tis\n\n    y = g(x)\n\n    --k\nafter \\fB")
	want := "first\n\\&.so much\n\\&'tis\n.PP\n.EX\n    y = g(x)\n.PP\n    \\-\\-k\n.EE\nafter \\efB\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
