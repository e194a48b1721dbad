package network

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/sdk"
)

// sigmoid is odd about ½.
var sigmoid = sdk.Func{Name: "sigmoid", G: func(z float64) float64 { return 1 / (1 + math.Exp(-z)) }, DG: func(z float64) float64 { s := 1 / (1 + math.Exp(-z)); return s * (1 - s) }}

func curvesFor(t *testing.T, act sdk.Func) *curves {
	t.Helper()
	c, err := curvesOf(t.Context(), act)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCurves: closed forms for ReLU and z², at any scale between those computed; parity.
func TestCurves(t *testing.T) {
	root := 1 / math.Sqrt(2*math.Pi)
	c, square := curvesFor(t, relu), curvesFor(t, quadratic)
	for _, s := range []float64{0.05, 0.11, 0.7, 1, 3.3, 20} {
		for j, want := range []float64{s * root, s / 2, s * root, 0, -s * root, s * s / 2} {
			if got := c.m(j, s); math.Abs(got-want) > 1e-4*s*s+1e-4*s { // interpolation in log s
				t.Errorf("ReLU: m_%d(%v) = %v, want %v", j, s, got, want)
			}
		}
		if got, want := c.variance(s), s*s*(0.5-root*root); math.Abs(got/want-1) > 1e-3 {
			t.Errorf("ReLU: variance at %v = %v, want %v", s, got, want)
		}
		if got, want := square.m(2, s), 2*s*s; math.Abs(got/want-1) > 1e-3 {
			t.Errorf("z²: m_2(%v) = %v, want %v", s, got, want)
		}
	}
	for _, x := range []struct {
		act sdk.Func
		odd bool
	}{{relu, false}, {tanh, true}, {sigmoid, true}, {softplus, false}, {linear, true}} {
		said, err := Odd(t.Context(), x.act)
		if got := curvesFor(t, x.act).odd(); got != x.odd || said != x.odd || err != nil {
			t.Errorf("%s: odd by its moments %v, by its values %v (%v), want %v", x.act.Name, got, said, err, x.odd)
		}
	}
	for by, want := range map[float64]bool{0: true, 1e-12: true, 1e-7: false} { // rounding is allowed, and no more
		near := sdk.Func{Name: "near", G: func(z float64) float64 { return z + by*z*z }}
		if got, err := Odd(t.Context(), near); got != want || err != nil {
			t.Errorf("z + %v·z²: %v, %v", by, got, err)
		}
	}
	if odd, err := Odd(t.Context(), sdk.Func{Name: "zero", G: func(float64) float64 { return 0 }}); !odd || err != nil {
		t.Errorf("0: %v, %v", odd, err)
	}
	// exp(z²/16) has moments where s² < 4.
	growing := sdk.Func{Name: "growing", G: func(z float64) float64 { return z * math.Exp(z*z/16) }, DG: func(z float64) float64 { return (1 + z*z/8) * math.Exp(z*z/16) }}
	if c := curvesFor(t, growing); c.most > 2 || c.most < 1 {
		t.Errorf("moments up to a scale of %v", c.most)
	}
}

// TestMinimise: the least of a function of the scale within the range, and at either end of it.
func TestMinimise(t *testing.T) {
	c := curvesFor(t, relu)
	for want, f := range map[float64]func(s float64) float64{
		0.7:        func(s float64) float64 { return math.Abs(math.Log(s / 0.7)) },
		5:          func(s float64) float64 { return (s - 5) * (s - 5) },
		leastScale: func(s float64) float64 { return s },
		mostScale:  func(s float64) float64 { return -s },
	} {
		if s, value := c.minimise(f); math.Abs(s/want-1) > 1e-6 || value != f(s) {
			t.Errorf("least at %v with %v, want it at %v", s, value, want)
		}
	}
}

// ofTerm are the coefficients of a unit in the three tensors.
func ofTerm(c *curves, v, s, sign float64) term {
	out := term{curves: c, orders: [3]int{1, 2, 3}}
	for i, j := range out.orders {
		out.value[i] = v * c.m(j, s) * math.Pow(sign, float64(j))
	}
	return out
}

// TestTerms: what a unit's coefficients say is the unit; coefficients of none have the least weighted
// squares, by their definition.
func TestTerms(t *testing.T) {
	c := curvesFor(t, squared)
	for _, v := range []float64{1, -1, 0.4} {
		for _, sign := range []float64{1, -1} {
			unit := ofTerm(c, v, 0.8, sign)
			if scale, apart := unit.withOutput(v); math.Abs(scale-0.8*sign) > 1e-6 || apart > 1e-12 {
				t.Errorf("v = %v, scale %v: %v with %v", v, 0.8*sign, scale, apart)
			}
			if got, o := unit.withScale(0.8); math.Abs(got-v) > 1e-9 || o != sign {
				t.Errorf("v = %v, orientation %v: %v and %v", v, sign, got, o)
			}
		}
	}
	other := term{curves: c, orders: [3]int{1, 2, 4}, value: [3]float64{0.9, -0.3, 0.5}}
	apart := func(v, s, sign float64) float64 {
		sum := 0.0
		for i, j := range other.orders {
			left := other.value[i] - v*c.m(j, s)*math.Pow(sign, float64(j))
			sum += left * left / math.Gamma(float64(j+1))
		}
		return sum
	}
	if got, want := other.apart(0.7, 1.3, -1), apart(0.7, 1.3, -1); math.Abs(got-want) > 1e-14 {
		t.Errorf("%v apart, want %v", got, want)
	}
	v, sign := other.withScale(1.3)
	for _, by := range []float64{0.999, 1.001} {
		if apart(v, 1.3, sign) > min(apart(by*v, 1.3, sign), apart(by*v, 1.3, -sign)) {
			t.Errorf("v = %v, %v, is not the least", v, sign)
		}
	}
}

// TestLengths: v and the scales of three units, by every convention.
func TestLengths(t *testing.T) {
	c := curvesFor(t, squared)
	for _, x := range []struct {
		output Output
		given  []float64
		v, s   []float64
	}{
		{Given, []float64{-2, 0.5, 1}, []float64{1, -2, 0.5}, []float64{0.6, 0.9, -1.4}},
		{Signs, nil, []float64{1, -1, 1}, []float64{0.6, -0.9, 1.4}},
		{UnitRows, nil, []float64{0.3, -2, 1}, []float64{1, -1, 1}},
	} {
		var terms []term
		for i, v := range x.v {
			terms = append(terms, ofTerm(c, v, math.Abs(x.s[i]), math.Copysign(1, x.s[i])))
		}
		if got := x.output.lengths(terms, x.given); !floats.EqualApprox(got.v, x.v, 1e-6) || !floats.EqualApprox(got.scale, x.s, 1e-6) {
			t.Errorf("%s: v = %v, scales %v, want %v and %v", x.output, got.v, got.scale, x.v, x.s)
		}
	}
}

// TestFold: the signs for which c·Σ v is the mean, the scales turning with them; all 1 where c is 0
// or the units are too many to try.
func TestFold(t *testing.T) {
	l := &lengths{v: []float64{1, -2, 4}, scale: []float64{1, 2, -3}}
	l.fold(0.5, 0.5*(-1-2+4))
	if !slices.Equal(l.v, []float64{-1, -2, 4}) || !slices.Equal(l.scale, []float64{-1, 2, -3}) {
		t.Errorf("%+v", l)
	}
	l.fold(0, -3)
	if !slices.Equal(l.v, []float64{1, 2, 4}) || !slices.Equal(l.scale, []float64{1, -2, -3}) {
		t.Errorf("c = 0: %+v", l)
	}
	for _, k := range []int{mostFolded, mostFolded + 1} {
		many := &lengths{v: make([]float64, k), scale: make([]float64, k)}
		for i := range many.v {
			many.v[i], many.scale[i] = -1, 1
		}
		many.fold(0.5, 0.5*float64(-k))
		if want := math.Copysign(1, float64(k)-mostFolded-0.5); many.v[0] != want || many.v[k-1] != want {
			t.Errorf("of %d units: %v", k, many.v)
		}
	}
}

// TestRankOnes: the function by its definition from all entries of the tensor, its gradient by differences, and its start,
// which is right where the directions are; no sign is −1 at an odd order.
func TestRankOnes(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 30))
	const k = 3
	entry := func(v []float64, at, order int) float64 { // of v⊗…⊗v
		out := 1.0
		for range order {
			out *= v[at%k]
			at /= k
		}
		return out
	}
	for _, order := range []int{3, 4} {
		u, c := mat.NewDense(k, k, model.RandomDirections(rng, k, k)), []float64{1.3, -0.7, 0.4}
		tensor := &symmetric{k: k, order: order, flat: mat.NewDense(k, int(math.Pow(k, float64(order-1))), nil)}
		data := tensor.flat.RawMatrix().Data
		for at := range data {
			for i := range k {
				data[at] += c[i] * entry(u.RawRowView(i), at, order)
			}
		}
		f, start := newRankOnes(tensor, u)
		if v, err := f.Value(t.Context(), start); err != nil || math.Abs(v) > 1e-8 {
			t.Errorf("order %d: %v at the start, %v", order, v, err)
		}
		if order == 3 && slices.Contains(f.sign, -1) || order == 4 && f.sign[1] != -1 {
			t.Errorf("order %d: signs %v", order, f.sign)
		}
		a := make([]float64, k*k)
		for i := range a {
			a[i] = rng.NormFloat64()
		}
		want := 0.0
		for at, v := range data {
			for i := range k {
				v -= f.sign[i] * entry(a[i*k:(i+1)*k], at, order)
			}
			want += v * v / 2
		}
		grad := make([]float64, k*k)
		if got, err := f.Grad(t.Context(), grad, a); err != nil || math.Abs(got-want) > 1e-10*(1+want) {
			t.Errorf("order %d: %v, want %v (%v)", order, got, want, err)
		}
		for i := range a {
			const h = 1e-5
			at := slices.Clone(a)
			at[i] += h
			up, _ := f.Value(t.Context(), at)
			at[i] -= 2 * h
			down, _ := f.Value(t.Context(), at)
			if d := (up - down) / (2 * h); math.Abs(grad[i]-d) > 1e-6*(1+math.Abs(d)) {
				t.Errorf("order %d: gradient %d is %v, by differences %v", order, i, grad[i], d)
			}
		}
	}
}

// TestLeading: the vectors of the largest |eigenvalues|, in their order.
func TestLeading(t *testing.T) {
	v, values, err := leading(mat.NewSymDense(4, []float64{1, 0, 0, 0, 0, -5, 0, 0, 0, 0, 3, 0, 0, 0, 0, -2}), 2)
	if err != nil || !floats.EqualApprox(values, []float64{5, 3, 2, 1}, 1e-14) || math.Abs(v.At(1, 0)) != 1 || math.Abs(v.At(2, 1)) != 1 {
		t.Errorf("%v, %v, %v", mat.Formatted(v), values, err)
	}
}

// TestWithout: y less the polynomial of degree 2, by its formula.
func TestWithout(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 30))
	const n, d = 300, 3
	x, y := mat.NewDense(n, d, nil), make([]float64, n)
	for r := range n {
		y[r] = rng.NormFloat64()
		for j := range d {
			x.Set(r, j, rng.NormFloat64())
		}
	}
	data, err := dataset.Load(t.Context(), dataset.Matrix(x, y))
	if err != nil {
		t.Fatal(err)
	}
	m1, m2 := []float64{0.5, -1, 2}, mat.NewSymDense(d, []float64{1, 0.3, -0.2, 0.3, 2, 0.7, -0.2, 0.7, -1})
	for _, squares := range []*mat.SymDense{nil, m2} {
		at := 0
		err = model.InOrder(t.Context(), without(data, 0.4, m1, squares), func(b *model.Block) error {
			for r := range b.N {
				row := mat.NewVecDense(d, x.RawRowView(at))
				want := y[at] - 0.4 - floats.Dot(m1, x.RawRowView(at))
				if squares != nil {
					want -= (mat.Inner(row, squares, row) - 2) / 2 // the trace is 2
				}
				if math.Abs(b.Y[r]-want) > 1e-12 {
					return fmt.Errorf("row %d: %v, want %v", at, b.Y[r], want)
				}
				at++
			}
			return nil
		})
		if err != nil || at != n {
			t.Errorf("%d rows: %v", at, err)
		}
	}
}

// TestRate: the factor of a geometric descent, over its last steps; none of one that has arrived or has no step.
func TestRate(t *testing.T) {
	geometric := func(steps int, factor float64) []float64 {
		out := []float64{3 + 2}
		for range steps {
			out = append(out, 3+(out[len(out)-1]-3)*factor)
		}
		return out
	}
	late := append(geometric(40, 0.5)[:4], geometric(60, 0.9)...) // what was before the last fifty steps is not seen
	for _, c := range []struct {
		trace []float64
		want  float64
	}{{geometric(10, 0.8), 0.8}, {geometric(1, 0.8), 0.8}, {late, 0.9}, {[]float64{5}, 0}, {[]float64{5, 4, 3}, 0}, {[]float64{3, 3}, 0}, {[]float64{5, 3 - 1e-9}, 0}} {
		if got := rate(c.trace, 3); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v: %v, want %v", c.trace, got, c.want)
		}
	}
}

// TestCompare: the least loss is best, the first of equals, and those agree with it that are within a
// millionth of it or rounding of y's square.
func TestCompare(t *testing.T) {
	start := func(values ...float64) *fit {
		f := &fit{out: &Result{}, sums: tensor.NewSecond(1)}
		f.sums.Y[0], f.sums.Y[2] = 10, 40 // the mean of y² is 4
		for _, v := range values {
			f.out.Starts = append(f.out.Starts, Start{Result: &optim.Result{Value: v, Status: optim.Converged}})
		}
		f.compare()
		return f
	}
	for _, c := range []struct {
		values []float64
		best   int
		agree  []bool
	}{
		{[]float64{2, 1, 1, 1 + 0.9e-6, 1 + 1.1e-6}, 1, []bool{false, true, true, true, false}},
		{[]float64{3.9e-12, 0, 4.1e-12}, 1, []bool{true, true, false}},
	} {
		f := start(c.values...)
		var agree []bool
		for _, s := range f.out.Starts {
			agree = append(agree, s.Agrees)
		}
		if f.out.Best != c.best || !slices.Equal(agree, c.agree) {
			t.Errorf("%v: best %d, agreeing %v, want %d and %v", c.values, f.out.Best, agree, c.best, c.agree)
		}
	}
	r := start(2, 1).out
	if !r.Converged() {
		t.Error("the best has converged")
	}
	r.Starts[1].Result.Status = optim.IterationLimit
	if r.Converged() || !(&Result{}).Converged() {
		t.Error("the best has not converged, and of nothing there is nothing that has not")
	}
}

// TestRandomStarts: as independent units they would give y its variance, with v as it is known.
func TestRandomStarts(t *testing.T) {
	for _, c := range []struct {
		act    sdk.Func
		output Output
		given  []float64
	}{{relu, Signs, nil}, {relu, UnitRows, nil}, {softplus, Given, []float64{2, -0.5, 1}}, {tanh, Signs, nil}, {sigmoid, Signs, nil}} {
		curves := curvesFor(t, c.act)
		f := &fit{Request: Request{K: 3, Output: c.output, V: c.given}, out: &Result{Odd: curves.odd()}, curves: curves, rows: &model.Data{D: 5}, sums: tensor.NewSecond(5)}
		f.sums.Y[0], f.sums.Y[1], f.sums.Y[2] = 10, 5, 6 // a variance of 0.6 − 0.25
		negative := 0
		for seed := range uint64(20) {
			n := f.random(rand.New(rand.NewPCG(seed, 1))).net
			variance := 0.0
			for i, v := range n.Output {
				length := floats.Norm(n.Unit(i), 2)
				variance += v * v * curves.variance(length)
				if c.output == UnitRows && math.Abs(length-1) > 1e-12 || c.output == Signs && math.Abs(v) != 1 {
					t.Errorf("%s, %s: a row of length %v with v = %v", c.act.Name, c.output, length, v)
				}
				if v < 0 {
					negative++
				}
			}
			if math.Abs(variance-0.35) > 1e-4 { // the search is to 1e−8 of the scale
				t.Errorf("%s, %s: variance %v, want 0.35", c.act.Name, c.output, variance)
			}
			if c.given != nil && !slices.Equal(n.Output, c.given) {
				t.Errorf("v = %v, want %v", n.Output, c.given)
			}
		}
		// Of 60 signs 30 ± 4·√15; of an odd φ none is −1.
		odd := c.act.Name == tanh.Name
		if few, many := 14, 46; c.given == nil && (odd && negative > 0 || !odd && (negative < few || negative > many)) {
			t.Errorf("%s: %d of 60 signs are −1", c.act.Name, negative)
		}
	}
}

// TestStepSize: for φ = z the curvature is the second moment of x.
func TestStepSize(t *testing.T) {
	x := mat.NewDense(4, 1, []float64{1, -2, 0, 3})
	data, err := dataset.Load(t.Context(), dataset.Matrix(x, []float64{1, 1, 1, 1}))
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewLoss(linear, data, 1, []float64{2}, 1)
	if err != nil {
		t.Fatal(err)
	}
	size, value, err := StepSize(t.Context(), l, []float64{0})
	if want := 1 / (4 * 14.0 / 4); err != nil || math.Abs(size-want) > 1e-15 || value != 0.5 {
		t.Errorf("%v and %v, want %v and 0.5 (%v)", size, value, want, err)
	}
	flat := sdk.Func{Name: "flat", G: func(float64) float64 { return 3 }, DG: func(float64) float64 { return 0 }}
	if l, err = NewLoss(flat, data, 1, []float64{2}, 1); err != nil {
		t.Fatal(err)
	}
	if size, _, err := StepSize(t.Context(), l, []float64{0}); err != nil || size != 0 {
		t.Errorf("without curvature %v, %v", size, err)
	}
}

// TestCheckOf: ReLU satisfies the conditions at every scale, with the ρ that is known; φ = z has none, and a null space.
func TestCheckOf(t *testing.T) {
	c, err := CheckOf(t.Context(), relu, []float64{0.5, 2}, 0.1, 10, Orthonormal(3))
	if err != nil || !c.Holds() || len(c.Reasons()) != 0 || len(c.Rho) != 2 || c.Rho[1].Sigma != 2 {
		t.Fatalf("ReLU: %+v, %v", c, err)
	}
	for _, r := range append(c.Range, c.Rho...) {
		if math.Abs(r.Rho-0.0908) > 1e-4 { // min(½(½ − 1/π), …) = ½ − 1/2π − ¼ at any scale
			t.Errorf("ρ(%v) = %v", r.Sigma, r.Rho)
		}
	}
	if len(c.Range) != RangePoints || math.Abs(c.Range[0].Sigma-0.1) > 1e-12 || math.Abs(c.Range[12].Sigma-1) > 1e-12 || math.Abs(c.Range[24].Sigma-10) > 1e-12 {
		t.Errorf("%d scales from %v by %v to %v", len(c.Range), c.Range[0].Sigma, c.Range[12].Sigma, c.Range[24].Sigma)
	}
	bad, err := CheckOf(t.Context(), linear, []float64{1}, 0.5, 2, Orthonormal(3))
	if err != nil || bad.Holds() || bad.P2 {
		t.Fatalf("z: %+v, %v", bad, err)
	}
	if said := strings.Join(bad.Reasons(), "; "); !strings.Contains(said, "P2") || !strings.Contains(said, "null space of dimension 6") || strings.Contains(said, "P1") || strings.Contains(said, "P3") {
		t.Errorf("z: %s", said)
	}
	// The sigmoid's ρ falls with the scale's square: the worst of a range is at an end of it.
	s, err := CheckOf(t.Context(), sigmoid, []float64{1}, 0.1, 1, Orthonormal(2))
	if err != nil {
		t.Fatal(err)
	}
	least := math.Inf(1)
	for _, r := range s.Range {
		least = min(least, r.Rho/r.Scale)
	}
	if s.Worst.Rho/s.Worst.Scale != least {
		t.Errorf("the worst is %+v, want %v", s.Worst, least)
	}
	if _, err := CheckOf(t.Context(), relu, nil, 1, 2, model.NewNetwork(2, 2)); err == nil {
		t.Error("no error for weights of 0")
	}
}

// TestPrepare: as many rows as parameters and scales are too few, one more is enough; starts beside the
// tensors' are as many as were asked for.
func TestPrepare(t *testing.T) {
	for n, ok := range map[int]bool{8: false, 9: true} {
		_, data := draw(t, tanh, sample.NetworkConfig{K: 2, D: 3, N: n, Sigma: 0.1, Seed: 2})
		_, err := fitOf(t, tanh, data, Request{K: 2, Output: Signs, Starts: 1, NoTensors: true, Seed: 1})
		if (err == nil) != ok {
			t.Errorf("%d rows: %v", n, err)
		}
	}
	_, data := draw(t, softplus, sample.NetworkConfig{K: 2, D: 3, N: 3000, Sigma: 0.1, Seed: 2})
	r, err := fitOf(t, softplus, data, Request{K: 2, Output: Signs, Starts: 3, Descent: 30, Seed: 1})
	if err != nil || len(r.Starts) != 4 || r.Starts[0].Kind != "tensors" || r.Starts[3].Kind != "random" {
		t.Fatalf("%+v, %v", r, err)
	}
	for i, s := range r.Starts {
		if s.AfterDescent > s.AtStart || s.Result.Value > s.AfterDescent || s.Descended == nil || s.AfterDescent != s.Descended.Value || s.StepSize <= 0 || s.Rate <= 0 || s.Rate > 1 {
			t.Errorf("start %d: from %v by %v to %v, at a rate of %v", i, s.AtStart, s.AfterDescent, s.Result.Value, s.Rate)
		}
	}
	if r, err = fitOf(t, softplus, data, Request{K: 2, Output: Signs, TensorsOnly: true, Seed: 1}); err != nil || r.Certificate != nil || len(r.Starts) != 0 || !r.Converged() || math.Abs(r.Network.Sigma*r.Network.Sigma-2*r.Loss) > 1e-15 {
		t.Errorf("tensors only: %+v, %v", r, err)
	}
	if r, err = fitOf(t, softplus, data, Request{K: 2, Output: Signs, NoTensors: true, Starts: 1, Seed: 1}); err != nil || r.Tensors != nil || r.Starts[0].Descended != nil || r.Starts[0].Rate != 0 || r.Starts[0].AfterDescent != r.Starts[0].AtStart {
		t.Errorf("without tensors and descent: %+v, %v", r, err)
	}
	if r, err = fitOf(t, linear, data, Request{K: 2, Output: Signs, Starts: 1, Seed: 1}); err != nil || len(r.Notes) != 2 || !strings.Contains(r.Notes[0], "no tensor initialisation") || !strings.Contains(r.Notes[1], "y has a constant") {
		t.Errorf("φ = z: %+v, %v", r, err)
	}
}
