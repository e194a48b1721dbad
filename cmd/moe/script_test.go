package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/internal/testslow"
)

// The scripts in testdata run the command as its users do. Beside testscript's
// own commands they have:
//
//	exits CODE PROGRAM ARGS…     runs it and compares the exit code; 0|1 is either;
//	                             moe runs in the script's [server]
//	runs ARGS…                   runs moe with the arguments in the script's [server];
//	                             the exit code is 0, or is not where ! stands before it
//	refuses CODE REGEXP ARGS…    runs moe with the arguments: the exit code is
//	                             CODE, stderr is one line that matches REGEXP,
//	                             stdout is empty and no file is new or changed;
//	                             most of a script's run in one process, its [server]
//	schema NAME [FILE]           stdout or a file is what docs/schema/NAME.json says
//	json KEY…                    stdout is one JSON object that has the keys
//	replace FILE OLD NEW         replaces OLD by NEW in a file, also a binary one
//	patch FILE OFFSET HEX        overwrites bytes; a negative offset is from the end
//	cut FILE BYTES               cuts bytes off a file's end
//	likelihood MODEL             stdout's log_likelihood is the model file's
//	damage DIR                   flips a byte in the middle of every file in a directory
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			hasServer(env)
			env.Setenv("MOE_CONFIG_DIR", filepath.Join(env.WorkDir, ".config"))
			examples, err := filepath.Abs("../../examples")
			env.Setenv("EXAMPLES", examples)
			return err
		},
		Condition: ifSlow,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":      cmdExits,
			"runs":       cmdRuns,
			"refuses":    cmdRefuses,
			"json":       cmdJSON,
			"schema":     cmdSchema,
			"replace":    cmdReplace,
			"patch":      cmdPatch,
			"cut":        cmdCut,
			"likelihood": cmdLikelihood,
			"damage":     cmdDamage,
		},
	})
}

// ifSlow knows the condition slow: slow tests are to run.
func ifSlow(name string) (bool, error) {
	if name != "slow" {
		return false, fmt.Errorf("no condition %q", name)
	}
	return testslow.Wanted(), nil
}

func need(ts *testscript.TestScript, neg bool, ok bool, usage string) {
	if neg || !ok {
		ts.Fatalf("usage: %s", usage)
	}
}

func cmdDamage(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 1, "damage DIR")
	files, err := filepath.Glob(filepath.Join(ts.MkAbs(args[0]), "*"))
	ts.Check(err)
	if len(files) == 0 {
		ts.Fatalf("no files in %s", args[0])
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		ts.Check(err)
		data[len(data)/2] ^= 1
		ts.Check(os.WriteFile(file, data, 0o666))
	}
}

func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) >= 2, "exits CODE PROGRAM ARGS…")
	var got int
	if args[1] == "moe" {
		got, _, _ = served(ts, args[2:])
	} else {
		got = exitCodeOf(ts, args[1:])
	}
	if !slices.Contains(strings.Split(args[0], "|"), strconv.Itoa(got)) {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

func cmdRuns(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, false, len(args) >= 1, "[!] runs ARGS…")
	if code, _, _ := served(ts, args); (code != 0) != neg {
		ts.Fatalf("exit code %d", code)
	}
}

func exitCodeOf(ts *testscript.TestScript, command []string) int {
	err := ts.Exec(command[0], command[1:]...)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	ts.Check(err)
	return 0
}

func cmdRefuses(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) >= 2, "refuses CODE REGEXP ARGS…")
	before := snapshot(ts)
	code, stdout, stderr := served(ts, args[2:])
	switch {
	case strconv.Itoa(code) != args[0]:
		ts.Fatalf("exit code %d, want %s; stderr: %s", code, args[0], stderr)
	case strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "moe: "):
		ts.Fatalf("stderr is not one line of moe's: %q", stderr)
	case !regexp.MustCompile(args[1]).MatchString(stderr):
		ts.Fatalf("stderr %q does not match %q", stderr, args[1])
	case stdout != "":
		ts.Fatalf("stdout is not empty: %q", stdout)
	}
	if after := snapshot(ts); after != before {
		ts.Fatalf("files before:\n%s\nand after:\n%s", before, after)
	}
}

// served runs moe with the arguments, in the script's server where it has one for them.
func served(ts *testscript.TestScript, args []string) (code int, stdout, stderr string) {
	if s, _ := ts.Value(serverKey{}).(*server); s.serves(ts, args) {
		code, stdout, stderr, err := s.run(args)
		ts.Check(err)
		fmt.Fprint(ts.Stdout(), stdout)
		fmt.Fprint(ts.Stderr(), stderr)
		return code, stdout, stderr
	}
	code = exitCodeOf(ts, append([]string{"moe"}, args...))
	return code, ts.ReadFile("stdout"), ts.ReadFile("stderr")
}

// snapshotSeed is that of the sums of snapshots, which are compared with one another
// alone. The sums are not cryptographic: of the programs among the files they would take
// longer than all else that a script does.
var snapshotSeed = maphash.MakeSeed()

// unchanged is what a file has for as long as nobody has written to it, where the system
// tells that; nil where it does not. Sums of files that have it are kept in sums.
var (
	unchanged func(fs.FileInfo) any
	sums      sync.Map
)

// snapshot lists the files of the work directory with their sizes and the sums of
// their first 64 MiB: beyond, files of holes alone are that long.
func snapshot(ts *testscript.TestScript) string {
	var list strings.Builder
	root := ts.Getenv("WORK")
	ts.Check(filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		sum, err := sumOf(f, info)
		fmt.Fprintf(&list, "%s %d %v %x\n", path, info.Size(), info.ModTime(), sum)
		return err
	}))
	return list.String()
}

// sumOf reads what it has not read of the file before, or what may have changed since.
func sumOf(f io.Reader, info fs.FileInfo) (uint64, error) {
	var same any
	if unchanged != nil {
		same = unchanged(info)
	}
	if known, ok := sums.Load(same); ok {
		return known.(uint64), nil
	}
	var sum maphash.Hash
	sum.SetSeed(snapshotSeed)
	if _, err := io.Copy(&sum, io.LimitReader(f, 64<<20)); err != nil {
		return 0, err
	}
	if same != nil {
		sums.Store(same, sum.Sum64())
	}
	return sum.Sum64(), nil
}

// exitOf is the exit code that a command's end tells.
func exitOf(err error) int {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, true, "json KEY…")
	var object map[string]json.RawMessage
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	ts.Check(dec.Decode(&object))
	if _, err := dec.Token(); err != io.EOF {
		ts.Fatalf("something follows the object")
	}
	for _, key := range args {
		if _, ok := object[key]; !ok {
			ts.Fatalf("no key %q in %s", key, ts.ReadFile("stdout"))
		}
	}
}

// edit puts a file with other contents in the place of one of the work directory, which
// other scripts may have a link to.
func edit(ts *testscript.TestScript, name string, change func([]byte) []byte) {
	path := ts.MkAbs(name)
	info, err := os.Lstat(path)
	ts.Check(err)
	data, err := os.ReadFile(path)
	ts.Check(err)
	data = change(data)
	ts.Check(os.Remove(path))
	ts.Check(os.WriteFile(path, data, 0o600))
	ts.Check(os.Chmod(path, info.Mode().Perm()))
}

func cmdReplace(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 3, "replace FILE OLD NEW")
	edit(ts, args[0], func(data []byte) []byte {
		if !bytes.Contains(data, []byte(args[1])) {
			ts.Fatalf("%s has no %q", args[0], args[1])
		}
		return bytes.Replace(data, []byte(args[1]), []byte(args[2]), 1)
	})
}

func cmdPatch(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 3, "patch FILE OFFSET HEX")
	offset, err := strconv.Atoi(args[1])
	ts.Check(err)
	patch, err := hex.DecodeString(args[2])
	ts.Check(err)
	edit(ts, args[0], func(data []byte) []byte {
		if offset < 0 {
			offset += len(data)
		}
		copy(data[offset:], patch)
		return data
	})
}

func cmdCut(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 2, "cut FILE BYTES")
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	edit(ts, args[0], func(data []byte) []byte { return data[:len(data)-n] })
}

func cmdLikelihood(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 1, "likelihood MODEL")
	var evaluated struct {
		LogLikelihood float64 `json:"log_likelihood"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &evaluated))
	m, err := fitted.Read(ts.MkAbs(args[0]))
	ts.Check(err)
	got, want := evaluated.LogLikelihood, m.Fit.LogLikelihood
	if math.Abs(got-want) > 1e-9*math.Abs(want) { // two orders of summation
		ts.Fatalf("log-likelihood %v, the model file's is %v", got, want)
	}
}
