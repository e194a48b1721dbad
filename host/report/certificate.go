package report

import (
	"fmt"
	"math"
	"strconv"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/report/numeral"
	"github.com/gatedlearning/moe/internal/shown"
)

// Verdicts are the certificate's two answers, each a sentence, and a third with a bound of what other mixtures gain
// where there is one; none without a certificate.
func Verdicts(c *fitted.Certificate) []string {
	if c == nil {
		return nil
	}
	out := []string{
		optimumVerdict(c),
		fmt.Sprintf("Model: %s; %s.", c.Model, modelReason(c)),
	}
	if g := c.Gain; g != nil {
		found := ""
		if least := math.Floor(10*g.Found) / 10; least > 0 {
			found = fmt.Sprintf(", and one of %d has one higher by %.1f", g.Experts, least)
		}
		out = append(out, fmt.Sprintf("Gain: no mixture of any number of such experts under a constant gate has a "+
			"log-likelihood higher by more than %.1f with this sigma%s; a smaller sigma is not covered.",
			math.Ceil(10*g.Upper)/10, found))
	}
	return out
}

// optimumVerdict is that on the optimum, with what to try.
func optimumVerdict(c *fitted.Certificate) string {
	reason := c.Reason
	if c.OptimumTry != "" {
		reason += "; try " + c.OptimumTry
	}
	return fmt.Sprintf("Optimum: %s; %s.", c.Optimum, reason)
}

// modelReason says what the tests found, what that suggests and what to try, whom they left out, and which were not
// made.
func modelReason(c *fitted.Certificate) string {
	reason := found(c, c.Cause, c.Try)
	for _, u := range c.Untested {
		reason += fmt.Sprintf("; expert %d was not tested, having %.0f rows for %s", u.Expert, u.Rows,
			numeral.Plural(u.Coefficients, "coefficient"))
	}
	for _, t := range c.NotMade {
		reason += fmt.Sprintf("; the test of %s was not made: %s", t.Name, t.Why)
	}
	return reason
}

// found is what the tests found beside the bound that they are held to, why they do not count, what that suggests, and
// what to try.
func found(c *fitted.Certificate, cause, try string) string {
	reason := "no test could be made"
	if len(c.Tests) > 0 {
		reason = fmt.Sprintf("p = %.2g (suspect below %g)", c.PValue, infer.Level)
	}
	if c.ModelReason != "" {
		reason = c.ModelReason + "; " + reason
	}
	if cause != "" {
		reason += ", which suggests " + cause
	}
	if try != "" {
		reason += "; try " + shown.Line(try)
	}
	return reason
}

// Tests is the table of the certificate's tests of the model.
func Tests(c *fitted.Certificate) [][]string {
	table := [][]string{{"Certificate", "chi-squared", "df", "p", "", "verdict"}}
	bound := fmt.Sprintf("(suspect below %.2g)", infer.Level/float64(len(c.Tests)))
	for _, t := range c.Tests {
		table = append(table, []string{
			t.Name, strconv.FormatFloat(t.Statistic, 'f', 1, 64), strconv.Itoa(t.DF), strconv.FormatFloat(t.PValue, 'g',
				2, 64), bound, t.Verdict,
		})
	}
	return table
}
