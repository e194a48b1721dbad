package infer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/mixture"
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
	// AgreeingStarts that reached the best optimum are enough where the tests
	// that do not depend on the noise's shape pass.
	AgreeingStarts = 3
	// unseenShare and unseenLevel are what the search must show where no test
	// speaks for the optimum: that the posterior probability of a better optimum
	// to which more than unseenShare of the starts would lead is at most
	// unseenLevel. See [Evidence.Unseen].
	unseenShare = 0.25
	unseenLevel = 0.025
)

// Names of the tests of a mixture, in files too.
const (
	ResidualsTest    = "residuals"
	NonlinearityTest = "nonlinearity"
	GateTest         = "gate"
	GateFeaturesTest = "gate features"
	SpreadTest       = "spread" // heteroscedasticity
	InteractionsTest = "interactions"
	DependenceTest   = "dependence"
	// SlowDependenceTest is not made of rows that may be sorted: see [Neighbours.Test].
	SlowDependenceTest = "slow dependence"
	// CorrelationTest asks whether the noise of a row's targets is correlated where it is taken for independent.
	CorrelationTest = "correlation"
)

// Test is one specification test: of the fitted model against the data.
type Test struct {
	Name      string  // one of those above, or of another model's test
	Statistic float64 // χ² with DF degrees of freedom under the fitted model
	DF        int
	PValue    float64
	Verdict   string // suspect where PValue times the number of tests is below Level
	Suggests  string // what a failure suggests besides too few experts; where "" that of its name in a mixture
	Cause     string // what its failure suggests; "" where it passes
	// Robust tests do not depend on the shape of the noise where no row may be of two experts, only
	// on its being the same at every x. Where experts overlap a noise of another shape makes posterior
	// probabilities wrong, and adds to the statistic: at most about Noise, what the residuals' shape shows times
	// half the overlap. See [Test.Held].
	Robust bool
	Noise  float64
	// Features are the two, or one twice, whose product tells most in a test of such; nil elsewhere.
	Features []int
}

// Held says that a test holds in this fit whatever the noise's shape: it is robust, and what a noise
// of another shape may add to it is small.
func (t *Test) Held() bool { return t.Robust && t.Noise <= mostNoise }

// mostNoise is the most that a noise of another shape may add to the statistic of a test
// that counts as robust.
const mostNoise = 2.5

// excess is how far the statistic is above its mean under the model.
func (t *Test) excess() float64 { return t.Statistic - float64(t.DF) }

// beyondNoise says that it fails, by more than the shape of the noise explains.
func (t *Test) beyondNoise() bool { return t.Verdict == Suspect && t.Robust && t.excess() > t.Noise }

// Untested is an expert with too few rows for tests of its own.
type Untested struct {
	Expert       int
	Rows         float64 // Σ r_i; of 0/1 targets of mean m Σ r_i·4m(1−m)
	Coefficients int     // that were estimated from them
}

// NotMade is a test that these rows do not admit.
type NotMade struct{ Name, Why string }

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
	// Surveyed is what the starts of the survey have seen.
	Surveyed Care
	// Care is set where agreement of a few starts is no evidence.
	Care Care
	// Another search was made where one alone is no evidence.
	Another Another
	// Parts are what a local optimum merges; "" for experts.
	Parts string
	// Flat says that the experts are under one gate. Of a tree's starts, which begin in different arrangements
	// of the experts, fewer agree, and how much that says has not been measured.
	Flat bool
	// Alike says that the starts are of one kind, of which three must agree however many there are.
	Alike bool
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
	Placed      bool // the starts are those with an expert placed anew
}

// Another is where a second search ended, by other random numbers.
type Another struct {
	Made  bool
	Apart float64 // from the first, in log-likelihood; 0 at the same optimum
}

// mostUnseen is the chance of an optimum that no start has seen with which an optimum passes that is looked at with
// care.
const mostUnseen = 0.05

// Conclusive says whether that is evidence for the optimum.
func (c Care) Conclusive() bool {
	return c.Starts >= StartsWanted && c.Met >= AgreeingStarts && c.Unseen <= mostUnseen
}

// Rare says that starts have met the optimum more seldom than another would see one that none has seen: a better one
// may be met as often as it, and not have been met.
func (c Care) Rare() bool {
	return c.Unseen > mostUnseen && float64(c.Met) < c.Unseen*float64(c.Starts)
}

// cause says why care is taken, where a test of the model fails or none does.
func (c Care) cause(fails bool) string {
	if c.Spares > 0 {
		return "the data hardly ask for " + plural(c.Spares, "expert")
	}
	if fails {
		return "a test of the model fails"
	}
	return "few starts agree"
}

// why says what is missing.
func (c Care) why(fails bool) string {
	cause, of := c.cause(fails), "on all rows"
	if c.Placed {
		of = "with an expert placed anew"
	}
	if c.Starts > 0 && c.Met >= AgreeingStarts {
		return fmt.Sprintf("%s, and %s %s were too few: another would see an optimum that none has seen "+
			"with probability %.2g", cause, plural(c.Starts, "start"), of, c.Unseen)
	}
	if c.Starts == 0 {
		return cause + ", and no starts were made on all rows: the table is too large for them, or --starts too small"
	}
	return fmt.Sprintf("%s, and %s of %s %s reached this optimum; better ones may exist", cause, few(c.Met),
		plural(c.Starts, "start"), of)
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
	// ModelReason is why the model is not judged although tests were made; "" elsewhere.
	ModelReason string
	More        bool // more starts may change that verdict
	// Withdrawn says that no start can, see [Certificate.Withdraw].
	Withdrawn bool
	Cause     string // what the failures suggest, together; "" where none fails
	Causes    []Cause
	PValue    float64
	Tests     []Test
	// Untested are the experts that the tests leave out.
	Untested []Untested
	NotMade  []NotMade // tests
	Overlap  float64   // of the experts: the mean of Σ_i r_i·(1 − r_i)
}

// Judge puts tests and evidence together.
//
// The model passes where every test does, at [Level], and is not judged where there
// are none. That of dependence says nothing about the optimum. The optimum passes where they do at [Doubt]: most local
// optima merge experts, which the tests would see. After a survey, or where [StartsWanted] starts
// have been made under one gate without one, three of them must agree on it besides, or it is not judged. Where the
// tests do not pass three of a survey's must have met it as well, and it passes
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
	// The smallest of those that merged experts would fail, and of these the robust ones.
	against, robust := 1.0, 1.0
	m := float64(len(tests))
	for i := range tests {
		t := &tests[i]
		c.PValue = min(c.PValue, m*t.PValue)
		if t.Name != DependenceTest {
			against = min(against, m*t.PValue)
			if t.Robust || t.shaped() {
				robust = min(robust, m*t.PValue)
			}
		}
		t.Verdict, t.Cause = Pass, ""
		if t.Suggests == "" {
			t.Suggests = suggests[t.Name]
		}
		if m*t.PValue < Level {
			t.Verdict, c.Model = Suspect, Suspect
		}
	}
	c.explain()
	c.judgeOptimum(against, robust >= Doubt, e)
	fails := c.PValue < Doubt
	if c.Optimum == Pass && e.Care.Taken && !e.Care.Conclusive() {
		c.Optimum, c.Reason, c.More = NotJudged, e.Care.why(fails), true
	}
	if c.Optimum == Pass && fails && !e.Care.Taken && e.Surveyed.Rare() {
		c.Optimum, c.Reason, c.More = NotJudged, e.Surveyed.why(fails), true
	}
	switch {
	case c.Optimum != Pass || !e.Another.Made:
	case e.Another.Apart > 0:
		c.Optimum, c.More = NotJudged, true
		c.Reason = fmt.Sprintf("%s, and two searches ended %.3g apart; better ones may exist", e.Care.cause(fails),
			e.Another.Apart)
	default:
		c.Reason += "; a second search ended there too"
	}
	return c
}

// FewCause is the cause that more experts may cure.
const FewCause = "k too small"

// OrCause stands between causes.
const OrCause = ", or "

// WiderCause is the cause that [mixture.Wider] cures: targets that spread further than d says.
func WiderCause(d mixture.Density) string {
	if mixture.Normal(d) {
		return "noise of heavy tails"
	}
	return "targets that vary more than those of " + d.Name()
}

// ZeroCause is the cause that a zero expert beside those of a density of counts cures.
func ZeroCause(d mixture.Density) string { return "more zeros than " + d.Name() + " has" }

// ShapeCause is the cause that the density is another than d, whichever.
func ShapeCause(d mixture.Density) string {
	if mixture.Normal(d) {
		return noiseCause
	}
	return "targets of another density than " + d.Name()
}

// OfSpread says whether the test of this name is of the spread of an expert's residuals.
func OfSpread(test string) bool { return test == ResidualsTest || test == SpreadTest }

const (
	noiseCause = "noise that is not Gaussian or not of equal variance"
	gateCause  = "a gate that is not linear in its features"
)

// suggests are what the failure of each test of a mixture suggests besides FewCause.
var suggests = map[string]string{
	ResidualsTest:    noiseCause,
	CorrelationTest:  "noise that is correlated between the targets",
	NonlinearityTest: "another nonlinearity",
	GateTest:         gateCause,
	GateFeaturesTest: gateCause,
	SpreadTest:       "noise whose variance depends on the features",
	InteractionsTest: "experts that are not linear in their features",
	DependenceTest:   "rows that depend on those before them",
}

// Cause is one of what failures suggest.
type Cause struct {
	Test     string // whose failure suggests it; "" for too few experts
	Text     string
	Features []int // of the test, where it says which
}

// explain says what the failures suggest: each cause once, that of the largest statistic first. A noise of another
// shape explains what it may add to tests where experts overlap. Too few experts are suggested
// where tests of the means or the gate fail, which experts of the right number would pass whatever the noise, and
// those of the residuals' spread do besides: first where these have the largest statistic, else last.
func (c *Certificate) explain() {
	var failed []*Test
	for i := range c.Tests {
		if t := &c.Tests[i]; t.Verdict == Suspect {
			failed = append(failed, t)
			if t.Cause = t.Suggests; t.Robust && !t.beyondNoise() {
				t.Cause = noiseCause
			}
		}
	}
	slices.SortStableFunc(failed, func(a, b *Test) int { return cmp.Compare(b.excess(), a.excess()) })
	means := slices.ContainsFunc(failed, func(t *Test) bool { return t.ofMeans() && (t.beyondNoise() || t.shaped()) })
	spread := slices.ContainsFunc(failed, func(t *Test) bool { return !t.ofMeans() && t.Name != DependenceTest })
	few := means && (spread || slices.ContainsFunc(failed, (*Test).another))
	first := len(failed) > 0 && (!failed[0].ofMeans() && failed[0].Name != DependenceTest || failed[0].another())
	add := func(why Cause) {
		i := slices.IndexFunc(c.Causes, func(o Cause) bool { return o.Text == why.Text })
		if i < 0 {
			c.Causes = append(c.Causes, why)
		} else if c.Causes[i].Features == nil {
			c.Causes[i].Features = why.Features
		}
	}
	if few && first {
		add(Cause{Text: FewCause})
	}
	for _, t := range failed {
		if t.Cause == noiseCause && t.Robust {
			add(Cause{Test: ResidualsTest, Text: noiseCause})
			continue
		}
		// Noise that is wider at some x is not Gaussian over all of them.
		if t.Name == ResidualsTest && !few && slices.ContainsFunc(failed,
			func(o *Test) bool { return o.Name == SpreadTest && o.beyondNoise() }) {
			continue
		}
		add(Cause{Test: t.Name, Text: t.Suggests, Features: t.Features})
	}
	if few && !first {
		add(Cause{Text: FewCause})
	}
	var all []string
	for _, why := range c.Causes {
		all = append(all, why.Text)
	}
	c.Cause = strings.Join(all, OrCause)
}

// ofMeans says that a test is of the means or of the gate, not of the residuals' spread or order.
func (t *Test) ofMeans() bool {
	return !OfSpread(t.Name) && t.Name != CorrelationTest && t.Name != DependenceTest
}

// shaped says that it is of the means of a mixture, or of its gate, and that another density of the target fails it
// too.
func (t *Test) shaped() bool { return t.ofMeans() && !t.another() && !t.Robust }

// another says that it is no test of a mixture.
func (t *Test) another() bool { return suggests[t.Name] == "" }

func (c *Certificate) judgeOptimum(p float64, robust bool, e Evidence) {
	switch {
	case p >= Doubt && !e.Care.Taken && e.Survey && e.Met < AgreeingStarts:
		c.Optimum = NotJudged
		c.Reason = fmt.Sprintf("%s, but %s; better ones may exist", e.foundNothing(), e.whoMet())
	case p >= Doubt && e.unmet():
		c.Optimum = NotJudged
		c.Reason = fmt.Sprintf("%s of %s reached it; better ones may exist", few(e.Agreeing), plural(e.Starts, "start"))
	case p >= Doubt:
		c.Reason = fmt.Sprintf("no sign of merged %s was seen, and %s", cmp.Or(e.Parts, "experts"), e.foundNothing())
	case e.Agreeing >= AgreeingStarts && !e.Care.Taken && e.Survey && e.Met < AgreeingStarts:
		c.Optimum = NotJudged
		c.Reason = fmt.Sprintf("%s, but %s, and tests of the model fail; better ones may exist", e.foundNothing(),
			e.whoMet())
	case e.Agreeing >= AgreeingStarts && (robust || e.Unseen(unseenShare) <= unseenLevel):
		c.Reason = fmt.Sprintf("%s, and %d reached it", e.foundNothing(), e.Agreeing)
	case e.Agreeing >= AgreeingStarts:
		c.Optimum = Suspect
		c.Reason = fmt.Sprintf("%s are too few while tests of the model fail; better ones may exist",
			plural(e.Starts, "start"))
	case e.Starts == 1:
		c.Optimum = Suspect
		c.Reason = "only 1 start was made, and tests of the model fail; better ones are likely"
	default:
		c.Optimum = Suspect
		c.Reason = fmt.Sprintf("%s of %s reached it, and tests of the model fail; better ones are likely",
			few(e.Agreeing), plural(e.Starts, "start"))
	}
	c.More = c.Optimum != Pass
}

// unmet says whether more starts were to agree than do.
func (e Evidence) unmet() bool {
	asked := e.Alike || e.Flat && !e.Survey && !e.Care.Taken && e.Starts >= StartsWanted
	return asked && e.Agreeing < AgreeingStarts
}

// whoMet says how few of a survey's starts agree.
func (e Evidence) whoMet() string { return few(e.Met) + " of the survey's reached it" }

// few is how a reason says that no more than n did so.
func few(n int) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprintf("only %d", n)
}

// foundNothing says how much was tried.
func (e Evidence) foundNothing() string {
	of := plural(e.Starts, "start")
	if e.Kinds > 0 {
		of += " of " + plural(e.Kinds, "kind")
	}
	return of + " found nothing better"
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// ExactNoise is the noise level, relative to the target's rms, below which
// residuals are rounding, and say nothing.
const ExactNoise = 1e-6

// Exact says whether an expert's residuals are nothing but rounding, for a target of that
// root mean square.
func Exact(p *model.Params, rms float64) bool {
	return mixture.DensityOf(p.Family).Domain().Scale && slices.Min(p.Sigma) < ExactNoise*rms
}

// Withdraw takes both verdicts back where weights add up to less than half of the rows: how many rows speak for an
// expert or against the model is not known.
func (c *Certificate) Withdraw(rows int, weight float64) {
	c.Optimum, c.Model, c.Reason, c.More, c.Withdrawn = NotJudged, NotJudged, Uncounted(rows, weight), false, true
}

// Uncounted says that the weights of rows are no counts.
func Uncounted(rows int, weight float64) string {
	return fmt.Sprintf("the weights of %d rows add up to %.4g and count as so many rows, by which BIC, standard "+
		"errors and tests go: if they are no counts, divide them by their mean", rows, weight)
}

// Fewer takes a pass back where two experts, counted from 1, have as one a BIC that is better, by less than 0: experts
// that the data do not ask for have more places than starts can try.
func (c *Certificate) Fewer(experts [2]int, bic float64) {
	if c.Optimum == Pass && bic < 0 {
		c.Optimum = NotJudged
		c.Reason = fmt.Sprintf("experts %d and %d as one have a BIC better by %.3g, and experts that the data do not "+
			"ask for have more places than starts can try; better optima may exist", experts[0], experts[1], -bic)
	}
}

// leastGroups is the number of groups of an expert below which the model is not judged: half a group more than one.
const leastGroups = 1.5

// OfGroups takes a pass of the model back where an expert has one of these groups: it takes that as it is, whatever it
// is, and no test tells how groups of its kind differ. The shares are the experts' proportions of the groups.
func (c *Certificate) OfGroups(shares []float64, groups float64) {
	if c.Model != Pass || len(shares) == 1 {
		return
	}
	i := slices.Index(shares, slices.Min(shares))
	if has := shares[i] * groups; has < leastGroups {
		c.Model, c.ModelReason = NotJudged, fmt.Sprintf("expert %d has %.2g of %.4g groups, and one alone does not "+
			"tell what groups of its kind share", i+1, has, groups)
	}
}

// leastNoise is the ratio of an expert's σ to the largest below which a fit rests on it.
const leastNoise = 0.01

// FewRows is the number of rows, for each of its coefficients, below which an expert suggests that there are too
// many of them.
const FewRows = 5

// RestsOn lowers the verdict on an optimum that passes where an expert of p has too few rows, of which mass has
// Σ r_i, for so many coefficients, or too little noise. Fewer than coefficients + 2, or next to no noise, is suspect.
// With less than [FewRows] a coefficient it is not judged where a test of the model fails: the expert may sit on
// outliers, of which another handful may be worth more that starts seldom meet.
func (c *Certificate) RestsOn(p *model.Params, mass []float64, coefficients int) {
	if c.Optimum != Pass || p.K == 1 {
		return
	}
	noise := 0.0
	if mixture.DensityOf(p.Family).Domain().Scale {
		noise = slices.Max(p.Sigma)
	}
	for i, rows := range mass {
		switch {
		case rows < float64(coefficients+2):
			c.Optimum, c.Reason = Suspect, fmt.Sprintf("it rests on expert %d, which has %.1f rows for %d coefficients",
				i+1, rows, coefficients)
			return
		case p.SigmaOf(i) < leastNoise*noise:
			c.Optimum, c.Reason = Suspect, fmt.Sprintf("it rests on expert %d, whose sigma is %.2g of the largest: "+
				"with noise per expert the likelihood has no bound as a sigma falls to 0", i+1, p.SigmaOf(i)/noise)
			return
		case rows < float64(FewRows*coefficients) && c.PValue < Doubt && c.Optimum == Pass:
			c.Optimum, c.Reason = NotJudged, fmt.Sprintf("expert %d has %.0f rows for %d coefficients, and a test of "+
				"the model fails: others may be worth more, which starts seldom meet", i+1, rows, coefficients)
		}
	}
}
