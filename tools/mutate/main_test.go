package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// TestToy: what comes of every mutant of a package that can be read at a glance.
func TestToy(t *testing.T) {
	var out bytes.Buffer
	if err := mutate(&out, "testdata/toy", "", "", "", 1, 0); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^ *(.*) at toy.go:(\S+)`).FindAllStringSubmatch(out.String(), -1) {
		got = append(got, m[1]+" "+m[2])
	}
	want := []string{
		"KILLED ARITHMETIC_BASE 4:32",     // compiled alone
		"LIVED CONDITIONALS_BOUNDARY 7:7", // makes no difference
		"KILLED CONDITIONALS_NEGATION 7:7",
		"KILLED CONDITIONALS_BOUNDARY 14:16",
		"KILLED CONDITIONALS_NEGATION 14:16",
		"TIMED OUT INCREMENT_DECREMENT 14:22",
		"KILLED INCREMENT_DECREMENT 15:4",
		"NOT VIABLE ARITHMETIC_BASE 20:42", // strings have no minus
		"KILLED ARITHMETIC_BASE 22:47",
		"KILLED ARITHMETIC_BASE 22:44",
		"KILLED INVERT_NEGATIVES 22:42",
		"KILLED ARITHMETIC_BASE 22:42",
		"LIVED ARITHMETIC_BASE 22:50", // the test divides by 1
		"KILLED ARITHMETIC_BASE 22:53",
		"NOT COVERED ARITHMETIC_BASE 24:35",
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s\nof\n%s", g, w, out.String())
	}
}
