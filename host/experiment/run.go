package experiment

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/atomicfile"
)

// task computes a unit from a seed of its own.
type task func(ctx context.Context, seed uint64) (*output, error)

// version is part of every stored unit's hash. Raise it when code changes what
// a unit gives.
const version = 1

// Options say how to run figures.
type Options struct {
	Seed    uint64
	Threads int    // units side by side; 0: one per processor. The results do not depend on it
	Store   string // a directory where finished units are kept and found again; "" for none
	// Progress, if set, is called when a unit of a figure is done, from one
	// goroutine at a time.
	Progress func(figure string, done, total int)
}

// Run computes figures. A unit that two figures share runs once, and counts for
// the first of them. The results are the same at any number of threads, and
// whether units come from the store or not.
func Run(ctx context.Context, figures []*Figure, o Options) ([]*Outcome, error) {
	r := &runner{o: o, results: map[string]*output{}}
	var jobs []job
	seen := map[string]bool{}
	total := map[string]int{}
	for _, f := range figures {
		for _, u := range f.units {
			if !seen[u.key] {
				seen[u.key] = true
				jobs = append(jobs, job{f.ID, u})
				total[f.ID]++
			}
		}
	}
	if err := r.all(ctx, jobs, total); err != nil {
		return nil, err
	}
	outcomes := make([]*Outcome, len(figures))
	for i, f := range figures {
		out := &Outcome{Figure: f}
		for _, u := range f.units {
			for _, c := range r.results[u.key].Curves {
				if f.measure == "" || c.Measure == f.measure {
					out.Curves = append(out.Curves, c)
				}
			}
			out.Rows = append(out.Rows, r.results[u.key].Rows...)
		}
		out.Verdict = f.judge(out)
		outcomes[i] = out
	}
	return outcomes, nil
}

type job struct {
	figure string
	unit   unit
}

type runner struct {
	o       Options
	mu      sync.Mutex
	results map[string]*output
	err     error
	next    int
	done    map[string]int
}

// all runs the jobs in order, side by side.
func (r *runner) all(ctx context.Context, jobs []job, total map[string]int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.done = map[string]int{}
	var wg sync.WaitGroup
	for range min(model.Workers(r.o.Threads), max(1, len(jobs))) {
		wg.Go(func() {
			for {
				r.mu.Lock()
				i := r.next
				r.next++
				stop := r.err != nil || i >= len(jobs)
				r.mu.Unlock()
				if stop {
					return
				}
				out, err := r.unit(ctx, jobs[i].unit)
				r.finish(jobs[i], out, err, total)
				if err != nil {
					cancel()
				}
			}
		})
	}
	wg.Wait()
	return r.err
}

func (r *runner) finish(j job, out *output, err error, total map[string]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		if r.err == nil || errors.Is(r.err, context.Canceled) {
			r.err = fmt.Errorf("figure %s, %s: %w", j.figure, j.unit.key, err)
		}
		return
	}
	r.results[j.unit.key] = out
	r.done[j.figure]++
	if r.o.Progress != nil {
		r.o.Progress(j.figure, r.done[j.figure], total[j.figure])
	}
}

// unit takes a unit from the store, or runs it and keeps it there.
func (r *runner) unit(ctx context.Context, u unit) (*output, error) {
	sum := sha256.Sum256(fmt.Appendf(nil, "moe experiment %d\nseed %d\n%s", version, r.o.Seed, u.key))
	name := hex.EncodeToString(sum[:16])
	if out := r.load(name, u.key); out != nil {
		return out, nil
	}
	out, err := u.run(ctx, binary.LittleEndian.Uint64(sum[16:]))
	if err != nil || r.o.Store == "" {
		return out, err
	}
	return out, r.keep(ctx, name, u.key, out)
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
	if json.Unmarshal(data, &s) != nil || s.Key != key || s.Seed != r.o.Seed || s.SHA256 != checksum(s.Output) || json.Unmarshal(s.Output, out) != nil {
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
