package diverse_test

import (
	"fmt"

	"github.com/gatedlearning/moe/host/diverse"
)

// The least eigenvalue of the weights' Gram matrix is near that of its expectation,
// and the weights' discrepancy near .433/√n.
func ExampleNewDraw() {
	draw := diverse.NewDraw(1, 400, 100, 20)
	s, err := draw.Spectra()
	if err != nil {
		fmt.Println(err)
		return
	}
	ideal, own := s.Least()
	fmt.Printf("least of G %.3f, of G_n %.3f, L2² %.2g\n", ideal, own, diverse.Discrepancy(draw.W))
	// Output: least of G 0.103, of G_n 0.102, L2² 0.00042
}

// The eigenvalue γ_100 of the kernel at d = 20: that of the spherical harmonics of
// degree 2, of which there are 209.
func ExampleGamma() {
	fmt.Printf("%.4g\n", diverse.Gamma(20, 100)[99])
	// Output: 0.0007586
}
