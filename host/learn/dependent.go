package learn

import (
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/model"
)

// told is the share of a feature's mean square that those before it leave, below which they tell it: 1e−5 of its size,
// and rounding leaves 1e−15.
const told = 1e-10

// dependent returns the features, ascending, that are linear combinations of those before them: the columns of XᵀX
// whose pivot in its Cholesky factor is 0 but for rounding. Along them nothing is known of a regressor.
func (r *rows) dependent() (out []int) {
	d := r.d
	gram := make([]float64, d*d)
	for t := range r.n {
		x := r.x[t*d : (t+1)*d]
		for i, u := range x {
			for j := range i + 1 {
				gram[i*d+j] += u * x[j]
			}
		}
	}
	factor := make([]float64, d*d)
	for i := range d {
		left := gram[i*d+i]
		for j := range i {
			if slices.Contains(out, j) {
				continue
			}
			v := (gram[i*d+j] - dot(factor[i*d:i*d+j], factor[j*d:j*d+j])) / factor[j*d+j]
			factor[i*d+j] = v
			left -= v * v
		}
		if left <= told*gram[i*d+i] {
			out = append(out, i)
			clear(factor[i*d : (i+1)*d])
			continue
		}
		factor[i*d+i] = math.Sqrt(left)
	}
	return out
}

// kept returns the entries of v, rows of one for each feature, but for the features left out.
func kept(v []float64, d int, left []int) (out []float64) {
	for i, u := range v {
		if !slices.Contains(left, i%d) {
			out = append(out, u)
		}
	}
	return out
}

// widened returns p over d features, with coefficients of 0 for those left out.
func widened(p *model.Params, d int, left []int) *model.Params {
	if p == nil || len(left) == 0 {
		return p
	}
	out := *p
	out.D = d
	spread := func(v []float64) (wide []float64) {
		for len(v) > 0 {
			for j := range d {
				if slices.Contains(left, j) {
					wide = append(wide, 0)
					continue
				}
				wide, v = append(wide, v[0]), v[1:]
			}
		}
		return wide
	}
	out.Regressors, out.Gating = spread(p.Regressors), spread(p.Gating)
	return &out
}
