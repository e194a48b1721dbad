// Package sandbox says what a plugin's process may do, and makes the small
// program that puts it in force: it runs in the new process between fork and
// exec, where a Go program cannot run code of its own. See docs/sandbox.md.
//
// A plugin computes values and answers at one socket. It may read files, write to
// that socket's directory, and have children. It may not open connections, write
// elsewhere, gain rights, leave its session, signal or look into other processes.
package sandbox

import "fmt"

// Mode says how much of the sandbox there has to be. The zero value is [Default].
type Mode string

// The modes.
const (
	Default Mode = "default" // what the kernel has
	Strict  Mode = "strict"  // all of it, or the plugin does not start
	// a session of its own and a PID namespace, if there are any, and the limits that are watched
	Off Mode = "off"
)

// Modes returns all modes.
func Modes() []Mode { return []Mode{Default, Strict, Off} }

// Parse returns the mode of that name.
func Parse(name string) (Mode, error) {
	for _, m := range Modes() {
		if string(m) == name {
			return m, nil
		}
	}
	return "", fmt.Errorf("no sandbox %q; there are default, strict and off", name)
}

// Lacks is what a kernel is to do without, in tests of what is left then.
type Lacks struct {
	Namespaces, Seccomp, Landlock bool
	Groups                        bool // control groups, which are no part of [Kernel]
}
