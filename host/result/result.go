// Package result writes down what a method has found as a model: its parameters in the units of the data, how sure they
// are, what is doubtful of them, and what they say of rows that were not fitted.
package result

import (
	"fmt"
	"slices"

	"github.com/gatedlearning/moe/host/descent"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/terms"
)

// Outcome is what a method came to.
type Outcome struct {
	Best        *search.Candidate
	All         []*search.Candidate // best first, the best among them
	Estimate    *moment.Estimate    // nil where the tensors cannot give one
	Descended   *descent.Record     // of methods l2 and l4
	Survey      *search.Survey      // nil where none was made
	Radius      float64             // of the gate, where the method descends it within one
	Certificate *infer.Certificate  // nil where there is none
	Doubts      []search.Doubt      // that there are as many experts; nil where nobody asked
	Near        []*search.Candidate // other optima near the best
	Joint       bool                // Best is a maximum of the joint likelihood
	Begun       *search.Begun       // nil where the best came of no neighbour
	Notes       []string            // for the user
}

// Note adds texts for the user, those that are none left out.
func (o *Outcome) Note(texts ...string) {
	for _, text := range texts {
		if text != "" {
			o.Notes = append(o.Notes, text)
		}
	}
}

// Alone is the outcome of a method with a single candidate.
func (o *Outcome) Alone(c *search.Candidate) *Outcome {
	o.Best, o.All = c, []*search.Candidate{c}
	return o
}

// upright returns the outcome with scales above 0 in the best, where a scale below 0 is
// another name of the same mixture.
func (o *Outcome) upright(output *problem.Output) *Outcome {
	if output == nil || !output.Mirrored {
		return o
	}
	best, out := *o.Best, *o
	best.Params = best.Params.Upright(output.Sum)
	out.Best = &best
	return &out
}

// Settings say how a model was asked for.
type Settings struct {
	Method string // its name
	Starts int    // the most that it tries; 0 of one that has no such setting
	Seed   uint64
	Design *terms.Design // of the features, as raw columns make them; nil where the columns are the features
	Tied   []string      // features whose coefficients are the same in all experts
	Truth  *model.Params // that the model is compared with; nil for none

	Errors       []infer.Kind // of the standard errors; nil is [infer.Observed]
	Arrangements bool         // other optima near the best are weighed
	Penalties    Penalties

	Beside   bool // the rows are some of a table: optima that may be the best on all are kept
	Unjudged bool // the fit is to predict other rows alone: it has no certificate
}

// kind is that of the standard errors that a model of p has.
func (s Settings) kind(p *problem.Problem) infer.Kind {
	switch {
	case p.Clusters > 0:
		return infer.Clustered
	case slices.Contains(s.Errors, infer.Robust):
		return infer.Robust
	}
	return infer.Observed
}

// adviseStarts says in c, a certificate as files state it, how many starts are to be tried where more of
// them may change the verdict on the optimum: 100, 1000 and so on, at least ten times as many as were allowed.
func adviseStarts(c *fitted.Certificate, judged *infer.Certificate, starts int) {
	if c == nil || judged == nil || !judged.More || starts == 0 {
		return
	}
	n := 100
	for n < 10*starts {
		n *= 10
	}
	c.OptimumTry = fmt.Sprintf("--starts %d", n)
}
