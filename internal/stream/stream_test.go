package stream

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestUsesAreDisjoint: no two uses of the table have a second PCG seed in common, for any index: every
// use has one interval of 2^32 of them, and the intervals do not overlap. That New's seeds run through its use's
// interval is seen by generators that are made from those seeds beside it.
func TestUsesAreDisjoint(t *testing.T) {
	table := Table()
	names := map[string]bool{}
	for i, e := range table {
		if e.Use != Use(i) || e.Name == "" || e.What == "" || e.Index == "" || names[e.Name] {
			t.Errorf("row %d of the table is %+v: want use %d, all of it said, its name once", i, e, i)
		}
		names[e.Name] = true
		first, last := e.Use.ends()
		if last-first != math.MaxUint32 {
			t.Errorf("%s has %d indices, want 2^32", e.Name, last-first+1)
		}
		for _, o := range table[:i] {
			if from, to := o.Use.ends(); first <= to && from <= last {
				t.Errorf("%s and %s have seeds in common: %d to %d and %d to %d", e.Name, o.Name, first, last, from, to)
			}
		}
		for _, index := range []int{0, 1, 1 << 16, math.MaxInt32} {
			same(t, New(7, e.Use, index), rand.New(rand.NewPCG(7, first+uint64(index))))
		}
		if most := uint64(math.MaxUint32); most <= math.MaxInt {
			same(t, New(7, e.Use, int(most)), rand.New(rand.NewPCG(7, last)))
		}
	}
	if last := SpareHeld; int(last) != len(table)-1 {
		t.Errorf("the table has %d rows, the last use is %d", len(table), last)
	}
}

func same(t *testing.T, a, b *rand.Rand) {
	t.Helper()
	for range 4 {
		if x, y := a.Uint64(), b.Uint64(); x != y {
			t.Fatalf("%x, want %x", x, y)
		}
	}
}

// TestIndexOutOfRange: an index that would be another use's is refused.
func TestIndexOutOfRange(t *testing.T) {
	over := uint64(1) << 32
	for _, index := range []int{-1, math.MinInt, int(over), math.MaxInt} {
		if index >= 0 && uint64(index) <= math.MaxUint32 {
			continue // of 32 bits
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("index %d was taken", index)
				}
			}()
			New(1, Start, index)
		}()
	}
}

// TestSampleIsApart: of a seed one number alone has the first PCG seed that the uses of the table have, since
// mixing is a bijection of it. Of the first 2^20 seeds and some large ones it is no number that a sample
// draws from: no block below 2^32, and no parameters of the first 2^32 targets.
func TestSampleIsApart(t *testing.T) {
	check := func(seed uint64) {
		number := mix(seed) ^ unmix(seed)
		if hi, _ := mixed(seed, number); hi != seed {
			t.Fatalf("seed %d: number %d has the first seed %d", seed, number, hi)
		}
		if number <= math.MaxUint32 || number >= Parameters-math.MaxUint32 {
			t.Errorf("seed %d: number %d of a sample may have the generator of another use", seed, number)
		}
	}
	for seed := range uint64(1 << 20) {
		check(seed)
		check(math.MaxUint64 - seed)
		check(seed << 32)
	}
}

// unmix is the inverse of mix.
func unmix(x uint64) uint64 {
	x ^= x>>31 ^ x>>62
	x *= inverse(0x94d049bb133111eb)
	x ^= x>>27 ^ x>>54
	x *= inverse(0xbf58476d1ce4e5b9)
	x ^= x>>30 ^ x>>60
	return x - 0x9e3779b97f4a7c15
}

// inverse is that of an odd number modulo 2^64: each of Newton's steps doubles the bits that are right.
func inverse(a uint64) uint64 {
	x := a
	for range 6 {
		x *= 2 - a*x
	}
	return x
}

// TestSampleKeepsItsNumbers: data sets that were drawn once are drawn again by their seeds.
func TestSampleKeepsItsNumbers(t *testing.T) {
	for number, want := range map[uint64]uint64{0: 0x3dc7c9167a1d0f3f, 1: 0x646c6afb162128c7, Parameters: 0xdb041598ca9ce618} {
		if got := Sample(1, number).Uint64(); got != want {
			t.Errorf("stream %d of seed 1 begins with %#x, want %#x", number, got, want)
		}
	}
}

// TestCoin: of 1000 draws half are true, to four standard errors.
func TestCoin(t *testing.T) {
	rng, heads := rand.New(rand.NewPCG(1, 1)), 0
	for range 1000 {
		if Coin(rng) {
			heads++
		}
	}
	if math.Abs(float64(heads-500)) > 4*math.Sqrt(250) {
		t.Errorf("%d of 1000", heads)
	}
}
