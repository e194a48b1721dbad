package host

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/checkpoint"
	"github.com/gatedlearning/moe/host/criterion"
	"github.com/gatedlearning/moe/host/crossvalidation"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/descent"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/result"
	"github.com/gatedlearning/moe/host/terms"
	"github.com/gatedlearning/moe/internal/claims"
	"github.com/gatedlearning/moe/sdk"
)

// Config says how to fit. Only K must be set.
type Config struct {
	K      int    // number of experts
	Method Method // nil is [Auto]

	Intercepts     Intercepts
	Gate           Gate     // nil is [Softmax]
	Noise          Noise    // nil is [Shared]
	ExpertFeatures []string // that the experts see; nil: all
	// Tied are features whose coefficients are the same in all experts, the intercept under the name of
	// [model.InterceptName].
	Tied []string

	// Output gives the experts' means an offset and a scale, c + s·g(⟨a,x⟩), fitted with
	// the rest; "" is none.
	Output OutputScale

	// Family is the density of the target around the experts' means, by its name in host/mixture; "" is
	// normal noise. The moment estimate of others gives starts only, by transforms for what the values of the target
	// tell of the density ([moment.Marginal]).
	Family string
	Dof    float64 // degrees of freedom of [StudentT] where they are known; 0: estimated
	// ZeroExpert has one class more for the gate of counts to choose, beside the K experts, under which the target is
	// always 0 (zero inflation; Lambert 1992): it has a probability of its own, and no regressor.
	ZeroExpert bool

	// Hierarchy is the shape of a tree of gates over the experts; the zero value is one
	// gate. Leaves are the experts' own activations, from left to right; nil where all
	// have the one that is fitted.
	Hierarchy model.Hierarchy
	Leaves    []sdk.Activation

	// Transform says of what transforms of y the moment tensors are made; "" leaves
	// it to the predicted errors, see [moment.Transform].
	Transform Transform
	// Inputs says what the features are taken for in the moment tensors; "" is [GaussianInputs].
	Inputs Inputs

	// Design says how the features are made of raw columns, for the model's file;
	// nil where the columns are the features. See [Config.For].
	Design *terms.Design

	compared *crossvalidation.Comparison // what chose this description of the model among others

	beside   bool // the rows are some of a table: optima that may be the best on all are kept
	unjudged bool // the fit is to predict other rows alone: it has no certificate

	Seed    uint64 // of everything random
	Threads int    // 0: one per processor; the result does not depend on it

	// MaxMemory is how many bytes of memory a fit may take: rows that do not fit beside
	// what the passes need stay in their file, or in a temporary one, and every pass
	// reads them. The model is the same to the byte. 0: rows stay in a file where they
	// would take more than half of the memory that is free. A program that is to keep to
	// it tells the runtime as well (runtime/debug.SetMemoryLimit, [RuntimeMemory]).
	MaxMemory int64

	// Errors are the kinds of standard errors; nil is [Observed]. [Robust] takes the place of
	// Observed, and [Dependent] adds a second set beside the first. Where the data have a column of clusters
	// (model.Clusters) the first are [Clustered].
	Errors []ErrorKind
	// Arrangements has method auto refine what it has seen of other optima near the best, and
	// weigh them: see fitted.Arrangements.
	Arrangements bool
	// GatePenalty says where the model of a ridge on the gate comes beside the maximum's; "" is where a gate separates
	// rows.
	GatePenalty Penalty
	// ExpertRidge says the same of a ridge on the experts; "" is none.
	ExpertRidge Penalty
	// ExpertLasso says the same of a lasso on the experts, under which slopes are 0.
	ExpertLasso Penalty
	// Choose is how a range chooses the number of experts; "" is [ByBICc]; of several targets [ByHeldOut] alone.
	Choose Choice
	// Start, if given, is one of the starts, in the units of the data.
	Start *model.Params
	// Truth, if given, is compared with the fit.
	Truth *model.Params
	// Approximate makes the iterations work on a native approximation of the
	// activation (see package native), which the model then carries. It is for
	// activations whose calls are dear, such as those of plugins in processes of
	// their own; parameters move by less than 1e−8.
	Approximate bool

	// Checkpoint, if set, is called where the search can be taken up again, from
	// one goroutine, with a function that writes down where it stands; it may be
	// called until the fit returns and after.
	Checkpoint func(save func() (*Checkpoint, error))
	// Resume, if set, goes on where a fit of the same data with the same settings
	// stood; the result is that of an uninterrupted fit to the last bit.
	Resume *Checkpoint
	// Progress, if set, is called between steps, from one goroutine at a time.
	Progress func(stage Stage, done, total int)
	// Reading, if set, is called while rows that are not in memory are read, a hundred
	// times a pass and perhaps from several goroutines at once, with the number of passes
	// made.
	Reading func(passes float64)
}

// UsualPasses is about how many passes over the rows a fit of method auto makes where
// they are many: 27 for identity experts with standard inputs, more from poor starts.
const UsualPasses = 30

// For returns c for the features of t: what experts and gate see of them, which have
// an intercept where a formula says so, and how they are made of raw columns.
func (c Config) For(t *terms.Table) Config {
	c.Design, c.ExpertFeatures, c.Tied = t.Design, t.Experts, t.Shared
	if t.Design != nil && t.Design.Formula != "" {
		c.Intercepts = InterceptsOf(t.ExpertIntercept, t.GateIntercept)
		c.Gate = Softmax{Features: t.Gate}
		switch {
		case len(t.Gate) == 0:
			c.Gate = Constant{}
		case t.Implied && t.Source.Schema().Roles[model.Groups] != "": // it sees what is constant in a group
			c.Gate = Softmax{}
		}
	} else if t.Gate != nil {
		c.Gate = Softmax{Features: t.Gate}
	}
	return c
}

// ChosenBy is the configuration of the alternative that a comparison has chosen, for the fit of it to all rows:
// [FitRange] takes the number of experts that was, and the model has the table of all.
func (c Config) ChosenBy(x *crossvalidation.Comparison) Config {
	c.K, c.compared = x.K, x
	return c
}

// Intercepts says who has intercepts: [NoIntercepts], [BothIntercepts],
// [ExpertIntercepts] or [GateIntercepts].
type Intercepts = problem.Intercepts

// The kinds of intercepts.
const (
	NoIntercepts     = problem.NoIntercepts
	BothIntercepts   = problem.BothIntercepts
	ExpertIntercepts = problem.ExpertIntercepts
	GateIntercepts   = problem.GateIntercepts
)

// AllIntercepts lists the kinds of intercepts.
func AllIntercepts() []Intercepts { return problem.AllIntercepts() }

// InterceptsOf are intercepts of the experts, of the gate, of both or of nobody.
func InterceptsOf(experts, gate bool) Intercepts { return problem.InterceptsOf(experts, gate) }

// Gate is how the gate depends on the features: [Softmax] or [Constant].
type Gate = problem.Gate

// Softmax is a gate linear in the features that it sees.
type Softmax = problem.Softmax

// Constant is a gate of mixing proportions that do not depend on x.
type Constant = problem.Constant

// Gates lists the gates.
func Gates() []Gate { return []Gate{Softmax{}, Constant{}} }

// Noise is the noise of the experts: [Shared] or [PerExpert].
type Noise = problem.Noise

// Shared is noise of one level for all experts.
type Shared = problem.Shared

// PerExpert is noise of a level for every expert.
type PerExpert = problem.PerExpert

// Noises lists the kinds of noise.
func Noises() []Noise { return []Noise{Shared{}, PerExpert{}} }

// OutputScale says whose the c and s of means c + s·g(⟨a,x⟩) are: [SharedScale] or
// [PerExpertScale].
type OutputScale = problem.OutputScale

// The kinds of output.
const (
	SharedScale    = problem.SharedScale
	PerExpertScale = problem.PerExpertScale
)

// OutputScales lists the kinds of output.
func OutputScales() []OutputScale { return problem.OutputScales() }

// ErrorKind is how standard errors are estimated: [Observed], [Robust] or [Dependent]; [Clustered] where the rows have
// a column of clusters.
type ErrorKind = infer.Kind

// The kinds of standard errors.
const (
	Observed  = infer.Observed  // by the inverse of the information
	Robust    = infer.Robust    // by the sandwich, which holds where the noise is not what the model says
	Dependent = infer.Dependent // by the sandwich that holds also where rows follow each other in time
	Clustered = infer.Clustered // by the sandwich that holds also where rows of one cluster depend on each other
)

// ErrorKinds lists the kinds of standard errors that are asked for.
func ErrorKinds() []ErrorKind { return []ErrorKind{Observed, Robust, Dependent} }

// Transform is that of the moment tensors: [Polynomial] or [Optimal].
type Transform = moment.Transform

// The transforms.
const (
	Polynomial = moment.Polynomial
	Optimal    = moment.Optimal
)

// Transforms lists the transforms.
func Transforms() []Transform { return moment.Transforms() }

// Inputs are what the moment tensors take the features for: [GaussianInputs], [MixtureInputs] or [AutomaticInputs].
type Inputs = moment.Inputs

// What the features are taken for.
const (
	GaussianInputs  = moment.GaussianInputs
	MixtureInputs   = moment.MixtureInputs
	AutomaticInputs = moment.AutomaticInputs
)

// AllInputs lists what the features are taken for.
func AllInputs() []Inputs { return moment.AllInputs() }

// Choice is the criterion by which [FitRange] chooses the number of experts.
type Choice = criterion.Choice

// The criteria.
const (
	ByBICc    = criterion.ByBICc
	ByBIC     = criterion.ByBIC
	ByICL     = criterion.ByICL
	ByHeldOut = criterion.ByHeldOut
	BySet     = criterion.BySet
)

// Choices lists the criteria.
func Choices() []Choice { return criterion.Choices() }

// Checkpoint is where a fit stood, see [Config.Resume].
type Checkpoint = checkpoint.Checkpoint

// MiniBatches says how methods [L2] and [L4] descend their loss.
type MiniBatches = descent.MiniBatches

// RequestError is a request that does not fit the data or the activation.
type RequestError = problem.RequestError

// ClaimError is an activation that says of its g what is not so: a g′ that is not
// its derivative.
type ClaimError = claims.Error

// Stage is a part of a fit that takes time.
type Stage string

// The stages of a fit, in order.
const (
	StageRead      Stage = "reading"
	StageMoments   Stage = "moment tensors"
	StageScreening Stage = "starts"
	StageDescent   Stage = "epochs"
	StageRefining  Stage = "refining"
	StagePenalty   Stage = "penalty"
	StageHeldOut   Stage = "crossvalidation"
)

// Checked returns the configuration with its method, gate and noise, or says
// what is wrong with it whatever the data.
func (c Config) Checked() (Config, error) {
	if c.Method == nil {
		c.Method = Auto{}
	}
	if c.Gate == nil {
		c.Gate = Softmax{}
	}
	if c.Noise == nil {
		c.Noise = Shared{}
	}
	if err := c.request().Check(); err != nil {
		return c, err
	}
	return c, cmp.Or(c.checkTransform(), c.checkInputs(), c.checkErrors(), checkPenalties(c), c.Choose.Check(),
		c.checkMemory(), admitted(c), c.Method.check())
}

func (c Config) checkMemory() error {
	if c.MaxMemory < 0 {
		return problem.Refuse("max memory = %d bytes, want more than 0", c.MaxMemory)
	}
	return nil
}

// RuntimeMemory is what the Go runtime may take of so many bytes (for
// runtime/debug.SetMemoryLimit): the program itself takes the rest.
func RuntimeMemory(limit int64) int64 { return max(limit-programMemory, 1<<20) }

// programMemory is what the process takes beside the runtime's memory, the program's
// code for the most part: 24 MiB of the command were measured.
const programMemory = 28 << 20

// normal says whether the noise is normal.
func (c Config) normal() bool { return c.Family == "" || c.Family == fitted.Normal }

// untied refuses coefficients that are the same in all experts for what does not know them.
func (c Config) untied(what string) error {
	if c.Tied == nil {
		return nil
	}
	return problem.Refuse("%s does not know coefficients that are the same in all experts", what)
}

// onlyNormal refuses a density for what knows normal noise alone.
func (c Config) onlyNormal(what string) error {
	if c.normal() {
		return nil
	}
	return problem.Refuse("%s knows normal noise alone, not the family %s", what, c.Family)
}

// sameFamily refuses a start or a truth of another density than is fitted.
func (c Config) sameFamily(p *problem.Problem) error {
	for i, q := range []*model.Params{c.Start, c.Truth} {
		if q != nil && q.Family != p.Shape.Family {
			return problem.Refuse("the %s is of the family %s, the fit of %s", [...]string{"start", "truth"}[i],
				cmp.Or(q.Family, fitted.Normal), cmp.Or(p.Shape.Family, fitted.Normal))
		}
		if q != nil && q.Zero != p.Shape.Zero {
			return problem.Refuse("of the %s and the fit one has an expert that is always 0, and the other has none",
				[...]string{"start", "truth"}[i])
		}
	}
	return nil
}

func (c Config) checkTransform() error {
	if c.Transform != "" && !slices.Contains(Transforms(), c.Transform) {
		return problem.Refuse("transform = %q; there are %v", c.Transform, Transforms())
	}
	if c.Transform != "" {
		return c.onlyNormal("the moment tensors' transform")
	}
	if c.Arrangements {
		return c.onlyNormal("the weighing of arrangements")
	}
	return nil
}

func (c Config) checkInputs() error {
	switch {
	case c.Inputs != "" && !slices.Contains(AllInputs(), c.Inputs):
		return problem.Refuse("inputs = %q; there are %v", c.Inputs, AllInputs())
	case c.Inputs.Gaussian():
		return nil
	case c.Transform != "":
		return problem.Refuse("transform has no effect beside inputs %s, whose tensors are made of powers of y",
			c.Inputs)
	case c.Leaves != nil:
		return problem.Refuse("inputs %s has no effect on experts with activations of their own: there is no moment "+
			"estimate", c.Inputs)
	}
	return c.onlyNormal("inputs " + c.Inputs.Name())
}

func (c Config) checkErrors() error {
	for i, kind := range c.Errors {
		switch {
		case !slices.Contains(ErrorKinds(), kind):
			return problem.Refuse("standard errors = %q; there are %v", kind, ErrorKinds())
		case slices.Contains(c.Errors[:i], kind):
			return problem.Refuse("standard errors: %s stands twice", kind)
		}
	}
	if c.wants(Observed) && c.wants(Robust) {
		return problem.Refuse("standard errors: a model has those of kind %s or %s", Observed, Robust)
	}
	return nil
}

// only is the configuration of a fit to rows with these features of its own alone, without a start, which has all.
func (c Config) only(features []string) Config {
	of := func(names []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			return name != model.InterceptName && !slices.Contains(features, name)
		})
	}
	c.Design, c.Start = c.Design.Of(features), nil
	c.ExpertFeatures, c.Tied = of(c.ExpertFeatures), of(c.Tied)
	if gate, ok := c.Gate.(Softmax); ok {
		gate.Features = of(gate.Features)
		c.Gate = gate
	}
	return c
}

// wants says whether standard errors of the kind were asked for.
func (c Config) wants(kind ErrorKind) bool { return slices.Contains(c.Errors, kind) }

// want is what the method wants of the moments. Those that make no use of tensors
// get the polynomials, which cost no pass.
func (c Config) want() moment.Want {
	if c.Method.order() == 0 {
		return moment.Want{Transform: Polynomial}
	}
	return moment.Want{Transform: c.Transform, Inputs: c.Inputs, Order: c.Method.order()}
}

// activations are those of the experts: act of all, or the leaves'.
func (c Config) activations(act sdk.Activation) []sdk.Activation {
	if c.Leaves != nil {
		return c.Leaves
	}
	return []sdk.Activation{act}
}

// request is what the data are loaded for.
func (c Config) request() problem.Request {
	return problem.Request{
		K: c.K, Intercepts: c.Intercepts, Gate: c.Gate, Noise: c.Noise, ExpertFeatures: c.ExpertFeatures,
		Shared: c.Tied, Output: c.Output, Family: c.Family, Dof: c.Dof, Zero: c.ZeroExpert,
		Tree: c.Hierarchy, Leaves: c.Leaves, Seed: c.Seed, Threads: c.Threads, Approximate: c.Approximate,
		InTime: c.wants(Dependent), Room: c.room(), MaxMemory: c.MaxMemory, Reading: c.Reading,
		Loaded: func() { c.show(StageMoments, 0, 2) },
	}
}

// room is what the rows may take where there is no limit: all that there is for a method
// that draws rows at random.
func (c Config) room() dataset.Room {
	if !Takes(c.Method, OptMaxMemory) {
		return dataset.Room(math.MaxInt64)
	}
	return 0
}

// written is what of c the model says.
func (c Config) written() result.Settings {
	return result.Settings{
		Method: c.Method.Name(), Starts: mostOf(c.Method), Seed: c.Seed, Design: c.Design, Tied: c.Tied, Truth: c.Truth,
		Errors: c.Errors, Arrangements: c.Arrangements, Penalties: penalties(c), Beside: c.beside,
		Unjudged: c.unjudged,
	}
}

func (c Config) show(stage Stage, done, total int) {
	if c.Progress != nil {
		c.Progress(stage, done, total)
	}
}

// shows returns Progress for one stage, nil for nobody.
func (c Config) shows(stage Stage) func(done, total int) {
	if c.Progress == nil {
		return nil
	}
	return func(done, total int) { c.Progress(stage, done, total) }
}

// of is the configuration for k experts of a range.
func (c Config) of(k int) Config {
	c.K = k
	return c.where(func(p *model.Params) bool { return p.K == k }).showing(fmt.Sprintf("k = %d", k))
}

// under is the configuration for the tree h.
func (c Config) under(h model.Hierarchy) Config {
	c.K, c.Hierarchy = h.Leaves(), h
	return c.where(func(p *model.Params) bool { return p.Hierarchy().Equal(h) }).showing(h.String())
}

// where is the configuration without a start, or a truth, of which a condition does not hold.
func (c Config) where(holds func(p *model.Params) bool) Config {
	if c.Start != nil && !holds(c.Start) {
		c.Start = nil
	}
	if c.Truth != nil && !holds(c.Truth) {
		c.Truth = nil
	}
	return c
}

// showing is the configuration with stages that name what is being fitted.
func (c Config) showing(what string) Config {
	if show := c.Progress; show != nil {
		c.Progress = func(stage Stage, done, total int) {
			show(Stage(fmt.Sprintf("%s, %s", what, stage)), done, total)
		}
	}
	return c
}
