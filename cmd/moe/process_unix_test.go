//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gatedlearning/moe/internal/pluginproc/plugintest"
	"github.com/gatedlearning/moe/internal/testslow"
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

// waitFor polls until ok, longer than what comes takes on any machine.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !plugintest.Await(ok) {
		t.Fatalf("waited in vain for %s", what)
	}
}

// standing waits until the command stands that was started with standAt or
// standOffered.
func standing(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if err == nil && status.Stopped() {
			return
		}
		if err != syscall.EINTR {
			t.Fatalf("the command was over before it came where it is to stand: %v, %v; %s", err, status, cmd.Stderr)
		}
	}
}

// woken sends a command that stands a signal, wakes it, and returns its exit code.
func woken(t *testing.T, cmd *exec.Cmd, signal syscall.Signal) int {
	t.Helper()
	if err := errors.Join(cmd.Process.Signal(signal), cmd.Process.Signal(syscall.SIGCONT)); err != nil {
		t.Fatal(err)
	}
	return exitOf(cmd.Wait())
}

// A signal ends a command, whether it is writing or waits for input that does not
// come, and a second one at once; the old output is as it was.
func TestSignals(t *testing.T) {
	testslow.Mark(t)
	if grace > 5*time.Second {
		t.Errorf("a signal ends a command after %v, and five seconds are promised", grace)
	}
	const old = "old\n"
	for name, test := range map[string]struct {
		signal syscall.Signal
		code   int
		args   []string
	}{
		"SIGINT while writing":    {syscall.SIGINT, 130, []string{"sample", "--activation", "relu", "--k", "2", "--d", "10", "--n", "100000000", "-o", "out.csv"}},
		"SIGHUP while writing":    {syscall.SIGHUP, 129, []string{"sample", "--activation", "relu", "--k", "2", "--d", "10", "--n", "100000000", "-o", "out.csv"}},
		"SIGTERM while writing":   {syscall.SIGTERM, 143, []string{"sample", "--activation", "relu", "--k", "2", "--d", "10", "--n", "100000000", "-o", "out.npy"}},
		"SIGTERM while fitting":   {syscall.SIGTERM, 143, []string{"fit", "data.npy", "--activation", "sigmoid", "--k", "8:30", "-o", "out.csv"}},
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
			if test.args[0] == "fit" { // minutes' worth of rows
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
			cmd.Env = append(cmd.Env, standOffered+"=1")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if test.args[0] == "sample" {
				waitFor(t, "bytes in the temporary file", func() bool { return writing(t, cmd, dir) })
			} else if test.args[0] == "fit" {
				standing(t, cmd)
			} else { // a pipe holds less than this: it has read most when all is written
				if _, err := io.WriteString(stdin, "x1,y\n"+strings.Repeat("1,2\n", 1<<18)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(200 * time.Millisecond) // most often it waits for more by then
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
			if test.args[0] == "fit" {
				cmd.Process.Signal(syscall.SIGCONT)
			}
			if code := exitOf(cmd.Wait()); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			if took := time.Since(start); strings.Contains(name, "twice") && took > grace {
				t.Errorf("it ended after %v, want before the %v that one signal gives", took, grace)
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
