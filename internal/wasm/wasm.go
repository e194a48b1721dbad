// Package wasm runs activations that are WebAssembly modules, in this process: with no imports
// but a WASI without files, clock or environment, in bounded memory and time. What
// goes wrong is a [pluginproc.FaultError], as of a plugin's process.
//
// A module keeps the contract moe-wasm/v1 (docs/modules.md). All numbers are little-endian. It exports
// its memory as "memory", and
//
//	moe_buffer(n i32) i32                the address of room for n float64, a multiple of 8; 0 if there is none
//	moe_info(p i32) i64                  address<<32 | length of a description in JSON
//	moe_eval(order i32, p i32, n i32) i32  0, or anything else where it fails
//	moe_moments(p i32) i32               optional: 0, or anything else where it fails
//
// The host writes p parameters, in the order of the description, to the start of the buffer and
// behind them n values z; moe_eval puts g(z) (order 0) or g′(z) (order 1) in their place.
// moe_moments puts the 25 moments E[g^i·Z^j] behind the parameters, i slower than j, and behind them
// 25 bounds of their errors. With p = 0 the parameters are at their defaults.
package wasm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/gatedlearning/moe/internal/pluginproc"
	"github.com/gatedlearning/moe/internal/setting"
	"github.com/gatedlearning/moe/sdk"
)

const (
	// Version is the version of the contract.
	Version = 1
	// MaxSize bounds a module's file: one in Go has 2 to 3 MB, one in C some hundred bytes.
	MaxSize = 16 << 20

	maxMemory    = 256 << 20 // of one instance
	maxInstances = 16
	maxInfo      = 64 << 10 // of a description
	cachedFrom   = 256 << 10
	page         = 64 << 10
)

// Is reports whether a file that begins with head is a module.
func Is(head []byte) bool { return bytes.HasPrefix(head, []byte("\x00asm")) }

// Limits are what a module may use up.
type Limits struct {
	Start  time.Duration // compiling it, and from an instance's start to its first answer
	Call   time.Duration // every call, of at most 65,536 values
	Memory int64         // of all instances together, in bytes
}

// Module is a module that is open.
type Module struct {
	shown    string
	sha256   string
	limits   Limits
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	family   sdk.Family
	free     chan *instance // those that nobody uses; nil stands for one that is not made yet
}

// Open compiles the module code, whose file errors call shown, and asks it what it is.
func Open(ctx context.Context, code []byte, shown string, limits Limits) (*Module, error) {
	sum := sha256.Sum256(code)
	m := &Module{shown: shown, sha256: hex.EncodeToString(sum[:]), limits: limits}
	switch {
	case len(code) > MaxSize:
		return nil, m.fault("open", fmt.Sprintf("a module of %d bytes; %d are allowed", len(code), MaxSize), nil)
	case !Is(code):
		return nil, m.fault("open", "it is no WebAssembly module", nil)
	}
	n := min(runtime.GOMAXPROCS(0), maxInstances)
	m.free = make(chan *instance, n)
	for range n {
		m.free <- nil
	}
	memory := min(maxMemory, limits.Memory/int64(n))
	config := wazero.NewRuntimeConfig().WithCloseOnContextDone(true).WithMemoryLimitPages(uint32(max(memory/page, 1)))
	if len(code) > cachedFrom {
		if cache := cacheOf(); cache != nil {
			config = config.WithCompilationCache(cache)
		}
	}
	m.runtime = wazero.NewRuntimeWithConfig(context.Background(), config)
	if err := m.open(ctx, code); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// cacheOf returns the cache of compiled modules in the user's own directory, or nil where there can be
// none: compiling takes half a second for a module in Go.
func cacheOf() wazero.CompilationCache {
	dir, err := os.UserCacheDir()
	if err != nil {
		return nil
	}
	dir = filepath.Join(dir, "moe", "wasm")
	if os.MkdirAll(dir, 0o700) != nil {
		return nil
	}
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return nil
	}
	return cache
}

func (m *Module) open(ctx context.Context, code []byte) error {
	err := m.within(ctx, "open", m.limits.Start, func(ctx context.Context) error { return m.compile(ctx, code) })
	if err != nil {
		return err
	}
	if err := m.admit(); err != nil {
		return err
	}
	d, err := m.describe(ctx, nil)
	if err != nil {
		return err
	}
	if m.family, err = d.family(); err != nil {
		return m.fault("info", err.Error(), nil)
	}
	members := m.family
	members.New = func(p sdk.Params) (sdk.Activation, error) { return m.activation(context.Background(), p) }
	m.family.New = members.Activation // which refuses what the description does not allow
	return nil
}

// compile compiles the module, or gives up when ctx ends: the compiler itself knows no end.
func (m *Module) compile(ctx context.Context, code []byte) error {
	type result struct {
		compiled wazero.CompiledModule
		err      error
	}
	done := make(chan result, 1)
	go func() {
		c, err := m.runtime.CompileModule(ctx, code)
		done <- result{c, err}
	}()
	select {
	case r := <-done:
		m.compiled = r.compiled
		if r.err != nil {
			return fmt.Errorf("it is no valid module: %w", r.err)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// admit refuses modules that want more than they get, or lack what they must have.
func (m *Module) admit() error {
	wasi := false
	for _, f := range m.compiled.ImportedFunctions() {
		from, name, _ := f.Import()
		if from != wasi_snapshot_preview1.ModuleName {
			return &pluginproc.FaultError{Plugin: m.shown, Call: "open",
				Reason: fmt.Sprintf("it imports %s.%s, and there are no imports", from, name),
				Advice: setting.Textf("build it without; AssemblyScript's env.abort goes with --use abort=")}
		}
		wasi = true
	}
	if memories := m.compiled.ImportedMemories(); len(memories) > 0 {
		return m.fault("open", "it imports a memory; it must have its own, exported as \"memory\"", nil)
	}
	if _, ok := m.compiled.ExportedMemories()[exportMemory]; !ok {
		return m.fault("open", "it exports no memory as \"memory\"", nil)
	}
	have := m.compiled.ExportedFunctions()
	for _, e := range exports {
		f, ok := have[e.name]
		switch {
		case !ok && !e.optional:
			return m.fault("open", fmt.Sprintf("it exports no %s%s", e.name, e.signature()), nil)
		case ok && (!slices.Equal(f.ParamTypes(), e.params) || !slices.Equal(f.ResultTypes(),
			[]api.ValueType{e.result})):
			return m.fault("open", fmt.Sprintf("its %s is not %s%s", e.name, e.name, e.signature()), nil)
		}
	}
	if !wasi {
		return nil
	}
	_, err := wasi_snapshot_preview1.Instantiate(context.Background(), m.runtime)
	return err
}

// export is a function that a module must have, or may.
type export struct {
	name     string
	params   []api.ValueType
	result   api.ValueType
	optional bool
}

const (
	exportMemory  = "memory"
	exportBuffer  = "moe_buffer"
	exportInfo    = "moe_info"
	exportEval    = "moe_eval"
	exportMoments = "moe_moments"

	i32 = api.ValueTypeI32
	i64 = api.ValueTypeI64
)

var exports = []export{
	{exportBuffer, []api.ValueType{i32}, i32, false},
	{exportInfo, []api.ValueType{i32}, i64, false},
	{exportEval, []api.ValueType{i32, i32, i32}, i32, false},
	{exportMoments, []api.ValueType{i32}, i32, true},
}

// signature is the export's type as in "(i32, i32) i64".
func (e export) signature() string {
	names := make([]string, len(e.params))
	for i, p := range e.params {
		names[i] = api.ValueTypeName(p)
	}
	return "(" + strings.Join(names, ", ") + ") " + api.ValueTypeName(e.result)
}

// SHA256 returns the checksum of the module in hexadecimal.
func (m *Module) SHA256() string { return m.sha256 }

// Family returns the module's family. Its members may be used until [Module.Close].
func (m *Module) Family() sdk.Family { return m.family }

// Close ends all instances.
func (m *Module) Close() { m.runtime.Close(context.Background()) }

// fault is a failure that the module is to blame for.
func (m *Module) fault(call, reason string, cause error) error {
	return &pluginproc.FaultError{Plugin: m.shown, Call: call, Reason: reason, Err: cause}
}

// firstLine is what an error says before its stack trace.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimSuffix(line, " (recovered by wazero)")
}

// environment is what an instance sees of the world: nothing. Its random numbers are always the same, its clock stands.
func environment() wazero.ModuleConfig {
	still := func() (int64, int32) { return 1, 0 } // not 0: Go's runtime takes that for no clock
	return wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize").
		WithRandSource(rand.NewChaCha8([32]byte{})).
		WithWalltime(still, 1).WithNanotime(func() int64 { return 1 }, 1).WithNanosleep(func(int64) {})
}
