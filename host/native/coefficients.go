package native

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/numeric"
)

// Version is the version of [Coefficients] that this package writes and reads.
const Version = 1

// Coefficients are g and g′ as piecewise polynomials, in the form that a file
// keeps.
type Coefficients struct {
	Version    int   `json:"version"`
	Value      Table `json:"value"`      // g
	Derivative Table `json:"derivative"` // g′
}

// Table is a piecewise polynomial with n panels. Panel i reaches from Edges[i] to
// Edges[i+1], the latter excluded, and has the next Terms[i] coefficients c_j of
//
//	Σ_j c_j·t^j,  t = z                                    where Terms[i] ≤ 2
//	              t = 2·(z − (l+r)/2)/(r−l) for edges l, r  elsewhere.
//
// Error is the largest difference from the activation found at the points of a
// check that no coefficient was made from, relative to max(|f(z)|, rms) with rms
// the root of E[f(Z)²], Z ~ N(0,1).
type Table struct {
	Error        float64   `json:"error"`
	Edges        []float64 `json:"edges"`        // n+1, ascending
	Terms        []int     `json:"terms"`        // n, each from 1 to 8
	Coefficients []float64 `json:"coefficients"` // the sum of Terms
}

// Range returns the arguments that the table covers, lo ≤ z < hi.
func (t *Table) Range() (lo, hi float64) { return t.Edges[0], t.Edges[len(t.Edges)-1] }

// Exact says whether the table consists of lines and no check found a
// difference from the activation.
func (t *Table) Exact() bool { return t.Error == 0 && slices.Max(t.Terms) <= 2 }

// Describes reports whether act can be the activation that c was made from: in
// the middle of every panel g is the same to 1e−9 of max(|g(z)|, rms of g(Z)),
// which leaves room for another machine's rounding. An error of act is returned.
func (c *Coefficients) Describes(ctx context.Context, act model.Activation) (bool, error) {
	z := scalePoints()
	for i, hi := range c.Value.Edges[1:] {
		z = append(z, (c.Value.Edges[i]+hi)/2)
	}
	f := make([]float64, len(z))
	if err := act.Eval(ctx, f, z); err != nil {
		return false, err
	}
	scale := rms(z[:numScalePoints], f)
	t := c.Value.piecewise()
	lo, hi := c.Value.Range()
	for i, v := range z {
		if v < lo || v >= hi {
			continue
		}
		if e := excess(t.At(v), f[i], scale); e > 1e-9 {
			return false, nil
		}
	}
	return true, nil
}

// Equal says whether c and o have the same values at every z.
func (c *Coefficients) Equal(o *Coefficients) bool {
	return c.Value.equal(&o.Value) && c.Derivative.equal(&o.Derivative)
}

func (t *Table) equal(o *Table) bool {
	return slices.Equal(t.Edges, o.Edges) && slices.Equal(t.Terms, o.Terms) && slices.Equal(t.Coefficients,
		o.Coefficients)
}

// Validate reports the first thing that is wrong with c: a version that is not
// [Version], sizes that do not fit, numbers that are not finite, edges that do
// not ascend or lie further out than any that [Build] makes.
func (c *Coefficients) Validate() error {
	if c.Version != Version {
		return fmt.Errorf("version is %d, want %d", c.Version, Version)
	}
	if err := c.Value.validate(); err != nil {
		return fmt.Errorf("value: %w", err)
	}
	if err := c.Derivative.validate(); err != nil {
		return fmt.Errorf("derivative: %w", err)
	}
	return nil
}

func (t *Table) validate() error {
	n := len(t.Terms)
	if n < 1 || n > maxTotal {
		return fmt.Errorf("%d panels, want 1 to %d", n, maxTotal)
	}
	if len(t.Edges) != n+1 {
		return fmt.Errorf("%d edges for %d panels, want %d", len(t.Edges), n, n+1)
	}
	if !(t.Error >= 0 && t.Error <= promise) {
		return fmt.Errorf("error = %v, want at most %v", t.Error, promise)
	}
	for i, e := range t.Edges {
		if !(math.Abs(e) <= furthest) {
			return fmt.Errorf("edges[%d] = %v, want at most %v in size", i, e, float64(furthest))
		}
		if i > 0 && (!(e > t.Edges[i-1]) || math.IsInf(2/(e-t.Edges[i-1]), 0)) {
			return fmt.Errorf("edges[%d] = %v does not ascend from %v", i, e, t.Edges[i-1])
		}
	}
	total := 0
	for i, m := range t.Terms {
		if m < 1 || m > terms {
			return fmt.Errorf("terms[%d] = %d, want 1 to %d", i, m, terms)
		}
		total += m
	}
	if len(t.Coefficients) != total {
		return fmt.Errorf("%d coefficients, want the %d of all terms", len(t.Coefficients), total)
	}
	for i, c := range t.Coefficients {
		if !numeric.Finite(c) {
			return fmt.Errorf("coefficients[%d] = %v is not finite", i, c)
		}
	}
	return nil
}
