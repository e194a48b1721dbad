package warn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/searchtest"
)

// TestRepeated: rows that stand again are counted as pairs held one against the other count them, in any order, and
// warned of from a fifth of all on; not where they differ in a feature, the target or a weight, nor where the target has
// so few values that rows are equal by chance.
func TestRepeated(t *testing.T) {
	type row [3]float64 // two features and the target
	draw := func(n int, step float64) (rows []row) {
		rng := rand.New(rand.NewPCG(7, 9))
		for range n {
			var r row
			for j := range r {
				r[j] = rng.NormFloat64()
				if step > 0 {
					r[j] = step * math.Round(r[j]/step)
				}
			}
			rows = append(rows, r)
		}
		return rows
	}
	again := func(rows []row, first, times, column int) []row { // the first rows so often, that column moved where ≥ 0
		for i := range first {
			for c := 1; c < times; c++ {
				r := rows[i]
				if column >= 0 {
					r[column] += float64(c)
				}
				rows = append(rows, r)
			}
		}
		rng := rand.New(rand.NewPCG(1, 1))
		rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		return rows
	}
	for _, c := range []struct {
		name    string
		rows    []row
		weights bool // of their own
		warned  bool
	}{
		{"all three times", again(draw(150, 0), 150, 3, -1), false, true},
		{"a fifth", again(draw(180, 0), 20, 2, -1), false, true},
		{"fewer", again(draw(180, 0), 19, 2, -1), false, false},
		{"none", draw(300, 0), false, false},
		{"another feature", again(draw(150, 0), 150, 3, 1), false, false},
		{"another target", again(draw(150, 0), 150, 3, 2), false, false},
		{"another weight", again(draw(150, 0), 150, 3, -1), true, false},
		{"few values", draw(600, 1), false, false},
	} {
		n := len(c.rows)
		x, y, w, want := mat.NewDense(n, 2, nil), make([]float64, n), make([]float64, n), 0
		for i, r := range c.rows {
			x.SetRow(i, r[:2])
			y[i], w[i] = r[2], 1+float64(i)/float64(n)
			for j, o := range c.rows {
				if i != j && r == o {
					want++
					break
				}
			}
		}
		src := dataset.Matrix(x, y)
		if c.weights {
			src = src.With(model.Weights, "w", w)
		}
		p, err := problem.Load(t.Context(), src, searchtest.Ident,
			problem.Request{K: 2, Gate: problem.Softmax{}, Noise: problem.Shared{}})
		if err != nil {
			t.Fatal(err)
		}
		m := new(fitted.Model)
		if err := ofRepeated(t.Context(), m, p); err != nil {
			t.Fatal(err)
		}
		said := fmt.Sprintf("%d of %d rows are equal to another in all columns, and standard errors, BIC and tests count "+
			"each: of copies keep one", want, n)
		if (len(m.Fit.Warnings) == 1) != c.warned || c.warned && m.Fit.Warnings[0] != said {
			t.Errorf("%s: %q, want %v, %q", c.name, m.Fit.Warnings, c.warned, said)
		}
		p.Close()
	}
}
