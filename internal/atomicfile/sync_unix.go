//go:build unix

package atomicfile

import "os"

// syncDir makes a rename in dir durable, where the file system can: the file's
// own bytes are synced already, so a refusal is no failed write.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		d.Sync()
		d.Close()
	}
}
