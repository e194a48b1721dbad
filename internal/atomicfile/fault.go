package atomicfile

import "sync/atomic"

// Op is an operation of the file system on the way of an output.
type Op string

// The operations. Link gives a file without a name its first, or what is about to
// be replaced a second.
const (
	Open   Op = "open"
	Write  Op = "write"
	Sync   Op = "sync"
	Link   Op = "link"
	Close  Op = "close"
	Rename Op = "rename"
	Mkdir  Op = "mkdir"
)

var fault atomic.Pointer[func(op Op, path string) error]

// Fault makes every operation on an output ask fn first, whose error is then the
// operation's: tests let the disk fail with it. It ends with restore.
func Fault(fn func(op Op, path string) error) (restore func()) {
	fault.Store(&fn)
	return func() { fault.Store(nil) }
}

func before(op Op, path string) error {
	if fn := fault.Load(); fn != nil {
		return (*fn)(op, path)
	}
	return nil
}
