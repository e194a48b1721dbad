package shard_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	_ "github.com/gatedlearning/moe/host/dataset/parquet"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/host/shard/shardtest"
	_ "github.com/gatedlearning/moe/internal/testheap"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/leakyrelu"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/sdk"
)

// TestJoin: parts that are joined by twos and threes, travel and are merged are the
// parts merged at once, to the byte; what does not follow is refused.
func TestJoin(t *testing.T) {
	const n = 7
	ctx, src, act := t.Context(), shardtest.Rows(5000, 0, 1, false), shardtest.Activation(t, relu.Family)
	table, err := shard.Open(ctx, src)
	if err != nil {
		t.Fatal(err)
	}
	files := []string{"1", "2", "3", "4", "5", "6", "7"}
	round := func(sum func(shard.Place) (*shard.Moments, error)) *shard.Moments {
		var sent [][]byte
		for i := range n {
			p, err := sum(shard.Place{I: i + 1, N: n})
			if err != nil {
				t.Fatal(err)
			}
			data, err := p.MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			sent = append(sent, data)
		}
		received := func(from, to int) (parts []*shard.Moments) {
			for _, data := range sent[from:to] {
				p := new(shard.Moments)
				if err := p.UnmarshalBinary(data); err != nil {
					t.Fatal(err)
				}
				parts = append(parts, p)
			}
			return parts
		}
		join := func(from, to int) *shard.Moments {
			m, err := shard.JoinMoments(files[from:to], received(from, to))
			if err != nil {
				t.Fatal(err)
			}
			return shardtest.Travel(t, m)
		}
		want, err := shard.MergeMoments(files, received(0, n))
		if err != nil {
			t.Fatal(err)
		}
		got, err := shard.MergeMoments(files[:3], []*shard.Moments{join(5, 7), join(0, 2), join(2, 5)})
		if err != nil {
			t.Fatal(err)
		}
		a, errA := got.MarshalBinary()
		b, errB := want.MarshalBinary()
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("round %d: joined first the sums are others", want.Round())
		}
		if _, err := shard.JoinMoments(files[:2], append(received(0, 1), received(2, 3)...)); err == nil || err.Error() != "2: part 3 of 7 does not follow part 1 of 7" {
			t.Error(err)
		}
		if _, err := shard.MergeMoments(files[:2], []*shard.Moments{join(0, 2), join(1, 7)}); err == nil || err.Error() != "2: part 2 of 7 is there already, in 1" {
			t.Error(err)
		}
		if _, err := shard.MergeMoments(files[:2], []*shard.Moments{join(0, 2), join(3, 7)}); err == nil || err.Error() != "1: of the 7 parts one is missing: 3" {
			t.Error(err)
		}
		return shardtest.Travel(t, got)
	}
	first := round(func(at shard.Place) (*shard.Moments, error) {
		return shard.Sum(ctx, src, table, at, shard.Subsample{Seed: 1, Rows: 800})
	})
	round(func(at shard.Place) (*shard.Moments, error) {
		return shard.SumSpan(ctx, src, table, at, "first", first, act, shard.Asked{K: 2, Transform: host.Polynomial})
	})
	squares := round(func(at shard.Place) (*shard.Moments, error) {
		return shard.SumSpan(ctx, src, table, at, "first", first, act, shard.Asked{K: 2, Transform: host.Optimal})
	})
	round(func(at shard.Place) (*shard.Moments, error) {
		return shard.SumSpan(ctx, src, table, at, "squares", squares, act, shard.Asked{K: 2, Transform: host.Optimal})
	})
}

// rounds makes all rounds over a source.
func rounds(t *testing.T, src dataset.Source, parts int, act sdk.Activation, take int, transform host.Transform) *shard.Moments {
	t.Helper()
	ctx := t.Context()
	table, err := shard.Open(ctx, src)
	if err != nil {
		t.Fatal(err)
	}
	first := shardtest.Merged(t, parts, func(at shard.Place) (*shard.Moments, error) {
		return shard.Sum(ctx, src, table, at, shard.Subsample{Seed: 1, Rows: take})
	})
	return shardtest.Later(t, src, table, parts, act, first, shard.Asked{K: 2, Transform: transform})
}

// TestToTheByte: a fit to sums of shards is the fit to all rows: where the subsample is
// all rows the model's file is the same to the last byte, where it is not the moment
// estimate is, at any number of shards and in any order; also of rows with weights, of
// features that have to be brought to other units, and of several files.
func TestToTheByte(t *testing.T) {
	testslow.Mark(t)
	for name, c := range map[string]struct {
		src    dataset.Source
		family sdk.Family
	}{
		"standard": {shardtest.Rows(5000, 0, 1, false), relu.Family},
		"weights":  {shardtest.Rows(7000, 0, 1, true), relu.Family},
		"units":    {shardtest.Rows(4000, 3, 40, false), relu.Family},
		"both":     {shardtest.Rows(6001, -1, 0.1, true), leakyrelu.Family},
	} {
		t.Run(name, func(t *testing.T) {
			act, ctx := shardtest.Activation(t, c.family), t.Context()
			for transform, many := range map[host.Transform][]int{
				host.Polynomial: {1, 2, 7, 40}, // 40 parts of some 20 blocks: some have none
				host.Optimal:    {1, 7},        // which each make transforms of their own
			} {
				want := make(map[host.Method]*fitted.Model)
				cfg := host.Config{K: 2, Transform: transform, Seed: 3}
				for _, cfg.Method = range []host.Method{host.Moments{}, host.Spectral{}} {
					m, err := host.Fit(ctx, act, c.src, cfg)
					if err != nil {
						t.Fatal(err)
					}
					want[cfg.Method] = m
				}
				for _, parts := range many {
					sums := rounds(t, c.src, parts, act, 1<<16, transform)
					for cfg.Method = range want {
						got, err := host.FitSums(ctx, act, sums, "all", cfg)
						if err != nil {
							t.Fatal(err)
						}
						shardtest.EqualJSON(t, fmt.Sprintf("%s, %s, in %d parts", cfg.Method.Name(), transform, parts), got, want[cfg.Method])
					}
				}
				sums := rounds(t, c.src, 3, act, 900, transform)
				for cfg.Method = range want {
					part, err := host.FitSums(ctx, act, sums, "all", cfg)
					if err != nil {
						t.Fatal(err)
					}
					want := want[cfg.Method]
					if !reflect.DeepEqual(part.Fit.MomentsEstimate, want.Fit.MomentsEstimate) {
						t.Errorf("%s, %s: another estimate %v where the subsample is not all rows, want %v", cfg.Method.Name(), transform, part.Fit.MomentsEstimate, want.Fit.MomentsEstimate)
					}
					if part.Fit.N == want.Fit.N || !strings.Contains(strings.Join(part.Fit.Notes, "\n"), "random subsample") {
						t.Errorf("%s, %s: %d rows, notes %q", cfg.Method.Name(), transform, part.Fit.N, part.Fit.Notes)
					}
				}
			}
		})
	}
}

// TestWideDesign: of so many features that the design is told from a part of the rows, sums of shards and all rows tell
// the same. TestToTheByte has designs that all rows tell.
func TestWideDesign(t *testing.T) {
	testslow.Mark(t)
	const n, d = 8000, 300
	if most := moment.DesignRows(d); most >= n-model.BlockRows {
		t.Fatalf("the design is told from %d rows", most)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	x, y := mat.NewDense(n, d, nil), make([]float64, n)
	for r := range y {
		row := x.RawRowView(r)
		for j := range row {
			row[j] = rng.NormFloat64()
		}
		z := row[0]
		if row[2]+row[3] > rng.NormFloat64() {
			z = 0.6*row[0] + 0.8*row[1]
		}
		y[r] = max(0, z) + 0.05*rng.NormFloat64()
	}
	src, act := dataset.Matrix(x, y), shardtest.Activation(t, relu.Family)
	cfg := host.Config{K: 2, Transform: host.Optimal, Seed: 3, Method: host.Spectral{}}
	want, err := host.Fit(t.Context(), act, src, cfg)
	if err != nil {
		t.Fatal(err)
	}
	got, err := host.FitSums(t.Context(), act, rounds(t, src, 3, act, 1<<16, host.Optimal), "all", cfg)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Fit.MomentsEstimate, want.Fit.MomentsEstimate) {
		t.Errorf("in 3 parts the estimate is %v, want %v", got.Fit.MomentsEstimate, want.Fit.MomentsEstimate)
	}
}

// TestSeveralFiles: parts of files that are read one behind the other are parts of the
// rows of all of them, from formats that can be entered anywhere and from others.
func TestSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	x, y := mat.NewDense(2300, 4, nil), make([]float64, 2300)
	rng := rand.New(rand.NewPCG(2, 2))
	for i := range y {
		for j := range 4 {
			x.Set(i, j, rng.NormFloat64())
		}
		y[i] = rng.NormFloat64()
	}
	whole := dataset.Matrix(x, y)
	for _, format := range []string{"csv", "npy", "parquet"} {
		var list []dataset.Source
		for f, cut := range [][2]int{{0, 300}, {300, 812}, {812, 815}, {815, 2300}} {
			path := filepath.Join(dir, fmt.Sprintf("%d.%s", f, format))
			part := dataset.Matrix(x.Slice(cut[0], cut[1], 0, 4).(*mat.Dense), y[cut[0]:cut[1]])
			if err := dataset.Write(t.Context(), path, part); err != nil {
				t.Fatal(err)
			}
			src, err := dataset.Open(path, dataset.Selection{})
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, src)
		}
		src, err := dataset.Concat(list...)
		if err != nil {
			t.Fatal(err)
		}
		want, err := dataset.Load(t.Context(), whole)
		if err != nil {
			t.Fatal(err)
		}
		got, err := dataset.Load(t.Context(), src)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: the files together are not the table, %v", format, err)
		}
		for _, counted := range []bool{false, true} {
			if counted {
				if n, err := dataset.Count(t.Context(), src); err != nil || n != 2300 {
					t.Fatalf("%s: %d rows, %v", format, n, err)
				}
			}
			for from := range len(want.Blocks) + 1 {
				i := from
				to := min(from+3, len(want.Blocks))
				err := dataset.ReadRange(t.Context(), src, from, to, func(at int, b *model.Block) error {
					if at != i || !reflect.DeepEqual(b.Clone(), want.Blocks[i].Clone()) {
						t.Errorf("%s from block %d: block %d is another", format, from, i)
					}
					i++
					return nil
				})
				if err != nil || i != to {
					t.Errorf("%s: blocks %d to %d: ended before %d, %v", format, from, to, i, err)
				}
			}
		}
	}
}

// TestPlaces: parts are the blocks, each once, of about equal size, and begin where few
// nodes of the tree do.
func TestPlaces(t *testing.T) {
	for _, blocks := range []int{1, 7, 64, 1000, 39_062_500} {
		for _, n := range []int{1, 2, 3, 10, 1000, 4096} {
			at, most := 0, 0
			for i := range n {
				from, to := shard.Place{I: i + 1, N: n}.Blocks(blocks)
				if from != at || to < from {
					t.Fatalf("%d blocks: part %d of %d is %d to %d, the one before ended at %d", blocks, i+1, n, from, to, at)
				}
				at, most = to, max(most, to-from)
			}
			if at != blocks || float64(most) > math.Ceil(1.25*float64(blocks)/float64(n)) {
				t.Errorf("%d blocks in %d parts: the last ends at %d, the largest has %d", blocks, n, at, most)
			}
		}
	}
	for _, text := range []string{"", "1", "0/3", "4/3", "-1/3", "1/0", "a/b", "1/3/5", " 1/3", "1/99999999999999999999", "1/9999999"} {
		if p, err := shard.ParsePlace(text); err == nil {
			t.Errorf("%q is read as %v", text, p)
		}
	}
}

// TestSubsample: of a table the rows of the sample are the same whatever the parts, as
// many as were asked for within five standard errors, and spread evenly: their mean
// place too is within five.
func TestSubsample(t *testing.T) {
	const n, take = 20000, 2000
	x, y := mat.NewDense(n, 1, nil), make([]float64, n)
	for i := range y {
		x.Set(i, 0, float64(i+1))
		y[i] = float64(i % 7)
	}
	src := dataset.Matrix(x, y)
	table, err := shard.Open(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	sample := func(parts int, seed uint64) *model.Data {
		return shardtest.Merged(t, parts, func(at shard.Place) (*shard.Moments, error) {
			return shard.Sum(t.Context(), src, table, at, shard.Subsample{Seed: seed, Rows: take})
		}).SampleData()
	}
	one := sample(1, 1)
	if !reflect.DeepEqual(one, sample(9, 1)) {
		t.Error("in 9 parts the sample is another")
	}
	if reflect.DeepEqual(one, sample(1, 2)) {
		t.Error("another seed takes the same rows")
	}
	mean := 0.0
	for _, b := range one.Blocks {
		for _, v := range b.Col(0) {
			mean += v / float64(one.N)
		}
	}
	if math.Abs(float64(one.N)-take) > 5*math.Sqrt(take) || math.Abs(mean-n/2) > 5*n/math.Sqrt(12*take) {
		t.Errorf("%d rows with mean place %v", one.N, mean)
	}
}

// TestPartsThatDoNotFit: every way in which parts do not belong together is an error
// that says it and names the file.
func TestPartsThatDoNotFit(t *testing.T) {
	ctx, src, other := t.Context(), shardtest.Rows(3000, 0, 1, false), shardtest.Rows(3001, 0, 1, false)
	changed := shardtest.Rows(3000, 0, 1.5, false)
	act, leaky := shardtest.Activation(t, relu.Family), shardtest.Activation(t, leakyrelu.Family)
	sum := func(src dataset.Source, i, n, take int) *shard.Moments {
		table, err := shard.Open(ctx, src)
		if err != nil {
			t.Fatal(err)
		}
		m, err := shard.Sum(ctx, src, table, shard.Place{I: i, N: n}, shard.Subsample{Seed: 1, Rows: take})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	whole := func(src dataset.Source) *shard.Moments {
		m, err := shard.MergeMoments([]string{"a"}, []*shard.Moments{sum(src, 1, 1, 500)})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	span := func(src dataset.Source, i, n, k int, act sdk.Activation, sigma float64, first *shard.Moments) (*shard.Moments, error) {
		table, err := shard.Open(ctx, src)
		if err != nil {
			t.Fatal(err)
		}
		return shard.SumSpan(ctx, src, table, shard.Place{I: i, N: n}, "first", first, act, shard.Asked{K: k, Sigma: sigma, Transform: host.Polynomial})
	}
	second := func(i, k int, act sdk.Activation, sigma float64) *shard.Moments {
		m, err := span(src, i, 2, k, act, sigma, whole(src))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for want, parts := range map[string][]*shard.Moments{
		"c: part 2 of 3 is there already, in b":                       {sum(src, 1, 3, 500), sum(src, 2, 3, 500), sum(src, 2, 3, 500)},
		"a: of the 3 parts one is missing: 2":                         {sum(src, 3, 3, 500), sum(src, 1, 3, 500)},
		"a: of the 4 parts some are missing: 1, 4":                    {sum(src, 3, 4, 500), sum(src, 2, 4, 500)},
		"b: part 2 of 3, beside parts of 2 in a":                      {sum(src, 1, 2, 500), sum(src, 2, 3, 500)},
		"b: it does not go with a: 3001 rows, not 3000":               {sum(src, 1, 2, 500), sum(other, 2, 2, 500)},
		"b: it does not go with a: other values in the first rows":    {sum(src, 1, 2, 500), sum(changed, 2, 2, 500)},
		"b: it does not go with a: a sample of 600 rows":              {sum(src, 1, 2, 500), sum(src, 2, 2, 600)},
		"b: it does not go with a: they are of different rounds":      {sum(src, 1, 2, 500), second(2, 2, act, 0)},
		"b: it does not go with a: it is made for leakyrelu":          {second(1, 2, act, 0), second(2, 2, leaky, 0)},
		"b: it does not go with a: it is made for relu, k = 1":        {second(1, 2, act, 0), second(2, 1, act, 0)},
		"b: it does not go with a: it is made for relu, k = 2, sigma": {second(1, 2, act, 0), second(2, 2, act, 0.5)},
		"a: it is no part but the whole":                              {whole(src)},
	} {
		files := []string{"a", "b", "c"}[:len(parts)]
		if _, err := shard.MergeMoments(files, parts); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := span(other, 1, 1, 2, act, 0, whole(src)); err == nil || !strings.Contains(err.Error(), "first: it is of another table: it has 3000 rows, not 3001") {
		t.Errorf("the second round over other data: %v", err)
	}
	if _, err := span(src, 1, 1, 2, act, 0, sum(src, 1, 2, 500)); err == nil || !strings.Contains(err.Error(), "merge the parts first") {
		t.Errorf("a part for the whole: %v", err)
	}
	// Data whose first rows alone are the same.
	late, err := dataset.Load(ctx, src)
	if err != nil {
		t.Fatal(err)
	}
	late.Blocks[5].Y[3]++
	if _, err := span(shardtest.InMemory{Source: src, Data: late}, 1, 1, 2, act, 0, whole(src)); err == nil || !strings.Contains(err.Error(), "first: it is of another table: it has other values in rows behind the first") {
		t.Errorf("data that have changed between the rounds: %v", err)
	}
	all, err := shard.MergeMoments([]string{"a", "b"}, []*shard.Moments{second(1, 2, act, 0), second(2, 2, act, 0)})
	if err != nil {
		t.Fatal(err)
	}
	// Rounds in the wrong order, and of other transforms.
	table, err := shard.Open(ctx, src)
	if err != nil {
		t.Fatal(err)
	}
	optimal := func(given *shard.Moments, k int) (*shard.Moments, error) {
		m, err := shard.SumSpan(ctx, src, table, shard.Place{I: 1, N: 1}, "given", given, act, shard.Asked{K: k, Transform: host.Optimal})
		if err != nil {
			return nil, err
		}
		return shard.MergeMoments([]string{"a"}, []*shard.Moments{m})
	}
	squares, err := optimal(whole(src), 2)
	if err != nil {
		t.Fatal(err)
	}
	third, err := optimal(squares, 2)
	if err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]struct {
		given *shard.Moments
		k     int
	}{
		"given: it has the last of 2 rounds": {all, 2},
		"given: it has the last of 3 rounds": {third, 2},
		"given: it was made for relu, k = 2, transform = optimal, this round is for relu, k = 1, transform = optimal": {squares, 1},
	} {
		if _, err := optimal(c.given, c.k); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := span(src, 1, 1, 2, act, 0, squares); err == nil || !strings.Contains(err.Error(), "this round is for relu, k = 2") {
		t.Errorf("the polynomials behind the optimal transform: %v", err)
	}
	for want, c := range map[string]struct {
		sums *shard.Moments
		cfg  host.Config
		act  sdk.Activation
	}{
		"made for relu, k = 2, the fit is of relu, k = 3":             {all, host.Config{K: 3}, act},
		"made for relu, k = 2, the fit is of leakyrelu":               {all, host.Config{K: 2}, leaky},
		"the fit is of relu, k = 2, sigma = 0.1":                      {all, host.Config{K: 2, Noise: host.Shared{Sigma: 0.1}}, act},
		"it has the first of two rounds":                              {whole(src), host.Config{K: 2}, act},
		"it has the second of three rounds":                           {squares, host.Config{K: 2}, act},
		"the fit is of relu, k = 2":                                   {third, host.Config{K: 2, Transform: host.Polynomial}, act},
		"it is part 1 of 2: merge the parts first":                    {second(1, 2, act, 0), host.Config{K: 2}, act},
		"relu, k = 2, the fit is of relu, k = 2, transform = optimal": {all, host.Config{K: 2, Transform: host.Optimal}, act},
		"intercept has no effect on method moments":                   {all, host.Config{K: 2, Intercepts: host.BothIntercepts}, act},
	} {
		c.cfg.Method = host.Moments{}
		if _, err := host.FitSums(ctx, c.act, c.sums, "all", c.cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestDamagedFiles: a file that is cut or has a bit flipped is refused.
func TestDamagedFiles(t *testing.T) {
	src := shardtest.Rows(600, 0, 1, false)
	for transform, step := range map[host.Transform]int{host.Polynomial: 7, host.Optimal: 61} {
		good, err := rounds(t, src, 2, shardtest.Activation(t, relu.Family), 50, transform).MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(good); i += step {
			bad := bytes.Clone(good)
			bad[i] ^= 4
			if new(shard.Moments).UnmarshalBinary(bad) == nil {
				t.Fatalf("a bit of byte %d is flipped, and the file is read", i)
			}
			if new(shard.Moments).UnmarshalBinary(good[:i]) == nil {
				t.Fatalf("%d of %d bytes are read", i, len(good))
			}
		}
	}
}
