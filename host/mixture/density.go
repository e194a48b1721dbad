package mixture

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"sync"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/registry"
)

// Density is the law of y under one expert, f(y; m, ψ): m = g(z) is what g makes of the expert's
// linear predictor z, ψ the Q parameters of its own, all above 0. Values are rows of equal length; ψ is
// [model.Params.OwnOf] of the expert. A density is a value without state: parameters name it
// ([model.Params].Family), and [Register] makes it known under that name.
type Density interface {
	// Name is what parameters and files call it.
	Name() string
	// Own lists ψ, the parameters that an expert has beside its predictor; the first is called sigma where it is the
	// scale of y, and there alone. The list is not to be changed.
	Own() []OwnParameter
	// Domain says which means and targets there are.
	Domain() Domain
	// LogDensity writes scores + log f(y; mean, ψ), all constants included, to dst, which is none of the others.
	LogDensity(dst, scores, y, mean, psi []float64)
	// Derive writes the derivatives of log f(y; mean, ψ) to t.
	Derive(t Terms, y, mean, psi []float64)
	Law
}

// Outside returns the first row of a block whose target no law of d gives, or that has no trials, and what is wrong
// with it; row is −1 where there is none. A missing target, NaN, is left out.
func Outside(d Density, b *model.Block) (row int, wrong string) {
	trials, domain := b.Role[model.Trials], d.Domain()
	for t, y := range b.Y {
		if trials != nil {
			if domain.Most = trials[t]; domain.Most < 1 {
				return t, fmt.Sprintf("the trials are %v, want whole numbers from 1", trials[t])
			}
		}
		if !(y < domain.Least || y > domain.Most || domain.Whole && y != math.Trunc(y) && !math.IsNaN(y)) {
			continue
		}
		of := ""
		if trials != nil {
			of = fmt.Sprintf(" of %v trials", trials[t])
		}
		return t, fmt.Sprintf("the target is %v%s, and the family %s takes %s", y, of, d.Name(), domain.takes())
	}
	return -1, ""
}

// takes says which targets there are.
func (d Domain) takes() string {
	takes := "numbers"
	if d.Whole {
		takes = "whole numbers"
	}
	switch low, high := !math.IsInf(d.Least, -1), d.Most < 1<<53; {
	case low && high:
		takes += fmt.Sprintf(" from %g to %g", d.Least, d.Most)
	case low && d.Least > 0: // the least number above 0
		takes += " above 0"
	case low:
		takes += fmt.Sprintf(", %g or more", d.Least)
	case high:
		takes += fmt.Sprintf(", %g or less", d.Most)
	}
	return takes
}

// OwnParameter is one of ψ: θ holds its logarithm.
type OwnParameter struct {
	Name        string  // what files and reports call it: letters of ASCII, digits and underscores
	Start       float64 // where a fit begins; that of a [Domain].Scale is as large as the targets instead
	Least, Most float64 // what it may be, from 0 to +Inf
	// Reciprocal says that the estimate of 1/ψ is nearer to normal than that of log ψ: the law has a limit as ψ grows,
	// and where the rows do not tell it from that, 1/ψ is near 0 and log ψ may be anything.
	Reciprocal bool
}

// Law is what a density says of y at one mean.
type Law interface {
	// CDF returns P(Y ≤ y).
	CDF(y, mean float64, psi []float64) float64
	// Quantile returns the least y with P(Y ≤ y) ≥ q, 0 < q < 1.
	Quantile(q, mean float64, psi []float64) float64
}

// Domain is where means and targets may be.
type Domain struct {
	Least, Most         float64 // of targets, both included
	Whole               bool    // targets are whole numbers
	LeastMean, MostMean float64 // of means, neither included
	// Scale says that the first own parameter is in the units of y: starts take it about as large as the targets, and a
	// fit has a floor below it. It is called sigma then.
	Scale bool
}

// Terms are the derivatives of log f of one expert, N values each; those by log ψ are rows of them, empty where Q = 0.
type Terms struct {
	Score       []float64 // u = ∂log f/∂m
	Information []float64 // −∂²log f/∂m²
	// Expected is the mean over y of Information at these parameters, above 0: what Fisher's scoring, the M-step of
	// the regressors, divides by.
	Expected       []float64
	OwnScore       [][]float64 // Q: ∂log f/∂log ψ_q
	OwnInformation [][]float64 // Q(Q+1)/2, see OwnAt: −∂²log f/∂log ψ_q∂log ψ_p
	Cross          [][]float64 // Q: −∂²log f/∂m∂log ψ_q
}

// OwnAt is the place of ψ_q and ψ_p, in either order, of q in OwnInformation: (0,0), (0,1), (1,1), (0,2), and so on.
func OwnAt(q, p int) int {
	q, p = min(q, p), max(q, p)
	return p*(p+1)/2 + q
}

// densities are those that are registered, by name.
var densities = registry.New[Density](Gaussian{}, StudentT{}, Gamma{}, Poisson{}, NegativeBinomial{}, Binomial{})

// Register makes a density known by its name. It panics where the name is taken or empty, or
// where its own parameters are not as [OwnParameter] says.
func Register(d Density) {
	names := map[string]bool{}
	for q, own := range d.Own() {
		sound := OwnName().MatchString(own.Name) && !names[own.Name] &&
			(own.Name == Sigma) == (q == 0 && d.Domain().Scale)
		if !sound || !(own.Least >= 0 && own.Least < own.Start && own.Start < own.Most) {
			panic(fmt.Sprintf("mixture: density %q cannot be registered: its own parameter %d is %+v", d.Name(), q+1,
				own))
		}
		names[own.Name] = true
	}
	if d.Name() == "" || !densities.Add(d) {
		panic(fmt.Sprintf("mixture: density %q cannot be registered: the name is taken, or none", d.Name()))
	}
}

// Sigma is the name of an own parameter that is the scale of y.
const Sigma = "sigma"

// OwnName is what own parameters may be called.
var OwnName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })

// Densities lists the names of the densities that are known, in order.
func Densities() []string { return densities.Names() }

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
	d, known := densities.Find(name)
	if !known {
		panic(fmt.Sprintf("mixture: no density %q", name))
	}
	return d
}

// Normal says whether a density is [Gaussian] itself: what is written out for normal noise alone asks.
func Normal(d Density) bool {
	_, ok := d.(Gaussian)
	return ok
}

// Counts says whether a density is of counts that may be any: what an expert that is always 0 may stand beside.
func Counts(d Density) bool {
	domain := d.Domain()
	return domain.Whole && domain.Least == 0 && math.IsInf(domain.MostMean, 1)
}

// Wider returns the density of which d is a limit and whose targets spread further: [StudentT] of [Gaussian] and
// [NegativeBinomial] of [Poisson]; nil of others.
func Wider(d Density) Density {
	switch d.(type) {
	case Gaussian:
		return StudentT{}
	case Poisson:
		return NegativeBinomial{}
	}
	return nil
}

// Narrower returns the density of which d is the wider one ([Wider]); nil where there is none.
func Narrower(d Density) Density {
	switch d.(type) {
	case StudentT:
		return Gaussian{}
	case NegativeBinomial:
		return Poisson{}
	}
	return nil
}

// Unit returns what [Posterior.Weigh] and [Posterior.Complete] are in the units of: the score of m
// is 1/Unit of the one, its information 1/Unit of the other. σ² of [Gaussian], whose sums over rows know no σ; 1 of any
// other.
func Unit(d Density, s float64) float64 {
	if Normal(d) {
		return s * s
	}
	return 1
}

// FromNormal returns the target of a mean that a normal number z stands for, m + s·z of [Gaussian]: of any density the
// quantile at Φ(z). Of numbers drawn from N(0,1) it makes targets drawn from the density.
func FromNormal(d Density, mean float64, psi []float64, z float64) float64 {
	if Normal(d) {
		return mean + psi[0]*z
	}
	return d.Quantile(min(max(distuv.UnitNormal.CDF(z), math.SmallestNonzeroFloat64), 1-0x1p-53), mean, psi)
}

// NewTerms returns room for the derivatives of a block's rows under a density with so many own parameters.
func NewTerms(own int) Terms { return TermsOf(model.BlockRows, own) }

// TermsOf returns room for those of so many rows.
func TermsOf(rows, own int) Terms {
	n := func() []float64 { return make([]float64, rows) }
	t := Terms{Score: n(), Information: n(), Expected: n()}
	several := func(many int) [][]float64 {
		out := make([][]float64, many)
		for i := range out {
			out[i] = n()
		}
		return out
	}
	t.OwnScore, t.OwnInformation, t.Cross = several(own), several(own*(own+1)/2), several(own)
	return t
}

// First returns the first n values of all, of rows that t shares: what t has then is as long.
func (t Terms) First(n int) Terms {
	t.Score, t.Information, t.Expected = t.Score[:n], t.Information[:n], t.Expected[:n]
	for _, rows := range [][][]float64{t.OwnScore, t.OwnInformation, t.Cross} {
		for i := range rows {
			rows[i] = rows[i][:n]
		}
	}
	return t
}
