package catalog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gatedlearning/moe/internal/pluginproc"
	"github.com/gatedlearning/moe/internal/setting"
)

// openPlugin opens a plugin's file by its absolute path without symbolic links,
// which is then its name. It refuses what somebody else could replace: a link out of the
// directory that the user named, and files and directories that others may
// write. What it says of the file it has seen of the open one.
func openPlugin(path string) (*os.File, error) {
	resolved, err := resolve(path)
	if err != nil {
		return nil, err
	}
	f, err := openRegular(resolved)
	if err != nil {
		return nil, fileFault(path, err)
	}
	if err := checkPlugin(f, path); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func checkPlugin(f *os.File, path string) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return fileFault(path, err)
	case !executable(info):
		return badFile(path, "it is not executable")
	}
	if err := checkWriters(f.Name(), info); err != nil {
		return &UntrustedError{path, err.Error()}
	}
	if err := checkDirectory(filepath.Dir(f.Name())); err != nil {
		return &UntrustedError{path, err.Error()}
	}
	return nil
}

// checkDirectory reports whether others may replace what is in dir.
func checkDirectory(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	return checkWriters(dir, info)
}

// resolve returns the absolute path of a plugin's file without symbolic links,
// which stays in the directory that path names.
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
		return "", &UntrustedError{path, "it is a symbolic link to " + file +
			", out of its own directory; name that file instead"}
	}
	return file, nil
}

// openRegular opens a regular file for reading, and nothing that could make the
// opening or the reading wait.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// maxText bounds the trust store and the lock file.
const maxText = 16 << 20

// readText reads a file of ours.
func readText(f *os.File) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, maxText+1))
	if err == nil && len(data) > maxText {
		err = fmt.Errorf("it is longer than %d bytes", maxText)
	}
	return data, err
}

// fileFault says why a plugin's file cannot be read.
func fileFault(path string, err error) error {
	reason := err.Error()
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		reason = pe.Err.Error()
	}
	if pluginproc.TooManyFiles(err) {
		return &FaultError{Plugin: path, Call: "open", Reason: reason, Advice: pluginproc.CloseFiles}
	}
	return badFile(path, reason)
}

func badFile(path, reason string) error {
	return &FaultError{Plugin: path, Call: "open", Reason: reason,
		Advice: setting.Textf("name the executable file of a plugin")}
}
