package networkfile

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted/fittedtest"
)

// smallNetwork is the file of a network of k units over d features, as it says itself,
// that has two of each.
func smallNetwork(k, d int) string {
	return fmt.Sprintf(`{"format": "moe-network/v1", "activation": {"name": "relu", "params": {}, "version": "1"}, "d": %d, "k": %d,
		"features": ["x1", "x2"], "target": "y", "weights": [[1, 0], [0, 1]], "output_weights": [1, 1], "sigma": 0.1, "fit": null}`, d, k)
}

// TestNetworkOfOtherSizes: sizes that a network's file has not are refused before anything is made of
// them: the Go runtime ends a process that asks for too much.
func TestNetworkOfOtherSizes(t *testing.T) {
	file := fittedtest.NewContent(t)
	read := func(k, d int) error {
		file.Write(t, []byte(smallNetwork(k, d)))
		_, err := Read(string(file))
		return err
	}
	if err := read(2, 2); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		k, d int
		want string
	}{
		{2, math.MaxInt / 4, "no room for k times d numbers"}, {math.MaxInt / 4, 2, "no room"}, {2, math.MaxInt, "no room"}, {math.MaxInt, math.MaxInt, "no room"},
		{2, 50, "features has 2 names"}, {50, 2, "weights has 2 rows"}, {math.MinInt / 4, math.MinInt / 4, "no room"}, {-1, 2, "k = -1"}, {2, 0, "d = 0"},
	} {
		err := read(c.k, c.d)
		if bad := (*dataset.Error)(nil); !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("k = %d, d = %d: %v, want %s", c.k, c.d, err, c.want)
		}
	}
}

// FuzzNetwork looks for content that is read as a network, or the truth of one, and is
// none.
func FuzzNetwork(f *testing.F) {
	for _, size := range [][2]int{{2, 2}, {math.MaxInt / 4, 2}, {2, math.MaxInt}} {
		f.Add([]byte(smallNetwork(size[0], size[1])))
	}
	file := fittedtest.NewContent(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		file.Write(t, data)
		n, err := Read(string(file))
		if err != nil {
			fittedtest.OnlyDataErrors(t, err)
			return
		}
		if m := n.Model(); len(m.Weights) != m.K*m.D || len(m.Output) != m.K {
			t.Errorf("k = %d, d = %d: %d and %d weights", m.K, m.D, len(m.Weights), len(m.Output))
		}
		fittedtest.Again(t, file, n, Read)
	})
}
