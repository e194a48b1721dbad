//go:build unix && !linux

package pluginproc

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// body is empty: a plugin's process is held by its process group.
type body struct{}

func newBody() body { return body{} }

const (
	imageName = "plugin"
	// lifelineFD is the lifeline's file descriptor in the plugin.
	lifelineFD = 3
)

// passEnv are the variables that a plugin inherits: where programs and homes
// are, and the language.
var passEnv = []string{"PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "TZ"}

// missing says what a plugin can do that it could not in the sandbox on Linux.
func (r *runner) missing() []string {
	return []string{
		"there is a sandbox on Linux alone: it can write the files that you can, open connections, and see and " +
			"signal your processes",
		"its memory and its processes are not bounded, and a child that leaves its process group is not ended with it",
		"one that does not heed its lifeline outlives a host that was killed",
	}
}

// hold starts the plugin in a session of its own, which takes the terminal away, and waits for its end.
func (r *runner) hold(stdout, stderr, lifeline *os.File, started chan<- error) {
	cmd := &exec.Cmd{
		Path:        r.image.file.Name(),
		Args:        []string{r.image.path},
		Env:         r.env,
		Dir:         "/",
		Stdout:      stdout,
		Stderr:      stderr,
		ExtraFiles:  []*os.File{lifeline},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := r.start(cmd.Start); err != nil {
		started <- err
		return
	}
	r.run(cmd.Process.Pid)
	started <- nil
	cmd.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	// The number of a group that still has members is nobody else's.
	r.killSession()
	r.state = cmd.ProcessState
	close(r.done)
}

// killSession kills the process group. The caller holds mu.
func (r *runner) killSession() { unix.Kill(-r.pid, unix.SIGKILL) }

// watch does nothing: what a process uses up is not to be read as on Linux.
func (r *runner) watch() {}

// keepCopy opens the copy to be read.
func keepCopy(path string) (*os.File, error) {
	if err := os.Chmod(path, 0o500); err != nil {
		return nil, err
	}
	return os.Open(path)
}
