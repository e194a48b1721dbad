package gru

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/stream"
)

// sequences reads testdata/sequences.npz.
func sequences(t *testing.T, name string) *mat.Dense {
	t.Helper()
	f, err := os.Open("testdata/sequences.npz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in, err := open(f)
	if err != nil {
		t.Fatal(err)
	}
	a, err := in.read(name)
	if err != nil {
		t.Fatal(err)
	}
	return mat.NewDense(int(a.shape[0]), int(a.shape[1]), a.values)
}

// TestLayersOfLibraries: layers that numpy wrote take the steps that numpy computed
// from the libraries' own formulas (testdata/make.py).
func TestLayersOfLibraries(t *testing.T) {
	x := sequences(t, "x")
	for _, c := range []struct {
		file, states string
		form         Form
	}{
		{"torch.npz", "torch", ResetAfter},
		{"torch.safetensors", "torch", ResetAfter},
		{"keras.npz", "keras", ResetAfter},
		{"keras-before.npz", "before", ResetBefore},
	} {
		l, err := Read(filepath.Join("testdata", c.file), Selection{})
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		if l.Form != c.form || l.Inputs() != 3 || l.Hidden() != 4 {
			t.Errorf("%s: %s, %d inputs, %d units", c.file, l.Form, l.Inputs(), l.Hidden())
		}
		want, h, s := sequences(t, c.states), make([]float64, 4), l.NewStepper(Soft)
		for i := range 20 {
			s.Next(h, x.RawRowView(i), h)
			for j, v := range h {
				// Twenty steps of a few roundings each.
				if math.Abs(v-want.At(i, j)) > 1e-13 {
					t.Fatalf("%s: state %d of step %d is %v, want %v", c.file, j, i, v, want.At(i, j))
				}
			}
		}
	}
}

// random returns a layer with standard normal weights.
func random(rng *rand.Rand, form Form, inputs, hidden int) *Layer {
	values := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		return v
	}
	affine := func() Affine {
		return Affine{mat.NewDense(hidden, inputs, values(hidden*inputs)), mat.NewDense(hidden, hidden, values(hidden*hidden)), values(hidden)}
	}
	l := &Layer{Form: form, Update: affine(), Reset: affine(), Candidate: affine(), RecurrentBias: make([]float64, hidden)}
	if form == ResetAfter {
		l.RecurrentBias = values(hidden)
	}
	return l
}

// means returns the trees' means at (x, h) as a mixture of experts computes them.
func means(l *Layer, x, h []float64) []float64 {
	mix := mixture.Mixture{Gate: mixture.NewTree(Shape)}
	b := &model.Block{N: 1, X: append(append([]float64(nil), x...), h...)}
	out := make([]float64, l.Hidden())
	for j := range out {
		p := l.Unit(j)
		z, prior := make([]float64, 3), make([]float64, 3)
		p.Predictors(z, b)
		mix.Prior(prior, p, b)
		out[j] = prior[0]*z[0] + prior[1]*math.Tanh(z[1]) + prior[2]*math.Tanh(z[2])
	}
	return out
}

// TestTrees: the mixture of experts that Unit returns has the mean that Trees has, and
// with gates as sharp as 0 and 1 it is the layer's next state to 1e−12: after any
// sequence in the form reset-after, where U is diagonal in the other.
func TestTrees(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		name     string
		form     Form
		diagonal bool
		exact    bool
	}{
		{"reset-after", ResetAfter, false, true},
		{"reset-before, diagonal", ResetBefore, true, true},
		{"reset-before", ResetBefore, false, false},
	} {
		l := random(rng, c.form, 5, 8)
		if c.diagonal {
			l.Candidate.U.Apply(func(i, j int, v float64) float64 {
				if i != j {
					return 0
				}
				return v
			}, l.Candidate.U)
		}
		hard := l.sharpened(1e9) // no predictor of the sequence is within 1e−6 of 0
		h, worst := make([]float64, 8), 0.0
		soft, binary, steps := l.NewTrees(Soft), l.NewTrees(Binary), l.NewStepper(Binary)
		own, mean := make([]float64, 8), make([]float64, 8)
		for range 200 {
			x := make([]float64, 5)
			for i := range x {
				x[i] = rng.NormFloat64()
			}
			soft.Next(mean, x, h)
			for j, v := range means(l, x, h) {
				if math.Abs(mean[j]-v) > 1e-14 {
					t.Fatalf("%s: mean %v, as a mixture %v", c.name, mean[j], v)
				}
			}
			steps.Next(own, x, h)
			binary.Next(mean, x, h)
			for j, v := range means(hard, x, h) {
				worst = max(worst, math.Abs(own[j]-v))
				if math.Abs(mean[j]-v) > 1e-14 {
					t.Fatalf("%s: binary mean %v, as a mixture %v", c.name, mean[j], v)
				}
			}
			copy(h, own)
		}
		if c.exact != (worst <= 1e-12) {
			t.Errorf("%s: the trees are up to %v from the layer", c.name, worst)
		}
	}
}

// TestGap: the trees' outer level is exact with soft gates, so that no gap is left
// where the reset gates are binary alone; with soft ones the gap goes to 0 as they
// harden.
func TestGap(t *testing.T) {
	l := random(rand.New(rand.NewPCG(2, 1)), ResetAfter, 5, 8)
	open := *l
	open.Reset = l.Reset.scaled(1e9)
	if gap := open.Compare(500, Soft, 1, 1); gap.Max > 1e-12 {
		t.Errorf("binary reset gates: gap %v", gap.Max)
	}
	// A gap needs a reset gate between 0 and 1, as rare as 1/sharpness: its rms falls
	// as the root, by 64 to 4,096 for one of 1, of which a tenth is asked. Of 30 seeds none fails; of 60 with
	// 4,000 steps three did.
	const steps = 64000
	first, last := l.Compare(steps, Soft, 1, 1).RMS, math.Inf(1)
	for _, sharpness := range []float64{16, 256, 4096} {
		gap := l.Compare(steps, Soft, sharpness, 1).RMS
		if gap <= 0 || gap > last/2 {
			t.Errorf("sharpness %v: gap %v, that of a sixteenth of it %v", sharpness, gap, last)
		}
		last = gap
	}
	if last > first/10 {
		t.Errorf("gap %v, from %v as the layer is", last, first)
	}
}

// TestCompareWrittenOut: the gap is that between the layer's steps and the means of the
// mixtures of experts, over the steps and units of a sequence with its inputs from the seed.
func TestCompareWrittenOut(t *testing.T) {
	const steps, inputs, hidden, sharpness, seed = 7, 2, 3, 1.5, 11
	l := random(rand.New(rand.NewPCG(3, 1)), ResetAfter, inputs, hidden)
	sharp := l.sharpened(sharpness)
	rng, step := stream.New(seed, stream.Sequence, 0), sharp.NewStepper(Soft)
	x, h := make([]float64, inputs), make([]float64, hidden)
	var square, state, most float64
	for range steps {
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		mean := means(sharp, x, h)
		step.Next(h, x, h)
		for j, v := range h {
			square += (mean[j] - v) * (mean[j] - v)
			state += v * v
			most = max(most, math.Abs(mean[j]-v))
		}
	}
	got := l.Compare(steps, Soft, sharpness, seed)
	// Rounding of a few sums.
	for name, c := range map[string][2]float64{
		"rms": {got.RMS, math.Sqrt(square / (steps * hidden))}, "state": {got.State, math.Sqrt(state / (steps * hidden))}, "max": {got.Max, most},
	} {
		if !(math.Abs(c[0]-c[1]) <= 1e-13*c[1]) {
			t.Errorf("%s is %v, want %v", name, c[0], c[1])
		}
	}
}

// TestGatesAtZero: a soft gate is half open at 0, a binary one closed.
func TestGatesAtZero(t *testing.T) {
	for gates, want := range map[Gates]float64{Soft: 0.5, Binary: 0} {
		if got := gates.open(0); got != want {
			t.Errorf("gates %d are open by %v at 0, want %v", gates, got, want)
		}
		// 1/(1+e^−η) of both signs add up to 1.
		if up, down := gates.open(2), gates.open(-2); math.Abs(up+down-1) > 1e-15 || !(up > 0.88) {
			t.Errorf("gates %d are open by %v at 2 and %v at −2", gates, up, down)
		}
	}
}
