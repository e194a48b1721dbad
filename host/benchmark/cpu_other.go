//go:build !unix

package benchmark

import "time"

var started = time.Now()

// cpuSeconds is the time since the start, where the system has no simple measure of the
// processor's.
func cpuSeconds() float64 { return time.Since(started).Seconds() }
