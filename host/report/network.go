package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/gatedlearning/moe/host/network/networkfile"
	"github.com/gatedlearning/moe/host/report/numeral"
	"github.com/gatedlearning/moe/internal/shown"
)

// Network writes a fitted network for a terminal: the answer in a line, the
// verdicts, a column for every unit, the starts, and the notes.
func Network(w io.Writer, n *networkfile.Network) error {
	out := bufio.NewWriter(w)
	f := n.Fit
	fmt.Fprintln(out, NetworkAnswer(n))
	for _, line := range []string{NetworkTruth(f), OfTensors(n)} {
		if line != "" {
			fmt.Fprintln(out, line)
		}
	}
	for _, line := range Verdicts(f.Certificate) {
		fmt.Fprintln(out, line)
	}
	writeTable(out, Units(n))
	if len(f.Starts) > 0 {
		writeTable(out, NetworkStarts(f))
	}
	if c := f.Certificate; c != nil && len(c.Tests) > 0 {
		writeTable(out, Tests(c))
	}
	for i, note := range f.Notes {
		if i == 0 {
			fmt.Fprintln(out, "\nNotes")
		}
		fmt.Fprintf(out, "  - %s\n", shown.Line(note))
	}
	return out.Flush()
}

// NetworkAnswer is the fit in one line.
func NetworkAnswer(n *networkfile.Network) string {
	f := n.Fit
	answer := "Converged"
	switch {
	case f.Method == "init":
		answer = "Moment tensors"
	case !f.Converged:
		answer = "Not converged (" + f.Status + ")"
	}
	return fmt.Sprintf("%s: %s over %s, residual rms %s, loss %.6g on %s (output weights: %s).",
		answer, numeral.Plural(n.K, n.Activation.String()+" unit"), numeral.Plural(n.D, "feature"),
		numeral.Significant(n.Sigma), f.Loss,
		numeral.Plural(f.N, "row"), f.Output)
}

// NetworkTruth says how far the fit is from known weights; "" where there are none.
func NetworkTruth(f *networkfile.NetworkFit) string {
	if f.Truth == nil {
		return ""
	}
	return fmt.Sprintf("Against the truth: relative error of W %.3g, of v %.3g, of directions %.3g.",
		f.Truth.RelativeError, f.Truth.OutputError, f.Truth.EReg)
}

// OfTensors says what the tensors were; "" where there were none.
func OfTensors(n *networkfile.Network) string {
	t := n.Fit.Tensors
	if t == nil {
		return ""
	}
	var out strings.Builder
	fmt.Fprintf(&out, "Moment tensors of orders %d and %d; eigenvalues", t.Orders[0], t.Orders[1])
	for i, v := range t.Eigenvalues {
		if i == n.K {
			fmt.Fprint(&out, ", then")
		}
		fmt.Fprintf(&out, " %.3g", v)
	}
	fmt.Fprintf(&out, "; %.2g of the tensor is left by its %s.", t.Residual, numeral.Plural(n.K, "term"))
	return out.String()
}

// Units is a table with a column for every unit.
func Units(n *networkfile.Network) [][]string {
	head := []string{""}
	v := []string{"v"}
	for i := range n.K {
		head = append(head, fmt.Sprintf("unit %d", i+1))
		v = append(v, numeral.Significant(n.OutputWeights[i]))
	}
	out := [][]string{head, v}
	for j, name := range n.Features {
		if j == MaxFeatures {
			out = append(out, []string{"…"})
			break
		}
		row := []string{shown.Name(name)}
		for i := range n.K {
			row = append(row, numeral.Significant(n.Weights[i][j]))
		}
		out = append(out, row)
	}
	return out
}

// NetworkStarts shows where every start ended.
func NetworkStarts(f *networkfile.NetworkFit) [][]string {
	out := [][]string{{"start", "loss", "after descent", "rate", "at the end", "status", "agrees"}}
	for _, s := range f.Starts {
		agrees := ""
		if s.Agrees {
			agrees = "yes"
		}
		out = append(out, []string{s.Kind, fmt.Sprintf("%.4g", s.LossAtStart), fmt.Sprintf("%.4g", s.LossDescent),
			fmt.Sprintf("%.4g", s.Rate),
			fmt.Sprintf("%.6g", s.Loss), s.Status, agrees})
	}
	return out
}
