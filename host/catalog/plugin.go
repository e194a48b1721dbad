package catalog

import (
	"cmp"
	"context"
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
		return nil, ofParams(ctx, path, err)
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
	return &Plugin{Activation: act, Family: family, source: path, sha256: img.SHA256(), missing: s.Missing,
		close: s.Close}, nil
}

// family returns the family of the plugin shown, asked under ctx.
func (c Catalog) family(ctx context.Context, s *pluginproc.Session, shown string) sdk.Family {
	f := s.Family()
	f.New = func(p sdk.Params) (sdk.Activation, error) { return s.Activation(ctx, p) }
	return c.comparing(f, shown)
}

// sameFunction reports whether the plugin's name and g are those that were
// trusted.
func sameFunction(ctx context.Context, shown string, family sdk.Family, record Record) error {
	if record.Name != "" && record.Name != family.Name {
		return &UntrustedError{shown, fmt.Sprintf("it was run, and calls itself %q, but was trusted as %q: something "+
			"that it loads has changed; if you trust that: moe plugin trust %s", family.Name, record.Name, shown)}
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
			return &UntrustedError{shown, "it was run, and its g is not what it was when it was trusted, though its " +
				"file is: something that it loads has changed; if you trust that: moe plugin trust " + shown}
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
		return Record{}, &UntrustedError{shown,
			fmt.Sprintf("it is not trusted and was not run (sha256 %s); if you trust it: moe plugin trust %s",
				img.SHA256(), shown)}
	case records[i].SHA256 != img.SHA256():
		return Record{}, &UntrustedError{shown,
			fmt.Sprintf("it has changed since it was trusted and was not run (sha256 %s, was %s); if you trust the "+
				"new one: moe plugin trust %s",
				img.SHA256(), records[i].SHA256, shown)}
	}
	if err := sameInterpreter(shown, img, records[i].Interpreter); err != nil {
		return Record{}, err
	}
	return records[i], lock(c.Lock).allows(shown, img.SHA256())
}

// trustFile records that the plugin at path may run.
func (c Catalog) trustFile(ctx context.Context, path string) (Record, error) {
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
	r.Protocol = wire.Version
	if err := r.describe(ctx, family); err != nil {
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
