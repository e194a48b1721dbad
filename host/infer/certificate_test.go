package infer

import "testing"

func TestJudge(t *testing.T) {
	tests := func(residuals, gate float64) []Test {
		return []Test{{Name: testResiduals, PValue: residuals}, {Name: testGate, PValue: gate, Robust: true}}
	}
	for _, c := range []struct {
		name           string
		tests          []Test
		evidence       Evidence
		optimum, model string
		cause          string // of the first test
	}{
		{"all pass, one start", tests(0.1, 0.02), Evidence{1, 1}, Pass, Pass, ""},
		{"no tests", nil, Evidence{1, 1}, Pass, Pass, ""},
		{"residuals fail, one start", tests(1e-9, 0.5), Evidence{1, 1}, Suspect, Suspect, noiseCause},
		{"residuals fail, three agree", tests(1e-9, 0.5), Evidence{4, 3}, Pass, Suspect, noiseCause},
		{"all fail, three agree", tests(1e-9, 1e-9), Evidence{4, 3}, Suspect, Suspect, causes[testResiduals]},
		{"all fail, too few starts", tests(1e-9, 1e-9), Evidence{StartsWanted - 1, StartsWanted - 1}, Suspect, Suspect, causes[testResiduals]},
		{"all fail, enough starts", tests(1e-9, 1e-9), Evidence{StartsWanted, 3}, Pass, Suspect, causes[testResiduals]},
		{"all fail, few agree of many", tests(1e-9, 1e-9), Evidence{32, 2}, Suspect, Suspect, causes[testResiduals]},
		{"at the level", tests(Level/2*1.001, 1), Evidence{1, 1}, Suspect, Pass, ""},
		{"at the doubt", tests(Doubt/2*1.001, 1), Evidence{1, 1}, Pass, Pass, ""},
		{"doubt, residuals alone, three agree", tests(Doubt/2*0.999, 1), Evidence{4, 3}, Pass, Pass, ""},
		{"doubt, three agree", tests(1, Doubt/2*0.999), Evidence{4, 3}, Suspect, Pass, ""},
		{"below the level", tests(Level/2*0.999, 1), Evidence{1, 1}, Suspect, Suspect, noiseCause},
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
