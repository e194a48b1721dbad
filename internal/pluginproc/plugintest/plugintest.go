// Package plugintest is for tests of packages that start plugins: it installs
// the plugin with every fault, internal/pluginproc/testdata/badplugin, and looks
// for what is left of one.
package plugintest

import (
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const badplugin = "github.com/gatedlearning/moe/internal/pluginproc/testdata/badplugin"

var built string // the directory of badplugin, "" until it is built

// Build builds badplugin, once, and returns its path. It plays the mode that it
// is called by; see [Install].
var Build = sync.OnceValues(func() (path string, err error) {
	if built, err = os.MkdirTemp("", "badplugin"); err != nil {
		return "", err
	}
	path = filepath.Join(built, "badplugin")
	return path, Program(badplugin, path)
})

// Program builds a main package as the file path, without debug information. The go
// command keeps what it links for go run, and nothing else that it links: where an earlier run
// has built the same the program is copied, and linked once only. The flags are the go command's.
func Program(pkg, path string, flags ...string) error {
	args := slices.Concat([]string{"run", "-ldflags=-s -w", "-exec=cp"}, flags, []string{pkg, path})
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go run -exec=cp %s: %w: %s", pkg, err, out)
	}
	return nil
}

// Main is the TestMain of a package whose tests use [Build].
func Main(m *testing.M) {
	code := m.Run()
	Clean()
	os.Exit(code)
}

// Clean removes what [Build] has built.
func Clean() { os.RemoveAll(built) }

// Install puts the plugin that plays mode into a directory of its own and
// returns its path.
func Install(t testing.TB, mode string) string {
	t.Helper()
	exe, err := Build()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plugin-"+mode)
	if os.Link(exe, path) != nil {
		Copy(t, path, exe)
	}
	return path
}

// Copy copies an executable file.
func Copy(t testing.TB, dst, src string) {
	t.Helper()
	data, err := os.ReadFile(src)
	if err == nil {
		err = os.WriteFile(dst, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Running returns the command lines of the processes that were started from the
// directory of path.
func Running(path string) []string {
	var found []string
	for pid, line := range Processes() {
		if strings.HasPrefix(line, filepath.Dir(path)+"/") {
			found = append(found, strconv.Itoa(pid)+" "+strings.ReplaceAll(line, "\x00", " "))
		}
	}
	return found
}

// Processes are all processes of the machine with their command lines, whose arguments
// end in \x00. It is what tests poll: filepath.Glob, which lists the directory of
// every process, takes eight times as long.
func Processes() iter.Seq2[int, string] {
	return func(yield func(pid int, line string) bool) {
		proc, err := os.Open("/proc")
		if err != nil {
			return
		}
		defer proc.Close()
		names, _ := proc.Readdirnames(-1)
		for _, name := range names {
			pid, err := strconv.Atoi(name)
			if err != nil {
				continue
			}
			line, _ := os.ReadFile("/proc/" + name + "/cmdline")
			if !yield(pid, string(line)) {
				return
			}
		}
	}
}

// Patience is how long tests wait for what comes in a moment, on a machine that
// has other things to do; what does not come at all stays away for an hour.
const Patience = 30 * time.Second

// Await polls until ok, for as long as [Patience], and reports whether it came.
func Await(ok func() bool) bool {
	for end := time.Now().Add(Patience); ; time.Sleep(5 * time.Millisecond) {
		late := time.Now().After(end)
		if ok() {
			return true
		}
		if late {
			return false
		}
	}
}

// CheckNothingLeft waits until the processes that are ending are gone.
func CheckNothingLeft(t testing.TB, path string) {
	t.Helper()
	if !Await(func() bool { return len(Running(path)) == 0 }) {
		t.Errorf("left behind: %q", Running(path))
	}
}

// CheckRunning waits until at least n processes run that were started from the
// directory of path: a plugin answers before its children are under way.
func CheckRunning(t testing.TB, path string, n int) {
	t.Helper()
	if !Await(func() bool { return len(Running(path)) >= n }) {
		t.Errorf("%q run, want %d", Running(path), n)
	}
}

// Pausing is what a thread of the plugin "pauses" is called in its tenth batch, where
// it stands until there is a file beside its own whose name has .on added.
const Pausing = "pausing"

// Pauses says whether the process is the plugin "pauses", and stands.
func Pauses(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", pid))
	for _, file := range threads {
		if name, _ := os.ReadFile(file); string(name) == Pausing+"\n" {
			return true
		}
	}
	return false
}

// Within fails the test where fn takes longer than [Patience].
func Within(t testing.TB, what string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	select {
	case <-done:
	case <-time.After(Patience):
		t.Fatalf("%s takes longer than %v", what, Patience)
	}
}
