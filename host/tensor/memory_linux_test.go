package tensor

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/memory"
	"gonum.org/v1/gonum/mat"
)

// unread is a table of that many features that must not be read.
type unread struct {
	model.Rows
	blocks, d int
}

func (u unread) Dims() (n, d int) { return u.blocks * model.BlockRows, u.d }

// Sums that no machine holds are refused before a row is read or room is made, with what they
// need: 8 bytes for each of C(d+1, 2) pairs times y⁰, y¹ and y², or of C(m+1, 2) pairs and C(m+3, 4)
// fours times y⁰ … y⁴; for the block and the sums of each worker, the nodes of a binary tree over
// the blocks that wait, and the total.
func TestMoreThanTheMemory(t *testing.T) {
	const wide, dimensions = 300_000, 1500
	choose := func(n, k int64) float64 {
		v, _ := new(big.Float).SetInt(new(big.Int).Binomial(n, k)).Float64()
		return v
	}
	for _, c := range []struct {
		blocks, workers int
		copies          float64
	}{{1, 1, 2 + 1 + 1}, {5, 3, 6 + 3 + 1}} {
		check := func(what string, err error, entries float64) {
			t.Helper()
			var short *memory.Error
			// To the rounding of a product.
			if want := 8 * entries * c.copies; !errors.As(err, &short) || math.Abs(short.Need-want) > 1e-12*want {
				t.Errorf("%s of %d blocks with %d workers: %v, want %v bytes", what, c.blocks, c.workers, err, want)
			}
		}
		_, err := SumSecond(t.Context(), unread{blocks: c.blocks, d: wide}, c.workers)
		check("second moments", err, 3*choose(wide+1, 2))
		_, err = SumFourth(t.Context(), unread{blocks: c.blocks, d: dimensions}, mat.NewDense(dimensions, dimensions, nil), nil, c.workers)
		check("fourth moments", err, 5*(choose(dimensions+1, 2)+choose(dimensions+3, 4)))
	}
}
