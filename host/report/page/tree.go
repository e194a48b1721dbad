package page

import (
	"fmt"
	"html/template"
	"strings"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/report"
	"github.com/gatedlearning/moe/host/report/numeral"
)

// treeSection is the tree on a page; false where there is none.
func treeSection(m *fitted.Model) (section, bool) {
	lines := report.TreeLines(m)
	if lines == nil {
		return section{}, false
	}
	s := section{
		Title: "Tree",
		Reading: "Branches of the gates from left to right, as thick as their shares of the rows by the gates. " +
			"Above, the direction in which each gains on the " +
			"last branch of its gate, a unit vector, and the length of the gate's predictor.",
		Stack:    true,
		Pictures: []template.HTML{treePicture(m, lines)},
	}
	for _, l := range lines {
		if l.Toward != "" {
			s.Items = append(s.Items, l.Text+l.Toward)
		}
	}
	return s, true
}

// treePicture draws the tree: a row for every branch, indented by its depth, joined to
// that of its gate.
func treePicture(m *fitted.Model, lines []report.TreeLine) template.HTML {
	const step, indent, width = 34.0, 46.0, 760.0
	var b strings.Builder
	y := func(i int) float64 { return 20 + step*float64(i+1) }
	x := func(depth int) float64 { return 12 + indent*float64(depth) }
	fmt.Fprintf(&b, `<svg viewBox="0 0 %s %s" role="img" aria-label="tree of gates %s">`, n(width),
		n(y(len(lines)-1)+20), template.HTMLEscapeString(m.Hierarchy))
	fmt.Fprintf(&b, `<circle cx="%s" cy="%s" r="4" class="plain"/><text x="%s" y="%s" class="label">all rows</text>`,
		n(x(0)), n(y(-1)), n(x(0)+12), n(y(-1)+4))
	parent := map[int]int{0: -1} // the row of the gate at each depth
	for i, l := range lines {
		thick := max(1, 16*l.Share)
		class := "plain"
		if l.Expert >= 0 {
			class = colour(l.Expert)
		}
		fmt.Fprintf(&b,
			`<path d="M%s %sV%sH%s" fill="none" stroke="currentColor" stroke-opacity="0.35" stroke-width="%s"/>`,
			n(x(l.Depth)), n(y(parent[l.Depth])+5), n(y(i)), n(x(l.Depth+1)-5), n(thick))
		fmt.Fprintf(&b, `<circle cx="%s" cy="%s" r="5" class="%s"/>`, n(x(l.Depth+1)), n(y(i)), class)
		fmt.Fprintf(&b, `<text x="%s" y="%s" class="label">%s %s</text>`, n(x(l.Depth+1)+12), n(y(i)+4),
			numeral.Percent(l.Share), template.HTMLEscapeString(l.Text))
		parent[l.Depth+1] = i
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}
