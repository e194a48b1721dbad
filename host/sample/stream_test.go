package sample

import (
	"math/rand/v2"
	"testing"
)

// script is a source of given numbers.
type script []uint64

func (s *script) Uint64() uint64 {
	u := (*s)[0]
	*s = (*s)[1:]
	return u
}

// TestStreamIsTheLibrarys: the numbers of a stream are those of math/rand/v2, among them
// some that the ziggurat's corners and its tail give.
func TestStreamIsTheLibrarys(t *testing.T) {
	const stride, n = 3, 7
	s := newStream(3, 7)
	std := rand.New(rand.NewPCG(s.hi, s.lo))
	var got [stride * n]float64
	largest := 0.0
	for range 200_000 {
		s.normals(got[1:], stride)
		for i := range n {
			if want := std.NormFloat64(); got[1+i*stride] != want {
				t.Fatalf("normal %v, want %v", got[1+i*stride], want)
			}
			largest = max(largest, got[1+i*stride])
		}
		if got, want := s.NormFloat64(), std.NormFloat64(); got != want {
			t.Fatalf("normal %v, want %v", got, want)
		}
		if got, want := s.Float64(), std.Float64(); got != want {
			t.Fatalf("uniform %v, want %v", got, want)
		}
	}
	if largest < tail || got[0] != 0 || got[2] != 0 {
		t.Errorf("the largest is %v, beyond the stride's places are %v and %v", largest, got[0], got[2])
	}
}

// TestZigguratIsTheLibrarys: in every strip the library takes the largest number that
// stands inside at once, times the strip's width, and asks for another after the next.
func TestZigguratIsTheLibrarys(t *testing.T) {
	for i, l := range ziggurat() {
		if l.inside > 0 {
			u := uint64(i)<<32 | uint64(l.inside-1)
			if got, want := float64(l.inside-1)*l.width, rand.New(&script{u}).NormFloat64(); got != want {
				t.Errorf("strip %d: %v, want %v", i, got, want)
			}
		}
		// Beyond it comes a number for the corner, or two for the tail: with 0, the corner's
		// least height, and 2⁵³ − 1, which leaves the tail at its beginning, they decide at once.
		rest := script{uint64(i)<<32 | uint64(l.inside), 1<<53 - 1, 1<<53 - 1, 1, 1, 1}
		rand.New(&rest).NormFloat64()
		if len(rest) == 5 {
			t.Errorf("strip %d: %d is inside", i, l.inside)
		}
	}
}
