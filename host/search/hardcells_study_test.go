package search

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/sdk"
)

// TestHardCells counts the starts that climb to the best optimum known, that of the truth
// among them, where starts do fail: the moment start with the polynomials and unit rows (as it
// was) and with the default, the spectral one, and one start in the span of T̂2 by either
// transform. Three cells of 002's design; a minute of one core with 6 data sets:
//
//	MOE_STUDY=6 go test ./host/search -run TestHardCells -v
func TestHardCells(t *testing.T) {
	sets, err := strconv.Atoi(os.Getenv("MOE_STUDY"))
	if err != nil {
		t.Skip("a study: MOE_STUDY is the number of data sets")
	}
	for _, c := range []struct {
		family  sdk.Family
		k, d, n int
	}{{identity.Family, 8, 20, 2000}, {identity.Family, 5, 20, 1000}, {relu.Family, 6, 20, 5000}} {
		counts := map[string]int{}
		for seed := range uint64(sets) {
			act := activation(t, c.family)
			s, err := sample.New(sample.Config{Activation: act, K: c.k, D: c.d, N: c.n, Sigma: .05, Design: sample.Paper, Seed: seed + 1})
			if err != nil {
				t.Fatal(err)
			}
			p := load(t, s, act, problem.Request{K: c.k, Seed: seed + 1, Threads: 1})
			ends := map[string]float64{"truth": climbedTo(t, p, s.Truth)}
			for transform, mu := range map[moment.Transform]float64{moment.Polynomial: moment.UnitMu, "": 0} {
				e, err := moment.Measure(t.Context(), p, moment.Want{Transform: transform})
				if err != nil {
					t.Fatal(err)
				}
				if e.Subspace == nil {
					continue
				}
				name := string(transform)
				if name == "" {
					name = "default"
				}
				draw := func(kind string, start starts.Start) {
					q, err := start.Draw(t.Context(), rand.New(rand.NewPCG(seed, 5)))
					if err != nil {
						t.Fatal(err)
					}
					ends[kind+", "+name] = climbedTo(t, p, q)
				}
				draw(starts.KindSpan, starts.Subspace(p, e, e.Subspace.Project(p.Rows)))
				if est, _, err := moment.EstimateParams(t.Context(), p, e, mu); err != nil {
					t.Fatal(err)
				} else if est != nil {
					draw(starts.KindMoments, starts.Moments(p, e, starts.KindMoments, est, p.Rows))
				}
				if est, _, err := moment.EstimateSpectral(t.Context(), p, e); err != nil {
					t.Fatal(err)
				} else if est != nil {
					draw(starts.KindSpectral, starts.Moments(p, e, starts.KindSpectral, est, p.Rows))
				}
			}
			best := ends["truth"]
			for _, v := range ends {
				best = max(best, v)
			}
			for kind, v := range ends {
				if best-v < 0.5 {
					counts[kind]++
				}
			}
		}
		t.Logf("%s k=%d d=%d n=%d, of %d data sets: %v", c.family.Name, c.k, c.d, c.n, sets, counts)
	}
}

// climbedTo is the log-likelihood of all rows that a climb from q ends at.
func climbedTo(t *testing.T, p *problem.Problem, q *model.Params) float64 {
	t.Helper()
	q = p.Shape.Adopt(q)
	l := loss.NewLikelihood(p.Rows, p.G, q, p.Shape.Free(), 1)
	r, err := climb.Climb(t.Context(), l, l.Theta(q), nil)
	if err != nil {
		t.Fatal(err)
	}
	return -r.Value * float64(p.N())
}
