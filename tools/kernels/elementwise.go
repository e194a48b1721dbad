package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// elementwise writes the kernels of functions of a few slices, value by value.
func (g *gen) elementwise() {
	type values = []reg.VecVirtual
	for _, k := range []struct {
		name, doc                     string
		outputs, inputs, coefficients string
		of                            func(in, coef values) values
	}{
		{"mul", "writes a·b.", "dst", "a b", "", func(v, _ values) values { return values{g.mul(v[0], v[1])} }},
		{"sub", "writes a − b.", "dst", "a b", "", func(v, _ values) values { return values{g.sub(v[0], v[1])} }},
		{"mulSquare", "writes a·b·b.", "dst", "a b", "",
			func(v, _ values) values { return values{g.mul(g.mul(v[0], v[1]), v[1])} }},
		{"variance", "writes a·(1 − a).", "dst", "a", "", func(v, _ values) values {
			return values{g.mul(v[0], g.sub(g.constant("one"), v[0]))}
		}},
		{"minusMul", "writes −a·b.", "dst", "a b", "",
			func(v, _ values) values { return values{g.sub(g.zero(), g.mul(v[0], v[1]))} }},
		{"minusMulMul", "writes −a·b·c.", "dst", "a b c", "", func(v, _ values) values {
			return values{g.sub(g.zero(), g.mul(g.mul(v[0], v[1]), v[2]))}
		}},
		{"addMul", "writes acc + a·b.", "dst", "acc a b", "",
			func(v, _ values) values { return values{g.fma(v[1], v[2], v[0])} }},
		{"bump", "writes 1/(1 + t²), t = a·inv.", "dst", "a", "inv", func(v, c values) values {
			t := g.mul(v[0], c[0])
			return values{g.div(g.constant("one"), g.fma(t, t, g.c("one")))}
		}},
		{"bend", "writes t/(1 + t²), t = a·inv.", "dst", "a", "inv", func(v, c values) values {
			t := g.mul(v[0], c[0])
			return values{g.div(t, g.fma(t, t, g.c("one")))}
		}},
		{"soft", "writes t/√(1 + t²/4), t = a·inv.", "dst", "a", "inv", func(v, c values) values {
			t := g.mul(v[0], c[0])
			h := g.mul(t, g.c("half"))
			r := g.fma(h, h, g.c("one"))
			VSQRTPD(r, r)
			return values{g.div(t, r)}
		}},
		{"gaussian", "writes e = res·inv and score − e²/2 − norm.", "dst std", "score res", "inv norm",
			func(v, c values) values {
				e := g.mul(v[1], c[0])
				return values{g.sub(g.fnma(g.mul(e, g.c("half")), e, v[0]), c[1]), e}
			}},
		{"logistic", "writes 1/(1 + exp(−t)) and log(1 + exp(t)), as softmax of t and 0.", "dst log", "logits", "",
			func(v, _ values) values {
				t, top := v[0], g.max(v[0], g.zero())
				x := g.add(g.sub(t, top), g.sub(g.zero(), top)) // −|t|, one of the two being 0
				e := g.expSmall(x)
				sum := g.add(e, g.constant("one"))
				inv := g.div(g.constant("one"), sum)
				l := g.add(top, g.logNormal(sum, nil))
				return values{g.choose(less, t, g.zero(), g.mul(e, inv), inv), g.choose(unlike, sum, sum, sum, l)}
			}},
	} {
		outputs, inputs, coefficients := strings.Fields(k.outputs), strings.Fields(k.inputs),
			strings.Fields(k.coefficients)
		signature := "func(" + strings.Join(append(append([]string{}, outputs...), inputs...), ", ") +
			" *float64, n int"
		if len(coefficients) > 0 {
			signature += ", " + strings.Join(coefficients, ", ") + " float64"
		}
		g.begin(k.name, signature+")", k.doc+" n is a multiple of 8.")
		var to, from []reg.GPVirtual
		for _, s := range outputs {
			to = append(to, param(s))
		}
		for _, s := range inputs {
			from = append(from, param(s))
		}
		var coef values
		for _, s := range coefficients {
			x := XMM()
			Load(Param(s), x)
			coef = append(coef, g.broadcast(x))
		}
		g.overRows(param("n"), func(row reg.GPVirtual) {
			var in values
			for _, p := range from {
				in = append(in, g.load(at(p, row, 0)))
			}
			for i, v := range k.of(in, coef) {
				VMOVUPD(v, at(to[i], row, 0))
			}
		})
		g.end()
	}
}

// gather writes the kernel of Gather: moves of single values, which no vector is faster
// at, without the checks that Go makes.
func (g *gen) gather() {
	g.begin("gather", "func(dst, src *[]float64, rows *int, n int)",
		"writes the n rows named of four slices from src on to four from dst on.")
	to, from, rows, n := values("dst", 0, 4), values("src", 0, 4), param("rows"), param("n")
	i := GP64()
	XORQ(i, i)
	loop := label("rows")
	Label(loop)
	t := GP64()
	MOVQ(at(rows, i, 0), t)
	for j := range to {
		v := GP64()
		MOVQ(at(from[j], t, 0), v)
		MOVQ(v, at(to[j], i, 0))
	}
	INCQ(i)
	CMPQ(i, n)
	JL(LabelRef(loop))
	RET()
}
