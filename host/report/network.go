package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/network"
	"github.com/gatedlearning/moe/internal/shown"
)

// NetworkCheck writes the conditions of 003 for the activation of that name, and
// the spectrum of the Hessian at the weights of n, which are named by where.
func NetworkCheck(w io.Writer, name, where string, n *model.Network, c *network.Check) error {
	out := bufio.NewWriter(w)
	answer := "can be recovered"
	if !c.Holds() {
		answer = "have no guarantee of being recovered"
	}
	fmt.Fprintf(out, "Networks with one hidden layer of %s units %s.\n", name, answer)
	for _, r := range c.Reasons() {
		fmt.Fprintf(out, "  - %s\n", r)
	}
	fmt.Fprintln(out)
	for _, p := range []struct {
		name, says string
		holds      bool
	}{
		{"P1", "0 <= phi'(z) <= L|z|^p", c.Conditions.P1},
		{"P2", fmt.Sprintf("rho(s) > 0 for s from %.4g to %.4g, least beside its terms at %.4g", c.Range[0].Sigma,
			c.Range[len(c.Range)-1].Sigma, c.Worst.Sigma), c.P2},
		{"P3", "|phi''| <= L, or piecewise linear", c.Conditions.P3},
	} {
		verdict := "holds"
		if !p.holds {
			verdict = "fails"
		}
		fmt.Fprintf(out, "%s  %s  %s\n", p.name, verdict, p.says)
	}
	fmt.Fprintln(out)
	for _, r := range c.Rho {
		fmt.Fprintf(out, "rho(%.4g) = %.6g\n", r.Sigma, zeroOr(r.Rho, 1e-12*r.Scale))
	}
	values := c.Hessian.Values
	fmt.Fprintf(out, "\nHessian of the expected loss at %s (k = %d, d = %d): least eigenvalue %.6g, largest %.6g, "+
		"null space of dimension %d.\n",
		where, n.K, n.D, c.Hessian.Least(), values[len(values)-1], c.Hessian.Null)
	return out.Flush()
}

// zeroOr is v, or 0 where only rounding of this size keeps it from 0.
func zeroOr(v, rounding float64) float64 {
	if v <= rounding && v >= -rounding {
		return 0
	}
	return v
}

// Network writes a fitted network for a terminal: the answer in a line, the
// verdicts, a column for every unit, the starts, and the notes.
func Network(w io.Writer, n *fitted.Network) error {
	out := bufio.NewWriter(w)
	f := n.Fit
	fmt.Fprintln(out, networkAnswer(n))
	for _, line := range []string{networkTruth(f), ofTensors(n)} {
		if line != "" {
			fmt.Fprintln(out, line)
		}
	}
	for _, line := range verdicts(f.Certificate) {
		fmt.Fprintln(out, line)
	}
	writeTable(out, units(n))
	if len(f.Starts) > 0 {
		writeTable(out, networkStarts(f))
	}
	if c := f.Certificate; c != nil && len(c.Tests) > 0 {
		writeTable(out, tests(c))
	}
	for i, note := range f.Notes {
		if i == 0 {
			fmt.Fprintln(out, "\nNotes")
		}
		fmt.Fprintf(out, "  - %s\n", shown.Line(note))
	}
	return out.Flush()
}

// networkAnswer is the fit in one line.
func networkAnswer(n *fitted.Network) string {
	f := n.Fit
	answer := "Converged"
	switch {
	case f.Method == "init":
		answer = "Moment tensors"
	case !f.Converged:
		answer = "Not converged (" + f.Status + ")"
	}
	return fmt.Sprintf("%s: %s over %s, residual rms %s, loss %.6g on %s (output weights: %s).",
		answer, plural(n.K, n.Activation.String()+" unit"), plural(n.D, "feature"), significant(n.Sigma), f.Loss,
		plural(f.N, "row"), f.Output)
}

// networkTruth says how far the fit is from known weights; "" where there are none.
func networkTruth(f *fitted.NetworkFit) string {
	if f.Truth == nil {
		return ""
	}
	return fmt.Sprintf("Against the truth: relative error of W %.3g, of v %.3g, of directions %.3g.",
		f.Truth.RelativeError, f.Truth.OutputError, f.Truth.EReg)
}

// ofTensors says what the tensors were; "" where there were none.
func ofTensors(n *fitted.Network) string {
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
	fmt.Fprintf(&out, "; %.2g of the tensor is left by its %s.", t.Residual, plural(n.K, "term"))
	return out.String()
}

// units is a table with a column for every unit.
func units(n *fitted.Network) [][]string {
	head := []string{""}
	v := []string{"v"}
	for i := range n.K {
		head = append(head, fmt.Sprintf("unit %d", i+1))
		v = append(v, significant(n.OutputWeights[i]))
	}
	out := [][]string{head, v}
	for j, name := range n.Features {
		if j == maxFeatures {
			out = append(out, []string{"…"})
			break
		}
		row := []string{shown.Name(name)}
		for i := range n.K {
			row = append(row, significant(n.Weights[i][j]))
		}
		out = append(out, row)
	}
	return out
}

func networkStarts(f *fitted.NetworkFit) [][]string {
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
