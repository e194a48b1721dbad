package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatedlearning/moe/internal/testslow"
)

// A fit of rows that the limit does not hold stays within it, whole process and all.
func TestMaxMemory(t *testing.T) {
	testslow.Mark(t)
	const limit = 64 // MiB; the rows are 76
	dir := t.TempDir()
	sample, _ := command(t, dir, "sample", "--activation", "identity", "--k", "2", "--d", "4", "--n", "2000000", "-o", "data.npy")
	if err := sample.Run(); err != nil {
		t.Fatal(err)
	}
	fit, stderr := command(t, dir, "fit", "data.npy", "--activation", "identity", "--k", "2", "--threads", "2", "--max-memory", "64MiB", "-o", "model.json")
	fit.Env = append(fit.Env, "GOGC=100") // as users have it
	if err := fit.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- fit.Wait() }()
	var peak int
	for done := false; !done; {
		peak = max(peak, mostResident(fit.Process.Pid))
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("%v: %s", err, stderr)
			}
			done = true
		case <-time.After(5 * time.Millisecond):
		}
	}
	if peak == 0 {
		t.Fatal("nothing was measured")
	}
	t.Logf("%d MiB at most", peak)
	if peak > limit {
		t.Errorf("%d MiB of memory at most, want %d", peak, limit)
	}
}

// mostResident is the most memory that a process has held so far, in MiB, and 0 where it has
// ended. The resource usage that wait returns counts the process that forked it, too, which
// may have held more.
func mostResident(pid int) int {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	line := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if line == nil {
		return 0
	}
	kb, _ := strconv.Atoi(string(line[1]))
	return kb >> 10
}

// What goes wrong with a limit: too small, and no room for a temporary file.
func TestMaxMemoryFaults(t *testing.T) {
	dir := t.TempDir()
	sample, _ := command(t, dir, "sample", "--activation", "identity", "--k", "2", "--d", "4", "--n", "20000", "-o", "data.csv")
	if err := sample.Run(); err != nil {
		t.Fatal(err)
	}
	fit := func(size string, env ...string) (int, string) {
		cmd, stderr := command(t, dir, "fit", "data.csv", "--activation", "identity", "--k", "2", "--threads", "1", "--max-memory", size, "-o", "model.json")
		cmd.Env = append(cmd.Env, env...)
		return exitOf(cmd.Run()), stderr.String()
	}
	code, line := fit("20MB")
	least := regexp.MustCompile(`^moe: 19 MiB of memory are too few: this fit takes at least (\d+) MiB`).FindStringSubmatch(line)
	if code != exitUsage || least == nil {
		t.Fatalf("exit code %d, %q", code, line)
	}
	code, line = fit(least[1]+"MiB", "TMPDIR="+filepath.Join(dir, "none"))
	if code != exitIO || !strings.HasPrefix(line, "moe: the rows of data.csv do not fit in memory and could not be kept in ") {
		t.Errorf("exit code %d, %q", code, line)
	}
	if code, line = fit("a lot"); code != exitUsage || !strings.Contains(line, "want a size such as 512MiB or 2GB") {
		t.Errorf("exit code %d, %q", code, line)
	}
	temp := filepath.Join(dir, "temp")
	if err := os.Mkdir(temp, 0o777); err != nil {
		t.Fatal(err)
	}
	if code, line = fit(least[1]+"MiB", "TMPDIR="+temp); code != 0 {
		t.Errorf("exit code %d, %q", code, line)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left in the directory of temporary files: %v, %v", left, err)
	}
}
