package main

import (
	"fmt"
	"math"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/gatedlearning/moe/host"
)

// memorySize is a number of bytes as a flag.
type memorySize int64

// memoryUnits are what a size may end with.
var memoryUnits = []struct {
	name  string
	bytes float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40},
	{"B", 1}, {"", 1},
}

// String implements pflag.Value.
func (m *memorySize) String() string {
	if *m == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*m), 10)
}

// Type implements pflag.Value.
func (*memorySize) Type() string { return "SIZE" }

// Set implements pflag.Value.
func (m *memorySize) Set(text string) error {
	for _, unit := range memoryUnits {
		number, ok := strings.CutSuffix(text, unit.name)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if bytes := v * unit.bytes; err == nil && bytes >= 1 && bytes < math.MaxInt64 {
			*m = memorySize(bytes)
			return nil
		}
		break
	}
	return fmt.Errorf("want a size such as 512MiB or 2GB")
}

// apply makes the process keep to the limit, and fits of c as well.
func (m memorySize) apply(c *host.Config) {
	if m == 0 {
		return
	}
	c.MaxMemory = int64(m)
	debug.SetMemoryLimit(host.RuntimeMemory(c.MaxMemory))
}
