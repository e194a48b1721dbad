// Package benchmark measures how fast this machine fits: the stages of a fit against
// what its memory and its arithmetic can do, and whole fits as the data grow.
package benchmark

import (
	"context"
	_ "embed" // for the committed figures
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/infer/specification"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/internal/kernel"
)

// Settings say what is measured: a table of N rows of D features and K identity experts.
type Settings struct {
	N, D, K int
	Threads int           // 0: one per processor
	Least   time.Duration // for each stage
}

// Default are the settings of the committed figures, but for the threads.
var Default = Settings{N: 400_000, D: 10, K: 3, Least: 2 * time.Second}

// Stage is how fast a stage of a fit goes.
type Stage struct {
	Name string `json:"name"`
	// RowsPerSecond is that of the fastest pass.
	RowsPerSecond float64 `json:"rows_per_second"`
	// Share is the share of the limit: the time that the machine needs to move the rows' bytes
	// or to make the multiply-adds, whichever is longer, over the time taken.
	Share float64 `json:"share_of_limit"`
	// Limit is what that is: memory or multiply-adds. exp, log and what else a stage
	// does count nothing.
	Limit string `json:"limit"`
	// Committed is rows a second where the committed figures were made, per thread; 0 for
	// a stage that they lack.
	Committed float64 `json:"committed_rows_per_second"`
	// Times is how many times as long a row takes a thread here as there; left out where the committed figures are of
	// another table.
	Times float64 `json:"times_committed,omitzero"`
	// Slow says that Times is more than SlowFactor times that of the machine, [Stages.Times].
	Slow bool `json:"slow"`
}

// SlowFactor is from where on a stage is slow beside the others.
const SlowFactor = 2

// Stages is what was measured.
type Stages struct {
	N       int `json:"n"`
	D       int `json:"d"`
	K       int `json:"k"`
	Threads int `json:"threads"`
	// BytesPerSecond is what a loop that copies reads and writes, all threads together.
	BytesPerSecond float64 `json:"bytes_per_second"`
	// MultiplyAdds is a second's in dot products of what is in the cache, four vectors by
	// four, all threads together.
	MultiplyAdds float64 `json:"multiply_adds_per_second"`
	Stages       []Stage `json:"stages"`
	// Times is how many times as long as where the committed figures were made this machine takes: the median of the
	// stages', which no single stage moves. Left out as theirs.
	Times float64 `json:"times_committed,omitzero"`
}

// Slow returns the stages that are slow beside the others.
func (s *Stages) Slow() []Stage {
	return slices.DeleteFunc(slices.Clone(s.Stages), func(st Stage) bool { return !st.Slow })
}

// compare sets what stands beside the committed figures.
func (s *Stages) compare(committed *Stages) {
	same := s.N == committed.N && s.D == committed.D && s.K == committed.K
	var times []float64
	for i := range s.Stages {
		st := &s.Stages[i]
		at := slices.IndexFunc(committed.Stages, func(c Stage) bool { return c.Name == st.Name })
		if at < 0 {
			continue
		}
		st.Committed = committed.Stages[at].RowsPerSecond
		if same {
			st.Times = st.Committed / float64(committed.Threads) / (st.RowsPerSecond / float64(s.Threads))
			times = append(times, st.Times)
		}
	}
	if len(times) == 0 {
		return
	}
	slices.Sort(times)
	s.Times = (times[(len(times)-1)/2] + times[len(times)/2]) / 2
	for i := range s.Stages {
		s.Stages[i].Slow = s.Stages[i].Times > SlowFactor*s.Times
	}
}

// committed.json is what moe bench --threads 1 --json printed where the figures of
// docs/studies/performance.md were made: of each stage and limit the fastest of seven runs.
//
//go:embed committed.json
var committedJSON []byte

// Committed returns the committed figures, of one thread.
func Committed() (*Stages, error) {
	s := new(Stages)
	return s, json.Unmarshal(committedJSON, s)
}

// turns is how often each stage has its turn.
const turns = 5

// stage is a pass over all rows, with what it asks of the machine for each row.
type stage struct {
	name         string
	bytes        float64
	multiplyAdds float64
	pass         func() error
}

// Run measures every stage, for as long as the settings say; show is told which is
// begun.
func Run(ctx context.Context, act model.Activation, s Settings,
	show func(stage string, done, total int)) (*Stages, error) {
	sampler, err := sample.New(sample.Config{K: s.K, D: s.D, N: s.N, Sigma: 0.05, Activation: act, Design: sample.Paper,
		Seed: 1})
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "moe-bench-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	all, closeFile, err := stages(ctx, sampler, act, s, filepath.Join(dir, "rows.npy"))
	if err != nil {
		return nil, err
	}
	defer closeFile()
	committed, err := Committed()
	if err != nil {
		return nil, err
	}
	threads := model.Workers(s.Threads)
	out := &Stages{N: s.N, D: s.D, K: s.K, Threads: threads, BytesPerSecond: copying(threads, s.Least),
		MultiplyAdds: multiplying(threads, s.Least)}
	// The stages take turns, so that what else the machine does for a while slows them all.
	best := slices.Repeat([]float64{math.Inf(1)}, len(all))
	for turn := range turns {
		for i, st := range all {
			show(st.name, turn*len(all)+i, turns*len(all))
			seconds, err := fastest(s.Least/turns, st.pass)
			if err != nil {
				return nil, err
			}
			best[i] = min(best[i], seconds)
		}
	}
	for i, st := range all {
		each := best[i] / float64(s.N)
		memory, arithmetic := st.bytes/out.BytesPerSecond, st.multiplyAdds/out.MultiplyAdds
		m := Stage{Name: st.name, RowsPerSecond: 1 / each, Share: max(memory, arithmetic) / each, Limit: "memory"}
		if arithmetic > memory {
			m.Limit = "multiply-adds"
		}
		out.Stages = append(out.Stages, m)
	}
	out.compare(committed)
	return out, nil
}

// stages are those of a fit to the rows of sampler, at its truth. The rows are in memory
// and, for the last of them, in a file of this name, which the returned function closes.
func stages(ctx context.Context, sampler *sample.Sampler, act model.Activation, s Settings,
	path string) ([]stage, func(), error) {
	rows, err := dataset.Load(ctx, sampler)
	if err != nil {
		return nil, nil, err
	}
	if err := dataset.Write(ctx, path, sampler); err != nil {
		return nil, nil, err
	}
	src, err := dataset.Open(path, dataset.Selection{})
	if err != nil {
		return nil, nil, err
	}
	file, err := dataset.Rows(ctx, src, 1, 1)
	if err != nil {
		return nil, nil, err
	}
	p, t := sampler.Truth, model.Workers(s.Threads)
	k, d := float64(s.K), float64(s.D)
	l := loss.NewLikelihood(rows, act, p, loss.All, t)
	theta := l.Theta(p)
	dst := make([]float64, l.Dim())
	h := mat.NewSymDense(l.Dim(), nil)
	basis := mat.NewDense(s.D, s.K, nil)
	for i := range s.K {
		basis.Set(i, i, 1)
	}
	row, triangle, predictors := 8*(d+1), d*(d+1)/2, (2*k-1)*d
	experts, pairs := k*triangle, k*(k-1)/2*triangle
	dense := k * (2*k - 1) * triangle
	return []stage{
		{"second moments", row, 3 * triangle, func() error { _, err := tensor.SumSecond(ctx, rows, t); return err }},
		{"fourth moments in the subspace", row, k*d + 5*(k*(k+1)*(k+2)*(k+3)/24+k*(k+1)/2), func() error {
			_, err := tensor.SumFourth(ctx, rows, basis, nil, t)
			return err
		}},
		{"log-likelihood", row, predictors, func() error { _, err := l.Value(ctx, theta); return err }},
		{"gradient", row, 2 * predictors, func() error { _, err := l.Grad(ctx, dst, theta); return err }},
		{"EM step", row, 2*predictors + experts + pairs,
			func() error { _, err := l.EMStep(ctx, dst, theta); return err }},
		{"Hessian", row, 2*predictors + dense, func() error { _, err := l.Hessian(ctx, h, dst, theta); return err }},
		{"information, for standard errors", row, 2*predictors + dense,
			func() error { return l.Information(ctx, h, dst, p, nil) }},
		{"certificate's tests", 2 * row, 2 * predictors, func() error {
			_, err := specification.Tests(ctx, rows, act, p, loss.All, 1, t)
			return err
		}},
		{"rows from a file", 2 * row, 0, func() error {
			return model.Each(ctx, file.Rows, t, func(_, _, _ int, _ *model.Block) error { return nil })
		}},
	}, file.Close, nil
}

// fastest runs pass until it has taken so long, at least three times, and returns the
// seconds of the fastest.
func fastest(least time.Duration, pass func() error) (float64, error) {
	best := math.Inf(1)
	for i, began := 0, time.Now(); i < 3 || time.Since(began) < least; i++ {
		at := time.Now()
		if err := pass(); err != nil {
			return 0, err
		}
		best = min(best, time.Since(at).Seconds())
	}
	return best, nil
}

// sideBySide returns how many units a second threads make, each of many a pass.
func sideBySide(threads int, least time.Duration, many float64, prepare func() func()) float64 {
	rate := make(chan float64, threads)
	for range threads {
		go func() {
			run := prepare()
			seconds, _ := fastest(least/2, func() error { run(); return nil })
			rate <- many / seconds
		}()
	}
	total := 0.0
	for range threads {
		total += <-rate
	}
	return total
}

// copying is the bytes that loops which copy what no cache holds read and write in a
// second.
func copying(threads int, least time.Duration) float64 {
	const size = 8 << 20 // values
	return sideBySide(threads, least, 2*8*size, func() func() {
		from, to := make([]float64, size), make([]float64, size)
		for i := range from {
			from[i] = float64(i)
		}
		return func() { copy(to, from) }
	})
}

// multiplying is the multiply-adds of dot products of what is in the first cache, four
// vectors by four at a time: one alone waits for its own sums.
func multiplying(threads int, least time.Duration) float64 {
	const size, times = 256, 2000
	return sideBySide(threads, least, 16*size*times, func() func() {
		vectors := func(of float64) [][]float64 {
			all := make([][]float64, 4)
			for i := range all {
				all[i] = make([]float64, size)
				for j := range all[i] {
					all[i][j] = of
				}
			}
			return all
		}
		a, b, sums := vectors(1), vectors(2), make([]float64, 16)
		return func() {
			for range times {
				kernel.AddProducts(sums, a, b)
			}
			if !(sums[0] > 0) {
				panic("benchmark: a sum of what is positive is not")
			}
		}
	})
}
