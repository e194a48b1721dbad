package mixture

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/model"
)

// Density is the law of y under one expert, f(y; m, s): m = g(z) is what g makes of the expert's
// linear predictor z, s > 0 a parameter of its own where it has one. Values are rows of equal length; s is
// [model.Params.SigmaOf] of the expert. A density is a value without state: parameters name it
// ([model.Params].Family), and [Register] makes it known under that name.
type Density interface {
	// Name is what parameters and files call it.
	Name() string
	// Own is the number of parameters that an expert has beside its predictor: 0, or 1 that is s. θ holds
	// log s.
	Own() int
	// Domain says which means and targets there are.
	Domain() Domain
	// LogDensity writes scores + log f(y; mean, s), all constants included, to dst.
	LogDensity(dst, scores, y, mean []float64, s float64)
	// Derive writes the derivatives of log f(y; mean, s) to t.
	Derive(t Terms, y, mean []float64, s float64)
	Law
}

// Law is what a density says of y at one mean.
type Law interface {
	// CDF returns P(Y ≤ y).
	CDF(y, mean, s float64) float64
	// Quantile returns the least y with P(Y ≤ y) ≥ q, 0 < q < 1.
	Quantile(q, mean, s float64) float64
}

// Domain is where means and targets may be.
type Domain struct {
	Least, Most         float64 // of targets, both included
	Whole               bool    // targets are whole numbers
	LeastMean, MostMean float64 // of means, neither included
	// Scale says that s is in the units of y: starts take it about as large as the targets, and a fit has a
	// floor below it. Any other s begins at 1.
	Scale bool
}

// Terms are the derivatives of log f of one expert, N values each; those by log s are empty where it
// has no s.
type Terms struct {
	Score       []float64 // u = ∂log f/∂m
	Information []float64 // −∂²log f/∂m²
	// Expected is the mean over y of Information at these parameters, above 0: what Fisher's scoring, the M-step of
	// the regressors, divides by.
	Expected       []float64
	OwnScore       []float64 // ∂log f/∂log s
	OwnInformation []float64 // −∂²log f/∂log s²
	Cross          []float64 // −∂²log f/∂m∂log s
}

// densities are those that are registered, by name.
var densities = struct {
	sync.RWMutex
	of map[string]Density
}{of: map[string]Density{Gaussian{}.Name(): Gaussian{}}}

// Register makes a density known by its name. It panics where the name is taken or empty, or
// where the density has more than one parameter of its own.
func Register(d Density) {
	densities.Lock()
	defer densities.Unlock()
	if _, taken := densities.of[d.Name()]; taken || d.Name() == "" || d.Own() < 0 || d.Own() > 1 {
		panic(fmt.Sprintf("mixture: density %q cannot be registered: the name is taken, or it has %d parameters of its own", d.Name(), d.Own()))
	}
	densities.of[d.Name()] = d
}

// Densities lists the names of the densities that are known, in order.
func Densities() []string {
	densities.RLock()
	defer densities.RUnlock()
	return slices.Sorted(maps.Keys(densities.of))
}

// Known says whether there is a density of this name; "" is [Gaussian].
func Known(name string) bool {
	return name == "" || slices.Contains(Densities(), name)
}

// DensityOf returns the density of parameters whose Family has this name; "" is [Gaussian]. It panics
// where there is none.
func DensityOf(name string) Density {
	if name == "" {
		return Gaussian{}
	}
	densities.RLock()
	defer densities.RUnlock()
	d, ok := densities.of[name]
	if !ok {
		panic(fmt.Sprintf("mixture: no density %q", name))
	}
	return d
}

// Normal says whether a density is [Gaussian] itself: what is written out for normal noise alone asks.
func Normal(d Density) bool {
	_, ok := d.(Gaussian)
	return ok
}

// Unit returns what [Posterior.Weigh] and [Posterior.Complete] are in the units of: the score of m
// is 1/Unit of the one, its information 1/Unit of the other. σ² of [Gaussian], whose sums over rows know no σ; 1 of any other.
func Unit(d Density, s float64) float64 {
	if Normal(d) {
		return s * s
	}
	return 1
}

// FromNormal returns the target of a mean that a normal number z stands for, m + s·z of [Gaussian]: of any density the quantile at Φ(z).
// Of numbers drawn from N(0,1) it makes targets drawn from the density.
func FromNormal(d Density, mean, s, z float64) float64 {
	if Normal(d) {
		return mean + s*z
	}
	return d.Quantile(min(max(distuv.UnitNormal.CDF(z), math.SmallestNonzeroFloat64), 1-0x1p-53), mean, s)
}

// NewTerms returns room for the derivatives of a block's rows under a density with so many own parameters.
func NewTerms(own int) Terms {
	n := func() []float64 { return make([]float64, model.BlockRows) }
	t := Terms{Score: n(), Information: n(), Expected: n()}
	if own > 0 {
		t.OwnScore, t.OwnInformation, t.Cross = n(), n(), n()
	}
	return t
}

// First returns the first n values of all.
func (t Terms) First(n int) Terms {
	t.Score, t.Information, t.Expected = t.Score[:n], t.Information[:n], t.Expected[:n]
	if t.OwnScore != nil {
		t.OwnScore, t.OwnInformation, t.Cross = t.OwnScore[:n], t.OwnInformation[:n], t.Cross[:n]
	}
	return t
}
