package pluginproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gatedlearning/moe/internal/wire"
)

// runner runs a plugin's image for go-plugin, which knows it as a
// runner.Runner. What go-plugin does not do is done here: the plugin's
// standard input is empty, its environment a short list, its process group its
// own; it dies with the host; what it prints is always read, and only a proper
// first line reaches go-plugin.
type runner struct {
	image     *Image
	shown     string // the file's path as the user wrote it
	maxRSS    int64  // bytes
	env       []string
	socketDir string

	words     words
	handshake io.ReadCloser // the plugin's first line, once checked, and the end
	refused   error         // why the first line did not pass; see lineDone
	lineDone  chan struct{}

	drained chan struct{} // closed when all of its stderr has been read

	done  chan struct{} // closed when the plugin has ended and was reaped
	state *os.ProcessState
	close sync.Once

	mu     sync.Mutex
	pid    int        // 0 before it runs
	killed bool       // by us
	excess error      // why, if it was for what it did
	pipes  []*os.File // our ends of its pipes
}

// In the plugin the image and the lifeline have these file descriptors.
const (
	imageFD    = 3
	lifelineFD = 4
)

// passEnv are the variables that a plugin inherits: where programs and homes
// are, and the language.
var passEnv = []string{"PATH", "HOME", "LANG", "LC_ALL", "TZ"}

// newRunner prepares to run img.
func newRunner(img *Image, shown string, maxRSS int64) *runner {
	return &runner{image: img, shown: shown, maxRSS: maxRSS, lineDone: make(chan struct{}), drained: make(chan struct{}), done: make(chan struct{})}
}

// setUp takes what go-plugin wants in the plugin's environment, and the
// directory where the plugin's socket must be.
func (r *runner) setUp(env []string, socketDir string) {
	for _, name := range passEnv {
		if v, ok := os.LookupEnv(name); ok {
			r.env = append(r.env, name+"="+v)
		}
	}
	r.env = append(r.env, env...)
	r.env = append(r.env, fmt.Sprintf("%s=%d", wire.EnvLifeline, lifelineFD))
	r.socketDir = socketDir
}

// Start starts the plugin.
func (r *runner) Start(context.Context) error {
	var files []*os.File
	closeAll := func() {
		for _, f := range files {
			f.Close()
		}
	}
	for range 3 {
		read, write, err := os.Pipe()
		if err != nil {
			closeAll()
			return err
		}
		files = append(files, read, write)
	}
	outR, outW, errR, errW, lifeR, lifeW := files[0], files[1], files[2], files[3], files[4], files[5]
	started := make(chan error)
	go r.hold(outW, errW, lifeR, started)
	err := <-started
	outW.Close()
	errW.Close()
	lifeR.Close()
	if err != nil {
		closeAll()
		close(r.done)
		return err
	}
	r.mu.Lock()
	r.pipes = []*os.File{outR, errR, lifeW}
	r.mu.Unlock()
	handshake, pass := io.Pipe()
	r.handshake = handshake
	line := make(chan string, 1)
	go firstLine(outR, line, &r.words)
	go func() {
		defer close(r.drained)
		io.Copy(&r.words, errR)
	}()
	go r.check(line, pass)
	go r.watchMemory()
	return nil
}

// watchMemory ends a plugin whose resident memory exceeds maxRSS.
func (r *runner) watchMemory() {
	const interval = 50 * time.Millisecond
	statm := "/proc/" + r.ID() + "/statm"
	for !r.ended(interval) {
		data, err := os.ReadFile(statm)
		if err != nil {
			return
		}
		fields := strings.Fields(string(data))
		if len(fields) < 2 {
			return
		}
		pages, err := strconv.ParseInt(fields[1], 10, 64)
		if err == nil && pages*int64(os.Getpagesize()) > r.maxRSS {
			r.mu.Lock()
			r.excess = fmt.Errorf("it used more than %d MiB of memory and was ended", r.maxRSS>>20)
			r.mu.Unlock()
			r.kill()
			return
		}
	}
}

// exceeded returns what the plugin did that it was ended for, or nil.
func (r *runner) exceeded() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.excess
}

// hold starts the plugin and waits for its end, on a thread of its own: the
// parent-death signal is sent when the thread that forked ends, so this one may
// not end first. What is left of the process group dies before the plugin is
// reaped, while its process id cannot yet be another's.
func (r *runner) hold(stdout, stderr, lifeline *os.File, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd, err := r.start(stdout, stderr, lifeline, unix.CLONE_NEWPID)
	if err != nil && (errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL)) {
		cmd, err = r.start(stdout, stderr, lifeline, 0)
	}
	if err != nil {
		started <- err
		return
	}
	pid := cmd.Process.Pid
	dismiss := guard(pid)
	r.run(pid)
	started <- nil
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	unix.Kill(-pid, unix.SIGKILL)
	dismiss()
	r.mu.Lock() // no kill between the reaping and the note of it
	defer r.mu.Unlock()
	cmd.Wait()
	r.state = cmd.ProcessState
	close(r.done)
}

// guard starts a shell that kills the process group when the host has gone: a
// plugin can refuse the parent-death signal and the lifeline, and where there
// are no PID namespaces neither ends its children. Where there is no shell
// there is no guard. The returned function ends it.
func guard(group int) (dismiss func()) {
	read, write, err := os.Pipe()
	if err != nil {
		return func() {}
	}
	cmd := exec.Command("/bin/sh", "-c", `read line; kill -9 -"$0"`, strconv.Itoa(group))
	cmd.Stdin = read // a pipe of its own, which the plugin cannot hold open
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	read.Close()
	if err != nil {
		write.Close()
		return func() {}
	}
	return func() {
		cmd.Process.Kill()
		cmd.Wait()
		write.Close()
	}
}

// run notes that the plugin runs, and ends it if it was killed before it did.
func (r *runner) run(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pid = pid
	if r.killed {
		unix.Kill(-pid, unix.SIGKILL)
	}
}

// start forks with the clone flags given. In a PID namespace of its own the
// plugin takes every descendant with it, those that left its group included.
func (r *runner) start(stdout, stderr, lifeline *os.File, clone uintptr) (*exec.Cmd, error) {
	cmd := &exec.Cmd{
		Path:       "/proc/self/fd/" + strconv.Itoa(imageFD),
		Args:       []string{r.image.path},
		Env:        r.env,
		Dir:        "/",
		Stdout:     stdout,
		Stderr:     stderr,
		ExtraFiles: []*os.File{r.image.file, lifeline},
		SysProcAttr: &syscall.SysProcAttr{
			Setpgid:    true,
			Pdeathsig:  syscall.SIGKILL,
			Cloneflags: clone,
		},
	}
	if clone != 0 && os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	}
	return cmd, cmd.Start()
}

// check passes the first line on to go-plugin if it is a handshake as we want
// it, and otherwise says why not and ends the plugin.
func (r *runner) check(line <-chan string, pass *io.PipeWriter) {
	defer close(r.lineDone)
	defer pass.Close()
	first, ok := <-line
	if !ok {
		r.refused = errors.New("it ended without a word of the handshake on stdout: is it a plugin for moe?")
		r.ended(endGrace) // go-plugin kills it next, and how it ended is lost
		return
	}
	if err := checkHandshake(first, r.socketDir); err != nil {
		r.refused = err
		r.kill()
		return
	}
	io.WriteString(pass, first+"\n")
}

// checkHandshake checks the line
//
//	1|PROTOCOL|unix|SOCKET|grpc|CERTIFICATE
//
// with a socket in dir. Without the certificate there is no mutual TLS.
func checkHandshake(line, dir string) error {
	f := strings.Split(strings.TrimSpace(line), "|")
	if len(f) < 4 || f[0] != "1" {
		return fmt.Errorf("it printed %s on stdout before the handshake; a plugin prints to stderr", quote(line))
	}
	if f[1] != strconv.Itoa(wire.Version) {
		return fmt.Errorf("it speaks version %s of the protocol, this program speaks %d: one of them must be updated", quote(f[1]), wire.Version)
	}
	if f[2] != "unix" || filepath.Dir(f[3]) != dir {
		return fmt.Errorf("it listens at %s %s, not at a unix socket in PLUGIN_UNIX_SOCKET_DIR", quote(f[2]), quote(f[3]))
	}
	if info, err := os.Lstat(f[3]); err != nil || info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("there is no socket at %s, where it says that it listens", quote(f[3]))
	}
	if len(f) < 6 || f[4] != "grpc" || f[5] == "" {
		return errors.New("it offers no gRPC with mutual TLS")
	}
	return nil
}

// Wait waits for the plugin's end.
func (r *runner) Wait(context.Context) error {
	<-r.done
	if r.state == nil || r.state.Success() {
		return nil
	}
	return errors.New(r.state.String())
}

// Kill ends the plugin and its process group, waiting at most a second, and
// closes its output, which a process that left the group may still hold open.
// A plugin that does not run yet ends as soon as it does.
func (r *runner) Kill(context.Context) error {
	if !r.kill() {
		return nil
	}
	r.ended(time.Second)
	r.close.Do(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, p := range r.pipes {
			p.Close()
		}
	})
	return nil
}

// kill ends the process group and reports whether there is one.
func (r *runner) kill() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended(0) {
		r.killed = true
		if r.pid != 0 {
			unix.Kill(-r.pid, unix.SIGKILL)
		}
	}
	return r.pid != 0
}

// runs reports whether the plugin could be started.
func (r *runner) runs() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pid != 0
}

// Stdout yields the first line and ends.
func (r *runner) Stdout() io.ReadCloser { return r.handshake }

// Stderr is empty: go-plugin's parser of log lines can panic on what a plugin
// writes there.
func (r *runner) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name returns the path of the plugin's file as the user wrote it.
func (r *runner) Name() string { return r.shown }

// ID returns the process id.
func (r *runner) ID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strconv.Itoa(r.pid)
}

// Diagnose adds nothing; see end.
func (r *runner) Diagnose(context.Context) string { return "" }

// PluginToHost returns the address as it is; checkHandshake has accepted it.
func (r *runner) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

// HostToPlugin returns the address as it is.
func (r *runner) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}

// refusal returns why the first line was refused, or nil.
func (r *runner) refusal() error {
	select {
	case <-r.lineDone:
		return r.refused
	default:
		return nil
	}
}

// ended waits up to d for the plugin's end and reports it.
func (r *runner) ended(d time.Duration) bool {
	select {
	case <-r.done:
		return true
	default:
	}
	select {
	case <-r.done:
		return true
	case <-time.After(d):
		return false
	}
}

// lastWords returns the last lines that the plugin wrote: of one that has ended
// all that it wrote, unless somebody else holds its stderr open.
func (r *runner) lastWords() string {
	if r.runs() && r.ended(0) {
		select {
		case <-r.drained:
		case <-time.After(endGrace):
		}
	}
	return r.words.last()
}

// endedBy returns how the plugin ended, such as "exit status 2", or "" if it
// has not or was killed by us.
func (r *runner) endedBy() string {
	if !r.ended(0) || r.state == nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.killed {
		return ""
	}
	return r.state.String()
}
