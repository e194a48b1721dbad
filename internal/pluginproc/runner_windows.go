package pluginproc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// body is what a plugin's process is held by on Windows: a job, which all that it starts is in as well, and which
// ends with its last handle. That is ours, and so the plugin ends with us however we end. The runner's mutex guards it.
type body struct{ job windows.Handle }

func newBody() body { return body{} }

const (
	imageName  = "plugin.exe"
	lifelineFD = 0 // the job is the lifeline
	// maxProcesses bounds the processes of a job.
	maxProcesses = 64
	// watchInterval is how often the memory of a job is looked at.
	watchInterval = 50 * time.Millisecond
)

// passEnv are the variables that a plugin inherits: where programs and homes are, and where Windows finds itself.
var passEnv = []string{"PATH", "PATHEXT", "SYSTEMROOT", "SYSTEMDRIVE", "USERPROFILE", "TEMP", "TMP", "TZ"}

// missing says what a plugin can do that it could not in the sandbox on Linux.
func (r *runner) missing() []string {
	return []string{
		"Windows has no sandbox for it but a job and a token without privileges: it can write the files that you " +
			"can, open connections, and see the processes of others",
		"programs of this machine can reach its address, and are refused for want of a certificate",
	}
}

// hold starts the plugin and waits for its end. It runs when it is in its job, and not before.
func (r *runner) hold(stdout, stderr, _ *os.File, started chan<- error) {
	var cmd *exec.Cmd
	err := r.start(func() (err error) {
		cmd, err = r.begin(stdout, stderr)
		return err
	})
	if err != nil {
		started <- err
		return
	}
	r.run(cmd.Process.Pid)
	started <- nil
	cmd.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.killSession()
	if r.excess == nil && r.peak() > r.limits.RSS {
		r.excess = r.tooLarge()
	}
	windows.CloseHandle(r.job)
	r.state = cmd.ProcessState
	close(r.done)
}

// begin starts the plugin in its job, with a token that has no privileges.
func (r *runner) begin(stdout, stderr *os.File) (_ *exec.Cmd, err error) {
	if r.job, err = newJob(r.limits.RSS); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			windows.CloseHandle(r.job)
		}
	}()
	token, err := restrictedToken()
	if err != nil {
		return nil, err
	}
	defer token.Close()
	cmd := &exec.Cmd{
		Path:   r.image.file.Name(),
		Args:   []string{r.image.path},
		Env:    r.env,
		Dir:    r.socketDir,
		Stdout: stdout,
		Stderr: stderr,
		SysProcAttr: &syscall.SysProcAttr{
			Token:         syscall.Token(token),
			HideWindow:    true,
			CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NO_WINDOW | windows.CREATE_NEW_PROCESS_GROUP,
		},
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var resumed error
	err = cmd.Process.WithHandle(func(handle uintptr) {
		if resumed = windows.AssignProcessToJobObject(r.job, windows.Handle(handle)); resumed == nil {
			resumed = resume(windows.Handle(handle))
		}
	})
	if err = errors.Join(err, resumed); err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		return nil, err
	}
	return cmd, nil
}

// newJob makes a job whose processes end with it. What they use up is looked at by the watch, which says so; a
// little above that Windows refuses them more.
func newJob(memory int64) (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, os.NewSyscallError("CreateJobObject", err)
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE |
		windows.JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION | windows.JOB_OBJECT_LIMIT_ACTIVE_PROCESS
	limits.BasicLimitInformation.ActiveProcessLimit = maxProcesses
	if most := uint64(memory) + uint64(memory)/8; most <= uint64(^uintptr(0)) {
		limits.BasicLimitInformation.LimitFlags |= windows.JOB_OBJECT_LIMIT_JOB_MEMORY
		limits.JobMemoryLimit = uintptr(most)
	}
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		windows.CloseHandle(job)
		return 0, os.NewSyscallError("SetInformationJobObject", err)
	}
	ui := windows.JOBOBJECT_BASIC_UI_RESTRICTIONS{UIRestrictionsClass: windows.JOB_OBJECT_UILIMIT_DESKTOP |
		windows.JOB_OBJECT_UILIMIT_DISPLAYSETTINGS | windows.JOB_OBJECT_UILIMIT_EXITWINDOWS |
		windows.JOB_OBJECT_UILIMIT_GLOBALATOMS |
		windows.JOB_OBJECT_UILIMIT_HANDLES | windows.JOB_OBJECT_UILIMIT_READCLIPBOARD |
		windows.JOB_OBJECT_UILIMIT_SYSTEMPARAMETERS | windows.JOB_OBJECT_UILIMIT_WRITECLIPBOARD}
	_, err = windows.SetInformationJobObject(job, windows.JobObjectBasicUIRestrictions,
		uintptr(unsafe.Pointer(&ui)), uint32(unsafe.Sizeof(ui)))
	if err != nil {
		windows.CloseHandle(job)
		return 0, os.NewSyscallError("SetInformationJobObject", err)
	}
	return job, nil
}

var (
	createRestrictedToken = windows.NewLazySystemDLL("advapi32.dll").NewProc("CreateRestrictedToken")
	ntResumeProcess       = windows.NewLazySystemDLL("ntdll.dll").NewProc("NtResumeProcess")
	getProcessMemoryInfo  = windows.NewLazySystemDLL("kernel32.dll").NewProc("K32GetProcessMemoryInfo")
)

// restrictedToken returns the token of this process without its privileges.
func restrictedToken() (windows.Token, error) {
	const disableMaxPrivilege = 1
	var own, token windows.Token
	if err := windows.OpenProcessToken(windows.CurrentProcess(), windows.TOKEN_DUPLICATE|windows.TOKEN_ASSIGN_PRIMARY|
		windows.TOKEN_QUERY, &own); err != nil {
		return 0, os.NewSyscallError("OpenProcessToken", err)
	}
	defer own.Close()
	ok, _, err := createRestrictedToken.Call(uintptr(own), disableMaxPrivilege, 0, 0, 0, 0, 0, 0,
		uintptr(unsafe.Pointer(&token)))
	if ok == 0 {
		return 0, os.NewSyscallError("CreateRestrictedToken", err)
	}
	return token, nil
}

// resume lets a process run that was started suspended.
func resume(process windows.Handle) error {
	if status, _, _ := ntResumeProcess.Call(uintptr(process)); status != 0 {
		return os.NewSyscallError("NtResumeProcess", windows.NTStatus(status))
	}
	return nil
}

// killSession ends all processes of the job. The caller holds mu, and the job is open.
func (r *runner) killSession() { windows.TerminateJobObject(r.job, 1) }

// watch ends a plugin whose job has used more memory than it may.
func (r *runner) watch() {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-r.done:
			return
		case <-ticker.C:
		}
		r.mu.Lock()
		over := !r.ended(0) && r.peak() > r.limits.RSS
		r.mu.Unlock()
		if over {
			r.end(*r.tooLarge())
			return
		}
	}
}

// memoryCounters is the PROCESS_MEMORY_COUNTERS of Windows.
type memoryCounters struct {
	size, faults                             uint32
	peakWorkingSet, workingSet               uintptr
	peakPaged, paged, peakNonPaged, nonPaged uintptr
	pagefile, peakPagefile                   uintptr
}

// peak is the most memory that the job has used at once, or its first process. The caller holds mu, and the job is
// open.
func (r *runner) peak() int64 {
	var job windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	var counters memoryCounters
	_ = windows.QueryInformationJobObject(r.job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&job)), uint32(unsafe.Sizeof(job)), nil) // 0 where Windows does not say
	if process, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false,
		uint32(r.pid)); err == nil {
		counters.size = uint32(unsafe.Sizeof(counters))
		_, _, _ = getProcessMemoryInfo.Call(uintptr(process), uintptr(unsafe.Pointer(&counters)),
			unsafe.Sizeof(counters))
		windows.CloseHandle(process)
	}
	return max(int64(job.PeakJobMemoryUsed), int64(counters.workingSet))
}

// checkAddress refuses what is no address of this machine alone. Windows has no sockets of go-plugin's in directories.
func checkAddress(network, address, _ string) error {
	host, port, _ := strings.Cut(address, ":")
	if _, err := strconv.ParseUint(port, 10, 16); network != "tcp" || host != "127.0.0.1" || err != nil {
		return fmt.Errorf("it listens at %s %s, not at a port of 127.0.0.1", quote(network), quote(address))
	}
	return nil
}

// keepCopy opens the copy so that nobody can write or remove it while it is open.
func keepCopy(path string) (*os.File, error) {
	return openShared(path, windows.FILE_SHARE_READ, windows.OPEN_EXISTING)
}

func openShared(path string, share, disposition uint32) (*os.File, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	handle, err := windows.CreateFile(name, windows.GENERIC_READ, share, nil, disposition,
		windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(handle), path), nil
}
