package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gatedlearning/moe/internal/pluginproc"
	"github.com/gatedlearning/moe/internal/wire"
	"github.com/gatedlearning/moe/sdk"
)

// openFile opens the trusted plugin at path.
func (c Catalog) openFile(ctx context.Context, path string, params sdk.Params) (*Plugin, error) {
	img, err := openImage(path)
	if err != nil {
		return nil, err
	}
	record, err := c.trusted(path, img)
	if err != nil && !c.RunUntrusted {
		img.Close()
		return nil, err
	}
	s, err := pluginproc.Open(ctx, img, path, c.limits())
	if err != nil {
		return nil, err
	}
	family := c.family(ctx, s, path)
	act, err := family.Activation(params)
	if err != nil {
		s.Close()
		if fault := (*FaultError)(nil); errors.As(err, &fault) || ctx.Err() != nil {
			return nil, err
		}
		return nil, &ParamsError{Name: path, Err: err}
	}
	err = sameFunction(ctx, path, family, record)
	if err == nil {
		err = impostor(ctx, path, family)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	family = c.family(context.WithoutCancel(ctx), s, path) // every call has a deadline of its own
	return &Plugin{Activation: act, Family: family, source: path, sha256: img.SHA256(), missing: s.Missing, close: s.Close}, nil
}

// family returns the family of the plugin shown. What its members say of their
// g is compared with it, unless the caller does that.
func (c Catalog) family(ctx context.Context, s *pluginproc.Session, shown string) sdk.Family {
	f := s.Family()
	f.New = func(p sdk.Params) (sdk.Activation, error) {
		act, err := s.Activation(ctx, p)
		if err != nil || c.Unchecked {
			return act, err
		}
		return compared(act, shown), nil
	}
	return f
}

// sameFunction reports whether the plugin's name and g are those that were
// trusted.
func sameFunction(ctx context.Context, shown string, family sdk.Family, record Record) error {
	if record.Name != "" && record.Name != family.Name {
		return &UntrustedError{shown, fmt.Sprintf("it was run, and calls itself %q, but was trusted as %q: something that it loads has changed; if you trust that: moe plugin trust %s", family.Name, record.Name, shown)}
	}
	for _, recorded := range []struct {
		was string
		of  func(context.Context, sdk.Family) (string, error)
	}{{record.Fingerprint, fingerprint}, {record.WideFingerprint, wideFingerprint}} {
		if recorded.was == "" {
			continue
		}
		now, err := recorded.of(ctx, family)
		if err != nil {
			return err
		}
		if now != recorded.was {
			return &UntrustedError{shown, "it was run, and its g is not what it was when it was trusted, though its file is: something that it loads has changed; if you trust that: moe plugin trust " + shown}
		}
	}
	return nil
}

// trusted returns the store's record of a file with this path and checksum,
// which the lock file must allow; if there is none, the error says what there
// is instead.
func (c Catalog) trusted(shown string, img *pluginproc.Image) (Record, error) {
	records, err := c.Trusted()
	if err != nil {
		return Record{}, err
	}
	i := slices.IndexFunc(records, func(r Record) bool { return r.Path == img.Path() })
	switch {
	case i < 0:
		return Record{}, &UntrustedError{shown, fmt.Sprintf("it is not trusted and was not run (sha256 %s); if you trust it: moe plugin trust %s", img.SHA256(), shown)}
	case records[i].SHA256 != img.SHA256():
		return Record{}, &UntrustedError{shown, fmt.Sprintf("it has changed since it was trusted and was not run (sha256 %s, was %s); if you trust the new one: moe plugin trust %s",
			img.SHA256(), records[i].SHA256, shown)}
	}
	if err := sameInterpreter(shown, img, records[i].Interpreter); err != nil {
		return Record{}, err
	}
	return records[i], lock(c.Lock).allows(shown, img.SHA256())
}

// Trust runs the file at path, as it now is, and records that it may run, with
// what it says about itself. Where that shows that it is no plugin, or a broken
// one, the error is a [*FaultError]; where it has the name of a built-in that is
// another function, an [*UntrustedError]. Then, and where it is interrupted,
// nothing is recorded and the record of an earlier file stays.
func (c Catalog) Trust(ctx context.Context, path string) (Record, error) {
	img, err := openImage(path)
	if err != nil {
		return Record{}, err
	}
	r := Record{Path: img.Path(), SHA256: img.SHA256()}
	if _, err = c.Trusted(); err == nil {
		r.Interpreter, err = interpreterOf(path, img)
	}
	if err != nil {
		img.Close()
		return Record{}, err
	}
	if err := c.describe(ctx, img, path, &r); err != nil {
		return Record{}, err
	}
	return r, c.record(ctx, r)
}

// describe runs the plugin in img, which it then closes, and adds what it says
// about itself to r.
func (c Catalog) describe(ctx context.Context, img *pluginproc.Image, path string, r *Record) error {
	s, err := pluginproc.Open(ctx, img, path, c.limits())
	if err != nil {
		return err
	}
	defer s.Close()
	family := s.Family()
	r.Name, r.Version, r.Protocol = family.Name, family.Version, wire.Version
	r.Parameters = ParametersOf(family)
	if r.Fingerprint, err = fingerprint(ctx, family); err != nil {
		return err
	}
	if r.WideFingerprint, err = wideFingerprint(ctx, family); err != nil {
		return err
	}
	return impostor(ctx, path, family)
}

// openImage copies and hashes the plugin's file at path, as the caller wrote it.
func openImage(path string) (*pluginproc.Image, error) {
	f, err := openPlugin(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	img, err := pluginproc.NewImage(f)
	if err != nil {
		return nil, fileFault(path, err)
	}
	return img, nil
}

func (c Catalog) limits() pluginproc.Limits {
	return pluginproc.Limits{
		Start: cmp.Or(c.StartTimeout, DefaultStartTimeout),
		Call:  cmp.Or(c.CallTimeout, DefaultCallTimeout),
		RSS:   cmp.Or(c.MaxRSS, DefaultMaxRSS),

		Sandbox: cmp.Or(c.Sandbox, SandboxDefault),
	}
}
