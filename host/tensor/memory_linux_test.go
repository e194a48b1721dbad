package tensor

import (
	"errors"
	"testing"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/memory"
	"gonum.org/v1/gonum/mat"
)

// unread is a table of that many features that must not be read.
type unread struct {
	model.Rows
	d int
}

func (u unread) Dims() (n, d int) { return model.BlockRows, u.d }

// Sums that no machine holds are refused before a row is read or room is made.
func TestMoreThanTheMemory(t *testing.T) {
	var short *memory.Error
	const wide, dimensions = 300_000, 1500
	if _, err := SumSecond(t.Context(), unread{d: wide}, 1); !errors.As(err, &short) || short.Need < 8*1.5*wide*wide {
		t.Errorf("second moments of %d features: %v", wide, err)
	}
	short = nil
	const entries = dimensions / 24. * dimensions * dimensions * dimensions
	if _, err := SumFourth(t.Context(), unread{d: dimensions}, mat.NewDense(dimensions, dimensions, nil), nil, 1); !errors.As(err, &short) || short.Need < 8*5*entries {
		t.Errorf("fourth moments in %d dimensions: %v", dimensions, err)
	}
}
