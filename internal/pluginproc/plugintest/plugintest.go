// Package plugintest is for tests of packages that start plugins: it installs
// the plugin with every fault, internal/pluginproc/testdata/badplugin, and looks
// for what is left of one.
package plugintest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, badplugin).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// Main is the TestMain of a package whose tests use [Build].
func Main(m *testing.M) {
	code := m.Run()
	os.RemoveAll(built)
	os.Exit(code)
}

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
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		data, _ := os.ReadFile(file)
		if bytes.HasPrefix(data, []byte(filepath.Dir(path)+"/")) {
			found = append(found, file+" "+strings.ReplaceAll(string(data), "\x00", " "))
		}
	}
	return found
}

// CheckNothingLeft gives processes that are ending a second to be gone.
func CheckNothingLeft(t testing.TB, path string) {
	t.Helper()
	for range 50 {
		if len(Running(path)) == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("left behind: %q", Running(path))
}

// Within fails the test where fn takes longer than limit.
func Within(t testing.TB, limit time.Duration, what string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatalf("%s takes longer than %v", what, limit)
	}
}
