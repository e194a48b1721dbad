package shard

import (
	"testing"
)

// TestDesignOfOlderFiles: where a part of the first round is of a version that kept no rows for the design there is none.
func TestDesignOfOlderFiles(t *testing.T) {
	const rows, width = 600, 3
	m := &Moments{momentsHeader: momentsHeader{Place: Place{I: 1, N: 1},
		Table: Table{Rows: rows, Features: []string{"a", "b"}, Target: "y"}}}
	if m.designData() != nil {
		t.Error("a design of no rows")
	}
	m.design = make([]float64, rows*width)
	if d := m.designData(); d == nil || d.N != rows || d.Blocks[2].N != rows-512 {
		t.Errorf("the design is %v", d)
	}
	m.design = m.design[:256*width] // of the first block only
	if m.designData() != nil {
		t.Error("a design of some of its rows")
	}
}
