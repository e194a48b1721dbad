package tensor_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/plugins/identity"
	"gonum.org/v1/gonum/mat"
)

// BenchmarkSecondCPU is T2 by the processor's time, which other work does not move as it
// moves the clock: tools/bench/numpy_t2.py has the same of numpy.
func BenchmarkSecondCPU(b *testing.B) {
	for _, c := range []struct{ n, d int }{{10_000, 10}, {1_000_000, 10}, {100_000, 50}} {
		b.Run(fmt.Sprintf("d=%d/n=%d", c.d, c.n), func(b *testing.B) {
			p := draw(b, identity.Family, 3, c.d, c.n, 1)
			began := spent(b)
			b.ResetTimer()
			for range b.N {
				if _, err := tensor.SumSecond(b.Context(), p.data, 1); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((spent(b)-began)/float64(b.N)/float64(c.n), "cpu-ns/row")
		})
	}
}

// BenchmarkFourthCPU is T4, projected on the first k features, in the same way.
func BenchmarkFourthCPU(b *testing.B) {
	for _, c := range []struct{ n, d, k int }{{10_000, 10, 3}, {1_000_000, 10, 3}, {50_000, 50, 10}} {
		b.Run(fmt.Sprintf("k=%d/d=%d/n=%d", c.k, c.d, c.n), func(b *testing.B) {
			p := draw(b, identity.Family, c.k, c.d, c.n, 1)
			u := mat.NewDense(c.d, c.k, randomRows(rand.New(rand.NewPCG(1, 1)), c.d, c.k))
			began := spent(b)
			b.ResetTimer()
			for range b.N {
				if _, err := tensor.SumFourth(b.Context(), p.data, u, nil, 1); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((spent(b)-began)/float64(b.N)/float64(c.n), "cpu-ns/row")
		})
	}
}

// spent is the processor time of the process, user and system, in nanoseconds.
func spent(b *testing.B) float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return float64(r.Utime.Nano() + r.Stime.Nano())
}
