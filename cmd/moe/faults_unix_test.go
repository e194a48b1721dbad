//go:build unix

package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"encoding/json"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/internal/atomicfile"
	"github.com/gatedlearning/moe/internal/pluginproc/plugintest"
	"github.com/gatedlearning/moe/internal/testslow"
)

// The environment of a moe whose n-th operation on an output is to fail, or to be
// the last before the process is killed or stops itself, or that stops itself when it
// has offered to keep something for the n-th time; and where it lists its operations.
const (
	failAt       = "MOE_TEST_FAIL"
	killAt       = "MOE_TEST_KILL"
	standAt      = "MOE_TEST_STAND"
	standOffered = "MOE_TEST_STAND_OFFERED"
	listTo       = "MOE_TEST_OPERATIONS"
)

// faulty is main with the faults that the environment asks for.
func faulty() {
	ask := func(name string) int {
		n, _ := strconv.Atoi(os.Getenv(name))
		return n
	}
	fail, kill, stand, offer := ask(failAt), ask(killAt), ask(standAt), ask(standOffered)
	list, err := os.OpenFile(os.Getenv(listTo), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		list = nil // which takes nothing
	}
	if fail+kill+stand > 0 || list != nil {
		n := 0
		atomicfile.Fault(func(op atomicfile.Op, path string) error {
			n++
			fmt.Fprintln(list, op, filepath.Base(path))
			switch n {
			case fail:
				return errors.New("the disk has failed")
			case kill:
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			case stand:
				syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			}
			return nil
		})
	}
	offers := 0
	offered = func() {
		if offers++; offers == offer {
			syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		}
	}
	main()
}

// files are the regular files below a directory, by their path in it.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		out[rel] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// restore makes dir hold these files again and nothing else.
func restore(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	for name := range files(t, dir) {
		if _, ok := want[name]; !ok {
			os.Remove(filepath.Join(dir, name))
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !slices.ContainsFunc(slices.Collect(keys(want)), func(name string) bool { return strings.HasPrefix(name, e.Name()+"/") }) {
			os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	for name, data := range want {
		path := filepath.Join(dir, name)
		if now, err := os.ReadFile(path); err == nil && string(now) == data {
			continue
		}
		mode := fs.FileMode(0o600)
		if strings.HasPrefix(filepath.Base(name), "plugin-") {
			mode = 0o700
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(data), mode)); err != nil {
			t.Fatal(err)
		}
	}
}

func keys(m map[string]string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// writers are all commands that write files, in a directory with data.csv,
// model.json and, on Linux, a plugin.
func writers() map[string][]string {
	out := map[string][]string{
		"sample csv":     {"sample", "--activation", "relu", "--k", "2", "--d", "4", "--n", "300", "-o", "out.csv", "--truth", "out.json"},
		"sample npy":     {"sample", "--activation", "relu", "--k", "2", "--d", "4", "--n", "300", "-o", "out.npy", "--truth", "out.json"},
		"sample parquet": {"sample", "--activation", "relu", "--k", "2", "--d", "4", "--n", "300", "-o", "out.parquet"},
		"fit":            {"fit", "data.csv", "--activation", "identity", "--k", "1", "-o", "out.json", "--report", "out.html"},
		"predict csv":    {"predict", "model.json", "data.csv", "-o", "out.csv"},
		"predict npy":    {"predict", "model.json", "data.csv", "-o", "out.npy"},
		"validate":       {"validate-activation", "relu", "--plot", "out.svg"},
		"reproduce":      {"reproduce", "002-B", "--quick", "-o", "out"},
		"plugin new":     {"plugin", "new", "softsign", "--lang", "python"},
	}
	if runtime.GOOS == "linux" {
		out["plugin trust"] = []string{"plugin", "trust", "--lock", "./plugin-double"}
	}
	return out
}

// prepared is a directory in which every command of [writers] works.
func prepared(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, args := range [][]string{
		{"sample", "--activation", "identity", "--k", "1", "--d", "3", "--n", "200", "-o", "data.csv"},
		{"fit", "data.csv", "--activation", "identity", "--k", "1", "-o", "model.json"},
	} {
		cmd, stderr := command(t, dir, args...)
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %v, %s", args, err, stderr)
		}
	}
	if runtime.GOOS == "linux" {
		plugintest.Copy(t, filepath.Join(dir, "plugin-double"), plugintest.Install(t, "double"))
	}
	return dir
}

// broken runs a command with the fault and returns its exit code, what it prints on
// stderr and the operations up to its end.
func broken(t *testing.T, dir, fault string, n int, args []string) (code int, line string, operations []string) {
	t.Helper()
	list := filepath.Join(t.TempDir(), "operations")
	cmd, stderr := command(t, dir, append(args, "--quiet")...)
	cmd.Env = append(cmd.Env, fault+"="+strconv.Itoa(n), listTo+"="+list)
	code = exitOf(cmd.Run())
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	return code, stderr.String(), strings.Split(strings.TrimSpace(string(text)), "\n")
}

// halves lists what is neither as it was nor as it is to be. A killed process may
// leave temporary files whose name says so.
func halves(t *testing.T, dir string, before, after map[string]string, killed bool) (wrong, changed []string) {
	now := files(t, dir)
	for name, data := range now {
		was, had := before[name]
		switch is, has := after[name]; {
		case had && data == was:
		case has && data == is:
			changed = append(changed, name)
		case killed && strings.Contains(name, ".moe-") && strings.Contains(name, ".tmp"):
		case name == ".config/trusted-plugins.json" && (data == "" || json.Valid([]byte(data))): // empty before its first entry; a checksum is recorded before what the plugin says of itself
		default:
			wrong = append(wrong, name)
		}
	}
	for name := range before {
		if _, ok := now[name]; !ok {
			wrong = append(wrong, name+" is gone")
		}
	}
	return wrong, changed
}

var every = flag.Bool("every", false, "let every operation fail in TestEveryOperationFails, not some of each command")

// Every operation on every output of every command that writes fails in turn: the
// command says so in a line, with its exit code, and every file is whole, old or
// new. Killed there it leaves the same. With -every it takes a minute on two cores;
// else some operations of every command fail, of outputs that are there already.
func TestEveryOperationFails(t *testing.T) {
	testslow.Mark(t)
	dir := prepared(t)
	inputs := files(t, dir)
	for name, args := range writers() {
		restore(t, dir, inputs)
		_, line, operations := broken(t, dir, failAt, 0, args)
		after := files(t, dir)
		if len(after) == len(inputs) || len(operations) < 5 {
			t.Fatalf("%s: %d operations, no new file: %s", name, len(operations), line)
		}
		old := map[string]string{}
		for file, data := range inputs {
			old[file] = data
		}
		for file := range after { // what is there already is to be replaced
			if _, ok := inputs[file]; !ok && !strings.Contains(file, "/") {
				old[file] = "old\n"
			}
		}
		delete(old, "moe.lock")
		states, step := []map[string]string{old}, 1+len(operations)/4
		if *every {
			states, step = []map[string]string{inputs, old}, 1
		}
		for _, before := range states {
			for n := 1 + len(name)%step; n <= len(operations); n += step { // not the same ones of every command
				restore(t, dir, before)
				code, line, made := broken(t, dir, failAt, n, args)
				what := fmt.Sprintf("%s, operation %d of %d (%s)", name, n, len(operations), made[min(n, len(made))-1])
				if code != exitCreate && code != exitIO || strings.Count(line, "\n") != 1 || !strings.Contains(line, "the disk has failed") {
					t.Errorf("%s: exit code %d, %q", what, code, line)
				}
				wrong, changed := halves(t, dir, before, after, false)
				if len(wrong) > 0 {
					t.Errorf("%s: neither old nor new: %v", what, wrong)
				}
				if strings.HasPrefix(name, "sample") && len(changed) > 0 {
					t.Errorf("%s: of data and truth %v alone is new", what, changed)
				}
			}
		}
		for n := step; n <= len(operations); n += step {
			restore(t, dir, inputs)
			code, line, made := broken(t, dir, killAt, n, args)
			if wrong, _ := halves(t, dir, inputs, after, true); len(wrong) > 0 || code != -1 {
				t.Errorf("%s, killed before operation %d (%s): exit code %d, %q, neither old nor new: %v", name, n, made[len(made)-1], code, line, wrong)
			}
		}
	}
}

var kills = flag.Int("kills", 20, "how many times TestKilledAgainAndAgain kills a fit")

// A fit that is killed and interrupted again and again, and resumed where it left a
// checkpoint, leaves nothing half written, and in the end the bytes of one that was
// left alone. With -kills 200 it takes a minute on two cores.
func TestKilledAgainAndAgain(t *testing.T) {
	testslow.Mark(t)
	dir := t.TempDir()
	run := func(after time.Duration, signal syscall.Signal, args ...string) int {
		t.Helper()
		cmd, stderr := command(t, dir, args...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if after > 0 {
			time.Sleep(after)
			cmd.Process.Signal(signal) // it may be over
		}
		code := exitOf(cmd.Wait())
		if code > exitNo && code != exitSignal+int(signal) {
			t.Fatalf("%v: exit code %d, %s", args, code, stderr)
		}
		return code
	}
	run(0, 0, "sample", "--activation", "identity", "--k", "2", "--d", "6", "--n", "600", "-o", "data.npy")
	fit := []string{"fit", "data.npy", "--activation", "identity", "--k", "2:3", "--starts", "4", "--quiet", "-o"}
	began := time.Now()
	run(0, 0, append(fit, "whole.json")...)
	took := time.Since(began)
	whole := read(t, dir, "whole.json")

	rng := rand.New(rand.NewPCG(1, 1))
	checkpoint := filepath.Join(dir, "out.json.checkpoint")
	finished, resumed := 0, 0
	for killed := 0; killed < *kills; {
		args := append(slices.Clone(fit), "out.json")
		if _, err := os.Stat(checkpoint); err == nil {
			args = append(args, "--resume")
			resumed++
		}
		signal := []syscall.Signal{syscall.SIGKILL, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}[rng.IntN(4)]
		code := run(time.Duration(rng.Float64()*float64(took)), signal, args...)
		switch got, err := os.ReadFile(filepath.Join(dir, "out.json")); {
		case code == exitYes || code == exitNo:
			finished++
			took = took * 9 / 10 // the first may have stood still for a while
			if string(got) != whole {
				t.Fatalf("the finished fit is another file: %v", err)
			}
			if _, err := os.Stat(checkpoint); err == nil {
				t.Fatal("the checkpoint outlives the fit")
			}
			if err := os.Remove(filepath.Join(dir, "out.json")); err != nil {
				t.Fatal(err)
			}
		case err == nil && string(got) != whole: // it may be whole already
			t.Fatalf("%v left %d bytes in the place of the model's %d", signal, len(got), len(whole))
		default:
			killed++
		}
		if data, err := os.ReadFile(checkpoint); err == nil {
			if err := json.Unmarshal(data, new(host.Checkpoint)); err != nil {
				t.Fatalf("%v left half a checkpoint: %v", signal, err)
			}
		}
	}
	args := append(slices.Clone(fit), "out.json")
	if _, err := os.Stat(checkpoint); err == nil {
		args = append(args, "--resume")
	}
	run(0, 0, args...)
	if read(t, dir, "out.json") != whole {
		t.Error("in the end the fit is another file")
	}
	if left := temporary(t, dir); runtime.GOOS == "linux" && len(left) > 2 { // killed between two names
		t.Errorf("left behind: %v", left)
	}
	t.Logf("%d kills, %d times resumed, %d fits finished before theirs", *kills, resumed, finished)
}
