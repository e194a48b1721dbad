package experiment

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/sample"
)

// slidesCase is a mixture of the comparison with EM in 001, of which the slides give
// the number of experts alone.
type slidesCase struct {
	id, what string
	setting
	ns   []int
	sets int
}

func slidesCases(z size) []slidesCase {
	var out []slidesCase
	for _, k := range []int{3, 4} {
		random := paper("identity", k)
		random.design = sample.Random
		id, ns, sets := fmt.Sprintf("001-%d", k), []int{1000, 3000, 10000}, z.of(6, 60)
		out = append(out,
			slidesCase{id, "identity, orthogonal design", paper("identity", k), ns, sets},
			slidesCase{id + "-random", "identity, random unit vectors", random, ns, sets})
	}
	relu := slidesCase{"001-4-relu", "ReLU, orthogonal design", paper("relu", 4), []int{2000, 10000}, z.of(4, 20)}
	if !z.quick {
		relu.ns = append(relu.ns, reluRows)
	}
	return append(out, relu)
}

// reluRows are those that moe validate-activation relu --k 4 asks of the polynomial cubic tensor.
const reluRows = 100000

// slides001 is the comparison with EM in 001.
func slides001(z size) []*Figure {
	var out []*Figure
	for _, c := range slidesCases(z) {
		f := &Figure{
			ID: c.id, Title: fmt.Sprintf("Method of moments and EM, %d experts: %s", c.k, c.what),
			Source: fmt.Sprintf("001, Comparison with EM, %d mixtures", c.k),
			Claim:  "The method of moments recovers the parameters; EM often gets stuck in local optima.",
			Settings: fmt.Sprintf("k = %d, d = 10, σ = 0.05, %s: the source gives the number of experts alone. "+
				"Orthogonal is a_i = e_i and w_i = e_{k+i}, random unit vectors are regressors and gating vectors "+
				"both. %d data sets of each size. Moments: the slides' cubic tensor, whitened, by power iterations, "+
				"then EM for the gate with the regressors held; beside it L4 on the reduced problem with μ = 1; σ "+
				"estimated. EM: one random start for each data set, unit regressors and W = 0, σ fixed at the truth "+
				"or free and started at the target's rms, until the mean log-likelihood rises by less than 1e−9, at "+
				"most %d iterations. Often is a quarter of the data sets or more, judged by intervals of 95 %% "+
				"(Clopper and Pearson).", c.k, c.what, c.sets, emSteps),
			X: Axis{Label: "n", Log: true}, Y: axisReg, Apart: true, Level: stuck, measure: regressors,
			judge:   judgeSlides(c.ns),
			Columns: []string{"n", "method", "stuck", "data sets", "median E_reg", "worst E_reg", "median E_gating"},
			table:   slidesTable(c.ns),
		}
		if c.g == "relu" {
			f.Settings += fmt.Sprintf(" For E_reg ≤ 0.01 in half of all data sets moe validate-activation relu --k 4 "+
				"asks the cubic tensor for %d rows, the largest n of the full figure, and L4 for 1300000.", reluRows)
		}
		for run := range c.sets {
			for _, n := range c.ns {
				f.units = append(f.units, slideUnit(c.setting, n, run))
			}
		}
		out = append(out, f)
	}
	return out
}

// Names of the methods of moments.
const (
	seriesMoments = "L4"
	seriesCubic   = "cubic tensor"
)

func slidesMethods() []string { return []string{seriesCubic, seriesMoments, seriesFixed, seriesFree} }

// slideUnit is one data set, by the moments and by EM.
func slideUnit(s setting, n, run int) unit {
	key := fmt.Sprintf("slides %+v n %d run %d", s, n, run)
	return s.unit(key, n, func(ctx context.Context, st *study, out *output) error {
		at := float64(n)
		reg, gate, err := st.bySpectral(ctx)
		if err != nil {
			return err
		}
		out.point(regressors, seriesCubic, run, at, reg)
		out.point(gating, seriesCubic, run, at, gate)
		if reg, err = st.byMoments(ctx); err != nil {
			return err
		}
		out.point(regressors, seriesMoments, run, at, reg)
		data, err := st.table(ctx)
		if err != nil {
			return err
		}
		for _, fixed := range []bool{true, false} {
			reg, gate, err := st.em(ctx, data, fixed, emSteps)
			if err != nil {
				return err
			}
			out.point(regressors, emSeries(fixed), run, at, reg.last())
			out.point(gating, emSeries(fixed), run, at, gate.last())
		}
		return nil
	})
}

func slidesTable(ns []int) func(*Outcome) [][]string {
	return func(o *Outcome) (rows [][]string) {
		for _, n := range ns {
			for _, m := range slidesMethods() {
				v := o.at(m, float64(n))
				gate := "–"
				if g := o.besideAt(m, float64(n)); len(g) > 0 {
					gate = g2(median(g))
				}
				rows = append(rows, []string{fmt.Sprint(n), m, fmt.Sprint(away(v)), fmt.Sprint(len(v)), g2(median(v)),
					g2(worst(v)), gate})
			}
		}
		return rows
	}
}

// oftenRate is the rate of stuck runs from which on they are often.
const oftenRate = 0.25

// judgeSlides judges EM with σ fixed and with σ free each, over all sizes.
func judgeSlides(ns []int) func(*Outcome) Verdict {
	return func(o *Outcome) Verdict {
		largest := float64(ns[len(ns)-1])
		m := o.at(seriesCubic, largest)
		v := Verdict{}
		var measured, often, seldom, open []string
		for _, s := range []string{seriesFixed, seriesFree} {
			var counts []string
			least, most := 0.0, 0.0 // what the largest rate of the sizes may be
			for _, n := range ns {
				e := o.at(s, float64(n))
				counts = append(counts, fmt.Sprintf("%d of %d at n = %d", away(e), len(e), n))
				lo, hi := proportion(away(e), len(e))
				least, most = max(least, lo), max(most, hi)
			}
			measured = append(measured, s+" "+strings.Join(counts, ", "))
			switch {
			case least >= oftenRate:
				often = append(often, s)
			case most < oftenRate:
				seldom = append(seldom, s)
			default:
				open = append(open, s)
			}
		}
		free := o.at(seriesFree, largest)
		v.Measured = fmt.Sprintf("E_reg above 0.05: %s; median E_reg at n = %d: cubic tensor %s, L4 %s, EM with σ "+
			"free %s",
			strings.Join(measured, "; "), ns[len(ns)-1], g2(median(m)), g2(median(o.at(seriesMoments, largest))),
			g2(median(free)))
		var because []string
		if median(m) > stuck {
			because = append(because, fmt.Sprintf("the cubic tensor does not recover the regressors at n = %d",
				ns[len(ns)-1]))
		}
		say := func(what string, series []string) {
			if len(series) > 0 && len(often) < 2 {
				because = append(because, fmt.Sprintf(what, strings.Join(series, " and ")))
			}
		}
		say("in the design chosen here fewer than a quarter of the data sets of any size are stuck: %s", seldom)
		say("whether a quarter of some size are these data sets do not tell: %s", open)
		say("a quarter of the data sets of some size or more are stuck: %s", often)
		v.Agrees, v.Because = len(because) == 0, strings.Join(because, "; ")
		return v
	}
}

// conjecture is what 001 supposes of two experts: that EM for all parameters at once
// converges from anywhere.
func conjecture(z size) *Figure {
	const starts, rows = 10, 2000
	mixtures := z.of(3, 100)
	f := &Figure{
		ID: "001-2", Title: "EM for two experts from many starts", Source: "001, Open questions-I",
		Claim: "EM recovers regressors and gating of two experts globally (a conjecture).",
		Settings: fmt.Sprintf("Identity, k = 2, d = 10, σ = 0.05, n = %d; %d mixtures of random unit regressors and "+
			"gating vectors, %d random starts for each: unit regressors, W = 0; σ fixed at the truth, or free and "+
			"started at the target's rms, until the mean log-likelihood rises by less than 1e−9, at most %d "+
			"iterations. The intervals are of 95 %% (Clopper and Pearson), as if all starts were independent. The "+
			"verdict is about σ fixed, as the theory has it, and so is the picture: a point is a start, and those of "+
			"one mixture stand above the least E_reg of any of them. One that ends elsewhere is above the dashed "+
			"line, and one that is stuck above the dotted one.", rows, mixtures, starts, emSteps),
		X: Axis{Label: "least E_reg of the ten starts of a mixture", Log: true},
		Y: Axis{Label: "E_reg of each start", Log: true}, Scatter: true, Level: stuck, measure: regressors,
		judge: judgeConjecture, drawn: func(o *Outcome) []Curve { return overLeast(o.Of(seriesFixed), starts) },
	}
	s := paper("identity", 2)
	s.design = sample.Random
	for mixture := range mixtures {
		key := fmt.Sprintf("conjecture %+v n %d starts %d mixture %d", s, rows, starts, mixture)
		f.units = append(f.units, s.onTable(key, rows,
			func(ctx context.Context, st *study, data *model.Data, out *output) error {
				for start := range starts {
					for _, fixed := range []bool{true, false} {
						reg, _, err := st.em(ctx, data, fixed, emSteps)
						if err != nil {
							return err
						}
						out.point(regressors, emSeries(fixed), mixture*starts+start, rows, reg.last())
					}
				}
				return nil
			}))
	}
	return f
}

// overLeast puts every start at the least error of all those of its mixture.
func overLeast(curves []Curve, starts int) (out []Curve) {
	least := map[int]float64{}
	for _, c := range curves {
		if v, seen := least[c.Run/starts]; !seen || c.Last() < v {
			least[c.Run/starts] = c.Last()
		}
	}
	lo, hi := math.Inf(1), 0.0
	for _, c := range curves {
		x := least[c.Run/starts]
		lo, hi = min(lo, x), max(hi, x)
		c.X = []float64{x}
		out = append(out, c)
	}
	return append(out, Curve{Series: alike, X: []float64{lo, hi}, Y: []float64{lo, hi}, Reference: true})
}

const alike = "all starts end alike"

func judgeConjecture(o *Outcome) Verdict {
	v := Verdict{Agrees: true}
	var measured []string
	for _, s := range []string{seriesFixed, seriesFree} {
		e := o.beside(s)
		_, most := proportion(away(e), len(e))
		measured = append(measured, fmt.Sprintf("%s: %d of %d starts end above %g, at most %.2g of all", s, away(e),
			len(e), stuck, most))
		if s == seriesFixed && away(e) > 0 {
			v.Agrees = false
		}
	}
	v.Measured = strings.Join(measured, "; ")
	if v.Because = "no start with σ fixed shows otherwise, which proves nothing"; !v.Agrees {
		v.Because = "some starts with σ fixed end in another optimum, or have not converged"
	}
	return v
}
