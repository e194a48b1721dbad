package host

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	_ "github.com/gatedlearning/moe/host/dataset/parquet"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/sdk"
)

// twoExperts draws n rows of two identity experts, far from N(0, I) where scale is not
// 1, whose gate separates them where hard is set.
func twoExperts(n int, scale float64, hard bool) (x *mat.Dense, y, w []float64) {
	rng := rand.New(rand.NewPCG(5, 6))
	x, y, w = mat.NewDense(n, 4, nil), make([]float64, n), make([]float64, n)
	for i := range n {
		for j := range 4 {
			x.Set(i, j, scale*rng.NormFloat64())
		}
		gate := x.At(i, 3) / scale
		first := rng.Float64() < 1/(1+math.Exp(-2*gate))
		if hard {
			first = gate > 0
		}
		y[i], w[i] = x.At(i, 0)/scale+0.1*rng.NormFloat64(), 1+3*rng.Float64()
		if !first {
			y[i] = -x.At(i, 1)/scale + 0.1*rng.NormFloat64()
		}
	}
	return x, y, w
}

// leastMemory is the least limit in bytes that a fit accepts, by what it says of one byte.
func leastMemory(t *testing.T, act sdk.Activation, src dataset.Source, cfg Config) int64 {
	t.Helper()
	cfg.MaxMemory = 1
	_, err := Fit(t.Context(), act, src, cfg)
	m := regexp.MustCompile(`takes at least (\d+) MiB`).FindStringSubmatch(fmt.Sprint(err))
	if m == nil {
		t.Fatalf("error %v", err)
	}
	mib, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return mib << 20
}

// Under the least limit, where the rows stay in a file, a fit has the bytes of one in
// memory.
func TestMaxMemory(t *testing.T) {
	testslow.Mark(t)
	const n = 32_000 // more than fit beside the least, and too many for a survey
	for _, test := range []struct {
		name  string
		file  string
		scale float64
		hard  bool
		act   sdk.Activation
		sel   dataset.Selection
		cfg   Config
	}{
		{"standard", "a.npy", 1, false, ident, dataset.Selection{Target: "x5", Drop: []string{"y"}}, Config{K: 2}},
		{"units and weights", "a.npy", 3, false, ident, dataset.Selection{Target: "x5", Roles: dataset.Roles{model.Weights: "y"}}, Config{K: 2, Intercepts: BothIntercepts}},
		{"per expert, text", "a.csv", 1, false, ident, dataset.Selection{Target: "y", Roles: dataset.Roles{model.Weights: "weight"}}, Config{K: 2, Noise: PerExpert{}}},
		{"ReLU, Parquet", "a.parquet", 1, false, rectify, dataset.Selection{Target: "y", Roles: dataset.Roles{model.Weights: "weight"}}, Config{K: 2, Errors: []ErrorKind{Robust}}},
		{"separated", "a.npy", 1, true, ident, dataset.Selection{Target: "x5", Drop: []string{"y"}}, Config{K: 2}},
		{"moments", "a.npy", 1, false, ident, dataset.Selection{Target: "x5", Drop: []string{"y"}}, Config{K: 2, Method: Moments{}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			x, y, w := twoExperts(n, test.scale, test.hard)
			path := filepath.Join(t.TempDir(), test.file)
			if err := dataset.Write(t.Context(), path, dataset.WeightedMatrix(x, y, w)); err != nil {
				t.Fatal(err)
			}
			src, err := dataset.Open(path, test.sel)
			if err != nil {
				t.Fatal(err)
			}
			cfg := test.cfg
			if cfg.Method == nil {
				cfg.Method = Auto{Starts: 3} // one after the other has the same passes
			}
			want := fitBytes(t, test.act, src, cfg)
			passes := 0.0
			cfg.Threads, cfg.Reading = 1, func(made float64) { passes = made }
			cfg.MaxMemory = leastMemory(t, test.act, src, cfg)
			if got := fitBytes(t, test.act, src, cfg); !bytes.Equal(got, want) {
				t.Error("the model differs")
			}
			if passes < 4 {
				t.Errorf("%.1f passes over a file", passes)
			}
		})
	}
}

func fitBytes(t *testing.T, act sdk.Activation, src dataset.Source, cfg Config) []byte {
	t.Helper()
	m, err := Fit(context.Background(), act, src, cfg)
	if err != nil {
		t.Fatal(err)
	}
	data, err := m.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Methods that draw rows at random say that they cannot keep to a limit.
func TestMaxMemoryRefused(t *testing.T) {
	x, y, _ := twoExperts(1000, 1, false)
	for _, m := range []Method{L2{}, L4{}} {
		_, err := Fit(t.Context(), ident, dataset.Matrix(x, y), Config{K: 2, Method: m, MaxMemory: 1 << 40})
		if err == nil || !strings.Contains(err.Error(), "max memory has no effect on method "+m.Name()) {
			t.Errorf("method %s: error %v", m.Name(), err)
		}
	}
}

// A fit of rows in a file that is interrupted leaves a checkpoint, though the file is
// closed then, from which it goes on to the same bytes; in memory too.
func TestMaxMemoryResumed(t *testing.T) {
	x, y, _ := twoExperts(32_000, 1, false)
	path := filepath.Join(t.TempDir(), "a.npy")
	if err := dataset.Write(t.Context(), path, dataset.Matrix(x, y)); err != nil {
		t.Fatal(err)
	}
	src, err := dataset.Open(path, dataset.Selection{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{K: 2, Threads: 1}
	want := fitBytes(t, ident, src, cfg)
	cfg.MaxMemory = leastMemory(t, ident, src, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var save func() (*Checkpoint, error)
	interrupted := cfg
	interrupted.Checkpoint = func(s func() (*Checkpoint, error)) {
		save = s
		cancel()
	}
	if _, err := Fit(ctx, ident, src, interrupted); err == nil || save == nil {
		t.Fatalf("not interrupted: %v", err)
	}
	if cfg.Resume, err = save(); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int64{cfg.MaxMemory, 0} {
		cfg.MaxMemory = limit
		if got := fitBytes(t, ident, src, cfg); !bytes.Equal(got, want) {
			t.Errorf("limit %d: the model differs", limit)
		}
	}
}
