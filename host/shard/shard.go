// Package shard computes sums over the rows of a table in parts, on any number of
// machines that share nothing but files: what is summed where, the files that the sums
// travel in, and their merging. A [Moments] file has the sums of the moment tensors.
//
// Every part is named by the table and by its place, I of N. Sums of parts go by the
// same tree over blocks as those of a table in memory (model.Tree), so that neither
// the number of parts nor their order changes a bit of the total.
package shard

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// Place is part I of N, counted from 1, or the parts I to To where To is not 0: those
// were joined. The zero value is the whole.
type Place struct {
	I, N int
	To   int `json:",omitempty"`
}

// Last is the last of the parts.
func (p Place) Last() int { return max(p.I, p.To) }

// Valid says whether p is a part, or several.
func (p Place) Valid() bool {
	return p.I >= 1 && p.Last() <= p.N && p.N <= mostParts && (p.To == 0 || p.To > p.I)
}

// mostParts bounds the number of parts.
const mostParts = 1 << 20

// ParsePlace reads "I/N".
func ParsePlace(text string) (Place, error) {
	i, n, ok := strings.Cut(text, "/")
	p := Place{}
	var err1, err2 error
	p.I, err1 = strconv.Atoi(i)
	p.N, err2 = strconv.Atoi(n)
	if !ok || err1 != nil || err2 != nil || p.I < 1 || p.N < 1 || p.I > p.N || p.N > mostParts {
		return Place{}, fmt.Errorf("want I/N, part I of N with 1 ≤ I ≤ N ≤ %d, such as 3/8", mostParts)
	}
	return p, nil
}

// Blocks returns the blocks from ≤ i < to of the part. Parts begin at multiples of a
// power of two of blocks where there are many, at most an eighth of a part's: their
// sums are then those of few nodes of the tree.
func (p Place) Blocks(blocks int) (from, to int) {
	grain := 1
	if each := blocks / (8 * p.N); each > 1 {
		grain = 1 << (bits.Len(uint(each)) - 1)
	}
	at := func(i int) int {
		if i == p.N {
			return blocks
		}
		hi, lo := bits.Mul64(uint64(i), uint64(blocks))
		q, _ := bits.Div64(hi, lo, uint64(p.N))
		return int(q) / grain * grain
	}
	return at(p.I - 1), at(p.Last())
}

// Table is what all parts of one table have in common. It is told without reading
// more than the number of rows and the first block.
type Table struct {
	Features []string `json:"features"`
	Target   string   `json:"target"`
	Weights  string   `json:"weights,omitempty"`
	Groups   string   `json:"groups,omitempty"`
	Offsets  string   `json:"offset,omitempty"`
	Trials   string   `json:"trials,omitempty"`
	Rows     int      `json:"rows"`
	Head     uint64   `json:"head"` // fingerprint of the first block

	// Print is the fingerprint of the whole: rows, columns and 64 blocks, evenly spaced. Absent in
	// files of before it was written.
	Print uint64 `json:"print,omitempty"`

	// Kernel is the kind of processor that sums: all of one kind sum to the same bytes.
	// Absent in files of before it was written.
	Kernel string `json:"kernel,omitempty"`
}

// Open counts the rows of a source and takes its fingerprint: a look at 64 blocks where the
// format can be entered anywhere, a pass over the rows where it cannot.
func Open(ctx context.Context, src dataset.Source) (Table, error) {
	s := src.Schema()
	if s.Scale != "" {
		return Table{}, &dataset.Error{File: s.Name,
			Msg: fmt.Sprintf("its target is %s; sums over parts are of a target itself", s.Scale.Title(s.Target))}
	}
	t := Table{Features: s.Features, Target: s.Target, Weights: s.Roles[model.Weights], Groups: s.Roles[model.Groups],
		Offsets: s.Roles[model.Offsets], Trials: s.Roles[model.Trials], Kernel: runtime.GOARCH}
	for role, name := range t.Roles() {
		if name != s.Roles[role] {
			return Table{}, &dataset.Error{File: s.Name,
				Msg: fmt.Sprintf("column %q: sums over parts are of tables without %s", s.Roles[role],
					dataset.RoleNames()[role])}
		}
	}
	digests := map[int]uint64{}
	see := func(i int, b *model.Block) error {
		if i == 0 {
			t.Head = printOf(b)
		}
		digests[i] = digestOf(i, b)
		return nil
	}
	var err error
	if dataset.Enters(src) {
		if t.Rows, err = dataset.Count(ctx, src); err != nil {
			return t, err
		}
		for _, i := range t.wholeBlocks() {
			if err := dataset.ReadRange(ctx, src, i, i+1, see); err != nil {
				return t, err
			}
		}
	} else {
		i := 0
		err = src.Read(ctx, func(b *model.Block) error {
			t.Rows += b.N
			i++
			return see(i-1, b)
		})
		if err != nil {
			return t, err
		}
	}
	var spaced []uint64
	for _, i := range t.wholeBlocks() {
		spaced = append(spaced, digests[i])
	}
	t.Print = t.fingerprint(spaced)
	return t, nil
}

// Blocks is the number of blocks of the table.
func (t Table) Blocks() int { return (t.Rows + model.BlockRows - 1) / model.BlockRows }

// Schema names the columns, as those of the file of that name.
func (t Table) Schema(file string) dataset.Schema {
	return dataset.Schema{Name: file, Features: t.Features, Target: t.Target, Roles: t.Roles()}
}

// Roles are the columns that have one.
func (t Table) Roles() dataset.Roles {
	return dataset.Roles{model.Weights: t.Weights, model.Groups: t.Groups, model.Offsets: t.Offsets,
		model.Trials: t.Trials}
}

// differs says in what two tables differ, "" if in nothing that is known of them.
func (t Table) differs(o Table) string {
	switch {
	case !slices.Equal(t.Features, o.Features) || t.Target != o.Target || t.Roles() != o.Roles():
		return "other columns"
	case t.Rows != o.Rows:
		return fmt.Sprintf("%d rows, not %d", t.Rows, o.Rows)
	case t.Head != o.Head:
		return "other values in the first rows"
	case t.Print != o.Print && t.Print != 0 && o.Print != 0:
		return "other values in rows behind the first"
	case t.Kernel != o.Kernel && t.Kernel != "" && o.Kernel != "":
		return fmt.Sprintf("sums by the kernels of %s, not of %s", t.Kernel, o.Kernel)
	}
	return ""
}

// DiffersInRound is differs for parts of one round, which all have fingerprints or none.
func (t Table) DiffersInRound(o Table) string {
	if why := t.differs(o); why != "" || (t.Print == 0) == (o.Print == 0) {
		return why
	}
	return "one of the two has no fingerprint of all rows: it is of an older version; make all parts of a round by one"
}

// printOf is a fingerprint of a block (FNV-1a over the values' bits).
func printOf(b *model.Block) uint64 {
	h := uint64(14695981039346656037)
	for values := range b.Values() {
		for _, v := range values {
			h = (h ^ math.Float64bits(v+0)) * 1099511628211
		}
	}
	return h
}

// Complete returns the places of parts in their order, or says of the files which
// part is missing or there twice.
func Complete(files []string, places []Place) (order []int, err error) {
	n := places[0].N
	by := make([]int, n) // file of each part, from 1
	for f, p := range places {
		switch {
		case p.N == 0:
			return nil, &dataset.Error{File: files[f], Msg: "it is no part but the whole"}
		case p.N != n:
			return nil, &dataset.Error{File: files[f], Msg: fmt.Sprintf("part %d of %d, beside parts of %d in %s", p.I,
				p.N, n, files[0])}
		}
		for i := p.I; i <= p.Last(); i++ {
			if by[i-1] > 0 {
				return nil, &dataset.Error{File: files[f], Msg: fmt.Sprintf("part %d of %d is there already, in %s", i,
					n, files[by[i-1]-1])}
			}
			by[i-1] = f + 1
		}
	}
	var missing []string
	for i, f := range by {
		switch {
		case f == 0:
			missing = append(missing, strconv.Itoa(i+1))
		case i == 0 || by[i-1] != f: // else one file has this part and the one before
			order = append(order, f-1)
		}
	}
	if len(missing) > 10 {
		missing = append(missing[:10], "…")
	}
	if len(missing) > 0 {
		return nil, &dataset.Error{File: files[0], Msg: fmt.Sprintf("of the %d parts %s missing: %s", n,
			map[bool]string{true: "one is", false: "some are"}[len(missing) == 1], strings.Join(missing, ", "))}
	}
	return order, nil
}

// Joined is the place of parts that follow one another in this order.
func Joined(files []string, places []Place) (Place, error) {
	all := places[0]
	for i, p := range places {
		if !p.Valid() || p.N != all.N || i > 0 && p.I != all.Last()+1 {
			return Place{}, &dataset.Error{File: files[i],
				Msg: fmt.Sprintf("part %d of %d does not follow part %d of %d", p.I, p.N, all.Last(), all.N)}
		}
		if i > 0 {
			all.To = p.Last()
		}
	}
	return all, nil
}
