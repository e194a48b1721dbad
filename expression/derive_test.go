package expression

import (
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	_ "github.com/gatedlearning/moe/internal/testheap"
	"github.com/gatedlearning/moe/sdk"
)

var howMany = flag.Int("expressions", 1000, "random expressions whose derivatives are compared")

// drawn are the functions of random expressions; names in a fixed order.
var drawn = Functions()

// draw makes a random text of at most so many levels.
func draw(rng *rand.Rand, depth int) *term {
	if depth == 0 || rng.IntN(8) == 0 {
		switch rng.IntN(5) {
		case 0:
			return &term{op: opNumber, number: []float64{0.1, 0.5, 1, 2, 3}[rng.IntN(5)]}
		case 1:
			return &term{op: opParameter, name: "beta"}
		}
		return &term{op: opZ}
	}
	some := func(o op, n int) *term {
		t := &term{op: o}
		for range n {
			t.args = append(t.args, draw(rng, depth-1))
		}
		return t
	}
	switch rng.IntN(10) {
	case 0, 1, 2, 3:
		if o := []op{opAdd, opSub, opMul, opDiv, opNeg}[rng.IntN(5)]; o != opNeg {
			return some(o, 2)
		}
		return some(opNeg, 1)
	case 4:
		return &term{op: opPow, args: []*term{draw(rng, depth-1), {op: opNumber, number: float64(2 + rng.IntN(3))}}}
	case 5: // the forms that are recognised
		u := draw(rng, depth-1)
		one, e := &term{op: opNumber, number: 1}, &term{op: opExp, args: []*term{u}}
		sum := &term{op: opAdd, args: []*term{one, e}}
		return []*term{
			{op: opLog, args: []*term{sum}}, {op: opDiv, args: []*term{e, sum}}, {op: opLog1p, args: []*term{e}},
			{op: opDiv, args: []*term{one, {op: opAdd, args: []*term{one, {op: opExp, args: []*term{{op: opNeg, args: []*term{u}}}}}}}},
		}[rng.IntN(4)]
	}
	f := functions[drawn[rng.IntN(len(drawn))]]
	if f.op != opWhere {
		return some(f.op, f.arity)
	}
	t := some(opWhere, 2)
	compare := some([]op{opLess, opLessEqual, opGreater, opGreaterEqual}[rng.IntN(4)], 2)
	t.args = slices.Insert(t.args, 0, compare)
	return t
}

// TestDerivatives: g′ of random expressions is that of central differences in 320 bits, of
// the text as it stands, to 1e−10, where it is finite and further than 1e−6 from a kink. Where
// it is 0, as of z/(3·z), or what 320 bits leave of that, what is computed may be the rounding
// of its terms, 1e−13 of g/z or of 1. With -expressions 10000, 2 seconds, all that could be
// compared agreed.
func TestDerivatives(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	params := sdk.Params{"beta": 1.7}
	var compared, unknown, constant int
	for range *howMany {
		text := draw(rng, 3)
		given := sdk.Params{}
		if text.has("beta") {
			given = params
		}
		act, err := Parse(text.String(), given)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		e := act.(*Expression)
		z := 1.5 * rng.NormFloat64()
		if slices.ContainsFunc(e.kinks.at, func(k float64) bool { return math.Abs(k-z) < 1e-6 }) {
			continue
		}
		parsed, err := parse(text.String(), given)
		if err != nil {
			t.Fatal(err)
		}
		want, err := slope(parsed, given, z)
		d := []float64{z}
		if err := e.Deriv(t.Context(), d, d); err != nil {
			t.Fatal(err)
		}
		switch {
		case err != nil || math.Abs(want) > 1e250 || math.Abs(want) < 1e-250 && want != 0:
			unknown++
			continue
		case math.Abs(d[0]-want) <= 1e-10*math.Abs(want):
			compared++
			continue
		case math.Abs(want) < 1e-60 && math.Abs(d[0]) <= 1e-13*max(1, math.Abs(values(t, e, z)[0]/z)):
			constant++
			continue
		case !finite(values(t, e, z)[0]) || e.Finite() != nil:
			unknown++
			continue
		}
		t.Errorf("%s at z = %v: g′ = %v, want %v: %.3g", text, z, d[0], want, math.Abs(d[0]-want)/math.Abs(want))
	}
	t.Logf("%d agree, %d beyond the oracle or not finite, %d where z cancels", compared, unknown, constant)
	if compared < *howMany*9/10 {
		t.Errorf("%d of %d compared: the draws have lost most of what there is to see", compared, *howMany)
	}
}
