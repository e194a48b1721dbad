// Package testheap is imported by tests that compute: their heap may grow to five times
// what lives in it before it is collected, where Go's default is twice. They allocate
// much that lives for a moment, and take a tenth less of CPU. The programs that they start
// inherit it. What is set in GOGC stays, and benchmarks are measured with the default.
package testheap

import (
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

func init() {
	benchmark := func(arg string) bool { return strings.HasPrefix(arg, "-test.bench") }
	if _, set := os.LookupEnv("GOGC"); set || slices.ContainsFunc(os.Args, benchmark) {
		return
	}
	const percent = 400
	os.Setenv("GOGC", strconv.Itoa(percent))
	debug.SetGCPercent(percent)
}
