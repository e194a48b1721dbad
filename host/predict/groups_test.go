package predict

import (
	"context"
	"math"
	"testing"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// TestGroups: a group that the model knows has its posterior, whatever its rows' targets are; another the gate's
// probabilities times the densities of its rows that have a target, written out here.
func TestGroups(t *testing.T) {
	p := model.NewParams(2, 1)
	copy(p.Regressors, []float64{1, -1})
	p.RegressorIntercepts, p.GatingIntercepts = []float64{0.5, -0.5}, []float64{0.4}
	p.Sigma[0] = 0.7
	x := []float64{1, 0.2, -1, 0.3, 0.6}
	y := []float64{1.1, math.NaN(), 0.4, -0.2, 0.1}
	src := oneBlock{model.Block{N: 5, X: x, Y: y}}
	src.b.Role[model.Groups] = []float64{3, 9, 9, 3, 9}
	known := &Groups{Posteriors: map[string][]float64{"3": {0.25, 0.75}, "4": {1, 0}}}
	post := []float64{0, 0} // of group 9: rows 3 and 5 have targets
	for i := range post {
		post[i] = []float64{math.Exp(0.4), 1}[i] / (math.Exp(0.4) + 1)
		for _, r := range []int{2, 4} {
			e := (y[r] - p.Regressors[i]*x[r] - p.RegressorIntercepts[i]) / 0.7
			post[i] *= math.Exp(-e * e / 2)
		}
	}
	sum := post[0] + post[1]
	want := [][]float64{{0.25, 0.75}, {post[0] / sum, post[1] / sum}}
	table := Predictions(p, identity{}, src, Extras{Groups: known, Interval: 0.9})
	for pass := range 2 {
		row := 0
		if err := table.Read(t.Context(), func(b *model.Block) error {
			for r := range b.N {
				of := want[0]
				if row == 1 || row == 2 || row == 4 {
					of = want[1]
				}
				mean := of[0]*(x[row]+0.5) + of[1]*(-x[row]-0.5)
				got := []float64{b.Col(0)[r], b.Col(1)[r], b.Col(2)[r]}
				for c, want := range []float64{mean, of[0], of[1]} {
					if math.Abs(got[c]-want) > 1e-12 {
						t.Errorf("pass %d, row %d: column %d is %v, want %v", pass, row+1, c+1, got[c], want)
					}
				}
				if posterior := b.Col(3)[r]; row == 1 != math.IsNaN(posterior) || row != 1 && posterior != got[1] {
					t.Errorf("pass %d, row %d: posterior %v of %v", pass, row+1, posterior, got[1])
				}
				if !(b.Col(5)[r] < b.Col(6)[r]) {
					t.Errorf("row %d: interval %v to %v", row+1, b.Col(5)[r], b.Col(6)[r])
				}
				row++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if known.New != 1 {
			t.Errorf("%d new groups, want 1", known.New)
		}
	}
}

// oneBlock is a table of one block, in which values may be missing.
type oneBlock struct{ b model.Block }

func (o oneBlock) Schema() dataset.Schema {
	s := dataset.Schema{Features: []string{"x"}, Target: "y"}
	s.Roles[model.Groups] = "id"
	return s
}

func (o oneBlock) Read(_ context.Context, fn func(*model.Block) error) error {
	b := o.b
	return fn(&b)
}
