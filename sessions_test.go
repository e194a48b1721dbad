package moe_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/internal/pluginproc/plugintest"
	_ "github.com/gatedlearning/moe/internal/testheap"
	"github.com/gatedlearning/moe/internal/testslow"
)

var update = flag.Bool("update", false, "write what the commands print into the pages")

// sessions are the pages whose console blocks are run.
var sessions = []string{"README.md", "examples/README.md", "docs/writing-a-plugin.md", "docs/curves.md", "docs/trees.md", "docs/gru.md", "docs/families.md", "docs/heldout.md", "docs/diverse.md", "docs/your-own-data.md", "docs/scale.md", "docs/search.md", "docs/certificate.md",
	"docs/inference.md", "docs/groups.md", "docs/transforms.md", "docs/networks.md", "docs/peers.md", "docs/performance.md",
	"docs/session.md", "docs/export.md", "docs/reproducing.md", "cmd/moe/skill.md"}

// slowSessions are those pages whose commands take seconds.
var slowSessions = []string{"docs/heldout.md", "docs/families.md", "docs/gru.md", "docs/trees.md", "docs/curves.md",
	"docs/your-own-data.md", "docs/reproducing.md", "cmd/moe/skill.md", "docs/certificate.md", "docs/search.md",
	"docs/groups.md", "docs/writing-a-plugin.md", "docs/diverse.md", "docs/transforms.md"}

// TestSessions runs every command that a page shows after "$ " in a block of
// the kind console, and compares what it prints with what the page shows. The
// commands of a page run one after the other in a directory that has the
// project's examples and the program moe in it. Pictures that the page shows
// and the commands draw are compared too; those of docs/results take an hour, see
// TestResults.
//
//	go test . -run TestSessions -update
//
// rewrites the pages. The numbers shown are those of amd64: other processors
// round a product and a sum in one step, and the last digits differ.
func TestSessions(t *testing.T) {
	if runtime.GOARCH != "amd64" || runtime.GOOS != "linux" {
		t.Skip("the pages show the output on linux/amd64")
	}
	built := t.TempDir()
	build(t, "./cmd/moe", built)
	for _, page := range sessions {
		t.Run(page, func(t *testing.T) {
			if slices.Contains(slowSessions, page) {
				testslow.Mark(t)
			}
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS("examples")); err != nil {
				t.Fatal(err)
			}
			if err := os.Link(filepath.Join(built, "moe"), filepath.Join(dir, "moe")); err != nil {
				t.Fatal(err)
			}
			now := consoles.ReplaceAllFunc(text, func(block []byte) []byte { return replay(t, dir, block) })
			rewrite(t, page, text, now)
			for _, picture := range pictures.FindAllSubmatch(text, -1) {
				at := path.Join(path.Dir(page), string(picture[1])) // a page names it by where it stands itself
				if strings.HasPrefix(at, "docs/results/") {
					continue
				}
				drawn, err := os.ReadFile(filepath.Join(dir, path.Base(at)))
				if err != nil {
					t.Fatal(err)
				}
				shown, err := os.ReadFile(at)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(drawn, shown) && !*update {
					t.Errorf("%s is not what the commands draw", at)
				}
				rewrite(t, at, shown, drawn)
			}
		})
	}
}

// rewrite writes now to a file that holds was, if pages are to be updated.
func rewrite(t *testing.T, file string, was, now []byte) {
	if *update && !bytes.Equal(was, now) {
		if err := os.WriteFile(file, now, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

var (
	consoles = regexp.MustCompile("(?s)```console\n.*?```\n")
	pictures = regexp.MustCompile(`!\[[^]]*\]\(([^)]*\.svg)\)`) // a .png is a photograph of a page
	// elsewhere is what differs from run to run and from place to place, and the lines of
	// a command that takes long.
	elsewhere = regexp.MustCompile(`(?m:^moe: after [0-9ms]+: .*\n)|after [0-9.]+ s|^trusted [^:]*|sha256 [0-9a-f]+`)
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
			t.Errorf("%sprints\n%sbut the page shows\n%s(if the new output is right: go test . -run TestSessions -update)", command, printed, shown)
		}
		out.WriteString(printed)
		if len(lines) == 1 && lines[0] == "" {
			break
		}
	}
	out.WriteString("```\n")
	return []byte(out.String())
}

// shell runs a command line and returns its output and errors. go run ./cmd/moe, and
// what go install ./cmd/moe installs, is the program that is there already, and go
// build builds from the module into the directory.
func shell(t *testing.T, dir, line string) string {
	if pkg, ok := strings.CutPrefix(line, "go build "); ok {
		build(t, pkg, dir)
		return ""
	}
	if line == "go install ./cmd/moe" {
		return ""
	}
	line = strings.ReplaceAll(line, "go run ./cmd/moe", "moe")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "MOE_CONFIG_DIR="+filepath.Join(dir, ".config"), "PATH="+dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// build builds a main package of the module into a directory.
func build(t *testing.T, pkg, dir string) {
	t.Helper()
	if err := plugintest.Program(pkg, filepath.Join(dir, path.Base(pkg))); err != nil {
		t.Fatal(err)
	}
}
