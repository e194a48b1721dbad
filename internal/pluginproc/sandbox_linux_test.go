package pluginproc

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gatedlearning/moe/internal/pluginproc/plugintest"
	"github.com/gatedlearning/moe/internal/sandbox"
	"github.com/gatedlearning/moe/internal/testslow"
)

// settings are those that a plugin is attacked from, and what is tried there.
var settings = []struct {
	name  string
	user  bool // that is not root
	of    sandbox.Mode
	lacks string // see TestHost
}{
	{"root", false, sandbox.Default, ""},
	{"root, strict", false, sandbox.Strict, ""},
	{"a user", true, sandbox.Default, ""},
	{"a user without namespaces", true, sandbox.Default, "namespaces"},
	// The following are no columns of the table.
	{"root without namespaces", false, sandbox.Default, "namespaces"},
	{"the filter alone", false, sandbox.Default, "namespaces landlock"},
	{"Landlock alone", false, sandbox.Default, "namespaces seccomp"},
	{"nothing", false, sandbox.Off, "namespaces"},
}

const columns = 4 // of the table

// attacked returns the kernel's answers to the attacks of a plugin whose host runs as uid.
func attacked(t *testing.T, dir string, i int, uid int) []syscall.Errno {
	t.Helper()
	host, exe := filepath.Join(dir, "host"), filepath.Join(dir, "badplugin")
	at := filepath.Join(dir, strconv.Itoa(i))
	if err := errors.Join(os.Mkdir(at, 0o755), os.Chown(at, uid, uid), os.Link(exe, filepath.Join(at, "plugin-attacks"))); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(host, "-test.run=^TestAttackedHost$")
	cmd.Env = []string{"PLUGIN_OF_HOST=" + filepath.Join(at, "plugin-attacks"), "HOST_LACKS=" + settings[i].lacks, "HOST_SANDBOX=" + string(settings[i].of), "PATH=" + os.Getenv("PATH")}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid), NoSetGroups: uid == os.Geteuid()}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", settings[i].name, err, out)
	}
	_, list, _ := strings.Cut(string(out), "answers")
	list, _, _ = strings.Cut(list, "\n")
	var answers []syscall.Errno
	for _, f := range strings.Fields(list) {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, syscall.Errno(n))
	}
	if len(answers) != len(plugintest.Attacks) {
		t.Fatalf("%s: %d answers of %d: %s", settings[i].name, len(answers), len(plugintest.Attacks), out)
	}
	return answers
}

// TestAttackedHost is the host of TestSandbox.
func TestAttackedHost(t *testing.T) {
	path := os.Getenv("PLUGIN_OF_HOST")
	if path == "" || os.Getenv("HOST_SANDBOX") == "" {
		t.Skip("it is run by TestSandbox")
	}
	done, err := plugintest.Stand(path)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	limits := testLimits
	limits.Sandbox, limits.lacks = sandbox.Mode(os.Getenv("HOST_SANDBOX")), lacksOf(os.Getenv("HOST_LACKS"))
	p, err := openFile(t.Context(), path, limits, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	z := make([]float64, len(plugintest.Attacks))
	for i := range z {
		z[i] = float64(i)
	}
	if err := p.act.Eval(t.Context(), z, z); err != nil {
		t.Fatal(err)
	}
	fmt.Println("answers", strings.Trim(fmt.Sprint(z), "[]"))
}

// lacksOf is what the kernel is to do without, by name.
func lacksOf(names string) sandbox.Lacks {
	return sandbox.Lacks{
		Namespaces: strings.Contains(names, "namespaces"), Seccomp: strings.Contains(names, "seccomp"), Landlock: strings.Contains(names, "landlock"),
	}
}

var update = flag.Bool("update", false, "write the kernel's answers to docs/robustness.md")

// TestSandbox: of all attacks none succeeds in the sandbox, whoever starts the plugin, and the
// kernel's answers are those that the documentation has. Nearly all succeed without it, so that they
// are what they say; and what is left where the kernel lacks a part is what the documentation says.
func TestSandbox(t *testing.T) {
	if k := sandbox.Running(); !k.Seccomp || k.Landlock < 6 {
		t.Skipf("this kernel has no whole sandbox: %+v", k)
	}
	dir := publicDir(t)
	var answers [][]syscall.Errno
	for i, s := range settings {
		uid := os.Geteuid()
		switch {
		case uid != 0 && !s.user:
			answers = append(answers, nil) // as far as there is no root to be
			continue
		case uid == 0 && s.user:
			uid = 65534
		}
		answers = append(answers, attacked(t, dir, i, uid))
	}
	var rows []string
	for i, a := range plugintest.Attacks {
		row := "| " + a.Name
		for j, s := range settings {
			if answers[j] == nil {
				row += " | "
				continue
			}
			answer, chance := answers[j][i], slices.Contains(plugintest.Chance, a.Name)
			switch {
			case s.of == sandbox.Off:
				if answer != 0 && !chance {
					t.Errorf("without the sandbox a plugin cannot %s: %v: the attack is none", a.Name, answer)
				}
			case strings.Contains(s.name, "alone"):
				if answer == 0 && holds(a.Name, s.lacks) {
					t.Errorf("with %s a plugin can %s", s.name, a.Name)
				}
			case answer == 0 && !(a.Name == "be found by an abstract name" && s.lacks == "namespaces"): // which is said
				t.Errorf("%s: in the sandbox a plugin can %s", s.name, a.Name)
			}
			if j < columns {
				row += " | " + errnoName(answer)
			}
		}
		rows = append(rows, row+" |")
	}
	if os.Geteuid() == 0 {
		checkTable(t, "../../docs/robustness.md", "| a plugin tries to |", rows)
	}
}

// holds says whether an attack is refused by the filter alone, or by Landlock alone.
func holds(attack, lacks string) bool {
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(attack, p) })
	}
	if strings.Contains(lacks, "landlock") {
		return !has("beside itself", "in /tmp", "overwrite", "environment", "host's memory", "signal the host", "/dev/zero", "abstract name", "terminal")
	}
	return has("beside itself", "in /tmp", "overwrite", "cut", "rename", "directory", "environment", "signal the host", "/dev/zero") && !has("set-user-id", "child")
}

func errnoName(e syscall.Errno) string {
	switch e {
	case 0:
		return "**done**"
	case plugintest.Refused:
		return "refused"
	}
	return unix.ErrnoName(e)
}

// checkTable compares the rows of the table in a page under a head with those that are; with -update
// it writes them.
func checkTable(t *testing.T, page, head string, rows []string) {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, after, ok := strings.Cut(string(data), "\n"+head)
	if !ok {
		t.Fatalf("%s has no table under %s", page, head)
	}
	lines := strings.Split(after, "\n")
	end := slices.IndexFunc(lines, func(l string) bool { return l == "" })
	if slices.Equal(lines[2:end], rows) {
		return
	}
	if *update {
		text := before + "\n" + head + strings.Join(slices.Concat(lines[:2], rows, lines[end:]), "\n")
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, row := range rows {
		if !slices.Contains(lines[2:end], row) {
			t.Errorf("%s does not say %s (go test ./internal/pluginproc -run TestSandbox -update)", page, row)
		}
	}
}

// publicDir returns a directory that every user can read, with this program and badplugin.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "moe-hosts")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.Executable()
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	exe, err := plugintest.Build()
	if err != nil {
		t.Fatal(err)
	}
	plugintest.Copy(t, filepath.Join(dir, "host"), self)
	plugintest.Copy(t, filepath.Join(dir, "badplugin"), exe)
	return dir
}

// TestStrict: a strict sandbox that is not whole starts nothing, and says what is
// missing; the default one says it, too, and starts.
func TestStrict(t *testing.T) {
	for _, lacks := range []sandbox.Lacks{{Namespaces: true}, {Seccomp: true}, {Landlock: true}} {
		limits := testLimits
		limits.lacks = lacks
		p, err := openFile(t.Context(), plugintest.Install(t, "relu"), limits, nil)
		if err != nil {
			t.Fatalf("%+v: %v", lacks, err)
		}
		missing := strings.Join(p.Missing(), "; ")
		p.Close()
		limits.Sandbox = sandbox.Strict
		path := plugintest.Install(t, "relu")
		_, err = openFile(t.Context(), path, limits, nil)
		if missing == "" {
			t.Errorf("%+v: nothing is missing", lacks)
		}
		checkFault(t, err, path, missing)
	}
	if k := sandbox.Running(); !k.Seccomp || k.Landlock < 6 {
		t.Skipf("this kernel has no whole sandbox: %+v", k)
	}
	limits := testLimits
	limits.Sandbox = sandbox.Strict
	p, _ := open(t, limits, "relu", nil)
	if missing := p.Missing(); len(missing) > 0 {
		t.Errorf("a strict sandbox started without %q", missing)
	}
}

// TestNamespaces: in a PID namespace a plugin has a network of its own in the sandbox, and the host's without it; it is
// of the user that started it there as well.
func TestNamespaces(t *testing.T) {
	for _, mode := range []sandbox.Mode{sandbox.Default, sandbox.Off} {
		limits := testLimits
		limits.Sandbox = mode
		p, path := open(t, limits, "relu", nil)
		if !p.proc.runner.confinement().Namespaces {
			t.Skip("no PID namespaces can be made here")
		}
		pid := pidOf(t, path)
		for kind, want := range map[string]bool{"pid": true, "net": mode == sandbox.Default, "user": os.Geteuid() != 0} {
			theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
			ours, ourErr := os.Readlink("/proc/self/ns/" + kind)
			if err := errors.Join(err, ourErr); err != nil {
				t.Fatal(err)
			}
			if (theirs != ours) != want {
				t.Errorf("sandbox %s: %s and %s here, want others: %v", mode, theirs, ours, want)
			}
		}
	}
}

// TestSurvivors: whoever starts it, with and without a PID namespace, nothing of a
// plugin that tries to get away survives the end of its host by kill -9, nor being
// closed.
func TestSurvivors(t *testing.T) {
	testslow.Mark(t)
	dir := publicDir(t)
	host, exe := filepath.Join(dir, "host"), filepath.Join(dir, "badplugin")
	uids := []uint32{uint32(os.Geteuid())}
	if os.Geteuid() == 0 {
		uids = append(uids, 65534)
	}
	for _, uid := range uids {
		for _, lacks := range []string{"", "namespaces"} {
			for i, mode := range []string{"leaves-group", "children", "immortal"} {
				for _, end := range []string{"kill", "close"} {
					name := fmt.Sprintf("%s as %d %s by %s", mode, uid, lacks, end)
					at := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
					path := filepath.Join(at, "plugin-"+mode)
					if err := errors.Join(os.Mkdir(at, 0o755), os.Link(exe, path)); err != nil {
						t.Fatal(err)
					}
					cmd := exec.Command(host, "-test.run=^TestHost$")
					cmd.Env = []string{"PLUGIN_OF_HOST=" + path, "HOST_LACKS=" + lacks, "HOST_ENDS=" + end, "PATH=" + os.Getenv("PATH")}
					cmd.Dir = "/"
					cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, NoSetGroups: uid == uint32(os.Geteuid())}}
					survives(t, name, cmd, path, []int{1, 2, 2}[i])
				}
			}
		}
	}
}

// survives checks that nothing of the plugin at path survives its host.
func survives(t *testing.T, name string, cmd *exec.Cmd, path string, processes int) {
	t.Helper()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	says := func(want string) {
		t.Helper()
		line := make([]byte, len(want))
		if _, err := io.ReadFull(stdout, line); err != nil || string(line) != want {
			t.Fatalf("%s: the host said %q, %v, want %q", name, line, err, want)
		}
	}
	says("ready")
	plugintest.CheckRunning(t, path, processes)
	if strings.Contains(name, "kill") {
		cmd.Process.Kill()
	} else {
		io.WriteString(stdin, "x")
		says("closed")
	}
	plugintest.CheckNothingLeft(t, path)
	if t.Failed() {
		t.Fatal(name)
	}
}

// TestGuardKilled: the end of the guard is that of the plugin, and it is said.
func TestGuardKilled(t *testing.T) {
	p, path := open(t, testLimits, "relu", nil)
	killed := false
	for pid, line := range plugintest.Processes() {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if line == "moe-guard\x00" && strings.Contains(string(status), fmt.Sprintf("PPid:\t%d\n", os.Getpid())) {
			killed = syscall.Kill(pid, syscall.SIGKILL) == nil || killed
		}
	}
	if !killed {
		t.Fatal("no guard")
	}
	plugintest.CheckNothingLeft(t, path)
	err := p.act.Eval(t.Context(), []float64{1}, []float64{1})
	checkFault(t, err, path, "was killed, and so it was ended")
}

// TestSessionLimits: memory and threads are those of all processes of a session.
func TestSessionLimits(t *testing.T) {
	for mode, says := range map[string]string{
		"children-grow": "it used more than 150 MiB of memory and was ended",
		"threads":       "it had more than 1024 processes and threads and was ended",
	} {
		limits := testLimits // which leave address space for a thousand stacks
		if mode != "threads" {
			limits.RSS = 150 << 20
		}
		p, path := open(t, limits, mode, nil)
		err := p.act.Eval(t.Context(), []float64{1}, []float64{1})
		checkFault(t, err, path, says)
		plugintest.CheckNothingLeft(t, path)
	}
}

// TestDescriptorsStayIn: descriptors that a plugin sends to its host by their connection arrive nowhere: the
// host reads, and takes none.
func TestDescriptorsStayIn(t *testing.T) {
	p, path := open(t, testLimits, "hands-over", nil)
	open := func() (n int) {
		fds, _ := filepath.Glob("/proc/self/fd/*")
		for _, fd := range fds {
			if link, _ := os.Readlink(fd); link == path {
				n++
			}
		}
		return n
	}
	before := open()
	err := p.act.Eval(t.Context(), []float64{1}, []float64{1})
	if err == nil {
		t.Error("the plugin's word in between went unnoticed: it sent nothing")
	}
	if after := open(); after != before {
		t.Errorf("the host has the plugin's file open %d times, %d before: %v", after, before, err)
	}
}

// TestHiddenMemory: what a plugin holds where no page table has it is little beside the limit, and
// what is in none that the kernel tells of with the process is found all the same.
func TestHiddenMemory(t *testing.T) {
	limits := testLimits
	limits.RSS = 200 << 20
	limits.lacks.Groups = true // they bound it all
	for mode, most := range map[string]float64{"hoards-shared": 0, "hoards-sockets": 14, "hoards-flights": 66, "hoards-pipes": 4} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p, _ := open(t, limits, mode, nil)
			z := []float64{1}
			if err := p.act.Eval(t.Context(), z, z); err != nil {
				t.Fatal(err)
			}
			if z[0] > most {
				t.Errorf("it holds %v MiB, want at most %v", z[0], most)
			}
			t.Logf("%v MiB", z[0])
		})
	}
	t.Run("leader-ends", func(t *testing.T) {
		t.Parallel()
		p, path := open(t, limits, "leader-ends", nil)
		err := p.act.Eval(t.Context(), []float64{1}, []float64{1})
		checkFault(t, err, path, "it used more than 200 MiB of memory and was ended")
	})
}

// TestPageTables: the page tables of a process count, also where all that is mapped is the
// kernel's one page of zeros, which is not resident.
func TestPageTables(t *testing.T) {
	self, ok := usageOf(os.Getpid())
	if !ok {
		t.Fatal("no usage of this process")
	}
	before := besides(self.path)
	if strconv.IntSize == 32 {
		t.Skip("a process of 32 bits has not that many addresses")
	}
	size := 2 << 20 // 4 GiB, on systems that have them
	size <<= 11
	data, err := unix.Mmap(-1, 0, size, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(data)
	unix.Madvise(data, unix.MADV_NOHUGEPAGE)
	sum := byte(0)
	for i := 0; i < size; i += 2 << 20 {
		sum += data[i]
	}
	// A table of 4096 bytes for each of 2048 stretches of 2 MiB, 8 MiB in all. Half of it is asked:
	// the rest of this process may give back tables and swap in the meantime.
	if grown := besides(self.path) - before; grown < 4<<20 || sum != 0 {
		t.Errorf("%d bytes of page tables, want some 8 MiB", grown)
	}
}

// TestLocks: what of a directory a plugin can lock: nothing where there is a filter, and with Landlock
// alone nothing that it may not read.
func TestLocks(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"readable": 0o600, "unreadable": 0o200} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	for lacks, want := range map[string]string{"": "0 locks", "landlock": "0 locks", "seccomp": "2 locks", "seccomp landlock": "3 locks"} {
		limits := testLimits
		limits.lacks = lacksOf(lacks)
		path := plugintest.Install(t, "locks")
		if err := os.WriteFile(path+".dir", []byte(dir), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := openFile(t.Context(), path, limits, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Family().Version; got != want {
			t.Errorf("without %q it has %s, want %s", lacks, got, want)
		}
		p.Close()
	}
}

// TestManyNames: names in the directory of the socket are counted.
func TestManyNames(t *testing.T) {
	p, path := open(t, testLimits, "makes-names", nil)
	err := p.act.Eval(t.Context(), []float64{1}, []float64{1})
	checkFault(t, err, path, "it made more than 64 files in its socket's directory and was ended")
}

// TestPatience: time in which the host does not run is not the plugin's.
func TestPatience(t *testing.T) {
	ctx, cancel := patient(t.Context(), 50*time.Millisecond)
	defer cancel()
	select {
	case <-ctx.Done():
	case <-time.After(plugintest.Patience):
		t.Fatal("it never ends")
	}
	if !impatient(ctx) {
		t.Errorf("it ended because %v", errors.Unwrap(ctx.Err()))
	}
	ctx, cancel = patient(t.Context(), time.Hour)
	cancel()
	if <-ctx.Done(); impatient(ctx) {
		t.Error("a call that was given up is called late")
	}
}
