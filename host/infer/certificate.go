package infer

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/model"
)

// Verdicts of a certificate and of its tests.
const (
	Pass    = "pass"
	Suspect = "suspect"
	// NotJudged is a model's of which no test could be made, and an optimum's that is
	// none (see host/search.Certify) or that hardly any of many starts have met.
	NotJudged = "not judged"
)

const (
	// Level is the probability with which a certificate calls a right model
	// suspect: the smallest p-value of its tests, times their number
	// (Bonferroni), lies below it.
	Level = 1e-3
	// Doubt is the level below which the tests do not speak for the optimum: it
	// is higher, since doubt costs no more than further starts.
	Doubt = 1e-2
	// agreeingStarts that reached the best optimum are enough where the tests
	// that do not depend on the noise's shape pass.
	agreeingStarts = 3
	// unseenShare and unseenLevel are what the search must show where no test
	// speaks for the optimum: that the posterior probability of a better optimum
	// to which more than unseenShare of the starts would lead is at most
	// unseenLevel. See [Evidence.Unseen].
	unseenShare = 0.25
	unseenLevel = 0.025
)

// Test is one specification test: of the fitted model against the data.
type Test struct {
	Name      string  // "residuals", "nonlinearity", "gate", "spread", "interactions"; of several targets "correlation" too
	Statistic float64 // χ² with DF degrees of freedom under the fitted model
	DF        int
	PValue    float64
	Verdict   string // suspect where PValue times the number of tests is below Level
	Suggests  string // what a failure suggests besides too few experts; where "" that of its name in a mixture
	Cause     string // what a failure suggests, all told; "" where it passes
	// Robust tests do not depend on the shape of the noise, only on its being
	// the same at every x.
	Robust bool
}

// Evidence is what the search for the optimum has seen.
type Evidence struct {
	Starts   int // ended at a local optimum
	Kinds    int // of them
	Agreeing int // of them at the best one
	// Survey says that there was a survey, of whose starts Met ended at the best optimum. One that
	// fewer than three of them have met is likely to be one of many of its kind, whatever
	// moves of other starts have come to it.
	Survey bool
	Met    int
	// Care is set where agreement of a few starts is no evidence.
	Care Care
	// Flat says that the experts are under one gate. Of a tree's starts, which begin in different arrangements
	// of the experts, fewer agree, and how much that says has not been measured.
	Flat bool
}

// Care is what is seen of an optimum where the agreement of a few starts is no evidence: where the data hardly ask for
// some of the experts, whose places make for many optima, or a test fails and there was no survey. Then starts on all
// rows are counted: how many there were, how many met the optimum, and the chance that another would see one that
// none has seen (Good 1953, after Turing).
type Care struct {
	Taken       bool
	Spares      int // experts that the data hardly ask for
	Starts, Met int
	Unseen      float64
}

// mostUnseen is the chance of an optimum that no start has seen with which an optimum passes that is looked at with care.
const mostUnseen = 0.05

// Conclusive says whether that is evidence for the optimum.
func (c Care) Conclusive() bool {
	return c.Starts >= StartsWanted && c.Met >= agreeingStarts && c.Unseen <= mostUnseen
}

// why says what is missing.
func (c Care) why() string {
	cause := "a test of the model fails"
	if c.Spares > 0 {
		cause = "k may be too large: the data hardly ask for " + plural(c.Spares, "expert")
	}
	if c.Starts == 0 {
		return cause + ", and the table is too large to look for other optima on all its rows"
	}
	return fmt.Sprintf("%s, and of %s on all rows %d met this optimum; another would see one that none has seen with probability %.2g", cause, plural(c.Starts, "start"), c.Met, c.Unseen)
}

// StartsWanted is the least number of starts that is enough for an optimum for
// which no test speaks: from then on Unseen(0.25) is at most 0.025.
const StartsWanted = 12

// Unseen returns the posterior probability that there is a better optimum to
// which more than the given share of the starts would lead, after Starts of them
// have missed it: (1−share)^(Starts+1) under a uniform prior on the share.
func (e Evidence) Unseen(share float64) float64 {
	return math.Pow(1-share, float64(e.Starts+1))
}

// Certificate says whether anything speaks for a better optimum, and whether
// the model describes the data.
type Certificate struct {
	Optimum string // Pass, Suspect, or NotJudged where the likelihood has no maximum, or too many
	Model   string // Pass, Suspect or NotJudged
	Reason  string // for the verdict on the optimum
	Cause   string // what the failures suggest, together; "" where none fails
	PValue  float64
	Tests   []Test
	// Untested are the experts that the tests leave out.
	Untested []Untested
}

// Judge puts tests and evidence together.
//
// The model passes where every test does, at [Level], and is not judged where there
// are none. The optimum passes where they do at [Doubt]: most local optima merge
// experts, which the tests would see. After a survey, or where [StartsWanted] starts
// have been made under one gate without one, three of them must agree on it besides, or it is not judged. Where the tests do not pass it passes
//
//   - if three starts agree on it and the robust tests pass, since then it is the
//     noise that is not as assumed, or
//   - if three starts agree on it and so many have missed anything better that an
//     unseen optimum with a basin that matters is improbable.
func Judge(tests []Test, e Evidence) *Certificate {
	c := &Certificate{Optimum: Pass, Model: Pass, PValue: 1, Tests: tests}
	if len(tests) == 0 {
		c.Model = NotJudged
	}
	robust := 1.0 // the smallest of the robust tests
	m := float64(len(tests))
	for i := range tests {
		t := &tests[i]
		c.PValue = min(c.PValue, m*t.PValue)
		if t.Robust {
			robust = min(robust, m*t.PValue)
		}
		t.Verdict, t.Cause = Pass, ""
		if t.Suggests == "" {
			t.Suggests = suggests[t.Name]
		}
		if m*t.PValue < Level {
			t.Verdict, c.Model = Suspect, Suspect
		}
	}
	c.explain(robust >= Level)
	c.judgeOptimum(robust >= Doubt, e)
	if c.Optimum == Pass && e.Care.Taken && !e.Care.Conclusive() {
		c.Optimum, c.Reason = NotJudged, e.Care.why()
	}
	return c
}

const (
	fewCause   = "k too small" // a failure of any test may come from that
	noiseCause = "noise that is not Gaussian or not of equal variance"
)

// suggests are what the failure of each test of a mixture suggests besides fewCause.
var suggests = map[string]string{
	testResiduals:          noiseCause,
	testNonlinearity:       "another nonlinearity",
	testGate:               "a gate that is not linear in its features",
	testHeteroscedasticity: "noise whose variance depends on the features",
	testInteractions:       "experts that are not linear in their features",
}

// explain says what the failures suggest: each cause once, and where nothing
// but the residuals' shape is amiss the noise alone.
func (c *Certificate) explain(robust bool) {
	var all []string
	for i := range c.Tests {
		t := &c.Tests[i]
		if t.Verdict == Pass {
			continue
		}
		if robust {
			t.Cause = noiseCause
			c.Cause = noiseCause
			continue
		}
		all = append(all, t.Suggests)
		t.Cause = fewCause + ", or " + t.Suggests
	}
	if len(all) > 0 {
		c.Cause = strings.Join(append([]string{fewCause}, all...), ", or ")
	}
}

func (c *Certificate) judgeOptimum(robust bool, e Evidence) {
	agreement := fmt.Sprintf("%d of %d starts agree on it", e.Agreeing, e.Starts)
	improbable := fmt.Sprintf("a better one that %.0f %% of starts would reach has a probability of %.2g", 100*unseenShare, e.Unseen(unseenShare))
	switch {
	case c.PValue >= Doubt && !e.Care.Taken && e.Survey && e.Met < agreeingStarts:
		c.Optimum = NotJudged
		c.Reason = fmt.Sprintf("%s, but %s: the likelihood has many optima, and there may be a better one", e.foundNothing(), e.whoMet())
	case c.PValue >= Doubt && !e.Care.Taken && e.Flat && !e.Survey && e.Starts >= StartsWanted && e.Agreeing < agreeingStarts:
		c.Optimum = NotJudged
		c.Reason = fmt.Sprintf("%s, but only %d met it: the likelihood has many optima, and there may be a better one", e.foundNothing(), e.Agreeing)
	case c.PValue >= Doubt:
		c.Reason = "no sign of merged experts was seen, and " + e.foundNothing()
	case e.Agreeing >= agreeingStarts && robust:
		c.Reason = e.foundNothing() + "; the tests that do not depend on the noise's shape pass"
	case e.Agreeing >= agreeingStarts && e.Unseen(unseenShare) <= unseenLevel:
		c.Reason = "the tests speak against it or the model, but " + e.foundNothing() + fmt.Sprintf(", and %d agree on it", e.Agreeing)
	default:
		c.Optimum = Suspect
		c.Reason = fmt.Sprintf("the tests speak against it (p = %.2g), and %s; %s", c.PValue, agreement, improbable)
	}
}

// whoMet says how few of a survey's starts agree.
func (e Evidence) whoMet() string {
	if e.Met == 0 {
		return "none of the survey's met it"
	}
	return fmt.Sprintf("only %d of the survey's met it", e.Met)
}

// foundNothing says how much was tried.
func (e Evidence) foundNothing() string {
	return fmt.Sprintf("%s of %s found nothing better", plural(e.Starts, "start"), plural(e.Kinds, "kind"))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// exactNoise is the noise level, relative to the target's rms, below which
// residuals are rounding, and say nothing.
const exactNoise = 1e-6

// Exact says whether an expert's residuals are nothing but rounding, for a target of that
// root mean square.
func Exact(p *model.Params, rms float64) bool { return slices.Min(p.Sigma) < exactNoise*rms }

// leastNoise is the ratio of an expert's σ to the largest below which a fit rests on it.
const leastNoise = 0.01

// RestsOnLittle says which expert of p has too few rows, of which mass has Σ r_i, for so
// many coefficients, or too little noise, for a maximum to mean much; "" where none has.
func RestsOnLittle(p *model.Params, mass []float64, coefficients int) string {
	if p.K == 1 {
		return ""
	}
	noise := slices.Max(p.Sigma)
	for i, rows := range mass {
		switch {
		case rows < float64(coefficients+2):
			return fmt.Sprintf("it rests on expert %d, which has %.1f rows for %d coefficients", i+1, rows, coefficients)
		case p.SigmaOf(i) < leastNoise*noise:
			return fmt.Sprintf("it rests on expert %d, whose sigma is %.2g of the largest: with noise per expert the likelihood has no bound as a sigma falls to 0", i+1, p.SigmaOf(i)/noise)
		}
	}
	return ""
}
