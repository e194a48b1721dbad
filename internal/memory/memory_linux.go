package memory

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// available is the least of what the machine, the control groups of the process
// and its limit on address space leave, in bytes.
func available() float64 {
	return min(ofMachine(), ofGroups("/proc/self/cgroup", "/sys/fs/cgroup"), ofAddresses())
}

// ofMachine is what can be had without and with swapping.
func ofMachine() float64 {
	values := fields("/proc/meminfo")
	free, ok := values["MemAvailable"]
	if !ok {
		return unknown
	}
	return 1024 * (free + values["SwapFree"])
}

// ofGroups is what the control groups (version 2) that the process is in leave:
// the process's own and those above it, each with what it could give back.
func ofGroups(membership, root string) float64 {
	text, err := os.ReadFile(membership)
	if err != nil {
		return unknown
	}
	group := ""
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			group = path
		}
	}
	left := float64(unknown)
	for dir := filepath.Join(root, group); len(dir) >= len(root); dir = filepath.Dir(dir) {
		most, ok := number(filepath.Join(dir, "memory.max"))
		used, okUsed := number(filepath.Join(dir, "memory.current"))
		if ok && okUsed {
			left = min(left, max(0, most-used+fields(filepath.Join(dir, "memory.stat"))["inactive_file"]))
		}
	}
	return left
}

// ofAddresses is what ulimit -v leaves.
func ofAddresses() float64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_AS, &limit); err != nil || limit.Cur > unknown {
		return unknown
	}
	taken, ok := fields("/proc/self/status")["VmSize"]
	if !ok {
		return unknown
	}
	return max(0, float64(limit.Cur)-1024*taken)
}

// number reads a file that holds one number; "max" is none.
func number(path string) (float64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(bytes.TrimSpace(text)), 64)
	return v, err == nil
}

// fields reads the lines "name: number unit" or "name number" of a file.
func fields(path string) map[string]float64 {
	out := map[string]float64{}
	f, err := os.Open(path)
	if err != nil {
		return out
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) < 2 {
			continue
		}
		if v, err := strconv.ParseFloat(words[1], 64); err == nil {
			out[strings.TrimSuffix(words[0], ":")] = v
		}
	}
	return out
}
