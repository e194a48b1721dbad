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

	"github.com/gatedlearning/moe/internal/sandbox"
	"github.com/gatedlearning/moe/internal/wire"
)

// runner runs a plugin's image for go-plugin, which knows it as a
// runner.Runner. What go-plugin does not do is done here: the plugin's
// standard input is empty, its environment a short list, its session its own, in
// a sandbox; it dies with the host; what it prints is always read, and only a
// proper first line reaches go-plugin.
type runner struct {
	image       *Image
	shown       string // the file's path as the user wrote it
	limits      Limits
	certificate []byte // the host's, in PEM
	env         []string
	socketDir   string

	words     words
	handshake io.ReadCloser // the plugin's first line, once checked, and the end
	refused   error         // why the first line did not pass; see lineDone
	lineDone  chan struct{}

	drained chan struct{} // closed when all of its stderr has been read

	done  chan struct{} // closed when the plugin has ended and was reaped
	state *os.ProcessState
	close sync.Once

	mu     sync.Mutex
	pid    int // 0 before it runs
	pidfd  int // of the process, for as long as it is not reaped
	kernel sandbox.Kernel
	group  *cgroup    // of its processes; nil where none can be made
	killed bool       // by us
	excess *excess    // why, if it was for what it did
	pipes  []*os.File // our ends of its pipes
}

// In the plugin the image and the lifeline have these file descriptors. What
// follows is for the stage alone, and closed when the plugin runs.
const (
	imageFD    = 3
	lifelineFD = 4
	stageFD    = 5
	statusFD   = 6
	rulesetFD  = 7
)

// passEnv are the variables that a plugin inherits: where programs and homes
// are, and the language.
var passEnv = []string{"PATH", "HOME", "LANG", "LC_ALL", "TZ"}

// newRunner prepares to run img.
func newRunner(img *Image, shown string, limits Limits) *runner {
	return &runner{image: img, shown: shown, limits: limits, pidfd: -1, lineDone: make(chan struct{}), drained: make(chan struct{}), done: make(chan struct{})}
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
	r.env = append(r.env, fmt.Sprintf("%s=%d", wire.EnvLifeline, lifelineFD), fmt.Sprintf("%s=%s", envCertificate, r.certificate))
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
	go r.watch()
	return nil
}

// excess is why a plugin was ended for what it did, and what to do; "" where the
// fault is its own.
type excess struct{ reason, advice string }

// exceeded returns what the plugin did that it was ended for, or nil.
func (r *runner) exceeded() *excess {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.excess
}

// hold starts the plugin and waits for its end, on a thread of its own: the
// parent-death signal is sent when the thread that forked ends, so this one may
// not end first. What is left of the session dies before the plugin is reaped,
// while its process id cannot yet be another's.
func (r *runner) hold(stdout, stderr, lifeline *os.File, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd, err := r.start(stdout, stderr, lifeline)
	if err != nil {
		started <- err
		return
	}
	pid := cmd.Process.Pid
	dismiss, err := r.guard(pid)
	if TooManyFiles(err) { // of other faults only the guard is missing
		cmd.Process.Kill()
		cmd.Wait()
		r.group.remove()
		unix.Close(r.pidfd)
		started <- err
		return
	}
	r.run(pid)
	started <- nil
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	r.mu.Lock() // no kill between the reaping and the note of it
	defer r.mu.Unlock()
	r.killSession()
	dismiss()
	cmd.Wait()
	if r.group.outOfMemory() && r.excess == nil {
		r.excess = r.tooLarge()
	}
	r.group.remove()
	unix.Close(r.pidfd)
	r.state = cmd.ProcessState
	close(r.done)
}

// guard starts a program that kills the plugin when the host has gone: a plugin
// can refuse the parent-death signal and the lifeline. Should the guard itself be
// killed, the plugin ends. The returned function ends it.
func (r *runner) guard(pid int) (dismiss func(), err error) {
	cmd, alive, err := startGuard(pid, r.pidfd)
	if err != nil {
		return func() {}, err
	}
	dismissed := make(chan struct{})
	go func() {
		cmd.Wait()
		select {
		case <-dismissed:
		default:
			r.end(excess{"the process that ends it with its host was killed, and so it was ended", ""})
		}
	}()
	return func() {
		close(dismissed)
		cmd.Process.Kill()
		alive.Close()
		// Its end is not waited for under the lock that the goroutine may want.
	}, nil
}

// startGuard starts a guard of the process. It lives until the returned pipe ends.
func startGuard(pid, pidfd int) (*exec.Cmd, *os.File, error) {
	program, err := sandbox.Executable("moe-guard", sandbox.NewGuard(pid))
	if err != nil {
		return nil, nil, err
	}
	defer program.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer read.Close()
	target, err := unix.FcntlInt(uintptr(pidfd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		write.Close()
		return nil, nil, err
	}
	handle := os.NewFile(uintptr(target), "pidfd")
	defer handle.Close()
	cmd := &exec.Cmd{
		Path:        "/proc/self/fd/4",
		Args:        []string{"moe-guard"},
		Env:         []string{},
		Dir:         "/",
		Stdin:       read, // a pipe of its own, which the plugin cannot hold open
		ExtraFiles:  []*os.File{handle, program},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		write.Close()
		return nil, nil, err
	}
	return cmd, write, nil
}

// run notes that the plugin runs, and ends it if it was killed before it did.
func (r *runner) run(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pid = pid
	if r.killed {
		r.killSession()
	}
}

// start starts the plugin in a session of its own, which takes the terminal away,
// and in the sandbox. In a PID namespace it takes every descendant with it, those
// that left the session included.
func (r *runner) start(stdout, stderr, lifeline *os.File) (cmd *exec.Cmd, err error) {
	k := sandbox.Running()
	k.Namespaces = true
	k = r.limits.without(k)
	var group *cgroup
	if !r.limits.lacks.Groups {
		group = newCgroup(r.limits)
	}
	for _, try := range []struct{ namespaces, group bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
		if try.namespaces && !k.Namespaces || try.group && group == nil {
			continue
		}
		with := k
		with.Namespaces, r.group = try.namespaces, nil
		if try.group {
			r.group = group
		}
		cmd, err = r.startOn(with, stdout, stderr, lifeline)
		if !refused(err) || !try.namespaces && !try.group {
			break
		}
	}
	if err != nil || r.group == nil {
		group.remove()
	}
	return cmd, err
}

// refused says whether err is that of a process that the kernel did not make: it has no
// namespaces, or no such control groups, for this user. Faults of the sandbox and of
// the plugin's file are others.
func refused(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EPERM, syscall.ENOSPC, syscall.EINVAL, syscall.EACCES, syscall.EBUSY, syscall.ENOSYS, syscall.EOPNOTSUPP} {
		if errors.Is(err, errno) && !errors.As(err, new(*sandbox.StatusError)) {
			return true
		}
	}
	return false
}

// startOn is start with what k has.
func (r *runner) startOn(k sandbox.Kernel, stdout, stderr, lifeline *os.File) (*exec.Cmd, error) {
	r.mu.Lock()
	r.kernel = k
	r.mu.Unlock()
	if missing := k.Missing(); r.limits.Sandbox == sandbox.Strict && len(missing) > 0 {
		return nil, &unconfinedError{missing}
	}
	cmd := &exec.Cmd{
		Path:       "/proc/self/fd/" + strconv.Itoa(imageFD),
		Args:       []string{r.image.path},
		Env:        r.env,
		Dir:        "/",
		Stdout:     stdout,
		Stderr:     stderr,
		ExtraFiles: []*os.File{r.image.file, lifeline},
		SysProcAttr: &syscall.SysProcAttr{
			Setsid:    true,
			Pdeathsig: syscall.SIGKILL,
			PidFD:     &r.pidfd,
		},
	}
	if r.group != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(r.group.dir.Fd())
	}
	if k.Namespaces {
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWPID
		if r.limits.Sandbox != sandbox.Off { // no abstract name of its sockets is one to others
			cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWNET
		}
		if os.Geteuid() != 0 {
			cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		}
	}
	if r.limits.Sandbox == sandbox.Off || !k.Seccomp && k.Landlock == 0 {
		return cmd, cmd.Start()
	}
	return cmd, r.startStaged(cmd, k)
}

// startStaged starts the plugin by a stage that puts the sandbox in force.
func (r *runner) startStaged(cmd *exec.Cmd, k sandbox.Kernel) error {
	files := sandbox.Files{Image: imageFD, Stage: stageFD, Status: statusFD, Ruleset: -1}
	var ruleset *os.File
	if k.Landlock > 0 {
		var err error
		if ruleset, err = sandbox.NewRuleset(k, r.socketDir); err != nil {
			return err
		}
		defer ruleset.Close()
		files.Ruleset = rulesetFD
	}
	program, err := sandbox.Executable("moe-stage", sandbox.NewStage(k, files, r.limits.RSS))
	if err != nil {
		return err
	}
	defer program.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	cmd.Path = "/proc/self/fd/" + strconv.Itoa(stageFD)
	cmd.ExtraFiles = append(cmd.ExtraFiles, program, write)
	if ruleset != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, ruleset)
	}
	err = cmd.Start()
	write.Close()
	if err != nil {
		return err
	}
	if err := sandbox.ReadStatus(read); err != nil {
		cmd.Wait()
		unix.Close(r.pidfd)
		return err
	}
	return nil
}

// unconfinedError refuses to start a plugin without what a strict sandbox has.
type unconfinedError struct{ missing []string }

func (e *unconfinedError) Error() string {
	return "the sandbox is not whole here: " + strings.Join(e.missing, "; ")
}

// confinement returns what the plugin's sandbox is made of.
func (r *runner) confinement() sandbox.Kernel {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kernel
}

// check passes the first line on to go-plugin if it is a handshake as we want
// it, and otherwise says why not and ends the plugin. What it says stands before
// go-plugin sees an end.
func (r *runner) check(line <-chan string, pass io.WriteCloser) {
	defer pass.Close()
	first, ok := <-line
	if !ok {
		r.refused = errors.New("it ended without a word of the handshake on stdout: is it a plugin for moe?")
		close(r.lineDone)
		r.ended(endGrace) // go-plugin kills it next, and how it ended is lost
		return
	}
	r.refused = checkHandshake(first, r.socketDir)
	close(r.lineDone)
	if r.refused != nil {
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

// Kill ends the plugin and its session, waiting at most killGrace, and closes its
// output, which a process that left the session may still hold open.
// A plugin that does not run yet ends as soon as it does.
func (r *runner) Kill(context.Context) error {
	if !r.kill() {
		return nil
	}
	r.ended(killGrace)
	r.close.Do(func() {
		r.drain()
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, p := range r.pipes {
			p.Close()
		}
	})
	return nil
}

// kill ends the plugin's session and reports whether there is one.
func (r *runner) kill() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended(0) {
		r.killed = true
		if r.pid != 0 {
			r.killSession()
		}
	}
	return r.pid != 0
}

// end ends a plugin for a reason that is told.
func (r *runner) end(why excess) {
	r.mu.Lock()
	if r.excess == nil {
		r.excess = &why
	}
	r.mu.Unlock()
	r.kill()
}

// killSession kills the process, wherever it has gone, its control group and its process
// group, and where no namespace ends with it those that left the group but not the
// session. The caller holds mu, and the process has not been reaped.
func (r *runner) killSession() {
	unix.PidfdSendSignal(r.pidfd, unix.SIGKILL, nil, 0)
	r.group.kill()
	unix.Kill(-r.pid, unix.SIGKILL)
	if r.kernel.Namespaces {
		return
	}
	for range 3 { // one that was forking may have come too late for the first
		members := session(r.pid)
		if len(members) == 0 {
			return
		}
		for _, pid := range members {
			unix.Kill(pid, unix.SIGKILL)
		}
	}
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

// refusal returns why the first line was refused, or nil. It waits for the line:
// of a plugin that runs no more it ends with the plugin's output.
func (r *runner) refusal() error {
	if within(r.lineDone, endGrace) {
		return r.refused
	}
	return nil // somebody else holds its output open
}

// ended waits up to d for the plugin's end and reports it.
func (r *runner) ended(d time.Duration) bool { return within(r.done, d) }

// lastWords returns the last lines that the plugin wrote: of one that has ended
// all that it wrote, unless somebody else holds its stderr open.
func (r *runner) lastWords() string {
	if r.runs() && r.ended(0) {
		r.drain()
	}
	return r.words.last()
}

// drain waits until all of the plugin's stderr has been read, or somebody else
// holds it open.
func (r *runner) drain() { within(r.drained, endGrace) }

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
