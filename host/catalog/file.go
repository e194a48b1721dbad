package catalog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// resolve returns the absolute path of a plugin's file without symbolic links.
// It refuses what somebody else could replace: a link out of the directory that
// the user named, and files and directories that others may write.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fileFault(path, err)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return "", fileFault(path, err)
	}
	file, err := filepath.EvalSymlinks(filepath.Join(dir, filepath.Base(abs)))
	if err != nil {
		return "", fileFault(path, err)
	}
	if filepath.Dir(file) != dir {
		return "", &UntrustedError{path, "it is a symbolic link to " + file + ", out of its own directory; name that file instead"}
	}
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return "", fileFault(path, err)
	case !info.Mode().IsRegular():
		return "", badFile(path, "it is not a regular file")
	case info.Mode().Perm()&0o111 == 0:
		return "", badFile(path, "it is not executable")
	}
	for _, p := range []string{file, dir} {
		if err := checkWriters(p); err != nil {
			return "", &UntrustedError{path, err.Error()}
		}
	}
	return file, nil
}

// fileFault says why a plugin's file cannot be read.
func fileFault(path string, err error) error {
	reason := err.Error()
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		reason = pe.Err.Error()
	}
	return badFile(path, reason)
}

func badFile(path, reason string) error {
	return &FaultError{Plugin: path, Call: "open", Reason: reason, Advice: "name the executable file of a plugin"}
}
