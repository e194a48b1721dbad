package pluginproc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gatedlearning/moe/internal/sandbox"
)

// body is what a plugin's process is held and confined by on Linux. The runner's mutex guards it.
type body struct {
	pidfd  int // of the process, for as long as it is not reaped
	kernel sandbox.Kernel
	group  *cgroup // of its processes; nil where none can be made
}

func newBody() body { return body{pidfd: -1} }

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
			r.end(excess{reason: "the process that ends it with its host was killed, and so it was ended"})
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

// start starts the plugin in a session of its own, which takes the terminal away,
// and in the sandbox. In a PID namespace it takes every descendant with it, those
// that left the session included.
func (r *runner) start(stdout, stderr, lifeline *os.File) (cmd *exec.Cmd, err error) {
	k := sandbox.Running()
	k.Namespaces = true
	k = k.Without(r.limits.lacks)
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
	for _, errno := range []syscall.Errno{syscall.EPERM, syscall.ENOSPC, syscall.EINVAL, syscall.EACCES, syscall.EBUSY,
		syscall.ENOSYS, syscall.EOPNOTSUPP} {
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
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(),
				Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(),
				Size: 1}}
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

// confinement returns what the plugin's sandbox is made of.
func (r *runner) confinement() sandbox.Kernel {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kernel
}

// missing says what of the sandbox there is not.
func (r *runner) missing() []string { return r.confinement().Missing() }

// whyNot says why a plugin could not be executed.
func whyNot(err error) string {
	staged := (*sandbox.StatusError)(nil)
	switch {
	case !errors.As(err, &staged):
		return fmt.Sprintf("it cannot be executed: %v", err)
	case staged.Exec():
		return fmt.Sprintf("it cannot be executed: %v", staged.Err)
	}
	return fmt.Sprintf("its sandbox cannot be made: %v", staged)
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
