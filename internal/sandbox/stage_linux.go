package sandbox

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// A stage is a program of a few hundred bytes without a runtime: system calls one
// after the other, with constant arguments. The first that fails is reported, and
// ends it.

// step is one system call of a stage.
type step struct {
	name     string
	number   uint64
	args     []arg // at most five
	tolerant bool  // goes on where it fails
}

// arg is an argument: a number, or one of the following.
type arg struct {
	value uint64
	kind  argKind
}

type argKind int

const (
	number  argKind = iota
	inData          // an address in the program's data, at offset value
	inStack         // room for a few bytes
	argv            // the arguments that the stage was started with
	envp            // its environment
)

func numbers(values ...uint64) []arg {
	args := make([]arg, len(values))
	for i, v := range values {
		args[i].value = v
	}
	return args
}

// Files are the numbers that a stage finds its files under.
type Files struct {
	Image   int // what is to be run in the end
	Stage   int // the stage itself
	Status  int // a pipe that says how it went; see ReadStatus
	Ruleset int // Landlock's, or −1
}

// Limits on a plugin's process; those on all of its session are watched by the
// host.
const (
	// MaxFiles is the number of files that a process has open. A plugin in Python has
	// about twenty; the buffers of each, if it is a socket, are memory that no process owns.
	MaxFiles = 64
	// reserve is the address space beyond twice the memory that a plugin may use up, and
	// reserveCPU that for each processor: runtimes reserve more than they use. Those in Go
	// and Python reserve 1 to 2 GiB, the C library 0.5 GiB for the threads of a processor.
	reserve    = 4 << 30
	reserveCPU = 1 << 29
)

// NewStage returns the program that confines its process as far as the kernel
// allows and runs the image with the arguments and the environment that it was
// given itself. The process may use up so many bytes of memory.
func NewStage(k Kernel, files Files, memory int64) []byte {
	var data blob
	limit := func(resource, value uint64) step {
		pair := binary.NativeEndian.AppendUint64(nil, value)
		pair = binary.NativeEndian.AppendUint64(pair, value)
		return step{name: "setrlimit", number: unix.SYS_PRLIMIT64, args: append(numbers(0, resource), data.put(pair),
			arg{}), tolerant: true}
	}
	steps := []step{
		{name: "no_new_privs", number: unix.SYS_PRCTL, args: numbers(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)},
		limit(unix.RLIMIT_CORE, 0),
		limit(unix.RLIMIT_FSIZE, 0),
		limit(unix.RLIMIT_NOFILE, MaxFiles),
		limit(unix.RLIMIT_AS, addressSpace(memory)),
	}
	if files.Ruleset >= 0 {
		steps = append(steps,
			step{name: "landlock_restrict_self", number: unix.SYS_LANDLOCK_RESTRICT_SELF,
				args: numbers(uint64(files.Ruleset), 0)},
			step{name: "close", number: unix.SYS_CLOSE, args: numbers(uint64(files.Ruleset))})
	}
	header := binary.NativeEndian.AppendUint64(nil, unix.LINUX_CAPABILITY_VERSION_3) // and of this process, 0
	steps = append(steps,
		step{name: "capset", number: unix.SYS_CAPSET, args: []arg{data.put(header), data.put(make([]byte, 24))}},
		step{name: "close", number: unix.SYS_CLOSE, args: numbers(uint64(files.Stage))},
		step{name: "fcntl", number: unix.SYS_FCNTL, args: numbers(uint64(files.Status), unix.F_SETFD, unix.FD_CLOEXEC)})
	if k.Seccomp {
		program := bpf(filter())
		text := data.put(program.bytes())
		prog := data.putProgram(len(program), text)
		steps = append(steps, step{name: "seccomp", number: unix.SYS_SECCOMP,
			args: append(numbers(unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW), prog)})
	}
	image := data.put([]byte("/proc/self/fd/" + strconv.Itoa(files.Image) + "\x00"))
	steps = append(steps, step{name: execStep, number: unix.SYS_EXECVE, args: []arg{image, {kind: argv}, {kind: envp}}})
	return link(steps, data, files.Status)
}

const execStep = "execve"

func addressSpace(memory int64) uint64 {
	if memory > 1<<55 {
		return unix.RLIM_INFINITY
	}
	return uint64(2*memory + reserve + int64(runtime.NumCPU())*reserveCPU)
}

// NewGuard returns a program that waits until its standard input ends and then
// kills a process, by the pidfd under number 3 and by its group: a host's last
// will.
func NewGuard(pid int) []byte {
	if encoder == nil {
		return nil
	}
	return link([]step{
		{name: "read", number: unix.SYS_READ, args: []arg{{}, {kind: inStack}, {value: 1}}, tolerant: true},
		{name: "pidfd_send_signal", number: unix.SYS_PIDFD_SEND_SIGNAL, args: numbers(3, uint64(unix.SIGKILL), 0, 0),
			tolerant: true},
		{name: "kill", number: unix.SYS_KILL, args: numbers(uint64(int64(-pid)), uint64(unix.SIGKILL)), tolerant: true},
		{name: "exit", number: unix.SYS_EXIT_GROUP, args: numbers(0)},
	}, blob{}, 2)
}

// blob is the data of a program, and where in it are addresses of it.
type blob struct {
	bytes    []byte
	pointers []int // offsets of eight bytes that hold an offset, to become an address
}

func (b *blob) put(data []byte) arg {
	for len(b.bytes)%8 != 0 {
		b.bytes = append(b.bytes, 0)
	}
	at := len(b.bytes)
	b.bytes = append(b.bytes, data...)
	return arg{uint64(at), inData}
}

// putProgram puts a struct sock_fprog.
func (b *blob) putProgram(n int, text arg) arg {
	head := binary.NativeEndian.AppendUint64(nil, uint64(n))
	head = binary.NativeEndian.AppendUint64(head, text.value)
	at := b.put(head)
	b.pointers = append(b.pointers, int(at.value)+8)
	return at
}

// A program is one segment at a fixed address: headers, code, data.
const (
	base       = 0x400000
	headerSize = 64 + 56 // of an ELF file with one program header
)

// link makes an executable of steps and their data.
func link(steps []step, data blob, status int) []byte {
	place := func(at uint64) []byte { // the code with the data there
		resolved := make([]step, len(steps))
		for i, s := range steps {
			resolved[i] = s
			resolved[i].args = append([]arg(nil), s.args...)
			for j, a := range s.args {
				if a.kind == inData {
					resolved[i].args[j] = arg{value: at + a.value}
				}
			}
		}
		return encoder(resolved, status)
	}
	size := len(place(0)) // that of all encodings
	at := uint64(base+headerSize+size+7) &^ 7
	body := place(at)
	for len(body) < int(at)-base-headerSize {
		body = append(body, 0)
	}
	bytes := append([]byte(nil), data.bytes...)
	for _, p := range data.pointers {
		offset := binary.NativeEndian.Uint64(bytes[p:])
		binary.NativeEndian.PutUint64(bytes[p:], at+offset)
	}
	body = append(body, bytes...)
	return append(elfHeader(headerSize+len(body)), body...)
}

// elfHeader returns the headers of an ELF file of so many bytes that is loaded as
// one segment and begins behind them.
func elfHeader(size int) []byte {
	var b bytes.Buffer
	put := func(values ...any) {
		for _, v := range values {
			binary.Write(&b, binary.LittleEndian, v)
		}
	}
	b.WriteString("\x7fELF\x02\x01\x01")
	b.Write(make([]byte, 9))
	put(uint16(2), uint16(machine), uint32(1), uint64(base+headerSize), uint64(64), uint64(0), uint32(0),
		uint16(64), uint16(56), uint16(1), uint16(0), uint16(0), uint16(0))
	put(uint32(1), uint32(5), uint64(0), uint64(base), uint64(base), uint64(size), uint64(size), uint64(1<<16))
	return b.Bytes()
}

// StatusError is the step of a stage that failed.
type StatusError struct {
	Step string
	Err  unix.Errno
}

func (e *StatusError) Error() string { return e.Step + ": " + e.Err.Error() }
func (e *StatusError) Unwrap() error { return e.Err }

// Exec says whether the sandbox stood, and what was to run in it could not.
func (e *StatusError) Exec() bool { return e.Step == execStep }

// ReadStatus waits for what a stage reports: nothing where the image runs, else a
// [*StatusError].
func ReadStatus(status io.Reader) error {
	var report [16]byte
	if _, err := io.ReadFull(status, report[:]); err != nil {
		return nil // the pipe ends when the image is run
	}
	number := binary.NativeEndian.Uint64(report[:])
	errno := unix.Errno(-int64(binary.NativeEndian.Uint64(report[8:])))
	return &StatusError{stepName(number), errno}
}

// stepName names a step by the number of its system call.
func stepName(nr uint64) string {
	names := map[uint64]string{
		unix.SYS_PRCTL: "no_new_privs", unix.SYS_LANDLOCK_RESTRICT_SELF: "landlock", unix.SYS_CAPSET: "capset",
		unix.SYS_SECCOMP: "seccomp", unix.SYS_EXECVE: execStep,
	}
	if name, ok := names[nr]; ok {
		return name
	}
	return fmt.Sprintf("system call %d", nr)
}

// Executable returns a file in memory with a program that can be run.
func Executable(name string, program []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if err == unix.EINVAL { // before 6.3 there is no such flag
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.Write(program); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
