package gauss

import (
	"math"
	"slices"
	"sort"

	"github.com/gatedlearning/moe/internal/kernel"
)

// Density is the density of y = g(Z) + σN, by the panels of a [Noisy] alone: all
// that the likelihood of a noise level needs, for a small part of the work.
type Density struct {
	sigma  float64
	scale  float64 // 1/(σ√(2π)) over the sum of the weights
	panels []densityPanel
}

type densityPanel struct {
	least, most float64 // of g
	g, w        [order]float64
}

// densityReach is how far from y values of g count, in units of σ: by their weights
// alone nodes differ by e^32, and beyond lies e^−84.
const densityReach = 13

// Density returns the density of g(Z) + sigma·N, sigma > 0. It panics if sigma is not.
func (l *Law) Density(sigma float64) *Density {
	if !(sigma > 0) {
		panic("gauss: the noise level is not positive")
	}
	leg := theLegendre()
	pieces, _ := l.fine(sigma, far*math.Hypot(l.SD, sigma)+densityReach*sigma, leg)
	d := &Density{sigma: sigma, panels: make([]densityPanel, len(pieces))}
	total := 0.0
	for i, p := range pieces {
		q := &d.panels[i]
		q.least, q.most, q.g = slices.Min(p.g[:]), slices.Max(p.g[:]), p.g
		for j := range q.w {
			q.w[j] = leg.w[j] * (p.hi - p.lo) * density(leg.z(p, j)) // up to a factor, see scale
			total += q.w[j]
		}
	}
	d.scale = 1 / (total * sigma * math.Sqrt(2*math.Pi))
	return d
}

// At returns the density at y; 0 further than 13σ from every value of g.
func (d *Density) At(y float64) float64 {
	var at [1]float64
	d.Values(at[:], []float64{y})
	return at[0]
}

// Values writes the densities at y, which ascends, to dst.
func (d *Density) Values(dst, y []float64) {
	clear(dst)
	reach := densityReach * d.sigma
	for i := range d.panels {
		p := &d.panels[i]
		from := sort.SearchFloat64s(y, p.least-reach)
		to := from
		for to < len(y) && y[to] <= p.most+reach {
			to++
		}
		for ; from < to; from += abreast {
			end := min(to, from+abreast)
			p.addTo(dst[from:end], y[from:end], 1/d.sigma)
		}
	}
	for i := range dst {
		dst[i] *= d.scale
	}
}

// abreast is for how many y a panel's exponentials are taken at a time.
const abreast = 16

// addTo adds Σ_j w_j·exp(−((y−g_j)·inv)²/2) to dst, of at most abreast y.
func (p *densityPanel) addTo(dst, y []float64, inv float64) {
	var room [abreast * order]float64
	e := room[:order*len(y)]
	for t, v := range y {
		at := (*[order]float64)(e[t*order:])
		for j, g := range p.g {
			u := (v - g) * inv
			at[j] = -0.5 * u * u
		}
	}
	kernel.Exp(e, e)
	for t := range dst {
		at := (*[order]float64)(e[t*order:])
		for j, w := range p.w {
			dst[t] += w * at[j]
		}
	}
}

// CDF returns P(g(Z) + σN ≤ y).
func (d *Density) CDF(y float64) float64 {
	reach, inv := densityReach*d.sigma, 1/d.sigma
	var s float64
	for i := range d.panels {
		p := &d.panels[i]
		if y+reach < p.least {
			continue
		}
		for j, g := range p.g {
			u := (y - g) * inv
			if y-reach > p.most {
				s += p.w[j]
				continue
			}
			s += p.w[j] * math.Erfc(-u/math.Sqrt2) / 2
		}
	}
	return min(s*d.scale*d.sigma*math.Sqrt(2*math.Pi), 1)
}
