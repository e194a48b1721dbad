package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/network"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/sample"
)

// netSetting is a network with three units that an experiment draws from.
type netSetting struct {
	act   string
	d, n  int
	sigma float64
	kappa float64
}

// netUnits is the k of all experiments with networks.
const netUnits = 3

// open draws the network and its rows.
func (s netSetting) open(seed uint64) (*sample.NetworkSampler, error) {
	return sample.NewNetwork(sample.NetworkConfig{
		Activation: hiddenNamed(s.act), K: netUnits, D: s.d, N: s.n, Sigma: s.sigma, Condition: s.kappa, Seed: seed,
	})
}

// spread is √(E‖Ŵ − W‖²)/‖W‖ of least squares with v given, as n → ∞:
// σ·√(tr H⁻¹/n)/‖W‖ with the Hessian H of the expected loss.
func (s netSetting) spread(ctx context.Context, truth *sample.NetworkSampler) (float64, error) {
	h, _, err := network.PopulationHessian(ctx, hiddenNamed(s.act), truth.Truth)
	if err != nil {
		return 0, err
	}
	spectrum, err := network.SpectrumOf(h)
	if err != nil {
		return 0, err
	}
	inverse := 0.0
	for _, v := range spectrum.Values {
		inverse += 1 / v
	}
	return s.sigma * math.Sqrt(inverse/float64(s.n)) / math.Sqrt(netUnits), nil // the rows' mean square is 1
}

// recoveryCase is a row of the table.
type recoveryCase struct {
	netSetting
	output network.Output
}

var recoveryCases = []recoveryCase{
	{netSetting{"squared ReLU", 10, 10000, 0, 2}, network.Given},
	{netSetting{"squared ReLU", 10, 10000, 0, 2}, network.Signs},
	{netSetting{"squared ReLU", 10, 10000, 0.1, 2}, network.Given},
	{netSetting{"ReLU", 10, 300, 0.1, 2}, network.Given},
	{netSetting{"ReLU", 10, 1000, 0.1, 2}, network.Given},
	{netSetting{"leaky ReLU (0.1)", 10, 300, 0.1, 2}, network.Given},
	{netSetting{"leaky ReLU (0.1)", 10, 1000, 0.1, 2}, network.Given},
	{netSetting{"softplus", 10, 300, 0.1, 2}, network.Given},
	{netSetting{"softplus", 10, 1000, 0.1, 2}, network.Given},
	{netSetting{"ReLU", 10, 20000, 0.1, 2}, network.Signs},
}

// recoveryNames are the cases as the picture has them, in its order: those that are judged, those of few rows, and
// those of which the signs of v are to be found.
var recoveryNames = []struct {
	row  int
	name string
}{
	{1, "squared ReLU, σ = 0"}, {3, "squared ReLU, σ = 0.1"}, {5, "ReLU, n = 1000"}, {7, "leaky ReLU, n = 1000"},
	{9, "softplus, n = 1000"}, {4, "ReLU, n = 300"}, {6, "leaky ReLU, n = 300"}, {8, "softplus, n = 300"},
	{2, "squared ReLU, v unknown"}, {10, "ReLU, v unknown"},
}

// judged says whether the verdict is about a case: the signs of v are given, and the
// rows are not those at which recovery begins.
func (c recoveryCase) judged() bool { return c.output == network.Given && c.n > 300 }

// recoveries are the problems that the fit has to solve, from the tensors and from
// random starts.
func recoveries(z size) *Figure {
	problems, cases := z.of(3, 20), z.of(2, len(recoveryCases))
	f := &Figure{
		ID: "003-recovery", Title: "Recovery from the tensors and from random starts", Source: "003 slides 6 and 8",
		Claim: "Gradient descent following tensor initialisation recovers the network.",
		Settings: fmt.Sprintf("k = 3, d = 10, κ = 2, v random signs, given to the fit as in 003, or left to it where "+
			"the table says so; %d problems a case, and a random start for each. 200 steps of gradient descent, of "+
			"the inverse of the largest curvature at the start, then Levenberg–Marquardt. Recovered is a relative "+
			"error of W below 1e−3 without noise, and with noise below three times √(σ²·tr H⁻¹/n)/‖W‖, that of least "+
			"squares: one in 300 runs at a minimum that is right is above it at the most. The verdict is about v "+
			"given and more than 300 rows: nine of ten problems of those rows of the table together, the first five "+
			"of the picture; v unknown is that its signs are to be found. Intervals are Clopper and Pearson's of "+
			"95 %%.", problems),
		X: Axis{Label: "share of problems recovered", Min: -0.03, Max: 1.03}, Scatter: true,
		measure: "error", judge: judgeRecoveries, drawn: recoveryShares,
		Columns: []string{"", "φ", "n", "σ", "v", "from tensors", "95 %", "from random starts", "95 %"},
		table:   recoveryTable,
	}
	for _, of := range recoveryNames {
		if of.row <= cases {
			f.Names = append(f.Names, of.name)
		}
	}
	for i, c := range recoveryCases[:cases] {
		for run := range problems {
			f.units = append(f.units, c.unit(i+1, run, problems))
		}
	}
	return f
}

const seriesTensors, seriesRandom, seriesBound = "tensors' start", "random start", "recovered below"

// times is how many times its spread an error may be, recoveredBelow the bound where
// there is no noise.
const times, recoveredBelow = 3, 1e-3

// leastError stands for all errors below it, which are rounding.
const leastError = 1e-12

func (c recoveryCase) unit(row, run, problems int) unit {
	return unit{key: fmt.Sprintf("recovery %+v row %d run %d of %d", c, row, run, problems),
		run: func(ctx context.Context, seed uint64) (*output, error) {
			sampler, err := c.open(seed)
			if err != nil {
				return nil, err
			}
			r := network.Request{K: netUnits, Output: c.output, Starts: 1, Descent: 200, Seed: seed, Threads: 1}
			if c.output == network.Given {
				r.V = sampler.Truth.Output
			}
			fit, err := network.Fit(ctx, sampler, hiddenNamed(c.act), r)
			if err != nil {
				return nil, err
			}
			bound := recoveredBelow
			if c.sigma > 0 {
				spread, err := c.spread(ctx, sampler)
				if err != nil {
					return nil, err
				}
				bound = times * spread
			}
			out, at := new(output), float64(row)
			errors := map[string]float64{"tensors": 1, "random": 1} // where the tensors give no start
			for _, s := range fit.Starts {
				errors[s.Kind] = max(metric.Units(s.Network, sampler.Truth, false).Weights, leastError)
			}
			out.point("error", seriesTensors, run, at, errors["tensors"])
			out.point("error", seriesRandom, run, at, errors["random"])
			out.point("error", seriesBound, run, at, bound)
			return out, nil
		}}
}

// recoveredIn counts the runs of a row that ended below their bound.
func recoveredIn(o *Outcome, series string, row int) (count, of int) {
	bounds, errors := o.besideAt(seriesBound, float64(row)), o.besideAt(series, float64(row))
	for i, e := range errors {
		if e < bounds[i] {
			count++
		}
	}
	return count, len(errors)
}

// recoveryShares are the shares of the rows with their intervals, in the order of the picture.
func recoveryShares(o *Outcome) (out []Curve) {
	errors := &Outcome{Figure: o.Figure, aside: o.Curves}
	for i, series := range []string{seriesTensors, seriesRandom} {
		place := 0.0
		for _, at := range recoveryNames {
			count, of := recoveredIn(errors, series, at.row)
			if of == 0 {
				continue
			}
			place++
			lo, hi := proportion(count, of)
			y := 0.15 - 0.3*float64(i) - place
			out = append(out, Curve{Measure: "share", Series: series, Run: at.row, Y: []float64{y, y, y},
				X: []float64{lo, float64(count) / float64(of), hi}})
		}
	}
	return out
}

// recoveryRows calls each with the cases that were run.
func recoveryRows(o *Outcome, each func(row int, c recoveryCase, tensors, random, of int)) {
	for i, c := range recoveryCases {
		tensors, of := recoveredIn(o, seriesTensors, i+1)
		if random, _ := recoveredIn(o, seriesRandom, i+1); of > 0 {
			each(i+1, c, tensors, random, of)
		}
	}
}

func recoveryTable(o *Outcome) (rows [][]string) {
	recoveryRows(o, func(row int, c recoveryCase, tensors, random, of int) {
		known := "given"
		if c.output != network.Given {
			known = "signs to be found"
		}
		cells := []string{fmt.Sprint(row), c.act, fmt.Sprint(c.n), fmt.Sprint(c.sigma), known}
		for _, count := range []int{tensors, random} {
			lo, hi := proportion(count, of)
			cells = append(cells, fmt.Sprintf("%d of %d", count, of), fmt.Sprintf("%.2f to %.2f", lo, hi))
		}
		rows = append(rows, cells)
	})
	return rows
}

// proportion is the interval of Clopper and Pearson of 95 % for a probability.
func proportion(count, of int) (lo, hi float64) {
	hi = 1
	if count > 0 {
		lo = distuv.Beta{Alpha: float64(count), Beta: float64(of - count + 1)}.Quantile(0.025)
	}
	if count < of {
		hi = distuv.Beta{Alpha: float64(count + 1), Beta: float64(of - count)}.Quantile(0.975)
	}
	return lo, hi
}

func judgeRecoveries(o *Outcome) Verdict {
	var measured, rare []string
	same, apart := [2]int{}, [2]int{} // random starts, with v given and without
	recovered, all := 0, 0            // by the tensors, of the cases that are judged
	recoveryRows(o, func(row int, c recoveryCase, tensors, random, of int) {
		measured = append(measured, fmt.Sprintf("row %d: %d of %d, %d from random starts", row, tensors, of, random))
		if c.judged() {
			recovered, all = recovered+tensors, all+of
			if 10*tensors < 9*of {
				rare = append(rare, fmt.Sprintf("%d of %d in row %d", tensors, of, row))
			}
		}
		if c.output == network.Given {
			same[0], same[1] = same[0]+random, same[1]+of
		} else {
			apart[0], apart[1] = apart[0]+random, apart[1]+of
		}
	})
	v := Verdict{Measured: "recovered from the tensors, " + strings.Join(measured, "; "), Agrees: 10*recovered >= 9*all}
	if v.Agrees {
		v.Because = fmt.Sprintf("%d of %d problems are solved where v is given and n is above 300; random starts "+
			"recover %d of %d where v is given, and %d of %d where its signs are to be found", recovered, all, same[0],
			same[1], apart[0], apart[1])
	} else {
		v.Because = fmt.Sprintf("it recovers %d of %d: %s", recovered, all, strings.Join(rare, ", "))
	}
	return v
}

// descents are gradient descent from the tensors' start.
func descents(z size) *Figure {
	nets := z.of(3, 40)
	f := &Figure{
		ID: "003-steps", Title: "Gradient descent from the tensors' start", Source: "003 slides 6, 7 and 9",
		Claim: "The loss is strongly convex near the truth: gradient descent needs a number of steps proportional " +
			"to log(1/ε), and more the larger the condition number of W.",
		Settings: fmt.Sprintf("Squared ReLU, k = 3, d = 10, n = 10000, no noise, v given; step 1 over the largest "+
			"curvature at the start, %d networks for each κ, %d steps. A digit is a factor of 10 in the error; steps "+
			"a digit are taken over the second half of each run, down to an error of 1e−12, where the curves are cut "+
			"off. A run that ends above an error of 0.05 counts as stuck; the picture's means and bands are of the "+
			"others.", nets, z.of(250, 2000)),
		Lost: stuck, Whole: true,
		X: Axis{Label: "steps"}, Y: Axis{Label: "relative error of W", Log: true}, judge: judgeDescents,
	}
	for _, kappa := range kappas[:z.of(2, len(kappas))] {
		for run := range nets {
			f.units = append(f.units, descentUnit(netSetting{"squared ReLU", 10, 10000, 0, kappa}, z.of(250, 2000),
				run))
		}
	}
	return f
}

var kappas = []float64{1, 2, 4}

func kappaSeries(kappa float64) string { return fmt.Sprintf("κ = %g", kappa) }

func descentUnit(s netSetting, steps, run int) unit {
	return unit{key: fmt.Sprintf("descent 003 %+v steps %d run %d", s, steps, run),
		run: func(ctx context.Context, seed uint64) (*output, error) {
			sampler, err := s.open(seed)
			if err != nil {
				return nil, err
			}
			act := hiddenNamed(s.act)
			fit, err := network.Fit(ctx, sampler, act, network.Request{K: netUnits, Output: network.Given,
				V: sampler.Truth.Output, TensorsOnly: true, Seed: seed, Threads: 1})
			out := new(output)
			// a run that is stuck where it should begin
			if none := (*problem.RequestError)(nil); errors.As(err, &none) {
				out.add("", kappaSeries(s.kappa), run, &trace{x: []float64{0, float64(steps)}, y: []float64{1, 1},
					status: none.Error()})
				return out, nil
			}
			if err != nil {
				return nil, err
			}
			data, err := dataset.Load(ctx, sampler)
			if err != nil {
				return nil, err
			}
			start := fit.Tensors.Network
			l, err := network.NewLoss(act, data, netUnits, start.Output, 1)
			if err != nil {
				return nil, err
			}
			size, _, err := network.StepSize(ctx, l, start.Weights)
			if err != nil {
				return nil, err
			}
			curve := new(trace)
			_, err = optim.Projected(ctx, l, start.Weights, optim.ProjectedSettings{Iterations: steps, StepSize: size,
				Tolerance: 1e-300, Watch: func(step int, x []float64) bool {
					if step%(steps/50) == 0 {
						curve.add(float64(step), max(metric.Units(l.Network(x), sampler.Truth, false).Weights,
							leastError))
					}
					return false
				}})
			if err != nil {
				return nil, err
			}
			for at := curve.n() * (steps / 50); at <= steps; at += steps / 50 { // a run that has come to a stand
				curve.add(float64(at), curve.y[curve.n()-1])
			}
			out.add("", kappaSeries(s.kappa), run, curve)
			return out, nil
		}}
}

// linear returns the slope of log error on steps in the second half of a curve, as
// far as it is above rounding, and the R² of that line; 0 where it has less than three
// points there.
func (c Curve) linear() (slope, r2 float64) {
	last := len(c.Y)
	for last > 0 && c.Y[last-1] <= leastError {
		last--
	}
	var x, y []float64
	for i := last / 2; i < last; i++ {
		x, y = append(x, c.X[i]), append(y, math.Log(c.Y[i]))
	}
	if len(x) < 3 {
		return 0, 0
	}
	a, b := stat.LinearRegression(x, y, nil, false)
	return b, stat.RSquared(x, y, nil, a, b)
}

func judgeDescents(o *Outcome) Verdict {
	var measured, wrong []string
	var logs, steps []float64 // of κ, and of the steps a digit
	held, all := 0, 0
	for _, kappa := range kappas {
		if len(o.Of(kappaSeries(kappa))) == 0 {
			continue
		}
		var digit, fits []float64
		for _, c := range o.Of(kappaSeries(kappa)) {
			all++
			if c.Last() > stuck {
				held++
				continue
			}
			b, r2 := c.linear()
			if b >= 0 {
				b, r2 = -1e-9, 0
			}
			digit, fits = append(digit, -math.Ln10/b), append(fits, r2)
		}
		if len(digit) == 0 {
			wrong = append(wrong, fmt.Sprintf("all runs are stuck at κ = %g", kappa))
			continue
		}
		logs, steps = append(logs, math.Log(kappa)), append(steps, math.Log(median(digit)))
		measured = append(measured, fmt.Sprintf("κ = %g: %.3g steps a digit in the median (%.3g to %.3g in %d runs), "+
			"R² at least %.4f", kappa, median(digit), slices.Min(digit), slices.Max(digit), len(digit),
			slices.Min(fits)))
		if slices.Min(fits) < 0.98 {
			wrong = append(wrong, fmt.Sprintf(
				"the logarithm of the error does not fall along a line in a run at κ = %g", kappa))
		}
	}
	if _, power := stat.LinearRegression(logs, steps, nil, false); power > 0 {
		measured = append(measured, fmt.Sprintf("the medians go as κ^%.2f", power))
	} else {
		wrong = append(wrong, "a larger κ does not take more steps")
	}
	if 5*held > all {
		wrong = append(wrong, fmt.Sprintf("%d of %d runs are stuck", held, all))
	}
	v := Verdict{Measured: strings.Join(measured, "; "), Agrees: len(wrong) == 0, Because: strings.Join(wrong, "; ")}
	if v.Agrees && held > 0 {
		v.Because = fmt.Sprintf("but %d of %d runs end above an error of %g", held, all, stuck)
	}
	return v
}

// rowsByDimension is the number of rows that recovery takes, against d.
func rowsByDimension(z size) *Figure {
	dims, ratios, problems := []int{5, 10, 20, 40, 80}, []int{4, 8, 16, 32, 64, 128, 256}, 12
	if z.quick {
		dims, ratios, problems = []int{5, 20}, []int{4, 32, 128}, 4
	}
	f := &Figure{
		ID: "003-d", Title: "Recovery against rows by dimension", Source: "003 slide 6",
		Claim: "The number of rows for recovery is linear in d at fixed k.",
		Settings: fmt.Sprintf("Squared ReLU, k = 3, κ = 2, no noise, v given; the share of %d problems in which the "+
			"tensors' start, 200 steps of gradient descent and Levenberg–Marquardt bring the relative error of W "+
			"below 1e−3. Rows needed are the least n/d tried from which on 80 %% of all problems are recovered; "+
			"linear is that at each d two thirds are there. Below n = kd = 3d there are fewer equations than weights. "+
			"A point in the picture is a d: rows enough at one d must be enough at all.", problems),
		X: Axis{Label: "n/d", Log: true}, Y: Axis{Label: "share of problems recovered", Min: -0.03, Max: 1.03},
		judge:   judgeRows,
		Columns: []string{"d", "n/d", "recovered"},
	}
	for _, d := range dims {
		for _, ratio := range ratios {
			f.units = append(f.units, rowsUnit(d, ratio, problems))
		}
	}
	return f
}

// seriesRows has a run for each d, whose number it is.
const seriesRows = "each of five d, and their mean"

func rowsUnit(d, ratio, problems int) unit {
	return unit{key: fmt.Sprintf("rows for d %d, ratio %d, problems %d", d, ratio, problems),
		run: func(ctx context.Context, seed uint64) (*output, error) {
			act, count := hiddenNamed("squared ReLU"), 0
			for i := range problems {
				sampler, err := netSetting{act.Name, d, d * ratio, 0, 2}.open(seed + uint64(i))
				if err != nil {
					return nil, err
				}
				r, err := network.Fit(ctx, sampler, act, network.Request{K: netUnits, Output: network.Given,
					V: sampler.Truth.Output, Descent: 200, Seed: seed, Threads: 1})
				if err != nil && !tooFew(err) {
					return nil, err
				}
				if err == nil && metric.Units(r.Network, sampler.Truth, false).Weights < recoveredBelow {
					count++
				}
			}
			out := new(output)
			out.point("", seriesRows, d, float64(ratio), float64(count)/float64(problems))
			out.Rows = [][]string{{fmt.Sprint(d), fmt.Sprint(ratio), fmt.Sprintf("%d of %d", count, problems)}}
			return out, nil
		}}
}

// tooFew says whether an error of a fit is of its rows, of which there are too few.
func tooFew(err error) bool {
	var data *dataset.Error
	var tensors *problem.RequestError
	return errors.As(err, &data) || errors.As(err, &tensors)
}

// most is the share of all problems that recovery means here, each that at any d.
const most, each = 0.8, 2.0 / 3

func judgeRows(o *Outcome) Verdict {
	ratios, _ := o.means(seriesRows, median)
	var dims []int
	for _, c := range o.Of(seriesRows) {
		if !slices.Contains(dims, c.Run) {
			dims = append(dims, c.Run)
		}
	}
	pooled := func(dims []int, ratios []float64) float64 {
		var shares []float64
		for _, c := range o.Of(seriesRows) {
			if slices.Contains(dims, c.Run) && slices.Contains(ratios, c.X[0]) {
				shares = append(shares, c.Y[0])
			}
		}
		return stat.Mean(shares, nil)
	}
	from := len(ratios)
	for from > 0 && pooled(dims, ratios[from-1:from]) >= most {
		from--
	}
	if from == len(ratios) {
		return Verdict{Measured: fmt.Sprintf("no more than %.0f %% are recovered from %.0f·d rows",
			100*pooled(dims, ratios[from-1:]), ratios[from-1]), Because: "it is not recovered"}
	}
	var measured, rare []string
	for _, d := range dims {
		share := pooled([]int{d}, ratios[from:])
		measured = append(measured, fmt.Sprintf("%.0f %% at d = %d", 100*share, d))
		if share < each {
			rare = append(rare, fmt.Sprintf("d = %d", d))
		}
	}
	v := Verdict{Measured: fmt.Sprintf("from n = %.0fd on %s are recovered; at n = %.0fd %.0f %% of all", ratios[from],
		strings.Join(measured, ", "), ratios[0], 100*pooled(dims, ratios[:1])), Agrees: len(rare) == 0}
	if !v.Agrees {
		v.Because = fmt.Sprintf("rows that suffice elsewhere do not at %s", strings.Join(rare, ", "))
	}
	return v
}
