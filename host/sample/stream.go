package sample

import (
	"math"
	"math/bits"
	"sync"
)

// stream is one random stream of a seed: the numbers of math/rand/v2's Rand over its PCG,
// to the bit, in less time, for nothing of it stands behind an interface.
type stream struct {
	hi, lo uint64
	layers *[128]layer
}

// newStream returns a stream of a seed. The state of a PCG is
// drawn from seed and number by a mixing function, because generators whose
// states differ little are not independent.
func newStream(seed, number uint64) *stream {
	hi := mix(seed)
	return &stream{hi: mix(hi ^ number), lo: mix(hi + mix(number)), layers: ziggurat()}
}

// mix is the output function of SplitMix64 (Steele, Lea & Flood 2014), a
// bijection whose every output bit depends on every input bit.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// The constants of PCG-DXSM (O'Neill 2014): a linear congruential generator modulo 2¹²⁸, of
// which every state is mixed to an output.
const (
	mulHi, mulLo = 2549297995355413924, 4865540595714422341
	incHi, incLo = 6364136223846793005, 1442695040888963407
	mixing       = 0xda942042e4dd58b5
)

// uint64 is the generator's next output.
func (s *stream) uint64() uint64 {
	hi, lo := bits.Mul64(s.lo, mulLo)
	hi += s.hi*mulLo + s.lo*mulHi
	lo, carry := bits.Add64(lo, incLo, 0)
	hi, _ = bits.Add64(hi, incHi, carry)
	s.hi, s.lo = hi, lo
	hi ^= hi >> 32
	hi *= mixing
	hi ^= hi >> 48
	return hi * (lo | 1)
}

// Float64 is uniform on [0, 1), of 53 bits.
func (s *stream) Float64() float64 { return float64(s.uint64()<<11>>11) / (1 << 53) }

// layer is a horizontal strip under exp(−x²/2): a 32-bit number j with sign stands for
// x = j·width, under the curve for certain where |j| < inside. height is the curve's at
// the strip's end.
type layer struct {
	width  float64
	inside uint32
	height float32
}

// tail is where the lowest strip's tail begins.
const tail = 3.442619855899

// ziggurat are 128 strips of one area (Marsaglia & Tsang 2000, "The Ziggurat Method for
// Generating Random Variables"), from the lowest, which has the tail, to the top.
var ziggurat = sync.OnceValue(func() *[128]layer {
	const scale, area = 1 << 31, 9.91256303526217e-3
	curve := func(x float64) float64 { return math.Exp(-x * x / 2) }
	var l [128]layer
	x := tail
	base := area / curve(x)
	l[0] = layer{float64(float32(base / scale)), uint32(x / base * scale), 1}
	for i := 127; ; i-- {
		l[i].width, l[i].height = float64(float32(x/scale)), float32(curve(x))
		if i == 1 {
			return &l
		}
		next := math.Sqrt(-2 * math.Log(area/x+curve(x)))
		l[i].inside = uint32(next / x * scale)
		x = next
	}
})

// normals writes standard normal numbers to dst[0], dst[stride], …. Nearly all are an output
// of the generator times a width; those are made here, without a call.
func (s *stream) normals(dst []float64, stride int) {
	hi, lo := s.hi, s.lo
	for at := 0; at < len(dst); at += stride {
		var carry uint64
		h, l := bits.Mul64(lo, mulLo)
		h += hi*mulLo + lo*mulHi
		lo, carry = bits.Add64(l, incLo, 0)
		hi, _ = bits.Add64(h, incHi, carry)
		u := hi
		u ^= u >> 32
		u *= mixing
		u ^= u >> 48
		u *= lo | 1
		j, strip := int32(u), &s.layers[u>>32&127]
		if sign := j >> 31; uint32((j^sign)-sign) < strip.inside {
			dst[at] = float64(j) * strip.width
			continue
		}
		s.hi, s.lo = hi, lo
		dst[at] = s.normal(u)
		hi, lo = s.hi, s.lo
	}
	s.hi, s.lo = hi, lo
}

// NormFloat64 is standard normal.
func (s *stream) NormFloat64() float64 { return s.normal(s.uint64()) }

// normal makes a standard normal number of an output of the generator and, where it is not
// inside its strip, of those that follow.
func (s *stream) normal(u uint64) float64 {
	for ; ; u = s.uint64() {
		j, i := int32(u), u>>32&127
		at := &s.layers[i]
		x := float64(j) * at.width
		sign := j >> 31
		switch {
		case uint32((j^sign)-sign) < at.inside:
			return x
		case i == 0:
			if x = s.beyond(); j <= 0 {
				x = -x
			}
			return x
		case at.height+float32(s.Float64())*(s.layers[i-1].height-at.height) < float32(math.Exp(-.5*x*x)):
			return x
		}
	}
}

// beyond is standard normal above tail.
func (s *stream) beyond() float64 {
	for {
		x := -math.Log(s.Float64()) * (1.0 / tail)
		y := -math.Log(s.Float64())
		if y+y >= x*x {
			return tail + x
		}
	}
}
