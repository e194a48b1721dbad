package host

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/model"
)

// Methods of fitting.
const (
	MethodAuto    = "auto"    // moments, other starts, joint likelihood
	MethodMoments = "moments" // regressors by moments, gating by L_log
	MethodEM      = "em"      // joint EM from random starts
	MethodL2      = "l2"      // the squared loss by mini-batches, as the papers' baseline
	MethodL4      = "l4"      // L4 in ℝ^d by mini-batches, gating by L_log, as in 002 Section 4
)

// Methods lists the methods by name.
func Methods() []string {
	return []string{MethodAuto, MethodMoments, MethodEM, MethodL2, MethodL4}
}

// Kinds of starts.
const (
	KindMoments = "moments" // the moment estimate
	KindSpan    = "span"    // random directions in the span of T̂2, fitted there first
	KindRandom  = "random"  // random directions in ℝ^d
	KindKMeans  = "kmeans"  // least squares lines of k-means clusters of (x, y)
	KindOwn     = "own"     // the user's
)

// Gates.
const (
	GateSoftmax  = "softmax"  // linear in the features
	GateConstant = "constant" // mixing proportions that do not depend on x
)

// Gates lists the gates by name.
func Gates() []string { return []string{GateSoftmax, GateConstant} }

// Noise levels.
const (
	NoiseShared    = "shared"     // one σ
	NoisePerExpert = "per-expert" // a σ_i for every expert
)

// Noises lists the kinds of noise by name.
func Noises() []string { return []string{NoiseShared, NoisePerExpert} }

// Config says how to fit. Only K must be set.
type Config struct {
	K       int     // number of experts
	Method  string  // one of [Methods]; "" is auto
	Sigma   float64 // the noise level where it is known; 0: estimate it
	Mu      float64 // weight μ of L4 (002 Eq. 7); 0: 1, or 0.01 for method l4
	Starts  int     // most starts of the likelihood; 0: 32, or 8 for methods em and l2
	Seed    uint64  // of everything random
	Threads int     // 0: one per processor; the result does not depend on it

	Intercept      bool     // in experts and gate
	Gate           string   // one of [Gates]; "" is softmax
	ExpertFeatures []string // that the experts see; nil: all
	GateFeatures   []string // that the gate sees; nil: all
	Noise          string   // one of [Noises]; "" is shared

	// Descent says how methods l2 and l4 descend.
	Descent Descent
	// Radius bounds the gating of methods moments and l4, which minimise L_log by
	// itself: |w_i| ≤ Radius (002 §3.2), for features as the fit sees them, which
	// is in units of their rms where they are not N(0, I). 0: 10 for method l4, no
	// bound for method moments.
	Radius float64

	// Robust makes the standard errors those of the sandwich, which hold where
	// the noise is not what the model says; see infer.Robust.
	Robust bool
	// Start, if given, is one of the starts, in the units of the data.
	Start *model.Params
	// Checkpoint, if set, is called where the search can be taken up again, from
	// one goroutine, with a function that writes down where it stands; it may be
	// called until the fit returns and after.
	Checkpoint func(save func() (*Checkpoint, error))
	// Resume, if set, goes on where a fit of the same data with the same settings
	// stood; the result is that of an uninterrupted fit to the last bit.
	Resume *Checkpoint
	// Approximate makes the iterations work on a native approximation of the
	// activation (see package native), which the model then carries. It is for
	// activations whose calls are dear, such as those of plugins in processes of
	// their own; parameters move by less than 1e−8.
	Approximate bool
	// Truth, if given, is compared with the fit.
	Truth *model.Params
	// Progress, if set, is called between steps, from one goroutine at a time.
	Progress func(stage Stage, done, total int)
}

// Stage is a part of a fit that takes time.
type Stage string

// The stages of a fit, in order.
const (
	StageRead    Stage = "reading"
	StageMoments Stage = "moment tensors"
	StageRace    Stage = "starts"
	StageDescent Stage = "epochs"
	StageFinish  Stage = "refining"
)

// RequestError is a request that does not fit the data or the activation.
type RequestError struct{ Msg string }

func (e *RequestError) Error() string { return e.Msg }

func (c Config) withDefaults() Config {
	if c.Method == "" {
		c.Method = MethodAuto
	}
	if c.Gate == "" {
		c.Gate = GateSoftmax
	}
	if c.Noise == "" {
		c.Noise = NoiseShared
	}
	if c.Mu == 0 {
		c.Mu = defaultMu
		if c.Method == MethodL4 {
			c.Mu = descentMu
		}
	}
	if c.Starts == 0 {
		c.Starts = 32
		if c.Method == MethodEM || c.Method == MethodL2 {
			c.Starts = 8
		}
	}
	if c.Radius == 0 && c.Method == MethodL4 {
		c.Radius = defaultRadius
	}
	return c
}

func (c Config) check() error {
	switch {
	case c.K < 1:
		return &RequestError{fmt.Sprintf("k = %d, want at least 1", c.K)}
	case !slices.Contains(Methods(), c.Method):
		return &RequestError{fmt.Sprintf("unknown method %q; there are %v", c.Method, Methods())}
	case !slices.Contains(Gates(), c.Gate):
		return &RequestError{fmt.Sprintf("unknown gate %q; there are %v", c.Gate, Gates())}
	case !slices.Contains(Noises(), c.Noise):
		return &RequestError{fmt.Sprintf("unknown noise %q; there are %v", c.Noise, Noises())}
	case c.Gate == GateConstant && c.GateFeatures != nil:
		return &RequestError{"a constant gate has no features"}
	case !c.joint() && (c.Intercept || c.Gate == GateConstant || c.ExpertFeatures != nil || c.GateFeatures != nil):
		return &RequestError{"method " + c.Method + " knows neither intercepts nor a gate or experts that see part of the features; method auto does"}
	case c.Sigma != 0 && !(c.Sigma >= smallest && c.Sigma <= largest):
		return &RequestError{fmt.Sprintf("sigma = %v, want between %g and %g, or 0 to estimate it", c.Sigma, smallest, largest)}
	case !(c.Mu > 0) || math.IsInf(c.Mu, 0):
		return &RequestError{fmt.Sprintf("mu = %v, want a finite number above 0", c.Mu)}
	case c.Starts < 1:
		return &RequestError{fmt.Sprintf("starts = %d, want at least 1", c.Starts)}
	case !(c.Radius >= 0) || math.IsInf(c.Radius, 0):
		return &RequestError{fmt.Sprintf("radius = %v, want a finite number above 0", c.Radius)}
	case c.Threads < 0:
		return &RequestError{fmt.Sprintf("threads = %d, want at least 1", c.Threads)}
	}
	return c.Descent.check()
}

// joint says whether the method maximises the joint likelihood.
func (c Config) joint() bool { return c.Method == MethodAuto || c.Method == MethodEM }

// uses lists the settings that not all methods use, with those that do. Auto,
// moments and em take mu, starts and robust whether they have a use for them or
// not.
var uses = []struct {
	setting string
	given   func(Config) bool
	methods []string
}{
	{"mu", func(c Config) bool { return c.Mu != 0 }, []string{MethodAuto, MethodMoments, MethodEM, MethodL4}},
	{"starts", func(c Config) bool { return c.Starts != 0 }, []string{MethodAuto, MethodMoments, MethodEM, MethodL2}},
	{"start", func(c Config) bool { return c.Start != nil }, []string{MethodAuto, MethodEM, MethodL2}},
	{"robust", func(c Config) bool { return c.Robust }, []string{MethodAuto, MethodMoments, MethodEM}},
	{"radius", func(c Config) bool { return c.Radius != 0 }, []string{MethodMoments, MethodL4}},
	{"optimiser", func(c Config) bool { return c.Descent.Optimiser != "" }, []string{MethodL2}},
	{"batch", func(c Config) bool { return c.Descent.Batch != 0 }, []string{MethodL2, MethodL4}},
	{"step-size", func(c Config) bool { return c.Descent.StepSize != 0 }, []string{MethodL2, MethodL4}},
	{"schedule", func(c Config) bool { return c.Descent.Schedule != "" }, []string{MethodL2, MethodL4}},
	{"epochs", func(c Config) bool { return c.Descent.Epochs != 0 }, []string{MethodL2, MethodL4}},
	{"lambda", func(c Config) bool { return c.Descent.Lambda != 0 }, []string{MethodL4}},
	{"ridge", func(c Config) bool { return c.Descent.Ridge != nil }, []string{MethodL4}},
}

// checkUse refuses what is given, before defaults, and has no effect.
func (c Config) checkUse() error {
	method := cmp.Or(c.Method, MethodAuto)
	if !slices.Contains(Methods(), method) {
		return nil // check says so
	}
	for _, u := range uses {
		if u.given(c) && !slices.Contains(u.methods, method) {
			return &RequestError{fmt.Sprintf("%s has no effect on method %s; it is for %s", u.setting, method, strings.Join(u.methods, ", "))}
		}
	}
	return nil
}

func (f *fit) progress(stage Stage, done, total int) {
	if f.cfg.Progress != nil {
		f.cfg.Progress(stage, done, total)
	}
}
