package experiment

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/tensor"
)

// Tensors that do not know the law of the inputs, and three kinds that do.
const (
	byHermite   = "Hermite's polynomials"
	byScore     = "score of x"
	byWeights   = "weights φ/f"
	byEstimated = "weights by estimated f"
)

func inputMethods() []string { return []string{byHermite, byScore, byWeights, byEstimated} }

// inputCase is a law of the inputs, a mixture of two Gaussians.
type inputCase struct {
	length mixtureLength
	p      float64
}

// inputCases are those of 000-3c; quick ones those of the picture.
func inputCases(z size) (out []inputCase) {
	for _, length := range mixtureLengths() {
		for _, p := range mixtureShares() {
			if c := (inputCase{length, p}); c.measure() == regressors || !z.quick {
				out = append(out, c)
			}
		}
	}
	return out
}

// evenP is the p of a law that is even.
const evenP = 0.5

// measure says where the case is shown: in the picture, or in the table alone.
func (c inputCase) measure() string {
	if c.length.norm == 2 && c.p != 0.3 {
		return regressors
	}
	return "table"
}

func (c inputCase) series(method string) string {
	if c.measure() == regressors {
		return fmt.Sprintf("%s, p = %g", method, c.p)
	}
	return fmt.Sprintf("%s, p = %g, %s", method, c.p, c.length.name)
}

// share is the name of the effective shares of rows that have weights φ/f.
func (c inputCase) share() string { return fmt.Sprintf("share, p = %g, %s", c.p, c.length.name) }

// inputLaw is 000 Figure 3c with tensors that know the law of the inputs.
func inputLaw(z size) *Figure {
	ns, sets := []int{10000, 100000}, z.of(8, 20)
	if !z.quick {
		ns = []int{10000, 30000, 100000, 300000}
	}
	most := float64(ns[len(ns)-1])
	f := &Figure{
		ID: "000-3c-law", Title: "Inputs from a symmetric mixture: tensors that know their law",
		Source: "000 Figure 3c; 000 Theorem 5", Own: true,
		Claim: "Weights φ/f, of the density of N(0, I) over that of the inputs, take the bias from the tensors at " +
			"every p and μ, with f known and with f estimated as a mixture of two Gaussians; the score of x, ∇⁴f/f " +
			"and ∇²f/f in place of Hermite's polynomials, does at p = ½ alone.",
		Settings: fmt.Sprintf("Mixture and inputs as in 000-3c, %d data sets of each size, σ known. T2 and T4 by "+
			"each method from the same rows, then L4 on the reduced problem over orthonormal rows. The score tensors "+
			"of a mixture are the Hermite tensors about its components' means, weighted by their posterior. They "+
			"give E[∇⁴E[Q4(y)|x]] over the law of the inputs, where derivatives of the gate meet those of "+
			"E[Q4(y)|⟨a, x⟩], which Q4 and Q2 make 0 in the mean over N(0, 1) alone; at p = ½ parity makes them 0 "+
			"for k = 2 and odd g. Weighted means are those over N(0, I). φ/f is at most e^{‖μ‖²/2}/(2√(p(1−p))), for "+
			"the components are as wide as N(0, I): were f to fall faster than φ², they would have no finite "+
			"variance. Estimated: proportions, means and a common covariance, by EM on the same rows. The picture "+
			"has ‖μ‖ = 2; the table has geometric means at n = %g, and the share (Σw)²/(nΣw²) of rows that the "+
			"weights leave. Without a bias E_reg falls as 1/n; the verdict asks for half of that slope in every case "+
			"where there is to be none, and for three times the E_reg of p = ½ at the largest n where there is to be "+
			"one.", sets, most),
		Columns: append(append([]string{"‖μ‖", "p"}, inputMethods()...), "share"),
		X:       Axis{Label: "n", Log: true}, Y: axisReg, measure: regressors,
		judge: func(o *Outcome) Verdict { return judgeInputLaw(o, z) },
		Views: views("p = 0.1", "p = 0.5"),
	}
	for _, c := range inputCases(z) {
		for _, n := range ns {
			for run := range sets {
				f.units = append(f.units, inputUnit(c, n, run))
			}
		}
	}
	f.table = func(o *Outcome) (rows [][]string) {
		for _, c := range inputCases(z) {
			row := []string{strings.TrimPrefix(c.length.name, "‖μ‖ = "), fmt.Sprint(c.p)}
			for _, method := range inputMethods() {
				_, y := o.everywhere(c.series(method))
				row = append(row, g2(y[len(y)-1]))
			}
			rows = append(rows, append(row, g2(median(o.besideAt(c.share(), most)))))
		}
		return rows
	}
	return f
}

// inputUnit is E_reg by every method, on one data set.
func inputUnit(c inputCase, n, run int) unit {
	s := paper("identity", 2)
	s.inputs = sample.Inputs{Mixture: true, P: c.p, Norm: c.length.norm}
	key := fmt.Sprintf("law of inputs %+v n %07d run %d", s, n, run)
	return s.onTable(key, n, func(ctx context.Context, st *study, data *model.Data, out *output) error {
		known, err := symmetricPair(c.p, st.sampler.Mean())
		if err != nil {
			return err
		}
		estimated, err := fitPair(ctx, data)
		if err != nil {
			return err
		}
		weighted := known.weigh(data)
		for i, parts := range [][]tensorPart{
			{{rows: data, share: 1}},
			known.parts(data),
			{{rows: weighted, share: 1}},
			{{rows: estimated.weigh(data), share: 1}},
		} {
			e, err := st.byTensors(ctx, parts)
			if err != nil {
				return err
			}
			out.point(c.measure(), c.series(inputMethods()[i]), run, float64(n), e)
		}
		sums, err := tensor.SumSecond(ctx, weighted, 1)
		if err != nil {
			return err
		}
		out.point("table", c.share(), run, float64(n), sums.Effective()/float64(n))
		return nil
	})
}

// tensorPart is a part of the moment tensors: the Hermite tensors about a centre over
// rows with weights, and the share of it in the whole.
type tensorPart struct {
	rows   *model.Data
	centre []float64
	share  float64
}

func judgeInputLaw(o *Outcome, z size) Verdict {
	last := func(c inputCase, method string) float64 {
		_, y := o.everywhere(c.series(method))
		return y[len(y)-1]
	}
	var hermite, biased, steepness []float64
	for _, c := range inputCases(z) {
		unbiased := []string{byWeights, byEstimated}
		if c.p == evenP {
			unbiased = append(unbiased, byScore)
		} else {
			biased = append(biased, last(c, byScore)/last(inputCase{c.length, evenP}, byScore))
		}
		for _, method := range unbiased {
			steepness = append(steepness, slope(o.everywhere(c.series(method))))
		}
		hermite = append(hermite, last(c, byHermite))
	}
	v := Verdict{Measured: fmt.Sprintf("E_reg falls as n^%.2f to n^%.2f by weights, and by the score of x at p = ½; "+
		"at the largest n the score of x at another p has %.0f to %.0f times its E_reg at p = ½, and Hermite's "+
		"polynomials have %s to %s",
		slices.Min(steepness), slices.Max(steepness), slices.Min(biased), slices.Max(biased), g2(slices.Min(hermite)),
		g2(slices.Max(hermite)))}
	switch {
	case slices.Max(steepness) > -0.5:
		v.Because = "E_reg does not fall as that of an estimate without bias"
	case slices.Min(biased) < 3:
		v.Because = "at some other p the score of x does as well as at p = ½"
	default:
		v.Agrees = true
	}
	return v
}
