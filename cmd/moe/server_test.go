package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// A server is a process of moe that runs command lines of a script, one after the other: those which its
// refuses expects to fail, which do little but start, and those of its runs and exits. Its standard output and error are
// files, its environment and directory those of the script when it was started, and its end
// is a failure. What is about the process gets one of its own, see [server.serves].
type server struct {
	place          []string // environment, with the directory as PWD
	cmd            *exec.Cmd
	requests       *os.File
	answers        *bufio.Reader
	stdout, stderr *os.File
}

// servesEnv makes a moe that a test starts a server.
const servesEnv = "MOE_TEST_SERVES"

// serve reads command lines as JSON, one a line, runs each as main does, and answers with
// its exit code.
func serve() {
	requests, answers := json.NewDecoder(os.NewFile(3, "requests")), os.NewFile(4, "answers")
	for {
		var args []string
		if requests.Decode(&args) != nil {
			os.Exit(0)
		}
		keepFiles()
		fmt.Fprintln(answers, run(args))
	}
}

// serverKey is that of a script's server among the values of its environment.
type serverKey struct{}

// hasServer gives a script a server, which is started when it is asked for.
func hasServer(env *testscript.Env) {
	if runtime.GOOS != "windows" { // which hands down no files but the standard ones
		s := &server{}
		env.Values[serverKey{}] = s
		env.Defer(s.stop)
	}
}

// placeOf returns the environment of what a script starts, with its directory as PWD.
func placeOf(ts *testscript.TestScript) []string {
	vars := reflect.ValueOf(ts).Elem().FieldByName("env")
	var place []string
	for i := range vars.Len() {
		place = append(place, vars.Index(i).String())
	}
	return append(place, "PWD="+ts.MkAbs("."))
}

// serves says whether a command line is none about its process: its standard input or a
// device, or a limit of its memory, which stays set, or another environment or directory
// than the server's.
func (s *server) serves(ts *testscript.TestScript, args []string) bool {
	ofProcess := func(arg string) bool {
		return arg == "-" || strings.HasPrefix(arg, "/dev/") || strings.HasPrefix(arg, "--max-memory")
	}
	if s == nil || slices.ContainsFunc(args, ofProcess) {
		return false
	}
	place := placeOf(ts)
	if s.cmd == nil {
		s.place = place
		ts.Check(s.start(ts.MkAbs(".")))
	}
	return slices.Equal(s.place, place)
}

func (s *server) start(dir string) error {
	moe, err := exec.LookPath("moe")
	if err != nil {
		return err
	}
	theirs, requests, err := os.Pipe()
	if err != nil {
		return err
	}
	answers, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	for _, to := range []**os.File{&s.stdout, &s.stderr} {
		f, err := os.CreateTemp("", "moe-server")
		if err != nil {
			return err
		}
		os.Remove(f.Name())
		*to = f
	}
	s.requests, s.answers = requests, bufio.NewReader(answers)
	s.cmd = exec.Command(moe)
	s.cmd.Dir, s.cmd.Env = dir, append(slices.Clone(s.place), servesEnv+"=1")
	s.cmd.Stdout, s.cmd.Stderr = s.stdout, s.stderr
	s.cmd.ExtraFiles = []*os.File{theirs, ours}
	err = s.cmd.Start()
	theirs.Close()
	ours.Close()
	return err
}

func (s *server) stop() {
	if s.cmd != nil {
		s.requests.Close()
		s.cmd.Wait()
		s.stdout.Close()
		s.stderr.Close()
	}
}

// run runs a command line in the server.
func (s *server) run(args []string) (code int, stdout, stderr string, err error) {
	request, err := json.Marshal(args)
	if err != nil {
		return 0, "", "", err
	}
	for _, f := range []*os.File{s.stdout, s.stderr} {
		if err := f.Truncate(0); err != nil {
			return 0, "", "", err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil { // the server's place is the same
			return 0, "", "", err
		}
	}
	if _, err := s.requests.Write(append(request, '\n')); err != nil {
		return 0, "", "", err
	}
	line, err := s.answers.ReadString('\n')
	if err == nil {
		code, err = strconv.Atoi(strings.TrimSpace(line))
	}
	written := func(f *os.File) string {
		data, readErr := io.ReadAll(io.NewSectionReader(f, 0, math.MaxInt64))
		err = errors.Join(err, readErr)
		return string(data)
	}
	stdout, stderr = written(s.stdout), written(s.stderr)
	if err != nil {
		err = fmt.Errorf("%w; it wrote %s", err, stderr)
	}
	return code, stdout, stderr, err
}
