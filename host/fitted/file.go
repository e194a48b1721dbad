package fitted

import (
	"context"
	"fmt"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted/jsonfile"
)

// Read reads and validates a model file. Faults of its content are a
// *dataset.Error that names file, line and column.
func Read(path string) (*Model, error) { return jsonfile.Read(path, Of) }

// Of is [Read] of a file that is open.
func Of(f *jsonfile.File) (*Model, error) {
	m := new(Model)
	var err error
	if m.Unknown, err = f.Sized(m, func() (k, d int) { return m.K, m.D }); err != nil {
		return nil, err
	}
	if err := m.Validate(); err != nil {
		return nil, &dataset.Error{File: f.Path, Msg: err.Error()}
	}
	return m, nil
}

// Write validates the model and writes its file, beside path and then renamed.
func (m *Model) Write(ctx context.Context, path string) error {
	return jsonfile.Write(ctx, path, m)
}

// JSON returns the model file: indented, one row of a matrix a line, every
// number the shortest decimal that reads back as the same float64.
func (m *Model) JSON() ([]byte, error) {
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("a model that cannot be written: %w", err)
	}
	return jsonfile.Indent(m.withoutNils())
}

// withoutNils returns a copy whose lists and maps that hold nothing are empty,
// not null, where null means something else or nothing.
func (m *Model) withoutNils() *Model {
	c := *m
	c.Gating = append([][]float64{}, m.Gating...)
	c.Sigma = append(Sigma{}, m.Sigma...)
	c.Fit.Starts = append([]Start{}, m.Fit.Starts...)
	c.Fit.Notes = append([]string{}, m.Fit.Notes...)
	if c.Activation.Params == nil {
		c.Activation.Params = map[string]float64{}
	}
	return &c
}
