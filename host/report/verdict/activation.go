// Package verdict says, without data, whether an activation can be learned with and from how many rows.
package verdict

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/gatedlearning/moe/internal/shown"
	"github.com/gatedlearning/moe/solver"
	"github.com/gatedlearning/moe/solver/properties"
)

// Activation is what there is to say about an activation without data.
type Activation struct {
	Name       string   // with its parameters, as in "leakyrelu(slope=0.1)"
	Notes      []string // what was found of its text, where it is an expression
	Validation *solver.Validation
	Optimal    *solver.Optimal      // for Design.K experts
	RhoRange   *properties.RhoRange // nil where φ′ grows too fast for ρ
	Design     solver.Design
	Polynomial Rows // of the polynomials
	Least      Rows // of the transforms of minimum variance

	Strong properties.StrongIdentifiability
}

// Rows are numbers of rows predicted for E_reg ≤ 0.01 in half of all data sets; 0
// where there is no prediction.
type Rows struct {
	L4       float64 // from T2 and T4
	Spectral float64 // from T2 and T3
}

// RowsOf predicts for a design.
func RowsOf(n solver.Noise, design solver.Design) (r Rows) {
	for order, to := range map[int]*float64{3: &r.Spectral, 4: &r.L4} {
		if design.Order = order; n.Learns(order) {
			*to = n.Samples(design, 0.01)
		}
	}
	return r
}

// Text writes the verdict in one sentence, then everything it rests on.
func (a Activation) Text(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, a.Sentence())
	v := a.Validation.Verdict
	for _, r := range v.Reasons {
		fmt.Fprintln(t, "  because", r)
	}
	for _, n := range a.Notes {
		fmt.Fprintln(t, " ", n)
	}
	a.transforms(t)
	a.system(t)
	conditions(t, v)
	a.noise(t)
	a.least(t)
	a.oneHiddenLayer(t)
	a.oneTooMany(t)
	fmt.Fprintf(t, "\nwhat it means\n%s\n", wrap(a.Meaning(), 78, "  "))
	return t.Flush()
}

// Sentence is the answer in one sentence.
func (a Activation) Sentence() string {
	v := a.Validation
	if !v.Verdict.Valid {
		return fmt.Sprintf("%s is NOT valid at σ = %g: the guarantees do not cover it.", a.Name, v.Sigma)
	}
	signs := "with their signs"
	if !v.Verdict.SignsIdentifiable {
		signs = "up to their signs"
	}
	s := fmt.Sprintf("%s is valid at σ = %g: regressors can be learned from moments, %s", a.Name, v.Sigma, signs)
	if a.Polynomial.L4 > 0 {
		s += fmt.Sprintf("; k = %d and d = %d take about %s rows", a.Design.K, a.Design.D, rounded(a.Polynomial.L4))
		if fewest := a.Least.fewest(); fewest > 0 {
			s += fmt.Sprintf(", with transforms of minimum variance %s", rounded(fewest))
		}
	}
	return s + "."
}

// fewest is the smaller number; 0 where there is none.
func (r Rows) fewest() float64 {
	if r.L4 > 0 && r.Spectral > 0 {
		return min(r.L4, r.Spectral)
	}
	return max(r.L4, r.Spectral)
}

// rounded writes a count with two significant digits, in groups of three.
func rounded(x float64) string {
	if x >= 1e9 {
		return fmt.Sprintf("%.1e", x)
	}
	unit := math.Pow(10, max(0, math.Floor(math.Log10(x))-1))
	digits := fmt.Sprintf("%.0f", math.Round(x/unit)*unit)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + " " + digits[i:]
	}
	return digits
}

// Meaning says what follows from the verdict, and what to do.
func (a Activation) Meaning() string {
	v := a.Validation
	switch {
	case !v.Verdict.Valid && a.Least.fewest() > 0:
		return "No polynomial of the kind that the papers use turns this activation's moments into the tensors that " +
			"L4 needs, or what it says about itself is wrong. " +
			"Transforms of minimum variance exist, and with them moments determine the regressors all the same: " +
			"--transform optimal."
	case !v.Verdict.Valid:
		return "No output transform turns this activation's moments into the tensors that L4 needs, or what it says " +
			"about itself is wrong. " +
			"Fits with it can only use the likelihood, from starts that nothing vouches for."
	case !v.Verdict.SignsIdentifiable && !v.Verdict.Even:
		return "T2 and T4 identify the regressors and their proportions. The moments of g do not tell the " +
			"regressors' signs."
	case !v.Verdict.SignsIdentifiable:
		return "T2 and T4 identify the regressors and their proportions. g is even, so a regressor and its negative " +
			"give the same data: no method can tell its sign."
	case min(a.Polynomial.L4, a.Least.fewest()) > 1e7:
		return "The transforms exist, but their noise is so large that the moment estimate needs more rows than most " +
			"have: valid, and yet not learnable from moments in practice. The likelihood, from other starts, may " +
			"still work."
	}
	return "T2 and T4 identify the regressors, their signs and the proportions; with the rows named above the moment " +
		"estimate has every regressor within 8 degrees " +
		"(E_reg ≤ 0.01) in half of all data sets, and the likelihood refines it from there. Fewer rows are often " +
		"enough for a start."
}

func (a Activation) transforms(w io.Writer) {
	q := a.Validation.Transform
	fmt.Fprintf(w, "\noutput transforms at σ = %g\n", q.Sigma)
	fmt.Fprintf(w, "  Q4(y) = y⁴ + αy³ + βy² + γy\tα = %s\tβ = %s\tγ = %s\tc4 = %s\n", num(q.Alpha), num(q.Beta),
		num(q.Gamma), num(q.C4))
	fmt.Fprintf(w, "  Q2(y) = y² + δy\tδ = %s\t\t\tc2 = %s\n", num(q.Delta), num(q.C2))
	invalid := ""
	if !q.Cubic.Valid {
		invalid = "\tnot valid"
	}
	fmt.Fprintf(w, "  P3(y) = y³ + αy² + βy\tα = %s\tβ = %s\t\tc3 = %s%s\n", num(q.Cubic.Alpha), num(q.Cubic.Beta),
		num(q.Cubic.C3), invalid)
}

// num writes a coefficient to ten digits.
func num(v float64) string { return shown.Number(v, 10) }

// shortly writes one to four.
func shortly(v float64) string { return shown.Number(v, 4) }

func (a Activation) system(w io.Writer) {
	s, v := a.Validation.System, a.Validation.Verdict
	fmt.Fprintf(w, "\nsystem: rank %d of 3, condition number %.3g, residual %.2g after standardising g\n", v.Rank,
		v.Cond, v.Residual)
	fmt.Fprintf(w, "  row\tα\tβ\tγ\tright-hand side\n")
	for i, row := range s.Matrix {
		fmt.Fprintf(w, "  He%d\t%s\t%s\t%s\t%s\n", i+1, num(row[0]), num(row[1]), num(row[2]), num(s.RHS[i]))
	}
}

func conditions(w io.Writer, v solver.Verdict) {
	fmt.Fprintf(w, "\nconditions, after standardising g\n  condition\tvalue\ttolerance\tverdict\n")
	for _, c := range v.Checks {
		verdict := "holds"
		if !c.Holds {
			verdict = "FAILS"
		}
		fmt.Fprintf(w, "  %s\t%.4g\t%.2g\t%s\n", c.Name, c.Value, c.Tolerance, verdict)
	}
	signs := "cannot be told"
	switch {
	case v.SignsIdentifiable:
		signs = "yes"
	case v.Even:
		signs = "no, g is even"
	}
	fmt.Fprintf(w, "  signs of the regressors identifiable\t\t\t%s\n", signs)
}

func (a Activation) noise(w io.Writer) {
	n := a.Validation.Noise
	if n == nil {
		return
	}
	fmt.Fprintf(w, "\nnoise\n  V4, of one row in T4(a,a,a,a)/c4 = 1\t%.4g\n  V2, of one row in T2(a,a)/c2 = 1\t%.4g\n",
		n.V4, n.V2)
	if a.Polynomial.L4 > 0 {
		fmt.Fprintf(w, "  rows for E_reg ≤ 0.01 in half of all data sets\t%s\tk = %d, d = %d, equal proportions\n",
			rounded(a.Polynomial.L4), a.Design.K, a.Design.D)
	}
}

// least compares the transforms of minimum variance with the polynomials.
func (a Activation) least(w io.Writer) {
	o := a.Optimal
	if o == nil {
		return
	}
	var polynomial solver.Noise
	if n := a.Validation.Noise; n != nil {
		polynomial = *n
	}
	fmt.Fprintf(w, "\ntransforms of minimum variance at σ = %g, k = %d", o.Sigma, o.K)
	if o.Level > o.Sigma {
		fmt.Fprintf(w, ", made for %.3g", o.Level)
	}
	fmt.Fprintln(w)
	varianceTable(w, o, polynomial, a.Polynomial, a.Least)
}

// varianceTable compares variances and numbers of rows, by the polynomials and by the transforms of minimum variance.
func varianceTable(w io.Writer, o *solver.Optimal, polynomial solver.Noise, before, least Rows) {
	fmt.Fprintf(w, "  variance of one row\tpolynomial\tleast\tgain\n")
	for _, r := range solver.Orders() {
		if why := o.Reason(r); why != "" {
			fmt.Fprintf(w, "  T%d\t%s\tnone: %s\n", r, countOr(polynomial.Variance(r, o.K), shortly), why)
			continue
		}
		p := polynomial.Variance(r, o.K)
		fmt.Fprintf(w, "  T%d\t%s\t%.4g\t%s\n", r, countOr(p, shortly), o.Variance(r), countOr(p/o.Variance(r),
			shortly))
	}
	fmt.Fprintf(w, "  rows for E_reg ≤ 0.01, by T2 and T4\t%s\t%s\n", countOr(before.L4, rounded),
		countOr(least.L4, rounded))
	fmt.Fprintf(w, "  rows for E_reg ≤ 0.01, by T2 and T3\t%s\t%s\n", countOr(before.Spectral, rounded),
		countOr(least.Spectral, rounded))
}

// countOr writes a number above 0, or "–" for one that there is not.
func countOr(v float64, write func(float64) string) string {
	if !(v > 0) || math.IsInf(v, 0) {
		return "–"
	}
	return write(v)
}

func (a Activation) oneHiddenLayer(w io.Writer) {
	fmt.Fprintf(w, "\none-hidden-layer networks\n")
	o := a.Validation.OneHiddenLayer
	if o == nil {
		fmt.Fprintln(w, "  the derivative grows too fast for ρ")
		return
	}
	yes := map[bool]string{true: "holds", false: "fails"}
	fmt.Fprintf(w, "  P1  0 ≤ g′(z) ≤ L|z|^p\t%s\n", yes[o.P1])
	fmt.Fprintf(w, "  P2  ρ > 0 (at scale 1 it is %s)\t%s\n", num(o.Rho), yes[o.P2])
	if r := a.RhoRange; r != nil {
		fmt.Fprintf(w, "  P2 at scales %g to %g (there ρ is %s to %s)\t%s\n", properties.LeastScale,
			properties.MostScale, shortly(r.Min), shortly(r.Max), yes[r.P2])
	}
	fmt.Fprintf(w, "  P3  g″ bounded, or g piecewise linear\t%s\n", yes[o.P3])
}

// oneTooMany says what one expert more than there are costs. It is no part of validity.
func (a Activation) oneTooMany(w io.Writer) {
	s := a.Strong
	if s.Answer == "" {
		return
	}
	fmt.Fprintf(w, "\none expert too many\n  strong_identifiability\t%s\t", s.Answer)
	switch s.Answer {
	case properties.Yes:
		fmt.Fprintf(w, "by least squares, or with σ known, it costs n^(−1/4) (least singular value %.1e)\n", s.Least)
	case properties.No:
		fmt.Fprintf(w, "%s; by least squares it may cost more than n^(−1/4)\n", s.Reason)
	default:
		fmt.Fprintln(w, s.Reason)
	}
}

// wrap breaks a paragraph into lines of at most width characters.
func wrap(s string, width int, indent string) string {
	var b strings.Builder
	length := 0
	for _, word := range strings.Fields(s) {
		n := len([]rune(word))
		switch {
		case length == 0:
			b.WriteString(indent)
			length = len(indent)
		case length+1+n > width:
			b.WriteString("\n" + indent)
			length = len(indent)
		default:
			b.WriteByte(' ')
			length++
		}
		b.WriteString(word)
		length += n
	}
	return b.String()
}
