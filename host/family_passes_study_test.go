package host

import (
	"fmt"
	"testing"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/plugins/exp"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestFamilyPasses is the study of docs/studies/families.md of passes on small tables of R: how many of them six times the
// work, from other random numbers, finds a better optimum than, by more than .5.
//
//	go test ./host -run TestFamilyPasses -heldout DIR -v -timeout 0
func TestFamilyPasses(t *testing.T) {
	if *heldOutTables == "" {
		t.Skip("a study: see docs/heldout.md")
	}
	passes, beaten := 0, 0
	for _, name := range []string{"trees", "airquality", "cars", "stackloss", "swiss", "boston", "faithful", "birthwt", "uscereal",
		"mcycle", "warpbreaks"} {
		table := tableOf(t, name, map[string]string{"warpbreaks": "breaks"}[name])
		families := []string{"student-t", "gamma"}
		switch name {
		case "mcycle": // has targets of 0 and less
			families = families[:1]
		case "warpbreaks":
			families = []string{"poisson", "negative-binomial"}
		}
		for _, family := range families {
			act := activation(exp.Family, nil)
			if family == "student-t" {
				act = activation(identity.Family, nil)
			}
			for _, k := range []int{2, 3} {
				cfg := Config{K: k, Family: family, Intercepts: BothIntercepts, Seed: 1}
				fit, err := Fit(t.Context(), act, table, cfg)
				if err != nil {
					t.Log(name, family, k, err)
					continue
				}
				if c := fit.Fit.Certificate; c == nil || c.Optimum != infer.Pass {
					continue
				}
				cfg.Seed, cfg.Method = 77, Auto{Starts: 200}
				more, err := Fit(t.Context(), act, table, cfg)
				if err != nil {
					t.Fatal(err)
				}
				passes++
				what := fmt.Sprintf("%s, %s, k = %d: %.2f", name, family, k, fit.Fit.LogLikelihood)
				if more.Fit.LogLikelihood > fit.Fit.LogLikelihood+0.5 {
					beaten++
					what += fmt.Sprintf(", with more starts %.2f", more.Fit.LogLikelihood)
				}
				t.Log(what)
			}
		}
	}
	t.Logf("%d passes, %d with a better optimum known", passes, beaten)
}
