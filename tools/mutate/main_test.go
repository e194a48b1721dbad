package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestToy: what comes of every mutant of a package that can be read at a glance.
func TestToy(t *testing.T) {
	var out bytes.Buffer
	if err := mutate(&out, "testdata/toy", "", "", "", 1, 0, 16); err != nil {
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

// TestSurvivors: of outputs one after the other a row a line of code, and of a mutant that
// was run again what came of it then.
func TestSurvivors(t *testing.T) {
	const outputs = `/tmp/toy: 2 tests, 0.1 s of processor time
      KILLED ARITHMETIC_BASE at toy.go:4:32  * -> /  TestToy
       LIVED ARITHMETIC_BASE at toy.go:22:53  + -> -  1 tests
       LIVED CONDITIONALS_BOUNDARY at toy.go:7:7  > -> >=  1 tests
 NOT COVERED ARITHMETIC_BASE at toy.go:24:35  % -> *  
KILLED: 1
LIVED: 2
       LIVED INVERT_NEGATIVES at toy.go:22:42  - -> +  1 tests
       LIVED ARITHMETIC_BASE at toy.go:22:42  - -> +  1 tests
       LIVED ARITHMETIC_BASE at toy.go:15:4  ++ -> --  1 tests
      KILLED ARITHMETIC_BASE at toy.go:15:4  ++ -> --  TestCount
`
	kept := filepath.Join(t.TempDir(), "outputs")
	if err := os.WriteFile(kept, []byte(outputs), 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := survivors(&out, "testdata/toy", kept); err != nil {
		t.Fatal(err)
	}
	const want = "| `toy.go` | `if a > b {` | >→>= | |\n" +
		"| `toy.go` | `func Less(x, y float64) float64 { return -x*2 + 1/(y+1) }` | -→+, +→- | |\n" +
		"KILLED: 2\nLIVED: 4\nNOT COVERED: 1\nTIMED OUT: 0\nNOT VIABLE: 0\nkilled of killed and lived: 33.33%\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if err := os.WriteFile(kept, []byte(" LIVED ARITHMETIC_BASE at toy.go:900:1  + -> -  1 tests\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := survivors(&out, "testdata/toy", kept); err == nil || !strings.Contains(err.Error(), "toy.go:900:1") {
		t.Errorf("of a line that is not there: %v", err)
	}
	long := "\t\tx := " + strings.Repeat("é+", 60) + "a || b"
	if got := excerpt(long, strings.Index(long, "||")+1); got != "…"+strings.Repeat("é+", 37)+"a ¦¦ b" {
		t.Error(got)
	}
	if got := excerpt(long, 9); got != "x := "+strings.Repeat("é+", 37)+"é…" {
		t.Error(got)
	}
}
