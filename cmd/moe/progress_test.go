package main

import (
	"bytes"
	"testing"
	"time"
)

// TestProgressLines: off a terminal a long command says where it is, of what has a
// number how far; before there is anything to say, nothing.
func TestProgressLines(t *testing.T) {
	var out bytes.Buffer
	p := newProgressLines(&out)
	p.end()
	p.say(lineEvery)
	p.show("reading", 0, 0)
	p.say(2 * lineEvery)
	p.show("k = 2, starts", 9, 32)
	p.show("k = 2, starts", 10, 32)
	p.say(3*lineEvery + 10*time.Millisecond)
	const want = "moe: after 20s: reading\nmoe: after 30s: k = 2, starts, 10 of 32\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
