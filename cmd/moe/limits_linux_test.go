package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Where there is not the memory for what is asked for that is said, before it is
// asked for: the Go runtime would end the process.
func TestMoreThanTheMemory(t *testing.T) {
	dir := t.TempDir()
	const long = 300_000_000 // rows of 3 numbers, a file of holes
	header := "\x93NUMPY\x01\x00\x76\x00" + "{'descr': '<f8', 'fortran_order': False, 'shape': (" + strconv.Itoa(long) + ", 3), }"
	header += strings.Repeat(" ", 127-len(header)) + "\n"
	if err := os.WriteFile(filepath.Join(dir, "long.npy"), []byte(header), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "long.npy"), int64(len(header))+long*3*8); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		want string
		args []string
	}{
		{"moe: the parameters of 4000 experts over 60000 features need 7.15 GiB of memory and ",
			[]string{"sample", "--activation", "relu", "--k", "4000", "--d", "60000", "--n", "2", "--design", "random", "-o", "out.csv"}},
		{"moe: the 300000000 rows of long.npy need 6.71 GiB of memory and ", []string{"crossvalidate", "long.npy", "--activation", "identity", "--k", "1"}},
	} {
		moe, stderr := command(t, dir, test.args...)
		cmd := exec.Command("/bin/sh", append([]string{"-c", `ulimit -v 4000000; exec "$0" "$@"`}, moe.Args...)...)
		cmd.Dir, cmd.Env, cmd.Stderr = moe.Dir, moe.Env, stderr
		if code, line := exitOf(cmd.Run()), stderr.String(); code != exitUsage || strings.Count(line, "\n") != 1 || !strings.HasPrefix(line, test.want) || !strings.Contains(line, "are available") {
			t.Errorf("%v: exit code %d, stderr %q", test.args, code, line)
		}
		for _, out := range []string{"out.csv", "out.json"} {
			if _, err := os.Stat(filepath.Join(dir, out)); err == nil {
				t.Errorf("%v: %s is there", test.args, out)
			}
		}
	}
}
