package problem

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/leakyrelu"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/plugins/tanh"
	"github.com/gatedlearning/moe/sdk"
)

// Activations beside the built-in ones.
var (
	softplus = sdk.Func{Name: "softplus", G: func(z float64) float64 { return max(z, 0) + math.Log1p(math.Exp(-math.Abs(z))) }, DG: func(z float64) float64 { return 1 / (1 + math.Exp(-z)) }}
	square   = sdk.Func{Name: "square", G: func(z float64) float64 { return z * z }, DG: func(z float64) float64 { return 2 * z }}
	bell     = sdk.Func{Name: "bell", G: func(z float64) float64 { return math.Exp(-z * z / 2) }, DG: func(z float64) float64 { return -z * math.Exp(-z*z/2) }}
	affine   = sdk.Func{Name: "affine", G: func(z float64) float64 { return 2 + 3*z }, DG: func(float64) float64 { return 3 }}
)

// TestOutputsThatCanBeTold: of c + s·g(⟨a,x⟩ + b) what s does is done by a where g is homogeneous, what c does
// by b where g is linear; and g(−z) = sum − g(z) makes s and −s one.
func TestOutputsThatCanBeTold(t *testing.T) {
	for _, c := range []struct {
		act             sdk.Activation
		intercept       bool
		fixed, mirrored bool
		sum             float64
		refused         string
	}{
		{activation(t, sigmoid.Family), false, false, true, 1, ""}, {activation(t, sigmoid.Family), true, false, true, 1, ""},
		{activation(t, tanh.Family), false, false, true, 0, ""}, {activation(t, tanh.Family), true, false, true, 0, ""},
		{activation(t, relu.Family), false, true, false, 0, ""}, {activation(t, relu.Family), true, true, false, 0, ""},
		{activation(t, leakyrelu.Family), false, true, false, 0, ""}, {activation(t, leakyrelu.Family), true, true, false, 0, ""},
		{square, false, true, false, 0, ""}, {bell, true, false, false, 0, ""}, {softplus, false, false, false, 0, ""}, {softplus, true, false, false, 0, ""},
		{activation(t, identity.Family), true, true, true, 0, "nor its offset from the intercepts; leave it out"},
		{activation(t, identity.Family), false, true, true, 0, "leave it out, and give the experts an intercept"},
		{affine, true, true, true, 4, "nor its offset from the intercepts"}, {affine, false, true, true, 4, "give the experts an intercept"},
	} {
		for _, of := range OutputScales() {
			o, err := outputOf(t.Context(), c.act, Shape{K: 2, D: 1, Intercept: c.intercept}, of)
			what := fmt.Sprintf("%s, intercept %v, %s", c.act.Info().Name, c.intercept, of.Name())
			if (err != nil) != (c.refused != "") || err != nil && (!strings.Contains(err.Error(), c.refused) || !strings.Contains(err.Error(), "output scale "+of.Name())) {
				t.Errorf("%s: error %v, want %q", what, err, c.refused)
			}
			if err != nil {
				continue
			}
			at := make([]float64, 3)
			if err := c.act.Eval(t.Context(), at, []float64{-1, 0, 1}); err != nil {
				t.Fatal(err)
			}
			if o.Of != of || o.Fixed != c.fixed || o.Mirrored != c.mirrored || math.Abs(o.Sum-c.sum) > 1e-15 || o.Sign != 1 || o.zero != at[1] || math.Abs(o.slope-(at[2]-at[0])/2) > 1e-15 {
				t.Errorf("%s: %+v, want fixed %v, mirrored %v with the sum %v", what, o, c.fixed, c.mirrored, c.sum)
			}
		}
	}
	for _, c := range []struct {
		of   OutputScale
		s    Shape
		want string
	}{{"both", Shape{K: 2, D: 1}, `output scale "both"; there are [shared per-expert]`}, {SharedScale, Shape{K: 2, D: 1, Experts: []int{}}, "experts that see no feature have a mean each"}} {
		if _, err := outputOf(t.Context(), softplus, c.s, c.of); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// TestDependence: a combination of functions is one up to 1e−5 of its size; g mirrors itself up to 1e−9 of its
// own; values stand at their places of the grid from −8 to 8.
func TestDependence(t *testing.T) {
	var d dependence
	if err := d.probe(t.Context(), softplus); err != nil {
		t.Fatal(err)
	}
	if len(d.z) != 129 || d.z[0] != -8 || d.z[128] != 8 || floats.Sum(d.one) != 129 {
		t.Errorf("a grid of %d from %v to %v", len(d.z), d.z[0], d.z[len(d.z)-1])
	}
	for i, z := range d.z {
		if d.g[i] != softplus.G(z) || d.at(z) != softplus.G(z) || d.dg[i] != softplus.DG(z) || d.zdg[i] != z*softplus.DG(z) {
			t.Fatalf("at %v: %v and %v, %v, %v", z, d.g[i], d.at(z), d.dg[i], d.zdg[i])
		}
	}
	rng := rand.New(rand.NewPCG(30, 3))
	draw := func() []float64 {
		v := make([]float64, 50)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		return v
	}
	for _, size := range []float64{1e-6, 1, 1e8} {
		a, b, off := draw(), draw(), draw()
		for range 40 { // off stands upright on both, which are not on each other
			floats.AddScaled(off, -floats.Dot(off, a)/floats.Dot(a, a), a)
			floats.AddScaled(off, -floats.Dot(off, b)/floats.Dot(b, b), b)
		}
		v := make([]float64, 50)
		floats.AddScaled(v, 3*size, a)
		floats.AddScaled(v, -2*size, b)
		floats.Scale(size, a)
		twice := append([]float64(nil), a...)
		floats.Scale(2, twice)
		others := [][]float64{a, b, make([]float64, 50), twice} // a column of nothing and one that is there already
		for share, want := range map[float64]bool{0: true, 0.5e-5: true, 2e-5: false, 1: false} {
			w := append([]float64(nil), v...)
			floats.AddScaled(w, share*floats.Norm(v, 2)/floats.Norm(off, 2), off)
			if got := d.spanned(w, others); got != want {
				t.Errorf("size %v, a share of %v off: spanned %v", size, share, got)
			}
		}
	}
	for bend, want := range map[float64]bool{0: true, 1e-11: true, 1e-8: false} {
		m := dependence{z: d.z}
		for _, z := range d.z {
			m.g = append(m.g, 1+5*z+5*bend*math.Abs(z))
		}
		if got, sum := m.mirrored(); got != want || got && math.Abs(sum-2) > 1e-12 {
			t.Errorf("a bend of %v: mirrored %v with the sum %v", bend, got, sum)
		}
	}
}

// TestRange: the least and the largest value, infinite where g still grows.
func TestRange(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		act    sdk.Activation
		lo, hi float64
	}{
		{activation(t, sigmoid.Family), 0, 1}, {activation(t, tanh.Family), -1, 1}, {activation(t, relu.Family), 0, inf}, {activation(t, leakyrelu.Family), -inf, inf},
		{activation(t, identity.Family), -inf, inf}, {square, 0, inf}, {bell, 0, 1}, {softplus, 0, inf},
		{sdk.Func{Name: "down", G: func(z float64) float64 { return -max(z, 0) }, DG: func(float64) float64 { return 0 }}, -inf, 0},
		{sdk.Func{Name: "arctan", G: math.Atan, DG: func(z float64) float64 { return 1 / (1 + z*z) }}, -math.Pi / 2, math.Pi / 2},
		{sdk.Func{Name: "arsinh", G: math.Asinh, DG: func(z float64) float64 { return 1 / math.Hypot(1, z) }}, -inf, inf},
	} {
		lo, hi, err := Range(t.Context(), c.act)
		// An arc tangent is 1e−6 from its bound at a million.
		if err != nil || lo != c.lo && !(math.Abs(lo-c.lo) < 2e-6) || hi != c.hi && !(math.Abs(hi-c.hi) < 2e-6) {
			t.Errorf("%s: from %v to %v, error %v, want %v to %v", c.act.Info().Name, lo, hi, err, c.lo, c.hi)
		}
	}
}

// skewed is a table whose target has a third moment of that sign.
func skewed(n int, sign float64) (*mat.Dense, []float64) {
	rng := rand.New(rand.NewPCG(30, 4))
	x, y := mat.NewDense(n, 2, nil), make([]float64, n)
	for i := range y {
		x.SetRow(i, []float64{rng.NormFloat64(), rng.NormFloat64()})
		y[i] = 7 + sign*rng.ExpFloat64()
	}
	return x, y
}

// TestOutputsBegin: starts reach a tenth beyond the target's range with a bounded g, and have its mean and
// standard deviation with another, of which the regressors have the size where the scale is fixed; of a g that
// is not mirrored s has the sign of the third moments; the moment tensors see (y − c)/s.
func TestOutputsBegin(t *testing.T) {
	const n = 900
	leaky, below := activation(t, leakyrelu.Family), make([]float64, 1)
	soft, err := sdk.MomentsOf(t.Context(), softplus)
	if err = errors.Join(err, leaky.Eval(t.Context(), below, []float64{-1})); err != nil {
		t.Fatal(err)
	}
	slope := -below[0]
	for _, sign := range []float64{1, -1} {
		x, y := skewed(n, sign)
		mean, sd := stat.Mean(y, nil), stat.PopStdDev(y, nil)
		least, most := floats.Min(y), floats.Max(y)
		for _, c := range []struct {
			act sdk.Activation
			of  OutputScale
			// wanted
			centre, size, sign, pivot float64
		}{
			{activation(t, tanh.Family), SharedScale, (least + most) / 2, 1.1 * (most - least) / 2, 1, 0},
			{activation(t, sigmoid.Family), PerExpertScale, (least + most) / 2, 1.1 * (most - least), 1, 0.5},
			{bell, SharedScale, (least + most) / 2, 1.1 * (most - least), -sign, 0.5}, // its third moment is below 0, see below
			{activation(t, relu.Family), PerExpertScale, mean, 1, sign, sd / math.Sqrt(0.5-1/(2*math.Pi)) / math.Sqrt(2*math.Pi)},
			{square, SharedScale, mean, 1, sign, sd / math.Sqrt2},
			{leaky, SharedScale, mean, 1, sign, sd / math.Sqrt((1+slope*slope)/2-(1-slope)*(1-slope)/(2*math.Pi)) * (1 - slope) / math.Sqrt(2*math.Pi)},
			{softplus, SharedScale, mean, sd / math.Sqrt(soft.Value[2][0]-soft.Value[1][0]*soft.Value[1][0]), sign, soft.Value[1][0]}, // convex: its third moment is above 0
		} {
			src := dataset.Matrix(x, y)
			p, err := Load(t.Context(), src, c.act, Request{K: 2, Output: c.of})
			if err != nil {
				t.Fatal(err)
			}
			o := p.Shape.Output
			want := []float64{c.centre, c.size, c.sign, c.pivot, sd}
			what := fmt.Sprintf("%s, third moment %v", c.act.Info().Name, sign)
			if !floats.EqualApprox([]float64{o.Centre, o.Size, o.Sign, o.Pivot, p.RMS()}, want, 1e-9) {
				t.Errorf("%s: begins at centre %v, size %v, sign %v, pivot %v, sd %v, want %v", what, o.Centre, o.Size, o.Sign, o.Pivot, p.RMS(), want)
			}
			s := c.sign * c.size
			q := p.Shape.Blank(1)
			for m := range q.Scale {
				if math.Abs(q.Scale[m]-s) > 1e-9 || math.Abs(q.Offset[m]-(c.centre-s*c.pivot)) > 1e-9 {
					t.Errorf("%s: c = %v, s = %v", what, q.Offset[m], q.Scale[m])
				}
			}
			if pairs := map[OutputScale]int{SharedScale: 1, PerExpertScale: 2}[c.of]; len(q.Scale) != pairs {
				t.Errorf("%s: %d pairs", what, len(q.Scale))
			}
			plain := p.Plain()
			if plain == p || plain.Plain() != plain || plain.Shape.Output != nil || p.With(3).Plain().Shape.K != 3 || p.Shape.K != 2 {
				t.Errorf("%s: plain shape %+v", what, plain.Shape)
			}
			at, sum := 0, 0.0
			for _, b := range data(t, plain.Rows).Blocks {
				for _, v := range b.Y {
					if want := (y[at] - (c.centre - s*c.pivot)) / s; math.Abs(v-want) > 1e-9*(1+math.Abs(want)) {
						t.Fatalf("%s: row %d is %v, want %v", what, at, v, want)
					}
					at, sum = at+1, sum+v
				}
			}
			if math.Abs(plain.Second.Y[1]-sum) > 1e-9*n {
				t.Errorf("%s: sums of another target", what)
			}
		}
	}
	m, err := sdk.MomentsOf(t.Context(), bell)
	if err != nil {
		t.Fatal(err)
	}
	// E g^p = 1/√(1 + p).
	a, b, c := 1/math.Sqrt2, 1/math.Sqrt(3), 0.5
	if third := c - 3*b*a + 2*a*a*a; third >= 0 || math.Abs(m.Value[3][0]-c) > 1e-9 {
		t.Errorf("the bell's third moment is %v", third)
	}
}

// TestOutputsDrawn: c and s of random starts go together; s is ±Size where it is fixed, else Size·e^(N/2), and of
// either sign unless g is mirrored. Bounds are four standard errors of 2,000 draws.
func TestOutputsDrawn(t *testing.T) {
	const n = 2000
	rng := rand.New(rand.NewPCG(30, 5))
	for code := range 8 {
		o := &Output{Of: SharedScale, Fixed: code&1 > 0, Mirrored: code&2 > 0, Centre: 5, Pivot: 0.5, Size: 3, Sign: 1 - float64(code>>2)*2}
		q := Shape{K: 2, D: 1, Output: o}.Blank(1)
		negative, logs := 0, []float64{}
		for range n {
			o.Draw(rng, q)
			s := q.Scale[0]
			if math.Abs(q.Offset[0]-(5-0.5*s)) > 1e-12 {
				t.Fatalf("%+v: c = %v with s = %v", o, q.Offset[0], s)
			}
			if s < 0 {
				negative++
			}
			logs = append(logs, math.Log(math.Abs(s)/3))
		}
		mean, sd := stat.MeanStdDev(logs, nil)
		want := map[bool]int{true: int(1-o.Sign) / 2 * n, false: n / 2}[o.Mirrored]
		if off := math.Abs(float64(negative - want)); o.Mirrored && off > 0 || off > 4*math.Sqrt(n)/2 {
			t.Errorf("%+v: %d of %d are below 0", o, negative, n)
		}
		if o.Fixed && (math.Abs(mean) > 1e-15 || sd > 1e-15) || !o.Fixed && (math.Abs(mean) > 4*0.5/math.Sqrt(n) || math.Abs(sd-0.5) > 4*0.5/math.Sqrt(2*n)) {
			t.Errorf("%+v: logarithms of the sizes of %v ± %v", o, mean, sd)
		}
	}
}

// TestBend: the mean's line about 0 is the line that the expert was; where g is even the regressor is of its size.
func TestBend(t *testing.T) {
	rng := rand.New(rand.NewPCG(30, 6))
	for _, act := range []sdk.Activation{activation(t, tanh.Family), activation(t, sigmoid.Family), softplus, activation(t, relu.Family), bell} {
		for _, of := range OutputScales() {
			s := Shape{K: 3, D: 2, Intercept: true}
			o, err := outputOf(t.Context(), act, s, of)
			if err != nil {
				t.Fatal(err)
			}
			o.Size, o.Centre, o.Pivot = 3, 2, 0.25
			s.Output = o
			p := s.Blank(1)
			for i := range p.Regressors {
				p.Regressors[i] = rng.NormFloat64()
			}
			for i := range p.RegressorIntercepts {
				p.RegressorIntercepts[i] = rng.NormFloat64()
			}
			for i := range p.K {
				q := p.Clone()
				o.Bend(q, i)
				c, scale := q.OutputOf(i)
				for range 3 {
					x := []float64{rng.NormFloat64(), rng.NormFloat64()}
					line := floats.Dot(p.Regressor(i), x) + p.RegressorIntercepts[i]
					z := floats.Dot(q.Regressor(i), x) + q.RegressorIntercepts[i]
					slope := o.slope
					if act.Info().Name == "bell" {
						slope = 1
					}
					if got := c + scale*(o.zero+slope*z); math.Abs(got-line) > 1e-12*(1+math.Abs(line)) {
						t.Errorf("%s, expert %d: %v, the line has %v", act.Info().Name, i, got, line)
					}
				}
				for j := range p.K {
					if j != i && !floats.Equal(p.Regressor(j), q.Regressor(j)) {
						t.Errorf("%s: expert %d is bent with %d", act.Info().Name, j, i)
					}
				}
			}
		}
	}
}

// TestTargetsOfRows: the largest target and what is small beside it, and targets of two values, against a walk over them.
func TestTargetsOfRows(t *testing.T) {
	const n = 600
	rng := rand.New(rand.NewPCG(30, 7))
	problem := func(y func(i int) float64) (*Problem, []float64) {
		x, v := mat.NewDense(n, 1, nil), make([]float64, n)
		for i := range v {
			x.Set(i, 0, rng.NormFloat64())
			v[i] = y(i)
		}
		rows, err := dataset.Load(t.Context(), dataset.Matrix(x, v))
		if err != nil {
			t.Fatal(err)
		}
		return &Problem{Rows: rows}, v
	}
	for _, c := range []struct {
		large, small float64
		rows         int // of small ones
		outlier      bool
	}{{1e6, 1, 599, true}, {-1e6, 1, 300, true}, {1e6, 1, 299, false}, {1e6, 101, 599, false}, {1e6, 100, 599, true}, {1, 1, 599, false}, {0, 0, 599, false}} {
		p, y := problem(func(i int) float64 {
			if i < c.rows {
				return c.small * float64(1-2*(i%2))
			}
			return c.large
		})
		row, largest, err := p.Largest()
		first := 0
		for i, v := range y {
			if math.Abs(v) > math.Abs(y[first]) {
				first = i
			}
		}
		if err != nil || row != first+1 || largest != y[first] {
			t.Errorf("%+v: row %d with %v, want %d with %v", c, row, largest, first+1, y[first])
		}
		out, err := p.Outlier()
		if err != nil || (out != nil) != c.outlier {
			t.Errorf("%+v: %+v, error %v", c, out, err)
		}
		if out != nil && (out.Row != first+1 || out.Y != y[first] || math.Abs(out.Others-c.small) > 1e-12*c.small) {
			t.Errorf("%+v: %+v", c, out)
		}
		if p.N() != n {
			t.Errorf("%d rows", p.N())
		}
	}
	// Where an intercept takes up any number, a distance is from the others: one row of 0 among dates.
	for _, stray := range []int{0, 1, 100} {
		x, v := table(n, []float64{0}, []float64{1})
		for i := range v {
			v[i] = 1.7e9 + float64(i%7)
			if i > 100 && i <= 100+stray {
				v[i] = 0
			}
		}
		p := loaded(t, dataset.Matrix(x, v), Request{K: 2, Intercepts: BothIntercepts})
		out, err := p.Outlier()
		if err != nil || (out != nil) != (stray > 0) {
			t.Fatalf("%d of 0: %+v, error %v", stray, out, err)
		}
		if out != nil && (out.Row != 102 || out.Y != 0 || math.Abs(out.Others-2.4) > 0.5) {
			t.Errorf("%d of 0: %+v", stray, out)
		}
	}
	for name, c := range map[string]struct {
		y    func(i int) float64
		a, b float64
		two  bool
	}{
		"one":           {func(int) float64 { return 3 }, 0, 0, false},
		"two":           {func(i int) float64 { return float64(i%2) - 4 }, -4, -3, true},
		"the larger":    {func(i int) float64 { return float64(1 - i%2) }, 0, 1, true},
		"two, the last": {func(i int) float64 { return float64(i / (n - 1)) }, 0, 1, true},
		"three":         {func(i int) float64 { return float64(i % 3) }, 0, 0, false},
		"three, late":   {func(i int) float64 { return float64(i%2 + i/(n-1)) }, 0, 0, false},
	} {
		p, _ := problem(c.y)
		if a, b, two, err := p.TwoValues(); err != nil || two != c.two || a != c.a || b != c.b {
			t.Errorf("%s: %v and %v, %v, error %v", name, a, b, two, err)
		}
	}
}

// TestUnder: the same data under another tree, flat where it has one gate.
func TestUnder(t *testing.T) {
	x, y := table(100, []float64{0, 0}, []float64{1, 1})
	p := loaded(t, dataset.Matrix(x, y), Request{K: 2})
	for text, want := range map[string]string{"2x(1,2)": "2x(1,2)", "4": ""} {
		h, err := model.ParseHierarchy(text)
		if err != nil {
			t.Fatal(err)
		}
		q := p.Under(h)
		got := ""
		if q.Shape.Tree.Depth() > 1 {
			got = q.Shape.Tree.String()
		}
		if q.Shape.K != h.Leaves() || got != want || (want == "") != (len(q.Shape.Tree.Branches) == 0) || q.Rows != p.Rows || p.Shape.K != 2 || len(p.Shape.Tree.Branches) > 0 {
			t.Errorf("%s: k = %d, tree %q", text, q.Shape.K, got)
		}
		if f := q.Flat(); len(f.Shape.Tree.Branches) > 0 || f.Shape.K != q.Shape.K || f.Rows != p.Rows {
			t.Errorf("%s, flat: %+v", text, f.Shape)
		}
	}
}
