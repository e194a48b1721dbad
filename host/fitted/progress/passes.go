// Package progress is what passes over the parts of a table have told so far, as it stands in a model's file between
// two of them.
package progress

import (
	"cmp"
	"fmt"

	"github.com/gatedlearning/moe/host/fitted/check"
)

// Passes is what passes over the shards of a table have told that its certificate needs,
// until that is made: see package host/shard.
type Passes struct {
	// Mean and SD are the units in which the certificate sees the features, D each: what
	// is taken off and what they are divided by. Absent: those of the columns.
	Mean   []float64 `json:"mean,omitempty"`
	SD     []float64 `json:"sd,omitempty"`
	Target float64   `json:"target"` // root mean square of the target
	Weight float64   `json:"weight"` // always 1: rows count by their weights as they are
	// Groups is what the groups weigh; absent where each row has its own expert.
	Groups float64 `json:"groups,omitempty"`

	// Squares are sums over some of the rows at the parameters before the last step;
	// absent behind the first pass.
	Squares *Squares `json:"squares,omitempty"`

	// Of the fit that the passes began at.
	Rows     int  `json:"rows"`
	Starts   int  `json:"starts"`
	Kinds    int  `json:"kinds"`    // of them
	Agreeing int  `json:"agreeing"` // of them at the best optimum
	Survey   bool `json:"survey"`   // there was a survey
	Met      int  `json:"met"`      // of its starts, at the best optimum
	// Fewer is of the two experts that BIC prefers as one there; absent where it prefers none, or all passes the same.
	Fewer *Fewer `json:"fewer,omitempty"`
}

// Fewer is of two experts that BIC prefers as one.
type Fewer struct {
	Experts [2]int  `json:"experts"` // from 1, of the fit
	BIC     float64 `json:"bic"`     // of the one less that of the fit, below 0
}

// Squares are sums of squares over rows: see specification.Squares.
type Squares struct {
	Rows     float64   `json:"rows"`     // the sum of their weights
	Z        []float64 `json:"z"`        // K, of the experts' predictors
	Logits   []float64 `json:"logits"`   // K, of the gate's
	Features []float64 `json:"features"` // D
}

// Validate reports the first thing that does not fit k experts of d features, or is not finite.
func (p *Passes) Validate(k, d int) error {
	if p == nil {
		return nil
	}
	if err := cmp.Or(
		check.Optional("fit.passes.mean", p.Mean, d),
		check.Optional("fit.passes.sd", p.SD, d),
		check.Vector("fit.passes.target", []float64{p.Target}, 1),
		check.Vector("fit.passes.weight", []float64{p.Weight}, 1),
		check.Vector("fit.passes.groups", []float64{p.Groups}, 1),
	); err != nil {
		return err
	}
	for _, v := range append([]float64{p.Weight}, p.SD...) {
		if !(v > 0) {
			return fmt.Errorf("fit.passes has a unit of %v, want one above 0", v)
		}
	}
	if (p.Mean == nil) != (p.SD == nil) {
		return fmt.Errorf("fit.passes has one of mean and sd")
	}
	return p.Squares.validate("fit.passes.squares", k, d)
}

func (s *Squares) validate(name string, k, d int) error {
	if s == nil {
		return nil
	}
	if !(s.Rows > 0) {
		return fmt.Errorf("%s.rows = %v, want more than 0", name, s.Rows)
	}
	return cmp.Or(
		check.Vector(name+".z", s.Z, k),
		check.Vector(name+".logits", s.Logits, k),
		check.Vector(name+".features", s.Features, d),
	)
}
