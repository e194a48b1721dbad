package report

import (
	"fmt"
	"html/template"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/report/numeral"
)

// Activations names those of a mixture: act, or leaves where the experts have several, as
// in "identity, relu".
func Activations(act fitted.Activation, leaves []fitted.Activation) string {
	if leaves == nil {
		return act.String()
	}
	var names []string
	for _, leaf := range leaves {
		names = append(names, leaf.String())
	}
	return strings.Join(names, ", ")
}

// howMany is the number of experts, with their activation where they have one, and the
// tree that they stand in: "4 relu experts in the tree 2x2".
func howMany(m *fitted.Model) string {
	what := "expert"
	if m.Leaves == nil {
		what = m.Activation.String() + " expert"
	}
	out := numeral.Plural(m.K, what)
	if m.Hierarchy != "" {
		out += " in the tree " + m.Hierarchy
	}
	if m.ZeroExpert {
		out += " and a zero expert"
	}
	return out
}

// zero says how probable the zero expert is; "" where there is none.
func zero(m *fitted.Model) string {
	if !m.ZeroExpert {
		return ""
	}
	return fmt.Sprintf("Zero expert: a proportion of %s, and a target of 0 whatever the features.",
		numeral.Significant(m.ZeroProportion()))
}

// activationOf is that of expert i.
func activationOf(m *fitted.Model, i int) string {
	if m.Leaves == nil {
		return m.Activation.String()
	}
	return m.Leaves[i].String()
}

// branchLabels names the rows of the gating, each by the experts under its branch and
// under the last of its gate: "1-2 / 3-4". Under one gate they are the experts' numbers.
func branchLabels(m *fitted.Model) []string {
	if m.Hierarchy == "" {
		return numbers(model.Gates(m.Classes()))
	}
	out := make([]string, m.K-1)
	for _, g := range m.Params().Tree.Gates() {
		last := len(g.Ends) - 1
		for c := range last {
			out[g.Row(c)] = leavesOf(g.Branch(c)) + " / " + leavesOf(g.Branch(last))
		}
	}
	return out
}

// leavesOf is the experts from ≤ i < to, counted from 1: "3" or "3-4".
func leavesOf(from, to int) string {
	if to == from+1 {
		return fmt.Sprint(to)
	}
	return fmt.Sprintf("%d-%d", from+1, to)
}

// gateTitle heads the table of the gates.
func gateTitle(m *fitted.Model) string {
	if m.Hierarchy == "" {
		if m.ZeroExpert {
			return "Gate (the zero expert is 0)"
		}
		return fmt.Sprintf("Gate (expert %d is 0)", m.K)
	}
	return "Gates (branch / last of its gate)"
}

// treeLine is a branch of a drawn tree.
type treeLine struct {
	depth  int
	before string  // what is drawn before it
	share  float64 // of the rows
	text   string
	toward string // where it gains on the last of its gate; "" for that
	expert int    // −1 for a branch with a gate of its own
}

// treeLines are the branches of a model's tree, those of every gate below each other,
// with their shares of the rows and the direction in which each gains on the last of its
// gate: the unit vector of its predictor, whose length is |w|.
func treeLines(m *fitted.Model) (out []treeLine) {
	if m.Hierarchy == "" {
		return nil
	}
	p := m.Params()
	var below func(h model.Hierarchy, from, depth int, before string)
	below = func(h model.Hierarchy, from, depth int, before string) {
		for c, b := range h.Branches {
			to, last := from+b.Leaves(), c == len(h.Branches)-1
			line := treeLine{depth: depth, before: before + "├─ ", share: floats.Sum(m.Proportions[from:to]),
				expert: -1}
			next := before + "│  "
			if last {
				line.before, next = before+"└─ ", before+"   "
			}
			if len(b.Branches) == 0 {
				line.expert, line.text = from, fmt.Sprintf("expert %d, %s", from+1, activationOf(m, from))
			} else {
				line.text = "experts " + leavesOf(from, to)
			}
			if !last {
				line.toward = split(m, p.Gate(to-1))
			}
			out = append(out, line)
			below(b, from, depth+1, next)
			from = to
		}
	}
	below(p.Tree, 0, 0, "")
	return out
}

// split says where a branch gains on the last of its gate.
func split(m *fitted.Model, w []float64) string {
	norm := floats.Norm(w, 2)
	if norm == 0 {
		return ""
	}
	unit := make([]float64, len(w))
	floats.ScaleTo(unit, 1/norm, w)
	for j, v := range unit {
		unit[j] = toHundredths(v)
	}
	return fmt.Sprintf("; towards %s (|w| %.3g)", terms(m.Features, unit), norm)
}

// toHundredths is v to two places.
func toHundredths(v float64) float64 {
	const places = 100
	if v < 0 {
		return -float64(int(-v*places+0.5)) / places
	}
	return float64(int(v*places+0.5)) / places
}

// drawnTree is the tree for a terminal.
func drawnTree(m *fitted.Model) (lines []string) {
	for _, l := range treeLines(m) {
		lines = append(lines, fmt.Sprintf("%s%s %s", l.before, numeral.Percent(l.share), l.text+l.toward))
	}
	if lines != nil {
		lines = append([]string{"", "Tree (shares of the rows; the direction in which a branch gains on the last of " +
			"its gate)"}, lines...)
	}
	return lines
}

// treeSection is the tree on a page; false where there is none.
func treeSection(m *fitted.Model) (section, bool) {
	lines := treeLines(m)
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
		if l.toward != "" {
			s.Items = append(s.Items, l.text+l.toward)
		}
	}
	return s, true
}

// treePicture draws the tree: a row for every branch, indented by its depth, joined to
// that of its gate.
func treePicture(m *fitted.Model, lines []treeLine) template.HTML {
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
		thick := max(1, 16*l.share)
		class := "plain"
		if l.expert >= 0 {
			class = colour(l.expert)
		}
		fmt.Fprintf(&b,
			`<path d="M%s %sV%sH%s" fill="none" stroke="currentColor" stroke-opacity="0.35" stroke-width="%s"/>`,
			n(x(l.depth)), n(y(parent[l.depth])+5), n(y(i)), n(x(l.depth+1)-5), n(thick))
		fmt.Fprintf(&b, `<circle cx="%s" cy="%s" r="5" class="%s"/>`, n(x(l.depth+1)), n(y(i)), class)
		fmt.Fprintf(&b, `<text x="%s" y="%s" class="label">%s %s</text>`, n(x(l.depth+1)+12), n(y(i)+4),
			numeral.Percent(l.share), template.HTMLEscapeString(l.text))
		parent[l.depth+1] = i
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}
