package verdict

import (
	"bufio"
	"fmt"
	"io"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/network"
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
