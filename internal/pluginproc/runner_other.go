//go:build !unix && !windows

package pluginproc

import (
	"errors"
	"os"
	"runtime"
)

// Here no process of a plugin can be started: a copy of its file is refused first.

type body struct{}

func newBody() body { return body{} }

const (
	imageName  = "plugin"
	lifelineFD = 0
)

var (
	passEnv []string
	errHere = errors.New("plugins run as processes on Linux, macOS and Windows, not on " + runtime.GOOS)
)

func (r *runner) missing() []string { return nil }

func (r *runner) hold(_, _, _ *os.File, started chan<- error) {
	started <- r.start(func() error { return errHere })
}

func (r *runner) killSession() {}

func (r *runner) watch() {}

func checkAddress(string, string, string) error { return errHere }

func keepCopy(string) (*os.File, error) { return nil, errHere }

func runtimeBase() (string, error) { return "", errHere }

func tryLock(string) (*os.File, error) { return nil, errHere }

func (d *runtimeDir) remove() {}

func held(error) bool { return false }
