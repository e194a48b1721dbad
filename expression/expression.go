// Package expression makes an activation of a line of text:
//
//	act, err := expression.Parse("z*tanh(log1p(exp(z)))", nil)
//	act, err := expression.Parse("beta*z/(1+exp(-beta*z))", sdk.Params{"beta": 2})
//
// The language has numbers, z, parameters, + − * / ^ (to the right, above the sign:
// −z^2 is −(z^2)), the functions of [Functions], where(condition, a, b), and for
// conditions < <= > >= == and or not. g′ and g″ are derived from the text, g is evaluated
// by the block, and the points where g is not smooth are found: in the rational numbers
// where the arguments of abs, min, max, sign and conditions are piecewise linear, else by
// bracketing ([Expression.Notes] says so).
//
// What a text says and what can be computed of it are two things: log(1+exp(u)) overflows
// where the softplus does not, and 1−tanh(u)² cancels. Such forms are recognised
// (simplify.go), in the text and in its derivatives.
package expression

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/gatedlearning/moe/sdk"
)

// Prefix begins the names of activations that are expressions.
const Prefix = "expr:"

// Version is that of the language and of how its functions are evaluated.
const Version = "1"

// The bounds of a text.
const (
	MaxLength = 2000 // bytes
	MaxDepth  = 100  // expressions within one another
	MaxTerms  = 500  // numbers, names, operations and functions
	maxNodes  = 50_000
)

// Error is a text that is no expression.
type Error struct {
	Text string // as it was given
	At   int    // the first byte of Text that cannot be so
	Msg  string
}

func (e *Error) Error() string {
	character := len([]rune(e.Text[:e.At])) + 1
	rest := []rune(e.Text[e.At:])
	if len(rest) == 0 {
		return fmt.Sprintf("expression: at character %d, the end: %s", character, e.Msg)
	}
	const shown = 20
	near := string(rest)
	if len(rest) > shown {
		near = string(rest[:shown]) + "…"
	}
	return fmt.Sprintf("expression: at character %d, %q: %s", character, near, e.Msg)
}

// Expression is an activation given by a text. It is safe for concurrent use.
type Expression struct {
	text   string // canonical
	params sdk.Params
	graph  *graph // which nobody changes any more
	root   ref    // g
	slope  ref    // g′
	kinks  kinks
	value  *program // g
	first  *program // g′
	second *program // g″

	points func() []float64 // where g is looked at

	right []float64 // kinks at which the text's derivative is that of neither side
}

// Is says whether the name of an activation is the text of an expression.
func Is(name string) bool { return strings.HasPrefix(name, Prefix) }

// Parse returns the activation that text says, which may begin with [Prefix]; params are
// the values of the names in it that are neither z nor functions. The activation is an
// [*Expression], and its name is the canonical text, which Parse reads as the same
// activation. A text that is none is an [*Error] with the place; parameters that are not
// finite or not in the text are errors too.
func Parse(text string, params sdk.Params) (sdk.Activation, error) {
	t, err := parse(text, params)
	if err != nil {
		return nil, err
	}
	for _, name := range params.Names() {
		if v := params[name]; math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("expression: parameter %s = %v is not finite", name, v)
		}
		if !t.has(name) {
			return nil, fmt.Errorf("expression: there is no parameter %s in %s", name, t)
		}
	}
	return newExpression(t, params)
}

func newExpression(t *term, params sdk.Params) (*Expression, error) {
	e := &Expression{text: t.String(), graph: newGraph()}
	if len(params) > 0 {
		e.params = maps.Clone(params)
	}
	g := e.graph.of(t, params)
	first := e.graph.derivative(g)
	second := e.graph.derivative(first)
	e.root, e.slope = g, first
	if len(e.graph.nodes) > maxNodes {
		return nil, fmt.Errorf("expression: its derivatives have %d terms, and %d are allowed: write it shorter",
			len(e.graph.nodes), maxNodes)
	}
	e.graph.z()
	e.value, e.first, e.second = compile(e.graph, g), compile(e.graph, first), compile(e.graph, second)
	e.kinks = findKinks(e.graph.clone(), g)
	e.right = e.neither()
	e.points = sync.OnceValue(e.findPoints)
	return e, nil
}

// neither lists the kinks at which g′ as derived is that of neither side, as where two terms
// of a sum have their kinks in one place and take different sides there.
func (e *Expression) neither() (at []float64) {
	const step, tolerance = 0x1p-40, 1e-8
	for _, k := range e.kinks.at {
		by := step * max(1, math.Abs(k))
		d := [3]float64{k - by, k, k + by}
		e.first.run(d[:], d[:])
		allowed := tolerance * max(math.Abs(d[0]), math.Abs(d[2]))
		if math.IsInf(d[1], 0) { // as of a cube root
			continue
		}
		if !(math.Abs(d[1]-d[0]) <= allowed || math.Abs(d[1]-d[2]) <= allowed) {
			at = append(at, k)
		}
	}
	return at
}

// Info returns the canonical text, the parameters and the kinks.
func (e *Expression) Info() sdk.Info {
	return sdk.Info{Name: Prefix + " " + e.text, Version: Version, Params: maps.Clone(e.params),
		Kinks: slices.Clone(e.kinks.at)}
}

// Eval writes g(z_i) to dst_i.
func (e *Expression) Eval(_ context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths(e.text, dst, z); err != nil {
		return err
	}
	e.value.run(dst, z)
	return nil
}

// Deriv writes g′(z_i) to dst_i, at a kink that of one side.
func (e *Expression) Deriv(_ context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths(e.text, dst, z); err != nil {
		return err
	}
	if len(e.right) == 0 {
		e.first.run(dst, z)
		return nil
	}
	var at []int
	for i, v := range z {
		if slices.Contains(e.right, v) {
			at = append(at, i)
		}
	}
	beside := make([]float64, len(at))
	for j, i := range at {
		beside[j] = math.Nextafter(z[i], math.Inf(1))
	}
	e.first.run(dst, z)
	e.first.run(beside, beside)
	for j, i := range at {
		dst[i] = beside[j]
	}
	return nil
}

// Second writes g″(z_i) to dst_i, at a kink that of one side, or neither's.
func (e *Expression) Second(_ context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths(e.text, dst, z); err != nil {
		return err
	}
	e.second.run(dst, z)
	return nil
}
