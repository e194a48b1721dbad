package main

import (
	"bytes"
	"testing"
	"time"
)

// TestProgressLines: off a terminal a long command says where it is, and not more
// often than every ten seconds.
func TestProgressLines(t *testing.T) {
	now := time.Unix(0, 0)
	var out bytes.Buffer
	p := newProgressLines(&out, func() time.Time { return now })
	for i := range 25 {
		now = time.Unix(int64(i), 0)
		p.show("k = 2, starts", i, 32)
	}
	const want = "moe: after 10s: k = 2, starts, 10 of 32\nmoe: after 20s: k = 2, starts, 20 of 32\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
