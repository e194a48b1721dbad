package page

import (
	"fmt"
	"html/template"
	"slices"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/report/diagnosis"
	"github.com/gatedlearning/moe/host/report/numeral"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/shown"
)

// profileSection draws experts and gate along columns.
func profileSection(m *fitted.Model, d *diagnosis.Diagnosis) section {
	s := section{Title: "Along the columns that the " + profiled(m, d.Profiles) + " the most", Wide: true}
	of := "above each expert's mean, dashed where hardly a row is its own, below the gate's probabilities"
	if m.Classes() == 1 {
		of = "the expert's mean"
	}
	s.Reading = fmt.Sprintf("One column at a time, the others at their median, factors at their commonest level: %s. "+
		"Ticks are rows. "+
		"Where columns go together no row may be near these lines.", of)
	if m.Classes() > 1 && slices.ContainsFunc(d.Profiles, func(p diagnosis.Profile) bool {
		return !p.OfGate || !p.OfExperts
	}) {
		s.Reading += " What does not depend on a column is not drawn along it."
	}
	if d.Kept < d.Rows {
		s.Reading += fmt.Sprintf(" Medians and ticks are of %d of the %d rows, evenly.", d.Kept, d.Rows)
	}
	s.Reading += atOffset(d)
	y := make([]float64, len(d.Points))
	for i, p := range d.Points {
		y[i] = p.Y
	}
	lo, hi := numeric.Extent(y)
	for _, p := range d.Profiles {
		if p.Levels != nil {
			s.Pictures = append(s.Pictures, stacked(levelCharts(m, d, &p, lo, hi)))
			continue
		}
		var charts []template.HTML
		if p.OfExperts {
			charts = append(charts, lineChart(d, &p, lo, hi))
		}
		if p.OfGate {
			charts = append(charts, gateAlong(m, &p))
		}
		s.Pictures = append(s.Pictures, stacked(charts))
	}
	return s
}

// profiled says what depends on the columns that are drawn: those of the gate come first.
func profiled(m *fitted.Model, profiles []diagnosis.Profile) string {
	switch {
	case m.Classes() == 1:
		return "expert depends on"
	case !profiles[0].OfGate:
		return "experts depend on"
	case profiles[len(profiles)-1].OfGate:
		return "gate depends on"
	}
	return "gate and the experts depend on"
}

// atOffset says where curves are drawn that an offset moves.
func atOffset(d *diagnosis.Diagnosis) string {
	if d.Offset == nil {
		return ""
	}
	return fmt.Sprintf(" The offset %s is at its median, %s.", shown.Name(d.Offset.Column),
		numeral.Significant(d.Offset.Value))
}

// stacked are pictures one below the other.
func stacked(charts []template.HTML) (out template.HTML) {
	for _, c := range charts {
		out += c
	}
	return out
}

// lineChart draws the experts' means along a column of numbers, as far as the target goes.
func lineChart(d *diagnosis.Diagnosis, p *diagnosis.Profile, lo, hi float64) template.HTML {
	pad := 0.05 * (hi - lo)
	c := newChart("experts along "+shown.Name(p.Name), p.At[0], p.At[len(p.At)-1], lo-pad, hi+pad)
	c.height = 220
	c.xLabel, c.yLabel = shown.Name(p.Name), shown.Name(d.Drawn)
	for i, means := range p.Means {
		c.named(fmt.Sprintf("expert %d", i+1), func() { c.parts(p.At, means, p.Gate[i], "stroke "+colour(i)) })
	}
	c.ticks(p.Ticks)
	return c.svg()
}

// gateAlong draws the gate's probabilities along a column of numbers.
func gateAlong(m *fitted.Model, p *diagnosis.Profile) template.HTML {
	c := newChart("gate along "+shown.Name(p.Name), p.At[0], p.At[len(p.At)-1], 0, 1)
	c.height = 160
	c.xLabel, c.yLabel = shown.Name(p.Name), "probability"
	for i, gate := range p.Gate {
		name, class, _ := gated(m, i)
		c.named(name, func() { c.line(p.At, gate, class) })
	}
	c.ticks(p.Ticks)
	return c.svg()
}

// gated is what the gate's i-th line is called, and the classes of the line and of its dots: those of an expert, or of
// the zero expert.
func gated(m *fitted.Model, i int) (name, line, dots string) {
	if i == m.K {
		return "zero expert", "thin", "plain"
	}
	return fmt.Sprintf("expert %d", i+1), "stroke " + colour(i), colour(i)
}

// mostLevels is how many levels of a factor a picture has.
const mostLevels = 20

// levelCharts draw experts and gate by the levels of a factor, the first of them where these are many.
func levelCharts(m *fitted.Model, d *diagnosis.Diagnosis, p *diagnosis.Profile, lo,
	hi float64) (out []template.HTML) {
	var names []string
	for _, level := range p.Levels[:min(len(p.Levels), mostLevels)] {
		names = append(names, shown.Name(p.Name)+": "+shown.Name(level))
	}
	if more := len(p.Levels) - len(names); more > 0 {
		names[len(names)-1] += fmt.Sprintf(" (and %d more, not drawn)", more)
	}
	if p.OfExperts {
		pad := 0.05 * (hi - lo)
		means := rowChart("experts by "+shown.Name(p.Name), shown.Name(d.Drawn), names, lo-pad, hi+pad)
		for i := range m.K {
			means.dots(i, m.K, len(names), func(row int) (float64, bool) {
				v := p.Means[i][row]
				return v, v >= means.x0 && v <= means.x1
			}, func(row int) bool { return p.Gate[i][row] < hardly }, colour(i))
		}
		out = append(out, means.svg())
	}
	if p.OfGate {
		gate := rowChart("gate by "+shown.Name(p.Name), "probability", names, 0, 1)
		for i := range p.Gate {
			_, _, class := gated(m, i)
			gate.dots(i, len(p.Gate), len(names), func(row int) (float64, bool) { return p.Gate[i][row], true },
				func(int) bool { return false }, class)
		}
		out = append(out, gate.svg())
	}
	return out
}
