package benchmark

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/sdk"
)

// Size is how large a fit is.
type Size struct {
	N int `json:"n"`
	D int `json:"d"`
	K int `json:"k"`
}

// Fit is what a fit of a size took, by method auto with certificate and standard errors,
// reading apart.
type Fit struct {
	Size
	Axis       string  `json:"axis"`        // what grows: n, d or k
	CPUSeconds float64 `json:"cpu_seconds"` // wall where the system does not tell
	Seconds    float64 `json:"seconds"`
	Bytes      float64 `json:"bytes"` // of memory at most, looked at a hundred times a second
	Converged  bool    `json:"converged"`
	Starts     int     `json:"starts"`
	Iterations int     `json:"iterations"` // of the best
}

// Exponent is that of a power law, by least squares of logarithms, through the larger
// half of the fits along an axis: the first ones pay for the start.
type Exponent struct {
	Axis   string  `json:"axis"`
	Time   float64 `json:"time"`
	Memory float64 `json:"memory"`
}

// Growth is how time and memory grow.
type Growth struct {
	Fits      []Fit      `json:"fits"`
	Exponents []Exponent `json:"exponents"`
}

// Axes are what grows, each with the sizes along it.
func Axes(quick bool) map[string][]Size {
	n, d, k := []int{1e4, 1e5, 1e6, 1e7, 1e8}, []int{10, 20, 50, 100, 200, 500}, []int{2, 4, 8, 16}
	if quick {
		n, d, k = n[:2], d[:2], k[:2]
	}
	out := map[string][]Size{}
	for _, v := range n {
		out["n"] = append(out["n"], Size{v, 10, 3})
	}
	for _, v := range d {
		out["d"] = append(out["d"], Size{20_000, v, 3})
	}
	for _, v := range k {
		out["k"] = append(out["k"], Size{100_000, 40, v})
	}
	return out
}

// AxisNames are the keys of [Axes], in the order in which they are shown.
func AxisNames() []string { return []string{"n", "d", "k"} }

// Grow fits every size along every axis; done is told of each.
func Grow(ctx context.Context, act sdk.Activation, axes map[string][]Size, threads int,
	done func(Fit)) (*Growth, error) {
	g := new(Growth)
	for _, axis := range AxisNames() {
		var fits []Fit
		for _, size := range axes[axis] {
			f, err := measure(ctx, act, size, threads)
			if err != nil {
				return nil, err
			}
			f.Axis = axis
			fits = append(fits, f)
			done(f)
		}
		g.Fits = append(g.Fits, fits...)
		g.Exponents = append(g.Exponents, exponent(axis, fits))
	}
	return g, nil
}

// measure fits once.
func measure(ctx context.Context, act sdk.Activation, size Size, threads int) (Fit, error) {
	f := Fit{Size: size}
	sampler, err := sample.New(sample.Config{K: size.K, D: size.D, N: size.N, Sigma: 0.05, Activation: act,
		Design: sample.Paper, Seed: 1})
	if err != nil {
		return f, err
	}
	debug.FreeOSMemory()
	peak := watch()
	var cpu float64
	var began time.Time
	cfg := host.Config{K: size.K, Seed: 1, Threads: threads, Progress: func(stage host.Stage, _, _ int) {
		if began.IsZero() && stage == host.StageMoments { // drawing the rows is no part of a fit
			began, cpu = time.Now(), cpuSeconds()
		}
	}}
	m, err := host.Fit(ctx, act, sampler, cfg)
	f.Bytes = peak()
	if err != nil {
		return f, err
	}
	f.Seconds, f.CPUSeconds = time.Since(began).Seconds(), cpuSeconds()-cpu
	f.Converged, f.Starts, f.Iterations = m.Fit.Converged, len(m.Fit.Starts), m.Fit.Iterations
	return f, nil
}

// watch looks at the memory that the runtime has of the system until the function that
// it returns is called, which returns the most.
func watch() (peak func() float64) {
	stop, most := make(chan struct{}), make(chan float64)
	go func() {
		largest := 0.0
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		var mem runtime.MemStats
		for {
			runtime.ReadMemStats(&mem)
			largest = math.Max(largest, float64(mem.Sys-mem.HeapReleased))
			select {
			case <-ticker.C:
			case <-stop:
				most <- largest
				return
			}
		}
	}()
	return func() float64 {
		close(stop)
		return <-most
	}
}

// exponent fits power laws to the larger half of fits along an axis.
func exponent(axis string, fits []Fit) Exponent {
	var x, seconds, bytes []float64
	for _, f := range fits[(len(fits)-1)/2:] {
		x = append(x, math.Log(float64(map[string]int{"n": f.N, "d": f.D, "k": f.K}[axis])))
		seconds, bytes = append(seconds, math.Log(f.CPUSeconds)), append(bytes, math.Log(f.Bytes))
	}
	_, time := stat.LinearRegression(x, seconds, nil, false)
	_, memory := stat.LinearRegression(x, bytes, nil, false)
	return Exponent{axis, time, memory}
}
