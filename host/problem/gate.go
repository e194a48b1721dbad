package problem

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/gatedlearning/moe/host/mixture"
)

// Gate is how the gate depends on the features: [Softmax] or [Constant].
type Gate interface {
	// Name is what files and flags call it.
	Name() string
	columns(features []string) (seen []int, constant bool, err error)
}

// Softmax is a gate linear in the features,
// P(z=i|x) = softmax_i(⟨w_i,x⟩ + v_i) (002 Eq. 1).
type Softmax struct {
	Features []string // that it sees; nil: all
}

// Constant is a gate of mixing proportions that do not depend on x.
type Constant struct{}

// Name returns "softmax".
func (Softmax) Name() string { return "softmax" }

// Name returns "constant".
func (Constant) Name() string { return "constant" }

func (g Softmax) columns(features []string) ([]int, bool, error) {
	seen, err := columns(features, g.Features, "the gate")
	return seen, false, err
}

func (Constant) columns([]string) ([]int, bool, error) { return []int{}, true, nil }

// Intercepts says who has intercepts: the experts, the gate, both or nobody.
type Intercepts string

// The kinds of intercepts.
const (
	NoIntercepts     Intercepts = ""
	BothIntercepts   Intercepts = "both"
	ExpertIntercepts Intercepts = "experts"
	GateIntercepts   Intercepts = "gate"
)

// AllIntercepts lists the kinds of intercepts.
func AllIntercepts() []Intercepts {
	return []Intercepts{NoIntercepts, BothIntercepts, ExpertIntercepts, GateIntercepts}
}

// InterceptsOf are intercepts of the experts, of the gate, of both or of nobody.
func InterceptsOf(experts, gate bool) Intercepts {
	for _, i := range AllIntercepts() {
		if i.experts() == experts && i.gate() == gate {
			return i
		}
	}
	panic("problem: no such intercepts")
}

// Name is what files call it: "none" for nobody's.
func (i Intercepts) Name() string { return cmp.Or(string(i), "none") }

func (i Intercepts) experts() bool { return i == BothIntercepts || i == ExpertIntercepts }
func (i Intercepts) gate() bool    { return i == BothIntercepts || i == GateIntercepts }

// Noise is the noise of the experts: [Shared] or [PerExpert].
type Noise interface {
	// Name is what files and flags call it.
	Name() string
	level() (perExpert bool, sigma float64)
}

// Shared is noise of one level σ for all experts.
type Shared struct {
	Sigma float64 // where it is known; 0: estimate it
}

// PerExpert is noise of a level σ_i for every expert.
type PerExpert struct {
	Sigma float64 // where it is known, the same for all; 0: estimate each
	// Least is the floor of each where it is estimated. An expert of rows whose targets coincide stands there, and
	// counts. 0 is a thousandth of the target's standard deviation, where an expert does not count.
	Least float64
}

// Name returns "shared".
func (Shared) Name() string { return "shared" }

// Name returns "per-expert", and the floor behind a colon where it is given.
func (n PerExpert) Name() string {
	if n.Least == 0 {
		return "per-expert"
	}
	return "per-expert:" + strconv.FormatFloat(n.Least, 'g', -1, 64)
}

// leastSigma is the floor that n has.
func leastSigma(n Noise) float64 {
	own, _ := n.(PerExpert)
	return own.Least
}

func (n Shared) level() (bool, float64)    { return false, n.Sigma }
func (n PerExpert) level() (bool, float64) { return true, n.Sigma }

// KnownSigma is the noise level that n knows; 0 where it is to be estimated.
func KnownSigma(n Noise) float64 {
	_, sigma := n.level()
	return sigma
}

// smallest and largest bound the largest magnitude in a column, and σ: the
// fourth power of such a number is neither 0 nor infinite.
const (
	smallest = 1e-75
	largest  = 1e75
)

// Check refuses what no data could be fitted with.
func (r Request) Check() error {
	if r.K < 1 {
		return Refuse("k = %d, want at least 1", r.K)
	}
	switch least := leastSigma(r.Noise); {
	case least == 0:
	case !(least >= smallest && least <= largest):
		return Refuse("noise %s: want a floor above 0", r.Noise.Name())
	case KnownSigma(r.Noise) > 0:
		return Refuse("noise %s: a level that is known has no floor", r.Noise.Name())
	case !mixture.DensityOf(r.Family).Domain().Scale:
		return Refuse("noise %s: the family %s has no noise of the target's scale", r.Noise.Name(), r.Family)
	}
	if n := len(r.Leaves); n > 0 && n != r.K {
		return Refuse("%d activations for k = %d experts", n, r.K)
	}
	if n := r.Tree.Leaves(); len(r.Tree.Branches) > 0 && n != r.K {
		return Refuse("k = %d, the tree %s has %d leaves", r.K, r.Tree, n)
	}
	if r.Output != "" && (r.Leaves != nil || r.Tree.Depth() > 1) {
		return Refuse("output scale %s is for one gate over experts of one activation, not for a tree or leaves",
			r.Output)
	}
	if !slices.Contains(AllIntercepts(), r.Intercepts) {
		return Refuse("intercepts = %q; there are both, experts, gate, and \"\" for none", string(r.Intercepts))
	}
	if err := checkFamily(r); err != nil {
		return err
	}
	if r.Threads < 0 {
		return Refuse("threads = %d, want at least 1", r.Threads)
	}
	if r.Noise != nil {
		if _, sigma := r.Noise.level(); sigma != 0 && !(sigma >= smallest && sigma <= largest) || math.IsNaN(sigma) {
			return Refuse("sigma = %v, want between %g and %g, or 0 to estimate it", sigma, smallest, largest)
		}
	}
	return nil
}
