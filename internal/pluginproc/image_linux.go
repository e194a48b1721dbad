package pluginproc

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gatedlearning/moe/internal/sandbox"
)

// Image is a copy of a plugin's file in memory that nothing can change any
// more: what is hashed is what runs. Of a script only the script is in it, not
// the interpreter nor what it imports.
type Image struct {
	path   string // of the file
	sha256 string // of the copy, in hexadecimal
	file   *os.File
}

// maxImage bounds the size of a plugin's file.
const maxImage = 1 << 30

var errTooLarge = fmt.Errorf("it is larger than %d MiB", maxImage>>20)

// NewImage copies, seals and hashes an open file. The file's name is the first
// argument of the plugin, which thereby knows where it lies.
func NewImage(f *os.File) (*Image, error) {
	if info, err := f.Stat(); err == nil && info.Size() > maxImage {
		return nil, fmt.Errorf("it has %d MiB, and %d are allowed", info.Size()>>20, maxImage>>20)
	}
	copied, err := sealedCopy(f, maxImage)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(copied, 0, maxImage)); err != nil {
		copied.Close()
		return nil, err
	}
	return &Image{path: f.Name(), sha256: hex.EncodeToString(sum.Sum(nil)), file: copied}, nil
}

// Path returns the path of the file that was copied.
func (i *Image) Path() string { return i.path }

// SHA256 returns the checksum of the copy in hexadecimal.
func (i *Image) SHA256() string { return i.sha256 }

// Head returns the beginning of the copy, as much as the kernel reads of a
// script's first line.
func (i *Image) Head() ([]byte, error) {
	head := make([]byte, 256)
	n, err := i.file.ReadAt(head, 0)
	if err == io.EOF {
		err = nil
	}
	return head[:n], err
}

// Close frees the copy.
func (i *Image) Close() error { return i.file.Close() }

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
