package pluginproc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gatedlearning/moe/internal/pluginproc/plugintest"
	"github.com/gatedlearning/moe/internal/sandbox"
)

// attacked returns the attacks that succeed under the limits.
func attacked(t *testing.T, limits Limits) []string {
	t.Helper()
	path := plugintest.Install(t, "attacks")
	done, err := plugintest.Stand(path)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
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
	var succeeded []string
	for i, v := range z {
		if v != 0 {
			succeeded = append(succeeded, plugintest.Attacks[i].Name)
		}
	}
	return succeeded
}

// TestSandbox: of all attacks none succeeds in the sandbox, and nearly all do
// without it, so that they are what they say. What is left where the kernel lacks
// a part is what the documentation says.
func TestSandbox(t *testing.T) {
	whole := testLimits
	if k := sandbox.Running(); !k.Seccomp || k.Landlock < 6 {
		t.Skipf("this kernel has no whole sandbox: %+v", k)
	}
	if got := attacked(t, whole); len(got) > 0 {
		t.Errorf("in the sandbox a plugin can %q", got)
	}
	none := testLimits
	none.lacks.Namespaces = true
	if got := attacked(t, none); len(got) > 0 {
		t.Errorf("in the sandbox without a PID namespace a plugin can %q", got)
	}
	none.Sandbox = sandbox.Off
	open := attacked(t, none)
	for _, a := range plugintest.Attacks {
		switch a.Name {
		case "be kept from /dev/null", "have capabilities", "make a user namespace", "make an io_uring", "open a terminal", "open two thousand files", "open the host's memory":
			continue // as it may be for any program here
		}
		if !slices.Contains(open, a.Name) {
			t.Errorf("without the sandbox a plugin cannot %s: the attack is none", a.Name)
		}
	}
	filter := testLimits
	filter.lacks = sandbox.Lacks{Namespaces: true, Landlock: true}
	for _, name := range attacked(t, filter) {
		if strings.Contains(name, "socket") && !strings.Contains(name, "directory") || strings.Contains(name, "child") || strings.Contains(name, "memory that") {
			t.Errorf("with the filter alone a plugin can %s", name)
		}
	}
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
}

// TestSurvivors: whoever starts it, with and without a PID namespace, nothing of a
// plugin that tries to get away survives the end of its host by kill -9, nor being
// closed.
func TestSurvivors(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "moe-survivors")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host := filepath.Join(dir, "host")
	plugintest.Copy(t, host, self)
	exe, err := plugintest.Build()
	if err != nil {
		t.Fatal(err)
	}
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
					if err := os.Mkdir(at, 0o755); err != nil {
						t.Fatal(err)
					}
					if os.Link(exe, path) != nil { // on another file system
						plugintest.Copy(t, path, exe)
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
		limits := testLimits
		limits.RSS = 150 << 20
		p, path := open(t, limits, mode, nil)
		err := p.act.Eval(t.Context(), []float64{1}, []float64{1})
		checkFault(t, err, path, says)
		plugintest.CheckNothingLeft(t, path)
	}
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
