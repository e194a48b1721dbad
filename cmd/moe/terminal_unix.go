//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// hasSize says whether a terminal says how large it is, and is not of size 0.
func hasSize(f *os.File) bool {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil && size.Col > 0 && size.Row > 0
}
