// Package catalog opens activations by name: the built-ins, expressions, whose name
// is their text, and tables, named by their file, which run in the process, WebAssembly modules, which run there
// confined, and trusted plugins, which run in processes of their own.
//
// A plugin is a program, and so nothing is run that the user has not trusted
// by name and content. See [Catalog.Trust]. A module can do nothing but compute, and needs no trust.
package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gatedlearning/moe/expression"
	"github.com/gatedlearning/moe/internal/claims"
	"github.com/gatedlearning/moe/internal/sandbox"
	"github.com/gatedlearning/moe/internal/wasm"
	"github.com/gatedlearning/moe/plugins/exp"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/leakyrelu"
	"github.com/gatedlearning/moe/plugins/probit"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/plugins/softplus"
	"github.com/gatedlearning/moe/plugins/tanh"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/table"
)

// SourceBuiltin is the source of activations that are part of the program.
const SourceBuiltin = "built-in"

// SourceExpression is the source of activations that are all in their name.
const SourceExpression = "expression"

// SourceTable is the source of activations that are a curve through points.
const SourceTable = "table"

// The default limits of a [Catalog]. A slow interpreter takes about a second
// for a call.
const (
	DefaultStartTimeout = 10 * time.Second
	DefaultCallTimeout  = 30 * time.Second
	DefaultMaxRSS       = 4 << 30
)

// Sandbox says how much there has to be of what confines a plugin's process:
// docs/sandbox.md says what that is.
type Sandbox = sandbox.Mode

// The sandboxes.
const (
	SandboxDefault = sandbox.Default // what the kernel has
	SandboxStrict  = sandbox.Strict  // all of it, or the plugin does not start
	SandboxOff     = sandbox.Off     // no more than limits on time and memory
)

// ParseSandbox returns the sandbox of that name.
func ParseSandbox(name string) (Sandbox, error) { return sandbox.Parse(name) }

// Catalog knows where trust is recorded and what plugins may use up. The zero
// value is the user's own catalog with the default limits.
type Catalog struct {
	// Dir is the directory with the trust store. If it is "", it is
	// $MOE_CONFIG_DIR, or else the directory moe in the user's configuration
	// directory.
	Dir string
	// Lock is the path of the project's lock file, which narrows what is trusted
	// to the checksums in it. If it is "", it is DefaultLock in the working
	// directory; a lock file that does not exist narrows nothing.
	Lock string
	// StartTimeout bounds the time from starting a plugin to its first reply;
	// 0 means DefaultStartTimeout.
	StartTimeout time.Duration
	// CallTimeout bounds every call, of at most 65,536 values; 0 means
	// DefaultCallTimeout.
	CallTimeout time.Duration
	// MaxRSS bounds the resident memory of a plugin's processes together, in
	// bytes; 0 means DefaultMaxRSS. It is looked at 20 times a second.
	MaxRSS int64
	// Sandbox says how much of the sandbox a plugin runs in there has to be; "" is
	// SandboxDefault.
	Sandbox Sandbox
	// RunUntrusted makes Open run files that are not trusted. It is for a user
	// who has asked for just that.
	RunUntrusted bool
	// Unchecked makes the activations of plugins hand on their derivatives,
	// moments and systems as they are. It is for a caller who compares them with
	// g himself, as solver.Validate does; else they are compared here, and a
	// false one is a [*LieError].
	Unchecked bool
}

// Plugin is an open activation. Close it when it is no longer needed.
type Plugin struct {
	// Activation also implements sdk.MomentsProvider and sdk.SystemProvider
	// where, and only where, the plugin does: hand it on as it is. What a plugin
	// says there has been compared with its g (see [LieError]).
	Activation sdk.Activation
	// Family is the family that Activation is a member of.
	Family sdk.Family

	source  string
	beside  string // of a built-in
	sha256  string
	module  []byte // the code of a WebAssembly module
	missing func() []string
	close   func()
	once    sync.Once
}

// Source returns "built-in", "expression", "table", or the path of the plugin's file.
func (p *Plugin) Source() string { return p.source }

// Beside returns the path of a trusted plugin that has the name of this built-in, and is to be had by its path; "" for
// none.
func (p *Plugin) Beside() string { return p.beside }

// InProcess says whether values come from this process, as those of built-ins,
// expressions and tables do.
func (p *Plugin) InProcess() bool {
	return p.source == SourceBuiltin || p.source == SourceExpression || p.source == SourceTable
}

// SHA256 returns the checksum of the plugin's file in hexadecimal, or "" where there
// is none.
func (p *Plugin) SHA256() string { return p.sha256 }

// Module returns the code of the WebAssembly module that the activation is, or nil where it is none.
func (p *Plugin) Module() []byte { return p.module }

// Unconfined says what of the sandbox the plugin's process does without because
// the kernel does not have it, and what it can do therefore; nil where there is
// nothing missing, for a built-in, and where the sandbox is off.
func (p *Plugin) Unconfined() []string {
	if p.missing == nil {
		return nil
	}
	return p.missing()
}

// Recheck asks a plugin again for values that it gave at first. One that has
// become another function since is a [*FaultError]: what was computed with it is
// worth nothing. Between the beginning and the end the same is asked at
// intervals; host.Fit asks before it returns.
func (p *Plugin) Recheck(ctx context.Context) error { return claims.Recheck(ctx, p.Activation) }

// Close ends the plugin's process and everything in its session, within
// three seconds whatever state they are in. A built-in has none. Close may be
// called more than once.
func (p *Plugin) Close() error {
	p.once.Do(func() {
		if p.close != nil {
			p.close()
		}
	})
	return nil
}

// Builtins returns the families that are part of the program, by name.
func Builtins() []sdk.Family {
	return []sdk.Family{exp.Family, identity.Family, leakyrelu.Family, probit.Family, relu.Family, sigmoid.Family,
		softplus.Family, tanh.Family}
}

// Builtin says whether a name is that of a built-in, which no plugin of the name stands in the place of.
func Builtin(name string) bool {
	return slices.ContainsFunc(Builtins(), func(f sdk.Family) bool { return f.Name == name })
}

// Open opens an activation from the user's own catalog; see [Catalog.Open].
func Open(ctx context.Context, name string, params sdk.Params) (*Plugin, error) {
	return Catalog{}.Open(ctx, name, params)
}

// Open opens the activation with the given name and parameters; parameters
// that are not given take their defaults. The name is that of a built-in or of
// a trusted plugin, or the path of a WebAssembly module or of a trusted plugin's file, which contains a
// separator, as in ./moe-plugin-smoothrelu, or [expression.Prefix] and a text, or [table.Prefix] and the path of a
// table. PATH and
// the working directory are never searched.
//
// Unknown names are an [*UnknownError], parameters that the activation does not
// take and texts that are no expression a [*ParamsError], expressions that are not finite
// everywhere an [*expression.NotFiniteError], files that are no table a [*table.Error], files that are not trusted an
// [*UntrustedError], and plugins that do not work a [*FaultError]. The context bounds the
// start only.
func (c Catalog) Open(ctx context.Context, name string, params sdk.Params) (*Plugin, error) {
	return c.OpenSame(ctx, name, params, nil)
}

// OpenSame is [Catalog.Open] for a caller who knows values of the activation, as a model's file does. Of several
// trusted plugins of the name it is the one of which same says nothing. Where it is none of them the error
// is that of one that could not be opened, or else what same says of the first. Where there is but one, same is not
// asked.
func (c Catalog) OpenSame(ctx context.Context, name string, params sdk.Params,
	same func(context.Context, sdk.Activation) error) (*Plugin, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if expression.Is(name) {
		return openExpression(name, params)
	}
	if table.Is(name) {
		return openTable(strings.TrimSpace(strings.TrimPrefix(name, table.Prefix)), params)
	}
	if isPath(name) {
		return c.openPath(ctx, name, params, nil)
	}
	families := Builtins()
	if i := slices.IndexFunc(families, func(f sdk.Family) bool { return f.Name == name }); i >= 0 {
		p, err := openBuiltin(families[i], params)
		if err == nil {
			p.beside = c.ofName(name)
		}
		return p, err
	}
	found, err := c.find(name, families)
	if err != nil {
		return nil, err
	}
	if len(found) == 1 {
		return c.openPath(ctx, found[0].Path, params, &found[0])
	}
	several := &AmbiguousError{Name: name}
	for _, r := range found {
		several.Paths = append(several.Paths, r.Path)
	}
	if same == nil {
		return nil, several
	}
	return c.openOne(ctx, found, params, same, several)
}

// openOne opens the one of the records of which same says nothing; of more than one the error is several.
func (c Catalog) openOne(ctx context.Context, found []Record, params sdk.Params,
	same func(context.Context, sdk.Activation) error, several error) (*Plugin, error) {
	var one *Plugin
	var failed, differs error
	for i := range found {
		p, err := c.openPath(ctx, found[i].Path, params, &found[i])
		if err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		if err = same(ctx, p.Activation); err == nil && one == nil {
			one = p
			continue
		}
		p.Close()
		if err == nil {
			one.Close()
			return nil, several
		}
		differs = cmp.Or(differs, err)
	}
	if one != nil {
		return one, nil
	}
	return nil, cmp.Or(ctx.Err(), failed, differs)
}

// ofName is the path of a trusted plugin of this name, "" where there is none, or no store that can be read.
func (c Catalog) ofName(name string) string {
	records, _ := c.Trusted()
	if found := named(records, name); len(found) > 0 {
		return found[0].Path
	}
	return ""
}

// named returns the records of that name in their order, of those of the same content the first. Records of files that
// are gone count only where all are.
func named(records []Record, name string) []Record {
	var there, gone []Record
	for _, r := range records {
		if r.Name != name {
			continue
		}
		switch _, err := os.Stat(r.Path); {
		case errors.Is(err, fs.ErrNotExist):
			gone = append(gone, r)
		case !slices.ContainsFunc(there, func(o Record) bool { return o.SHA256 == r.SHA256 }):
			there = append(there, r)
		}
	}
	if len(there) == 0 && len(gone) > 0 {
		return gone[:1]
	}
	return there
}

func isPath(name string) bool {
	return strings.ContainsRune(name, filepath.Separator) || strings.ContainsRune(name, '/')
}

func openBuiltin(f sdk.Family, params sdk.Params) (*Plugin, error) {
	act, err := f.Activation(params)
	if err != nil {
		return nil, &ParamsError{Name: f.Name, Err: err}
	}
	return &Plugin{Activation: act, Family: f, source: SourceBuiltin}, nil
}

func openExpression(text string, params sdk.Params) (*Plugin, error) {
	act, err := expression.Parse(text, params)
	if err != nil {
		return nil, &ParamsError{Name: text, Err: err}
	}
	if err := act.(*expression.Expression).Finite(); err != nil {
		return nil, err
	}
	return &Plugin{Activation: act, Family: sdk.Single(act), source: SourceExpression}, nil
}

// openTable opens the table in the file at path.
func openTable(path string, params sdk.Params) (*Plugin, error) {
	if len(params) > 0 {
		return nil, &ParamsError{Name: path, Err: fmt.Errorf("a table takes no parameters, and %s is given",
			params.Names()[0])}
	}
	f, err := openRegular(path)
	if err != nil {
		if pe := (*fs.PathError)(nil); !errors.As(err, &pe) {
			err = &table.Error{File: path, Msg: err.Error()}
		}
		return nil, err
	}
	defer f.Close()
	t, err := table.Read(f, path)
	if err != nil {
		return nil, err
	}
	return OfTable(t), nil
}

// OfTable is a table, such as a model's file has in it, as an open activation.
func OfTable(t *table.Table) *Plugin {
	return &Plugin{Activation: t, Family: sdk.Single(t), source: SourceTable}
}

// Pin adds the plugin of r to the project's lock file, in the place of others of
// its name, and makes the file if there is none.
func (c Catalog) Pin(ctx context.Context, r Record) error { return lock(c.Lock).pin(ctx, r) }

// find returns the records of the trusted plugins with the given name, as named does, at least one.
func (c Catalog) find(name string, builtins []sdk.Family) ([]Record, error) {
	records, err := c.Trusted()
	if err != nil {
		return nil, err
	}
	if found := named(records, name); len(found) > 0 {
		return found, nil
	}
	var known []string
	for _, f := range builtins {
		known = append(known, f.Name)
	}
	for _, r := range records {
		if r.Name != "" {
			known = append(known, r.Name)
		}
	}
	slices.Sort(known)
	return nil, &UnknownError{Name: name, Known: slices.Compact(known)}
}

// Trust runs the file at path, as it now is, and records that it may run, with
// what it says about itself. Where that shows that it is no plugin, or a broken
// one, the error is a [*FaultError]; where it has the name of a built-in that is
// another function, an [*UntrustedError]. Then, and where it is interrupted,
// nothing is recorded and the record of an earlier file stays. Of a WebAssembly module, which needs no trust,
// it makes the name known.
func (c Catalog) Trust(ctx context.Context, path string) (Record, error) {
	code, err := readModule(path)
	if err != nil {
		return Record{}, err
	}
	if code != nil {
		return c.trustModule(ctx, path, code)
	}
	return c.trustFile(ctx, path)
}

// openPath opens the module or the plugin at path. A module is part of no decision about trust: it can
// do nothing but compute. Where it was found by its name, record says what it must be.
func (c Catalog) openPath(ctx context.Context, path string, params sdk.Params, record *Record) (*Plugin, error) {
	code, err := readModule(path)
	if err != nil {
		return nil, err
	}
	if code == nil {
		return c.openFile(ctx, path, params)
	}
	if record != nil {
		if err := recorded(path, code, *record, lock(c.Lock)); err != nil {
			return nil, err
		}
	}
	return c.OpenModule(ctx, code, path, params)
}

// OpenModule opens the module code, such as a model's file has in it; errors call it shown.
func (c Catalog) OpenModule(ctx context.Context, code []byte, shown string, params sdk.Params) (*Plugin, error) {
	m, err := wasm.Open(ctx, code, shown, c.moduleLimits())
	if err != nil {
		return nil, err
	}
	family := c.comparing(m.Family(), shown)
	act, err := family.Activation(params)
	if err != nil {
		err = ofParams(ctx, shown, err)
	} else {
		err = impostor(ctx, shown, family)
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return &Plugin{Activation: act, Family: family, source: shown, sha256: m.SHA256(), module: code, close: m.Close},
		nil
}

// comparing returns the family of the plugin shown, of which what members say of their g is compared with it, unless
// the caller does that.
func (c Catalog) comparing(f sdk.Family, shown string) sdk.Family {
	if c.Unchecked {
		return f
	}
	raw := f.New
	f.New = func(p sdk.Params) (sdk.Activation, error) {
		act, err := raw(p)
		if err != nil {
			return nil, err
		}
		return compared(act, shown), nil
	}
	return f
}

// trustModule records a name for the module code at path.
func (c Catalog) trustModule(ctx context.Context, path string, code []byte) (Record, error) {
	resolved, err := resolve(path)
	if err != nil {
		return Record{}, err
	}
	p, err := c.OpenModule(ctx, code, path, nil)
	if err != nil {
		return Record{}, err
	}
	defer p.Close()
	r := Record{Path: resolved, SHA256: p.SHA256(), Protocol: wasm.Version}
	if err := r.describe(ctx, p.Family); err != nil {
		return Record{}, err
	}
	return r, c.record(ctx, r)
}

func (c Catalog) moduleLimits() wasm.Limits {
	return wasm.Limits{
		Start: cmp.Or(c.StartTimeout, DefaultStartTimeout), Call: cmp.Or(c.CallTimeout, DefaultCallTimeout),
		Memory: cmp.Or(c.MaxRSS, DefaultMaxRSS)}
}
