package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// pseudoTerminal returns the two ends of a new one.
func pseudoTerminal(t *testing.T) (controller, terminal *os.File) {
	t.Helper()
	controller, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { controller.Close() })
	number, err := unix.IoctlGetInt(int(controller.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(controller.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	if terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { terminal.Close() })
	return controller, terminal
}

// TestWhereABarMoves: on a terminal of a size, and on none that is dumb, has no size, or
// is no terminal.
func TestWhereABarMoves(t *testing.T) {
	controller, terminal := pseudoTerminal(t)
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, c := range []struct {
		name      string
		f         *os.File
		term      string
		rows, col uint16
		want      bool
	}{
		{"a terminal", terminal, "xterm", 24, 80, true},
		{"one that is dumb", terminal, "dumb", 24, 80, false},
		{"one without columns", terminal, "xterm", 24, 0, false},
		{"one without a size", terminal, "xterm", 0, 0, false},
		{"a file", file, "xterm", 24, 80, false},
		{"the null device", null, "xterm", 24, 80, false},
	} {
		if err := unix.IoctlSetWinsize(int(controller.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: c.rows, Col: c.col}); err != nil {
			t.Fatal(err)
		}
		if got := movesOn(c.f, c.term); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
