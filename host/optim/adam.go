package optim

import "math"

// adam holds the running moments of the gradient.
type adam struct {
	t           int
	first, next []float64
}

func newAdam(n int) *adam { return &adam{first: make([]float64, n), next: make([]float64, n)} }

// step moves x by −size·m̂/(√v̂ + ε), with m̂ and v̂ the moments freed of their
// start at 0.
func (a *adam) step(x, grad []float64, size float64) {
	const beta1, beta2, epsilon = 0.9, 0.999, 1e-8
	a.t++
	free1, free2 := 1-math.Pow(beta1, float64(a.t)), 1-math.Pow(beta2, float64(a.t))
	for i, g := range grad {
		a.first[i] = beta1*a.first[i] + (1-beta1)*g
		a.next[i] = beta2*a.next[i] + (1-beta2)*g*g
		x[i] -= size * (a.first[i] / free1) / (math.Sqrt(a.next[i]/free2) + epsilon)
	}
}
