package experiment

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host/diverse"
)

// slides004 are the claims of 004 that can be measured.
func slides004(z size) []*Figure {
	return []*Figure{identityFigure(z), gramFigure(z), gammaFigure(z), orderFigure(), boundFigure(z), movedWeights(z),
		smallestFigure(z), discrepancyFigure(z), trainingFigure(z), regulariserTable(z), flowFigure(z)}
}

// gramFigure is Weyl's step, λ_m(G_n) ≥ λ_m(G) − ‖G − G_n‖.
func gramFigure(z size) *Figure {
	f := &Figure{
		ID: "004-gram", Title: "The least eigenvalue of G_n against the number of weights",
		Identity: true,
		Source:   "004, Bounding the error",
		Claim:    "λ_m(G_n) ≥ λ_m(G) − ‖G − G_n‖, where G = E[G_n] is the ideal.",
		Settings: fmt.Sprintf("m = 100 points on the sphere of ℝ²⁰, w ~ N(0, I); %d draws of both for each n.",
			z.of(3, 20)),
		X: Axis{Label: "n", Log: true}, Y: Axis{Label: "eigenvalue"}, judge: judgeGram,
	}
	for run := range z.of(3, 20) {
		f.units = append(f.units, unit{key: fmt.Sprintf("gram run %d", run),
			run: func(_ context.Context, seed uint64) (*output, error) {
				least, ideal, weyl := new(trace), new(trace), new(trace)
				for i, n := range gramSizes {
					s, err := diverse.NewDraw(seed+uint64(i), n, 100, 20).Spectra()
					if err != nil {
						return nil, err
					}
					x := float64(n)
					g, own := s.Least()
					least.add(x, own)
					ideal.add(x, g)
					weyl.add(x, g-s.Apart)
				}
				out := new(output)
				out.add("", seriesLeast, run, least)
				out.add("", seriesIdeal, run, ideal)
				out.add("", seriesWeyl, run, weyl)
				return out, nil
			}})
	}
	return f
}

var gramSizes = []int{50, 100, 200, 400, 1600, 6400, 25600}

const seriesLeast, seriesIdeal, seriesWeyl = "λ_m(G_n)", "λ_m(G)", "λ_m(G) − ‖G − G_n‖"

func judgeGram(o *Outcome) Verdict {
	broken, all := 0, 0
	least := o.Of(seriesLeast)
	for run, c := range o.Of(seriesWeyl) {
		for i, bound := range c.Y {
			all++
			if least[run].Y[i] < bound-1e-12 { // rounding
				broken++
			}
		}
	}
	n, y := o.medians(seriesLeast)
	_, weyl := o.medians(seriesWeyl)
	_, ideal := o.medians(seriesIdeal)
	positive := slices.IndexFunc(weyl, func(v float64) bool { return v > 0 })
	last := len(n) - 1
	v := Verdict{
		Measured: fmt.Sprintf("the inequality is broken in %d of %d draws; median λ_m(G_n) %.4f at n = %g, %.4f at "+
			"%g and %.4f at %g, of λ_m(G) %.4f, %.4f and %.4f there",
			broken, all, y[0], n[0], y[3], n[3], y[last], n[last], ideal[0], ideal[3], ideal[last]),
		Agrees: broken == 0,
	}
	switch {
	case !v.Agrees:
		v.Because = "Weyl's inequality is a theorem: the eigenvalues are wrong"
	case positive < 0:
		v.Because = "the bound is below 0 at every n"
	case positive > 0:
		v.Because = fmt.Sprintf("but the bound is below 0 up to n = %g in the median, where that of λ_m(G_n) is %.2g "+
			"of that of λ_m(G)", n[positive-1], y[positive-1]/ideal[positive-1])
	}
	return v
}

// gammaFigure is λ_m(G) ≥ mγ_m/2.
func gammaFigure(z size) *Figure {
	f := &Figure{
		ID: "004-gamma", Title: "The least eigenvalue of G against that of the kernel",
		Source: "004, Bounding the first term",
		Claim:  "With high probability λ_m(G) ≥ mγ_m/2.",
		Settings: fmt.Sprintf("m points on the spheres of ℝ⁵ and ℝ²⁰, %d draws for each m; γ_m by Funk and Hecke, "+
			"with multiplicities. High is 95 %% here.", z.of(10, 100)),
		X: Axis{Label: "m", Log: true}, Y: Axis{Label: "λ_m(G) and mγ_m/2", Log: true}, judge: judgeGamma,
		Columns: []string{"d", "m", "mγ_m/2", "λ_m(G), median", "least", "draws with λ_m(G) ≥ mγ_m/2"},
		table:   gammaRows,
	}
	for _, d := range gammaDims {
		for run := range z.of(10, 100) {
			f.units = append(f.units, unit{key: fmt.Sprintf("gamma d %d run %d", d, run),
				run: func(_ context.Context, seed uint64) (*output, error) {
					out, t := new(output), new(trace)
					for i, m := range gammaSizes {
						least, err := diverse.Least(diverse.Gram(diverse.NewDraw(seed+uint64(i), 1, m, d).X))
						if err != nil {
							return nil, err
						}
						t.add(float64(m), least)
					}
					out.add("", idealSeries(d), run, t)
					return out, nil
				}})
		}
		f.units = append(f.units, unit{key: fmt.Sprintf("gamma of the kernel d %d", d),
			run: func(context.Context, uint64) (*output, error) {
				out, half := new(output), new(trace)
				gamma := diverse.Gamma(d, slices.Max(gammaSizes))
				for _, m := range gammaSizes {
					half.add(float64(m), float64(m)*gamma[m-1]/2)
				}
				out.reference("", halfSeries(d), half)
				return out, nil
			}})
	}
	return f
}

var (
	gammaDims  = []int{5, 20}
	gammaSizes = []int{25, 50, 100, 200}
)

func idealSeries(d int) string { return fmt.Sprintf("λ_m(G), d = %d", d) }

func halfSeries(d int) string { return fmt.Sprintf("mγ_m/2, d = %d", d) }

// often is the share of the draws from which on "with high probability" holds.
const often = 0.95

// gammaCounts calls each with the draws of every d and m.
func gammaCounts(o *Outcome, each func(d int, m, half float64, least []float64, holds int)) {
	for _, d := range gammaDims {
		half := o.computed(halfSeries(d))
		for i, m := range half.X {
			least, holds := o.at(idealSeries(d), m), 0
			for _, v := range least {
				if v >= half.Y[i] {
					holds++
				}
			}
			each(d, m, half.Y[i], least, holds)
		}
	}
}

func gammaRows(o *Outcome) (rows [][]string) {
	gammaCounts(o, func(d int, m, half float64, least []float64, holds int) {
		rows = append(rows, []string{fmt.Sprint(d), fmt.Sprint(m), fmt.Sprintf("%.4g", half),
			fmt.Sprintf("%.4g", median(least)), fmt.Sprintf("%.4g", slices.Min(least)), fmt.Sprintf("%d of %d", holds,
				len(least))})
	})
	return rows
}

func judgeGamma(o *Outcome) Verdict {
	holding, total, nearest := 0, 0, math.Inf(1)
	gammaCounts(o, func(d int, m, half float64, least []float64, holds int) {
		holding, total = holding+holds, total+len(least)
		nearest = min(nearest, median(least)/half)
	})
	v := Verdict{Measured: fmt.Sprintf("it holds in %d of %d draws; the median λ_m(G) is at least %.2f times mγ_m/2 "+
		"at every d and m", holding, total, nearest), Agrees: float64(holding) >= often*float64(total)}
	if !v.Agrees {
		v.Because = fmt.Sprintf("it fails in %d draws", total-holding)
	}
	return v
}

// orderFigure is the order of γ_m.
func orderFigure() *Figure {
	f := &Figure{
		ID: "004-order", Title: "The eigenvalues of the kernel", Source: "004, Bounding the first term",
		Claim: "The spectrum γ_m of the kernel is between order 1/m and order 1/√m.",
		Settings: "Funk and Hecke, all degrees up to 24 with their multiplicities; odd degrees from 3 on have the " +
			"eigenvalue 0. Σγ_m is the kernel at one point, ½, so that γ_m ≤ 1/(2m) and m·γ_m goes to 0. By the " +
			"kernel's singularity, (1 − t)^{1/2}, γ_m is of order m^{−1−1/(d−1)}, the dashed slopes. Nothing is " +
			"random.",
		X: Axis{Label: "m", Log: true}, Y: Axis{Label: "m·γ_m", Log: true}, judge: judgeOrder,
	}
	for i, d := range gammaDims {
		f.units = append(f.units, unit{key: fmt.Sprintf("order of gamma d %d", d),
			run: func(context.Context, uint64) (*output, error) {
				levels := diverse.Levels(d, 24)
				slices.SortFunc(levels, func(a, b diverse.Level) int { return cmp.Compare(b.Value, a.Value) })
				out, t, ideal := new(output), new(trace), new(trace)
				m := 0.0
				for _, l := range levels {
					if l.Value > 0 {
						t.add(m+1, (m+1)*l.Value)
						m += l.Multiplicity
						t.add(m, m*l.Value)
					}
				}
				for _, x := range []float64{m / 1e3, m} {
					ideal.add(x, t.y[t.n()-1]*math.Pow(x/m, -1/float64(d-1)))
				}
				out.add("", orderSeries(d), 0, t)
				out.reference("", fmt.Sprintf("1/m^{1/%d}", d-1), ideal)
				if i == len(gammaDims)-1 {
					bound := new(trace)
					bound.add(1, 0.5)
					bound.add(m, 0.5)
					out.reference("", "½", bound)
				}
				return out, nil
			}})
	}
	return f
}

func orderSeries(d int) string { return fmt.Sprintf("d = %d", d) }

func judgeOrder(o *Outcome) Verdict {
	var measured []string
	most, falls := 0.0, true
	for _, d := range gammaDims {
		c := o.Of(orderSeries(d))[0]
		most = max(most, slices.Max(c.Y))
		// The slope of the last degrees, between the ends of whose steps m·γ_m goes along
		// the order.
		last := len(c.X) - 1
		b := slope([]float64{c.X[last-4], c.X[last-2], c.X[last]}, []float64{c.Y[last-4], c.Y[last-2], c.Y[last]})
		falls = falls && b < 0
		measured = append(measured, fmt.Sprintf("at d = %d m·γ_m is at most %.3g, and falls as m^{%.3f} over the "+
			"last three degrees, where the order has %.3f", d, slices.Max(c.Y), b, -1/float64(d-1)))
	}
	v := Verdict{Measured: strings.Join(measured, "; ")}
	switch {
	case most > 0.5+1e-9:
		v.Because = "Σγ_m is above ½: the eigenvalues are wrong"
	case falls:
		v.Because = "1/m is no lower order: Σγ_m = ½ makes γ_m ≤ 1/(2m), and m·γ_m falls to 0; 1/√m is an upper " +
			"order, and a loose one"
	default:
		v.Agrees = true
	}
	return v
}

// boundFigure is the bound on the second term.
func boundFigure(z size) *Figure {
	f := &Figure{
		ID: "004-bound", Title: "‖G − G_n‖ over the discrepancy of the weights",
		Source: "004, Bounding the second term; A bound on the minimum singular value",
		Claim:  "‖G − G_n‖ ≤ cρ·L2(W), so that with high probability s_m(D)² ≥ nmγ_m/2 − cnρ·L2(W).",
		Settings: fmt.Sprintf("The slides define neither c nor ρ. Their product is fitted here: 1.5 times the "+
			"largest ‖G − G_n‖/L2(W) at n = 50, for each m and μ; both inequalities are then held against it at "+
			"larger n. All is drawn, and said, over √m, as which the ratio grows. Points on the sphere of ℝ²⁰, w ~ "+
			"N(μe_1, I), where μ = 0 is the slides' and μ = 3 makes weights that are not diverse; %d draws each.",
			z.of(8, 20)),
		X: Axis{Label: "n", Log: true}, Y: Axis{Label: "‖G − G_n‖/(√m·L2(W))", Min: 0, Max: 2.5}, measure: "ratio",
		judge: judgeBound,
	}
	for _, c := range boundCases {
		for run := range z.of(8, 20) {
			f.units = append(f.units, boundUnit(c, run))
		}
	}
	return f
}

// boundCase is a setting of the figure.
type boundCase struct {
	m  int
	mu float64
}

var (
	boundCases = []boundCase{{50, 0}, {100, 0}, {200, 0}, {100, 3}}
	boundSizes = []int{50, 100, 200, 400, 800}
)

const boundDim = 20

func (c boundCase) series() string { return fmt.Sprintf("m = %d, μ = %g", c.m, c.mu) }

func boundUnit(c boundCase, run int) unit {
	return unit{key: fmt.Sprintf("bound over √m %+v run %d", c, run),
		run: func(_ context.Context, seed uint64) (*output, error) {
			ratio, needed, out := new(trace), new(trace), new(output)
			for i, n := range boundSizes {
				s := diverse.NewDraw(seed+uint64(i), n, c.m, boundDim)
				for k := range n {
					s.W.Set(k, 0, s.W.At(k, 0)+c.mu)
				}
				g, err := s.Spectra()
				if err != nil {
					return nil, err
				}
				_, least := g.Least()
				by := c.root() * math.Sqrt(max(diverse.Discrepancy(s.W), math.SmallestNonzeroFloat64))
				ratio.add(float64(n), g.Apart/by)
				needed.add(float64(n), (c.half()-least)/by) // the product cρ from which on the second bound holds
			}
			out.add("ratio", c.series(), run, ratio)
			out.add("needed", c.series(), run, needed)
			return out, nil
		}}
}

// margin is what is left to the largest ratio in the fit of cρ.
const margin = 1.5

func judgeBound(o *Outcome) Verdict {
	var measured, rare []string
	for _, c := range boundCases {
		fitted := c.fitted(o)
		first, second, all := 0, 0, 0
		for _, n := range boundSizes[1:] {
			ratios := o.at(c.series(), float64(n))
			all += len(ratios)
			first += below(ratios, fitted)
			second += below(o.besideAt(c.series(), float64(n)), fitted)
		}
		measured = append(measured, fmt.Sprintf("%.3g at %s, with which the first holds in %d and the second in %d "+
			"of %d draws", fitted, c.series(), first, second, all))
		if float64(min(first, second)) < often*float64(all) {
			rare = append(rare, fmt.Sprintf("%d of %d draws with %s", min(first, second), all, c.series()))
		}
	}
	v := Verdict{Measured: "cρ/√m is fitted as " + strings.Join(measured, "; "), Agrees: len(rare) == 0}
	if v.Agrees {
		c := boundCases[1]
		l2 := c.half() / (c.root() * c.fitted(o))
		v.Because = fmt.Sprintf("but the second bound is above 0 at %s from L2 below %.2g on alone, n of some %.2g "+
			"random weights; the second holds without it where λ_m(G_n) ≥ mγ_m/2", c.series(), l2, 3.0/16/(l2*l2))
	} else {
		v.Because = "with one constant for all n they hold in " + strings.Join(rare, ", ") + " only"
	}
	return v
}

// root is √m.
func (c boundCase) root() float64 { return math.Sqrt(float64(c.m)) }

// fitted is the product cρ over √m.
func (c boundCase) fitted(o *Outcome) float64 {
	return margin * slices.Max(o.at(c.series(), float64(boundSizes[0])))
}

// half is mγ_m/2.
func (c boundCase) half() float64 {
	return float64(c.m) * diverse.Gamma(boundDim, c.m)[c.m-1] / 2
}

// discrepancyFigure is L2 of random weights.
func discrepancyFigure(z size) *Figure {
	f := &Figure{
		ID: "004-L2", Title: "Discrepancy of random weights", Source: "004, A simplified result",
		Claim: "L2(W) of order n^{−1/4}d^{−1/4}, up to logarithms, is satisfied by random weights.",
		Settings: fmt.Sprintf("w ~ N(0, I), d = 10, 50 and 200; %d draws for each n. Exactly, E L2² = (¼ − E k²)/n, "+
			"for which .433²/n is the limit of large d.", z.of(8, 40)),
		X: Axis{Label: "n", Log: true}, Y: Axis{Label: "L2", Log: true}, judge: judgeDiscrepancy,
	}
	for _, d := range discrepancyDims {
		for run := range z.of(8, 40) {
			f.units = append(f.units, unit{key: fmt.Sprintf("discrepancy d %d run %d", d, run),
				run: func(_ context.Context, seed uint64) (*output, error) {
					t, out := new(trace), new(output)
					for i, n := range discrepancySizes {
						t.add(float64(n), math.Sqrt(max(diverse.Discrepancy(diverse.NewDraw(seed+uint64(i), n, 1, d).W),
							0)))
					}
					out.add("", discrepancySeries(d), run, t)
					return out, nil
				}})
		}
		f.units = append(f.units, unit{key: fmt.Sprintf("discrepancy bound d %d", d),
			run: func(context.Context, uint64) (*output, error) {
				t, own, out := new(trace), new(trace), new(output)
				for _, n := range discrepancySizes {
					t.add(float64(n), math.Pow(float64(n*d), -0.25))
					own.add(float64(n), math.Sqrt(3.0/16/float64(n)))
				}
				out.reference("", discrepancyBound(d), t)
				if d == discrepancyDims[0] {
					out.reference("", ".433/√n", own)
				}
				return out, nil
			}})
	}
	return f
}

var (
	discrepancyDims  = []int{10, 50, 200}
	discrepancySizes = []int{25, 50, 100, 200, 400}
)

func discrepancySeries(d int) string { return fmt.Sprintf("L2, d = %d", d) }

func discrepancyBound(d int) string { return fmt.Sprintf("1/⁴√(nd), d = %d", d) }

func judgeDiscrepancy(o *Outcome) Verdict {
	v := Verdict{Agrees: true}
	var measured []string
	for _, d := range discrepancyDims {
		bound := o.computed(discrepancyBound(d))
		most, squares, count := 0.0, 0.0, 0
		for i, n := range bound.X {
			for _, l2 := range o.at(discrepancySeries(d), n) {
				most = max(most, l2/bound.Y[i])
				squares += l2 * l2 * n
				count++
			}
		}
		x, y := o.means(discrepancySeries(d),
			func(v []float64) float64 { return math.Sqrt(stat.Mean(squared(v), nil)) })
		measured = append(measured, fmt.Sprintf("d = %d: root mean square falling as n^{%.2f}, E[n·L2²] = %.4f where "+
			"¼ − E k² is %.4f, at most %.2f of n^{−1/4}d^{−1/4}", d, slope(x, y), squares/float64(count),
			0.25-diverse.MeanSquare(d), most))
		v.Agrees = v.Agrees && most <= 1
	}
	v.Measured = strings.Join(measured, "; ")
	if v.Agrees {
		v.Because = "as an upper bound, with a constant of 1"
	} else {
		v.Because = "L2 is above n^{−1/4}d^{−1/4} in some draws"
	}
	return v
}

func squared(v []float64) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = x * x
	}
	return out
}
