package infer

import (
	"fmt"
	"math"
)

// Verdicts of a certificate and of its tests.
const (
	Pass    = "pass"
	Suspect = "suspect"
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
	Name      string  // "residuals", "nonlinearity", "gate", "spread", "interactions"
	Statistic float64 // χ² with DF degrees of freedom under the fitted model
	DF        int
	PValue    float64
	Verdict   string // suspect where PValue times the number of tests is below Level
	Cause     string // what a failure suggests; "" where it passes
	// Robust tests do not depend on the shape of the noise, only on its being
	// the same at every x.
	Robust bool
}

// Evidence is what the search for the optimum has seen.
type Evidence struct {
	Starts   int // ended at a local optimum
	Agreeing int // of them at the best one
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

// Certificate says whether the optimum is the best there is, and whether the
// model describes the data.
type Certificate struct {
	Optimum string // Pass or Suspect
	Model   string // Pass or Suspect
	Reason  string // for the verdict on the optimum
	PValue  float64
	Tests   []Test
	// Untested are the experts that the tests leave out.
	Untested []Untested
}

// Judge puts tests and evidence together.
//
// The model passes where every test does, at [Level]. The optimum passes where
// they do at [Doubt]: a local optimum merges experts, which the tests would see.
// Where they do not it passes
//
//   - if three starts agree on it and the robust tests pass, since then it is the
//     noise that is not as assumed, or
//   - if three starts agree on it and so many have missed anything better that an
//     unseen optimum with a basin that matters is improbable.
func Judge(tests []Test, e Evidence) *Certificate {
	c := &Certificate{Optimum: Pass, Model: Pass, PValue: 1, Tests: tests}
	robust := 1.0 // the smallest of the robust tests
	m := float64(len(tests))
	for i := range tests {
		t := &tests[i]
		c.PValue = min(c.PValue, m*t.PValue)
		if t.Robust {
			robust = min(robust, m*t.PValue)
		}
		t.Verdict, t.Cause = Pass, ""
		if m*t.PValue < Level {
			t.Verdict, c.Model = Suspect, Suspect
		}
	}
	c.explain(robust >= Level)
	c.judgeOptimum(robust >= Doubt, e)
	return c
}

// causes are what the failure of each test suggests.
var causes = map[string]string{
	testResiduals:          "k too small, or noise that is not Gaussian or not of equal variance",
	testNonlinearity:       "another nonlinearity, or k too small",
	testGate:               "a gate that is not linear in its features, or k too small",
	testHeteroscedasticity: "k too small, or noise whose variance depends on the features",
	testInteractions:       "k too small, or experts or a gate that are not linear in their features",
}

// noiseCause is the cause where nothing but the residuals' shape is amiss.
const noiseCause = "noise that is not Gaussian or not of equal variance"

func (c *Certificate) explain(robust bool) {
	for i := range c.Tests {
		t := &c.Tests[i]
		if t.Verdict == Pass {
			continue
		}
		t.Cause = causes[t.Name]
		if robust {
			t.Cause = noiseCause
		}
	}
}

func (c *Certificate) judgeOptimum(robust bool, e Evidence) {
	agreement := fmt.Sprintf("%d of %d starts agree on it", e.Agreeing, e.Starts)
	unseen := e.Unseen(unseenShare)
	improbable := fmt.Sprintf("the probability of a better one that %.0f %% of starts would reach is %.2g", 100*unseenShare, unseen)
	switch {
	case c.PValue >= Doubt:
		c.Reason = "the residuals show no sign of merged experts"
	case e.Agreeing >= agreeingStarts && robust:
		c.Reason = agreement + ", and the tests that do not depend on the noise's shape pass"
	case e.Agreeing >= agreeingStarts && unseen <= unseenLevel:
		c.Reason = agreement + "; " + improbable
	default:
		c.Optimum = Suspect
		c.Reason = fmt.Sprintf("the tests speak against it (p = %.2g) and %s; %s", c.PValue, agreement, improbable)
	}
}
