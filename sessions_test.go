package moe_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the commands print into the pages")

// sessions are the pages whose console blocks are run.
var sessions = []string{"examples/README.md"}

// TestSessions runs every command that a page shows after "$ " in a block of
// the kind console, and compares what it prints with what the page shows. The
// commands of a page run one after the other in a directory that has the
// project's examples and the program moe in it.
//
//	go test . -run TestSessions -update
//
// rewrites the pages. The numbers shown are those of amd64: other processors
// round a product and a sum in one step, and the last digits differ.
func TestSessions(t *testing.T) {
	if runtime.GOARCH != "amd64" || runtime.GOOS == "windows" {
		t.Skip("the pages show the output on amd64, and the commands need a shell")
	}
	program := filepath.Join(t.TempDir(), "moe")
	if out, err := exec.Command("go", "build", "-o", program, "./cmd/moe").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, page := range sessions {
		t.Run(page, func(t *testing.T) {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS("examples")); err != nil {
				t.Fatal(err)
			}
			if err := os.Link(program, filepath.Join(dir, "moe")); err != nil {
				t.Fatal(err)
			}
			now := consoles.ReplaceAllFunc(text, func(block []byte) []byte { return replay(t, dir, block) })
			if *update && !bytes.Equal(now, text) {
				if err := os.WriteFile(page, now, 0o666); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

var (
	consoles = regexp.MustCompile("(?s)```console\n.*?```\n")
	// elsewhere is what differs between runs or between the page's reader and
	// this test.
	elsewhere = regexp.MustCompile(`after [0-9.]+ s`)
)

// replay runs the commands of a block and returns it with what they print. The
// output of a command that prints what the page shows stays as it is.
func replay(t *testing.T, dir string, block []byte) []byte {
	lines := strings.SplitAfter(strings.TrimSuffix(strings.TrimPrefix(string(block), "```console\n"), "```\n"), "\n")
	var out strings.Builder
	out.WriteString("```console\n")
	for len(lines) > 0 {
		command, isCommand := strings.CutPrefix(lines[0], "$ ")
		if !isCommand {
			t.Fatalf("%q: a block of the kind console begins with a command", lines[0])
		}
		out.WriteString(lines[0])
		lines = lines[1:]
		var shown string
		for len(lines) > 0 && !strings.HasPrefix(lines[0], "$ ") {
			shown += lines[0]
			lines = lines[1:]
		}
		printed := shell(t, dir, strings.TrimSpace(command))
		if elsewhere.ReplaceAllString(printed, "") == elsewhere.ReplaceAllString(shown, "") {
			printed = shown
		} else if !*update {
			t.Errorf("%sprints\n%sbut the page shows\n%s", command, printed, shown)
		}
		out.WriteString(printed)
		if len(lines) == 1 && lines[0] == "" {
			break
		}
	}
	out.WriteString("```\n")
	return []byte(out.String())
}

// shell runs a command line and returns its output and errors. The program is
// there already: go run ./cmd/moe is moe, and go build needs no run.
func shell(t *testing.T, dir, line string) string {
	if line == "go build ./cmd/moe" {
		return ""
	}
	line = strings.ReplaceAll(line, "go run ./cmd/moe", "./moe")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "MOE_CONFIG_DIR="+filepath.Join(dir, ".config"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}
