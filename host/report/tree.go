package report

import (
	"fmt"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/report/numeral"
)

// Activations names those of a mixture: act, or leaves where the experts have several, as
// in "identity, relu".
func Activations(act stated.Activation, leaves []stated.Activation) string {
	if leaves == nil {
		return act.String()
	}
	var names []string
	for _, leaf := range leaves {
		names = append(names, leaf.String())
	}
	return strings.Join(names, ", ")
}

// HowMany is the number of experts, with their activation where they have one, and the
// tree that they stand in: "4 relu experts in the tree 2x2".
func HowMany(m *fitted.Model) string {
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

// Zero says how probable the zero expert is; "" where there is none.
func Zero(m *fitted.Model) string {
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

// TreeLine is a branch of a drawn tree.
type TreeLine struct {
	Depth  int
	before string  // what is drawn before it
	Share  float64 // of the rows
	Text   string
	Toward string // where it gains on the last of its gate; "" for that
	Expert int    // −1 for a branch with a gate of its own
}

// TreeLines are the branches of a model's tree, those of every gate below each other,
// with their shares of the rows and the direction in which each gains on the last of its
// gate: the unit vector of its predictor, whose length is |w|.
func TreeLines(m *fitted.Model) (out []TreeLine) {
	if m.Hierarchy == "" {
		return nil
	}
	p := m.Params()
	var below func(h model.Hierarchy, from, depth int, before string)
	below = func(h model.Hierarchy, from, depth int, before string) {
		for c, b := range h.Branches {
			to, last := from+b.Leaves(), c == len(h.Branches)-1
			line := TreeLine{Depth: depth, before: before + "├─ ", Share: floats.Sum(m.Proportions[from:to]),
				Expert: -1}
			next := before + "│  "
			if last {
				line.before, next = before+"└─ ", before+"   "
			}
			if len(b.Branches) == 0 {
				line.Expert, line.Text = from, fmt.Sprintf("expert %d, %s", from+1, activationOf(m, from))
			} else {
				line.Text = "experts " + leavesOf(from, to)
			}
			if !last {
				line.Toward = split(m, p.Gate(to-1))
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
	for _, l := range TreeLines(m) {
		lines = append(lines, fmt.Sprintf("%s%s %s", l.before, numeral.Percent(l.Share), l.Text+l.Toward))
	}
	if lines != nil {
		lines = append([]string{"", "Tree (shares of the rows; the direction in which a branch gains on the last of " +
			"its gate)"}, lines...)
	}
	return lines
}
