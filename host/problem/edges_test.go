package problem

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/internal/memory"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/leakyrelu"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/tanh"
	"github.com/gatedlearning/moe/sdk"
)

// farOf is what [Inputs].Far says of rows x with weights w, from the moments written out. Under
// N(0, 1) the variances of √n times the sample's mean, variance, third and fourth moment about 0
// are 1, 2, 15 and 105 − 9; of a covariance of d columns the eigenvalues reach 1 ± 2√(d/n) + d/n.
func farOf(x *mat.Dense, w []float64) string {
	rows, d := x.Dims()
	total, squares := floats.Sum(w), floats.Dot(w, w)
	n := total * total / squares
	moment := func(of func(row []float64) float64) (sum float64) {
		for r := range rows {
			sum += w[r] / total * of(x.RawRowView(r))
		}
		return sum
	}
	mean := make([]float64, d)
	for j := range mean {
		mean[j] = moment(func(v []float64) float64 { return v[j] })
	}
	cov := mat.NewSymDense(d, nil)
	for i := range d {
		for j := range i + 1 {
			cov.SetSym(i, j, moment(func(v []float64) float64 { return (v[i] - mean[i]) * (v[j] - mean[j]) }))
		}
	}
	var eig mat.EigenSym
	eig.Factorize(cov, false)
	values := eig.Values(nil)
	edge := 0.1 + 2*math.Sqrt(float64(d)/n) + float64(d)/n + 5*math.Sqrt(2/n)
	if norm := floats.Norm(mean, 2); norm > 0.1+math.Sqrt(float64(d)/n)+5/math.Sqrt(n) {
		return fmt.Sprintf("the features' mean has norm %.3g, not 0", norm)
	}
	if values[d-1] > 1+edge || values[0] < 1-edge {
		return fmt.Sprintf("the features' covariance has eigenvalues from %.3g to %.3g, not 1", values[0], values[d-1])
	}
	for j := range d {
		power := func(p float64) float64 { return moment(func(v []float64) float64 { return math.Pow(v[j], p) }) }
		size := math.Sqrt(power(2))
		if skew := power(3) / math.Pow(size, 3); math.Abs(skew) > 0.2+5*math.Sqrt(15/n) {
			return fmt.Sprintf("feature %d has a standardised third moment of %.3g, not 0", j+1, skew)
		}
		if fourth := power(4) / math.Pow(size, 4); math.Abs(fourth-3) > 0.3+5*math.Sqrt(96/n) {
			return fmt.Sprintf("feature %d has a standardised fourth moment of %.3g, not 3", j+1, fourth)
		}
	}
	return ""
}

// TestFarFromStandard: of 400 data sets about the bounds, with weights and without, every one is
// judged as the moments written out judge it, in the same words.
func TestFarFromStandard(t *testing.T) {
	rng := rand.New(rand.NewPCG(30, 1))
	said := map[string]int{}
	for set := range 400 {
		n, d := []int{150, 500, 2000}[rng.IntN(3)], 1+rng.IntN(3)
		if set%20 == 0 {
			n, d = 220, 20 // where the edge of the eigenvalues is far out
		}
		x, w := mat.NewDense(n, d, nil), slices.Repeat([]float64{1}, n)
		shift, scale, bend, tail := 0.0, 1.0, 0.0, 0.0
		switch kind := set % 4; kind {
		case 0:
			shift = 0.6 * rng.Float64()
		case 1:
			scale = 0.5 + 1.2*rng.Float64()
		case 2:
			bend = 0.5 * rng.NormFloat64()
		case 3:
			tail = 0.9 * rng.Float64()
		}
		at := rng.IntN(d) // one feature alone
		for i := range n {
			for j := range d {
				v := rng.NormFloat64()
				if j == at {
					v = shift + scale*(v+bend*(v*v-1))/math.Sqrt(1+2*bend*bend)
					if tail > 0 { // a tenth of the rows are wider, all together as wide as before
						wide := 1 + 3*tail
						if rng.Float64() < 0.1 {
							v *= wide
						}
						v /= math.Sqrt(0.9 + 0.1*wide*wide)
					}
				}
				x.Set(i, j, v)
			}
			if set%3 == 0 {
				w[i] = 0.2 + rng.Float64()
			}
		}
		second := sums(t, x, w)
		in, err := InputsOf(second)
		if err != nil {
			t.Fatal(err)
		}
		want := farOf(x, w)
		if in.Far != want {
			t.Errorf("set %d, n = %d, d = %d: %q, want %q", set, n, d, in.Far, want)
		}
		for _, word := range []string{"mean", "covariance", "third", "fourth"} {
			if strings.Contains(want, word) {
				said[word]++
			}
		}
	}
	for _, word := range []string{"mean", "covariance", "third", "fourth"} {
		if said[word] < 10 {
			t.Errorf("%s is said %d times: %v", word, said[word], said)
		}
	}
}

func sums(t *testing.T, x *mat.Dense, w []float64) *tensor.Second {
	t.Helper()
	rows, err := dataset.Load(t.Context(), dataset.WeightedMatrix(x, make([]float64, len(w)), w))
	if err != nil {
		t.Fatal(err)
	}
	second, err := tensor.SumSecond(t.Context(), rows, 1)
	if err != nil {
		t.Fatal(err)
	}
	return second
}

// TestWhitenInAnyUnit: whether features can be whitened is a matter of the ratio of their
// eigenvalues, 1e−10 or 1e−15 here, not of their unit.
func TestWhitenInAnyUnit(t *testing.T) {
	for _, unit := range []float64{1e-9, 1, 1e9} {
		for ratio, want := range map[float64]bool{1e-10: true, 1e-15: false} {
			x, _ := table(500, []float64{0, 0}, []float64{unit, unit * math.Sqrt(ratio)})
			in, err := InputsOf(sums(t, x, slices.Repeat([]float64{1}, 500)))
			if err != nil || (in.Whiten != nil) != want {
				t.Errorf("unit %g, ratio %g: whitened %v, error %v", unit, ratio, in.Whiten != nil, err)
			}
		}
	}
}

// TestConstantActivations of any value are refused, those that vary by a hundredth of it are not.
func TestConstantActivations(t *testing.T) {
	for _, v := range []float64{0, 3, -1e8, 1e-8} {
		flat := sdk.Func{Name: "flat", G: func(float64) float64 { return v }, DG: func(float64) float64 { return 0 }}
		if _, err := MomentsOf(t.Context(), flat); err == nil || !strings.Contains(err.Error(), "activation flat is constant") {
			t.Errorf("%v everywhere: %v", v, err)
		}
		s := max(math.Abs(v), 1e-8) / 100
		wave := sdk.Func{Name: "wave", G: func(z float64) float64 { return v + s*math.Sin(z) }, DG: func(z float64) float64 { return s * math.Cos(z) }}
		m, err := sdk.MomentsOf(t.Context(), wave)
		if err == nil {
			err = varies(wave, m)
		}
		if err != nil {
			t.Errorf("%v and a wave: %v", v, err)
		}
	}
}

// TestFingerprints: columns that are equal have one fingerprint, 0 and −0 being equal; of 2,000
// others, with values in another order among them, no two have the same.
func TestFingerprints(t *testing.T) {
	if fingerprint([]float64{0, 1}) != fingerprint([]float64{math.Copysign(0, -1), 1}) {
		t.Error("−0 is another column than 0")
	}
	rng := rand.New(rand.NewPCG(30, 2))
	seen := map[uint64][]float64{}
	for range 1000 {
		v := []float64{rng.NormFloat64(), rng.NormFloat64(), float64(rng.IntN(3)), float64(rng.IntN(3))}
		for _, col := range [][]float64{v, {v[1], v[0], v[2], v[3]}} {
			f := fingerprint(col)
			if seen[f] != nil {
				t.Fatalf("%v and %v have the same fingerprint", seen[f], col)
			}
			seen[f] = col
		}
	}
}

// TestRequestsOfTrees: as many leaves as experts, one gate over any number, and an output scale
// for neither trees nor experts with activations of their own.
func TestRequestsOfTrees(t *testing.T) {
	tree := func(text string) model.Hierarchy {
		h, err := model.ParseHierarchy(text)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	own := []sdk.Activation{activation(t, identity.Family), activation(t, tanh.Family), activation(t, relu.Family), activation(t, identity.Family)}
	for name, c := range map[string]struct {
		r    Request
		want string // "" for none
	}{
		"one gate":                {Request{K: 3}, ""},
		"a tree":                  {Request{K: 4, Tree: tree("2x2")}, ""},
		"a flat tree":             {Request{K: 3, Tree: tree("3")}, ""},
		"another tree":            {Request{K: 3, Tree: tree("2x2")}, "k = 3, the tree 2x2 has 4 leaves"},
		"leaves":                  {Request{K: 4, Leaves: own}, ""},
		"other leaves":            {Request{K: 3, Leaves: own}, "4 activations for k = 3"},
		"an output":               {Request{K: 4, Output: SharedScale}, ""},
		"an output of leaves":     {Request{K: 4, Output: SharedScale, Leaves: own}, "output scale shared is for one gate"},
		"an output of a tree":     {Request{K: 4, Output: SharedScale, Tree: tree("2x2")}, "output scale shared is for one gate"},
		"an output of a flat one": {Request{K: 4, Output: SharedScale, Tree: tree("4")}, ""},
		"the largest noise":       {Request{K: 1, Noise: Shared{Sigma: 1e75}}, ""},
		"the smallest":            {Request{K: 1, Noise: Shared{Sigma: 1e-75}}, ""},
	} {
		if err := c.r.Check(); (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for text, depth := range map[string]int{"4": 0, "2x2": 2, "2x(1,2)": 2} {
		h := tree(text)
		if s := shapeOf(t, Request{K: h.Leaves(), Tree: h}); s.Tree.Depth() != depth && depth > 0 || depth == 0 && len(s.Tree.Branches) > 0 {
			t.Errorf("%s: the shape's tree is %v", text, s.Tree)
		}
	}
}

// TestTakesMeans: the means of features can be taken off where all that see them have intercepts.
func TestTakesMeans(t *testing.T) {
	some, none := []int{0}, []int{}
	for _, experts := range [][]int{nil, some, none} {
		for _, gate := range [][]int{nil, some, none} {
			for code := range 4 {
				s := Shape{Experts: experts, Gate: gate, Intercept: code&1 > 0, GateIntercept: code&2 > 0}
				sees := func(columns []int) bool { return columns == nil || len(columns) > 0 }
				want := !(sees(experts) && !s.Intercept) && !(sees(gate) && !s.GateIntercept)
				if got := s.takesMeans(); got != want {
					t.Errorf("experts %v, gate %v, intercepts %v and %v: %v", experts, gate, s.Intercept, s.GateIntercept, got)
				}
			}
		}
	}
}

// TestAdoptOutputs: c and s are copied where there are as many, else those of starts stay.
func TestAdoptOutputs(t *testing.T) {
	shape := func(of OutputScale) Shape {
		return Shape{K: 3, D: 1, Output: &Output{Of: of, Sign: -1, Size: 2, Centre: 5, Pivot: 0.5}}
	}
	begun := func(n int) string { // s = −2, c = 5 + 2·0.5
		return fmt.Sprint(slices.Repeat([]float64{6}, n), slices.Repeat([]float64{-2}, n))
	}
	for _, c := range []struct {
		have, want OutputScale
		out        string
	}{
		{SharedScale, SharedScale, "[10] [20]"}, {PerExpertScale, PerExpertScale, "[10 11 12] [20 21 22]"},
		{PerExpertScale, SharedScale, begun(1)}, {SharedScale, PerExpertScale, begun(3)}, {"", SharedScale, begun(1)}, {SharedScale, "", "[] []"}, {"", "", "[] []"},
	} {
		from, to := Shape{K: 3, D: 1}, Shape{K: 3, D: 1}
		if c.have != "" {
			from = shape(c.have)
		}
		if c.want != "" {
			to = shape(c.want)
		}
		p := from.Blank(1)
		for i := range p.Offset {
			p.Offset[i], p.Scale[i] = float64(10+i), float64(20+i)
		}
		q := to.Adopt(p)
		if got := fmt.Sprint(q.Offset, q.Scale); got != c.out {
			t.Errorf("%q from %q: %s, want %s", c.want, c.have, got, c.out)
		}
	}
}

// TestParametersOfOutputs: as many as the likelihood varies.
func TestParametersOfOutputs(t *testing.T) {
	x, y := table(60, []float64{0}, []float64{1})
	rows, err := dataset.Load(t.Context(), dataset.Matrix(x, y))
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range OutputScales() {
		for _, fixed := range []bool{true, false} {
			s := Shape{K: 3, D: 1, Output: &Output{Of: of, Fixed: fixed, Sign: 1, Size: 1}}
			l := loss.NewLikelihood(rows, activation(t, tanh.Family), s.Blank(1), s.Estimated(), 1)
			if got, want := s.Parameters(), len(l.Theta(s.Blank(1))); got != want {
				t.Errorf("%s, fixed %v: %d parameters, the likelihood has %d", of, fixed, got, want)
			}
		}
	}
}

// TestRoomCounted: the sums that no machine holds, counted one by one: a symmetric matrix over the
// features and the intercept of every expert, and of every two rows of the gate half of one, for
// every chunk and the total.
func TestRoomCounted(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the system does not tell")
	}
	const k, d = 2000, 20_000
	rows := &model.Data{N: 3 * model.BlockRows, D: d, Blocks: make([]model.Block, 3)}
	matrices := 0
	for i := range k {
		matrices += 1 + i // of expert i, and of the pairs that it ends
	}
	entries := 0
	for j := range d + 1 {
		entries += j + 1
	}
	var short *memory.Error
	err := Shape{K: k}.room(rows)
	if want := 8 * float64(matrices) * float64(entries) * float64(model.Chunks(rows)+1); !errors.As(err, &short) || math.Abs(short.Need-want) > 1e-9*want {
		t.Errorf("%v: %+v, want %v bytes", err, short, want)
	}
}

// TestLoadEnds: where the context ends behind the reading, Load does; a problem without rows can be
// closed; as many experts as rows are refused for their parameters.
func TestLoadEnds(t *testing.T) {
	x, y := table(600, []float64{0}, []float64{1})
	ctx, cancel := context.WithCancel(t.Context())
	p, err := Load(ctx, dataset.Matrix(x, y), activation(t, identity.Family), Request{K: 1, Loaded: cancel})
	if !errors.Is(err, context.Canceled) || p != nil {
		t.Errorf("problem %v, error %v", p, err)
	}
	new(Problem).Close()
	_, err = Load(t.Context(), dataset.Matrix(x, y), activation(t, identity.Family), Request{K: 600})
	if err == nil || !strings.Contains(err.Error(), "600 rows cannot determine") {
		t.Errorf("as many experts as rows: %v", err)
	}
}

// TestLoadLeaves: every expert is evaluated by its own activation; the kinks are those of all,
// each once.
func TestLoadLeaves(t *testing.T) {
	x, y := table(400, []float64{0, 0}, []float64{1, 1})
	leaves := []sdk.Activation{activation(t, relu.Family), activation(t, tanh.Family), activation(t, leakyrelu.Family), activation(t, relu.Family)}
	p, err := Load(t.Context(), dataset.Matrix(x, y), nil, Request{K: 4, Leaves: leaves})
	if err != nil {
		t.Fatal(err)
	}
	own, ok := p.G.Activation.(model.PerExpert)
	if !ok || len(own) != 4 {
		t.Fatalf("experts are evaluated by a %T", p.G.Activation)
	}
	z := []float64{-2, -0.5, 0.25, 3}
	for i := range leaves {
		got, want := make([]float64, 4), make([]float64, 4)
		if err := errors.Join(own[i].Eval(t.Context(), got, z), leaves[i].Eval(t.Context(), want, z)); err != nil || !slices.Equal(got, want) {
			t.Errorf("expert %d: %v, want %v, error %v", i, got, want, err)
		}
	}
	if n := len(p.Activations()); n != 3 || !slices.Equal(p.Kinks(), []float64{0}) || !slices.Equal(p.Shape.Kinds, []int{0, 1, 2, 0}) {
		t.Errorf("%d activations, kinks %v, kinds %v", n, p.Kinks(), p.Shape.Kinds)
	}
}

// TestDoubtOfWeights: weights are no counts whose sum is below half of the rows, or above twice as many and of parts of
// rows.
func TestDoubtOfWeights(t *testing.T) {
	x, y := table(600, []float64{0}, []float64{1})
	for w, want := range map[float64]bool{0.5: false, 0.49: true, 2: false, 1.75: false, 2.5: true, 300: false, 1e-3: true} {
		p := loaded(t, dataset.WeightedMatrix(x, y, slices.Repeat([]float64{w}, 600)), Request{K: 1})
		if p.Weights.Doubt != want || p.Weights.Light() != (w < 0.5) {
			t.Errorf("weights of %v: %+v", w, p.Weights)
		}
		// Counts are searched as so many rows; what are none as about as many as there are.
		if n, counted := p.Count(), 600*w; !want && n != counted || want && (n < 600 || n >= 1200) {
			t.Errorf("weights of %v: %v rows", w, n)
		}
	}
}
