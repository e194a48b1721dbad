package moebeam

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/shard/newton"
)

// Maximise makes passes of Newton's method from the model p.Given until they have
// converged or end for another reason, at most [newton.MostPasses], and one more for the certificate, and writes the
// last model to p.Out. The models
// between are in dir, which all workers see. Whether they have converged, after how
// many passes, and why not, is in the model's Fit.
func (p Pass) Maximise(ctx context.Context, run Runner, again int, dir string) (*fitted.Model, error) {
	next := p
	next.Kind = Newton
	for i := 1; ; i++ {
		next.Out = filepath.Join(dir, fmt.Sprintf("pass-%d.json", i))
		if err := next.Run(ctx, run, again); err != nil {
			return nil, fmt.Errorf("pass %d: %w", i, err)
		}
		m, err := fitted.Read(next.Out)
		if err != nil {
			return nil, err
		}
		if !newton.GoOn(m) {
			return m, m.Write(ctx, p.Out)
		}
		next.Given = next.Out
	}
}
