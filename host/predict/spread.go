package predict

import (
	"context"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/native"
	"github.com/gatedlearning/moe/internal/numeric"
)

// spread is the experts' means at rules for their predictors: z_i is N(E[z_i|u], Var[z_i|u]) at every point of the
// cubature.
type spread struct {
	half   []int              // of the rows: their rules have so many nodes to either side of the middle
	from   []int              // where those of a row begin
	total  int                // nodes of an expert in all rows
	narrow []bool             // K×N: the law of y is far narrower there than what is known of its mean
	z      []float64          // K×total: of every row by points, of a point by nodes
	mean   []float64          // likewise, g there
	cut    []bool             // likewise: it is further from the estimate than means are taken
	beyond float64            // the probability of such means in the law of the row that was asked for last
	rules  [1 + mostHalf]rule // that have been asked for
}

// rule is nodes and weights for the mean of a function of a number that is N(0, 1).
type rule struct{ nodes, weights []float64 }

// mostHalf is the most nodes of a rule to either side of the middle.
const mostHalf = 40

// ruleOf returns the rule of half nodes to either side of the middle. With one it is that of Gauss and Hermite, exact
// to the fifth degree. With more it is the trapezoidal rule from −5 to 5, whose error falls as exp(−2π²s²/Δ²) for a
// function that with the normal density is as wide as s, Δ the step.
func (s *spread) ruleOf(half int) rule {
	r := &s.rules[half]
	switch {
	case r.nodes != nil:
	case half == 1:
		*r = rule{[]float64{-math.Sqrt(3), 0, math.Sqrt(3)}, []float64{1. / 6, 2. / 3, 1. / 6}}
	default:
		for j := -half; j <= half; j++ {
			t := 5 * float64(j) / float64(half)
			r.nodes, r.weights = append(r.nodes, t), append(r.weights, math.Exp(-t*t/2))
		}
		floats.Scale(1/floats.Sum(r.weights), r.weights)
	}
	return *r
}

// narrowRatio2 is the ratio² from which a law of y is taken as all at its mean: the density of the mean, with an error
// of 1/ratio² of it. With the most nodes a rule's own error is as large there.
const narrowRatio2 = 225

// halfOf is how many nodes a rule wants to either side where the law of y tells ratio² as much of z as is known of it:
// I(z)·Var z, I Fisher's information. As a function of z the density of y is then 1/ratio as wide as the normal one,
// and the two together 1/√(1+ratio²): up to ½ three nodes miss some parts of a thousand of it at the most likely y, and
// beyond the step is 1.25 of that width, with an error of 1e−5. Without so many nodes a density would be lumps at its
// nodes.
func halfOf(ratio2 float64) int {
	if !(ratio2 > 0.25) {
		return 1
	}
	return int(min(math.Ceil(4*math.Sqrt(1+ratio2)), mostHalf))
}

// over fills s with the rows of b, whose predictors and means are z and mean, around which they are as a has them.
func (s *spread) over(ctx context.Context, u *Uncertainty, a *around, act model.Activation, b *model.Block, z,
	mean []float64) error {
	n, k, h := b.N, len(u.means), u.hidden()
	if err := s.size(ctx, u, a, act, b, z); err != nil {
		return err
	}
	s.z, s.mean = slices.Grow(s.z[:0], k*s.total)[:k*s.total], slices.Grow(s.mean[:0], k*s.total)[:k*s.total]
	s.cut = slices.Grow(s.cut[:0], k*s.total)[:k*s.total]
	for i := range k {
		at := i * s.total
		for r := range n {
			nodes := s.ruleOf(s.half[r]).nodes
			for number := range u.points() {
				centre := z[i*n+r]
				if p := u.point(number); p.by != 0 {
					centre += p.by * a.shift[(r*k+i)*h+p.along]
				}
				for _, t := range nodes {
					s.z[at] = centre + t*a.deviation[i*n+r]
					at++
				}
			}
		}
	}
	if err := known(ctx, act.Eval, s.mean, s.z); err != nil {
		return err
	}
	domain := u.density.Domain()
	for i := range k {
		for r := range n {
			last := s.total
			if r+1 < n {
				last = s.from[r+1]
			}
			estimate := mean[i*n+r]
			most := math.Exp(mostLogSigma) * max(math.Abs(estimate), 1)
			for at := i*s.total + s.from[r]; at < i*s.total+last; at++ {
				if math.IsNaN(s.mean[at]) { // g has no value there
					s.mean[at] = estimate
				}
				s.cut[at] = math.Abs(s.mean[at]) > most
				s.mean[at] = min(max(s.mean[at], -most, domain.LeastMean), most, domain.MostMean)
			}
		}
	}
	return nil
}

// size finds the rules of the rows, by the most information that any expert has of its predictor there and at √3
// standard deviations to either side.
func (s *spread) size(ctx context.Context, u *Uncertainty, a *around, act model.Activation, b *model.Block,
	z []float64) error {
	n, k := b.N, len(u.means)
	all := 3 * n
	at, mean, slope := make([]float64, k*all), make([]float64, k*all), make([]float64, k*all)
	for i := range k {
		for r := range n {
			for side := range 3 {
				at[i*all+side*n+r] = z[i*n+r] + float64(side-1)*math.Sqrt(3)*a.deviation[i*n+r]
			}
		}
	}
	if err := known(ctx, act.Eval, mean, at); err != nil {
		return err
	}
	if err := known(ctx, act.Deriv, slope, at); err != nil {
		return err
	}
	density, domain := mixture.OfTrials(u.density, b.Role[model.Trials]), u.density.Domain()
	terms, y := mixture.TermsOf(n, len(u.density.Own())), make([]float64, n)
	most := make([]float64, n)
	s.narrow = s.narrow[:0]
	for i := range k {
		least := make([]float64, n)
		for r := range least {
			least[r] = math.Inf(1)
		}
		for side := range 3 {
			from := i*all + side*n
			density.Derive(terms, y, mean[from:from+n], u.own[i])
			for r := range n {
				m, rise := mean[from+r], slope[from+r]*a.deviation[i*n+r]
				v := rise * rise * terms.Expected[r]
				if !(m > domain.LeastMean && m < domain.MostMean) {
					v = 0
				}
				if v > most[r] {
					most[r] = v
				}
				if !(v >= least[r]) {
					least[r] = v
				}
			}
		}
		for _, v := range least {
			s.narrow = append(s.narrow, v >= narrowRatio2)
		}
	}
	s.half, s.from, s.total = s.half[:0], s.from[:0], 0
	for _, ratio2 := range most {
		half := halfOf(ratio2)
		s.half, s.from = append(s.half, half), append(s.from, s.total)
		s.total += u.points() * (1 + 2*half)
	}
	return nil
}

// known writes what g or its slope is at z to dst, which is not z. Beyond the range of an approximation, where that is
// all that is known of g, it is that of the range's end, to which z goes.
func known(ctx context.Context, at func(ctx context.Context, dst, z []float64) error, dst, z []float64) error {
	err := at(ctx, dst, z)
	lo, hi := 0.0, 0.0
	beyond, outside := (*BeyondError)(nil), (*native.OutsideError)(nil)
	switch {
	case errors.As(err, &beyond):
		lo, hi = beyond.Lo, beyond.Hi
	case errors.As(err, &outside):
		lo, hi = outside.Lo, outside.Hi
	default:
		return err
	}
	for i, v := range z {
		z[i] = min(max(v, lo), math.Nextafter(hi, lo))
	}
	return at(ctx, dst, z)
}

// add adds to a distribution the laws of expert i at a point of the cubature, which have this probability together.
func (s *spread) add(dst *mixture.Distribution, probability float64, row, point, i int, psi []float64) {
	half := s.half[row]
	from := i*s.total + s.from[row] + point*(1+2*half)
	for j, w := range s.ruleOf(half).weights {
		dst.Add(probability*w, s.mean[from+j], psi)
		if s.cut[from+j] {
			s.beyond += probability * w
		}
	}
}

// narrowAt says whether the law of some expert is narrow at a row; none of normal noise is.
func (s *spread) narrowAt(row int) bool {
	for at := row; at < len(s.narrow); at += len(s.half) {
		if s.narrow[at] {
			return true
		}
	}
	return false
}

// logDensity is the logarithm of the density at y of a row's law, which s has added to. Where the law of an expert is
// narrow it is that of its mean, equal steps of which the nodes are:
//
//	p_j^(1−f)·p_{j+1}^f·|df/dm|,   f = log(y/m_j)/log(m_{j+1}/m_j),
//
// between the two means m_j and m_{j+1} around y, with f linear in y where they are not above 0. At y = 0, beyond the
// means, and of other experts, it is that of the laws.
func (s *spread) logDensity(law *mixture.Distribution, row int, y float64) float64 {
	if y == 0 || !s.narrowAt(row) {
		return law.LogDensity(y)
	}
	n, nodes := len(s.half), 1+2*s.half[row]
	k := len(s.narrow) / n
	var terms []float64
	for from := 0; from < len(law.P); from += nodes {
		if s.narrow[from/nodes%k*n+row] {
			if v, ok := numeric.LogBetween(law.P[from:from+nodes], law.Mean[from:from+nodes], y); ok {
				terms = append(terms, v)
				continue
			}
		}
		for i := from; i < from+nodes; i++ {
			if law.P[i] > 0 {
				terms = append(terms, law.LogTerm(i, y))
			}
		}
	}
	return floats.LogSumExp(terms)
}
