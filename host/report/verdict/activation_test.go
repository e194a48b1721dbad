package verdict

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
	"github.com/gatedlearning/moe/solver/properties"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// rectifier is a verdict with round numbers, the same on every machine.
func rectifier() Activation {
	relu := sdk.Func{Name: "relu", G: func(z float64) float64 { return max(z, 0) }, Kinks: []float64{0}}
	optimal, err := solver.NewOptimal(context.Background(), relu, 0.05, 2)
	if err != nil {
		panic(err)
	}
	return Activation{
		Name:    "leakyrelu(slope=0.1)",
		Optimal: optimal, Design: solver.Design{K: 2, D: 10}, Polynomial: Rows{L4: 23561.3, Spectral: 5230},
		Least: Rows{L4: 2718, Spectral: 2104}, RhoRange: &properties.RhoRange{P2: true, Min: .0625, Max: .0625},
		Validation: &solver.Validation{
			Sigma: 0.05,
			System: sdk.System{
				Matrix: [3][3]float64{{1.5, -0.75, 0.5}, {2.25, 1, 0.375}, {3, 0.75, 1e-17}},
				RHS:    [3]float64{-3.2, -6, -9.5},
			},
			Transform: solver.Transform{
				Sigma: 0.05, Alpha: -5.25, Beta: 8, Gamma: -3.125, Delta: -1.5, C4: 0.5, C2: 0.375,
				Cubic: solver.Cubic{Alpha: -3.25, Beta: 2.25, C3: 0.375, Valid: true},
			},
			Verdict: solver.Verdict{
				Valid: true, Rank: 3, Cond: 102, Residual: 2e-14, SignsIdentifiable: true,
				Checks: []solver.Check{
					{Name: "S4 has no He1 part", Value: -2e-14, Tolerance: 1e-9, Holds: true},
					{Name: "c4 is not zero", Value: 4.3125, Tolerance: 1e-9, Holds: true},
				},
			},
			Noise:          &solver.Noise{V4: 45800, V2: 67.25},
			OneHiddenLayer: &properties.OneHiddenLayer{P1: true, P2: true, P3: true, Rho: 0.0625},
		},
	}
}

func TestActivationText(t *testing.T) {
	even := rectifier()
	even.Name = "square"
	even.Validation.Verdict.SignsIdentifiable, even.Validation.Verdict.Even = false, true
	even.Validation.Verdict.Rank = 1
	even.Validation.Transform.Cubic.Valid = false
	even.Polynomial, even.Least = Rows{L4: 3e11}, Rows{L4: 2e11}

	invalid := rectifier()
	invalid.Name, invalid.Polynomial, invalid.Least, invalid.RhoRange = "sign", Rows{}, Rows{}, nil
	invalid.Validation.Verdict.Valid = false
	invalid.Validation.Verdict.Reasons = []string{"c4 = 0: S4 has no He4 part to learn the regressors from"}
	invalid.Validation.Verdict.Checks[1] = solver.Check{Name: "c4 is not zero", Value: 2e-15, Tolerance: 1e-9}
	invalid.Validation.Noise, invalid.Validation.OneHiddenLayer = nil, nil

	for name, a := range map[string]Activation{"valid": rectifier(), "even": even, "invalid": invalid} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := a.Text(&b); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "activation-"+name+".txt")
			if *update {
				if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if b.String() != string(want) {
				t.Errorf("got\n%s\nwant\n%s", b.String(), want)
			}
		})
	}
}

func TestRounded(t *testing.T) {
	for x, want := range map[float64]string{7: "7", 83.4: "83", 996.7: "1 000", 23561: "24 000", 1234567: "1 200 000", 3e11: "3.0e+11"} {
		if got := rounded(x); got != want {
			t.Errorf("%v: %q, want %q", x, got, want)
		}
	}
}
