package problem

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// Groups are those of the rows, all rows of each of which have one expert. The zero value is none.
type Groups struct {
	Weight float64  // of all, their number where there are no weights
	IDs    []string // what they are called, in the order in which they first come
}

// group is what is known of one.
type group struct {
	row int // its first, counted from 0
	x   []float64
	w   float64
	c   float64 // its cluster
}

// Grouping is what a pass over rows finds of their groups.
type Grouping struct {
	Groups
	schema dataset.Schema
	varies []*variation // of every feature; nil where it is constant within groups
}

// FindGroups finds the groups of rows of a table that has a column of them, the first of the rows being that of number
// first, counted from 0. Weights that vary within a group, and clusters that cut one, are a *[dataset.Error].
func FindGroups(ctx context.Context, schema dataset.Schema, rows model.Rows, first int) (*Grouping, error) {
	_, d := rows.Dims()
	out := &Grouping{schema: schema, varies: make([]*variation, d)}
	column := schema.Roles[model.Groups]
	places, groups, row := make(map[float64]int), []group(nil), first
	fault := func(format string, args ...any) error {
		return &dataset.Error{File: schema.Name, Msg: fmt.Sprintf(format, args...)}
	}
	err := model.InOrder(ctx, rows, func(b *model.Block) error {
		for t, id := range b.Role[model.Groups] {
			g, known := places[id]
			if !known {
				g = len(groups)
				places[id] = g
				first := group{row: row, x: make([]float64, d), w: b.Weight(t)}
				for j := range first.x {
					first.x[j] = b.Col(j)[t]
				}
				if c := b.Role[model.Clusters]; c != nil {
					first.c = c[t]
				}
				groups = append(groups, first)
				out.IDs = append(out.IDs, schema.ID(model.Groups, id))
				out.Weight += first.w
			}
			was := &groups[g]
			switch {
			case b.Weight(t) != was.w:
				return fault("rows %d and %d of group %s (column %q) have the weights %v and %v: weights are constant "+
					"in a group", was.row+1, row+1, out.IDs[g], column, was.w, b.Weight(t))
			case b.Role[model.Clusters] != nil && b.Role[model.Clusters][t] != was.c:
				return fault("rows %d and %d of group %s (column %q) are in clusters %s and %s of column %q: a "+
					"cluster has whole groups", was.row+1, row+1, out.IDs[g], column,
					schema.ID(model.Clusters, was.c), schema.ID(model.Clusters, b.Role[model.Clusters][t]),
					schema.Roles[model.Clusters])
			}
			for j, v := range was.x {
				if out.varies[j] == nil && b.Col(j)[t] != v {
					out.varies[j] = &variation{group: out.IDs[g], rows: [2]int{was.row + 1, row + 1}}
				}
			}
			row++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Constant refuses columns of a gate, nil for all, of which one varies within a group, with that advice.
func (g *Grouping) Constant(columns []int, advice string) error {
	for j, v := range g.varies {
		if v != nil && (columns == nil || slices.Contains(columns, j)) {
			return &dataset.Error{File: g.schema.Name,
				Msg: fmt.Sprintf("column %q of the gate varies within group %s (rows %d and %d): the gate sees what "+
					"is constant in a group; %s", g.schema.Features[j], v.group, v.rows[0], v.rows[1], advice)}
		}
	}
	return nil
}

// takeGroups finds the groups of the rows, where the table has a column of them, and what the gate sees: the columns
// that are constant within groups, where the request names none.
func takeGroups(ctx context.Context, p *Problem, rows model.Rows, gate Gate) error {
	column := p.Schema.Roles[model.Groups]
	if column == "" {
		return nil
	}
	if !model.Held(rows) {
		return Refuse("column %q of groups: their rows have to be in memory, for which there is not the room; fit "+
			"whole groups that there is room for, and go on by parts of all rows (moe newton)", column)
	}
	found, err := FindGroups(ctx, p.Schema, rows, 0)
	if err != nil {
		return err
	}
	p.Groups = found.Groups
	n, _ := rows.Dims()
	switch groups := p.Groups.IDs; {
	case len(groups) == n:
		p.Notes = append(p.Notes, fmt.Sprintf("every group of column %q has one row: the fit is that without groups",
			column))
		p.Groups = Groups{}
		return nil
	case len(groups) == 1:
		return OneGroup(p.Schema.Name, column, groups[0])
	case p.Shape.K > len(groups):
		return Refuse("k = %d experts for %d groups; choose a smaller k", p.Shape.K, len(groups))
	}
	return groupGate(p, found, gate)
}

// OneGroup refuses a column that has the same group in every row.
func OneGroup(file, column, id string) error {
	return &dataset.Error{File: file, Msg: fmt.Sprintf("column %q has one group, %s, in every row; want several "+
		"groups", column, id)}
}

// variation is where a feature varies within a group.
type variation struct {
	group string
	rows  [2]int // of other values, counted from 1
}

// groupGate has the gate see what is constant within groups.
func groupGate(p *Problem, found *Grouping, gate Gate) error {
	if p.Shape.ConstantGate {
		return nil
	}
	if s, ok := gate.(Softmax); ok && s.Features != nil {
		return found.Constant(p.Shape.Gate, "leave it to the experts")
	}
	constant := []int{}
	for j, v := range found.varies {
		if v == nil {
			constant = append(constant, j)
		}
	}
	switch {
	case len(constant) == 0:
		p.Shape.Gate, p.Shape.ConstantGate, p.Shape.GateIntercept = constant, true, true
		p.Notes = append(p.Notes, "no column is constant within the groups: the gate is constant")
	case len(constant) < p.Shape.D:
		p.Shape.Gate = constant
		var names []string
		for _, j := range constant {
			names = append(names, p.Schema.Features[j])
		}
		p.Notes = append(p.Notes, "the gate sees what is constant within the groups: "+strings.Join(names, ", "))
	}
	return nil
}
