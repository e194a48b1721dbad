package host

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/sdk"
)

// The study of the specification tests goes in pieces, each of which adds a line per fit
// to a file, and is summed up from the files:
//
//	go test ./host -run TestSpecificationStudy -spec gate -specfrom 5001 -specsets 20 -specto out/gate-5001
//	go test ./host -run TestSpecificationStudy -specsum 'out/*'
//
// Seeds up to 1000 are for choosing, those from 5001 on for reporting.
var (
	specGroup = flag.String("spec", "", "group of the study of the specification tests, or the beginning of a design's name")
	specFrom  = flag.Uint64("specfrom", 5001, "its first seed")
	specSets  = flag.Int("specsets", 1, "its data sets of each design")
	specTo    = flag.String("specto", "", "file to which it adds what came out")
	specSum   = flag.String("specsum", "", "pattern of the files that it sums up")
)

// specDesign is a kind of data set of the study. Its experts are those of a [searchtest.Design],
// but the data may depart from the model in one way.
type specDesign struct {
	searchtest.Design
	fitted sdk.Activation                            // nil for the truth
	fitK   int                                       // 0 for the truth
	logit  func(x []float64) float64                 // the gate's first, in the place of a linear one
	noise  func(rng *rand.Rand) float64              // of variance 1; nil for N(0, 1)
	bend   func(x []float64) float64                 // what y has besides
	spread func(x []float64) float64                 // what the noise is multiplied by
	ar     float64                                   // correlation of the noise of neighbouring rows
	less   func(a, b []float64, ya, yb float64) bool // order of the rows; nil as they were drawn
	few    int                                       // features on which the experts depend, the first ones; 0 for all
}

// gamma2 is a centred Gamma(2) of variance 1, with a skewness of √2.
func gamma2(rng *rand.Rand) float64 { return (rng.ExpFloat64() + rng.ExpFloat64() - 2) / math.Sqrt2 }

// student has four degrees of freedom and a variance of 1.
func student(rng *rand.Rand) float64 {
	chi := 2 * (rng.ExpFloat64() + rng.ExpFloat64())
	return rng.NormFloat64() * math.Sqrt(4/chi) / math.Sqrt2
}

// laplace has a kurtosis of 6 and a variance of 1.
func laplace(rng *rand.Rand) float64 { return (rng.ExpFloat64() - rng.ExpFloat64()) / math.Sqrt2 }

func byTarget(_, _ []float64, a, b float64) bool  { return a < b }
func byFeature(a, b []float64, _, _ float64) bool { return a[0] < b[0] }

func right(g searchtest.Design) specDesign { g.Group = "right"; return specDesign{Design: g} }

// specDesigns were written down before the first of them was run.
var specDesigns = []specDesign{
	right(searchtest.Design{Name: "identity k=2", Act: ident, K: 2, D: 4, N: 1000, Sigma: 0.3}),
	right(searchtest.Design{Name: "identity k=2 n=300 overlap", Act: ident, K: 2, D: 4, N: 300, Sigma: 0.5, Intercept: true}),
	right(searchtest.Design{Name: "identity k=3 per expert", Act: ident, K: 3, D: 5, N: 800, Sigma: 0.2, Intercept: true, PerExpert: true}),
	right(searchtest.Design{Name: "identity k=2 d=10 n=500", Act: ident, K: 2, D: 10, N: 500, Sigma: 0.3, Intercept: true}),
	right(searchtest.Design{Name: "identity k=3 uniform", Act: ident, K: 3, D: 4, N: 1500, Sigma: 0.2, Intercept: true, Inputs: "uniform"}),
	right(searchtest.Design{Name: "identity k=2 correlated", Act: ident, K: 2, D: 6, N: 600, Sigma: 0.3, Intercept: true, Inputs: "correlated"}),
	right(searchtest.Design{Name: "identity k=2 binary", Act: ident, K: 2, D: 8, N: 600, Sigma: 0.2, Intercept: true, Inputs: "binary"}),
	right(searchtest.Design{Name: "identity k=2 rare levels", Act: ident, K: 2, D: 6, N: 500, Sigma: 0.3, Intercept: true, Inputs: "levels"}),
	right(searchtest.Design{Name: "identity k=2 counts", Act: ident, K: 2, D: 5, N: 800, Sigma: 0.2, Intercept: true, Inputs: "counts"}),
	right(searchtest.Design{Name: "identity k=2 rare expert", Act: ident, K: 2, D: 4, N: 3000, Sigma: 0.2, Intercept: true, Rare: 40}),
	right(searchtest.Design{Name: "relu k=2", Act: rectify, K: 2, D: 4, N: 1000, Sigma: 0.2}),
	right(searchtest.Design{Name: "sigmoid k=2 uniform", Act: logistic, K: 2, D: 4, N: 1000, Sigma: 0.1, Inputs: "uniform"}),
	right(searchtest.Design{Name: "leaky k=2 mixed", Act: leaky, K: 2, D: 6, N: 800, Sigma: 0.2, Intercept: true, Inputs: "mixed"}),
	{Design: searchtest.Design{Group: "right", Name: "identity k=2 sorted by y", Act: ident, K: 2, D: 4, N: 800, Sigma: 0.5, Intercept: true}, less: byTarget},
	{Design: searchtest.Design{Group: "right", Name: "identity k=2 sorted by x", Act: ident, K: 2, D: 4, N: 800, Sigma: 0.3, Intercept: true}, less: byFeature},

	{Design: searchtest.Design{Group: "noise", Name: "gamma k=2", Act: ident, K: 2, D: 4, N: 5000, Sigma: 0.6, Intercept: true}, noise: gamma2},
	{Design: searchtest.Design{Group: "noise", Name: "t(4) k=2", Act: ident, K: 2, D: 4, N: 2000, Sigma: 0.6, Intercept: true}, noise: student},
	{Design: searchtest.Design{Group: "noise", Name: "gamma k=2 sorted by y", Act: ident, K: 2, D: 4, N: 1500, Sigma: 0.6, Intercept: true}, noise: gamma2, less: byTarget},
	{Design: searchtest.Design{Group: "noise", Name: "laplace k=2 sorted by x", Act: ident, K: 2, D: 3, N: 2000, Sigma: 0.4, Intercept: true}, noise: laplace, less: byFeature},
	{Design: searchtest.Design{Group: "noise", Name: "gamma k=3", Act: ident, K: 3, D: 4, N: 2000, Sigma: 0.3, Intercept: true}, noise: gamma2},

	{Design: searchtest.Design{Group: "gate", Name: "x3 squared", Act: ident, K: 2, D: 4, N: 1000, Sigma: 0.3, Intercept: true}, few: 2,
		logit: func(x []float64) float64 { return 2.5 * (x[2]*x[2] - 0.6) }},
	{Design: searchtest.Design{Group: "gate", Name: "x3 times x4", Act: ident, K: 2, D: 4, N: 1000, Sigma: 0.3, Intercept: true}, few: 2,
		logit: func(x []float64) float64 { return 3 * x[2] * x[3] }},
	{Design: searchtest.Design{Group: "gate", Name: "x1 squared", Act: ident, K: 2, D: 4, N: 1000, Sigma: 0.3, Intercept: true}, few: 2,
		logit: func(x []float64) float64 { return 2.5 * (x[0]*x[0] - 0.6) }},
	{Design: searchtest.Design{Group: "gate", Name: "AR(.7) noise", Act: ident, K: 2, D: 4, N: 1000, Sigma: 0.3, Intercept: true}, ar: 0.7},

	{Design: searchtest.Design{Group: "cause", Name: "k too small: identity 3 as 2", Act: ident, K: 3, D: 4, N: 1000, Sigma: 0.3, Intercept: true}, fitK: 2},
	{Design: searchtest.Design{Group: "cause", Name: "k too small: identity 2 as 1", Act: ident, K: 2, D: 4, N: 1000, Sigma: 0.3, Intercept: true}, fitK: 1},
	{Design: searchtest.Design{Group: "cause", Name: "k too small: relu 3 as 2", Act: rectify, K: 3, D: 4, N: 2000, Sigma: 0.1, Intercept: true}, fitK: 2},
	{Design: searchtest.Design{Group: "cause", Name: "k too small: identity 4 as 3", Act: ident, K: 4, D: 6, N: 2000, Sigma: 0.2}, fitK: 3},
	{Design: searchtest.Design{Group: "cause", Name: "nonlinearity: sigmoid as identity", Act: logistic, K: 2, D: 4, N: 2000, Sigma: 0.1, Intercept: true}, fitted: ident},
	{Design: searchtest.Design{Group: "cause", Name: "nonlinearity: softplus as relu", Act: softplus, K: 2, D: 4, N: 2000, Sigma: 0.1, Intercept: true}, fitted: rectify},
	{Design: searchtest.Design{Group: "cause", Name: "spread: noise that grows with x1", Act: ident, K: 2, D: 4, N: 1000, Sigma: 0.3, Intercept: true},
		spread: func(x []float64) float64 { return math.Exp(x[0] / 2) }},
	{Design: searchtest.Design{Group: "cause", Name: "interactions: x1 times x2", Act: ident, K: 2, D: 4, N: 1000, Sigma: 0.3, Intercept: true},
		bend: func(x []float64) float64 { return x[0] * x[1] / 3 }},
	{Design: searchtest.Design{Group: "cause", Name: "residuals: noise of its own", Act: ident, K: 2, D: 4, N: 1000, Sigma: 0.2, Intercept: true, PerExpert: true}},
	{Design: searchtest.Design{Group: "cause", Name: "residuals: t(4) apart", Act: ident, K: 2, D: 4, N: 1000, Sigma: 0.05, Intercept: true}, noise: student},
}

func (s specDesign) draw(t testing.TB, seed uint64) (dataset.Source, *model.Params) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 2020))
	x := make([]float64, s.N*s.D)
	for r := range s.N {
		s.Features(x[r*s.D:(r+1)*s.D], rng)
	}
	p := s.Truth(x, rng)
	for i := range p.Regressors {
		if s.few > 0 && i%s.D >= s.few {
			p.Regressors[i] = 0
		}
	}
	y, e := make([]float64, s.N), 0.0
	means := make([]float64, s.K)
	for r := range y {
		b := &model.Block{N: 1, X: x[r*s.D : (r+1)*s.D]}
		p.Predictors(means, b)
		if err := s.Act.Eval(t.Context(), means, means); err != nil {
			t.Fatal(err)
		}
		i := s.branch(p, b, rng)
		e = s.ar*e + math.Sqrt(1-s.ar*s.ar)*s.error(rng)
		level := p.SigmaOf(i)
		if s.spread != nil {
			level *= s.spread(b.X)
		}
		y[r] = means[i] + level*e
		if s.bend != nil {
			y[r] += s.bend(b.X)
		}
	}
	return s.sorted(x, y), p
}

func (s specDesign) branch(p *model.Params, b *model.Block, rng *rand.Rand) int {
	if s.logit == nil {
		return s.Expert(p, b, rng)
	}
	if rng.Float64() < 1/(1+math.Exp(-s.logit(b.X))) {
		return 0
	}
	return 1
}

func (s specDesign) error(rng *rand.Rand) float64 {
	if s.noise == nil {
		return rng.NormFloat64()
	}
	return s.noise(rng)
}

func (s specDesign) sorted(x, y []float64) dataset.Source {
	order := make([]int, s.N)
	for i := range order {
		order[i] = i
	}
	row := func(i int) []float64 { return x[i*s.D : (i+1)*s.D] }
	if s.less != nil {
		slices.SortStableFunc(order, func(a, b int) int {
			if s.less(row(a), row(b), y[a], y[b]) {
				return -1
			}
			return 1
		})
	}
	out, targets := mat.NewDense(s.N, s.D, nil), make([]float64, s.N)
	for to, from := range order {
		out.SetRow(to, row(from))
		targets[to] = y[from]
	}
	return dataset.Matrix(out, targets)
}

// specFit is what came out for one data set.
type specFit struct {
	Group, Name           string
	Seed                  uint64
	Optimum, Model, Cause string
	Try                   string
	PValue                float64
	Tests                 map[string]specTest
	Overlap               float64
	Starts                int
	Seconds               float64
}

type specTest struct {
	Statistic float64
	DF        int
	PValue    float64
	Robust    bool
}

// TestSpecificationStudy is the study, which docs/studies/certificate.md reports.
func TestSpecificationStudy(t *testing.T) {
	switch {
	case *specSum != "":
		sumSpecifications(t, *specSum)
	case *specGroup != "":
		runSpecifications(t)
	default:
		t.Skip("a study of an hour; see its flags")
	}
}

func runSpecifications(t *testing.T) {
	out, err := os.OpenFile(*specTo, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for seed := *specFrom; seed < *specFrom+uint64(*specSets); seed++ {
		for _, s := range specDesigns {
			if s.Group != *specGroup && !strings.HasPrefix(s.Name, *specGroup) {
				continue
			}
			line, err := json.Marshal(s.try(t, seed))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := out.Write(append(line, '\n')); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// try fits one data set.
func (s specDesign) try(t *testing.T, seed uint64) specFit {
	src, _ := s.draw(t, seed)
	cfg := configOf(s.Design)
	cfg.Threads = 1
	if strings.HasPrefix(s.Name, "residuals: noise of its own") {
		cfg.Noise = nil
	}
	if s.fitK > 0 {
		cfg.K = s.fitK
	}
	act := s.Act
	if s.fitted != nil {
		act = s.fitted
	}
	begin := time.Now()
	_, _, out, m := fitInSteps(t, act, src, cfg)
	f := specFit{Group: s.Group, Name: s.Name, Seed: seed, Starts: len(m.Fit.Starts), Tests: map[string]specTest{}, Seconds: time.Since(begin).Seconds()}
	if c := out.Certificate; c != nil {
		f.Try = m.Fit.Certificate.Try
		f.Optimum, f.Model, f.PValue, f.Cause, f.Overlap = c.Optimum, c.Model, c.PValue, c.Cause, c.Overlap
		for _, x := range c.Tests {
			f.Tests[x.Name] = specTest{x.Statistic, x.DF, x.PValue, x.Held()}
		}
	}
	return f
}

// TestSpecifications: a gate of another form, and noise that is correlated between rows, are seen
// and named, as 98 % and 99.8 % of such data sets are in the study; a table sorted by y passes, and
// slow dependence is not tested.
func TestSpecifications(t *testing.T) {
	testslow.Mark(t)
	for _, s := range specDesigns {
		switch {
		case s.Group == "gate":
			want := infer.Cause{Test: "gate features"}
			if s.ar > 0 {
				want.Test = "dependence"
			}
			f := s.try(t, 1)
			if x := f.Tests[want.Test]; f.Model != infer.Suspect || x.PValue > 1e-4 || strings.Contains(f.Cause, "k too small") || f.Try == "" {
				t.Errorf("%s: %s, %s: %+v; try %q", s.Name, f.Model, f.Cause, f.Tests, f.Try)
			}
		case s.Name == "identity k=2 sorted by y":
			f := s.try(t, 1)
			if x := f.Tests["dependence"]; f.Model != infer.Pass || x.PValue < 1e-3 {
				t.Errorf("%s: %s, %+v", s.Name, f.Model, f.Tests)
			}
		}
	}
}

// sumSpecifications prints what the files with such names hold, a line for every design and one for every group.
func sumSpecifications(t *testing.T, pattern string) {
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	fits := map[string][]specFit{}
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(file); lines.Scan(); {
			var f specFit
			if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			fits[f.Group+": "+f.Name] = append(fits[f.Group+": "+f.Name], f)
		}
		file.Close()
	}
	fmt.Println("| data | fits | suspect | p < .01 | p < .05 of tests | robust < .001 | below .001, by test | causes | seconds |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	groups := map[string][]specFit{}
	for _, s := range specDesigns {
		all := fits[s.Group+": "+s.Name]
		if len(all) > 0 {
			fmt.Println(specRow(s.Group+": "+s.Name, all))
			groups[s.Group] = append(groups[s.Group], all...)
		}
	}
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		fmt.Println(specRow("**all "+g+"**", groups[g]))
	}
}

func specRow(name string, fits []specFit) string {
	suspect, hundredth, tests, small, robust, seconds := 0, 0, 0, 0, 0, 0.0
	below, causes := map[string]int{}, map[string]int{}
	for _, f := range fits {
		seconds += f.Seconds
		if f.Model == infer.Suspect {
			suspect++
			cause, _, _ := strings.Cut(f.Cause, ", or ")
			causes[cause]++
		}
		if f.PValue < 0.01 {
			hundredth++
		}
		for name, x := range f.Tests {
			tests++
			if x.PValue < 0.05 {
				small++
			}
			if x.PValue < 0.001 {
				below[name]++
				if x.Robust {
					robust++
				}
			}
		}
	}
	list := func(m map[string]int) string {
		var out []string
		for _, k := range slices.Sorted(maps.Keys(m)) {
			out = append(out, fmt.Sprintf("%s %d", k, m[k]))
		}
		return strings.Join(out, ", ")
	}
	return fmt.Sprintf("| %s | %d | %d | %d | %.3f | %d | %s | %s | %.2f |", name, len(fits), suspect, hundredth,
		float64(small)/float64(max(tests, 1)), robust, list(below), list(causes), seconds/float64(len(fits)))
}
