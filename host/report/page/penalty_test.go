package page

import (
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/fitted"
)

// TestPenaltySection: a picture of the rows left out for each penalty that was chosen among some, the one taken green, and of
// each expert's slopes a curve for every feature that it sees; nothing where nothing was compared.
func TestPenaltySection(t *testing.T) {
	point := func(lambda, held float64, slopes ...[]float64) fitted.PenalisedPoint {
		p := fitted.PenalisedPoint{Lambda: lambda, Slopes: slopes}
		if held != 0 {
			p.HeldOut = &held
		}
		return p
	}
	m := &fitted.Model{K: 2, D: 3, Features: []string{"age", "sex<m>", "site"}, Penalised: &fitted.Penalised{
		Lambda: 0.1, Path: []fitted.PenalisedPoint{point(0.01, -20), point(0.1, -19), point(1, -21), point(10, 0)},
		ExpertPenalty: fitted.Lasso, ExpertLambda: 3, ExpertPath: []fitted.PenalisedPoint{
			point(0, -30, []float64{2, -1, 0}, []float64{1, 1, 1}), point(1, -25, []float64{1, -0.5, 0}, []float64{0, 0.5, 0.4}),
			point(3, -26, []float64{0, 0, 0}, []float64{0, 0, 0}),
		}}}
	s, ok := penaltySection(m)
	if !ok || len(s.Pictures) != 4 {
		t.Fatalf("%d pictures", len(s.Pictures))
	}
	for i, want := range []struct {
		dots, curves int
		has          []string
		without      string
	}{
		{3, 1, []string{"gate, a ridge", "<title>lambda 0.1: -19.00</title><circle cx=\"282\" cy=\"35.2\" r=\"4.5\" class=\"good\""}, ">none<"},
		{3, 1, []string{"experts, a lasso", ">none<", "<title>lambda 3: -26.00</title>"}, "sex"},
		{0, 2, []string{"slopes of expert 1", "<title>sex&lt;m&gt;</title>", ">none<", "stroke e0", "ink dashed"}, "site"},
		{0, 3, []string{"slopes of expert 2", "<title>site</title>", "stroke e1"}, "stroke e0"},
	} {
		picture := string(s.Pictures[i])
		if dots, curves := strings.Count(picture, "<circle"), strings.Count(picture, "<polyline"); dots != want.dots || curves != want.curves ||
			strings.Count(picture, `class="good"`) != min(1, want.dots) {
			t.Errorf("picture %d has %d dots and %d curves, want %d and %d", i, dots, curves, want.dots, want.curves)
		}
		for _, text := range want.has {
			if !strings.Contains(picture, text) {
				t.Errorf("picture %d has no %q:\n%s", i, text, picture)
			}
		}
		if strings.Contains(picture, want.without) {
			t.Errorf("picture %d has %q", i, want.without)
		}
	}
	m.Penalised = &fitted.Penalised{Lambda: 1, Path: []fitted.PenalisedPoint{point(1, 0)}}
	if s, ok := penaltySection(m); ok {
		t.Errorf("of a ridge that was given there is %q", s.Title)
	}
	m.Penalised = nil
	if _, ok := penaltySection(m); ok {
		t.Error("of no penalty there is a section")
	}
}
