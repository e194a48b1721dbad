package fitted

import "github.com/gatedlearning/moe/host/infer"

// Certificate says whether anything speaks for a better optimum and whether the
// model describes the data. See infer.Certificate.
type Certificate struct {
	Optimum string `json:"optimum"` // pass, suspect or not judged
	Model   string `json:"model"`   // pass, suspect or not judged
	Reason  string `json:"reason"`  // for the verdict on the optimum
	// ModelReason is why the model is not judged although tests were made.
	ModelReason string `json:"model_reason,omitempty"`
	Cause       string `json:"cause,omitempty"` // what a suspect model suggests, the likeliest first
	Try         string `json:"try,omitempty"`   // flags that allow for that
	// OptimumTry are flags of a further search, where one may change the verdict on the optimum.
	OptimumTry string            `json:"optimum_try,omitempty"`
	PValue     float64           `json:"p_value"` // smallest of the tests, times their number, at most 1
	Tests      []CertificateTest `json:"tests"`
	// of the experts: the mean of the sum of r(1 − r), r their posterior probabilities
	Overlap float64 `json:"overlap,omitempty"`
	// Untested are the experts with too few rows for tests of their own.
	Untested []UntestedExpert `json:"untested,omitempty"`
	NotMade  []TestNotMade    `json:"not_made,omitempty"`
	// Gain is what other mixtures may gain with sigma held; absent where no bound says something.
	Gain *GainBound `json:"gain_bound,omitempty"`
}

// GainBound bounds what mixtures of any number of identity experts under a constant gate gain in log-likelihood over
// the fitted one, with its sigma. See gain.BoundOf.
type GainBound struct {
	Upper   float64 `json:"upper"`   // no such mixture gains more
	Found   float64 `json:"found"`   // what one gains
	Experts int     `json:"experts"` // of that one
}

// TestNotMade is a test that the rows do not admit.
type TestNotMade struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// NewCertificate is how files state a certificate; nil for nil.
func NewCertificate(c *infer.Certificate) *Certificate {
	if c == nil {
		return nil
	}
	out := &Certificate{Optimum: c.Optimum, Model: c.Model, Reason: c.Reason,
		ModelReason: c.ModelReason, Cause: c.Cause, PValue: c.PValue, Overlap: c.Overlap, Tests: []CertificateTest{}}
	for _, t := range c.Tests {
		out.Tests = append(out.Tests, CertificateTest{Name: t.Name, Statistic: t.Statistic, DF: t.DF, PValue: t.PValue,
			Verdict: t.Verdict, Cause: t.Cause, Robust: t.Held()})
	}
	for _, u := range c.Untested {
		out.Untested = append(out.Untested, UntestedExpert{Expert: u.Expert + 1, Rows: u.Rows,
			Coefficients: u.Coefficients})
	}
	for _, t := range c.NotMade {
		out.NotMade = append(out.NotMade, TestNotMade{t.Name, t.Why})
	}
	return out
}

// UntestedExpert is an expert that a certificate's tests leave out.
type UntestedExpert struct {
	Expert       int     `json:"expert"` // from 1
	Rows         float64 `json:"rows"`   // the sum of its posterior probabilities
	Coefficients int     `json:"coefficients"`
}

// CertificateTest is one test of the model against the data.
type CertificateTest struct {
	Name      string  `json:"name"`
	Statistic float64 `json:"statistic"` // χ² with DF degrees of freedom
	DF        int     `json:"df"`
	PValue    float64 `json:"p_value"`
	Verdict   string  `json:"verdict"` // pass or suspect
	Cause     string  `json:"cause"`   // what a failure suggests
	// it holds whatever the shape of the noise, as little as the experts of this fit overlap
	Robust bool `json:"robust"`
}
