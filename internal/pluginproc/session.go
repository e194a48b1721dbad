package pluginproc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/gatedlearning/moe/internal/sandbox"
	"github.com/gatedlearning/moe/internal/setting"
	"github.com/gatedlearning/moe/internal/wire"
	"github.com/gatedlearning/moe/sdk"
)

// maxRestarts is how often a plugin that has died is started afresh and asked
// again; calls are pure, so the values are those that it would have given.
const maxRestarts = 3

// Limits bound what a plugin may use up. None may be 0.
type Limits struct {
	Start time.Duration // from starting a plugin to its first reply
	Call  time.Duration // every call, of at most 65,536 values
	RSS   int64         // the resident memory of its session in bytes: its processes together

	Sandbox sandbox.Mode // "" is the default

	lacks sandbox.Lacks // for tests: what the kernel is to do without
}

// Session is a plugin that is open: its process, and another one if that dies.
type Session struct {
	limits Limits
	image  *Image
	shown  string // the file's path as the user wrote it

	family sdk.Family // what it said when it was opened

	mu       sync.Mutex
	proc     *process // nil once closed
	failed   error    // a fault for good: the plugin hangs, or dies again and again
	restarts atomic.Int32
}

// Open starts the plugin in img and asks it what it is. The session owns img,
// also after an error, which is a [*FaultError] or the context's. In errors the
// plugin is called shown.
func Open(ctx context.Context, img *Image, shown string, limits Limits) (*Session, error) {
	s := &Session{limits: limits, image: img, shown: shown}
	var err error
	if s.proc, err = start(ctx, img, shown, limits); err != nil {
		img.Close()
		return nil, err
	}
	if s.family, err = s.proc.client.Describe(ctx); err != nil {
		err = s.fault(s.proc, "Describe", err)
		s.Close()
		return nil, err
	}
	late := context.WithoutCancel(ctx) // every call has a deadline of its own
	s.family.New = func(p sdk.Params) (sdk.Activation, error) { return s.Activation(late, p) }
	return s, nil
}

// Family returns what the plugin said that it is. Its New asks the plugin,
// which judges the parameters.
func (s *Session) Family() sdk.Family { return s.family }

// Missing says what of the sandbox the plugin's process does without, and what it
// can do therefore; nil where the sandbox is whole, or off.
func (s *Session) Missing() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || s.limits.Sandbox == sandbox.Off {
		return nil
	}
	return s.proc.runner.missing()
}

// Close ends the plugin's process and everything in its session, within
// three seconds whatever state they are in. Calls that come later fail.
func (s *Session) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return
	}
	s.proc.stop()
	s.proc = nil
	s.image.Close()
}

// Activation returns the member of the plugin's family with the given
// parameters, which are all that the family has. It implements the optional
// interfaces of sdk that the plugin does; what the plugin says there is handed
// on as it is.
func (s *Session) Activation(ctx context.Context, params sdk.Params) (sdk.Activation, error) {
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
	return wire.Expose(info, caps, newMember(s, params)), nil
}

// call runs fn with the plugin's client. Where the plugin has died, it is
// started afresh and fn runs again.
func (s *Session) call(ctx context.Context, name string, fn func(*wire.Client) error) error {
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

// ErrClosed is the error of calls after Close.
var ErrClosed = errors.New("the plugin has been closed")

func (s *Session) current() (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return nil, ErrClosed
	}
	return s.proc, s.failed
}

// fail makes err that of every later call.
func (s *Session) fail(err error) error {
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
		proc.runner.ended(endGrace)
		return true
	}
	return proc.runner.ended(0)
}

// restart replaces dead, unless another call has done so. It returns false
// where the plugin has died too often.
func (s *Session) restart(ctx context.Context, dead *process) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.proc == nil:
		return false, ErrClosed
	case s.proc != dead:
		return true, nil
	case s.restarts.Load() == maxRestarts:
		return false, nil
	}
	s.restarts.Add(1)
	dead.stop()
	proc, err := start(ctx, s.image, s.shown, s.limits)
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
	case again.Name != s.family.Name || again.Version != s.family.Version || !slices.Equal(again.Params,
		s.family.Params):
		return false, s.faultf("Describe", "started afresh it says that it is something else")
	}
	return true, nil
}

// fault turns the error of a call into a *FaultError, parameters that the
// plugin refuses excepted.
func (s *Session) fault(proc *process, name string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	reason, advice := err.Error(), setting.Text{}
	if reply := (*wire.ReplyError)(nil); errors.As(err, &reply) {
		reason = reply.Err.Error()
	}
	var call *wire.CallError
	if excess := proc.runner.exceeded(); excess != nil {
		reason, advice = excess.reason, excess.advice
	} else if TooManyFiles(err) && (!errors.As(err, &call) || call.Code == codes.Unavailable) {
		advice = CloseFiles
	} else if errors.As(err, &call) {
		reason = "it says " + quote(call.Message)
		switch {
		case call.Code == codes.InvalidArgument && name == "Configure":
			return errors.New(printable(call.Message))
		case call.Code == codes.DeadlineExceeded:
			reason = fmt.Sprintf("no answer within %v", s.limits.Call)
			advice = setting.Textf("it hangs, or needs more time (%s)", setting.Key("plugin-timeout"))
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

func (s *Session) faultf(name, format string, args ...any) error {
	return &FaultError{Plugin: s.shown, Call: name, Reason: fmt.Sprintf(format, args...)}
}
