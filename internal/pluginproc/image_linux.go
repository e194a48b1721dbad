package pluginproc

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gatedlearning/moe/internal/sandbox"
)

// makeCopy copies at most so many bytes to memory, and seals them; more are [errTooLarge].
func makeCopy(src io.Reader, most int64) (*Image, error) {
	copied, err := sealedCopy(src, most)
	if err != nil {
		return nil, err
	}
	return &Image{file: copied}, nil
}

// sealedCopy copies at most so many bytes; more are [errTooLarge].
func sealedCopy(src io.Reader, most int64) (*os.File, error) {
	dst, err := sandbox.Executable("moe-plugin", nil)
	if err != nil {
		return nil, fmt.Errorf("no memory for a copy of it: %w", err)
	}
	n, err := io.Copy(dst, io.LimitReader(src, most+1))
	if err == nil && n > most {
		err = errTooLarge
	}
	if err == nil {
		err = seal(dst)
	}
	if err != nil {
		dst.Close()
		return nil, err
	}
	return dst, nil
}

// seal lets nobody change a copy any more. The kernel refuses that, with EBUSY, while somebody has a hold on a page,
// as its own reclaim has for a moment on a machine short of time: then it is tried again, for two seconds at most.
func seal(f *os.File) error {
	const tries, pause = 100, 20 * time.Millisecond
	for try := 1; ; try++ {
		_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS,
			unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
		if err != unix.EBUSY || try == tries {
			return err
		}
		time.Sleep(pause)
	}
}
