package pluginproc

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"golang.org/x/sys/unix"

	"github.com/gatedlearning/moe/internal/sandbox"
	"github.com/gatedlearning/moe/internal/wire"
)

// TestWords: of what a plugin writes the last lines are kept, long ones cut, and the last three are said;
// a Go panic among them is said alone.
func TestWords(t *testing.T) {
	var w words
	for i := range keptLines + 10 {
		fmt.Fprintf(&w, "line %d\n\n", i)
	}
	if len(w.lines) != keptLines || w.lines[0] != "line 10" {
		t.Errorf("%d lines from %q on", len(w.lines), w.lines[0])
	}
	if got := w.last(); got != `"line 71" "line 72" "line 73"` {
		t.Errorf("%s", got)
	}
	io.WriteString(&w, "the end")
	if got := w.last(); got != `"line 72" "line 73" "the end"` {
		t.Errorf("a line that has not ended: %s", got)
	}
	fmt.Fprintf(&w, "panic: at the disco\ngoroutine 1\n\tmain.go:1\nexit\n")
	if got := w.last(); got != `"panic: at the disco"` {
		t.Errorf("%s", got)
	}
	var long words
	full := strings.Repeat("x", maxLine)
	fmt.Fprintf(&long, "%s\n%sy\nshort\n", full, full)
	if want := []string{full, full + "…", "short"}; !slices.Equal(long.lines, want) {
		t.Errorf("lines of %d, %d and %d bytes, the last %q", len(long.lines[0]), len(long.lines[1]), len(long.lines[2]), long.lines[2])
	}
	var few words
	io.WriteString(&few, "one\n")
	if got := few.last(); got != `"one"` {
		t.Errorf("%s", got)
	}
	if exact, over := quote(strings.Repeat("é", saidChars)), quote(strings.Repeat("é", saidChars+1)); strings.HasSuffix(exact, `…"`) || over != `"`+strings.Repeat("é", saidChars)+`…"` {
		t.Errorf("%s and %s", exact, over)
	}
	if got := printable("a \"b\"\x1b[2J"); got != `a "b"\x1b[2J` {
		t.Errorf("%s", got)
	}
}

// TestFirstLine: the first line, whatever pieces it comes in, without its end, or what there is of it; what follows
// goes on. A line that is too long is cut, and nothing of it is lost.
func TestFirstLine(t *testing.T) {
	full := strings.Repeat("x", maxLine)
	for text, want := range map[string]struct{ line, rest string }{
		"one\ntwo\n": {"one", "two\n"}, "one": {"one", ""}, "\n": {"", ""}, "\ntwo": {"", "two"}, "": {},
		full + "\nrest": {full, "rest"}, full[1:] + "\nrest": {full[1:], "rest"}, full: {full, ""},
	} {
		for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)), iotest.DataErrReader(strings.NewReader(text))} {
			var rest strings.Builder
			line := make(chan string, 1)
			firstLine(r, line, &rest)
			got, ok := <-line
			if after := strings.TrimPrefix(rest.String(), "\n"); got != want.line || ok != (text != "") || after != strings.TrimPrefix(want.rest, "\n") {
				t.Errorf("%.20q: %.20q, %v, then %.20q", text, got, ok, rest.String())
			}
		}
	}
	line := make(chan string, 1)
	firstLine(strings.NewReader(full+full), line, io.Discard)
	if got := <-line; got != full {
		t.Errorf("%d bytes of a line without end", len(got))
	}
	line = make(chan string, 1)
	firstLine(io.MultiReader(strings.NewReader(full[:3000]), strings.NewReader(full)), line, io.Discard)
	if got := <-line; got != full {
		t.Errorf("%d bytes of a line without end that comes in pieces", len(got))
	}
}

// TestHandshakeLine: each part of the line by itself.
func TestHandshakeLine(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "m")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	version := strconv.Itoa(wire.Version)
	for line, says := range map[string]string{
		"1|" + version + "|unix|" + socket + "|grpc|CERT": "",
		"2|" + version + "|unix|" + socket + "|grpc|CERT": "before the handshake",
		"1|" + version + "|unix":                          "before the handshake",
		"1|" + version + "|unix|" + socket:                "mutual TLS",
		"1|" + version + "|unix|" + socket + "|grpc":      "mutual TLS",
		"1|" + version + "|unix|" + socket + "|grpc|":     "mutual TLS",
		"1|" + version + "|unix|" + socket + "|netrpc|C":  "mutual TLS",
		"1|99|unix|" + socket + "|grpc|CERT":              "version \"99\"",
		"1|" + version + "|tcp|" + socket + "|grpc|CERT":  "not at a unix socket",
		"1|" + version + "|unix|/tmp/s|grpc|CERT":         "not at a unix socket",
		"1|" + version + "|unix|" + file + "|grpc|CERT":   "there is no socket",
		"1|" + version + "|unix|" + dir + "/no|grpc|CERT": "there is no socket",
	} {
		err := checkHandshake(line+"\n", dir)
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, want %q", line, err, says)
		}
	}
}

// TestUsage: of this process what the kernel says elsewhere; of one that is not there nothing.
func TestUsage(t *testing.T) {
	u, ok := usageOf(os.Getpid())
	sid, err := unix.Getsid(0)
	if !ok || err != nil || u.session != sid || u.path != fmt.Sprintf("/proc/%d", os.Getpid()) {
		t.Errorf("%+v, %v: want session %d", u, ok, sid)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	of := func(name string) (v int64) {
		for line := range strings.Lines(string(status)) {
			if rest, ok := strings.CutPrefix(line, name+":"); ok {
				v, _ = strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			}
		}
		return v
	}
	if tasks := int(of("Threads")); u.tasks < tasks-4 || u.tasks > tasks { // the runtime may have made some in between
		t.Errorf("%d threads, want %d", u.tasks, tasks)
	}
	page := int64(os.Getpagesize())
	if rss := of("VmRSS") << 10; u.pages*page < rss-rss/2 || u.pages*page > rss+rss/2 { // between two looks
		t.Errorf("%d bytes resident, want %d", u.pages*page, rss)
	}
	if got, want := besides("/proc/self"), (of("VmPTE")+of("VmSwap")+of("HugetlbPages"))<<10; got < want/2 || got > 2*want {
		t.Errorf("%d bytes besides, want %d", got, want)
	}
	if u, ok := usageOf(1 << 30); ok {
		t.Errorf("of no process: %+v", u)
	}
	dir := t.TempDir()
	stat := func(fields int) string {
		text := "7 (a ) b) S"
		for i := 4; i < 3+fields; i++ {
			text += fmt.Sprint(" ", i)
		}
		if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, state := readStat(dir)
		return state
	}
	if a, b := stat(22), stat(21); a != "S" || b != "" {
		t.Errorf("of 22 fields the state %q, of 21 %q", a, b)
	}
	if err := os.WriteFile(filepath.Join(dir, "status"), []byte("Name:\tVmPTE\nVmPTE:\t     3 kB\nVmRSS:\t 7 kB\nVmSwap:\t  5 kB\nHugetlbPages:\t       11 kB\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := besides(dir); got != 19<<10 {
		t.Errorf("%d bytes besides, want %d", got, 19<<10)
	}
}

// TestZombieLeader: of a process whose first thread has ended and that is not reaped there is no use; of a session
// the processes but for the leader.
func TestZombieLeader(t *testing.T) {
	leader := exec.Command("/bin/sh", "-c", "sleep 30 & echo $!; exec sleep 30")
	leader.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL}
	out, err := leader.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := leader.Start(); err != nil {
		t.Fatal(err)
	}
	var child int
	if _, err := fmt.Fscan(out, &child); err != nil {
		t.Fatal(err)
	}
	if got := session(leader.Process.Pid); !slices.Equal(got, []int{child}) {
		t.Errorf("session %v, want %d", got, child)
	}
	unix.Kill(-leader.Process.Pid, unix.SIGKILL)
	if err := unix.Waitid(unix.P_PID, leader.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Error(err)
	}
	if u, ok := usageOf(leader.Process.Pid); ok {
		t.Errorf("of one that has ended: %+v", u)
	}
	leader.Wait()
}

// TestTooManyNames: 64 names are allowed, and 65 are not.
func TestTooManyNames(t *testing.T) {
	dir := t.TempDir()
	for i := range maxNames + 1 {
		if tooManyNames(dir) {
			t.Errorf("%d names are too many", i)
		}
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !tooManyNames(dir) || tooManyNames(filepath.Join(dir, "none")) {
		t.Error("65 names are not too many, or none are")
	}
}

// TestRefusedStarts: what the kernel refuses is tried again with less; faults of the sandbox and others are not.
func TestRefusedStarts(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&os.PathError{Err: syscall.EPERM}, true}, {syscall.ENOSPC, true}, {syscall.ENOENT, false}, {nil, false}, {errors.New("EPERM"), false},
		{&sandbox.StatusError{Step: "seccomp", Err: unix.EPERM}, false},
	} {
		if refused(c.err) != c.want {
			t.Errorf("%v: %v", c.err, !c.want)
		}
	}
}

// TestWait: of a plugin that ended well, or was never there, nothing is said; of another how it ended.
func TestWait(t *testing.T) {
	for script, want := range map[string]string{"": "", "exit 0": "", "exit 3": "exit status 3", "kill -9 $$": "signal: killed"} {
		r := newRunner(nil, "plugin", testLimits)
		if script != "" {
			cmd := exec.Command("/bin/sh", "-c", script)
			cmd.Run()
			r.state = cmd.ProcessState
		}
		close(r.done)
		if err := r.Wait(t.Context()); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%q: %v, want %q", script, err, want)
		}
	}
}

// TestRuntimeBase: a directory of the session's if it is short enough and nobody else's, else one of the user's in /tmp.
func TestRuntimeBase(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "m")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	long := func(n int) string {
		path := dir + "/" + strings.Repeat("d", n-len(dir)-1)
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	open := filepath.Join(dir, "open")
	if err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o750)); err != nil {
		t.Fatal(err)
	}
	own := fmt.Sprintf("/tmp/moe-%d", os.Geteuid())
	for value, want := range map[string]string{
		"": own, open: own, filepath.Join(dir, "none"): own,
		long(maxBase - 4): long(maxBase-4) + "/moe", long(maxBase - 3): own,
	} {
		t.Setenv("XDG_RUNTIME_DIR", value)
		if got, err := runtimeBase(); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", value, got, err, want)
		}
	}
	if err := checkPrivate(filepath.Join(dir, "none")); err == nil {
		t.Error("what is not there is private")
	}
	file := filepath.Join(dir, "file")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), checkPrivate(file)); err == nil {
		t.Error("a file is a private directory")
	}
}

// TestNoProgram: of a file that cannot be executed the kernel's word is said, in the sandbox as without it.
func TestNoProgram(t *testing.T) {
	for text, says := range map[string]string{"no program": "it cannot be executed: exec format error", "#!/nowhere/interpreter\n": "it cannot be executed: no such file or directory"} {
		for _, mode := range []sandbox.Mode{sandbox.Default, sandbox.Off} {
			path := filepath.Join(t.TempDir(), "plugin")
			if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
			limits := testLimits
			limits.Sandbox = mode
			_, err := openFile(t.Context(), path, limits, nil)
			if mode == sandbox.Off { // where the library says it of a file with a name
				says = says[strings.LastIndex(says, ": ")+2:]
			}
			checkFault(t, err, path, says)
		}
	}
}
