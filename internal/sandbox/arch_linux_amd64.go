package sandbox

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	x32       = 0x40000000 // from here on system calls are of the x32 interface
	machine   = 62         // EM_X86_64
)

// Calls that newer processors have no more, among which those that pass, that are
// looked at, and that are refused.
var (
	legacy = []uint32{
		unix.SYS_EPOLL_WAIT, unix.SYS_POLL, unix.SYS_SELECT, unix.SYS_EPOLL_CREATE, unix.SYS_EVENTFD, unix.SYS_SIGNALFD,
		unix.SYS_STAT, unix.SYS_LSTAT,
		unix.SYS_ACCESS, unix.SYS_READLINK, unix.SYS_UNLINK, unix.SYS_GETDENTS, unix.SYS_PIPE, unix.SYS_DUP2,
		unix.SYS_FORK, unix.SYS_VFORK,
		unix.SYS_GETPGRP, unix.SYS_ARCH_PRCTL, unix.SYS_TIME, unix.SYS_PAUSE, unix.SYS_ALARM,
	}
	legacyChecked = []check{{unix.SYS_OPEN, opening(1)}}
	legacyRefused = []uint32{
		unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT,
		unix.SYS_CREAT, unix.SYS_MKDIR, unix.SYS_MKNOD, unix.SYS_LINK, unix.SYS_SYMLINK, unix.SYS_RENAME,
		unix.SYS_RENAMEAT, unix.SYS_RMDIR,
	}
)

var encoder = amd64Code

// amd64Code returns the machine code of steps on x86-64.
func amd64Code(steps []step, status int) []byte {
	var c []byte
	put := func(b ...byte) { c = append(c, b...) }
	wide := func(v uint64) { c = binary.LittleEndian.AppendUint64(c, v) }
	short := func(op byte, v uint32) { c = binary.LittleEndian.AppendUint32(append(c, op), v) }
	// mov r12, [rsp]          argc
	put(0x4c, 0x8b, 0x24, 0x24)
	// lea r13, [rsp+8]        argv
	put(0x4c, 0x8d, 0x6c, 0x24, 8)
	// lea r14, [r13+r12*8+8]  envp
	put(0x4f, 0x8d, 0x74, 0xe5, 0x08)
	// mov rdi, rsi, rdx, r10, r8
	move := [][2]byte{{0x48, 0xbf}, {0x48, 0xbe}, {0x48, 0xba}, {0x49, 0xba}, {0x49, 0xb8}}
	for _, s := range steps {
		for i, a := range s.args {
			switch a.kind {
			case inStack:
				put(0x48, 0x8d, 0x74, 0x24, 0xc0) // lea rsi, [rsp-64]
			case argv:
				put(0x4c, 0x89, 0xee) // mov rsi, r13
			case envp:
				put(0x4c, 0x89, 0xf2) // mov rdx, r14
			default:
				put(move[i][:]...)
				wide(a.value)
			}
		}
		put(0x48, 0xb8) // mov rax
		wide(s.number)
		put(0x0f, 0x05) // syscall
		if s.tolerant {
			continue
		}
		put(0x48, 0x85, 0xc0, 0x79, 0) // test rax, rax; jns, over what follows
		at := len(c)
		put(0x50)                     // push rax
		short(0x68, uint32(s.number)) // push the number
		short(0xbf, uint32(status))   // mov edi
		put(0x48, 0x89, 0xe6)         // mov rsi, rsp
		short(0xba, 16)               // mov edx
		short(0xb8, 1)                // mov eax, write
		put(0x0f, 0x05)
		short(0xbf, failed)
		short(0xb8, 231) // exit_group
		put(0x0f, 0x05)
		c[at-1] = byte(len(c) - at)
	}
	return c
}
