package states

import (
	"context"
	"fmt"

	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/gru"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/sdk"
)

// The activations of a unit's leaves.
const (
	identity = "identity"
	tanh     = "tanh"
)

// shape is a tree that a unit may be.
type shape struct {
	tree   model.Hierarchy
	leaves []string
}

// The trees of a unit: of all leaves, of the state carried over alone, of a candidate alone, of both, and of
// two candidates.
var (
	shapeAll      = &shape{gru.Shape, []string{identity, tanh, tanh}}
	shapeKeep     = &shape{leaves: []string{identity}}
	shapeOpen     = &shape{leaves: []string{tanh}}
	shapeKeepOpen = &shape{leaves: []string{identity, tanh}}
	shapeReset    = &shape{leaves: []string{tanh, tanh}}
)

// activations are that of all leaves, or those of the leaves, by name.
func (s *shape) activations(ctx context.Context) (act sdk.Activation, leaves []sdk.Activation, err error) {
	mixed := false
	for _, name := range s.leaves {
		mixed = mixed || name != s.leaves[0]
		plugin, err := catalog.Open(ctx, name, nil)
		if err != nil {
			return nil, nil, fmt.Errorf("activation %s: %w", name, err)
		}
		leaves = append(leaves, plugin.Activation)
	}
	if !mixed {
		return leaves[0], nil, nil
	}
	return nil, leaves, nil
}
