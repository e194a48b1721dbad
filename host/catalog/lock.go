package catalog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/internal/atomicfile"
	"github.com/gatedlearning/moe/internal/pluginproc"
)

// DefaultLock is the name of a project's lock file in its directory.
const DefaultLock = "moe.lock"

const lockFormat = "moe-lock/v1"

// lockFile lists the plugins that a project uses. Where there is one, a trusted
// plugin runs only if its checksum is in it. It can grant nothing: a plugin
// that is in it but not in the user's own store does not run.
type lockFile struct {
	Format  string   `json:"format"`
	Plugins []Locked `json:"plugins"` // by name, then checksum
}

// Locked is an entry of a lock file.
type Locked struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

// lock is the path of a lock file, which need not be there; "" is [DefaultLock].
type lock string

func (l lock) path() string { return cmp.Or(string(l), DefaultLock) }

// read returns the lock file's entries, and whether there is a lock file.
func (l lock) read() ([]Locked, bool, error) {
	f, err := openRegular(l.path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case pluginproc.TooManyFiles(err):
		return nil, true, err
	}
	var file lockFile
	var data []byte
	if err == nil {
		defer f.Close()
		data, err = readText(f)
	}
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	if err == nil && file.Format != lockFormat {
		err = fmt.Errorf("its format is %q, want %q", file.Format, lockFormat)
	}
	if err != nil {
		return nil, true, &UntrustedError{l.path(), "the lock file allows nothing: " + err.Error()}
	}
	return file.Plugins, true, nil
}

// allows reports whether the lock file, if there is one, allows the plugin shown
// with the given checksum.
func (l lock) allows(shown, sha256 string) error {
	entries, exists, err := l.read()
	if err != nil || !exists {
		return err
	}
	if !slices.ContainsFunc(entries, func(e Locked) bool { return e.SHA256 == sha256 }) {
		return &UntrustedError{shown, fmt.Sprintf("%s does not list it (sha256 %s) and it was not run; if the "+
			"project is to use it: moe plugin trust --lock %s",
			l.path(), sha256, shown)}
	}
	return nil
}

// pin adds the plugin of r to the lock file, in the place of others of its name,
// and makes the file if there is none.
func (l lock) pin(ctx context.Context, r Record) error {
	entries, _, err := l.read()
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e Locked) bool { return e.Name == r.Name })
	entries = append(entries, Locked{Name: r.Name, SHA256: r.SHA256})
	slices.SortFunc(entries, func(a, b Locked) int {
		return strings.Compare(a.Name+a.SHA256, b.Name+b.SHA256)
	})
	data, err := marshal(lockFile{Format: lockFormat, Plugins: entries})
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(ctx, l.path(), data)
}

// marshal writes v as JSON for people to read.
func marshal(v any) ([]byte, error) {
	var data bytes.Buffer
	enc := json.NewEncoder(&data)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return data.Bytes(), err
}
