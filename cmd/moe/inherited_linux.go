package main

import "golang.org/x/sys/unix"

// keepFiles keeps the files that the command has inherited, such as the 5 of a
// shell's 5<secret, from the plugins that it starts. Kernels before 5.11 cannot.
func keepFiles() { unix.CloseRange(3, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC) }
