// Package dataset reads and writes tables: CSV and NPY files, and matrices in
// memory, all of them in blocks of rows.
package dataset

import (
	"context"

	"github.com/gatedlearning/moe/host/model"
)

// Schema names the columns of a table.
type Schema struct {
	Name     string   // of the file, as the user wrote it; "" in memory
	Features []string // d names
	Target   string   // "" where the table has no target
}

// Source is a table that can be read from start to end, any number of times.
type Source interface {
	Schema() Schema
	// Read calls fn with every block in order. The block is valid until fn
	// returns. All blocks but the last have model.BlockRows rows. An error
	// of fn ends the pass and is returned as it is.
	Read(ctx context.Context, fn func(*model.Block) error) error
}
