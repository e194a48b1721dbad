package host

import (
	"context"
	"flag"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/plugins/exp"
)

// rTables is where tables of R packages stand that are too large to be kept here:
//
//	Rscript -e 'library(AER); data(NMES1988); x <- model.matrix(~ hospital + health + chronic + gender + school + insurance,
//	  NMES1988)[, -1]; colnames(x) <- paste0("x", 1:7); write.csv(data.frame(x, y = NMES1988$visits), "DIR/nmes.csv", row.names = FALSE)'
//	go test ./host -run TestPublishedNumbers -rtables DIR -v -timeout 0
var rTables = flag.String("rtables", "", "directory with tables of R packages")

// column opens a table with these features and the target.
func column(t *testing.T, path, target string, features ...string) dataset.Source {
	t.Helper()
	src, err := dataset.Open(path, dataset.Selection{Target: target, Features: features, Decimal: '.'})
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// TestPublishedNumbers: log-likelihoods of maxima that R packages print for tables that travel with them: patent by flexmix, and
// those of NMES1988 by glm, MASS::glm.nb, and the best of flexmix. A maximum of two Poisson laws is a lower bound: theirs is
// the best of 28 starts.
func TestPublishedNumbers(t *testing.T) {
	act := activation(exp.Family, nil)
	both := BothIntercepts
	patent := func(t *testing.T) dataset.Source {
		return column(t, filepath.Join("testdata", "patent.csv"), "Patents", "lgRD", "RDS")
	}
	nmes := func(t *testing.T) dataset.Source {
		if *rTables == "" {
			t.Skip("no -rtables")
		}
		return column(t, filepath.Join(*rTables, "nmes.csv"), "y", "x1", "x2", "x3", "x4", "x5", "x6", "x7")
	}
	for name, c := range map[string]struct {
		src        func(*testing.T) dataset.Source
		cfg        Config
		want       float64
		parameters float64
		least      bool
	}{
		"patent, three Poisson":            {patent, Config{K: 3, Family: "poisson", Intercepts: both, ExpertFeatures: []string{"lgRD"}, Gate: Softmax{Features: []string{"RDS"}}}, -197.6753, 10, false},
		"NMES1988, Poisson":                {nmes, Config{K: 1, Family: "poisson", Intercepts: both}, -17971.61, 8, false},
		"NMES1988, negative binomial":      {nmes, Config{K: 1, Family: "negative-binomial", Intercepts: both}, -12170.55, 9, false},
		"NMES1988, two Poisson, constant":  {nmes, Config{K: 2, Family: "poisson", Intercepts: both, Gate: Constant{}}, -13519.608, 17, true},
		"NMES1988, two Poisson, a softmax": {nmes, Config{K: 2, Family: "poisson", Intercepts: both}, -13459.019, 24, true},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Fit(context.Background(), act, c.src(t), c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			got := m.Fit.LogLikelihood
			t.Logf("%.4f, published %v; own %v ± %v", got, c.want, m.Own, m.StandardErrors.Own)
			within := 0.5 * math.Pow10(-len(decimals(c.want))) // the digits that are printed
			if c.least {
				within = 1e-3
			}
			if !m.Fit.Converged || got < c.want-within || !c.least && got > c.want+within {
				t.Errorf("log-likelihood %v, published %v, status %s", got, c.want, m.Fit.Status)
			}
			if k := (m.Fit.AIC + 2*got) / 2; math.Abs(k-c.parameters) > 1e-6 {
				t.Errorf("%v parameters, want %v", k, c.parameters)
			}
			if theta := m.Own["theta"]; theta != nil { // MASS: 1.206604 ± .03355
				if se := m.StandardErrors.Own["theta"][0]; math.Abs(theta[0]-1.206604) > 1e-5 || math.Abs(se-0.03355) > 2e-4 {
					t.Errorf("theta %v ± %v", theta[0], se)
				}
			}
		})
	}
}

// decimals are the digits behind a number's point.
func decimals(v float64) string {
	_, behind, _ := strings.Cut(strconv.FormatFloat(v, 'f', -1, 64), ".")
	return behind
}
