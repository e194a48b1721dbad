package host

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/gatedlearning/moe/host/descent"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
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
	fit(ctx context.Context, p *problem.Problem, e *moment.Evidence, c run) (*outcome, error)
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

// outcome is what a method came to.
type outcome struct {
	best        *search.Candidate
	all         []*search.Candidate // best first, the best among them
	estimate    *moment.Estimate    // nil where the tensors cannot give one
	descended   *descent.Record     // of methods l2 and l4
	survey      *search.Survey      // nil where none was made
	radius      float64             // of the gate, where the method descends it within one
	certificate *infer.Certificate  // nil where there is none
	near        []*search.Candidate // other optima near the best
	joint       bool                // best is a maximum of the joint likelihood
	begun       *search.Begun       // nil where the best came of no neighbour
	notes       []string            // for the user
}

func (o *outcome) note(texts ...string) {
	for _, text := range texts {
		if text != "" {
			o.notes = append(o.notes, text)
		}
	}
}

// upright returns the outcome with scales above 0 in the best, where a scale below 0 is
// another name of the same mixture.
func (o *outcome) upright(output *problem.Output) *outcome {
	if output == nil || !output.Mirrored {
		return o
	}
	best, out := *o.best, *o
	best.Params = best.Params.Upright(output.Sum)
	out.best = &best
	return &out
}

// alone is the outcome of a method with a single candidate.
func (o *outcome) alone(c *search.Candidate) *outcome {
	o.best, o.all = c, []*search.Candidate{c}
	return o
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// mostStarts bounds the starts that are held side by side.
const mostStarts = 100_000

func checkStarts(n int) error {
	if n < 0 || n > mostStarts {
		return refuse("starts = %d, want 1 to %d", n, mostStarts)
	}
	return nil
}

func checkPositive(name string, v float64) error {
	if !(v >= 0) || math.IsInf(v, 0) {
		return refuse("%s = %v, want a finite number above 0", name, v)
	}
	return nil
}

// adviseStarts says in c, a certificate as files state it, how many starts are to be tried where more of
// them may change the verdict on the optimum: 100, 1000 and so on, at least ten times as many as were allowed.
func adviseStarts(c *fitted.Certificate, judged *infer.Certificate, m Method) {
	starting, ok := m.(interface{ starts() int })
	if c == nil || judged == nil || !judged.More || !ok {
		return
	}
	n := 100
	for n < 10*starting.starts() {
		n *= 10
	}
	c.OptimumTry = fmt.Sprintf("--starts %d", n)
}

// startsOr is the number of starts that were asked for, or the default.
func startsOr(n, byDefault int) int { return cmp.Or(n, byDefault) }

// noCertificate says why a method without a joint likelihood has none.
func noCertificate(m Method) string {
	return "no certificate: it judges a maximum of the joint likelihood, which method " + m.Name() +
		" does not look for"
}
