package learn

import "math"

// named is a function with a name in the place of the curve,
//
//	offset + scale·h(u) + other·rest(u),   u = beta·z + shift.
//
// Beta is fitted where the shape is scaled and else 1 or −1, shift where the curve moves and else 0, and other where
// the shape has a rest.
type named struct {
	shape                shape
	offset, scale, other float64
	beta, shift          float64
	moves                bool
}

// form is a function and its slope.
type form func(z float64) (h, slope float64)

// shape is a function that a g may be, up to offset and scale.
type shape struct {
	name   string
	text   string // scale·h(u) + other·rest(u), of which %[1]s is scale, %[2]s other and %[3]s u
	h      form
	rest   form // nil for none
	scaled bool // h(βz) is another function than a multiple of h(z), or of h(−z)
	// mirror is m of h(−u) = m_1 + m_2·h(u); 0 for shapes of which there is none.
	mirror [2]float64
	// fixed takes a shift into offset and scale, for shapes that know none of their own; nil for others.
	fixed func(n *Named)
}

func (n *named) size() int {
	size := 2
	for _, is := range []bool{n.shape.rest != nil, n.shape.scaled, n.moves} {
		if is {
			size++
		}
	}
	return size
}

func (n *named) at(z float64, row []float64) (g, slope float64) {
	u := n.beta*z + n.shift
	h, d := n.shape.h(u)
	row[0], row[1] = 1, h
	at := 2
	g, slope = n.offset+n.scale*h, n.scale*d
	if n.shape.rest != nil {
		h, d := n.shape.rest(u)
		row[at] = h
		at++
		g, slope = g+n.other*h, slope+n.other*d
	}
	if n.shape.scaled {
		row[at] = slope * z
		at++
	}
	if n.moves {
		row[at] = slope
	}
	return g, slope * n.beta
}

// linear are the parameters in which g is linear, which stand first.
func (n *named) linear() []*float64 {
	out := []*float64{&n.offset, &n.scale}
	if n.shape.rest != nil {
		out = append(out, &n.other)
	}
	return out
}

func (n *named) moved(delta []float64) curve {
	out := *n
	all := out.linear()
	if n.shape.scaled {
		all = append(all, &out.beta)
	}
	if n.moves {
		all = append(all, &out.shift)
	}
	for j, v := range all {
		*v += delta[j]
	}
	return &out
}

func (*named) held([]float64) []bool { return nil }

func logistic(z float64) float64 { return 1 / (1 + math.Exp(-max(z, -700))) }

func ramp(z float64) (float64, float64) {
	if z > 0 {
		return z, 1
	}
	return 0, 0
}

// shapes are the functions that a curve is compared with. The tanh is the sigmoid with other offset, scale and beta.
var shapes = []shape{
	{name: "identity", text: "%[1]s*(%[3]s)", h: func(z float64) (float64, float64) { return z, 1 },
		mirror: [2]float64{0, -1}, fixed: func(n *Named) { n.Offset, n.Shift = n.Offset+n.Scale*n.Shift, 0 }},
	{name: "relu", text: "%[1]s*max(%[3]s, 0)", h: ramp},
	{name: "leakyrelu", text: "%[1]s*max(%[3]s, 0) + %[2]s*min(%[3]s, 0)", h: ramp,
		rest: func(z float64) (float64, float64) {
			h, slope := ramp(-z)
			return -h, slope
		}},
	{name: "expr: abs(z)", text: "%[1]s*abs(%[3]s)",
		h:      func(z float64) (float64, float64) { return math.Abs(z), math.Copysign(1, z) },
		mirror: [2]float64{0, 1}},
	{name: "sigmoid", text: "%[1]s*sigmoid(%[3]s)",
		h:      func(z float64) (float64, float64) { s := logistic(z); return s, s * (1 - s) },
		scaled: true, mirror: [2]float64{1, -1}},
	{name: "expr: softplus(z)", text: "%[1]s*softplus(%[3]s)", h: func(z float64) (float64, float64) {
		return math.Log1p(math.Exp(-math.Abs(z))) + max(z, 0), logistic(z)
	}, scaled: true},
	{name: "expr: z*sigmoid(z)", text: "%[1]s*(%[3]s)*sigmoid(%[3]s)", h: func(z float64) (float64, float64) {
		s := logistic(z)
		return z * s, s + z*s*(1-s)
	}, scaled: true},
	{name: "exp", text: "%[1]s*exp(%[3]s)",
		h: func(z float64) (float64, float64) { e := math.Exp(min(z, 600)); return e, e }, scaled: true,
		fixed: func(n *Named) { n.Scale, n.Shift = n.Scale*math.Exp(n.Shift), 0 }},
	{name: "expr: exp(-z^2)", text: "%[1]s*exp(-(%[3]s)^2)", h: func(z float64) (float64, float64) {
		e := math.Exp(-min(z*z, 700))
		return e, -2 * z * e
	}, scaled: true, mirror: [2]float64{0, 1}},
}

// function is a curve without parameters.
type function func(z float64) float64

func (function) size() int               { return 0 }
func (f function) moved([]float64) curve { return f }
func (function) held([]float64) []bool   { return nil }

func (f function) at(z float64, _ []float64) (g, slope float64) { return f(z), 0 }
