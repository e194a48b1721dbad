package solver_test

import (
	"context"
	"fmt"
	"math"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
)

// From an activation to its output transforms.
func Example() {
	relu := sdk.Func{Name: "relu", G: func(z float64) float64 { return math.Max(z, 0) }, Kinks: []float64{0}}
	m, err := sdk.MomentsOf(context.Background(), relu)
	if err != nil {
		fmt.Println(err)
		return
	}
	const sigma = 0.05
	q, verdict := solver.Solve(m, m.System(sigma), sigma)
	fmt.Println("valid:", verdict.Valid)
	fmt.Printf("Q4(y) = y⁴ %+.4g y³ %+.4g y² %+.4g y, c4 = %.4g\n", q.Alpha, q.Beta, q.Gamma, q.C4)
	fmt.Printf("Q2(y) = y² %+.4g y, c2 = %.4g\n", q.Delta, q.C2)
	// Output:
	// valid: true
	// Q4(y) = y⁴ -5.352 y³ +8.11 y² -3.251 y, c4 = 0.501
	// Q2(y) = y² -1.596 y, c2 = 0.3634
}

// Everything there is to say about an activation, without data.
func ExampleValidate() {
	square := sdk.Func{
		Name: "square",
		G:    func(z float64) float64 { return z * z },
		DG:   func(z float64) float64 { return 2 * z },
	}
	v, err := solver.Validate(context.Background(), square, 0.05)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("valid:", v.Verdict.Valid)
	fmt.Println("signs identifiable:", v.Verdict.SignsIdentifiable)
	fmt.Println("rank:", v.Verdict.Rank)
	fmt.Printf("V4 = %.4g, ρ = %.4g\n", v.Noise.V4, v.OneHiddenLayer.Rho)
	// Output:
	// valid: true
	// signs identifiable: false
	// rank: 1
	// V4 = 2.422e+04, ρ = -4
}
