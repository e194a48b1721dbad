package loss

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gatedlearning/moe/host/model"
)

// TestWithout: the likelihood without a row is the sum over the others, and its gradient that of their mean.
func TestWithout(t *testing.T) {
	rng := rand.New(rand.NewPCG(35, 2))
	for _, s := range shapes {
		p := randomParams(rng, s.k, s.d, 0.7, s.general)
		data := s.data(rng, p, s.n)
		l := NewLikelihood(data, s.act, p, s.free, 1)
		all, _ := l.LogLikelihood(t.Context(), p)
		r := rng.IntN(s.n)
		one, _ := NewLikelihood(rowOf(data, r), s.act, p, s.free, 1).LogLikelihood(t.Context(), p)
		without, err := l.Without(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := without.LogLikelihood(t.Context(), p)
		if err != nil || math.Abs(got-(all-one)) > 1e-11*math.Abs(all) {
			t.Errorf("%s: %v without row %d, want %v, error %v", s.name, got, r, all-one, err)
		}
		if again, _ := l.LogLikelihood(t.Context(), p); again != all {
			t.Errorf("%s: the rows have changed", s.name)
		}
		weight := 1.0
		if w := data.Blocks[r/model.BlockRows].Role[model.Weights]; w != nil {
			weight = w[r%model.BlockRows]
		}
		if want := l.Rows() - weight; math.Abs(without.Rows()-want) > 1e-9 {
			t.Errorf("%s: %v rows, want %v", s.name, without.Rows(), want)
		}
	}
}
