package host

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/result"
	"github.com/gatedlearning/moe/host/search"
)

// Method is a way of fitting: [Auto], [Moments], [Spectral], [EM], [L2] or [L4]. Each carries
// its own settings; the zero value asks for their defaults.
type Method interface {
	// Name is what files and flags call it.
	Name() string
	// Takes lists the settings that it has a use for, of those that not every method has.
	Takes() []Option
	// check refuses settings of the method that no data could be fitted with.
	check() error
	// order is that of the tensor beside T2 that the method rests on; 0 for none.
	order() int
	// fit fits the problem; what it takes of c is the start, the way to show
	// progress, and checkpoints.
	fit(ctx context.Context, p *problem.Problem, e *moment.Evidence, c run) (*result.Outcome, error)
}

// Methods lists the methods.
func Methods() []Method { return []Method{Auto{}, Moments{}, Spectral{}, EM{}, L2{}, L4{}} }

// run is what a method is handed beside the problem and the evidence.
type run struct {
	Config
	resume     search.State                         // zero for a new search
	from       []search.Neighbour                   // fits of one expert less or more
	checkpoint func(*problem.Problem, search.State) // nil for nobody
}

// mostStarts bounds the starts that are held side by side.
const mostStarts = 100_000

func checkStarts(n int) error {
	if n < 0 || n > mostStarts {
		return problem.Refuse("starts = %d, want 1 to %d", n, mostStarts)
	}
	return nil
}

func checkPositive(name string, v float64) error {
	if !(v >= 0) || math.IsInf(v, 0) {
		return problem.Refuse("%s = %v, want a finite number above 0", name, v)
	}
	return nil
}

// mostOf is how many starts a method tries at most; 0 of one that has no such setting, or no certificate.
func mostOf(m Method) int {
	if starting, ok := m.(interface{ starts() int }); ok {
		return starting.starts()
	}
	return 0
}

// noCertificate says why a method without a joint likelihood has none.
func noCertificate(m Method) string {
	return "no certificate: it judges a maximum of the joint likelihood, which method " + m.Name() +
		" does not look for"
}
