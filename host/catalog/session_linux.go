package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/gatedlearning/moe/internal/wire"
	"github.com/gatedlearning/moe/sdk"
)

// maxRestarts is how often a plugin that has died is started afresh and asked
// again; calls are pure, so the values are those that it would have given.
const maxRestarts = 3

// session is a plugin that is open: its process, and another one if that dies.
type session struct {
	catalog Catalog
	image   *image
	shown   string // the file's path as the user wrote it

	family sdk.Family // what it said when it was opened

	mu       sync.Mutex
	proc     *process // nil once closed
	failed   error    // a fault for good: the plugin hangs, or dies again and again
	restarts atomic.Int32
	batches  atomic.Int64 // asked for so far
}

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
	s, err := c.openSession(ctx, img, path)
	if err != nil {
		return nil, err
	}
	family := s.family
	family.New = func(p sdk.Params) (sdk.Activation, error) { return s.activation(ctx, p) }
	act, err := family.Activation(params)
	if err != nil {
		s.close()
		if fault := (*FaultError)(nil); errors.As(err, &fault) || ctx.Err() != nil {
			return nil, err
		}
		return nil, &ParamsError{Name: path, Err: err}
	}
	if err := sameFunction(ctx, s, family, record); err != nil {
		s.close()
		return nil, err
	}
	return &Plugin{Activation: act, Family: s.family, source: path, sha256: img.sha256, close: s.close}, nil
}

// sameFunction reports whether the plugin's name and g are those that were
// trusted.
func sameFunction(ctx context.Context, s *session, family sdk.Family, record Record) error {
	if record.Name != "" && record.Name != family.Name {
		return &UntrustedError{s.shown, fmt.Sprintf("it calls itself %q, and was trusted as %q: something that it loads has changed; if you trust that: moe plugin trust %s", family.Name, record.Name, s.shown)}
	}
	if record.Fingerprint == "" {
		return nil
	}
	now, err := fingerprint(ctx, family)
	if err != nil {
		return err
	}
	if now != record.Fingerprint {
		return &UntrustedError{s.shown, "its g is not what it was when it was trusted, though its file is: something that it loads has changed; if you trust that: moe plugin trust " + s.shown}
	}
	return nil
}

// trusted returns the store's record of a file with this path and checksum,
// which the lock file must allow; if there is none, the error says what there
// is instead.
func (c Catalog) trusted(shown string, img *image) (Record, error) {
	records, err := c.Trusted()
	if err != nil {
		return Record{}, err
	}
	i := slices.IndexFunc(records, func(r Record) bool { return r.Path == img.path })
	switch {
	case i < 0:
		return Record{}, &UntrustedError{shown, fmt.Sprintf("it is not trusted and was not run (sha256 %s); if you trust it: moe plugin trust %s", img.sha256, shown)}
	case records[i].SHA256 != img.sha256:
		return Record{}, &UntrustedError{shown, fmt.Sprintf("it has changed since it was trusted and was not run (sha256 %s, was %s); if you trust the new one: moe plugin trust %s",
			img.sha256, records[i].SHA256, shown)}
	}
	return records[i], c.locked(shown, img.sha256)
}

// openSession starts the plugin in img, whatever the trust store says, and
// asks it what it is. The session owns img, also after an error.
func (c Catalog) openSession(ctx context.Context, img *image, path string) (*session, error) {
	s := &session{catalog: c, image: img, shown: path}
	var err error
	if s.proc, err = c.startProcess(ctx, img, path); err != nil {
		img.Close()
		return nil, err
	}
	if s.family, err = s.proc.client.Describe(ctx); err != nil {
		err = s.fault(s.proc, "Describe", err)
		s.close()
		return nil, err
	}
	late := context.WithoutCancel(ctx) // every call has a deadline of its own
	s.family.New = func(p sdk.Params) (sdk.Activation, error) { return s.activation(late, p) }
	return s, nil
}

func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return
	}
	s.proc.stop()
	s.proc = nil
	s.image.Close()
}

// activation returns the member of the plugin's family with the given
// parameters, which are all that the family has.
func (s *session) activation(ctx context.Context, params sdk.Params) (sdk.Activation, error) {
	var info sdk.Info
	var caps wire.Capabilities
	err := s.call(ctx, "Configure", func(c *wire.Client) (err error) {
		info, caps, err = c.Configure(ctx, params)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, name := range params.Names() {
		if v, ok := info.Params[name]; ok && v != params[name] {
			return nil, s.faultf("Configure", "asked for %s = %v, it answers for %v", name, params[name], v)
		}
	}
	if info.Name != s.family.Name {
		return nil, s.faultf("Configure", "it is called %q, and its activation %q", s.family.Name, info.Name)
	}
	if len(params) > 0 {
		info.Params = maps.Clone(params)
	}
	if s.catalog.Unchecked {
		return wire.Expose(info, caps, member{s, params}), nil
	}
	return wire.Expose(info, caps, &claims{member: member{s, params}, info: info}), nil
}

// call runs fn with the plugin's client. Where the plugin has died, it is
// started afresh and fn runs again.
func (s *session) call(ctx context.Context, name string, fn func(*wire.Client) error) error {
	for {
		proc, err := s.current()
		if err != nil {
			return err
		}
		err = fn(proc.client)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
			return err // the context's: the deadlines of calls are CallErrors
		case hangs(err):
			proc.abort()
			return s.fail(s.fault(proc, name, err))
		case !died(proc, err):
			return s.fault(proc, name, err)
		}
		if proc.runner.exceeded() != nil {
			return s.fail(s.fault(proc, name, err))
		}
		restarted, restartErr := s.restart(ctx, proc)
		switch {
		case restartErr != nil:
			return restartErr
		case !restarted:
			return s.fail(s.fault(proc, name, err))
		}
	}
}

var errClosed = errors.New("the plugin has been closed")

func (s *session) current() (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return nil, errClosed
	}
	return s.proc, s.failed
}

// fail makes err that of every later call.
func (s *session) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
	return err
}

// hangs reports whether err is that of a call whose deadline passed.
func hangs(err error) bool {
	var call *wire.CallError
	return errors.As(err, &call) && call.Code == codes.DeadlineExceeded
}

// died reports whether err is that of a plugin whose process or connection has
// ended, rather than one that it answered with.
func died(proc *process, err error) bool {
	var call *wire.CallError
	if !errors.As(err, &call) {
		return false
	}
	if call.Code == codes.Unavailable {
		proc.runner.ended(settle)
		return true
	}
	return proc.runner.ended(0)
}

// restart replaces dead, unless another call has done so. It returns false
// where the plugin has died too often.
func (s *session) restart(ctx context.Context, dead *process) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.proc == nil:
		return false, errClosed
	case s.proc != dead:
		return true, nil
	case s.restarts.Load() == maxRestarts:
		return false, nil
	}
	s.restarts.Add(1)
	dead.stop()
	proc, err := s.catalog.startProcess(ctx, s.image, s.shown)
	if err != nil {
		return false, err
	}
	s.proc = proc
	again, err := proc.client.Describe(ctx)
	switch {
	case err != nil && died(proc, err):
		return true, nil // the next call finds it dead
	case err != nil:
		return false, s.fault(proc, "Describe", err)
	case again.Name != s.family.Name || again.Version != s.family.Version || !slices.Equal(again.Params, s.family.Params):
		return false, s.faultf("Describe", "started afresh it says that it is something else")
	}
	return true, nil
}

// fault turns the error of a call into a *FaultError, parameters that the
// plugin refuses excepted.
func (s *session) fault(proc *process, name string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	reason, advice := err.Error(), ""
	if reply := (*wire.ReplyError)(nil); errors.As(err, &reply) {
		reason = reply.Err.Error()
	}
	var call *wire.CallError
	if excess := proc.runner.exceeded(); excess != nil {
		reason, advice = excess.Error(), "it leaks, or needs more (--plugin-max-rss)"
	} else if errors.As(err, &call) {
		reason = "it says " + quote(call.Message)
		switch {
		case call.Code == codes.InvalidArgument && name == "Configure":
			return errors.New(printable(call.Message))
		case call.Code == codes.DeadlineExceeded:
			reason = fmt.Sprintf("no answer within %v", s.catalog.callTimeout())
			advice = "it hangs, or needs more time (--plugin-timeout)"
		case call.Code == codes.ResourceExhausted:
			reason = "its reply is too large: " + quote(call.Message)
		case call.Code == codes.Unavailable:
			reason = "it closed the connection"
			if end := proc.runner.endedBy(); end != "" {
				reason = "it ended: " + end
			}
			if s.restarts.Load() == maxRestarts {
				reason += fmt.Sprintf(", and did so again after %d restarts", maxRestarts)
			}
		}
	}
	return &FaultError{Plugin: s.shown, Call: name, Reason: reason, Output: proc.runner.lastWords(), Advice: advice}
}

func (s *session) faultf(name, format string, args ...any) error {
	return &FaultError{Plugin: s.shown, Call: name, Reason: fmt.Sprintf(format, args...)}
}

// member is one activation of the session's family.
type member struct {
	s      *session
	params sdk.Params
}

// Eval writes g(z_i) to dst_i.
func (m member) Eval(ctx context.Context, dst, z []float64) error {
	return m.batches(ctx, "Eval", wire.Member.Eval, dst, z)
}

// Deriv writes g′(z_i) to dst_i.
func (m member) Deriv(ctx context.Context, dst, z []float64) error {
	return m.batches(ctx, "Deriv", wire.Member.Deriv, dst, z)
}

type batchMethod func(m wire.Member, ctx context.Context, dst, z []float64) error

// batches asks for one message of values at a time, and copies each to dst
// when it is whole and checked: a repeated call then finds z as it was, also
// where dst is z.
func (m member) batches(ctx context.Context, name string, method batchMethod, dst, z []float64) error {
	if err := sdk.CheckLengths(m.s.family.Name, dst, z); err != nil {
		return err
	}
	reply := make([]float64, min(len(z), wire.Chunk))
	for lo := 0; lo < len(z); lo += wire.Chunk {
		hi := min(lo+wire.Chunk, len(z))
		part := reply[:hi-lo]
		err := m.s.call(ctx, name, func(c *wire.Client) error {
			return method(wire.Member{Client: c, Params: m.params}, ctx, part, z[lo:hi])
		})
		if err != nil {
			return err
		}
		for i, v := range part {
			if !finite(v) && finite(z[lo+i]) {
				return m.s.faultf(name, "row %d: %v at z = %v", lo+i, v, z[lo+i])
			}
		}
		if n := m.s.batches.Add(1); n&(n-1) == 0 || n%recheckEvery == 0 {
			if err := m.recheck(ctx, name, method, part, z[lo:hi], lo); err != nil {
				return err
			}
		}
		copy(dst[lo:hi], part)
	}
	return nil
}

// Of the batches the 1st, 2nd, 4th, 8th … and every 64th are checked again, at
// most recheckValues of each: less than a fiftieth of the work.
const (
	recheckEvery  = 64
	recheckValues = 64
)

// recheck asks again for some values of a batch, in another order and without
// the others. The bits must be the same: a value depends on its z alone.
func (m member) recheck(ctx context.Context, name string, method batchMethod, values, z []float64, first int) error {
	step := max(1, (len(z)+recheckValues-1)/recheckValues)
	var rows []int
	for i := len(z) - 1; i >= 0; i -= step {
		rows = append(rows, i)
	}
	again := make([]float64, len(rows))
	for j, i := range rows {
		again[j] = z[i]
	}
	err := m.s.call(ctx, name, func(c *wire.Client) error {
		return method(wire.Member{Client: c, Params: m.params}, ctx, again, again)
	})
	if err != nil {
		return err
	}
	for j, i := range rows {
		if math.Float64bits(again[j]) != math.Float64bits(values[i]) {
			return m.s.faultf(name, "row %d: %v at z = %v, but %v when it was asked again", first+i, values[i], z[i], again[j])
		}
	}
	return nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Moments asks the plugin for its moments.
func (m member) Moments(ctx context.Context) (out sdk.Moments, err error) {
	err = m.s.call(ctx, "Moments", func(c *wire.Client) (err error) {
		out, err = wire.Member{Client: c, Params: m.params}.Moments(ctx)
		return err
	})
	return out, err
}

// System asks the plugin for its linear system.
func (m member) System(ctx context.Context, sigma float64) (out sdk.System, err error) {
	err = m.s.call(ctx, "System", func(c *wire.Client) (err error) {
		out, err = wire.Member{Client: c, Params: m.params}.System(ctx, sigma)
		return err
	})
	return out, err
}

// Trust records that the file at path, as it now is, may run, and then runs it
// to add what it says about itself. Where that shows that it is no plugin, or a
// broken one, the error is a [*FaultError] and the record is taken back.
func (c Catalog) Trust(ctx context.Context, path string) (Record, error) {
	img, err := openImage(path)
	if err != nil {
		return Record{}, err
	}
	r := Record{Path: img.path, SHA256: img.sha256}
	if err := c.record(ctx, r); err != nil {
		img.Close()
		return Record{}, err
	}
	if err := c.describe(ctx, img, path, &r); err != nil {
		return Record{}, errors.Join(err, c.forget(context.WithoutCancel(ctx), r.Path))
	}
	return r, c.record(ctx, r)
}

// describe runs the plugin in img, which it then closes, and adds what it says
// about itself to r.
func (c Catalog) describe(ctx context.Context, img *image, path string, r *Record) error {
	s, err := c.openSession(ctx, img, path)
	if err != nil {
		return err
	}
	defer s.close()
	r.Name, r.Version, r.Protocol = s.family.Name, s.family.Version, wire.Version
	r.Parameters = ParametersOf(s.family)
	r.Fingerprint, err = fingerprint(ctx, s.family)
	return err
}

func (c Catalog) startTimeout() time.Duration { return orDefault(c.StartTimeout, DefaultStartTimeout) }
func (c Catalog) callTimeout() time.Duration  { return orDefault(c.CallTimeout, DefaultCallTimeout) }

func (c Catalog) maxRSS() int64 { return orDefault(c.MaxRSS, DefaultMaxRSS) }

func orDefault[T comparable](v, byDefault T) T {
	var zero T
	if v == zero {
		return byDefault
	}
	return v
}
