package verdict

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/gatedlearning/moe/solver"
)

// Family is what there is to say without data about an activation where y is not normal about its mean.
type Family struct {
	Name       string          // of the activation, with its parameters
	Law        string          // of y, with its parameters
	Optimal    *solver.Optimal // for Design.K experts
	Polynomial solver.Noise
	Design     solver.Design
}

// Valid says whether the tensors that an estimate needs can be made: T2, and T4 or T3.
func (f Family) Valid() bool {
	return f.Optimal.Noise.Learns(4) || f.Optimal.Noise.Learns(3)
}

// Signs says whether they tell the regressors' signs: T3 or the first moment does.
func (f Family) Signs() bool { return f.Valid() && (f.Optimal.Has(1) || f.Optimal.Has(3)) }

// Reasons say why it is not valid; none where it is.
func (f Family) Reasons() (reasons []string) {
	if f.Valid() {
		return nil
	}
	for _, r := range solver.Orders() {
		if why := f.Optimal.Reason(r); why != "" {
			reasons = append(reasons, fmt.Sprintf("there is no T%d: %s", r, why))
		}
	}
	return reasons
}

// Least are the rows by the transforms of minimum variance.
func (f Family) Least() Rows { return RowsOf(f.Optimal.Noise, f.Design) }

// Text writes the verdict in one sentence, then what it rests on.
func (f Family) Text(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	least := f.Least()
	switch {
	case !f.Valid():
		fmt.Fprintf(t, "%s is NOT valid for %s: a fit begins from other starts than moments.\n", f.Name, f.Law)
	default:
		signs := "with their signs"
		if !f.Signs() {
			signs = "up to their signs"
		}
		fmt.Fprintf(t, "%s is valid for %s: regressors can be learned from moments, %s; k = %d and d = %d take about "+
			"%s rows.\n", f.Name, f.Law, signs, f.Design.K, f.Design.D, rounded(least.fewest()))
	}
	for _, reason := range f.Reasons() {
		fmt.Fprintln(t, "  because", reason)
	}
	fmt.Fprintf(t, "\ntransforms of minimum variance, k = %d\n", f.Optimal.K)
	varianceTable(t, f.Optimal, f.Polynomial, RowsOf(f.Polynomial, f.Design), least)
	return t.Flush()
}
