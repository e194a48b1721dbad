package page_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/learn"
	"github.com/gatedlearning/moe/host/report/page"
	"github.com/gatedlearning/moe/internal/testslow"
)

// TestLearnedPage: the page of a curve has its sections, whether there are intervals or not, and no number that is
// not finite.
func TestLearnedPage(t *testing.T) {
	testslow.Mark(t)
	l, err := learn.Learn(t.Context(), rows(400, 2), learn.Config{K: 2, Intercepts: true, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, judged := range []bool{true, false} {
		if !judged {
			l.StandardErrors, l.Bias, l.Unjudged = nil, nil, "a reason"
			for i := range l.Curve {
				l.Curve[i].SE, l.Curve[i].Lower, l.Curve[i].Upper = nil, nil, nil
			}
		}
		var out bytes.Buffer
		if err := page.Learned(&out, l, []string{"x1", "<b>"}, "y", []page.Setting{{Name: "--k", Value: "2"}}); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		for _, want := range []string{"The curve", "the rows along the curve", "Functions with a name", "identity", "Regressors and gate",
			"gate of expert", "intercept", "What to doubt", "&lt;b&gt;", "--k"} {
			if !strings.Contains(text, want) {
				t.Errorf("the page lacks %q", want)
			}
		}
		for what, want := range map[string]bool{"<polygon": judged, "A spline of": judged, "±": judged, "No standard errors: a reason.": !judged,
			"<b>": false, "NaN": false, "Inf": false} {
			if strings.Contains(text, what) != want {
				t.Errorf("judged %v: the page has %q: %v", judged, what, !want)
			}
		}
	}
}
