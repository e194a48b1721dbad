package specification

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture/mixturetest"
	"github.com/gatedlearning/moe/host/model"
)

// repeated is a block of rows each as often as its weight says, and in groups each copy of a row in that of its own.
func repeated(b *model.Block) *model.Data {
	out := model.Block{}
	var rows []int
	for r := range b.N {
		for range int(b.Weight(r)) {
			rows = append(rows, r)
		}
	}
	out.N = len(rows)
	for j := range len(b.X) / b.N {
		for _, r := range rows {
			out.X = append(out.X, b.Col(j)[r])
		}
	}
	copies := map[int]float64{}
	for _, r := range rows {
		out.Y = append(out.Y, b.Y[r])
		if ids := b.Role[model.Groups]; ids != nil {
			out.Role[model.Groups] = append(out.Role[model.Groups], 100*ids[r]+copies[r])
			copies[r]++
		}
	}
	return &model.Data{N: out.N, D: len(b.X) / b.N, Blocks: []model.Block{out}}
}

// TestTestsCountWeights: the tests of rows with whole weights, 0 among them, are those of the rows repeated, to
// rounding: one block, from which the same rows are drawn. That of rows that depend on those before them is of rows,
// whatever they weigh, and has no counterpart where a row follows its own copy; that of groups has. Of groups the copies
// take other random numbers: the statistic of the residuals, which are no model's, is within 5 %.
func TestTestsCountWeights(t *testing.T) {
	one := model.NewParams(1, 3)
	copy(one.Regressors, []float64{1, 0.5, 0})
	one.RegressorIntercepts, one.Sigma = []float64{0.2}, []float64{2}
	_, three := twoExperts(t, 1, identity{})
	counts := func(k int) *model.Params {
		p := model.NewParams(k, 3)
		for i := range k {
			copy(p.Regressor(i), []float64{0.3 - 0.6*float64(i), 0.2, -0.2})
		}
		p.RegressorIntercepts = []float64{0.8, 0.1}[:k]
		if k == 2 {
			p.GatingIntercepts = []float64{0.3}
			copy(p.Gating, []float64{0, 0.5, 0})
		}
		p.Sigma, p.Family = nil, "poisson"
		return p
	}
	for name, c := range map[string]struct {
		act    model.Activation
		p      *model.Params
		groups bool
	}{
		"normal, one": {identity{}, one, false}, "normal, three": {softsign{}, three, false},
		"poisson, one": {mixturetest.Exp{}, counts(1), false}, "poisson, two": {mixturetest.Exp{}, counts(2), false},
		"groups": {identity{}, groupParams(""), true},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 7))
			b := model.Block{N: 110, X: make([]float64, 330), Y: make([]float64, 110), Role: model.ByRole[[]float64]{}}
			for i := range b.X {
				b.X[i] = rng.NormFloat64()
			}
			for r := range b.N {
				b.Y[r] = math.Round(3 * rng.ExpFloat64()) // no model's: every statistic says something
				b.Role[model.Weights] = append(b.Role[model.Weights], float64(r%5))
				if c.groups {
					g := r / 5 // the last of five rows is of a feature of its group's, as all are that its gate sees
					b.X[2*b.N+r] = b.X[2*b.N+5*g]
					b.Role[model.Weights][r] = float64(g % 4)
					b.Role[model.Groups] = append(b.Role[model.Groups], float64(g))
				}
			}
			test := func(data *model.Data) []infer.Test {
				made := Tests
				if c.groups {
					made = GroupTests
				}
				tested, err := made(t.Context(), data, c.act, c.p, loss.All, 1, 1)
				if err != nil {
					t.Fatal(err)
				}
				return tested.Tests
			}
			got := test(&model.Data{N: b.N, D: 3, Blocks: []model.Block{b}})
			compared := 0
			for i, want := range test(repeated(&b)) {
				if want.Name == infer.DependenceTest && !c.groups {
					continue
				}
				if c.groups && want.Name != infer.DependenceTest && want.Name != infer.ResidualsTest {
					continue
				}
				compared++
				within := 1e-9
				if c.groups && want.Name == infer.ResidualsTest {
					within = 0.05
				}
				// Statistics differ by the order of sums; 1e-9 is a thousand times what that leaves of them.
				if g := got[i]; g.Name != want.Name || g.DF != want.DF ||
					math.Abs(g.Statistic-want.Statistic) > within*(1+want.Statistic) ||
					!c.groups && math.Abs(g.PValue-want.PValue) > 1e-7*want.PValue {
					t.Errorf("%s: χ² %v on %d, p = %v; of the repeated rows %s %v on %d, p = %v", g.Name, g.Statistic, g.DF,
						g.PValue, want.Name, want.Statistic, want.DF, want.PValue)
				}
			}
			if compared < 4 && !c.groups || compared < 2 {
				t.Errorf("%d tests were compared", compared)
			}
		})
	}
}
