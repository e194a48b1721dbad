//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// command is moe, run in dir: the test binary under the name of moe, which
// TestMain looks at.
func command(t *testing.T, dir string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	link := filepath.Join(t.TempDir(), "moe")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(link, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "MOE_CONFIG_DIR="+filepath.Join(dir, ".config"))
	stderr := new(bytes.Buffer)
	cmd.Stderr = stderr
	return cmd, stderr
}

func temporary(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, ".*.tmp"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// writing says whether the command has begun to write its output: by the size
// of a temporary file, or, where the file has no name, by the bytes that the
// process has written.
func writing(t *testing.T, cmd *exec.Cmd, dir string) bool {
	const some = 1 << 16
	for _, temp := range temporary(t, dir) {
		if info, err := os.Stat(temp); err == nil && info.Size() > some {
			return true
		}
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", cmd.Process.Pid))
	if err != nil {
		return false
	}
	var written int64
	_, after, _ := strings.Cut(string(text), "wchar: ")
	fmt.Sscan(after, &written)
	return written > some
}

// waitFor polls until ok, for at most ten seconds.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// A signal ends a command within five seconds, whether it is writing or waits
// for input that does not come; the old output is as it was.
func TestSignals(t *testing.T) {
	const old = "old\n"
	for name, test := range map[string]struct {
		signal syscall.Signal
		code   int
		args   []string
	}{
		"SIGINT while writing":    {syscall.SIGINT, 130, []string{"sample", "--activation", "relu", "--k", "2", "--d", "10", "--n", "100000000", "-o", "out.csv"}},
		"SIGHUP while writing":    {syscall.SIGHUP, 129, []string{"sample", "--activation", "relu", "--k", "2", "--d", "10", "--n", "100000000", "-o", "out.csv"}},
		"SIGTERM while writing":   {syscall.SIGTERM, 143, []string{"sample", "--activation", "relu", "--k", "2", "--d", "10", "--n", "100000000", "-o", "out.npy"}},
		"SIGTERM while fitting":   {syscall.SIGTERM, 143, []string{"fit", "data.npy", "--activation", "sigmoid", "--k", "8", "-o", "out.csv"}},
		"SIGTERM while waiting":   {syscall.SIGTERM, 143, []string{"predict", "model.json", "-", "-o", "out.csv"}},
		"SIGINT twice in waiting": {syscall.SIGINT, 130, []string{"predict", "model.json", "-"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, file := range []string{"out.csv", "out.npy"} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(old), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(dir, "model.json"), []byte(smallModel), 0o666); err != nil {
				t.Fatal(err)
			}
			if test.args[0] == "fit" { // a few seconds' worth of rows
				sample, _ := command(t, dir, "sample", "--activation", "sigmoid", "--k", "8", "--d", "20", "--n", "100000", "-o", "data.npy")
				if err := sample.Run(); err != nil {
					t.Fatal(err)
				}
			}
			cmd, stderr := command(t, dir, test.args...)
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if test.args[0] == "sample" {
				waitFor(t, "bytes in the temporary file", func() bool { return writing(t, cmd, dir) })
			} else if test.args[0] == "fit" {
				time.Sleep(500 * time.Millisecond)
			} else { // it is waiting once it has taken the header from the pipe
				if _, err := stdin.Write([]byte("x1,y\n")); err != nil {
					t.Fatal(err)
				}
				time.Sleep(200 * time.Millisecond)
			}
			start := time.Now()
			if err := cmd.Process.Signal(test.signal); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(name, "twice") {
				time.Sleep(100 * time.Millisecond)
				if err := cmd.Process.Signal(test.signal); err != nil {
					t.Fatal(err)
				}
			}
			code := exitOf(cmd.Wait())
			limit := 5 * time.Second
			if strings.Contains(name, "twice") {
				limit = 2 * time.Second
			}
			if took := time.Since(start); code != test.code || took > limit {
				t.Errorf("exit code %d after %v, want %d within %v", code, took, test.code, limit)
			}
			if line := stderr.String(); strings.Count(line, "\n") != 1 || !strings.HasPrefix(line, "moe: ended by ") {
				t.Errorf("stderr %q", line)
			}
			for _, file := range []string{"out.csv", "out.npy"} {
				if data, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(data) != old {
					t.Errorf("%s has changed: %v", file, err)
				}
			}
			if left := temporary(t, dir); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// What is ignored at the start, as nohup and a shell's background jobs have it,
// stays ignored; SIGTERM never is.
func TestIgnoredSignals(t *testing.T) {
	for name, ignored := range map[string]syscall.Signal{"HUP": syscall.SIGHUP, "INT": syscall.SIGINT} {
		dir := t.TempDir()
		moe, stderr := command(t, dir, "sample", "--activation", "relu", "--k", "2", "--d", "10", "--n", "100000000", "-o", "out.csv")
		cmd := exec.Command("/bin/sh", append([]string{"-c", `trap "" ` + name + `; exec "$0" "$@"`}, moe.Args...)...)
		cmd.Dir, cmd.Env, cmd.Stderr = moe.Dir, moe.Env, stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "bytes in the temporary file", func() bool { return writing(t, cmd, dir) })
		for range 3 {
			if err := cmd.Process.Signal(ignored); err != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := exitOf(cmd.Wait()); code != 143 {
			t.Errorf("SIG%s ignored: exit code %d, stderr %q", name, code, stderr)
		}
	}
}

// Two commands that write one file leave the whole output of one of them.
func TestTwoWritersOfOneFile(t *testing.T) {
	dir := t.TempDir()
	args := func(seed, out string) []string {
		return []string{"sample", "--activation", "relu", "--k", "2", "--d", "5", "--n", "20000", "--seed", seed, "-o", out}
	}
	var want []string
	for _, seed := range []string{"1", "2"} {
		cmd, _ := command(t, dir, args(seed, seed+".csv")...)
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, seed+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, string(data))
	}
	for range 3 {
		one, _ := command(t, dir, args("1", "out.csv")...)
		two, _ := command(t, dir, args("2", "out.csv")...)
		if err := errors.Join(one.Start(), two.Start(), one.Wait(), two.Wait()); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "out.csv"))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want[0] && string(got) != want[1] {
			t.Error("the file is neither's")
		}
	}
	if left := temporary(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
