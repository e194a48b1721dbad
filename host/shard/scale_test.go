package shard_test

import (
	"encoding"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/host/tensor"
)

// TestTenBillionRows is the simulation of docs/studies/scale.md: 1e10 rows of d = 20 features and
// k = 4 ReLU experts on 1,000 workers. The numbers of nodes and bytes are those that the
// files have; the costs of a row, of a read and of a merge, measured on one core, are
// taken from the page, the speeds of disks and the deaths of workers are drawn.
//
//	go test ./host/shard -run TestTenBillionRows -v
func TestTenBillionRows(t *testing.T) {
	const rows, parts, d, k, q = 10_000_000_000, 1000, 20, 4, 141
	const numbers = 8
	blocks := (rows + 255) / 256
	nodes, most := 0, 0
	for i := range parts {
		from, to := shard.Place{I: i + 1, N: parts}.Blocks(blocks)
		own := 0
		for from < to { // the largest node that begins there and ends in time
			level := min(bits.TrailingZeros64(uint64(from)), bits.Len64(uint64(to-from))-1)
			from += 1 << level
			own++
		}
		nodes, most = nodes+own, max(most, own)
	}
	second := tensor.NewSecond(d)
	sample := numbers * 65536 * (d + 1)
	targets := numbers * 65536
	digests := 8 * 38147 // of 1024 blocks each
	first := nodes*size(t, second) + sample + targets + digests
	merged := bits.OnesCount(uint(blocks))*size(t, second) + sample + targets + digests
	last := nodes*4900 + merged + digests // as files have it: T4, T3, the span and the header
	model := 11000 + digests*4/3          // with the points of the last step and the next, and the digests in base64
	at := model + numbers*q*(q+3)/2*4/3   // and score and information
	newton := parts*(numbers*(q*(q+1)/2+q+k+2)+11000) + digests + at
	draws := numbers * 2 * 4096 * (d + 2)
	tests := parts*(numbers*(q+123+2*k+1)+5000) + draws + digests + model
	files := []int{first, last, newton, newton, newton, newton, newton, tests}
	read := []int{0, parts * merged, parts * model, parts * at, parts * at, parts * at, parts * at, parts * model}
	t.Logf("%d nodes, %d of one part at most; files of all parts: first round %.0f MB, second %.0f MB, a pass %.0f MB, certificate %.0f MB",
		nodes, most, float64(first)/1e6, float64(last)/1e6, float64(newton)/1e6, float64(tests)/1e6)

	total := 0
	for i := range files {
		total += files[i] + read[i]
	}
	var minutes []float64
	died := 0
	for run := range 200 {
		rng := rand.New(rand.NewPCG(uint64(run), 18))
		seconds := 0.0
		for i := range files {
			slowest := 0.0
			for range parts {
				disk := 200e6 * math.Exp(0.2*rng.NormFloat64()) // bytes a second
				pass := max(numbers*(d+1)*rows/parts/disk, 0.6e-6*rows/parts)
				took := 0.0
				for rng.Float64() < 0.005 { // it dies, somewhere on the way, and is rerun
					took += pass*rng.Float64() + 10
					died++
				}
				slowest = max(slowest, took+pass)
			}
			network := float64(files[i]+read[i]) / 1.25e9
			seconds += slowest + network + 0.01*parts
		}
		minutes = append(minutes, seconds/60)
	}
	slices.Sort(minutes)
	t.Logf("8 passes over the rows, %.1f GB over the network, %.1f minutes in the median of 200 runs, %.1f to %.1f in 95 of 100; %.0f workers died in a run",
		float64(total)/1e9, minutes[100], minutes[5], minutes[195], float64(died)/200)
	if nodes != 3328 || most != 9 {
		t.Errorf("%d nodes, %d of one part at most: docs/studies/scale.md has 3328 and 9", nodes, most)
	}
	if minutes[195] > 10 || float64(total) > 16e9 {
		t.Errorf("%v minutes, %d bytes", minutes[195], total)
	}
}

// size is the length of sums as bytes.
func size(t *testing.T, s encoding.BinaryMarshaler) int {
	t.Helper()
	data, err := s.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return len(data)
}
