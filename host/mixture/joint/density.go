// Package joint is the density of the targets of a row with several of them under one expert: the seam for families
// of such densities, and what the densities of the experts make of a block of rows.
package joint

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/registry"
)

// Density is the law f(y; m, ψ) of M ≥ 1 targets, all of them numbers, under one expert, m what g makes of its M linear
// predictors. It is of noise: y and m count by y − m alone. ψ are a scale of each target, in the units of that, and own
// parameters, which θ has as they are: such as log ν, or Fisher's z of a correlation. A density is a value without
// state: parameters name it ([model.VectorParams].Family), and [Register] makes it known under that name.
type Density interface {
	// Name is what parameters and files call it.
	Name() string
	// Own lists what it has beside the scales of m targets. The list is not to be changed.
	Own(m int) []Parameter
	// At returns the law at ψ: the scales of n and its Own, of m targets len(n.Scale).
	At(n model.VectorNoise) Law
}

// Parameter is an own parameter.
type Parameter struct {
	Name               string  // what files and reports call it: letters of ASCII, digits and underscores
	Start, Least, Most float64 // where a fit begins, and what it may be: −Inf and +Inf are any
}

// Law is a density at its parameters. It is used by several goroutines at a time.
type Law interface {
	// LogDensity returns log f(y; mean, ψ), all constants included.
	LogDensity(y, mean []float64) float64
	// Derive writes its derivatives to t, which is 0.
	Derive(t *Terms, y, mean []float64)
	// Draw writes targets drawn to dst, which may be the mean.
	Draw(rng *rand.Rand, dst, mean []float64)
	// Marginal returns the law of target c alone: a density of numbers with a scale among [mixture.Densities], "" the
	// normal one, and its ψ.
	Marginal(c int) (family string, psi []float64)
}

// Terms are the derivatives of log f of a row by its M means and by ψ: log s_1, …, log s_M, then the own parameters, Q
// in all. Of a symmetric matrix [mixture.OwnAt] is the place of an entry.
type Terms struct {
	Score          []float64 // u_a = ∂log f/∂m_a
	Information    []float64 // −∂²log f/∂m_a∂m_b
	Expected       []float64 // the mean of Information over y, or another positive definite matrix near it
	OwnScore       []float64 // ∂log f/∂ψ_l
	OwnInformation []float64 // −∂²log f/∂ψ_l∂ψ_n
	Cross          []float64 // −∂²log f/∂m_a∂ψ_l in place a·Q + l
}

// NewTerms returns those of m targets and q parameters.
func NewTerms(m, q int) *Terms {
	v, pairs := make([]float64, m+m*(m+1)+q+q*(q+1)/2+m*q), m*(m+1)/2
	next := func(n int) []float64 {
		of := v[:n:n]
		v = v[n:]
		return of
	}
	return &Terms{next(m), next(pairs), next(pairs), next(q), next(q * (q + 1) / 2), next(m * q)}
}

// parts are all of them.
func (t *Terms) parts() [6][]float64 {
	return [...][]float64{t.Score, t.Information, t.Expected, t.OwnScore, t.OwnInformation, t.Cross}
}

var densities = registry.New[Density]()

// Register makes a density known by its name. It panics where the name is taken, or that of one target's, or empty, or
// where its own parameters are not as [Parameter] says.
func Register(d Density) {
	name := d.Name()
	names := map[string]bool{mixture.Sigma: true}
	for q, own := range d.Own(2) {
		sound := mixture.OwnName().MatchString(own.Name) && !names[own.Name]
		if names[own.Name] = true; !sound || !(own.Least < own.Start && own.Start < own.Most) {
			panic(fmt.Sprintf("joint: density %q cannot be registered: its own parameter %d is %+v", name, q+1, own))
		}
	}
	if mixture.Known(name) || name == "lognormal" || !densities.Add(d) {
		panic(fmt.Sprintf("joint: density %q cannot be registered: the name is taken, or none", name))
	}
}

// Families lists the names of the densities that are registered, in order.
func Families() []string { return densities.Names() }

// Known says whether there is a density of this name; "" is [Gaussian].
func Known(name string) bool { return name == "" || slices.Contains(Families(), name) }

// Of returns the density of this name; "" is [Gaussian]. It panics where there is none.
func Of(name string) Density {
	if name == "" {
		return Gaussian{}
	}
	d, known := densities.Find(name)
	if !known {
		panic(fmt.Sprintf("joint: no density %q", name))
	}
	return d
}

// Begin gives noise that has scales alone what a family has besides, as a fit begins: of normal noise u where it is
// full.
func Begin(n *model.VectorNoise, family string, full bool) {
	switch m := len(n.Scale); {
	case family != "":
		n.Own = []float64{}
		for _, q := range Of(family).Own(m) {
			n.Own = append(n.Own, q.Start)
		}
	case full:
		n.Lower = make([]float64, m*(m-1)/2)
	}
}

// Noise is a noise of parameters with its law.
type Noise struct {
	model.VectorNoise
	Law
	// Weight, M×M, is what [Experts.Curvature] and [Experts.Pull] of targets a and b are multiplied by.
	Weight []float64
	// Normal is the law of normal noise that no family names: what is written out for that alone asks. Nil of others.
	Normal *Normal
}

// NoisesOf are those of parameters.
func NoisesOf(p *model.VectorParams) []Noise {
	out, of := make([]Noise, len(p.Noise)), Of(p.Family)
	for i, n := range p.Noise {
		out[i] = Noise{VectorNoise: n, Law: of.At(n)}
		if p.Family != "" {
			out[i].Weight = slices.Repeat([]float64{1}, p.M*p.M)
			continue
		}
		out[i].Normal = out[i].Law.(*Normal)
		out[i].Weight = out[i].Normal.Precision
	}
	return out
}

// SetMarginal gives parameters of target c alone the density that these noises of a family, which is not "", have for
// it.
func SetMarginal(p *model.Params, family string, noises []model.VectorNoise, c int) {
	p.Sigma, p.Own = nil, nil
	for _, n := range noises {
		of, psi := Of(family).At(n).Marginal(c)
		p.Family, p.Sigma = of, append(p.Sigma, psi[0])
		for q, v := range psi[1:] {
			if len(p.Own) == q {
				p.Own = append(p.Own, nil)
			}
			p.Own[q] = append(p.Own[q], v)
		}
	}
}

// farthest is the standard normal number that stands for all beyond it.
const farthest = 8

// standard returns Φ⁻¹(F(y)) of the marginal law of a target.
func standard(d mixture.Density, y, mean float64, psi []float64) float64 {
	return min(max(distuv.UnitNormal.Quantile(d.CDF(y, mean, psi)), -farthest), farthest)
}
