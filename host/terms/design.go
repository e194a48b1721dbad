// Package terms turns the raw columns of a table, numbers and words, into the
// columns of a design matrix, which experts and gate see as features: levels of
// factors as 0 and 1 against a reference, and the terms of a formula. A [Design] is
// a value that the model file keeps, so that predictions need the raw columns only.
package terms

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/internal/numeric"
)

// Design says how features are made of raw columns.
type Design struct {
	Formula string   `json:"formula,omitempty"` // as it was given; "" for none
	Columns []string `json:"columns"`           // that are read from a table
	Factors []Factor `json:"factors"`
	Terms   []Term   `json:"terms"` // one for every feature
}

// Factor is a column of which each level is a category.
type Factor struct {
	Name      string    `json:"name"`   // the column's, or factor(column)
	Column    string    `json:"column"` // that it is read from
	Levels    []string  `json:"levels"`
	Reference string    `json:"reference"`         // the level that 0/1 columns leave out
	Numbers   []float64 `json:"numbers,omitempty"` // of the levels of a column of numbers
}

// Term is a feature: the product of its values.
type Term struct {
	Name    string  `json:"name"`
	Product []Value `json:"product"`
}

// Value is one of a level, an expression, a polynomial, or a column as it is.
type Value struct {
	Factor     string      `json:"factor,omitempty"` // with Level: 1 where the factor has it, else 0
	Level      *string     `json:"level,omitempty"`
	Expression string      `json:"expression,omitempty"`
	Polynomial *Polynomial `json:"polynomial,omitempty"`
	Column     string      `json:"column,omitempty"`
}

// Polynomial is that of degree D among those that are orthonormal over the rows of a
// fit, with a positive leading coefficient, of the values x of an expression:
//
//	p_0 = 1,  p_1 = x − α_1,  p_{j+1} = (x − α_{j+1})·p_j − (ν_j/ν_{j−1})·p_{j−1},
//	value = p_D/√ν_D,  ν_j = Σ p_j²
//
// (Kennedy & Gentle 1980, pp. 343–348; R's poly).
type Polynomial struct {
	Expression string    `json:"expression"`
	Alpha      []float64 `json:"alpha"` // α_1 … α_D
	Norms      []float64 `json:"norms"` // ν_0 … ν_D
}

// Features returns the names of the features.
func (d *Design) Features() []string {
	names := make([]string, len(d.Terms))
	for i, t := range d.Terms {
		names[i] = t.Name
	}
	return names
}

// Of returns the design of these features of d alone, nil of nil.
func (d *Design) Of(features []string) *Design {
	if d == nil {
		return nil
	}
	out := *d
	out.Terms = slices.DeleteFunc(slices.Clone(d.Terms), func(t Term) bool {
		return !slices.Contains(features, t.Name)
	})
	return &out
}

// Sets are the features that stand or fall together, by their places: those that differ in the levels of factors alone,
// under the name that they have without levels, and each other one by itself.
func (d *Design) Sets() (names []string, sets [][]int) {
	of := make(map[string]int) // the set of a name without levels
	for i, t := range d.Terms {
		name, levels := t.Name, false
		for _, v := range t.Product {
			if v.Level != nil {
				name, levels = strings.Replace(name, v.Factor+*v.Level, v.Factor, 1), true
			}
		}
		if at, known := of[name]; known && levels {
			sets[at] = append(sets[at], i)
			continue
		}
		if levels {
			of[name] = len(sets)
		}
		names, sets = append(names, name), append(sets, []int{i})
	}
	return names, sets
}

// factor returns the factor of a name, nil if there is none.
func (d *Design) factor(name string) *Factor {
	for i := range d.Factors {
		if d.Factors[i].Name == name {
			return &d.Factors[i]
		}
	}
	return nil
}

// Validate reports the first thing that is wrong with a design from a file.
func (d *Design) Validate() error {
	if len(d.Columns) == 0 || len(d.Terms) == 0 {
		return fmt.Errorf("columns or terms are missing")
	}
	if err := distinct("columns", d.Columns); err != nil {
		return err
	}
	for i := range d.Factors {
		if err := d.Factors[i].validate(d.Columns); err != nil {
			return fmt.Errorf("factors[%d]: %w", i, err)
		}
		if d.factor(d.Factors[i].Name) != &d.Factors[i] {
			return fmt.Errorf("factors[%d]: name %q stands twice", i, d.Factors[i].Name)
		}
	}
	if err := distinct("terms", d.Features()); err != nil {
		return err
	}
	_, err := d.compile()
	return err
}

func distinct(what string, names []string) error {
	seen := make(map[string]bool, len(names))
	for i, name := range names {
		if name == "" || seen[name] {
			return fmt.Errorf("%s[%d]: the name %q is empty or stands twice", what, i, name)
		}
		seen[name] = true
	}
	return nil
}

func (f *Factor) validate(columns []string) error {
	switch {
	case !slices.Contains(columns, f.Column):
		return fmt.Errorf("column %q is not among the columns", f.Column)
	case !slices.Contains(f.Levels, f.Reference):
		return fmt.Errorf("the reference %q is not among the levels", f.Reference)
	case f.Numbers != nil && len(f.Numbers) != len(f.Levels):
		return fmt.Errorf("%d numbers for %d levels", len(f.Numbers), len(f.Levels))
	case !numeric.Finite(f.Numbers...):
		return fmt.Errorf("a number is not finite")
	}
	return distinct("levels", f.Levels)
}

// compiled is a term ready to be computed.
type compiled struct {
	name   string
	values []func(dst []float64, r *raw)
}

// compile makes the terms ready.
func (d *Design) compile() ([]compiled, error) {
	out := make([]compiled, len(d.Terms))
	for i, t := range d.Terms {
		out[i].name = t.Name
		if len(t.Product) == 0 {
			return nil, fmt.Errorf("terms[%d] is empty", i)
		}
		for _, v := range t.Product {
			fn, err := d.value(v)
			if err != nil {
				return nil, fmt.Errorf("terms[%d]: %w", i, err)
			}
			out[i].values = append(out[i].values, fn)
		}
	}
	return out, nil
}

// value returns the function that computes v.
func (d *Design) value(v Value) (func(dst []float64, r *raw), error) {
	switch {
	case v.Level != nil:
		return d.level(v)
	case v.Polynomial != nil:
		return d.polynomial(v.Polynomial)
	case v.Expression != "":
		n, err := d.arithmetic(v.Expression)
		return func(dst []float64, r *raw) { evaluate(dst, n, r.column) }, err
	case !slices.Contains(d.Columns, v.Column):
		return nil, fmt.Errorf("column %q is not among the columns", v.Column)
	}
	return func(dst []float64, r *raw) { copy(dst, r.column(v.Column)) }, nil
}

// arithmetic reads an expression of the design's columns.
func (d *Design) arithmetic(text string) (*node, error) {
	n, err := parseArithmetic(text)
	if err != nil {
		return nil, err
	}
	for _, name := range columnsOf(nil, n) {
		if !slices.Contains(d.Columns, name) {
			return nil, fmt.Errorf("column %q of %q is not among the columns", name, text)
		}
	}
	return n, nil
}

func (d *Design) level(v Value) (func(dst []float64, r *raw), error) {
	f := d.factor(v.Factor)
	if f == nil {
		return nil, fmt.Errorf("no factor %q", v.Factor)
	}
	place := slices.Index(f.Levels, *v.Level)
	if place < 0 {
		return nil, fmt.Errorf("factor %q has no level %q", v.Factor, *v.Level)
	}
	return func(dst []float64, r *raw) {
		for i, code := range r.codes(f) {
			dst[i] = 0
			if code == float64(place) {
				dst[i] = 1
			} else if math.IsNaN(code) {
				dst[i] = code
			}
		}
	}, nil
}

func (d *Design) polynomial(p *Polynomial) (func(dst []float64, r *raw), error) {
	if n := len(p.Alpha); n < 1 || n > maxDegree || len(p.Norms) != n+1 || !numeric.Finite(p.Alpha...) ||
		!numeric.Finite(p.Norms...) || slices.Min(p.Norms) <= 0 {
		return nil, fmt.Errorf("the polynomial of %q: want α of degree 1 to %d, and one more norm, all finite and "+
			"the norms above 0", p.Expression, maxDegree)
	}
	n, err := d.arithmetic(p.Expression)
	return func(dst []float64, r *raw) {
		evaluate(dst, n, r.column)
		for i, x := range dst {
			dst[i] = p.at(x)
		}
	}, err
}

// at is the value of the polynomial.
func (p *Polynomial) at(x float64) float64 {
	before, v := 0.0, 1.0
	for j, alpha := range p.Alpha {
		next := (x - alpha) * v
		if j > 0 {
			next -= p.Norms[j] / p.Norms[j-1] * before
		}
		before, v = v, next
	}
	return v / math.Sqrt(p.Norms[len(p.Alpha)])
}

// orthonormal returns the polynomials of degree 1 to degree over values, false where
// these have too few that are different.
func orthonormal(expression string, values []float64, degree int) ([]Polynomial, bool) {
	if degree >= len(values) {
		return nil, false
	}
	before, p := make([]float64, len(values)), make([]float64, len(values))
	for i := range p {
		p[i] = 1
	}
	norms, alpha := []float64{float64(len(values))}, []float64(nil)
	out := make([]Polynomial, degree)
	for j := range degree {
		a, ratio, size := 0.0, 0.0, 0.0
		for i, x := range values {
			a += x * p[i] * p[i]
			size = max(size, math.Abs(x))
		}
		a /= norms[j]
		if j > 0 {
			ratio = norms[j] / norms[j-1]
		}
		norm := 0.0
		for i, x := range values {
			next := (x-a)*p[i] - ratio*before[i]
			before[i], p[i] = p[i], next
			norm += next * next
		}
		// Of fewer than j + 2 values the polynomial is 0 but for rounding.
		if !(norm > 1e-20*size*size*norms[j]) || !numeric.Finite(norm) {
			return nil, false
		}
		alpha, norms = append(alpha, a), append(norms, norm)
		out[j] = Polynomial{Expression: expression, Alpha: slices.Clone(alpha), Norms: slices.Clone(norms)}
	}
	return out, true
}
