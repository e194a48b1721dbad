package problem

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/plugins/identity"
)

// sumsOf are the sums of all rows of a table, whose columns are seen in three parts of its blocks, and the sample that
// is its first blocks.
func sumsOf(t *testing.T, x *mat.Dense, y []float64) (all Sums, sample *model.Data) {
	t.Helper()
	src := dataset.Matrix(x, y)
	rows, err := dataset.Load(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	second, err := tensor.SumSecond(t.Context(), rows, 1)
	if err != nil {
		t.Fatal(err)
	}
	all = Sums{Schema: src.Schema(), Second: second, Columns: NewColumns(rows.D), Dropped: 4}
	parts := []Columns{NewColumns(rows.D), NewColumns(rows.D), NewColumns(rows.D)}
	for i := range rows.Blocks {
		parts[i%3].Add(i, &rows.Blocks[i])
	}
	for _, part := range parts {
		all.Columns.Merge(part)
	}
	return all, &model.Data{N: 2 * model.BlockRows, D: rows.D, Blocks: rows.Blocks[:2]}
}

// TestFromSums: of sums of all rows and a sample a problem has the units, inputs and sums that one of all rows has, and the
// sample's rows in those units.
func TestFromSums(t *testing.T) {
	act := activation(t, identity.Family)
	for name, size := range map[string][]float64{"standard": {1, 1}, "units": {7, 1e-3}} {
		x, y := table(900, []float64{0, 0}, size)
		all, sample := sumsOf(t, x, y)
		want := loaded(t, dataset.Matrix(x, y), Request{K: 2})
		got, err := FromSums(t.Context(), all, sample, act, Request{K: 2, Seed: 5, Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Units, got.Units); diff != "" {
			t.Errorf("%s: units %s", name, diff)
		}
		if diff := cmp.Diff(want.Second, got.Second); diff != "" {
			t.Errorf("%s: sums %s", name, diff)
		}
		if got.Inputs.Far != want.Inputs.Far || (got.Units == nil) != (name == "standard") || got.Dropped != 4 || got.Seed != 5 || got.N() != 512 || got.G.Activation == nil {
			t.Errorf("%s: inputs %q, want %q; units %v, %d dropped, %d rows", name, got.Inputs.Far, want.Inputs.Far, got.Units, got.Dropped, got.N())
		}
		rows, all900 := data(t, model.Rows(got.Rows)), data(t, want.Rows)
		for i := range rows.Blocks {
			if diff := cmp.Diff(all900.Blocks[i].X, rows.Blocks[i].X); diff != "" {
				t.Errorf("%s: block %d %s", name, i, diff)
			}
		}
	}
}

// TestFromSumsRefuses what [Load] refuses of the rows themselves, in its words, and means that would have to be taken off.
func TestFromSumsRefuses(t *testing.T) {
	const n = 700
	act := activation(t, identity.Family)
	for name, c := range map[string]struct {
		change func(x *mat.Dense, y []float64)
		r      Request
		want   string
	}{
		"good":             {func(*mat.Dense, []float64) {}, Request{K: 2}, ""},
		"constant":         {func(x *mat.Dense, _ []float64) { setColumn(x, 1, func(int) float64 { return 2.5 }) }, Request{K: 2}, `column "x2" is 2.5 in every row; drop it`},
		"constant, below":  {func(x *mat.Dense, _ []float64) { setColumn(x, 1, func(int) float64 { return -2.5 }) }, Request{K: 2}, `column "x2" is -2.5 in every row; drop it`},
		"constant but one": {func(x *mat.Dense, _ []float64) { setColumn(x, 1, func(i int) float64 { return float64(i / (n - 1)) }) }, Request{K: 2}, ""},
		"equal":            {func(x *mat.Dense, _ []float64) { setColumn(x, 2, func(i int) float64 { return x.At(i, 0) }) }, Request{K: 2}, `columns "x1" and "x3" are equal in every row`},
		"equal but one": {func(x *mat.Dense, _ []float64) {
			setColumn(x, 2, func(i int) float64 { return x.At(i, 0) + float64(i/(n-1)) })
		}, Request{K: 2}, ""},
		"the target":       {func(x *mat.Dense, y []float64) { setColumn(x, 2, func(i int) float64 { return y[i] }) }, Request{K: 2}, `columns "x3" and "y" are equal in every row`},
		"in another order": {func(x *mat.Dense, _ []float64) { setColumn(x, 2, func(i int) float64 { return x.At((i+256)%n, 0) }) }, Request{K: 2}, ""},
		"too large":        {func(x *mat.Dense, _ []float64) { x.Set(300, 1, 1e80) }, Request{K: 2}, `column "x2" has values up to 1e+80`},
		"too large, below": {func(x *mat.Dense, _ []float64) { x.Set(300, 1, -1e80) }, Request{K: 2}, `column "x2" has values up to 1e+80`},
		"too small": {func(_ *mat.Dense, y []float64) {
			for i := range y {
				y[i] *= 1e-90
			}
		}, Request{K: 2}, `column "y" has values up to`},
		"too many experts": {func(*mat.Dense, []float64) {}, Request{K: 701}, "k = 701 experts for 700 rows"},
		"too many":         {func(*mat.Dense, []float64) {}, Request{K: 200}, "700 rows cannot determine"},
	} {
		x, y := table(n, []float64{0, 0, 0}, []float64{1, 1, 1})
		c.change(x, y)
		all, sample := sumsOf(t, x, y)
		_, err := FromSums(t.Context(), all, sample, act, c.r)
		_, same := Load(t.Context(), dataset.Matrix(x, y), act, c.r)
		if (err != nil) != (c.want != "") || err != nil && (same == nil || err.Error() != same.Error() || !strings.Contains(err.Error(), c.want)) || err == nil && same != nil {
			t.Errorf("%s: %v, of the rows %v, want %q", name, err, same, c.want)
		}
	}
	x, y := table(n, []float64{0, 0, 0}, []float64{1, 1, 1})
	all, sample := sumsOf(t, x, y)
	if _, err := FromSums(t.Context(), all, sample, act, Request{K: 2, Intercepts: BothIntercepts}); err == nil || !strings.Contains(err.Error(), "have no intercepts") {
		t.Errorf("intercepts: %v", err)
	}
	if _, err := FromSums(t.Context(), all, sample, act, Request{K: 2, ExpertFeatures: []string{"z"}}); err == nil || !strings.Contains(err.Error(), `feature "z"`) {
		t.Errorf("an unknown feature: %v", err)
	}
	for i := range sample.Blocks {
		sample.Blocks[i].Role[model.Weights] = make([]float64, model.BlockRows)
		for r := range sample.Blocks[i].Role[model.Weights] {
			sample.Blocks[i].Role[model.Weights][r] = 0.25
		}
	}
	p, err := FromSums(t.Context(), all, sample, act, Request{K: 2})
	if err != nil || p.Weights.Total != 128 || !p.Weights.Light() || math.Abs(data(t, p.Rows).Blocks[0].Role[model.Weights][0]-0.75) > 0.26 {
		t.Errorf("weights %+v, notes %q, error %v", p.Weights, p.Notes, err)
	}
}
