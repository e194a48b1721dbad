//go:build amd64 || arm64

package dataset

import (
	"os"
	"syscall"
)

// readAhead asks the system to read so many bytes of f soon. It is advice: nothing rests
// on it.
func readAhead(f *os.File, from, size int64) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) {
		syscall.Syscall(syscall.SYS_READAHEAD, fd, uintptr(from), uintptr(size))
	})
}
