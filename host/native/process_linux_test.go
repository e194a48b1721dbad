package native_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/sdk"
)

// inMemory draws n rows of d = 10 features from k = 3 experts and keeps them.
func inMemory(b *testing.B, act sdk.Activation, n int) dataset.Source {
	src, err := sample.New(sample.Config{Activation: act, K: 3, D: 10, N: n, Sigma: 0.05, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	x, y := mat.NewDense(n, 10, nil), make([]float64, 0, n)
	err = src.Read(b.Context(), func(block *model.Block) error {
		for i := range block.N {
			for j := range 10 {
				x.Set(len(y), j, block.Col(j)[i])
			}
			y = append(y, block.Y[i])
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return dataset.Matrix(x, y)
}

// BenchmarkFitThroughProcess compares the fit of n = 1e5, d = 10, k = 3 through a
// plugin's process with the same fit where the activation is built in, the two
// turn by turn. It reports the median of their ratio, the start of the plugin
// left out, and that start. With -benchtime 15x it runs 15 pairs.
func BenchmarkFitThroughProcess(b *testing.B) {
	const module = "github.com/gatedlearning/moe/"
	beside := map[string]sdk.Activation{"smoothrelu": curves[3]}
	for _, name := range []string{"relu", "sigmoid"} {
		builtin, err := catalog.Open(b.Context(), name, nil)
		if err != nil {
			b.Fatal(err)
		}
		beside[name] = builtin.Activation
	}
	for name, dir := range map[string]string{"relu": "plugins/relu", "sigmoid": "plugins/sigmoid", "smoothrelu": "examples/plugins"} {
		b.Run(name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "moe-plugin-"+name)
			if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, module+dir+"/moe-plugin-"+name).CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
			src := inMemory(b, beside[name], 100_000)
			run := func(act sdk.Activation, approximate bool) float64 {
				began := time.Now()
				m, err := host.Fit(b.Context(), act, src, host.Config{K: 3, Approximate: approximate})
				if err != nil || !m.Fit.Converged {
					b.Fatal(m, err)
				}
				return time.Since(began).Seconds()
			}
			var direct, ratio, start []float64
			for i := 0; b.Loop(); i++ {
				began := time.Now()
				plugin, err := catalog.Catalog{Dir: b.TempDir(), RunUntrusted: true}.Open(b.Context(), path, nil)
				if err != nil {
					b.Fatal(err)
				}
				start = append(start, time.Since(began).Seconds())
				var own, through float64
				if i%2 == 0 {
					own, through = run(beside[name], false), run(plugin.Activation, true)
				} else {
					through, own = run(plugin.Activation, true), run(beside[name], false)
				}
				plugin.Close()
				direct, ratio = append(direct, own), append(ratio, through/own)
			}
			b.ReportMetric(median(direct)*1e3, "ms/direct-fit")
			b.ReportMetric(median(ratio), "ratio")
			b.ReportMetric(median(start)*1e3, "ms/start")
		})
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// BenchmarkSandbox compares the fit of n = 1e5, d = 10, k = 3 through a ReLU's
// process in the default sandbox with the same fit without, the two turn by turn,
// starts included. It reports the median of their ratio. With -benchtime 10x it
// runs 10 pairs.
func BenchmarkSandbox(b *testing.B) {
	path := filepath.Join(b.TempDir(), "moe-plugin-relu")
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "github.com/gatedlearning/moe/plugins/relu/moe-plugin-relu").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	builtin, err := catalog.Open(b.Context(), "relu", nil)
	if err != nil {
		b.Fatal(err)
	}
	src := inMemory(b, builtin.Activation, 100_000)
	run := func(sandbox catalog.Sandbox) float64 {
		began := time.Now()
		plugin, err := catalog.Catalog{Dir: b.TempDir(), RunUntrusted: true, Sandbox: sandbox}.Open(b.Context(), path, nil)
		if err != nil {
			b.Fatal(err)
		}
		defer plugin.Close()
		m, err := host.Fit(b.Context(), plugin.Activation, src, host.Config{K: 3, Approximate: true})
		if err != nil || !m.Fit.Converged {
			b.Fatal(m, err)
		}
		return time.Since(began).Seconds()
	}
	var ratio, off []float64
	for i := 0; b.Loop(); i++ {
		var with, without float64
		if i%2 == 0 {
			with, without = run(catalog.SandboxDefault), run(catalog.SandboxOff)
		} else {
			without, with = run(catalog.SandboxOff), run(catalog.SandboxDefault)
		}
		ratio, off = append(ratio, with/without), append(off, without)
	}
	b.ReportMetric(median(off)*1e3, "ms/fit-off")
	b.ReportMetric(median(ratio), "ratio")
}
