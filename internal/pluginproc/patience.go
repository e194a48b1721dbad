package pluginproc

import (
	"context"
	"errors"
	"time"
)

// errImpatient is the cause of a context that [patient] ended.
var errImpatient = errors.New("no answer in time")

// patient returns a context that ends after d of time in which this program ran. A
// program that was stopped, as by Ctrl-Z, finds a plugin's answer waiting when it
// goes on, and must not give it up for the time in between: of a step of an
// eighth of d, a quarter of a second at most, it counts no more than twice the step.
func patient(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	step := min(max(d/8, time.Millisecond), 250*time.Millisecond)
	go func() {
		timer := time.NewTimer(step)
		defer timer.Stop()
		for last := time.Now(); d > 0; timer.Reset(min(step, max(d, 0))) {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			now := time.Now()
			d -= min(now.Sub(last), 2*step)
			last = now
		}
		cancel(errImpatient)
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// within waits for ch to be closed, for at most d of time in which this program
// ran: one that was kept from running finds what it waits for done. It reports
// whether it was.
func within(ch <-chan struct{}, d time.Duration) bool {
	select {
	case <-ch:
		return true
	default:
		if d <= 0 {
			return false
		}
	}
	patience, done := patient(context.Background(), d)
	defer done()
	select {
	case <-ch:
	case <-patience.Done():
	}
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// impatient reports whether ctx ended because its time was over.
func impatient(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errImpatient) }
