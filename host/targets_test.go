package host

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/checkpoint"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
)

// severalTargets are n rows of d features with a target for each of the parameters of linear
// experts, whose noise has the covariance root·rootᵀ. Where they share a gate it is that
// of the first, and one draw of the expert is for all of a row.
func severalTargets(truths []*model.Params, n int, root *mat.Dense, shared bool, seed uint64) (*mat.Dense, [][]float64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	x, y := mat.NewDense(n, truths[0].D, nil), make([][]float64, len(truths))
	for m := range y {
		y[m] = make([]float64, n)
	}
	noise := make([]float64, len(truths))
	for r := range n {
		row := x.RawRowView(r)
		for j := range row {
			row[j] = rng.NormFloat64()
		}
		for m := range noise {
			noise[m] = rng.NormFloat64()
		}
		z := 0
		for m, p := range truths {
			if m == 0 || !shared {
				z = expertOf(p, row, rng.Float64())
			}
			y[m][r] = floats.Dot(p.Regressor(z), row) + floats.Dot(root.RawRowView(m), noise)
		}
	}
	return x, y
}

// expertOf is the expert of a row by a flat gate, u uniform on [0, 1).
func expertOf(p *model.Params, x []float64, u float64) int {
	weights, sum := make([]float64, p.K), 1.0
	weights[p.K-1] = 1
	for i := range p.K - 1 {
		weights[i] = math.Exp(floats.Dot(p.Gate(i), x))
		sum += weights[i]
	}
	for i, w := range weights {
		if u -= w / sum; u < 0 {
			return i
		}
	}
	return p.K - 1
}

// apart are unit regressors and gates of 2 in length, drawn by a seed.
func apart(k, d int, sigma float64, seed uint64) *model.Params {
	rng := rand.New(rand.NewPCG(seed, 1))
	p := model.NewParams(k, d)
	copy(p.Regressors, model.RandomDirections(rng, k, d))
	copy(p.Gating, model.RandomDirections(rng, k-1, d))
	floats.Scale(2, p.Gating)
	p.Sigma[0] = sigma
	return p
}

// targetsOf are the targets of a matrix of features.
func targetsOf(x *mat.Dense, y [][]float64, truths []*model.Params) (out []Target) {
	for m, name := range []string{"u", "v", "w"}[:len(y)] {
		t := Target{Source: dataset.Matrix(x, y[m]).Named(dataset.Names(truths[0].D, false).Features, name), Truth: truths[m]}
		out = append(out, t)
	}
	return out
}

// TestFitTargets: two targets with gates and experts of their own are each recovered, as
// the fit of that target alone.
func TestFitTargets(t *testing.T) {
	truths := []*model.Params{apart(2, 4, 0.1, 1), apart(2, 4, 0.1, 2)}
	x, y := severalTargets(truths, 1500, mat.NewDense(2, 2, []float64{0.1, 0, 0, 0.1}), false, 3)
	act := activation(identity.Family, nil)
	targets := targetsOf(x, y, truths)
	v, err := FitTargets(t.Context(), act, targets, Config{K: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Validate(); err != nil {
		t.Fatal(err)
	}
	for j, target := range targets {
		alone, err := Fit(t.Context(), act, target.Source, Config{K: 2, Truth: target.Truth})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(jsonOf(t, alone), jsonOf(t, v.Model(j))); diff != "" {
			t.Errorf("target %d is not the fit of it alone: %s", j, diff)
		}
		// Standard errors are about 0.005 for regressors, 0.1 for a gate of length 2.
		if r := v.Outputs[j].Truth; r.EReg > 1e-3 || r.EGating > 0.02 {
			t.Errorf("target %d: E_reg %.2g, E_gating %.2g", j, r.EReg, r.EGating)
		}
	}
}

// jsonOf is the file of a model with null and no list for nothing alike.
func jsonOf(t *testing.T, m *fitted.Model) string {
	t.Helper()
	data, err := m.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestFitTargetsResumes: from a checkpoint of the second of two targets the fit goes on
// to the same bytes; one of other data, or of other targets, is refused.
func TestFitTargetsResumes(t *testing.T) {
	testslow.Mark(t)
	truths := []*model.Params{apart(2, 4, 0.1, 1), apart(2, 4, 0.1, 2)}
	x, y := severalTargets(truths, 400, mat.NewDense(2, 2, []float64{0.1, 0, 0, 0.1}), false, 4)
	act := activation(relu.Family, nil)
	targets := targetsOf(x, y, truths)
	var kept []byte
	whole, err := FitTargets(t.Context(), act, targets, Config{K: 2, Checkpoint: func(save func() (*Checkpoint, error)) {
		c, err := save()
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Targets) == 1 && kept == nil {
			if kept, err = json.Marshal(c); err != nil {
				t.Fatal(err)
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	resume := func(targets []Target) (*fitted.Vector, error) {
		c := new(Checkpoint)
		if err := json.Unmarshal(kept, c); err != nil {
			t.Fatal(err)
		}
		return FitTargets(t.Context(), act, targets, Config{K: 2, Resume: c, Checkpoint: func(func() (*Checkpoint, error)) {}})
	}
	again, err := resume(targets)
	if err != nil {
		t.Fatal(err)
	}
	for j := range targets {
		if diff := cmp.Diff(jsonOf(t, whole.Model(j)), jsonOf(t, again.Model(j))); diff != "" {
			t.Errorf("target %d resumed: %s", j, diff)
		}
	}
	refused := func(want string, targets []Target) {
		t.Helper()
		bad := (*checkpoint.Error)(nil)
		if _, err := resume(targets); !errors.As(err, &bad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	refused("of other targets", []Target{targets[1], targets[0]})
	refused("of other targets", targets[:1])
	y[0][7]++
	refused("of other data", targetsOf(x, y, truths))
}

// TestTargetsOfMethods: every method that takes one target takes several, each as it is taken alone.
func TestTargetsOfMethods(t *testing.T) {
	truth := model.NewParams(1, 3)
	copy(truth.Regressor(0), []float64{1, -1, 0.5})
	x, y := severalTargets([]*model.Params{truth, truth}, 200, mat.NewDense(2, 2, []float64{0.1, 0, 0, 0.1}), false, 1)
	targets := []Target{{Source: dataset.Matrix(x, y[0])}, {Source: dataset.Matrix(x, y[1])}}
	for _, method := range []Method{Moments{}, L2{Starts: 1}} {
		v, err := FitTargets(t.Context(), activation(identity.Family, nil), targets, Config{K: 1, Method: method})
		if err != nil || len(v.Outputs) != 2 {
			t.Errorf("%s: %v", method.Name(), err)
		}
	}
}
