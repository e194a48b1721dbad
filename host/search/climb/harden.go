package climb

import (
	"context"

	"github.com/gatedlearning/moe/host/optim"
)

const (
	// softGain is the gain of a step, per row, with which runs that may lead to a hard gate are compared: those more
	// than SoftGap units of log-likelihood behind the best that has ended end there.
	softGain, SoftGap = 1e-6, 4
	// hardGain is the gain of a step, per row, with which a gate that becomes hard is left.
	hardGain = 1e-8
	// MostSteps lead there at most, and so many at least must be had for that.
	MostSteps, leastHardening = 5000, 400
	// mostHardened is rows times parameters up to which gates are hardened by EM.
	mostHardened = 2_500_000
)

// Hardenable says whether rows times parameters are not too many to harden gates by EM.
func Hardenable(size int) bool { return size <= mostHardened }

// StepsFor are the steps of EM that so much work buys on rows times parameters.
func StepsFor(work float64, size int) int {
	return min(MostSteps, max(leastHardening, int(work/float64(size))))
}

// EMUntilComparable runs EM from θ, extrapolated, of which each step makes a gate that separates a little harder, until
// runs can be compared.
func EMUntilComparable(ctx context.Context, l optim.EMStepper, theta []float64, most int) (*optim.Result, error) {
	return optim.SQUAREM(ctx, l, theta, optim.Settings{Iterations: most, Tolerance: softGain})
}

// EMToConvergence is [EMUntilComparable] until a step gains next to nothing.
func EMToConvergence(ctx context.Context, l optim.EMStepper, theta []float64, most int) (*optim.Result, error) {
	return optim.SQUAREM(ctx, l, theta, optim.Settings{Iterations: most, Tolerance: hardGain})
}
