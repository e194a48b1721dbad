package infer

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	tests := func(residuals, gate float64) []Test {
		return []Test{{Name: testResiduals, PValue: residuals}, {Name: testGate, PValue: gate, Robust: true}}
	}
	care := func(starts, met int, unseen float64) Care {
		return Care{Taken: true, Spares: 1, Starts: starts, Met: met, Unseen: unseen}
	}
	for _, c := range []struct {
		name           string
		tests          []Test
		evidence       Evidence
		optimum, model string
		cause          string // of the first test
	}{
		{"all pass, one start", tests(0.1, 0.02), Evidence{Starts: 1, Kinds: 1, Agreeing: 1}, Pass, Pass, ""},
		{"all pass, a survey of which two agree", tests(0.1, 0.02), Evidence{Starts: 404, Kinds: 6, Agreeing: 5, Survey: true, Met: 2}, NotJudged, Pass, ""},
		{"all pass, a survey of which three agree", tests(0.1, 0.02), Evidence{Starts: 404, Kinds: 6, Agreeing: 3, Survey: true, Met: 3}, Pass, Pass, ""},
		{"all pass, two of many agree", tests(0.1, 0.02), Evidence{Starts: StartsWanted, Kinds: 4, Agreeing: 2, Flat: true}, NotJudged, Pass, ""},
		{"all pass, two of many agree on a tree", tests(0.1, 0.02), Evidence{Starts: 32, Kinds: 4, Agreeing: 2}, Pass, Pass, ""},
		{"all pass, two of a few agree", tests(0.1, 0.02), Evidence{Starts: StartsWanted - 1, Kinds: 4, Agreeing: 2, Flat: true}, Pass, Pass, ""},
		{"all pass, three of many agree", tests(0.1, 0.02), Evidence{Starts: 32, Kinds: 4, Agreeing: 3, Flat: true}, Pass, Pass, ""},
		{"all fail, a survey of which two agree", tests(1e-9, 1e-9), Evidence{Starts: 404, Kinds: 6, Agreeing: 2, Survey: true, Met: 2}, Suspect, Suspect, fewCause + ", or " + noiseCause},
		{"no tests", nil, Evidence{Starts: 1, Kinds: 1, Agreeing: 1}, Pass, NotJudged, ""},
		{"residuals fail, one start", tests(1e-9, 0.5), Evidence{Starts: 1, Kinds: 1, Agreeing: 1}, Suspect, Suspect, noiseCause},
		{"residuals fail, three agree", tests(1e-9, 0.5), Evidence{Starts: 4, Kinds: 1, Agreeing: 3}, Pass, Suspect, noiseCause},
		{"all fail, three agree", tests(1e-9, 1e-9), Evidence{Starts: 4, Kinds: 1, Agreeing: 3}, Suspect, Suspect, fewCause + ", or " + noiseCause},
		{"all fail, too few starts", tests(1e-9, 1e-9), Evidence{Starts: StartsWanted - 1, Kinds: 1, Agreeing: StartsWanted - 1}, Suspect, Suspect, fewCause + ", or " + noiseCause},
		{"all fail, enough starts", tests(1e-9, 1e-9), Evidence{Starts: StartsWanted, Kinds: 1, Agreeing: 3}, Pass, Suspect, fewCause + ", or " + noiseCause},
		{"all fail, few agree of many", tests(1e-9, 1e-9), Evidence{Starts: 32, Kinds: 1, Agreeing: 2}, Suspect, Suspect, fewCause + ", or " + noiseCause},
		{"at the level", tests(Level/2*1.001, 1), Evidence{Starts: 1, Kinds: 1, Agreeing: 1}, Suspect, Pass, ""},
		{"at the doubt", tests(Doubt/2*1.001, 1), Evidence{Starts: 1, Kinds: 1, Agreeing: 1}, Pass, Pass, ""},
		{"doubt, residuals alone, three agree", tests(Doubt/2*0.999, 1), Evidence{Starts: 4, Kinds: 1, Agreeing: 3}, Pass, Pass, ""},
		{"doubt, three agree", tests(1, Doubt/2*0.999), Evidence{Starts: 4, Kinds: 1, Agreeing: 3}, Suspect, Pass, ""},
		{"below the level", tests(Level/2*0.999, 1), Evidence{Starts: 1, Kinds: 1, Agreeing: 1}, Suspect, Suspect, noiseCause},
		{"on the level itself", tests(Level/2, 1), Evidence{Starts: 1, Kinds: 1, Agreeing: 1}, Suspect, Pass, ""},
		{"on the doubt itself", tests(Doubt/2, 1), Evidence{Starts: 1, Kinds: 1, Agreeing: 1}, Pass, Pass, ""},
		{"on the doubt itself, a survey of which two agree", tests(Doubt/2, 1), Evidence{Starts: 404, Kinds: 6, Agreeing: 5, Survey: true, Met: 2}, NotJudged, Pass, ""},
		{"on the doubt itself, two of many agree", tests(Doubt/2, 1), Evidence{Starts: StartsWanted, Kinds: 4, Agreeing: 2, Flat: true}, NotJudged, Pass, ""},
		{"robust on the doubt itself, three agree", tests(1e-9, Doubt/2), Evidence{Starts: 4, Kinds: 1, Agreeing: 3}, Pass, Suspect, noiseCause},
		{"robust on the level itself, three agree", tests(1e-9, Level/2), Evidence{Starts: 4, Kinds: 1, Agreeing: 3}, Suspect, Suspect, noiseCause},
		{"all pass, a spare expert, placed anew", tests(0.1, 0.02), Evidence{Starts: 4, Kinds: 2, Agreeing: 3, Care: care(StartsWanted, 3, 0.05)}, Pass, Pass, ""},
		{"all pass, a spare expert, two met it", tests(0.1, 0.02), Evidence{Starts: 4, Kinds: 2, Agreeing: 3, Care: care(400, 2, 0.01)}, NotJudged, Pass, ""},
		{"all pass, a spare expert, few starts", tests(0.1, 0.02), Evidence{Starts: 4, Kinds: 2, Agreeing: 3, Care: care(StartsWanted-1, 3, 0)}, NotJudged, Pass, ""},
		{"all pass, a spare expert, much unseen", tests(0.1, 0.02), Evidence{Starts: 4, Kinds: 2, Agreeing: 3, Care: care(400, 3, 0.051)}, NotJudged, Pass, ""},
		{"all pass, a spare expert that meets what a survey does not", tests(0.1, 0.02), Evidence{Starts: 60, Kinds: 2, Agreeing: 3, Survey: true, Met: 1, Flat: true, Care: care(48, 5, 0.02)}, Pass, Pass, ""},
		{"all fail, two met it with care", tests(1e-9, 1e-9), Evidence{Starts: 32, Kinds: 1, Agreeing: 3, Care: care(400, 2, 0.01)}, NotJudged, Suspect, fewCause + ", or " + noiseCause},
		{"all fail, none agree, met with care", tests(1e-9, 1e-9), Evidence{Starts: 32, Kinds: 1, Agreeing: 2, Care: care(400, 9, 0.01)}, Suspect, Suspect, fewCause + ", or " + noiseCause},
	} {
		got := Judge(c.tests, c.evidence)
		if got.Optimum != c.optimum || got.Model != c.model {
			t.Errorf("%s: optimum %s, model %s, want %s, %s", c.name, got.Optimum, got.Model, c.optimum, c.model)
		}
		if len(got.Tests) > 0 && got.Tests[0].Cause != c.cause {
			t.Errorf("%s: cause %q, want %q", c.name, got.Tests[0].Cause, c.cause)
		}
	}
}

// TestCauseIsSaidOnce: what five failures suggest, together.
func TestCauseIsSaidOnce(t *testing.T) {
	var tests []Test
	for _, name := range []string{testResiduals, testNonlinearity, testGate, testHeteroscedasticity, testInteractions} {
		tests = append(tests, Test{Name: name, PValue: 1e-9, Robust: name != testResiduals})
	}
	got := Judge(tests, Evidence{Starts: 1, Kinds: 1, Agreeing: 1}).Cause
	for _, cause := range append(slices.Collect(maps.Values(suggests)), fewCause) {
		if strings.Count(got, cause) != 1 {
			t.Errorf("%q is said %d times: %s", cause, strings.Count(got, cause), got)
		}
	}
}

// TestCauseOfAnotherSystem: a test that is none of a mixture's brings what it suggests.
func TestCauseOfAnotherSystem(t *testing.T) {
	got := Judge([]Test{{Name: "units", Suggests: "merged units", PValue: 1e-9, Robust: true}, {Name: testGate, PValue: 1e-9, Robust: true}}, Evidence{})
	if want := fewCause + ", or merged units, or " + suggests[testGate]; got.Cause != want || got.Tests[0].Cause != fewCause+", or merged units" {
		t.Errorf("%q and %q, want %q", got.Cause, got.Tests[0].Cause, want)
	}
}

// TestReasons: a pass says what was not seen and how much was tried, not that
// the optimum is the best.
func TestReasons(t *testing.T) {
	pass := []Test{{Name: testResiduals, PValue: 0.5}}
	for _, c := range []struct {
		tests []Test
		e     Evidence
		want  string
	}{
		{pass, Evidence{Starts: 8, Kinds: 3, Agreeing: 3}, "no sign of merged experts was seen, and 8 starts of 3 kinds found nothing better"},
		{pass, Evidence{Starts: 1, Kinds: 1, Agreeing: 1}, "no sign of merged experts was seen, and 1 start of 1 kind found nothing better"},
		{pass, Evidence{Starts: 404, Kinds: 6, Agreeing: 5, Survey: true, Met: 2},
			"404 starts of 6 kinds found nothing better, but only 2 of the survey's met it: the likelihood has many optima, and there may be a better one"},
		{pass, Evidence{Starts: 404, Kinds: 6, Agreeing: 4, Survey: true},
			"404 starts of 6 kinds found nothing better, but none of the survey's met it: the likelihood has many optima, and there may be a better one"},
		{[]Test{{Name: testResiduals, PValue: 1e-9}}, Evidence{Starts: 4, Kinds: 2, Agreeing: 3},
			"4 starts of 2 kinds found nothing better; the tests that do not depend on the noise's shape pass"},
		{[]Test{{Name: testGate, PValue: 1e-9, Robust: true}}, Evidence{Starts: 16, Kinds: 2, Agreeing: 3},
			"the tests speak against it or the model, but 16 starts of 2 kinds found nothing better, and 3 agree on it"},
		{[]Test{{Name: testGate, PValue: 1e-9, Robust: true}}, Evidence{Starts: 1, Kinds: 1, Agreeing: 1},
			"the tests speak against it (p = 1e-09), and 1 of 1 starts agree on it; a better one that 25 % of starts would reach has a probability of 0.56"},
	} {
		if got := Judge(c.tests, c.e).Reason; got != c.want {
			t.Errorf("%+v: %s, want %s", c.e, got, c.want)
		}
	}
}
