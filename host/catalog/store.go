package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/internal/atomicfile"
	"github.com/gatedlearning/moe/internal/pluginproc"
	"github.com/gatedlearning/moe/sdk"
)

// Record is one entry of the trust store: a file, as it was when it was
// trusted, and what it then said about itself.
type Record struct {
	Path        string       `json:"path"`   // absolute, without symbolic links
	SHA256      string       `json:"sha256"` // of the file, in hexadecimal
	Name        string       `json:"name,omitempty"`
	Version     string       `json:"version,omitempty"`
	Protocol    int          `json:"protocol,omitempty"`
	Interpreter *Interpreter `json:"interpreter,omitempty"` // of a script
	Parameters  []Parameter  `json:"parameters,omitempty"`
	Fingerprint string       `json:"fingerprint,omitempty"` // of g with the default parameters
	// WideFingerprint is the same with the tails. Records from before it was kept
	// have none, and are compared without.
	WideFingerprint string `json:"wide_fingerprint,omitempty"`
}

// Interpreter is the program that runs a script.
type Interpreter struct {
	Path   string `json:"path"` // absolute, without symbolic links
	SHA256 string `json:"sha256"`
}

// Parameter is an [sdk.Param] in the trust store.
type Parameter struct {
	Name    string  `json:"name"`
	Doc     string  `json:"doc,omitempty"`
	Default float64 `json:"default"`
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
}

// ParametersOf returns the parameters of f; where it has none the slice is
// empty, not nil.
func ParametersOf(f sdk.Family) []Parameter {
	out := []Parameter{}
	for _, p := range f.Params {
		out = append(out, Parameter(p))
	}
	return out
}

const (
	storeName   = "trusted-plugins.json"
	storeFormat = "moe-trusted-plugins/v1"
)

// storeFile is the trust store as it stands on disk.
type storeFile struct {
	Format  string   `json:"format"`
	Plugins []Record `json:"plugins"` // by path
}

// Store returns the path of the trust store's file.
func (c Catalog) Store() (string, error) {
	dir := c.Dir
	if dir == "" {
		dir = os.Getenv("MOE_CONFIG_DIR")
		if dir != "" && !filepath.IsAbs(dir) {
			return "", &UntrustedError{storeName,
				fmt.Sprintf("MOE_CONFIG_DIR is %q: want an absolute path, for what is trusted must not depend on "+
					"where a command is run", dir)}
		}
	}
	if dir == "" {
		config, err := os.UserConfigDir()
		if err != nil {
			return "", &UntrustedError{storeName,
				fmt.Sprintf("no directory for the trust store: %v; set MOE_CONFIG_DIR", err)}
		}
		dir = filepath.Join(config, "moe")
	}
	return filepath.Abs(filepath.Join(dir, storeName))
}

// Trusted returns the records of the trust store, by path. A store that cannot
// be read, or that somebody else could have written, trusts nothing: the error
// is then an [*UntrustedError].
func (c Catalog) Trusted() ([]Record, error) {
	path, err := c.Store()
	if err != nil {
		return nil, err
	}
	records, err := readStore(path)
	if pluginproc.TooManyFiles(err) {
		return nil, err
	}
	if err != nil {
		return nil, &UntrustedError{Path: path, Reason: "the trust store trusts nothing: " + err.Error()}
	}
	return records, nil
}

func readStore(path string) ([]Record, error) {
	f, err := openRegular(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(checkWriters(path, info), checkDirectory(filepath.Dir(path))); err != nil {
		return nil, err
	}
	data, err := readText(f)
	if err != nil {
		return nil, err
	}
	if len(data) == 0 {
		return nil, nil
	}
	var file storeFile
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("it is not JSON: %w; repair or remove it", err)
	}
	if file.Format != storeFormat {
		return nil, fmt.Errorf("its format is %q, want %q", file.Format, storeFormat)
	}
	return file.Plugins, nil
}

// record writes r to the store, in the place of what is there for its path.
func (c Catalog) record(ctx context.Context, r Record) error {
	return c.edit(ctx, func(records []Record) []Record {
		return append(without(records, r.Path), r)
	})
}

// Untrust takes the record of path, whose file may be gone, out of the store, and returns it. Where there is none the
// error is an [*UntrustedError].
func (c Catalog) Untrust(ctx context.Context, path string) (Record, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return Record{}, fileFault(path, err)
	}
	paths := []string{abs} // as it is written in the store, or as it was resolved for it
	if dir, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		paths = append(paths, filepath.Join(dir, filepath.Base(abs)))
	}
	if resolved, err := resolve(path); err == nil {
		paths = append(paths, resolved)
	}
	taken := func(r Record) bool { return slices.Contains(paths, r.Path) }
	records, err := c.Trusted()
	if err != nil {
		return Record{}, err
	}
	i := slices.IndexFunc(records, taken)
	if i < 0 {
		return Record{}, &UntrustedError{path, "it is not trusted; moe plugin list says what is, by path"}
	}
	return records[i], c.edit(ctx, func(records []Record) []Record { return slices.DeleteFunc(records, taken) })
}

func without(records []Record, path string) []Record {
	return slices.DeleteFunc(records, func(r Record) bool { return r.Path == path })
}

// edit replaces the store's records, under its lock.
func (c Catalog) edit(ctx context.Context, change func([]Record) []Record) error {
	path, err := c.Store()
	if err != nil {
		return err
	}
	unlock, err := lockStore(ctx, path)
	if err != nil {
		return err
	}
	defer unlock()
	records, err := c.Trusted()
	if err != nil {
		return err
	}
	records = change(records)
	slices.SortFunc(records, func(a, b Record) int { return strings.Compare(a.Path, b.Path) })
	data, err := marshal(storeFile{Format: storeFormat, Plugins: records})
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(ctx, path, data)
}

// createStore makes the store, empty and writable by its owner alone, if there
// is none; a later replacement keeps its permissions.
func createStore(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return &atomicfile.CreateError{Path: path, Err: err}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return &atomicfile.CreateError{Path: path, Err: err}
	}
	return f.Close()
}
