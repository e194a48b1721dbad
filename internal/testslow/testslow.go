// Package testslow is for tests that take seconds: go test ./... leaves them out. MOE_TESTS=all go test ./... runs
// them, and so does -run, since who names tests wants them.
package testslow

import (
	"flag"
	"os"
	"testing"
)

// Wanted says whether slow tests are to run.
func Wanted() bool {
	run := flag.Lookup("test.run")
	return os.Getenv("MOE_TESTS") == "all" || run != nil && run.Value.String() != ""
}

// Mark skips the test where slow ones are not to run. What it marks takes a second or more, alone on two cores.
func Mark(t testing.TB) {
	t.Helper()
	if !Wanted() {
		t.Skip("slow: MOE_TESTS=all go test runs it, and -run with its name")
	}
}
