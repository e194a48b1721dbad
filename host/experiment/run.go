package experiment

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/atomicfile"
)

// task computes a unit from a seed of its own.
type task func(ctx context.Context, seed uint64) (*output, error)

// version is part of every stored unit's hash. Raise it when code changes what
// a unit gives.
const version = 4

// Options say how to run figures.
type Options struct {
	Seed    uint64
	Threads int    // units side by side; 0: one per processor. The results do not depend on it
	Store   string // a directory where finished units are kept and found again; "" for none
	// Progress, if set, is called when the first unit of a figure starts and
	// whenever one is done, from one goroutine at a time.
	Progress func(Progress)
	// Finished, if set, is called with every figure when its data are all there,
	// in the order of the figures, from one goroutine at a time. An error ends
	// the run.
	Finished func(*Outcome) error
}

// Progress says how far a run is.
type Progress struct {
	Figure      string
	Done, Total int     // units of the figure
	Share       float64 // of the work of all figures that is done, by what it costs
	Computed    float64 // the part of Share that this run has computed: the rest was in the store
}

// Left estimates how much longer a run takes that has taken this long, or says
// that it is too early to tell.
func (p Progress) Left(elapsed time.Duration) (time.Duration, bool) {
	if p.Computed <= 0 {
		return 0, false
	}
	return time.Duration(float64(elapsed) * (1 - p.Share) / p.Computed), true
}

// Run computes figures. A unit that two figures share runs once, and counts for
// the first of them. The results are the same at any number of threads, and
// whether units come from the store or not.
func Run(ctx context.Context, figures []*Figure, o Options) ([]*Outcome, error) {
	r := newRunner(figures, o)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for range min(model.Workers(o.Threads), max(1, len(r.jobs))) {
		wg.Go(func() {
			for {
				j := r.take()
				if j == nil {
					return
				}
				out, found, err := r.unit(ctx, j.unit)
				if r.finish(j, out, found, err) != nil {
					cancel()
				}
			}
		})
	}
	wg.Wait()
	return r.outcomes, r.err
}

// job is a unit with the figure that it counts for.
type job struct {
	unit
	figure string
	cost   float64
}

type runner struct {
	o       Options
	figures []*Figure
	jobs    []*job
	total   map[string]int // units by figure
	work    float64        // what all jobs cost

	mu       sync.Mutex
	next     int // the job that is taken next
	done     map[string]int
	share    float64 // cost of what is done
	computed float64 // and was not in the store
	results  map[string]*output
	waiting  map[string]bool // keys of the units of which there is no result
	outcomes []*Outcome      // of the first figures
	err      error
}

func newRunner(figures []*Figure, o Options) *runner {
	r := &runner{o: o, figures: figures, total: map[string]int{}, done: map[string]int{}, results: map[string]*output{},
		waiting: map[string]bool{}}
	for _, f := range figures {
		for _, u := range f.units {
			if !r.waiting[u.key] {
				r.waiting[u.key] = true
				r.jobs = append(r.jobs, &job{unit: u, figure: f.ID, cost: f.cost / float64(len(f.units))})
				r.total[f.ID]++
				r.work += f.cost / float64(len(f.units))
			}
		}
	}
	return r
}

// take returns the next job, or nil where there is none or the run has failed.
func (r *runner) take() *job {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil || r.next == len(r.jobs) {
		return nil
	}
	j := r.jobs[r.next]
	r.next++
	if r.done[j.figure] == 0 {
		r.report(j)
	}
	return j
}

// finish takes a job's result, and hands over the figures that are complete by
// it. It returns why the run has failed, if it has.
func (r *runner) finish(j *job, out *output, found bool, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		if r.err == nil || errors.Is(r.err, context.Canceled) {
			r.err = fmt.Errorf("figure %s, %s: %w", j.figure, j.key, err)
		}
		return r.err
	}
	r.results[j.key] = out
	delete(r.waiting, j.key)
	r.done[j.figure]++
	r.share += j.cost
	if !found {
		r.computed += j.cost
	}
	r.report(j)
	for r.err == nil && len(r.outcomes) < len(r.figures) && r.complete(r.figures[len(r.outcomes)]) {
		o := r.outcome(r.figures[len(r.outcomes)])
		r.outcomes = append(r.outcomes, o)
		if r.o.Finished != nil {
			r.err = r.o.Finished(o)
		}
	}
	return r.err
}

func (r *runner) report(j *job) {
	if r.o.Progress != nil {
		r.o.Progress(Progress{Figure: j.figure, Done: r.done[j.figure], Total: r.total[j.figure],
			Share: r.share / r.work, Computed: r.computed / r.work})
	}
}

func (r *runner) complete(f *Figure) bool {
	return !slices.ContainsFunc(f.units, func(u unit) bool { return r.waiting[u.key] })
}

// outcome puts a figure's data together and judges them.
func (r *runner) outcome(f *Figure) *Outcome {
	o := &Outcome{Figure: f}
	for _, u := range f.units {
		for _, c := range r.results[u.key].Curves {
			if f.measure == "" || c.Measure == f.measure {
				o.Curves = append(o.Curves, c)
			} else {
				o.aside = append(o.aside, c)
			}
		}
		o.Rows = append(o.Rows, r.results[u.key].Rows...)
	}
	if f.drawn != nil {
		drawn := f.drawn(o)
		o.aside = append(o.aside, o.Curves...)
		o.Curves = drawn
	}
	if f.table != nil {
		o.Rows = f.table(o)
	}
	o.Verdict = f.judge(o)
	return o
}

// unit takes a unit from the store, or runs it and keeps it there. It says
// whether the unit was found.
func (r *runner) unit(ctx context.Context, u unit) (out *output, found bool, err error) {
	sum := sha256.Sum256(fmt.Appendf(nil, "moe experiment %d\nseed %d\n%s", version, r.o.Seed, u.key))
	name := hex.EncodeToString(sum[:16])
	if out = r.load(name, u.key); out != nil {
		return out, true, nil
	}
	out, err = u.run(ctx, binary.LittleEndian.Uint64(sum[16:]))
	if err == nil {
		err = out.check()
	}
	if err == nil && r.o.Store != "" {
		err = r.keep(ctx, name, u.key, out)
	}
	return out, false, err
}

// check says what is not finite in the output.
func (o *output) check() error {
	for _, c := range o.Curves {
		for i, y := range c.Y {
			if math.IsNaN(y+c.X[i]) || math.IsInf(y+c.X[i], 0) {
				return fmt.Errorf("%s, run %d: the point (%v, %v) is not finite", c.Series, c.Run, c.X[i], y)
			}
		}
	}
	return nil
}

// stored is the file of a finished unit: its settings, and the checksum of its
// output.
type stored struct {
	Key    string          `json:"key"`
	Seed   uint64          `json:"seed"`
	SHA256 string          `json:"sha256"`
	Output json.RawMessage `json:"output"`
}

func (r *runner) path(name string) string { return filepath.Join(r.o.Store, name+".json") }

// load returns a finished unit, or nil where there is none, or none that is
// whole and of the same settings.
func (r *runner) load(name, key string) *output {
	if r.o.Store == "" {
		return nil
	}
	data, err := os.ReadFile(r.path(name))
	if err != nil {
		return nil
	}
	var s stored
	out := new(output)
	if json.Unmarshal(data, &s) != nil || s.Key != key || s.Seed != r.o.Seed || s.SHA256 != checksum(s.Output) ||
		json.Unmarshal(s.Output, out) != nil {
		return nil
	}
	return out
}

func (r *runner) keep(ctx context.Context, name, key string, out *output) error {
	body, err := json.Marshal(out)
	if err != nil {
		return fmt.Errorf("a result that cannot be kept: %w", err)
	}
	data, err := json.Marshal(stored{Key: key, Seed: r.o.Seed, SHA256: checksum(body), Output: body})
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(ctx, r.path(name), data)
}

func checksum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
