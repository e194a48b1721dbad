// Package catalog opens activations by name: the built-ins and expressions, whose name
// is their text, which run in the process, and trusted plugins, which run in processes of
// their own.
//
// A plugin is a program, and so nothing is run that the user has not trusted
// by name and content. See [Catalog.Trust].
package catalog

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gatedlearning/moe/expression"
	"github.com/gatedlearning/moe/internal/claims"
	"github.com/gatedlearning/moe/internal/sandbox"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/leakyrelu"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/plugins/tanh"
	"github.com/gatedlearning/moe/sdk"
)

// SourceBuiltin is the source of activations that are part of the program.
const SourceBuiltin = "built-in"

// SourceExpression is the source of activations that are all in their name.
const SourceExpression = "expression"

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
	sha256  string
	missing func() []string
	close   func()
	once    sync.Once
}

// Source returns "built-in", "expression", or the path of the plugin's file.
func (p *Plugin) Source() string { return p.source }

// InProcess says whether values come from this process, as those of built-ins and
// expressions do.
func (p *Plugin) InProcess() bool { return p.source == SourceBuiltin || p.source == SourceExpression }

// SHA256 returns the checksum of the plugin's file in hexadecimal, or "" where there
// is none.
func (p *Plugin) SHA256() string { return p.sha256 }

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
	return []sdk.Family{identity.Family, leakyrelu.Family, relu.Family, sigmoid.Family, tanh.Family}
}

// Open opens an activation from the user's own catalog; see [Catalog.Open].
func Open(ctx context.Context, name string, params sdk.Params) (*Plugin, error) {
	return Catalog{}.Open(ctx, name, params)
}

// Open opens the activation with the given name and parameters; parameters
// that are not given take their defaults. The name is that of a built-in or of
// a trusted plugin, or the path of a trusted plugin's file, which contains a
// separator, as in ./moe-plugin-softplus, or [expression.Prefix] and a text. PATH and
// the working directory are never searched.
//
// Unknown names are an [*UnknownError], parameters that the activation does not
// take and texts that are no expression a [*ParamsError], expressions that are not finite
// everywhere an [*expression.NotFiniteError], files that are not trusted an
// [*UntrustedError], and plugins that do not work a [*FaultError]. The context bounds the
// start only.
func (c Catalog) Open(ctx context.Context, name string, params sdk.Params) (*Plugin, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if expression.Is(name) {
		return openExpression(name, params)
	}
	if isPath(name) {
		return c.openFile(ctx, name, params)
	}
	families := Builtins()
	if i := slices.IndexFunc(families, func(f sdk.Family) bool { return f.Name == name }); i >= 0 {
		return openBuiltin(families[i], params)
	}
	record, err := c.find(name, families)
	if err != nil {
		return nil, err
	}
	return c.openFile(ctx, record.Path, params)
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

// Pin adds the plugin of r to the project's lock file, in the place of others of
// its name, and makes the file if there is none.
func (c Catalog) Pin(ctx context.Context, r Record) error { return lock(c.Lock).pin(ctx, r) }

// find returns the record of the trusted plugin with the given name.
func (c Catalog) find(name string, builtins []sdk.Family) (Record, error) {
	records, err := c.Trusted()
	if err != nil {
		return Record{}, err
	}
	var known []string
	var found []Record
	for _, f := range builtins {
		known = append(known, f.Name)
	}
	for _, r := range records {
		if r.Name == name {
			found = append(found, r)
		}
		if r.Name != "" {
			known = append(known, r.Name)
		}
	}
	switch len(found) {
	case 0:
		slices.Sort(known)
		return Record{}, &UnknownError{Name: name, Known: slices.Compact(known)}
	case 1:
		return found[0], nil
	}
	paths := make([]string, len(found))
	for i, r := range found {
		paths[i] = r.Path
	}
	return Record{}, &AmbiguousError{Name: name, Paths: paths}
}
