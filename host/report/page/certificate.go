package page

import (
	"strings"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/report"
)

// badges show the verdicts beside the answer of a page.
func badges(c *fitted.Certificate) (out []map[string]string) {
	if c == nil {
		return nil
	}
	for _, v := range [][2]string{{"optimum", c.Optimum}, {"model", c.Model}} {
		class := "good"
		if v[1] == infer.Suspect {
			class = "bad"
		}
		out = append(out, map[string]string{"Class": class, "Text": v[0] + " " + v[1]})
	}
	return out
}

// certificateSections shows the verdicts, what their tests mean, and the tests; none
// where there is no certificate.
func certificateSections(c *fitted.Certificate, meaning string) []section {
	if c == nil {
		return nil
	}
	s := section{Title: "Certificate", Reading: strings.Join(report.Verdicts(c), " ") + " " + meaning}
	if len(c.Tests) > 0 {
		s.Tables = []table{asTable(report.Tests(c))}
	}
	return []section{s}
}
