package sample

import (
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"
)

// generator draws the numbers of a [rand.Rand] over a [rand.PCG], in half the time: a
// sample is mostly normal numbers, and 99 of 100 of those are a step of the generator and
// a row of a table.
type generator struct {
	hi, lo uint64 // the state of the PCG
	pcg    *rand.PCG
	rest   *rand.Rand // over pcg
}

// newGenerator returns the generator in a state of the PCG.
func newGenerator(hi, lo uint64) *generator {
	pcg := rand.NewPCG(hi, lo)
	return &generator{hi: hi, lo: lo, pcg: pcg, rest: rand.New(pcg)}
}

// Uint64 is that of [rand.PCG]: a linear congruential step and the output function DXSM.
func (g *generator) Uint64() uint64 {
	const (
		byHi, byLo = 2549297995355413924, 4865540595714422341
		toHi, toLo = 6364136223846793005, 1442695040888963407
		cheap      = 0xda942042e4dd58b5
	)
	hi, lo := bits.Mul64(g.lo, byLo)
	hi += g.hi*byLo + g.lo*byHi
	lo, carry := bits.Add64(lo, toLo, 0)
	hi, _ = bits.Add64(hi, toHi, carry)
	g.hi, g.lo = hi, lo
	hi = (hi ^ hi>>32) * cheap
	return (hi ^ hi>>48) * (lo | 1)
}

// Float64 is that of [rand.Rand].
func (g *generator) Float64() float64 { return float64(g.Uint64()<<11>>11) / (1 << 53) }

// NormFloat64 is that of [rand.Rand].
func (g *generator) NormFloat64() float64 {
	hi, lo := g.hi, g.lo
	u := g.Uint64()
	j, layer := int32(u), &ziggurat[u>>32&(layers-1)]
	if uint32(max(j, -j)) < layer.inside {
		return float64(j) * float64(layer.width)
	}
	g.hi, g.lo = hi, lo
	return g.edge()
}

// edge is NormFloat64 by [rand.Rand], for what needs more than one word.
func (g *generator) edge() float64 {
	g.pcg.Seed(g.hi, g.lo)
	x := g.rest.NormFloat64()
	var buffer [20]byte
	state, _ := g.pcg.AppendBinary(buffer[:0]) // "pcg:", hi, lo
	g.hi, g.lo = binary.BigEndian.Uint64(state[4:]), binary.BigEndian.Uint64(state[12:])
	return x
}

const layers = 128

// ziggurat has the layers of G. Marsaglia and W. W. Tsang, The Ziggurat Method for
// Generating Random Variables (2000): under the normal density layers of equal areas,
// the lowest with the tail. A number j of 32 bits with |j| < inside, times width, is in the
// part of its layer that lies under the density for certain. inside is two less than
// [rand.Rand] has, so that rounding decides nothing.
var ziggurat = func() (z [layers]struct {
	inside uint32
	width  float32
}) {
	const (
		edge  = 3.442619855899      // where the tail begins
		area  = 9.91256303526217e-3 // of a layer
		scale = 1 << 31
	)
	density := func(x float64) float64 { return math.Exp(-x * x / 2) }
	x := float64(edge)
	base := area / density(x) // as wide as the lowest layer were, if it had no tail
	z[0].inside, z[0].width = uint32(x/base*scale)-2, float32(base/scale)
	z[layers-1].width = float32(x / scale)
	for i := layers - 2; i >= 1; i-- {
		above := math.Sqrt(-2 * math.Log(area/x+density(x)))
		z[i+1].inside, z[i].width = uint32(above/x*scale)-2, float32(above/scale)
		x = above
	}
	return z
}()
