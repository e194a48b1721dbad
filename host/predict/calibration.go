package predict

// levels of the prediction intervals whose coverage an evaluation counts.
var levels = [...]float64{0.5, 0.8, 0.9, 0.95}

// pitBins is the number of bins of the histogram of F(y|x).
const pitBins = 10

// Coverage is the share of rows whose y lies in the central prediction interval
// of a level; near the level where the model is right, with a standard error of
// √(level·(1−level)/n) for n rows that were not fitted to.
type Coverage struct {
	Level    float64 `json:"level"`
	Coverage float64 `json:"coverage"`
}

// calibration counts where y falls in the distribution that a model predicts:
// u = F(y|x), the probability integral transform, is uniform on (0, 1) where the
// model is right.
type calibration struct {
	inside [len(levels)]float64
	bins   [pitBins]float64
}

// add counts one row of weight w with P(Y < y) = before and P(Y ≤ y) = u.
func (c *calibration) add(before, u, w float64) {
	for i, level := range levels {
		if tail := (1 - level) / 2; u >= tail && before <= 1-tail {
			c.inside[i] += w
		}
	}
	AddTransform(c.bins[:], before, u, w)
}

// AddTransform adds a row of weight w with P(Y < y) = before and P(Y ≤ y) = u to a histogram over [0, 1]: evenly to all
// that is between (Czado, Gneiting & Held 2009).
func AddTransform(bins []float64, before, u, w float64) {
	n := float64(len(bins))
	if before == u {
		bins[min(int(u*n), len(bins)-1)] += w
		return
	}
	for bin := range bins {
		from, to := float64(bin)/n, float64(bin+1)/n
		bins[bin] += w * max(0, min(to, u)-max(from, before)) / (u - before)
	}
}

// coverage returns the shares of rows of the given total weight.
func (c *calibration) coverage(weight float64) []Coverage {
	out := make([]Coverage, len(levels))
	for i, level := range levels {
		out[i] = Coverage{Level: level, Coverage: c.inside[i] / weight}
	}
	return out
}
