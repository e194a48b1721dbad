package splitmerge

import (
	"math"
	"slices"
	"testing"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/searchtest"
)

// TestChanges: after the moves come exchanges of experts of different kinds, those of the largest residuals per row first,
// six at most.
func TestChanges(t *testing.T) {
	s := &loss.Structure{Mass: []float64{10, 20, 0}, RSS: []float64{30, 20, 2}, Overlap: overlap(3, nil)} // 3, 1 and 2 a row
	moved := moves(s)
	if len(moved) == 0 {
		t.Fatal("no moves")
	}
	got := changes([]int{0, 1, 1}, s)
	want := []change{{move{split: 2, drop: 0}, true}, {move{split: 1, drop: 0}, true}}
	if len(got) != len(moved)+2 || !slices.Equal(got[len(moved):], want) {
		t.Errorf("%+v, want %+v in the end", got, want)
	}
	for i, m := range moved {
		if got[i] != (change{move: m}) {
			t.Errorf("change %d is %+v, want %+v", i, got[i], m)
		}
	}
	want = []change{{move{split: 2, drop: 0}, true}, {move{split: 1, drop: 0}, true}, {move{split: 2, drop: 1}, true}} // 5, 4 and 3 a row
	if got := changes([]int{0, 1, 2}, s); !slices.Equal(got[len(moved):], want) {
		t.Errorf("%+v, want %+v in the end", got, want)
	}
	if got := changes(nil, s); len(got) != len(moved) {
		t.Errorf("of one kind: %+v", got)
	}
	many := &loss.Structure{Mass: make([]float64, 6), RSS: make([]float64, 6), Overlap: overlap(6, nil)}
	if got := changes([]int{0, 1, 0, 1, 0, 1}, many); len(got) != len(moves(many))+mostExchanges {
		t.Errorf("%d changes", len(got))
	}
}

// TestSwap exchanges what is the experts' own.
func TestSwap(t *testing.T) {
	q := model.NewParams(3, 2)
	q.Regressors = []float64{1, 2, 3, 4, 5, 6}
	q.RegressorIntercepts, q.Sigma = []float64{7, 8, 9}, []float64{0.1, 0.2, 0.3}
	change{move: move{split: 2, drop: 0}, exchange: true}.swap(q)
	if !slices.Equal(q.Regressors, []float64{5, 6, 3, 4, 1, 2}) || !slices.Equal(q.RegressorIntercepts, []float64{9, 8, 7}) || !slices.Equal(q.Sigma, []float64{0.3, 0.2, 0.1}) {
		t.Errorf("%+v", q)
	}
	q.RegressorIntercepts, q.Sigma = nil, []float64{0.4}
	change{move: move{split: 1, drop: 2}, exchange: true}.swap(q)
	if !slices.Equal(q.Regressors, []float64{5, 6, 1, 2, 3, 4}) || q.RegressorIntercepts != nil || !slices.Equal(q.Sigma, []float64{0.4}) {
		t.Errorf("%+v", q)
	}
}

// TestRescore: the rows of the expert that is dropped go to the one that is kept, and those of the one that is split to its
// halves alike; after an exchange each of the two has the other's. The others keep theirs.
func TestRescore(t *testing.T) {
	const k, n = 4, 3
	share := []float64{0.5, 0.125, 0.2, 0.25, 1e-5, 0.3, 0.125, 0.5, 0.1, 0.125, 0.49999, 0.4}
	for _, exchanged := range []bool{false, true} {
		r := &mixture.Posterior{K: k, N: n}
		for _, v := range share {
			r.Scores = append(r.Scores, math.Log(v)-800) // sums of their exponentials are 0
		}
		change{move{keep: 2, drop: 1, split: 3}, exchanged}.rescore(r)
		for t0 := range n {
			was := func(i int) float64 { return share[i*n+t0] }
			want := []float64{was(0), was(3) / 2, was(2) + was(1), was(3) / 2}
			if exchanged {
				want = []float64{was(0), was(3), was(2), was(1)}
			}
			for i, v := range want {
				if got := math.Exp(r.Scores[i*n+t0] + 800); math.Abs(got-v) > 1e-12 {
					t.Errorf("exchanged %v: expert %d has %v of row %d, want %v", exchanged, i, got, t0, v)
				}
			}
		}
	}
}

// TestGrown: one expert more, a half of the one with the largest sum of squared residuals, under a gate that does not tell
// the halves apart and the others as before.
func TestGrown(t *testing.T) {
	s := &loss.Structure{Mass: []float64{4, 1}, RSS: []float64{16, 9}, Axes: [][]float64{{1, 0}, {0, 1}}}
	p := model.NewParams(2, 1)
	p.Regressors, p.RegressorIntercepts, p.Sigma = []float64{1, 5}, []float64{2, 6}, []float64{0.1, 0.2}
	p.Gating, p.GatingIntercepts = []float64{3}, []float64{-1}
	q := Grown(p, s, problem.Shape{K: 3, D: 1, Intercept: true, PerExpert: true, GateIntercept: true})
	if !slices.Equal(q.Regressors, []float64{3, 5, -1}) || !slices.Equal(q.RegressorIntercepts, []float64{2, 6, 2}) || !slices.Equal(q.Sigma, []float64{0.1, 0.2, 0.1}) {
		t.Errorf("%+v", q)
	}
	for _, x := range []float64{-1, 2} {
		at := []float64{x}
		if a, b, c := searchtest.LogitOf(q, 0, at), searchtest.LogitOf(q, 1, at), searchtest.LogitOf(q, 2, at); math.Abs(a-c) > 1e-12 || math.Abs(a-b-(3*x-1)) > 1e-12 {
			t.Errorf("at %v: logits %v, %v and %v", x, a, b, c)
		}
	}
	first := model.NewParams(1, 1)
	first.Regressors, first.Sigma = []float64{1}, []float64{0.1}
	if q := Grown(first, &loss.Structure{Mass: []float64{4}, RSS: []float64{16}, Axes: [][]float64{{1}}}, problem.Shape{K: 2, D: 1}); !slices.Equal(q.Regressors, []float64{3, -1}) || q.GatingIntercepts != nil || len(q.Sigma) != 1 || q.RegressorIntercepts != nil {
		t.Errorf("from one: %+v", q)
	}
}
