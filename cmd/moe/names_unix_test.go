//go:build unix

package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode"

	"github.com/gatedlearning/moe/internal/testslow"
)

// hostile is a name that would clear a terminal, colour it, and look like a line
// of ours.
const hostile = "\x1b[2J\u009b31m\nmoe: trusted \u202e\x07"

// control is where the first character stands that is not printable; −1 for none.
func control(text string) int {
	return strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) })
}

// printed runs moe in dir and returns its exit code and all that it prints, which
// is nothing that steers a terminal.
func printed(t *testing.T, dir string, args ...string) (code int, out string) {
	t.Helper()
	cmd, stderr := command(t, dir, args...)
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	code = exitOf(cmd.Run())
	out = stdout.String() + stderr.String()
	if at := control(out); at >= 0 {
		t.Errorf("%q prints %q", args, out[at:min(len(out), at+20)])
	}
	if strings.Contains(out, "\nmoe: trusted") || strings.HasPrefix(out, "moe: trusted") {
		t.Errorf("%q prints the name's second line as one of its own: %q", args, out)
	}
	return code, out
}

// Names of files, columns and store entries do not reach a terminal as they are.
func TestHostileNames(t *testing.T) {
	testslow.Mark(t)
	dir := t.TempDir()
	table := hostile + ".csv"
	shows := func(want int, args ...string) {
		t.Helper()
		code, out := printed(t, dir, args...)
		if code != want || !strings.Contains(out, `\x1b[2J`) && !strings.Contains(out, `\u001b[2J`) {
			t.Errorf("%q: exit code %d, want %d; %s", args, code, want, out)
		}
	}
	shows(exitYes, "sample", "--activation", "relu", "--k", "1", "--d", "3", "--n", "200", "-o", table)
	shows(exitYes, "sample", "--activation", "relu", "--k", "1", "--d", "3", "--n", "200", "-o", table, "--json")
	shows(exitYes, "fit", table, "--activation", "relu", "--k", "1", "-o", hostile+".json")
	shows(exitYes, "predict", hostile+".json", table, "-o", hostile+".npy")
	shows(exitYes, "predict", hostile+".json", table, "-o", hostile+".npy", "--json")
	shows(exitIO, "predict", hostile+".json", hostile+".none")
	shows(exitData, "evaluate", table, table)
	shows(exitUsage, "fit", table, "--activation", "relu", "--k", "1", "--method", hostile)
	shows(exitUsage, "fit", table, "--activation", hostile, "--k", "1")
	shows(exitUsage, hostile)
	shows(exitUsage, "sample", "--"+hostile)
	shows(exitCreate, "sample", "--activation", "relu", "--k", "1", "--d", "3", "--n", "2", "-o", hostile+"/x.csv")

	// The columns of a file, as names in the answer and in what is wrong with them.
	header := `"a` + "\x1b[2J" + `","b` + "\u009b31m" + `",y` + "\n"
	rows, err := os.ReadFile(filepath.Join(dir, table))
	if err != nil {
		t.Fatal(err)
	}
	body := header
	for _, line := range strings.Split(strings.TrimSpace(string(rows)), "\n")[1:] {
		cells := strings.Split(line, ",")
		body += cells[0] + "," + cells[1] + "," + cells[3] + "\n"
	}
	for name, content := range map[string]string{"columns.csv": body, "bad.csv": body + "1,two\x1b[2J,3\n", "same.csv": header + "1,1,1\n1,2,3\n1,3,3\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	shows(exitYes, "fit", "columns.csv", "--activation", "relu", "--k", "1", "-o", "columns.json")
	shows(exitYes, "fit", "columns.csv", "--activation", "relu", "--k", "1", "-o", "columns.json", "--json")
	shows(exitData, "fit", "bad.csv", "--activation", "relu", "--k", "1")
	shows(exitData, "fit", "same.csv", "--activation", "relu", "--k", "1")
	shows(exitData, "predict", "columns.json", table)

	// The page about it, whose settings have the file's name too, and a layer's arrays.
	if code, out := printed(t, dir, "fit", "columns.csv", "--activation", "relu", "--k", "1", "--report", hostile+".html"); code != exitYes {
		t.Errorf("exit code %d: %s", code, out)
	}
	page, err := os.ReadFile(filepath.Join(dir, hostile+".html"))
	if err != nil {
		t.Fatal(err)
	}
	if control(string(page)) >= 0 || !strings.Contains(string(page), `\x1b[2J`) {
		t.Error("the page has control characters in it, or not the names of its columns")
	}
	header = `{"\u001b[2Jweight_ih_l0":{"dtype":"F32","shape":[3,1],"data_offsets":[0,12]},"\u001b[2Jweight_hh_l0":{"dtype":"F32","shape":[3,1],"data_offsets":[12,24]}}`
	layer := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	layer = append(append(layer, header...), make([]byte, 24)...)
	if err := os.WriteFile(filepath.Join(dir, "layer.safetensors"), layer, 0o666); err != nil {
		t.Fatal(err)
	}
	shows(exitYes, "gru", "layer.safetensors")
	shows(exitYes, "gru", "layer.safetensors", "--json")
	shows(exitData, "gru", "layer.safetensors", "--layer", "other")
	for _, in := range []string{"a\x00b,y\n1,2\n", "\"a\",\"y\x00\"\n1,2\n"} {
		if err := os.WriteFile(filepath.Join(dir, "nul.csv"), []byte(in), 0o666); err != nil {
			t.Fatal(err)
		}
		if code, out := printed(t, dir, "fit", "nul.csv", "--activation", "relu", "--k", "1"); code != exitData || !strings.Contains(out, "NUL") {
			t.Errorf("exit code %d for a NUL in a name: %s", code, out)
		}
	}

	// Entries of the store, which somebody with the user's rights has written.
	if runtime.GOOS != "linux" {
		return
	}
	entry := map[string]any{"path": "/opt/" + hostile, "sha256": hostile, "name": hostile, "version": hostile,
		"parameters": []map[string]any{{"name": hostile, "doc": hostile, "default": 1}}}
	store, err := json.Marshal(map[string]any{"format": "moe-trusted-plugins/v1", "plugins": []any{entry}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, ".config"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".config", "trusted-plugins.json"), store, 0o600); err != nil {
		t.Fatal(err)
	}
	shows(exitYes, "plugin", "list")
	shows(exitYes, "plugin", "list", "--json")
	shows(exitUsage, "fit", "columns.csv", "--activation", "nonesuch", "--k", "1")
}

// A name that is too long for the file system is known before the work, not after.
func TestLongNames(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("n", 300)
	sample, _ := command(t, dir, "sample", "--activation", "relu", "--k", "1", "--d", "3", "--n", "200", "-o", "data.csv")
	if err := sample.Run(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"sample", "--activation", "relu", "--k", "1", "--d", "3", "--n", "100000000", "-o", long + ".csv"},
		{"sample", "--activation", "relu", "--k", "1", "--d", "3", "--n", "100000000", "-o", "out.csv", "--truth", long},
		{"fit", "data.csv", "--activation", "sigmoid", "--k", "1", "-o", long},
		{"fit", "data.csv", "--activation", "sigmoid", "--k", "1", "-o", strings.Repeat("n", 250)}, // its checkpoint's
		{"fit", "data.csv", "--activation", "sigmoid", "--k", "1", "--report", long},
		{"predict", "none.json", "none.csv", "-o", long + ".csv"},
		{"validate-activation", "relu", "--plot", long + ".svg"},
		{"reproduce", "002-L3", "--quick", "-o", long},
	} {
		cmd, stderr := command(t, dir, args...)
		code, line := exitOf(cmd.Run()), stderr.String()
		if code != exitCreate || !strings.HasSuffix(line, "cannot be created: file name too long\n") || strings.Contains(line, ".tmp") {
			t.Errorf("%.60q: exit code %d, %s", args, code, line)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
