package model

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/combin"
)

// random returns parameters with intercepts and noise per expert, and rows.
func random(rng *rand.Rand, k, d, n int) (*Params, *Block) {
	p := NewParams(k, d)
	p.RegressorIntercepts, p.GatingIntercepts, p.Sigma = make([]float64, k), make([]float64, p.Gates()), make([]float64, k)
	b := &Block{N: n, X: make([]float64, n*d)}
	for _, v := range [][]float64{p.Regressors, p.Gating, p.RegressorIntercepts, p.GatingIntercepts, p.Sigma, b.X} {
		for i := range v {
			v[i] = rng.NormFloat64()
		}
	}
	return p, b
}

func probabilities(p *Params, b *Block) (probability, predictor []float64) {
	probability, predictor = make([]float64, p.K*b.N), make([]float64, p.K*b.N)
	p.GateLogits(probability, b)
	Softmax(probability, nil, probability, b.N)
	p.Predictors(predictor, b)
	return probability, predictor
}

// TestRelabelKeepsTheMixture: P(z|x) and the experts go together.
func TestRelabelKeepsTheMixture(t *testing.T) {
	const k, n = 4, 7
	p, b := random(rand.New(rand.NewPCG(3, 3)), k, 3, n)
	before, beforeA := probabilities(p, b)
	for _, perm := range combin.Permutations(k, k) {
		q := p.Relabel(perm)
		after, afterA := probabilities(q, b)
		for i, j := range perm {
			// A softmax of logits of a few units: relative error of a few ulps.
			if !floats.EqualApprox(before[i*n:(i+1)*n], after[j*n:(j+1)*n], 1e-14) ||
				!slices.Equal(beforeA[i*n:(i+1)*n], afterA[j*n:(j+1)*n]) || p.Sigma[i] != q.Sigma[j] {
				t.Fatalf("perm %v: expert %d differs from %d", perm, i, j)
			}
		}
	}
}

// TestOwn: own parameters of the density go with their experts, and are those of all where there is one value.
func TestOwn(t *testing.T) {
	p := NewParams(2, 1)
	p.Sigma, p.Own = []float64{1, 2}, [][]float64{{3, 4}, {5, 6}}
	if q := p.Relabel([]int{1, 0}); !slices.Equal(q.OwnOf(nil, 0), []float64{2, 4, 6}) || !slices.Equal(p.OwnOf(nil, 0), []float64{1, 3, 5}) {
		t.Errorf("ψ of expert 1 is %v, of the other order %v", p.OwnOf(nil, 0), q.OwnOf(nil, 0))
	}
	p.CopyOwn(1, 0)
	if got := p.OwnOf([]float64{9}, 1); !slices.Equal(got, []float64{9, 1, 3, 5}) {
		t.Errorf("copied to %v", got)
	}
	// More parameters than experts, shared by all: none belongs to an expert.
	p.Sigma, p.Own = []float64{1}, [][]float64{{2}, {3}, {4}}
	if q := p.Relabel([]int{1, 0}); !slices.Equal(q.OwnOf(nil, 1), []float64{1, 2, 3, 4}) {
		t.Errorf("shared ψ is %v", q.OwnOf(nil, 1))
	}
	p.Sigma, p.Own = nil, nil
	if got := p.OwnOf(nil, 0); got != nil {
		t.Errorf("ψ of a density without is %v", got)
	}
}

// TestShareGate: i becomes as probable as j, all others keep their odds against j.
func TestShareGate(t *testing.T) {
	const k, n = 4, 7
	p, b := random(rand.New(rand.NewPCG(4, 3)), k, 3, n)
	before, _ := probabilities(p, b)
	for i := range k {
		for j := range k {
			q := p.Clone()
			q.ShareGate(i, j)
			after, _ := probabilities(q, b)
			for r := range n {
				for l := range k {
					want := before[l*n+r] / before[j*n+r]
					if l == i {
						want = 1
					}
					if got := after[l*n+r] / after[j*n+r]; math.Abs(got/want-1) > 1e-12 {
						t.Fatalf("share %d of %d: odds of %d are %v, want %v", i, j, l, got, want)
					}
				}
			}
		}
	}
}

// TestSelect: of the same columns in another order, the mixture is the same.
func TestSelect(t *testing.T) {
	const k, n = 3, 5
	p, b := random(rand.New(rand.NewPCG(5, 3)), k, 4, n)
	from := []int{2, 0, 3, 1}
	turned := &Block{N: n, X: make([]float64, 4*n)}
	for j, at := range from {
		copy(turned.Col(j), b.Col(at))
	}
	gate, z := probabilities(p, b)
	gate2, z2 := probabilities(p.Select(from), turned)
	if !floats.EqualApprox(gate, gate2, 1e-14) || !floats.EqualApprox(z, z2, 1e-13) {
		t.Error("another mixture")
	}
}

// TestRelabelOfATree: branches of a tree in another order are the same mixture, of
// another shape where they differ; leaves of a branch cannot be parted.
func TestRelabelOfATree(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 13))
	for _, c := range []struct {
		shape, want string
		perm        []int
	}{
		{"2x2", "2x2", []int{3, 2, 0, 1}},
		{"2x(1,2)", "2x(2,1)", []int{2, 1, 0}},
		{"3x(2,1,2x(1,2))", "3x(2x(2,1),2,1)", []int{4, 3, 5, 2, 0, 1}},
		{"2x2x2", "2x2x2", []int{6, 7, 5, 4, 2, 3, 1, 0}},
	} {
		h, err := ParseHierarchy(c.shape)
		if err != nil {
			t.Fatal(err)
		}
		p, b := random(rng, h.Leaves(), 3, 50)
		p.Tree = h
		q := p.Relabel(c.perm)
		if q.Tree.String() != c.want {
			t.Errorf("%s becomes %s, want %s", c.shape, q.Tree, c.want)
		}
		before := leafProbabilities(p, b)
		after := leafProbabilities(q, b)
		for i, j := range c.perm {
			for r := range b.N {
				if was, is := before[i*b.N+r], after[j*b.N+r]; math.Abs(was-is) > 1e-14 {
					t.Fatalf("%s: P(leaf %d) was %v and is %v", c.shape, i, was, is)
				}
			}
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("leaves of a branch were parted")
		}
	}()
	h, _ := ParseHierarchy("2x2")
	h.Relabel([]int{0, 2, 1, 3})
}

// leafProbabilities goes down the tree of p, row by row.
func leafProbabilities(p *Params, b *Block) []float64 {
	logits := make([]float64, p.K*b.N)
	p.GateLogits(logits, b)
	leaf := make([]float64, p.K*b.N)
	for r := range b.N {
		for i := range p.K {
			leaf[i*b.N+r] = 1
		}
		for _, g := range p.Tree.Gates() {
			norm, weight := 0.0, make([]float64, len(g.Ends))
			for c := range weight {
				weight[c] = 1
				if c < len(weight)-1 {
					weight[c] = math.Exp(logits[g.Row(c)*b.N+r])
				}
				norm += weight[c]
			}
			for c, w := range weight {
				from, to := g.Branch(c)
				for i := from; i < to; i++ {
					leaf[i*b.N+r] *= w / norm
				}
			}
		}
	}
	return leaf
}

// TestEachSlice: every slice of numbers that Params has is walked over, cloned, and there in parameters of its shape.
func TestEachSlice(t *testing.T) {
	p := &Params{K: 2, D: 1, Tree: FlatHierarchy(2), Family: "law"}
	var want []float64
	fields := reflect.ValueOf(p).Elem()
	for i := range fields.NumField() {
		if _, ok := fields.Field(i).Interface().([]float64); ok {
			values := []float64{float64(i) + 0.5, -float64(i)}
			fields.Field(i).Set(reflect.ValueOf(values))
			want = append(want, values...)
		}
	}
	p.Own = [][]float64{{100, 101}, {102, 103}}
	want = append(want, 100, 101, 102, 103)
	numbers := func(p *Params) (out []float64) {
		p.Each(func(_ ParamPart, values []float64) { out = append(out, values...) })
		slices.Sort(out)
		return out
	}
	slices.Sort(want)
	clone, like := p.Clone(), p.Like()
	copied := p.Like()
	copied.CopyFrom(p)
	p.Each(func(_ ParamPart, values []float64) { clear(values) })
	if len(want) == 0 || !slices.Equal(numbers(clone), want) || !slices.Equal(numbers(copied), want) {
		t.Errorf("a clone has %v, a copy %v, want %v", numbers(clone), numbers(copied), want)
	}
	if !reflect.DeepEqual(like, p) {
		t.Errorf("Like is %+v, want %+v", like, p)
	}
	// What another shape does not have stays: it has one noise level, and no intercepts.
	other := NewParams(2, 1)
	other.CopyFrom(clone)
	if other.RegressorIntercepts != nil || other.Own != nil || !slices.Equal(other.Sigma, []float64{0}) || !slices.Equal(other.Regressors, clone.Regressors) {
		t.Errorf("copied to another shape: %+v", other)
	}
}

// TestTilt: the logit of one expert changes against all others, which keep their odds.
func TestTilt(t *testing.T) {
	const k, d = 4, 3
	rng := rand.New(rand.NewPCG(2, 2))
	random := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		return v
	}
	p := NewParams(k, d)
	copy(p.Gating, random((k-1)*d))
	p.GatingIntercepts = random(k - 1)
	w, v, x := random(d), rng.NormFloat64(), random(d)
	logit := func(q *Params, i int) float64 {
		if i == k-1 {
			return 0
		}
		return floats.Dot(q.Gate(i), x) + q.GatingIntercepts[i]
	}
	for i := range k {
		q := p.Clone()
		q.Tilt(i, w, v, -1)
		for j := range k {
			want := logit(p, j) - logit(p, (j+1)%k)
			if j == i {
				want -= floats.Dot(w, x) + v
			}
			if (j+1)%k == i {
				want += floats.Dot(w, x) + v
			}
			if got := logit(q, j) - logit(q, (j+1)%k); math.Abs(got-want) > 1e-12 {
				t.Errorf("expert %d tilted: log-odds of %d are %v, want %v", i, j, got, want)
			}
		}
	}
}
