package pluginproc

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
)

// Image is a copy of a plugin's file: what is hashed is what runs. On Linux it is in
// memory, and nothing can change it any more. Elsewhere it is in a directory that only
// its user can use. Of a script only the script is in it, not the interpreter nor what it imports.
type Image struct {
	path   string // of the file
	sha256 string // of the copy, in hexadecimal
	file   *os.File
	dir    *runtimeDir // of the copy; nil where it is in memory
}

// maxImage bounds the size of a plugin's file.
const maxImage = 1 << 30

var errTooLarge = fmt.Errorf("it is larger than %d MiB", maxImage>>20)

// NewImage copies and hashes an open file. The file's name is the first
// argument of the plugin, which thereby knows where it lies.
func NewImage(f *os.File) (*Image, error) {
	if info, err := f.Stat(); err == nil && info.Size() > maxImage {
		return nil, fmt.Errorf("it has %d MiB, and %d are allowed", info.Size()>>20, maxImage>>20)
	}
	img, err := makeCopy(f, maxImage)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(img.file, 0, maxImage)); err != nil {
		img.Close()
		return nil, err
	}
	img.path, img.sha256 = f.Name(), hex.EncodeToString(sum.Sum(nil))
	return img, nil
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
func (i *Image) Close() error {
	err := i.file.Close()
	if i.dir != nil {
		i.dir.remove()
	}
	return err
}
