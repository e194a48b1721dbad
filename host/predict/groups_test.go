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

// TestEvaluateGroups: the log-likelihood is that of whole groups, written out here, and all else that of the same rows
// without groups. A gate that varies within a group is refused with its rows, and so are weights.
func TestEvaluateGroups(t *testing.T) {
	p := model.NewParams(2, 2)
	copy(p.Regressors, []float64{1, 0.3, -1, 0.2})
	copy(p.Gating, []float64{0, 0.8})
	p.GatingIntercepts = []float64{0.4}
	p.Sigma[0] = 0.7
	x := []float64{1, 0.2, -1, 0.3, 0.6 /* the gate's: */, 2, -1, -1, 2, -1}
	y := []float64{1.1, 0.9, 0.4, -0.2, 0.1}
	of := []float64{3, 9, 9, 3, 9}
	src := twoFeatures{oneBlock{model.Block{N: 5, X: x, Y: y}}}
	src.b.Role[model.Groups] = of
	src.b.Role[model.Weights] = []float64{2, 1, 1, 2, 1}
	want := 0.0
	for _, id := range []float64{3, 9} {
		joint, weight := make([]float64, 2), 0.0
		for i := range joint {
			for r := range y {
				if of[r] != id {
					continue
				}
				e := (y[r] - p.Regressors[2*i]*x[r] - p.Regressors[2*i+1]*x[5+r]) / 0.7
				joint[i] -= e*e/2 + math.Log(0.7*math.Sqrt(2*math.Pi))
				weight = src.b.Role[model.Weights][r]
			}
		}
		logit := 0.4 + 0.8*map[float64]float64{3: 2, 9: -1}[id]
		prior := 1 / (1 + math.Exp(-logit))
		want += weight * math.Log(prior*math.Exp(joint[0])+(1-prior)*math.Exp(joint[1]))
	}
	got, err := Evaluate(t.Context(), p, identity{}, src)
	if err != nil || got.Groups != 2 || math.Abs(got.LogLikelihood-want) > 1e-12 {
		t.Errorf("log-likelihood %+v, want %v of 2 groups; %v", got, want, err)
	}
	alone := twoFeatures{oneBlock{model.Block{N: 5, X: x, Y: y}}}
	alone.b.Role[model.Weights] = src.b.Role[model.Weights]
	rows, err := Evaluate(t.Context(), p, identity{}, alone)
	if err != nil || rows.Groups != 0 || rows.RMSE != got.RMSE || *rows.R2 != *got.R2 {
		t.Errorf("without groups %+v, with them %+v; %v", rows, got, err)
	}
	for _, bad := range []struct {
		change func(*model.Block)
		want   string
	}{
		{func(b *model.Block) { b.X[7] = -1.001 }, `matrix: rows 2 and 3 of group 9 (column "id"): what the gate sees varies: ` +
			`its features are constant in a group`},
		{func(b *model.Block) { b.Role[model.Weights][3] = 1 }, `matrix: rows 1 and 4 of group 3 (column "id"): the weights are ` +
			`2 and 1: weights are constant in a group`},
	} {
		other := twoFeatures{oneBlock{src.b.Clone()}}
		bad.change(&other.b)
		if _, err := Evaluate(t.Context(), p, identity{}, other); err == nil || err.Error() != bad.want {
			t.Errorf("error %v, want %s", err, bad.want)
		}
	}
}

// twoFeatures is such a table of two.
type twoFeatures struct{ oneBlock }

func (o twoFeatures) Schema() dataset.Schema {
	s := o.oneBlock.Schema()
	s.Features = []string{"x", "dose"}
	if o.b.Role[model.Groups] == nil {
		s.Roles[model.Groups] = ""
	}
	return s
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
