package moebeam

import (
	"cmp"
	"context"
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/dataset"
	_ "github.com/gatedlearning/moe/host/dataset/npz"     // tables in archives of numpy
	_ "github.com/gatedlearning/moe/host/dataset/parquet" // tables in Parquet files
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/host/shard/newton"
	"github.com/gatedlearning/moe/sdk"
)

// sum returns the file of sums of one shard.
func (p Pass) sum(ctx context.Context, at shard.Place) ([]byte, error) {
	if p.Kind == Newton {
		return p.sumNewton(ctx, at)
	}
	src, err := concat(p.Data, func(path string) (dataset.Source, error) {
		return dataset.Open(path, dataset.Selection{Target: p.Table.Target, Roles: p.Table.roles(),
			Features: p.Table.Features})
	})
	if err != nil {
		return nil, err
	}
	t, err := shard.Open(ctx, src)
	if err != nil {
		return nil, err
	}
	if p.Kind == First {
		return bounded(shard.Sum(ctx, src, t, at, p.Sample))
	}
	first, err := shard.ReadMoments(p.Given)
	if err != nil {
		return nil, err
	}
	g, err := catalog.Catalog{}.Open(ctx, p.Second.Activation, sdk.Params(p.Second.Params))
	if err != nil {
		return nil, err
	}
	defer g.Close()
	return bounded(shard.SumSpan(ctx, src, t, at, p.Given, first, g.Activation, shard.Asked{K: p.Second.K,
		Sigma: p.Second.Sigma, Family: host.DensityName(p.Second.Family), Dof: p.Second.Dof,
		Transform: host.Transform(p.Second.Transform)}))
}

func (p Pass) sumNewton(ctx context.Context, at shard.Place) ([]byte, error) {
	m, err := fitted.Read(p.Given)
	if err != nil {
		return nil, err
	}
	if err := newton.Admit(p.Given, m); err != nil {
		return nil, err
	}
	g, err := catalog.Catalog{}.Open(ctx, m.Activation.Name, m.Activation.Params)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	if err := m.Activation.Verify(ctx, p.Given, g.Activation); err != nil {
		return nil, err
	}
	src, err := concat(p.Data, func(path string) (dataset.Source, error) {
		sel := predict.Selection(m, false)
		sel.Roles = newton.RolesAt(m, p.Table.roles())
		raw, err := dataset.Open(path, sel)
		if err != nil {
			return nil, err
		}
		return predict.Features(m, raw, false), nil
	})
	if err != nil {
		return nil, err
	}
	t, err := shard.Open(ctx, src)
	if err != nil {
		return nil, err
	}
	return bounded(newton.Sum(ctx, src, t, at, m, g.Activation, 1))
}

func concat(files []string, open func(string) (dataset.Source, error)) (dataset.Source, error) {
	var all []dataset.Source
	for _, path := range files {
		src, err := open(path)
		if err != nil {
			return nil, err
		}
		all = append(all, src)
	}
	return dataset.Concat(all...)
}

// bounded is a file of sums as bytes, no more than [MostBytes].
func bounded[T encoding.BinaryMarshaler](sums T, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	data, err := sums.MarshalBinary()
	if err == nil && len(data) > MostBytes {
		return nil, fmt.Errorf("%d bytes: %w", len(data), errSize)
	}
	return data, err
}

// joinFn joins the sums of neighbouring shards. Messages and what it accumulates are
// files of sums, each behind its length, of as few ranges of shards as those seen make.
type joinFn struct{ Kind string }

// CreateAccumulator returns that of no sums.
func (*joinFn) CreateAccumulator() []byte { return []byte{} }

// AddInput adds sums, which are what an accumulator is.
func (f *joinFn) AddInput(acc, sums []byte) ([]byte, error) { return f.MergeAccumulators(acc, sums) }

// MergeAccumulators puts two together.
func (f *joinFn) MergeAccumulators(a, b []byte) ([]byte, error) {
	if f.Kind == Newton {
		return joined(a, b, func(n *newton.Sums) shard.Place { return n.Place }, newton.Join)
	}
	return joined(a, b, func(m *shard.Moments) shard.Place { return m.Place }, shard.JoinMoments)
}

// joined reads two accumulators, joins what follows one another in them, and writes
// what is left.
func joined[T any, P interface {
	*T
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}](a, b []byte, at func(P) shard.Place, join func([]string, []P) (P, error)) ([]byte, error) {
	all, err := unframed[T, P](append(slices.Clip(a), b...))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(x, y P) int { return cmp.Compare(at(x).I, at(y).I) })
	var out []byte
	for from := 0; from < len(all); {
		to, names := from+1, []string{nameOf(at(all[from]))}
		for ; to < len(all) && at(all[to]).I == max(at(all[to-1]).I, at(all[to-1]).To)+1; to++ {
			names = append(names, nameOf(at(all[to])))
		}
		one, err := join(names, all[from:to])
		if err != nil {
			return nil, err
		}
		data, err := bounded(one, nil)
		if err != nil {
			return nil, err
		}
		out = append(out, framed(data)...)
		from = to
	}
	if len(out) > MostBytes {
		return nil, fmt.Errorf("%d bytes: %w", len(out), errSize)
	}
	return out, nil
}

// nameOf is what errors call the sums of a range.
func nameOf(at shard.Place) string { return fmt.Sprintf("shard %d of %d", at.I, at.N) }

// framed is a file of sums behind its length.
func framed(data []byte) []byte {
	return append(binary.AppendUvarint(nil, uint64(len(data))), data...)
}

var errFrame = errors.New("a message that was cut short")

// unframed reads an accumulator.
func unframed[T any, P interface {
	*T
	encoding.BinaryUnmarshaler
}](acc []byte) (all []P, err error) {
	for len(acc) > 0 {
		n, used := binary.Uvarint(acc)
		if used <= 0 || n > uint64(len(acc)-used) {
			return nil, errFrame
		}
		one := P(new(T))
		if err := one.UnmarshalBinary(acc[used : used+int(n)]); err != nil {
			return nil, err
		}
		all = append(all, one)
		acc = acc[used+int(n):]
	}
	return all, nil
}

// write writes the file of the pass: all of the moments, or the step of Newton's method.
func (p Pass) write(ctx context.Context, acc []byte) error {
	if p.Kind == Newton {
		all, err := unframed[newton.Sums](acc)
		if err != nil {
			return err
		}
		s, err := step(ctx, names(all, func(n *newton.Sums) shard.Place { return n.Place }), all)
		if err != nil {
			return err
		}
		return s.Model.Write(ctx, p.Out)
	}
	all, err := unframed[shard.Moments](acc)
	if err != nil {
		return err
	}
	m, err := shard.MergeMoments(names(all, func(m *shard.Moments) shard.Place { return m.Place }), all)
	if err != nil {
		return err
	}
	return m.Write(ctx, p.Out)
}

// step is the step of a pass, or the certificate behind the last.
func step(ctx context.Context, names []string, all []*newton.Sums) (*newton.Step, error) {
	if !all[0].Certificate() {
		return newton.Merge(names, all)
	}
	m, err := all[0].At()
	if err != nil {
		return nil, err
	}
	g, err := catalog.Catalog{}.Open(ctx, m.Activation.Name, m.Activation.Params)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	return newton.Certify(ctx, names, all, g.Activation, 1)
}

func names[P any](all []P, at func(P) shard.Place) []string {
	out := make([]string, len(all))
	for i, one := range all {
		out[i] = nameOf(at(one))
	}
	return out
}
