package benchmark

import (
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/plugins/exp"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/sdk"
)

// BenchmarkFamilyPasses is a pass over the rows under every family by the processor's time, which other work does not move as
// it moves the clock. docs/studies/families.md has its numbers.
func BenchmarkFamilyPasses(b *testing.B) {
	const n, d, k = 1_000_000, 10, 3
	for _, c := range []struct {
		family string
		of     sdk.Family
		sigma  float64
		own    []float64
	}{
		{"gaussian", identity.Family, .3, nil},
		{"poisson", exp.Family, 0, nil},
		{"negative-binomial", exp.Family, 3, nil},
		{"gamma", exp.Family, 3, nil},
		{"student-t", identity.Family, .3, []float64{4}},
		{"binomial", sigmoid.Family, 0, nil},
	} {
		b.Run(c.family, func(b *testing.B) {
			act, err := c.of.Activation(nil)
			if err != nil {
				b.Fatal(err)
			}
			s, err := sample.New(sample.Config{Activation: act, K: k, D: d, N: n, Family: host.DensityName(c.family), Sigma: c.sigma, Own: c.own,
				Design: sample.Random, Seed: 1})
			if err != nil {
				b.Fatal(err)
			}
			data, err := dataset.Load(b.Context(), s)
			if err != nil {
				b.Fatal(err)
			}
			l := loss.NewLikelihood(data, act, s.Truth, loss.All, 1)
			x, next, h := l.Theta(s.Truth), make([]float64, l.Dim()), mat.NewSymDense(l.Dim(), nil)
			for _, f := range []struct {
				name string
				run  func() (float64, error)
			}{
				{"value", func() (float64, error) { return l.Value(b.Context(), x) }},
				{"gradient", func() (float64, error) { return l.Grad(b.Context(), next, x) }},
				{"em", func() (float64, error) { return l.EMStep(b.Context(), next, x) }},
				{"hessian", func() (float64, error) { return l.Hessian(b.Context(), h, next, x) }},
			} {
				b.Run(f.name, func(b *testing.B) {
					began := cpuSeconds()
					for range b.N {
						if _, err := f.run(); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(1e9*(cpuSeconds()-began)/float64(b.N)/n, "cpu-ns/row")
				})
			}
		})
	}
}
