package host

import (
	"bytes"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestArrangements: among data sets of uniform features and uneven shares are some with another optimum near the
// best. Its likelihood is what a pass over the rows has, it is another mixture, its weight is e^ℓ·|I|^(−1/2) by the
// information at its parameters in the file, written out here, and the fit itself is the same without the flag.
func TestArrangements(t *testing.T) {
	c := arranged{"uniform, uneven", 2, 0.5, []float64{1.5, 0.5}, true}
	weighed := 0
	for seed := uint64(101); seed < 116 && weighed < 1; seed++ {
		src, _ := c.draw(1500, seed)
		cfg := Config{K: 3, Intercepts: BothIntercepts, Arrangements: true}
		m, err := Fit(t.Context(), activation(identity.Family, nil), src, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Validate(); err != nil {
			t.Fatal(err)
		}
		s := m.Arrangements
		if s == nil || s.Weight == nil {
			t.Fatalf("seed %d: no arrangements, or no weight", seed)
		}
		if len(s.Others) == 0 {
			continue
		}
		cfg.Arrangements = false
		plain, err := Fit(t.Context(), activation(identity.Family, nil), src, cfg)
		if err != nil {
			t.Fatal(err)
		}
		sameButArrangements(t, m, plain)
		total, logs, weights := 0.0, []float64{}, []float64{}
		add := func(of *fitted.Model, ll float64, w *float64, unweighted string) {
			if w != nil {
				total += *w
			}
			if unweighted != "" {
				if w == nil || *w != 0 {
					t.Errorf("seed %d: a weight beside %q", seed, unweighted)
				}
				return
			}
			got, volume := likelihoodAndVolume(t, src, of)
			if math.Abs(got-ll) > 1e-6*math.Abs(ll) {
				t.Errorf("seed %d: log-likelihood %v in the file, %v of the rows", seed, ll, got)
			}
			logs, weights = append(logs, got+volume), append(weights, *w)
		}
		add(m, m.Fit.LogLikelihood, s.Weight, s.Unweighted)
		for i := range s.Others {
			a := &s.Others[i]
			if a.Below < -1e-6 || a.Below > 6 || a.Moved < 1 || a.Differs == "" {
				t.Errorf("seed %d: %v below, %v rows moved, %q", seed, a.Below, a.Moved, a.Differs)
			}
			add(a.Of(m), a.LogLikelihood, a.Weight, a.Unweighted)
		}
		if s.Intervals == nil { // the best itself has no weight that the others could be held against
			if total != 0 {
				t.Errorf("seed %d: weights of %v without intervals", seed, total)
			}
			continue
		}
		if math.Abs(total-1) > 1e-9 {
			t.Errorf("seed %d: the weights add up to %v", seed, total)
		}
		for i := range logs { // of differences of numbers of 1e3, to 1e-6
			if got, want := math.Log(weights[i]/weights[0]), logs[i]-logs[0]; math.Abs(got-want) > 1e-3 {
				t.Errorf("seed %d: log of the ratio of weights %v, want %v", seed, got, want)
			}
		}
		if len(logs) > 1 {
			weighed++
		}
	}
	if weighed == 0 {
		t.Error("no data set has two arrangements with weights")
	}
}

// sameButArrangements compares two fits' files but for their arrangements.
func sameButArrangements(t *testing.T, a, b *fitted.Model) {
	t.Helper()
	var files [2][]byte
	for i, m := range []*fitted.Model{a, b} {
		own := *m
		own.Arrangements, own.Fit.Notes = nil, nil
		var err error
		if files[i], err = own.JSON(); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("with arrangements asked for the fit is another")
	}
}

// likelihoodAndVolume are the log-likelihood at a model's parameters and −½·log|I| with the information there.
func likelihoodAndVolume(t *testing.T, src dataset.Source, m *fitted.Model) (ll, volume float64) {
	t.Helper()
	data, err := dataset.Load(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	p := m.Params()
	var free loss.Free = loss.All
	l := loss.NewLikelihood(model.Rows(data), activation(identity.Family, nil), p, free, 1)
	h, score := mat.NewSymDense(l.Dim(), nil), make([]float64, l.Dim())
	if err := l.Information(t.Context(), h, score, p, nil); err != nil {
		t.Fatal(err)
	}
	if ll, err = l.LogLikelihood(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	determinant, _ := mat.LogDet(h)
	return ll, -determinant/2 + math.Log(p.Sigma[0]) // of σ, not log σ
}
