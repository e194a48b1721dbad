package search

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/infer/specification"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/sdk"
)

// certified judges q, as if it were a maximum.
func certified(t *testing.T, p *problem.Problem, q *model.Params) *infer.Certificate {
	t.Helper()
	c := &Candidate{Run: &optim.Result{Status: optim.Converged}, Params: q}
	got, note, err := Certify(t.Context(), p, c, []*Candidate{c}, Seen{})
	if err != nil || got == nil {
		t.Fatalf("certificate %v, note %q: %v", got, note, err)
	}
	return got
}

// TestExactFits: a target of two values that two experts are is not judged, and the
// reason names them; one that two lines fit exactly passes, as it did.
func TestExactFits(t *testing.T) {
	const n = 200
	rng := rand.New(rand.NewPCG(1, 1))
	x, classes, lines := mat.NewDense(n, 1, nil), make([]float64, n), make([]float64, n)
	for r := range n {
		x.Set(r, 0, rng.NormFloat64())
		classes[r] = 3 + float64(r%2)
		lines[r] = x.At(r, 0) * float64(1-2*(r%2))
	}
	for _, c := range []struct {
		y            []float64
		slope, apart float64 // of the experts, to either side
		optimum      string
		says         string
	}{
		{classes, 0, 0.5, infer.NotJudged, "the target takes two values, 3 and 4"},
		{lines, 1, 0, infer.Pass, "exact to rounding"},
	} {
		p := load(t, dataset.Matrix(x, c.y), activation(t, identity.Family), problem.Request{K: 2, Intercepts: problem.BothIntercepts})
		q := p.Shape.Blank(1e-9)
		q.Regressors[0], q.Regressors[1] = c.slope, -c.slope
		if c.apart > 0 {
			q.RegressorIntercepts[0], q.RegressorIntercepts[1] = 3.5+c.apart, 3.5-c.apart
		}
		if got := certified(t, p, q); got.Optimum != c.optimum || got.Model != infer.NotJudged || !strings.Contains(got.Reason, c.says) {
			t.Errorf("optimum %s, model %s: %s", got.Optimum, got.Model, got.Reason)
		}
	}
}

// TestRestsOn: what passes does not where an expert has three rows, or a σ that is a thousandth of the other's, and is
// not judged where it has few and a test fails.
func TestRestsOn(t *testing.T) {
	p := parallels(t, 400, 2, func(r int) float64 { return float64(r%2) * 10 }, problem.Request{Noise: problem.PerExpert{}})
	good := at(p, 0.3, 0, 10)
	quiet := good.Clone()
	quiet.Sigma[0] = 1000 * good.Sigma[1]
	few := good.Clone()
	few.RegressorIntercepts[1] = 30 // nobody is there
	few.RegressorIntercepts[0], few.Sigma[0] = 5, 5
	rowsOf := func(q *model.Params) []float64 {
		tested, err := specification.Tests(t.Context(), p.Rows, p.G, q, p.Shape.Estimated(), p.Seed, 1)
		if err != nil {
			t.Fatal(err)
		}
		return tested.Mass
	}
	for _, c := range []struct {
		q       *model.Params
		rows    []float64
		p       float64 // of the tests
		was     string
		optimum string
		says    string
	}{
		{good, rowsOf(good), 0, infer.Pass, infer.Pass, ""},
		{quiet, rowsOf(quiet), 1, infer.Pass, infer.Suspect, "sigma is 0.001 of the largest"},
		{few, rowsOf(few), 1, infer.Pass, infer.Suspect, "rows for 2 coefficients"},
		{few, rowsOf(few), 1, infer.NotJudged, infer.NotJudged, ""},
		{good, []float64{391, 9}, 0, infer.Pass, infer.NotJudged, "expert 2 has 9 rows for 2 coefficients, and a test of the model fails"},
		{good, []float64{391, 9}, infer.Doubt, infer.Pass, infer.Pass, ""},
		{good, []float64{390, 10}, 0, infer.Pass, infer.Pass, ""},
		{good, []float64{9, 3}, 0, infer.Pass, infer.Suspect, "it rests on expert 2"},
	} {
		got := &infer.Certificate{Optimum: c.was, PValue: c.p}
		got.RestsOn(c.q, c.rows, 2)
		if got.Optimum != c.optimum || !strings.Contains(got.Reason, c.says) || c.says == "" && got.Reason != "" {
			t.Errorf("%s: %q, want %s: %q", got.Optimum, got.Reason, c.optimum, c.says)
		}
	}
}

// TestEvidence: what candidates made by hand, and those of a survey, are evidence of.
func TestEvidence(t *testing.T) {
	const n = 100
	p := &problem.Problem{Rows: &model.Data{N: n}, Leaves: []sdk.Activation{activation(t, identity.Family)}}
	tolerance := SameOptimum(n)
	made := func(kind string, c *Candidate, agrees bool) *Candidate {
		c.Kind, c.Agrees = kind, agrees
		return c
	}
	best := ended(-1, optim.Converged, false)
	below := made(starts.KindRandom, ended(-1+2*tolerance, optim.Converged, false), true) // of the part, refined to the same optimum
	back := made(starts.KindRandom, ended(-1+2*tolerance, optim.Converged, false), true)
	back.refined = best
	others := []*Candidate{
		made(starts.KindKMeans, ended(-0.5, optim.Converged, false), false),
		made(starts.KindMoments, ended(-3, optim.Converged, true), false),
		made(starts.KindSpan, ended(math.NaN(), optim.Diverged, false), false),
	}
	at := func(value float64, degenerate bool) *Survey {
		return &Survey{Starts: 10, Kinds: []string{starts.KindRandom, starts.KindRows}, Met: 4, Best: []*Candidate{ended(value, optim.Converged, degenerate)}}
	}
	screened := infer.Evidence{Starts: 3, Kinds: 2, Agreeing: 2, Flat: true}
	for name, c := range map[string]struct {
		agree []*Candidate
		s     *Survey
		want  infer.Evidence
	}{
		"no survey":             {[]*Candidate{back, below}, nil, screened},
		"one that saw nothing":  {[]*Candidate{back, below}, &Survey{Starts: 10, Met: 4}, screened},
		"one that met it":       {[]*Candidate{back, below}, at(-1+tolerance, false), infer.Evidence{Starts: 13, Kinds: 3, Agreeing: 6, Survey: true, Met: 4, Surveyed: infer.Care{Starts: 10, Met: 4}, Flat: true}},
		"one that did not":      {[]*Candidate{back, below}, at(-1+1.01*tolerance, false), infer.Evidence{Starts: 13, Kinds: 3, Agreeing: 2, Survey: true, Surveyed: infer.Care{Starts: 10, Unseen: 0.1}, Flat: true}},
		"one that shrank":       {[]*Candidate{back, below}, at(-1, true), infer.Evidence{Starts: 13, Kinds: 3, Agreeing: 2, Survey: true, Surveyed: infer.Care{Starts: 10, Unseen: 0.1}, Flat: true}},
		"one that alone met it": {[]*Candidate{made(starts.KindRandom, ended(-1, optim.Converged, false), false), others[0]}, at(-1, false), infer.Evidence{Starts: 13, Kinds: 3, Agreeing: 4, Survey: true, Met: 4, Surveyed: infer.Care{Starts: 10, Met: 4}, Flat: true}},
	} {
		if got := evidenceOf(p, best, append(c.agree, others...), Seen{Survey: c.s}); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	for shape, flat := range map[string]bool{"4": true, "2x2": false} {
		if got := evidenceOf(&problem.Problem{Rows: p.Rows, Shape: problem.Shape{Tree: tree(t, shape)}}, best, nil, Seen{}); got.Flat != flat {
			t.Errorf("a tree %s is flat: %v", shape, got.Flat)
		}
	}
}

// TestCertify: three that agree on the optimum of two lines pass, and on one that has an expert of three rows do not,
// for that reason; experts are named in the order of their sizes.
func TestCertify(t *testing.T) {
	for _, rare := range []bool{false, true} {
		k, levels := 2, []float64{0, 10}
		if rare {
			k, levels = 3, []float64{30, 0, 10}
		}
		p := parallels(t, 400, k, func(r int) float64 {
			if rare && r < 3 {
				return 30
			}
			return float64(r % 2 * 10)
		}, problem.Request{})
		run := climbed(t, p, p.Rows, at(p, 0.3, levels...))
		c := &Candidate{Run: run, Params: likelihood(p, p.Rows).Params(run.X), Agrees: true}
		got, note, err := Certify(t.Context(), p, c, []*Candidate{c, c, c}, Seen{})
		if err != nil || got == nil || len(got.Tests) == 0 {
			t.Fatalf("certificate %+v, note %q, error %v", got, note, err)
		}
		slow := *c
		slow.Run = ended(run.Value, optim.IterationLimit, false).Run
		if not, _, err := Certify(t.Context(), p, &slow, []*Candidate{c, c, c}, Seen{}); err != nil || not.Optimum == infer.Pass {
			t.Errorf("one that has not converged: %s, %v", not.Optimum, err)
		}
		if want := map[bool]string{false: infer.Pass, true: infer.Suspect}[rare]; got.Optimum != want || strings.HasPrefix(got.Reason, "it rests on expert 3, which has 3.0 rows") != rare {
			t.Errorf("rare %v: %s: %s", rare, got.Optimum, got.Reason)
		}
	}
}

// TestFewRowsAParameter: what passes does not with fewer than three rows a parameter, and of so few rows that spare
// experts were placed at it says nothing where a survey's starts have not met it. Nor does the survey where no spare
// expert was.
func TestFewRowsAParameter(t *testing.T) {
	for rows, want := range map[int]string{24: infer.Pass, 17: infer.NotJudged} { // of 6 parameters, one of them σ
		p := parallels(t, rows, 2, func(r int) float64 { return float64(r%2) * 10 }, problem.Request{})
		run := climbed(t, p, p.Rows, at(p, 0.3, 0, 10))
		c := &Candidate{Run: run, Params: likelihood(p, p.Rows).Params(run.X), Agrees: true}
		got, _, err := Certify(t.Context(), p, c, []*Candidate{c, c, c}, Seen{})
		if err != nil || got.Optimum != want || want != infer.Pass && !strings.Contains(got.Reason, "rows a parameter") {
			t.Errorf("%d rows of %d parameters: %+v, %v", rows, p.Shape.Parameters(), got, err)
		}
	}
	seen := Seen{Survey: &Survey{Starts: 100}, Spare: &Spare{Experts: 1, Starts: 50, Met: 9}}
	if !seen.care(0, false).Conclusive() || seen.care(0, true).Conclusive() || !(Seen{Spare: seen.Spare}).care(0, true).Conclusive() {
		t.Error("what starts in places of spare experts say")
	}
	seen.Survey.Met, seen.Spare.Met = 30, 1
	if !seen.care(30, true).Conclusive() {
		t.Error("few rows, the survey and one placed expert met the best")
	}
	if seen.Spare.Met = 0; seen.care(30, true).Conclusive() {
		t.Error("few rows, no placed expert met what the survey did")
	}
}

// TestCareOfSpareExperts: the placing of a spare expert must be conclusive, whatever a survey has met; of several a
// survey beside it must have met the best once, and little else. Without spare experts it is either.
func TestCareOfSpareExperts(t *testing.T) {
	placed, missed := Spare{Starts: 48, Met: 9}, Spare{Starts: 400, Met: 1, Singles: 3}
	survey := func(starts, met, singles int) *Survey { return &Survey{Starts: starts, Met: met, Singles: singles} }
	for _, c := range []struct {
		name    string
		survey  *Survey
		spare   Spare
		experts int
		want    bool
	}{
		{"placed", nil, placed, 1, true},
		{"a survey met the best, the placing did not", survey(24, 7, 1), missed, 1, false},
		{"several, no survey", nil, placed, 2, false},
		{"several, a short survey", survey(8, 1, 0), placed, 3, false},
		{"several, a survey of much else", survey(16, 1, 2), placed, 3, false},
		{"several, a survey that has not met the best", survey(24, 0, 0), placed, 3, false},
		{"several, a survey of little else", survey(24, 1, 1), placed, 3, true},
		{"none, the survey met the best", survey(24, 7, 1), missed, 0, true},
		{"none, the placing met the best", survey(24, 0, 9), placed, 0, true},
		{"none, neither", survey(24, 0, 9), missed, 0, false},
	} {
		c.spare.Experts = c.experts
		met := 0
		if c.survey != nil {
			met = c.survey.Met
		}
		if got := (Seen{Survey: c.survey, Spare: &c.spare}).care(met, false); got.Conclusive() != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestCertainTargets: 0/1 targets that the features separate are not judged: no coefficients are the best.
func TestCertainTargets(t *testing.T) {
	x, y := mat.NewDense(100, 1, nil), make([]float64, 100)
	for r := range y {
		x.Set(r, 0, float64(r)-49.5)
		if r >= 50 {
			y[r] = 1
		}
	}
	p := load(t, dataset.Matrix(x, y), activation(t, sigmoid.Family), problem.Request{K: 1, Family: "binomial"})
	run := climbed(t, p, p.Rows, p.Shape.Blank(1))
	c := &Candidate{Run: run, Params: likelihood(p, p.Rows).Params(run.X), Agrees: true}
	got, _, err := Certify(t.Context(), p, c, []*Candidate{c, c, c}, Seen{})
	if err != nil || got.Optimum != infer.NotJudged || got.Model != infer.NotJudged || !strings.Contains(got.Reason, "no maximum") || got.More {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestJudged: too many terms make a note, and any other failure is one.
func TestJudged(t *testing.T) {
	many, bad := &specification.TooManyError{Terms: 9}, errors.New("bad")
	if c, note, err := judged(&problem.Problem{}, specification.Tested{}, fmt.Errorf("tests: %w", many), infer.Evidence{}); c != nil || err != nil || note != "no certificate: "+many.Error() {
		t.Errorf("%v, %q, %v", c, note, err)
	}
	if c, note, err := judged(&problem.Problem{}, specification.Tested{}, bad, infer.Evidence{}); c != nil || note != "" || err != bad {
		t.Errorf("%v, %q, %v", c, note, err)
	}
	if c, note, err := judged(&problem.Problem{}, specification.Tested{Untested: []infer.Untested{{}}}, nil, infer.Evidence{}); err != nil || note != "" || c == nil || len(c.Untested) != 1 {
		t.Errorf("%+v, %q, %v", c, note, err)
	}
}

// TestOptimaOfCounts: of 89 cells that stand for 20,000 rows optima that are 112 apart in log-likelihood are two, as they
// are of the rows one by one; as 89 rows they would be one.
func TestOptimaOfCounts(t *testing.T) {
	const cells, rows, apart = 89, 20_000, 112
	x, y, w := mat.NewDense(cells, 1, nil), make([]float64, cells), make([]float64, cells)
	for r := range cells {
		x.Set(r, 0, float64(r))
		y[r], w[r] = float64(r*r%7), 224
	}
	w[0] += rows - cells*224
	p := load(t, dataset.WeightedMatrix(x, y, w), activation(t, identity.Family), problem.Request{K: 2, Intercepts: problem.BothIntercepts})
	if p.Count() != rows {
		t.Fatalf("the table stands for %v rows", p.Count())
	}
	best, other := ended(1, optim.Converged, false), ended(1+apart/float64(rows), optim.Converged, false)
	if Agree([]*Candidate{best, other}, 2, SameOptimum(p.Count())); other.Agrees || !best.Beats(other, p.Count()) {
		t.Error("two optima count as one")
	}
	s := &Survey{Starts: 10, Met: 4, Best: []*Candidate{best}}
	if got := s.of(best, p.Count()); got.Met != 4 {
		t.Errorf("the survey's own optimum was met by %d", got.Met)
	}
	if e := evidenceOf(p, best, []*Candidate{best}, Seen{Survey: &Survey{Starts: 10, Met: 4, Best: []*Candidate{other}}}); e.Met != 0 {
		t.Errorf("another optimum of the survey counts as %d starts at the best", e.Met)
	}
}
