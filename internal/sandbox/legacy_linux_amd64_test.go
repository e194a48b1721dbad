package sandbox

import "golang.org/x/sys/unix"

// legacyUntried are calls of this processor that TestCalls does not make. No filter sees the last
// two, uretprobe and uprobe: the kernel ends whom it has not sent there itself (SIGILL).
var legacyUntried = []uint32{unix.SYS_PAUSE, unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_ALARM, 335, 336}
