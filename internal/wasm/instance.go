package wasm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/pluginproc"
	"github.com/gatedlearning/moe/internal/setting"
	"github.com/gatedlearning/moe/internal/spotcheck"
	"github.com/gatedlearning/moe/internal/wire"
	"github.com/gatedlearning/moe/sdk"
)

// instance is one running copy of the module, for one caller at a time.
type instance struct {
	module                      api.Module
	buffer, info, eval, moments api.Function
	bytes                       []byte // of values on their way
}

// with runs call with an instance that nobody else uses. One that has failed is not used again.
func (m *Module) with(ctx context.Context, name string, call func(context.Context, *instance) error) error {
	var in *instance
	select {
	case in = <-m.free:
	case <-ctx.Done():
		return ctx.Err()
	}
	failed := true
	defer func() {
		if failed && in != nil {
			in.module.Close(context.Background())
			in = nil
		}
		m.free <- in
	}()
	if in == nil {
		err := m.within(ctx, "start", m.limits.Start, func(ctx context.Context) (err error) {
			in, err = m.start(ctx)
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := m.within(ctx, name, m.limits.Call, func(ctx context.Context) error { return call(ctx, in) }); err != nil {
		return err
	}
	failed = false
	return nil
}

// within runs call for no longer than limit. Its error is the caller's own wish, or a fault of the module.
func (m *Module) within(ctx context.Context, name string, limit time.Duration, call func(context.Context) error) error {
	until, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := call(until)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case until.Err() != nil:
		return &pluginproc.FaultError{Plugin: m.shown, Call: name, Reason: fmt.Sprintf("no answer within %v", limit),
			Err: until.Err(),
			Advice: setting.Textf("it may be in a loop without end, or %s too short for it",
				setting.Key("plugin-timeout"))}
	}
	return m.fault(name, firstLine(err), nil)
}

// start makes an instance.
func (m *Module) start(ctx context.Context) (*instance, error) {
	module, err := m.runtime.InstantiateModule(ctx, m.compiled, environment())
	if err != nil {
		return nil, err
	}
	f := module.ExportedFunction
	return &instance{module: module, buffer: f(exportBuffer), info: f(exportInfo), eval: f(exportEval),
		moments: f(exportMoments)}, nil
}

// put writes values to the start of the module's room for n numbers, and returns its address.
func (in *instance) put(ctx context.Context, n int, values ...[]float64) (uint32, error) {
	out, err := in.buffer.Call(ctx, uint64(n))
	if err != nil {
		return 0, err
	}
	at, memory := uint32(out[0]), in.module.Memory()
	switch {
	case at == 0:
		return 0, errors.New("moe_buffer returns 0: it has no room")
	case at%8 != 0 || uint64(at)+8*uint64(n) > uint64(memory.Size()):
		return 0, fmt.Errorf(
			"moe_buffer(%d) returns %d: want a multiple of 8 with %d bytes behind it in a memory of %d", n, at, 8*n,
			memory.Size())
	}
	in.bytes = in.bytes[:0]
	for _, v := range values {
		in.bytes = numeric.AppendFloats(in.bytes, v)
	}
	memory.Write(at, in.bytes) // there is room, as has been seen
	return at, nil
}

// get reads len(dst) numbers from the module's memory.
func (in *instance) get(dst []float64, at uint32) error {
	raw, ok := in.module.Memory().Read(at, uint32(8*len(dst)))
	if !ok {
		return fmt.Errorf("its memory has become smaller than its buffer")
	}
	numeric.ReadFloats(dst, raw)
	return nil
}

// describe asks for the description of the member with these parameters; nil are the defaults.
func (m *Module) describe(ctx context.Context, params []float64) (*description, error) {
	var d *description
	err := m.with(ctx, "info", func(ctx context.Context, in *instance) error {
		if _, err := in.put(ctx, max(len(params), 1), params); err != nil {
			return err
		}
		out, err := in.info.Call(ctx, uint64(len(params)))
		if err != nil {
			return err
		}
		from, size := uint32(out[0]>>32), uint32(out[0])
		if size > maxInfo {
			return fmt.Errorf("a description of %d bytes; %d are allowed", size, maxInfo)
		}
		text, ok := in.module.Memory().Read(from, size)
		if !ok {
			return fmt.Errorf("its description, %d bytes at %d, lies outside of its memory", size, from)
		}
		d = new(description)
		if err := json.Unmarshal(text, d); err != nil {
			return fmt.Errorf("its description is not as docs/modules.md has it: %w", err)
		}
		return nil
	})
	return d, err
}

// description is what a module says about itself.
type description struct {
	ABI     int       `json:"abi"`
	Name    string    `json:"name"`
	Version string    `json:"version"`
	Doc     string    `json:"doc"`
	Params  []param   `json:"params"`
	Kinks   []float64 `json:"kinks"`
}

type param struct {
	Name    string  `json:"name"`
	Doc     string  `json:"doc"`
	Default float64 `json:"default"`
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
}

// family returns the family that the description is of, without its members.
func (d *description) family() (sdk.Family, error) {
	if d.ABI != Version {
		return sdk.Family{}, fmt.Errorf("abi is %d, want %d", d.ABI, Version)
	}
	f := sdk.Family{Name: d.Name, Version: d.Version, Doc: d.Doc}
	for _, p := range d.Params {
		f.Params = append(f.Params, sdk.Param(p))
	}
	return f, wire.CheckFamily(f)
}

// activation returns the member with the given parameters.
func (m *Module) activation(ctx context.Context, given sdk.Params) (sdk.Activation, error) {
	values := make([]float64, len(m.family.Params))
	for i, p := range m.family.Params {
		v, ok := given[p.Name]
		if !ok {
			v = p.Default
		}
		values[i] = v
	}
	d, err := m.describe(ctx, values)
	if err != nil {
		return nil, err
	}
	info := sdk.Info{Name: d.Name, Version: d.Version, Kinks: d.Kinks}
	if len(given) > 0 {
		info.Params = maps.Clone(given)
	}
	switch err := wire.CheckInfo(info); {
	case err != nil:
		return nil, m.fault("info", err.Error(), nil)
	case info.Name != m.family.Name:
		return nil, m.fault("info", fmt.Sprintf("it is called %q, and its activation %q", m.family.Name, info.Name),
			nil)
	}
	b := &member{m: m, params: values}
	b.Asked = spotcheck.NewAsked(m.family.Name, wire.Chunk, b.ask, m.fault)
	_, moments := m.compiled.ExportedFunctions()[exportMoments]
	return wire.Expose(info, wire.Capabilities{Moments: moments}, b), nil
}

// member is one activation of the module.
type member struct {
	*spotcheck.Asked
	m      *Module
	params []float64 // all, in the family's order
}

// ask writes g(z), or g′(z), to dst.
func (b *member) ask(ctx context.Context, method string, dst, z []float64) error {
	order := uint64(0)
	if method == spotcheck.Deriv {
		order = 1
	}
	return b.m.with(ctx, method, func(ctx context.Context, in *instance) error {
		at, err := in.put(ctx, len(b.params)+len(z), b.params, z)
		if err != nil {
			return err
		}
		if err := check(in.eval.Call(ctx, order, uint64(len(b.params)), uint64(len(z)))); err != nil {
			return fmt.Errorf("moe_eval: %w", err)
		}
		return in.get(dst, at+uint32(8*len(b.params)))
	})
}

// check is the error of a function that returns 0 where all went well.
func check(out []uint64, err error) error {
	if err != nil {
		return err
	}
	if code := int32(out[0]); code != 0 {
		return fmt.Errorf("it returns %d", code)
	}
	return nil
}

// Moments asks the module for its moments.
func (b *member) Moments(ctx context.Context) (sdk.Moments, error) {
	const n = (sdk.MaxOrder + 1) * (sdk.MaxOrder + 1)
	all := make([]float64, 2*n)
	err := b.m.with(ctx, "Moments", func(ctx context.Context, in *instance) error {
		at, err := in.put(ctx, len(b.params)+len(all), b.params)
		if err != nil {
			return err
		}
		if err := check(in.moments.Call(ctx, uint64(len(b.params)))); err != nil {
			return fmt.Errorf("moe_moments: %w", err)
		}
		return in.get(all, at+uint32(8*len(b.params)))
	})
	var out sdk.Moments
	for i, v := range all {
		to := &out.Value
		if i >= n {
			to = &out.Error
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			err = b.m.fault("Moments", fmt.Sprintf("number %d is %v", i, v), nil)
		}
		to[i%n/(sdk.MaxOrder+1)][i%(sdk.MaxOrder+1)] = v
	}
	return out, err
}

// System is not in the contract: that of the quadrature of g is as good.
func (b *member) System(context.Context, float64) (sdk.System, error) {
	return sdk.System{}, fmt.Errorf("a module has no system of its own")
}
