package problem

import (
	"context"
	"fmt"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// countClusters returns how many clusters the rows are in, 0 where the table has no column of them. One alone is a
// *dataset.Error.
func countClusters(ctx context.Context, rows model.Rows, schema dataset.Schema) (int, error) {
	column := schema.Roles[model.Clusters]
	if column == "" {
		return 0, nil
	}
	seen := make(map[float64]bool)
	if err := model.InOrder(ctx, rows, func(b *model.Block) error {
		for _, id := range b.Role[model.Clusters] {
			seen[id] = true
		}
		return nil
	}); err != nil {
		return 0, err
	}
	for id := range seen {
		if len(seen) == 1 {
			return 0, &dataset.Error{File: schema.Name,
				Msg: fmt.Sprintf("column %q has one cluster, %s, in every row: standard errors need at least two that "+
					"are independent", column, schema.ID(model.Clusters, id))}
		}
	}
	return len(seen), nil
}
