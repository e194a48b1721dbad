package progress

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/gatedlearning/moe/host/fitted/check"
	"github.com/gatedlearning/moe/internal/numeric"
)

// Climb is a way up the likelihood of all rows that passes over shards follow, as it stands
// between two of them: see package host/shard. Points are the free parameters of the model as
// host/loss.Likelihood orders them.
type Climb struct {
	At    []float64 `json:"at"`              // the best point so far, or where it begins
	Trial []float64 `json:"trial,omitempty"` // where the next pass sums; absent: it sums at the point itself

	// Of At, where passes have summed there.
	LogLikelihood float64   `json:"log_likelihood,omitempty"`
	Proportions   []float64 `json:"proportions,omitempty"` // K
	Squares       *Squares  `json:"squares,omitempty"`     // absent behind the first pass

	Promise float64 `json:"promise,omitempty"` // of Trial: by how much the log-likelihood is to rise
	Damping float64 `json:"damping,omitempty"` // of the step to Trial
	Refused int     `json:"refused,omitempty"` // steps from At that led down
	Fell    float64 `json:"fell,omitempty"`    // by how much it fell in the step that ended the climb at a kink

	// Curvature is the score at At and the upper triangle of the observed information, 8 bytes
	// a number, little-endian: what a shorter step needs where the one to Trial led down.
	Curvature []byte `json:"curvature,omitempty"`

	// Kinks are the rows next to kinks of the likelihood at At, as host/loss/kink packs them; absent where none are.
	Kinks []byte `json:"kinks,omitempty"`

	Ended string `json:"ended,omitempty"` // why there is no further step: converged, kink, stalled

	// Of the fit that the passes began at: its starts that ended here, and those of its survey.
	Agreeing int `json:"agreeing"`
	Met      int `json:"met"`
}

// Why a climb ended.
const (
	Converged = "converged" // the step is too small to matter
	AtKink    = "kink"      // at a kink of the likelihood
	Stalled   = "stalled"   // no step leads higher
)

// mostRefused are the steps from one point that may lead down: each halves the next at least, so that none is left.
const mostRefused = 64

// Point is where the next pass sums.
func (c *Climb) Point() []float64 {
	if c.Trial != nil {
		return c.Trial
	}
	return c.At
}

// Validate reports the first thing that does not fit k experts of d features, or is not finite, of the climb that has
// this name.
func (c *Climb) Validate(name string, k, d int) error {
	if err := cmp.Or(
		check.Vector(name+".at", c.At, len(c.At)),
		check.Vector(name+".trial", c.Trial, len(c.Trial)),
		check.Vector(name, []float64{c.LogLikelihood, c.Promise, c.Damping, c.Fell}, 4),
		check.Optional(name+".proportions", c.Proportions, k),
		c.Squares.validate(name+".squares", k, d),
	); err != nil {
		return err
	}
	q := len(c.At)
	switch {
	case q == 0, len(c.Trial) != 0 && len(c.Trial) != q:
		return fmt.Errorf("%s has points of %d and %d numbers", name, q, len(c.Trial))
	case len(c.Trial) != 0 && c.Proportions == nil:
		return fmt.Errorf("%s has a trial and nothing of the point before", name)
	case c.Ended != "" && c.Ended != Converged && c.Ended != AtKink && c.Ended != Stalled:
		return fmt.Errorf("%s.ended is %q", name, c.Ended)
	case len(c.Curvature) != 0 && len(c.Curvature) != 8*(q+q*(q+1)/2):
		return fmt.Errorf("%s.curvature has %d bytes, want %d", name, len(c.Curvature), 8*(q+q*(q+1)/2))
	case len(c.Kinks)%8 != 0:
		return fmt.Errorf("%s.kinks has %d bytes, want numbers of 8", name, len(c.Kinks))
	case !(c.Damping >= 0) || c.Agreeing < 0 || c.Met < 0 || c.Refused < 0:
		return fmt.Errorf("%s has a number below 0", name)
	case c.Refused > mostRefused:
		return fmt.Errorf("%s has %d refused steps, more than %d", name, c.Refused, mostRefused)
	}
	finite := func(what string, packed []byte) error {
		v := make([]float64, len(packed)/8)
		numeric.ReadFloats(v, packed)
		return check.Vector(name+what, v, len(v))
	}
	return cmp.Or(finite(".curvature", c.Curvature), finite(".kinks", c.Kinks))
}

// Prints tell whether the rows of a table are those that were read before: see package
// host/shard.
type Prints struct {
	Rows  int    `json:"rows"`            // of the table
	Whole uint64 `json:"whole"`           // fingerprint of its rows, columns and 64 of its blocks
	Level int    `json:"level,omitempty"` // a digest is of 2^Level blocks of 256 rows

	Blocks []byte `json:"blocks"` // the digests, 8 bytes each, little-endian
}

// Digest says which rows these are, in whatever parts they were read; "" for nil.
func (p *Prints) Digest() string {
	if p == nil {
		return ""
	}
	h := sha256.New()
	fmt.Fprintln(h, p.Rows, p.Whole, p.Level)
	h.Write(p.Blocks)
	return OfParts + hex.EncodeToString(h.Sum(nil))
}

// OfParts is what the digest of rows that were read in parts begins with.
const OfParts = "parts:"

// Validate reports digests that cannot be of such rows.
func (p *Prints) Validate() error {
	if p == nil {
		return nil
	}
	if p.Rows < 1 || p.Level < 0 || p.Level > 62 || len(p.Blocks)%8 != 0 {
		return fmt.Errorf("fit.prints are of %d rows, level %d, %d bytes", p.Rows, p.Level, len(p.Blocks))
	}
	return nil
}
