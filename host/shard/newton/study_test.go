package newton_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/shard/newton"
	"github.com/gatedlearning/moe/host/shard/shardtest"
	_ "github.com/gatedlearning/moe/internal/testheap"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/sdk"
)

// TestStartStudy counts how often passes from the fit of a subsample end where the fit of
// all rows does, by its size: the table of docs/studies/scale.md.
//
//	MOE_STUDY=20 go test ./host/shard/newton -run TestStartStudy -v
func TestStartStudy(t *testing.T) {
	tables, err := strconv.Atoi(os.Getenv("MOE_STUDY"))
	if err != nil {
		t.Skip("a study: MOE_STUDY is the number of tables")
	}
	const n, d, k = 20480, 6, 3
	for _, family := range []sdk.Family{relu.Family, sigmoid.Family} {
		act := shardtest.Activation(t, family)
		rows, top := make([]shardtest.InMemory, tables), make([]float64, tables)
		for i := range rows {
			s, err := sample.New(sample.Config{Activation: act, K: k, D: d, N: n, Sigma: 0.1, Design: sample.Separated, Seed: uint64(i)})
			if err != nil {
				t.Fatal(err)
			}
			data, err := dataset.Load(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			rows[i] = shardtest.InMemory{Source: s, Data: data}
			m, err := host.Fit(t.Context(), act, rows[i], host.Config{K: k})
			if err != nil {
				t.Fatal(err)
			}
			top[i] = m.Fit.LogLikelihood
		}
		for size := model.BlockRows; size < n; size *= 2 {
			converged, same, passes := 0, 0, 0
			for i, all := range rows {
				part := shardtest.InMemory{Source: all, Data: &model.Data{N: size, D: d, Blocks: all.Data.Blocks[:size/model.BlockRows]}}
				m, err := host.Fit(t.Context(), act, part, host.Config{K: k})
				if err != nil {
					t.Fatal(err)
				}
				s := passesFrom(t, all, m, act)
				if !s.Converged {
					continue
				}
				converged++
				passes += s.Pass
				if s.Model.Fit.LogLikelihood > top[i]-0.05 {
					same++
				}
			}
			t.Logf("%s, subsample of %d: %d of %d converged, %d to the optimum of all rows, after %.1f passes", family.Name, size, converged, tables, same, float64(passes)/float64(max(1, converged)))
		}
	}
}

// passesFrom makes passes until they converge or are too many.
func passesFrom(t *testing.T, src dataset.Source, m *fitted.Model, act sdk.Activation) (s *newton.Step) {
	t.Helper()
	for s == nil || !s.Converged && s.Pass < newton.MostPasses {
		s = pass(t, src, 1, m, act)
		m = s.Model
	}
	return s
}
