package network

import (
	"math"
	"testing"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/internal/stream"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/sdk"
)

// TestSignedStarts: at random weights the signs of v that fit best are as many of each kind as the true ones, where φ has
// a mean that they show in, and none are tried where they are no matter.
func TestSignedStarts(t *testing.T) {
	testslow.Mark(t)
	const k, tried = 3, 20
	// Of 80, where a number drawn at random would be right in 20 ± 4: of ReLU units the mean of y tells less.
	for _, c := range []struct {
		act   sdk.Func
		least int
	}{{relu, 45}, {sigmoid, 76}, {softplus, 76}, {tanh, 0}} {
		act, right := c.act, 0
		for positive := range k + 1 {
			v := []float64{1, 1, 1}
			sign(v, positive)
			_, data := draw(t, act, sample.NetworkConfig{K: k, D: 6, N: 2000, Sigma: 0.1, Condition: 1, Output: v, Seed: 5})
			f, err := prepare(t.Context(), tableOf(data), act, Request{K: k, Output: Signs, Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			for i := range tried {
				s, err := f.signed(t.Context(), stream.New(9, stream.NetworkStart, i), 3*i)
				if err != nil {
					t.Fatal(err)
				}
				sum := 0.0
				for _, v := range s.net.Output {
					sum += v
				}
				if sum == float64(2*positive-k) {
					right++
				}
				if kind := s.kind; (kind == "signs") == (act.Name == tanh.Name) {
					t.Errorf("%s: a start of kind %s", act.Name, kind)
				}
			}
		}
		if right < c.least {
			t.Errorf("%s: %d of %d starts have as many positive units as there are, want %d", act.Name, right, tried*(k+1), c.least)
		}
	}
}

// TestPassesNeedAgreement: of this table the tensors' start ends at weights that are 41 times their size off. Starts with
// signs that fit end at the truth, which passes where three agree on it.
func TestPassesNeedAgreement(t *testing.T) {
	testslow.Mark(t)
	_, data := draw(t, sigmoid, sample.NetworkConfig{K: 3, D: 10, N: 2500, Sigma: 0.1, Condition: 1, Seed: 1})
	for _, c := range []struct {
		starts, more int
		rms          float64
		want         string
	}{{0, 0, 0.142, infer.Suspect}, {4, 12, 0.1005, infer.Pass}} {
		r, err := fitOf(t, sigmoid, data, Request{K: 3, Output: Signs, Starts: c.starts, More: c.more, Descent: 200, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Certificate; got.Optimum != c.want || math.Abs(r.Network.Sigma-c.rms) > 1e-3 {
			t.Errorf("%d starts and at most %d more: rms %v, want %v; %s (%s), want %s", c.starts, c.more, r.Network.Sigma, c.rms,
				got.Optimum, got.Reason, c.want)
		}
	}
	truth, data := draw(t, relu, sample.NetworkConfig{K: 2, D: 4, N: 2000, Sigma: 0.1, Condition: 1, Seed: 2})
	for agreeing, want := range map[int]string{1: infer.NotJudged, 2: infer.NotJudged, 3: infer.Pass} {
		c, _, err := Certify(t.Context(), data, relu, truth, Given, infer.Evidence{Starts: 5, Agreeing: agreeing}, 1)
		if err != nil || c.Optimum != want {
			t.Errorf("%d of 5 starts agree: %+v, %v, want %s", agreeing, c, err, want)
		}
	}
}

// TestTurn: from the network at which starts with the wrong signs agree, other signs are tried, and one of them ends where
// Levenberg–Marquardt does from the truth.
func TestTurn(t *testing.T) {
	for _, c := range []struct {
		act sdk.Func
		v   []float64
	}{{sigmoid, []float64{1, 1}}, {sigmoid, []float64{-1, -1, -1}}, {relu, []float64{1, -1}}, {softplus, []float64{1, 1, -1}}} {
		k := len(c.v)
		truth, data := draw(t, c.act, sample.NetworkConfig{K: k, D: 4, N: 300, Sigma: 0.1, Condition: 1, Output: c.v, Seed: 7})
		f, err := prepare(t.Context(), tableOf(data), c.act, Request{K: k, Output: Signs, Threads: 1, Descent: 200})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.climb(t.Context(), from{"truth", truth}); err != nil {
			t.Fatal(err)
		}
		want := f.out.Starts[0].Result.Value
		f.out.Starts = nil
		wrong := f.random(stream.New(3, stream.NetworkStart, 0))
		positive := 0
		for _, v := range c.v {
			if v > 0 {
				positive++
			}
		}
		sign(wrong.net.Output, (positive+1)%(k+1))
		if err := f.climb(t.Context(), wrong); err != nil {
			t.Fatal(err)
		}
		f.compare()
		before := f.out.Starts[0].Result.Value
		if err := f.turn(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.compare()
		if got := f.out.Starts[f.out.Best].Result.Value; before < 1.5*want || got > want*(1+1e-6) || len(f.out.Starts) != k+1 {
			t.Errorf("%s, v = %v: a loss of %v, before %v, want %v; %d starts", c.act.Name, c.v, got, before, want, len(f.out.Starts))
		}
	}
}
