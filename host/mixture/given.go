package mixture

import (
	"math"
	"slices"
)

// Given is a density whose own parameters are known, as package solver asks for the law of y at a mean. It has
// room of its own: one goroutine at a time asks it.
type Given struct {
	density  Density
	psi      []float64
	y, zeros []float64
}

// NewGiven returns d with ψ as given.
func NewGiven(d Density, psi []float64) *Given { return &Given{density: d, psi: slices.Clone(psi)} }

// LogDensity writes log f(y; m, ψ) of every mean to dst.
func (g *Given) LogDensity(dst []float64, y float64, means []float64) {
	if len(g.y) < len(means) {
		g.y, g.zeros = make([]float64, len(means)), make([]float64, len(means))
	}
	room := g.y[:len(means)]
	for i := range room {
		room[i] = y
	}
	g.density.LogDensity(dst, g.zeros[:len(means)], room, means, g.psi)
}

// Median returns a median of y at mean m, NaN where the density has no such mean.
func (g *Given) Median(m float64) float64 {
	if domain := g.density.Domain(); !(m > domain.LeastMean && m < domain.MostMean) {
		return math.NaN()
	}
	return g.density.Quantile(0.5, m, g.psi)
}

// Support is where y can be: whole numbers from least to most, or all numbers between.
func (g *Given) Support() (least, most float64, whole bool) {
	domain := g.density.Domain()
	return domain.Least, domain.Most, domain.Whole
}
