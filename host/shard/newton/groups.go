package newton

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/host/shard/sealed"
	"github.com/gatedlearning/moe/internal/numeric"
)

// Of rows in groups a part holds whole ones: the runs of rows of one group that begin in its blocks. So the sums of
// parts add up to those of all rows, where the rows of every group stand beside each other. Whether they do is seen
// where the parts are merged: each brings the ids of its groups, and one that two parts have is refused.

// members are the groups of a part.
type members struct {
	part   int
	weight float64 // of the rows
	ids    []string
}

// admitGroups refuses a table and a model of which one knows of groups and the other does not.
func admitGroups(file string, t shard.Table, m *fitted.Model) error {
	switch {
	case m.Groups != nil && t.Groups == "":
		return &dataset.Error{File: file, Msg: fmt.Sprintf("the model is of rows in groups of column %q, which is not "+
			"among the columns read", m.Groups.Column)}
	case m.Groups == nil && t.Groups != "" && m.Fit.Method == Method:
		return &dataset.Error{File: file, Msg: fmt.Sprintf("the model is of passes over rows that are in no groups; "+
			"for those of column %q begin at the model that these began at", t.Groups)}
	}
	return nil
}

// withoutPosteriors is a model without what it knows of single groups, which are not those of all rows.
func withoutPosteriors(m *fitted.Model) *fitted.Model {
	if m.Groups == nil || m.Groups.Posteriors == nil {
		return m
	}
	out, groups := *m, *m.Groups
	groups.Posteriors = nil
	out.Groups = &groups
	return &out
}

// readGroups reads the rows of the part's groups: those from the first on, in the blocks from ≤ i < to of the table,
// that is of another group than the row before it, up to the first behind these blocks that is. It also returns how
// many rows of the table are before them, and calls see with the blocks of the part.
func readGroups(ctx context.Context, src dataset.Source, t shard.Table, from, to int,
	see func(i int, b *model.Block)) (*model.Data, int, error) {
	out := model.Gathered{D: len(t.Features)}
	if from >= to {
		return out.Data(), from * model.BlockRows, nil
	}
	first, begun, end := 0, false, errors.New("shard: the part ends")
	last := math.NaN() // the group of the row before
	err := dataset.ReadRange(ctx, src, max(from-1, 0), t.Blocks(), func(i int, b *model.Block) error {
		if i < from {
			last = b.Role[model.Groups][b.N-1]
			return nil
		}
		if i < to {
			see(i, b)
		}
		for r, id := range b.Role[model.Groups] {
			switch other := id != last; {
			case i >= to && (other || !begun):
				return end
			case !begun && !other:
				continue
			case !begun:
				begun, first = true, i*model.BlockRows+r
			}
			last = id
			out.Add(b, r)
		}
		return nil
	})
	if err != nil && !errors.Is(err, end) {
		return nil, 0, err
	}
	return out.Data(), first, nil
}

// takeGroups finds the groups of a part's rows, and refuses a gate that sees what varies within one.
func (n *Sums) takeGroups(ctx context.Context, schema dataset.Schema, m *fitted.Model, data *model.Data,
	first int) error {
	found, err := problem.FindGroups(ctx, schema, data, first)
	if err != nil {
		return err
	}
	if err := found.Constant(freeOf(m).GateColumns, "begin at a fit that leaves it to the experts"); err != nil {
		return err
	}
	own := members{part: n.Place.I, ids: found.IDs}
	for i := range data.Blocks {
		for r := range data.Blocks[i].N {
			own.weight += data.Blocks[i].Weight(r)
		}
	}
	n.groups, n.observations, n.first = []members{own}, found.Weight, first
	return nil
}

// wholeGroups refuses a group that is in two parts.
func wholeGroups(files []string, parts []*Sums, order []int) error {
	if parts[0].Table.Groups == "" {
		return nil
	}
	in := make(map[string]int)
	for _, f := range order {
		for _, part := range parts[f].groups {
			for _, id := range part.ids {
				if before, known := in[id]; known {
					return &dataset.Error{File: files[f], Msg: fmt.Sprintf("group %s of column %q has rows in part %d "+
						"of %d and in part %d: parts hold whole groups; sort the rows by the column, or make one part "+
						"of all", id, parts[f].Table.Groups, part.part, parts[f].Place.N, before)}
				}
				in[id] = part.part
			}
		}
	}
	return nil
}

// count has the model be of as many groups as all parts have, and returns what the rows weigh.
func (n *Sums) count(file string, m *fitted.Model) (rows float64, err error) {
	groups, column := 0, n.Table.Groups
	for _, part := range n.groups {
		groups += len(part.ids)
		rows += part.weight
		if len(part.ids) == 1 {
			err = problem.OneGroup(file, column, part.ids[0])
		}
	}
	switch {
	case groups < 2:
		return 0, err
	case groups < m.K:
		return 0, &dataset.Error{File: file, Msg: fmt.Sprintf("column %q has %d groups, for %d experts", column, groups,
			m.K)}
	}
	m.Groups = &fitted.Groups{Column: column, Count: groups}
	m.Format = m.FormatOf()
	return rows, nil
}

// bodyGroups names the body with the groups of the parts.
const bodyGroups = "groups"

// membership is that of parts as a file has it: of every part its number, the weight of its rows, how many groups it
// has and their ids, each behind its length.
type membership []members

// MarshalBinary writes it.
func (g membership) MarshalBinary() ([]byte, error) {
	var out []byte
	for _, part := range g {
		out = binary.AppendUvarint(out, uint64(part.part))
		out = numeric.AppendFloats(out, []float64{part.weight})
		out = binary.AppendUvarint(out, uint64(len(part.ids)))
		for _, id := range part.ids {
			out = append(binary.AppendUvarint(out, uint64(len(id))), id...)
		}
	}
	return out, nil
}

// loadMembership reads that of the parts at a place.
func loadMembership(at shard.Place, data []byte) (out membership, err error) {
	all, whole := data, true
	number := func() uint64 {
		v, used := binary.Uvarint(data)
		if used <= 0 {
			whole = false
			return 0
		}
		data = data[used:]
		return v
	}
	bytesOf := func(n uint64) []byte {
		if n > uint64(len(data)) {
			whole = false
			return nil
		}
		v := data[:n]
		data = data[n:]
		return v
	}
	for part := at.I; part <= at.Last() && whole; part++ {
		p := members{part: part}
		whole = number() == uint64(part)
		if weight := bytesOf(8); whole {
			v, err := sealed.Numbers(weight)
			if err != nil {
				return nil, err
			}
			p.weight = v[0]
		}
		for left := number(); left > 0 && whole; left-- {
			p.ids = append(p.ids, string(bytesOf(number())))
		}
		out = append(out, p)
	}
	if again, _ := out.MarshalBinary(); !whole || !bytes.Equal(again, all) {
		return nil, sealed.ErrDamaged
	}
	return out, nil
}
