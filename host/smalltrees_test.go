package host

import (
	"math"
	"reflect"
	"testing"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestSmallTree: a tree on 200 rows with wide noise, on which searches that make no survey agree on −165.77 from one
// seed and on −163.55 from another. No fit passes below the higher by more than what counts as another optimum, and
// each is the same at any number of threads.
func TestSmallTree(t *testing.T) {
	testslow.Mark(t)
	const known, another = -163.55, .5
	act, err := identity.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := model.ParseHierarchy("2x2")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(2) {
		var first *model.Params
		for threads := 1; threads <= 2; threads++ {
			kind := searchtest.WideTrees[1]
			m, err := Fit(t.Context(), act, kind.Draw(1005, kind.Rows),
				Config{K: 4, Hierarchy: h, Intercepts: BothIntercepts, Seed: seed + 1, Threads: threads})
			if err != nil {
				t.Fatal(err)
			}
			if v := m.Fit.Certificate; m.Fit.LogLikelihood < known-another && v.Optimum == infer.Pass {
				t.Errorf("seed %d: log-likelihood %v passes, %v is known: %s", seed+1, m.Fit.LogLikelihood, known, v.Reason)
			}
			if m.Fit.Survey == nil || math.IsNaN(m.Fit.LogLikelihood) {
				t.Errorf("seed %d: survey %+v, log-likelihood %v", seed+1, m.Fit.Survey, m.Fit.LogLikelihood)
			}
			if first == nil {
				first = m.Params()
			} else if !reflect.DeepEqual(first, m.Params()) {
				t.Errorf("seed %d: another fit by %d threads", seed+1, threads)
			}
		}
	}
}
