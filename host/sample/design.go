package sample

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/model"
)

// Design is how the true parameters are chosen.
type Design string

const (
	// Paper is the design of the papers' experiments (002 Section 4):
	// a_i = e_i, w_i = e_{k+i}. It needs d ≥ 2k − 1.
	Paper Design = "paper"
	// OrthogonalGating draws the regressors uniformly from the unit sphere of
	// R^d and the gating vectors from the unit sphere of the orthogonal
	// complement of their span. It needs d ≥ k + 1 if k > 1.
	OrthogonalGating Design = "orthogonal-gating"
	// Random draws regressors and gating vectors independently and uniformly
	// from the unit sphere. It needs d ≥ k, for linearly independent
	// regressors.
	Random Design = "random"
	// Separated is Random with regressors at least 0.5 apart: those that are nearer
	// are drawn again. It needs d ≥ 2, and room for k such regressors.
	Separated Design = "separated"
)

// Designs lists the designs by name.
func Designs() []string {
	return []string{string(Paper), string(OrthogonalGating), string(Random), string(Separated)}
}

// least returns the smallest d that the design allows with k experts, with one beside them that is always 0 or none.
func (d Design) least(k int, zero bool) (int, error) {
	gates := model.Gates(model.Classes(k, zero))
	switch d {
	case Paper:
		return k + gates, nil
	case OrthogonalGating:
		if gates > 0 {
			return k + 1, nil
		}
		return 1, nil
	case Random:
		return k, nil
	case Separated:
		return 2, nil
	}
	return 0, fmt.Errorf("unknown design %q: want %s", string(d), strings.Join(Designs(), ", "))
}

// draw returns true parameters of k experts over d features, and of one that is always 0 where that is wanted.
func (d Design) draw(k, dim int, zero bool, rng *rand.Rand) (*model.Params, error) {
	p := model.NewParams(k, dim)
	if zero {
		p.AddZero()
	}
	for i := range k {
		if d == Paper {
			p.Regressor(i)[i] = 1
		} else {
			unitVector(p.Regressor(i), nil, rng)
		}
		for tries := 0; d == Separated && nearAnother(p, i); tries++ {
			if tries == mostTries {
				return nil, fmt.Errorf("k = %d unit regressors do not fit %v apart into d = %d dimensions", k,
					leastApart, dim)
			}
			unitVector(p.Regressor(i), nil, rng)
		}
	}
	var span [][]float64
	if d == OrthogonalGating {
		span = orthonormal(p)
	}
	for i := range p.Gates() {
		if d == Paper {
			p.Gate(i)[k+i] = 1
		} else {
			unitVector(p.Gate(i), span, rng)
		}
	}
	return p, nil
}

const (
	leastApart = 0.5  // distance of the regressors of Separated
	mostTries  = 1000 // to place one of them
)

// nearAnother says whether regressor i is too near to one before it.
func nearAnother(p *model.Params, i int) bool {
	for j := range i {
		if floats.Distance(p.Regressor(i), p.Regressor(j), 2) < leastApart {
			return true
		}
	}
	return false
}

// unitVector fills dst with a point of the unit sphere of the orthogonal
// complement of the orthonormal vectors of span.
func unitVector(dst []float64, span [][]float64, rng *rand.Rand) {
	for {
		for i := range dst {
			dst[i] = rng.NormFloat64()
		}
		if project(dst, span) {
			return
		}
	}
}

// project removes from v its part in the span of orthonormal vectors and
// normalises it. Twice is enough for orthogonality to rounding. It reports
// false where nothing of v is left.
func project(v []float64, span [][]float64) bool {
	const least = 1e-6 // of v's norm; less is rounding noise
	before := floats.Norm(v, 2)
	for range 2 {
		for _, u := range span {
			floats.AddScaled(v, -floats.Dot(u, v), u)
		}
	}
	norm := floats.Norm(v, 2)
	if norm <= least*before {
		return false
	}
	floats.Scale(1/norm, v)
	return true
}

// orthonormal returns an orthonormal basis of the span of the regressors.
func orthonormal(p *model.Params) [][]float64 {
	var basis [][]float64
	for i := range p.K {
		v := append([]float64(nil), p.Regressor(i)...)
		if project(v, basis) {
			basis = append(basis, v)
		}
	}
	return basis
}

// Inputs is the distribution of x. The zero value is N(0, I).
type Inputs struct {
	// Mixture makes x ~ P·N(μ, I) + (1−P)·N(−μ, I), μ a random vector of length
	// Norm, 1 if that is 0 (000 Fig. 3c).
	Mixture bool
	P, Norm float64
}

// norm is |μ|.
func (i Inputs) norm() float64 {
	if i.Norm == 0 {
		return 1
	}
	return i.Norm
}

const mixturePrefix = "symmetric-mixture:p="

// ParseInputs reads "gaussian", or "symmetric-mixture:p=P" with 0 ≤ P ≤ 1, where
// ",norm=R" may follow with R > 0.
func ParseInputs(text string) (Inputs, error) {
	if text == "gaussian" {
		return Inputs{}, nil
	}
	value, ok := strings.CutPrefix(text, mixturePrefix)
	if !ok {
		return Inputs{}, fmt.Errorf("unknown inputs %q: want gaussian or %sP[,norm=R]", text, mixturePrefix)
	}
	value, length, given := strings.Cut(value, ",norm=")
	p, err := strconv.ParseFloat(value, 64)
	if err != nil || !(p >= 0 && p <= 1) {
		return Inputs{}, fmt.Errorf("inputs %q: p must be a number from 0 to 1", text)
	}
	in := Inputs{Mixture: true, P: p}
	if given {
		if in.Norm, err = strconv.ParseFloat(length, 64); err != nil || !(in.Norm > 0 && in.Norm <= maxNorm) {
			return Inputs{}, fmt.Errorf("inputs %q: norm must be a positive number, at most %g", text, maxNorm)
		}
	}
	return in, nil
}

// maxNorm keeps fourth powers of x finite.
const maxNorm = 1e6
