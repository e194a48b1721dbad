package infer

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	tests := func(residuals, gate float64) []Test {
		return []Test{failing(ResidualsTest, residuals), failing(GateTest, gate)}
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
		{"all fail, a survey that has met others more often", tests(1e-9, 1e-9), Evidence{Starts: 272, Kinds: 6, Agreeing: 13, Survey: true, Met: 13, Surveyed: care(248, 13, 0.1)}, NotJudged, Suspect, noiseCause},
		{"all fail, a survey that has met it more often", tests(1e-9, 1e-9), Evidence{Starts: 272, Kinds: 6, Agreeing: 26, Survey: true, Met: 26, Surveyed: care(248, 26, 0.1)}, Pass, Suspect, noiseCause},
		{"all pass, a survey that has met others more often", tests(0.1, 0.02), Evidence{Starts: 272, Kinds: 6, Agreeing: 13, Survey: true, Met: 13, Surveyed: care(248, 13, 0.1)}, Pass, Pass, ""},
		{"all fail, a survey of which two agree", tests(1e-9, 1e-9), Evidence{Starts: 404, Kinds: 6, Agreeing: 2, Survey: true, Met: 2}, Suspect, Suspect, noiseCause},
		{"no tests", nil, Evidence{Starts: 1, Kinds: 1, Agreeing: 1}, Pass, NotJudged, ""},
		{"residuals fail, one start", tests(1e-9, 0.5), Evidence{Starts: 1, Kinds: 1, Agreeing: 1}, Suspect, Suspect, noiseCause},
		{"residuals fail, three agree", tests(1e-9, 0.5), Evidence{Starts: 4, Kinds: 1, Agreeing: 3}, Pass, Suspect, noiseCause},
		{"all fail, three agree", tests(1e-9, 1e-9), Evidence{Starts: 4, Kinds: 1, Agreeing: 3}, Suspect, Suspect, noiseCause},
		{"all fail, too few starts", tests(1e-9, 1e-9), Evidence{Starts: StartsWanted - 1, Kinds: 1, Agreeing: StartsWanted - 1}, Suspect, Suspect, noiseCause},
		{"all fail, enough starts", tests(1e-9, 1e-9), Evidence{Starts: StartsWanted, Kinds: 1, Agreeing: 3}, Pass, Suspect, noiseCause},
		{"all fail, few agree of many", tests(1e-9, 1e-9), Evidence{Starts: 32, Kinds: 1, Agreeing: 2}, Suspect, Suspect, noiseCause},
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
		{"all fail, three agree, two of a survey's", tests(1e-9, 1e-9), Evidence{Starts: 404, Kinds: 6, Agreeing: 3, Survey: true, Met: 2}, NotJudged, Suspect, noiseCause},
		{"all fail, three of a survey's agree", tests(1e-9, 1e-9), Evidence{Starts: 404, Kinds: 6, Agreeing: 3, Survey: true, Met: 3}, Pass, Suspect, noiseCause},
		{"all pass, a spare expert, another search", tests(0.1, 0.02), Evidence{Starts: 4, Kinds: 2, Agreeing: 3, Care: care(StartsWanted, 3, 0.05), Another: Another{Made: true}}, Pass, Pass, ""},
		{"all pass, a spare expert, another search apart", tests(0.1, 0.02), Evidence{Starts: 4, Kinds: 2, Agreeing: 3, Care: care(StartsWanted, 3, 0.05), Another: Another{Made: true, Apart: 0.6}}, NotJudged, Pass, ""},
		{"all fail, two met it with care", tests(1e-9, 1e-9), Evidence{Starts: 32, Kinds: 1, Agreeing: 3, Care: care(400, 2, 0.01)}, NotJudged, Suspect, noiseCause},
		{"all fail, none agree, met with care", tests(1e-9, 1e-9), Evidence{Starts: 32, Kinds: 1, Agreeing: 2, Care: care(400, 9, 0.01)}, Suspect, Suspect, noiseCause},
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

// failing is a test with this p-value: a χ² with two degrees of freedom, whose survival function is exp(−s/2).
func failing(name string, p float64) Test {
	return Test{Name: name, PValue: p, Statistic: -2 * math.Log(p), DF: 2, Robust: name != ResidualsTest && name != CorrelationTest}
}

// TestOfGroups: a pass of the model is taken back where an expert has fewer than a group and a half, and no other
// verdict; of one expert nothing is asked, and nothing is said of the optimum.
func TestOfGroups(t *testing.T) {
	for _, c := range []struct {
		model  string
		shares []float64
		groups float64
		want   string
		says   string
	}{
		{Pass, []float64{0.5, 0.5}, 2, NotJudged, "expert 1 has 1 of 2 groups"},
		{Pass, []float64{0.9, 0.1}, 12, NotJudged, "expert 2 has 1.2 of 12 groups"},
		{Pass, []float64{0.2, 0.7, 0.1}, 14, NotJudged, "expert 3 has 1.4 of 14 groups"},
		{Pass, []float64{0.5, 0.5}, 3, Pass, ""},
		{Pass, []float64{0.9, 0.1}, 15.1, Pass, ""},
		{Pass, []float64{1}, 1, Pass, ""},
		{Suspect, []float64{0.5, 0.5}, 2, Suspect, ""},
		{NotJudged, []float64{0.5, 0.5}, 2, NotJudged, ""},
	} {
		got := &Certificate{Optimum: Pass, Model: c.model, Reason: "as it was"}
		got.OfGroups(c.shares, c.groups)
		if got.Model != c.want || got.Optimum != Pass || got.Reason != "as it was" ||
			!strings.HasPrefix(got.ModelReason, c.says) || (got.ModelReason == "") != (c.says == "") {
			t.Errorf("%s, shares %v of %v groups: %+v, want %s, %q", c.model, c.shares, c.groups, got, c.want, c.says)
		}
	}
}

// TestDependenceSaysNothingOfTheOptimum: rows that depend on each other make the model suspect,
// and send no search on.
func TestDependenceSaysNothingOfTheOptimum(t *testing.T) {
	got := Judge([]Test{failing(ResidualsTest, 0.5), failing(GateTest, 0.5), failing(DependenceTest, 1e-9)}, Evidence{Starts: 1, Kinds: 1, Agreeing: 1})
	if got.Optimum != Pass || got.Model != Suspect || got.Cause != suggests[DependenceTest] {
		t.Errorf("optimum %s, model %s: %s", got.Optimum, got.Model, got.Cause)
	}
}

// TestCauses: the largest statistic names the cause; too few experts are named first where tests of the means and of the
// residuals fail and one of the residuals has the largest; noise is what is left where its share of the
// others explains them.
func TestCauses(t *testing.T) {
	const least, less, much = 1e-9, 1e-20, 1e-60
	explained := func(t Test) Test {
		t.Noise = t.Statistic + 1
		return t
	}
	gate, experts, wide, rows := suggests[GateTest], suggests[InteractionsTest], suggests[SpreadTest], suggests[DependenceTest]
	for name, c := range map[string]struct {
		tests []Test
		want  []string
	}{
		"none":                           {[]Test{failing(ResidualsTest, 0.1), failing(GateTest, 0.1)}, nil},
		"the shape alone":                {[]Test{failing(ResidualsTest, less)}, []string{noiseCause}},
		"the shape and what it adds":     {[]Test{failing(ResidualsTest, much), explained(failing(InteractionsTest, least)), explained(failing(SpreadTest, least))}, []string{noiseCause}},
		"merged experts":                 {[]Test{failing(ResidualsTest, much), failing(InteractionsTest, less), failing(SpreadTest, least)}, []string{FewCause, noiseCause, experts, wide}},
		"merged experts, by the spread":  {[]Test{failing(SpreadTest, much), failing(InteractionsTest, less)}, []string{FewCause, wide, experts}},
		"a gate, seen twice":             {[]Test{failing(GateTest, less), failing(GateFeaturesTest, much)}, []string{gate}},
		"a gate, and the residuals less": {[]Test{failing(GateFeaturesTest, much), failing(ResidualsTest, least)}, []string{gate, noiseCause, FewCause}},
		"a product of features":          {[]Test{failing(InteractionsTest, much), failing(SpreadTest, less)}, []string{experts, wide, FewCause}},
		"noise that grows":               {[]Test{failing(ResidualsTest, much), failing(SpreadTest, less)}, []string{wide}},
		"rows in time":                   {[]Test{failing(DependenceTest, much), failing(ResidualsTest, least)}, []string{rows, noiseCause}},
		"a system that is none":          {[]Test{{Name: "units", Suggests: "merged units", PValue: much, Statistic: 500, DF: 2, Robust: true}, failing(GateTest, least)}, []string{FewCause, "merged units", gate}},
	} {
		var got []string
		judged := Judge(c.tests, Evidence{})
		for _, why := range judged.Causes {
			got = append(got, why.Text)
		}
		if !slices.Equal(got, c.want) || judged.Cause != strings.Join(c.want, ", or ") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	// Of two tests that suggest the same the features are those of the one that has some.
	features := failing(GateFeaturesTest, least)
	features.Features = []int{2, 3}
	if got := Judge([]Test{failing(GateTest, much), features}, Evidence{}).Causes; len(got) != 1 || !slices.Equal(got[0].Features, []int{2, 3}) {
		t.Errorf("causes %+v, want one with features", got)
	}
}

// TestReasons: a pass says what was not seen and how much was tried, not that
// the optimum is the best.
func TestReasons(t *testing.T) {
	pass := []Test{{Name: ResidualsTest, PValue: 0.5}}
	for _, c := range []struct {
		tests []Test
		e     Evidence
		want  string
	}{
		{pass, Evidence{Starts: 8, Kinds: 3, Agreeing: 3}, "no sign of merged experts was seen, and 8 starts of 3 kinds found nothing better"},
		{pass, Evidence{Starts: 1, Kinds: 1, Agreeing: 1}, "no sign of merged experts was seen, and 1 start of 1 kind found nothing better"},
		{pass, Evidence{Starts: 404, Kinds: 6, Agreeing: 5, Survey: true, Met: 2},
			"404 starts of 6 kinds found nothing better, but only 2 of the survey's reached it; better ones may exist"},
		{pass, Evidence{Starts: 404, Kinds: 6, Agreeing: 4, Survey: true},
			"404 starts of 6 kinds found nothing better, but none of the survey's reached it; better ones may exist"},
		{[]Test{{Name: ResidualsTest, PValue: 1e-9}}, Evidence{Starts: 4, Kinds: 2, Agreeing: 3},
			"4 starts of 2 kinds found nothing better, and 3 reached it"},
		{[]Test{{Name: GateTest, PValue: 1e-9, Robust: true}}, Evidence{Starts: 16, Kinds: 2, Agreeing: 3},
			"16 starts of 2 kinds found nothing better, and 3 reached it"},
		{[]Test{{Name: GateTest, PValue: 1e-9, Robust: true}}, Evidence{Starts: 1, Kinds: 1, Agreeing: 1},
			"only 1 start was made, and tests of the model fail; better ones are likely"},
		{[]Test{{Name: GateTest, PValue: 1e-9, Robust: true}}, Evidence{Starts: 184, Kinds: 3, Agreeing: 1},
			"only 1 of 184 starts reached it, and tests of the model fail; better ones are likely"},
		{[]Test{{Name: GateTest, PValue: 1e-9, Robust: true}}, Evidence{Starts: 4, Kinds: 3, Agreeing: 4},
			"4 starts are too few while tests of the model fail; better ones may exist"},
		{pass, Evidence{Starts: 16, Agreeing: 3, Flat: true, Care: Care{Taken: true, Spares: 1, Starts: 12, Placed: true}},
			"the data hardly ask for 1 expert, and none of 12 starts with an expert placed anew reached this optimum; better ones may exist"},
		{pass, Evidence{Starts: 16, Agreeing: 3, Flat: true, Care: Care{Taken: true, Spares: 1, Starts: 12}},
			"the data hardly ask for 1 expert, and none of 12 starts on all rows reached this optimum; better ones may exist"},
		{pass, Evidence{Starts: 4, Agreeing: 3, Parts: "units"}, "no sign of merged units was seen, and 4 starts found nothing better"},
	} {
		got := Judge(c.tests, c.e)
		if got.Reason != c.want {
			t.Errorf("%+v: %s, want %s", c.e, got.Reason, c.want)
		}
		if got.More != (got.Optimum != Pass) {
			t.Errorf("%+v: optimum %s, more starts %v", c.e, got.Optimum, got.More)
		}
	}
}
