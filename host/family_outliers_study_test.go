package host

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestFamilyOutliers is the study of docs/studies/families.md of rows that are far off: of normal data sets a tenth of the rows
// are moved by 20 sigma, up or down, and fits of them are set beside fits of the same tables without those rows. Printed are
// geometric means of E_reg over the data sets, and of their ratio.
//
//	go test ./host -run TestFamilyOutliers/k=3 -study 40 -v -timeout 0
func TestFamilyOutliers(t *testing.T) {
	if *studySets == 0 {
		t.Skip("a study: see docs/studies/families.md")
	}
	for _, k := range []int{2, 3} {
		t.Run(fmt.Sprintf("k=%d", k), func(t *testing.T) { familyOutliers(t, k) })
	}
}

func familyOutliers(t *testing.T, k int) {
	line := activation(identity.Family, nil)
	const sigma = 0.1
	for _, c := range []struct {
		name string
		cfg  Config
		most float64 // wanted ratio; 0: none
	}{
		{"gaussian", Config{}, 0},
		{"student-t, dof 4", Config{Family: StudentT, Dof: 4}, 1.5},
		{"student-t, dof auto", Config{Family: StudentT}, 1.5},
	} {
		c.cfg.K = k
		var moved, without float64
		for seed := *studyFrom; seed < *studyFrom+uint64(*studySets); seed++ {
			s, err := sample.New(sample.Config{Activation: line, K: k, D: 6, N: 2000, Sigma: sigma, Design: sample.Random, Seed: seed})
			if err != nil {
				t.Fatal(err)
			}
			far, rest := outliers(t, s, 20*sigma, seed)
			for _, of := range []struct {
				table dataset.Source
				sum   *float64
			}{{far, &moved}, {rest, &without}} {
				m, err := Fit(t.Context(), line, of.table, c.cfg)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				e, _ := metric.Ereg(m.Params(), s.Truth)
				*of.sum += math.Log(e) / float64(*studySets)
			}
		}
		ratio := math.Exp(moved - without)
		t.Logf("%s: E_reg %.3g with the moved rows, %.3g without them, ratio %.3g", c.name, math.Exp(moved),
			math.Exp(without), ratio)
		if c.most > 0 && ratio > c.most {
			t.Errorf("%s: ratio %.3g, want at most %v", c.name, ratio, c.most)
		}
	}
}

// outliers returns the rows of s with every tenth, at random, moved by far up or down, and those that were not moved.
func outliers(t *testing.T, s *sample.Sampler, far float64, seed uint64) (moved, rest dataset.Source) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 20))
	var x, y, restX, restY []float64
	if err := s.Read(t.Context(), func(b *model.Block) error {
		for r, v := range b.Y {
			row := make([]float64, s.Truth.D)
			for j := range row {
				row[j] = b.Col(j)[r]
			}
			switch u := rng.Float64(); {
			case u < .05:
				v += far
			case u < .1:
				v -= far
			default:
				restX, restY = append(restX, row...), append(restY, v)
			}
			x, y = append(x, row...), append(y, v)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	table := func(x, y []float64) dataset.Source { return dataset.Matrix(mat.NewDense(len(y), s.Truth.D, x), y) }
	return table(x, y), table(restX, restY)
}
