package wire

import (
	"fmt"
	"math"

	"github.com/gatedlearning/moe/internal/numeric"
)

// decodeFloats fills dst from its little-endian bytes, which must be as many
// as dst needs.
func decodeFloats(dst []float64, b []byte) error {
	if len(b) != 8*len(dst) {
		return fmt.Errorf("%d bytes, want %d for %d values", len(b), 8*len(dst), len(dst))
	}
	numeric.ReadFloats(dst, b)
	return nil
}

// take fills dst from src, which must be as long and finite.
func take(dst, src []float64, name string) error {
	if len(src) != len(dst) {
		return fmt.Errorf("%s has %d values, want %d", name, len(src), len(dst))
	}
	for i, v := range src {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s[%d] is %v", name, i, v)
		}
		dst[i] = v
	}
	return nil
}
