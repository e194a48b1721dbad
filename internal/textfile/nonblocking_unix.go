//go:build unix

package textfile

import "syscall"

const nonBlocking = syscall.O_NONBLOCK
