package experiment

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/network"
	"github.com/gatedlearning/moe/host/sample"
)

// rowsCase is a kind of network whose rows for recovery are looked for.
type rowsCase struct {
	k, d  int
	kappa float64
}

func (c rowsCase) open(n int, seed uint64) (*sample.NetworkSampler, error) {
	return sample.NewNetwork(sample.NetworkConfig{Activation: hiddenNamed("squared ReLU"), K: c.k, D: c.d, N: n,
		Condition: c.kappa, Seed: seed})
}

// Most rows that are tried, over d, and least.
const leastRatio, mostRatio = 4, 512

const rowsSettings = "Squared ReLU, d = 10, no noise, v given, %s; %d networks each, a point in the picture. " +
	"The rows that a network needs are the least n/d of 4, 8, …, 512 from which on it is recovered at all of them, " +
	"with the first rows of one sample: the tensors' start, 200 steps of gradient descent and Levenberg–Marquardt " +
	"bring the relative error of W below 1e−3. One that is not recovered at 512 counts with 1024. With less than k " +
	"rows over d there are fewer equations than weights. "

// rowsByUnits is the number of rows that recovery takes, against k.
func rowsByUnits(z size) *Figure {
	ks, nets := []int{2, 4, 8}, z.of(3, 40)
	if z.quick {
		ks = []int{2, 4}
	}
	f := &Figure{
		ID: "003-k", Title: "Rows for recovery against k", Source: "003 slide 6",
		Claim: "The number of rows for recovery, over d, is at most a polynomial in k.",
		Settings: fmt.Sprintf(rowsSettings, "κ = 2", nets) + "A polynomial has a slope on logarithmic axes that " +
			"does not grow; an exponential's doubles where k does. A slope over the last doubling of k of twice that " +
			"over the one before or more, and by more than 1, does not agree.",
		X: Axis{Label: "k", Log: true}, Y: axisRowsNeeded, judge: judgeRowsOver("k"),
	}
	for _, k := range ks {
		f.units = append(f.units, neededUnits(rowsCase{k, 10, 2}, float64(k), nets)...)
	}
	return f
}

// rowsByCondition is the same against κ.
func rowsByCondition(z size) *Figure {
	kappas, nets := []float64{1, 2, 4, 8}, z.of(3, 12)
	if z.quick {
		kappas = []float64{1, 4}
	}
	f := &Figure{
		ID: "003-kappa", Title: "Rows for recovery against the condition number of W", Source: "003 slide 6",
		Claim:    "The number of rows for recovery, over d, is at most a polynomial in the condition number of W.",
		Settings: fmt.Sprintf(rowsSettings, "k = 3", nets) + "The rule is that of 003-k.",
		X:        Axis{Label: "κ", Log: true}, Y: axisRowsNeeded, judge: judgeRowsOver("κ"),
	}
	for _, kappa := range kappas {
		f.units = append(f.units, neededUnits(rowsCase{3, 10, kappa}, kappa, nets)...)
	}
	return f
}

var axisRowsNeeded = Axis{Label: "rows needed, n/d", Log: true}

const seriesNeeded = "networks, and their geometric mean"

// neededUnits are the rows that networks of a case need, at their place on the axis.
func neededUnits(c rowsCase, at float64, nets int) (out []unit) {
	for run := range nets {
		out = append(out, unit{key: fmt.Sprintf("rows needed by doublings %+v from %d to %d run %d", c, leastRatio,
			mostRatio, run),
			run: func(ctx context.Context, seed uint64) (*output, error) {
				needed, err := c.needed(ctx, seed)
				if err != nil {
					return nil, err
				}
				out := new(output)
				out.point("", seriesNeeded, run, at, float64(needed))
				return out, nil
			}})
	}
	return out
}

// needed are the rows that a network needs, over d: twice mostRatio where these are too few.
func (c rowsCase) needed(ctx context.Context, seed uint64) (int, error) {
	act, needed := hiddenNamed("squared ReLU"), 2*mostRatio
	for ratio := mostRatio; ratio >= leastRatio; ratio /= 2 {
		sampler, err := c.open(ratio*c.d, seed)
		if err != nil {
			return 0, err
		}
		r, err := network.Fit(ctx, sampler, act, network.Request{K: c.k, Output: network.Given,
			V: sampler.Truth.Output, Descent: 200, Seed: seed, Threads: 1})
		if tooFew(err) || err == nil && metric.Units(r.Network, sampler.Truth, false).Weights >= recoveredBelow {
			return needed, nil
		}
		if err != nil {
			return 0, err
		}
		needed = ratio
	}
	return needed, nil
}

// steady says whether a power at the end of an axis is not far above that at its beginning: that of an exponential at
// least doubles where the axis does.
func steady(first, end float64) bool { return end <= max(2*first, first+1) }

// judgeRowsOver asks that the power of what is on the axis does not grow.
func judgeRowsOver(what string) func(*Outcome) Verdict {
	return func(o *Outcome) Verdict {
		x, y := o.geometric(seriesNeeded)
		last := len(x) - 1
		before, end := slope(x[:2], y[:2]), slope(x[last-1:], y[last-1:])
		if last > 1 {
			before = slope(x[last-2:last], y[last-2:last])
		}
		var measured []string
		for i := range x {
			measured = append(measured, fmt.Sprintf("%.0f at %s = %g", y[i], what, x[i]))
		}
		all := o.values(seriesNeeded)
		beyond := len(all) - below(all, mostRatio)
		v := Verdict{Agrees: steady(before, end),
			Measured: fmt.Sprintf("rows needed over d, geometric mean: %s, as %s^%.2f; the power over the last "+
				"doubling is %.2f ± %.2f, over the one before %.2f; %d of %d networks need more than %d",
				strings.Join(measured, ", "), what, slope(x, y), end, powerError(o, x[last-1:]), before, beyond,
				len(all), mostRatio)}
		switch {
		case 4*beyond > len(all):
			v.Agrees, v.Because = false, fmt.Sprintf("%d of %d networks are not recovered", beyond, len(all))
		case !v.Agrees:
			v.Because = fmt.Sprintf("the power of %s grows from %.2f to %.2f, whose standard errors are %.2f and "+
				"%.2f: a polynomial is not ruled out", what, before, end, powerError(o, x[max(0, last-2):last]),
				powerError(o, x[last-1:]))
		case beyond > 0:
			v.Because = fmt.Sprintf("but %d of %d networks are not recovered, which may hide more", beyond, len(all))
		}
		return v
	}
}

// powerError is the standard error of the power of two abscissae between their geometric means.
func powerError(o *Outcome, x []float64) float64 {
	variance := 0.0
	for _, v := range x {
		needed := o.at(seriesNeeded, v)
		for i := range needed {
			needed[i] = math.Log(needed[i])
		}
		variance += stat.Variance(needed, nil) / float64(len(needed))
	}
	return math.Sqrt(variance) / math.Log(x[len(x)-1]/x[0])
}

// Rows of the start of 003-epsilon, and of each of its steps, over d.
const startRatio, stepRatio = 256, 64

// leastDigits and mostDigits are the precisions of 003-epsilon.
const leastDigits, mostDigits = 2, 12

// precisionDims are the d of 003-epsilon.
func precisionDims(z size) []int {
	if z.quick {
		return []int{10, 20}
	}
	return []int{10, 20, 40}
}

// rowsByPrecision is the number of rows that gradient descent takes in all, where every step has rows of its own.
func rowsByPrecision(z size) *Figure {
	nets := z.of(3, 8)
	f := &Figure{
		ID: "003-epsilon", Title: "Rows and steps against the precision", Source: "003 slide 6",
		Claim: "The number of rows is linear in d·log(1/ε), and the time in that number times d.",
		Settings: fmt.Sprintf("Squared ReLU, k = 3, κ = 2, no noise, v given; %d networks in ℝ¹⁰, each also in the "+
			"larger ℝ^d, with zeros. The tensors' start of %dd rows, then gradient descent with %dd fresh rows for "+
			"each step, as the theory has it, and a step of 1 over the largest curvature at the start, until the "+
			"relative error of W is 1e−12. On the same rows no more would be needed for any ε. Time is counted as "+
			"rows times d, never by a clock. Linear is that the rows from 1e−7 to 1e−12 are within a factor of 1.25 "+
			"of those from 1e−2 to 1e−7 in the median at every d, and that a network's rows over d from 1e−2 to "+
			"1e−12 go in the median as no more than d^0.25 from the least d to the largest. A run that does not come "+
			"to 1e−12 counts as stuck and is not drawn. Networks differ in how many rows a digit takes; the picture "+
			"has each over what it takes for 1e−12 at d = 10.", nets, startRatio, stepRatio),
		X: Axis{Label: "digits, log_10(1/ε)"}, Y: Axis{Label: "rows/d, over those of d = 10"},
		judge: judgePrecision(z), measure: measureRows, drawn: overFirst(precisionDims(z)[0]),
	}
	for run := range nets {
		f.units = append(f.units, precisionUnit(precisionDims(z), run))
	}
	return f
}

func precisionSeries(d int) string { return fmt.Sprintf("d = %d", d) }

// mostSteps ends a descent that does not come near.
const mostSteps = 6000

// measureRows are the rows over d that a run takes in all, measureStuck the runs that do not end.
const measureRows, measureStuck = "rows", "stuck"

// overFirst are the rows of each network over those that it takes in the end at the first d.
func overFirst(first int) func(*Outcome) []Curve {
	return func(o *Outcome) (out []Curve) {
		whole := map[int]float64{}
		for _, c := range o.Of(precisionSeries(first)) {
			whole[c.Run] = c.Last()
		}
		for _, c := range o.Curves {
			if by, found := whole[c.Run]; found {
				c.Y = slices.Clone(c.Y)
				floats.Scale(1/by, c.Y)
				out = append(out, c)
			}
		}
		return out
	}
}

// asideOf are the runs of a measure that are not drawn.
func asideOf(o *Outcome, measure, series string) (out []Curve) {
	for _, c := range o.aside {
		if c.Measure == measure && c.Series == series {
			out = append(out, c)
		}
	}
	return out
}

func precisionUnit(dims []int, run int) unit {
	return unit{key: fmt.Sprintf("rows by precision d %v start %d step %d run %d", dims, startRatio, stepRatio, run),
		run: func(ctx context.Context, seed uint64) (*output, error) {
			out := new(output)
			small, err := rowsCase{3, dims[0], 2}.open(1, seed)
			if err != nil {
				return nil, err
			}
			for _, d := range dims {
				c := rowsCase{3, d, 2}
				at, err := c.descend(ctx, widened(small.Truth, d), seed)
				switch {
				case tooFew(err) || err == nil && len(at) <= mostDigits-leastDigits:
					out.point(measureStuck, precisionSeries(d), run, float64(d), 1)
				case err != nil:
					return nil, err
				default:
					t := new(trace)
					for i, steps := range at {
						t.add(float64(leastDigits+i), float64(startRatio+stepRatio*steps))
					}
					out.add(measureRows, precisionSeries(d), run, t)
				}
			}
			return out, nil
		}}
}

// widened is a network over d features, those that it does not have with weights of 0.
func widened(n *model.Network, d int) *model.Network {
	k := len(n.Output)
	from, out := len(n.Weights)/k, model.NewNetwork(k, d)
	for i := range k {
		copy(out.Weights[i*d:], n.Weights[i*from:(i+1)*from])
	}
	copy(out.Output, n.Output)
	return out
}

// descend counts the steps that bring the error to each precision, with rows of its own for each step.
func (c rowsCase) descend(ctx context.Context, truth *model.Network, seed uint64) (at []int, err error) {
	act := hiddenNamed("squared ReLU")
	sampler, err := c.open(startRatio*c.d, seed)
	if err != nil {
		return nil, err
	}
	sampler.Truth = truth
	fit, err := network.Fit(ctx, sampler, act, network.Request{K: c.k, Output: network.Given, V: truth.Output,
		TensorsOnly: true, Seed: seed, Threads: 1})
	if err != nil {
		return nil, err
	}
	start := fit.Tensors.Network
	data, err := dataset.Load(ctx, sampler)
	if err != nil {
		return nil, err
	}
	l, err := network.NewLoss(act, data, c.k, start.Output, 1)
	if err != nil {
		return nil, err
	}
	size, _, err := network.StepSize(ctx, l, start.Weights)
	if err != nil {
		return nil, err
	}
	w, grad := start.Weights, make([]float64, len(start.Weights))
	for step := 0; step <= mostSteps && leastDigits+len(at) <= mostDigits; step++ {
		e := metric.Units(l.Network(w), truth, false).Weights
		if math.IsNaN(e) || math.IsInf(e, 0) {
			return at, nil
		}
		for leastDigits+len(at) <= mostDigits && e <= math.Pow(10, -float64(leastDigits+len(at))) {
			at = append(at, step)
		}
		if l, err = c.fresh(ctx, truth, seed+uint64(step+1)<<32); err != nil {
			return nil, err
		}
		if _, err = l.Grad(ctx, grad, w); err != nil {
			return nil, err
		}
		floats.AddScaled(w, -size, grad)
	}
	return at, nil
}

// fresh is the loss on rows of a network for one step.
func (c rowsCase) fresh(ctx context.Context, truth *model.Network, seed uint64) (*network.Loss, error) {
	sampler, err := c.open(stepRatio*c.d, seed)
	if err != nil {
		return nil, err
	}
	sampler.Truth = truth
	data, err := dataset.Load(ctx, sampler)
	if err != nil {
		return nil, err
	}
	return network.NewLoss(hiddenNamed("squared ReLU"), data, c.k, truth.Output, 1)
}

// judgePrecision asks that later digits take as many rows as earlier ones, and a network's over d as many at any d.
// At quick size, where few networks leave more than that, the power of d may be 0.7.
func judgePrecision(z size) func(*Outcome) Verdict {
	const half = (mostDigits - leastDigits) / 2
	all, most := precisionDims(z), 0.25
	if z.quick {
		most = 0.7
	}
	return func(o *Outcome) Verdict {
		var measured, bent []string
		lost, runs := 0, 0
		digits := map[int]map[int]float64{} // rows a digit, by d and run
		for _, d := range all {
			curves := asideOf(o, measureRows, precisionSeries(d))
			none := len(asideOf(o, measureStuck, precisionSeries(d)))
			lost, runs = lost+none, runs+len(curves)+none
			var bends, rows []float64
			digits[d] = map[int]float64{}
			for _, c := range curves {
				digits[d][c.Run] = (c.Y[2*half] - c.Y[0]) / (2 * half)
				rows, bends = append(rows, digits[d][c.Run]), append(bends, (c.Y[2*half]-c.Y[half])/(c.Y[half]-c.Y[0]))
			}
			b := median(bends)
			measured = append(measured, fmt.Sprintf("%.3g·d rows a digit at d = %d, the second half %.2f times the "+
				"first", median(rows), d, b))
			if !(b <= 1.25 && b >= 1/1.25) {
				bent = append(bent, fmt.Sprintf("at d = %d later digits take %.2f times the rows of earlier ones", d,
					b))
			}
		}
		var powers []float64
		first, last := all[0], all[len(all)-1]
		for run := range runs {
			low, lowest := digits[first][run]
			if high, highest := digits[last][run]; lowest && highest {
				powers = append(powers, math.Log(high/low)/math.Log(float64(last)/float64(first)))
			}
		}
		power := median(powers)
		if !(power <= most) {
			bent = append(bent, fmt.Sprintf("rows over d go as d^%.2f", power))
		}
		if 4*lost > runs {
			bent = append(bent, fmt.Sprintf("%d of %d runs are stuck", lost, runs))
		}
		v := Verdict{Measured: fmt.Sprintf("in the median %s; a network's rows over d go as d^%.2f",
			strings.Join(measured, "; "), power), Agrees: len(bent) == 0, Because: strings.Join(bent, "; ")}
		if v.Agrees && lost > 0 {
			v.Because = fmt.Sprintf("but %d of %d runs do not come to 1e−12", lost, runs)
		}
		return v
	}
}
