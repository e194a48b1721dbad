package moebeam

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/ptest"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/host/shard/newton"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/plugins/tanh"
	"github.com/gatedlearning/moe/sdk"
)

// TestMain gives the pipelines a temporary directory of their own: Beam leaves a file of each in it.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "moe-beam-")
	if err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	if err != nil {
		panic(err)
	}
	code := ptest.MainRetWithDefault(m, "prism")
	os.RemoveAll(dir)
	os.Exit(code)
}

// prism runs a pipeline on Prism in this process.
func prism(ctx context.Context, p *beam.Pipeline) error {
	_, err := beam.Run(ctx, "prism", p)
	return err
}

// rows writes n rows of two experts g(±3·x_e) over d features to a file, and returns it
// with the rows.
func rows(t *testing.T, n, d int, g func(float64) float64) (string, *mat.Dense, []float64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, uint64(n)))
	x, y := mat.NewDense(n, d, nil), make([]float64, n)
	for i := range n {
		for j := range d {
			x.Set(i, j, rng.NormFloat64())
		}
		e, sign := 0, 3.0
		if rng.Float64() < 1/(1+math.Exp(-2*x.At(i, 2))) {
			e, sign = 1, -3
		}
		y[i] = g(sign*x.At(i, e)) + 0.1*rng.NormFloat64()
	}
	file := filepath.Join(t.TempDir(), "rows.npy")
	if err := dataset.Write(t.Context(), file, dataset.Matrix(x, y)); err != nil {
		t.Fatal(err)
	}
	return file, x, y
}

// onOne makes a pass of the moments without Beam, in one part.
func onOne(t *testing.T, p Pass) []byte {
	t.Helper()
	p.Shards = 1
	data, err := p.sum(t.Context(), shard.Place{I: 1, N: 1})
	if err != nil {
		t.Fatal(err)
	}
	p.Out = filepath.Join(t.TempDir(), "one")
	if err := p.write(t.Context(), framed(data)); err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(p.Out)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestMoments: all rounds as pipelines give the files that one part gives, to the byte,
// with so many shards that they are joined in two steps; and so they do when a worker
// panics in the middle of a pass.
func TestMoments(t *testing.T) {
	file, _, _ := rows(t, 12000, 4, func(z float64) float64 { return max(z, 0) })
	dir := t.TempDir()
	first := Pass{Kind: First, Data: []string{file}, Sample: shard.Subsample{Seed: 1, Rows: 900}, Shards: 40, Out: filepath.Join(dir, "first")}
	second := Pass{Kind: Second, Data: []string{file}, Given: first.Out, Second: Span{Activation: relu.Family.Name, K: 2}, Shards: 5, Out: filepath.Join(dir, "second")}
	var calls atomic.Int32
	beforeSum = func(i int) {
		if i == 23 && calls.Add(1) == 1 {
			panic("the worker dies")
		}
	}
	defer func() { beforeSum = func(int) {} }()
	if err := first.Run(t.Context(), prism, 0); err == nil {
		t.Fatal("a worker died and nobody saw it")
	}
	if _, err := os.Stat(first.Out); err == nil {
		t.Fatal("a pass that failed wrote its file")
	}
	calls.Store(0)
	optimal, third := second, second
	optimal.Second.Transform, optimal.Out = "optimal", filepath.Join(dir, "optimal")
	third.Second.Transform, third.Given, third.Out = "optimal", optimal.Out, filepath.Join(dir, "third")
	for _, p := range []Pass{first, second, optimal, third} {
		if err := p.Run(t.Context(), prism, 1); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(p.Out)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, onOne(t, p)) {
			t.Errorf("the %s pass for %s differs from that of one part", p.Kind, filepath.Base(p.Out))
		}
	}
	if n := calls.Load(); n != 2 {
		t.Errorf("shard 23 was summed %d times, want 2: once before the worker died", n)
	}
}

// TestMaximise: passes of Newton's method as pipelines, from the fit of a third of the rows,
// end where the fit of all rows on one machine does, to 1e-9.
func TestMaximise(t *testing.T) {
	const d = 3
	act, err := sigmoid.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	file, x, y := rows(t, 6000, d, func(z float64) float64 { return 1 / (1 + math.Exp(-z)) })
	ctx, dir := t.Context(), t.TempDir()
	cfg := host.Config{K: 2}
	want, err := host.Fit(ctx, act, dataset.Matrix(x, y), cfg)
	if err != nil {
		t.Fatal(err)
	}
	start, err := host.Fit(ctx, act, dataset.Matrix(x.Slice(0, 2000, 0, d).(*mat.Dense), y[:2000]), cfg)
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, "start.json")
	if err := start.Write(ctx, at); err != nil {
		t.Fatal(err)
	}
	m, err := Pass{Data: []string{file}, Given: at, Shards: 7, Out: filepath.Join(dir, "end.json")}.Maximise(ctx, prism, 0, dir)
	if err != nil {
		t.Fatal(err)
	}
	if !m.Fit.Converged || m.Fit.Iterations < 2 {
		t.Fatalf("%s after %d passes", m.Fit.Status, m.Fit.Iterations)
	}
	order := []int{0, 1}
	if math.Abs(m.Regressors[0][0]-want.Regressors[0][0]) > 1 {
		order = []int{1, 0}
	}
	a := slices.Concat(m.Regressors...)
	b := slices.Concat(want.Regressors[order[0]], want.Regressors[order[1]])
	a, b = append(a, m.Sigma...), append(b, want.Sigma...)
	a, b = append(a, slices.Concat(m.StandardErrors.Regressors...)...), append(b, slices.Concat(want.StandardErrors.Regressors[order[0]], want.StandardErrors.Regressors[order[1]])...)
	for i := range a {
		if math.Abs(a[i]-b[i]) > 1e-9*max(1, math.Abs(b[i])) {
			t.Errorf("%v, on one machine %v", a[i], b[i])
		}
	}
	if c, ref := m.Fit.Certificate, want.Fit.Certificate; c == nil || c.Optimum != ref.Optimum || c.Model != ref.Model || math.Abs(c.PValue-ref.PValue) > 1e-9 {
		t.Errorf("certificate %+v, on one machine %+v", c, ref)
	}
}

// TestMaximiseGroups: of rows in groups passes as pipelines end where the fit on one machine does, and a group that is in
// two shards ends them, by its name.
func TestMaximiseGroups(t *testing.T) {
	const groups, each = 600, 5
	act, err := identity.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	rng, dir, ctx := rand.New(rand.NewPCG(8, 1)), t.TempDir(), t.Context()
	x, y, ids := mat.NewDense(groups*each, 1, nil), make([]float64, groups*each), make([]float64, groups*each)
	for i := range y {
		x.Set(i, 0, rng.NormFloat64())
		g := i / each
		ids[i] = float64(g)
		y[i] = float64(1-2*min(g%3, 1))*(1+x.At(i, 0)) + 0.5*rng.NormFloat64()
	}
	table := func(name string, from, to int) (string, *dataset.Table) {
		out := dataset.Matrix(x.Slice(from, to, 0, 1).(*mat.Dense), y[from:to]).With(model.Groups, "id", ids[from:to])
		file := filepath.Join(dir, name)
		if err := dataset.Write(ctx, file, out); err != nil {
			t.Fatal(err)
		}
		return file, out
	}
	cfg := host.Config{K: 2, Intercepts: host.BothIntercepts}
	file, all := table("all.csv", 0, len(y))
	want, err := host.Fit(ctx, act, all, cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, some := table("some.csv", 0, 500)
	start, err := host.Fit(ctx, act, some, cfg)
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, "start.json")
	if err := start.Write(ctx, at); err != nil {
		t.Fatal(err)
	}
	p := Pass{Data: []string{file}, Given: at, Shards: 7, Out: filepath.Join(dir, "end.json")}
	m, err := p.Maximise(ctx, prism, 0, dir)
	if err != nil {
		t.Fatal(err)
	}
	if !m.Fit.Converged || m.Groups == nil || m.Groups.Count != groups {
		t.Errorf("%s, groups %+v", m.Fit.Status, m.Groups)
	}
	if by := m.Fit.LogLikelihood - want.Fit.LogLikelihood; math.Abs(by) > 1e-9 {
		t.Errorf("log-likelihood %v from that on one machine", by)
	}
	if c, ref := m.Fit.Certificate, want.Fit.Certificate; c == nil || c.Model != ref.Model || math.Abs(c.PValue-ref.PValue) > 1e-9 {
		t.Errorf("certificate %+v, on one machine %+v", c, ref)
	}
	ids[len(ids)-1] = 0
	p.Data[0], _ = table("split.csv", 0, len(y))
	if _, err := p.Maximise(ctx, prism, 0, dir); err == nil || !strings.Contains(err.Error(), `group 0 of column "id" has rows in part 7 of 7 and in part 1`) {
		t.Errorf("a group in two shards: %v", err)
	}
}

// TestMessages: joins are as large as their ranges need, whatever order the sums come in, and
// what is no message, or too large, is refused.
func TestMessages(t *testing.T) {
	file, _, _ := rows(t, 12000, 4, func(z float64) float64 { return z })
	p := Pass{Kind: First, Data: []string{file}, Sample: shard.Subsample{Seed: 1, Rows: 10}, Shards: 20}
	join, acc, single := &joinFn{Kind: First}, []byte{}, 0
	for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(p.Shards) {
		data, err := p.sum(t.Context(), shard.Place{I: i + 1, N: p.Shards})
		if err != nil {
			t.Fatal(err)
		}
		single = max(single, len(data))
		if acc, err = join.AddInput(acc, framed(data)); err != nil {
			t.Fatal(err)
		}
	}
	all, err := unframed[shard.Moments](acc)
	if err != nil || len(all) != 1 || len(acc) > 3*single+8*12000*(1+5) { // with all targets and rows, of which every shard has its own
		t.Errorf("%d ranges in %d bytes, one shard has %d; %v", len(all), len(acc), single, err)
	}
	if _, err := join.AddInput(acc, acc[:len(acc)-1]); err == nil {
		t.Error("a message that was cut is joined")
	}
	twice, err := join.MergeAccumulators(acc, acc)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.write(t.Context(), twice); err == nil || !strings.Contains(err.Error(), "part 1 of 20 is there already") {
		t.Errorf("shards that are there twice are merged: %v", err)
	}
	if _, err := bounded(large{}, nil); err == nil {
		t.Error("a message larger than allowed is sent")
	}
}

type large struct{}

func (large) MarshalBinary() ([]byte, error) { return make([]byte, MostBytes+1), nil }

// TestFailures: what the data or the flags have wrong is the pass's error, and says it.
func TestFailures(t *testing.T) {
	dir := t.TempDir()
	for want, p := range map[string]Pass{
		"no such file":            {Kind: First, Data: []string{filepath.Join(dir, "none.npy")}, Shards: 2, Sample: shard.Subsample{Rows: 5}},
		"0 shards: want at least": {Kind: First},
	} {
		p.Out = filepath.Join(dir, "out")
		if err := p.Run(t.Context(), prism, 0); err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestFromTheSubsample: sums of the first round, the fit of their subsample and the passes, all
// but the fit as pipelines, end in at most newton.MostPasses passes where a fit of all rows on one machine
// does that begins at the same start, to 1e-9 of the larger of 1 and a parameter. Twenty designs:
//
//	MOE_STUDY=20 go test . -run TestFromTheSubsample -v
func TestFromTheSubsample(t *testing.T) {
	designs, err := strconv.Atoi(os.Getenv("MOE_STUDY"))
	if err != nil {
		designs = 1
	}
	families := []sdk.Family{sigmoid.Family, identity.Family, tanh.Family, relu.Family}
	for i := range designs {
		act, err := families[i%4].Activation(nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, dir, k := t.Context(), t.TempDir(), 2+i/4%2
		src, err := sample.New(sample.Config{Activation: act, K: k, D: 2*k + i%3, N: 9000 + 100*i, Sigma: 0.1, Seed: uint64(i), Design: sample.Separated})
		if err != nil {
			t.Fatal(err)
		}
		p := Pass{Kind: First, Data: []string{filepath.Join(dir, "rows.npy")}, Shards: 2 + 5*(i%2), Sample: shard.Subsample{Seed: 1, Rows: 2000}, Out: filepath.Join(dir, "first.moments")}
		if err := dataset.Write(ctx, p.Data[0], src); err != nil {
			t.Fatal(err)
		}
		if err := p.Run(ctx, prism, 0); err != nil {
			t.Fatal(err)
		}
		first, err := shard.ReadMoments(p.Out)
		if err != nil {
			t.Fatal(err)
		}
		cfg := host.Config{K: k}
		start, err := host.FitSums(ctx, act, first, p.Out, cfg)
		if err != nil {
			t.Fatal(err)
		}
		p.Given, p.Out = filepath.Join(dir, "start.json"), filepath.Join(dir, "end.json")
		if err := start.Write(ctx, p.Given); err != nil {
			t.Fatal(err)
		}
		m, err := p.Maximise(ctx, prism, 0, dir)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Start, cfg.Method = start.Params(), host.Auto{Starts: 1}
		want, err := host.Fit(ctx, act, src, cfg)
		if err != nil {
			t.Fatal(err)
		}
		off, off2 := 0.0, math.Abs(m.Fit.LogLikelihood-want.Fit.LogLikelihood)
		a, b := m.Params(), want.Params()
		for j, v := range slices.Concat(a.Regressors, a.Gating, a.Sigma) {
			u := slices.Concat(b.Regressors, b.Gating, b.Sigma)[j]
			off = max(off, math.Abs(v-u)/max(1, math.Abs(u)))
		}
		t.Logf("%s, k = %d, %d shards: %s after %d passes, off by %.1e, log-likelihood by %.1e", act.Info().Name, k, p.Shards, m.Fit.Status, m.Fit.Iterations, off, off2)
		if !m.Fit.Converged || m.Fit.Iterations > newton.MostPasses || off2 > 1e-6 || off > 1e-9 {
			t.Errorf("%s after %d passes, off by %v, log-likelihood by %v", m.Fit.Status, m.Fit.Iterations, off, off2)
		}
	}
}
