//go:build linux && !amd64 && !arm64

package sandbox

const (
	auditArch = 0
	x32       = 0
	machine   = 0
)

var legacy []uint32

// encoder is nil: there is no sandbox on this processor.
var encoder func([]step, int) []byte
