package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	x32       = 0   // there is none
	machine   = 183 // EM_AARCH64
)

var legacy = []uint32{unix.SYS_KEXEC_FILE_LOAD}

var encoder = arm64Code
