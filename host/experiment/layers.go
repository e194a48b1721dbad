package experiment

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host/gru"
	"github.com/gatedlearning/moe/host/gru/states"
	"github.com/gatedlearning/moe/internal/stream"
)

// The layers of the figure have so many inputs and units.
const layerInputs, layerUnits = 2, 2

// Measures of the figure's units: that of its curves, and what its table has beside them.
const (
	layerErrors = "errors"
	layerTable  = "table"
)

// layerSizes are the steps, the levels of noise and the number of layers of the figure.
func layerSizes(z size) (ns []int, sigmas []float64, layers int) {
	if z.quick {
		return []int{400, 1600}, []float64{0.01}, 2
	}
	return []int{500, 2000, 8000}, []float64{0.01, 0.1}, 6
}

// layersFromStates is the error of recurrent layers learned from their states against the steps.
func layersFromStates(z size) *Figure {
	ns, sigmas, layers := layerSizes(z)
	f := &Figure{
		ID: "gru-states", Title: "A recurrent layer from its states",
		Source: "beyond the papers; 000 Section 2, 002 Eq. 5", Own: true,
		Claim: "Of a layer of gated recurrent units with gates of 0 and 1 the candidate's weights are recovered from " +
			"its states as well as by one who knows the gates, and their errors fall like 1/√n.",
		Settings: fmt.Sprintf("%d layers of %d units over %d inputs from N(0, I), with random weights, drawn until "+
			"every unit keeps its state, and takes a closed and an open candidate, on a tenth of the steps each; the "+
			"first n steps of each, whose states have noise. As by moe gru learn. "+
			"One who knows the gates has the least squares of the same steps. Errors are ‖learned − true‖ / ‖true‖ of "+
			"all units' W and U.", layers, layerUnits, layerInputs),
		X: Axis{Label: "steps n", Log: true}, Y: Axis{Label: "relative error", Log: true},
		measure: layerErrors, judge: judgeLayers(z, sigmas), Views: views("W", "U"),
		Columns: []string{"σ", "n", "layers", "W off by", "with known gates", "U off by", "with known gates",
			"decisions that differ", "units in doubt"},
		table: layersTable(ns, sigmas),
	}
	for _, sigma := range sigmas {
		for run := range layers {
			f.units = append(f.units, unit{key: fmt.Sprintf("gru %d %d sigma %v n %v run %d", layerInputs, layerUnits,
				sigma, ns, run), run: func(ctx context.Context, seed uint64) (*output, error) {
				return learnLayer(ctx, seed, sigma, ns, run)
			}})
		}
	}
	return f
}

// layerPart is a number of a layer that was learned.
type layerPart struct{ name, by string }

// of names a series at a level of noise.
func (p layerPart) of(sigma float64) string {
	return fmt.Sprintf("%s, σ = %v, %s", p.name, sigma, p.by)
}

// The numbers of a layer: errors of W and U, of one who knows the gates too, the share of decisions that differ from
// the truth's, and the units in doubt.
var (
	layerW        = layerPart{"W", "learned"}
	layerU        = layerPart{"U", "learned"}
	layerKnownW   = layerPart{"W", "gates known"}
	layerKnownU   = layerPart{"U", "gates known"}
	layerDiffer   = layerPart{"decisions", "differ"}
	layerDoubtful = layerPart{"units", "in doubt"}
)

// learnLayer learns a random layer from its first steps, as many as each of ns.
func learnLayer(ctx context.Context, seed uint64, sigma float64, ns []int, run int) (*output, error) {
	truth, err := busyLayer(ctx, seed)
	if err != nil {
		return nil, err
	}
	parts := []layerPart{layerW, layerKnownW, layerU, layerKnownU, layerDiffer, layerDoubtful}
	traces := make([]trace, len(parts))
	for _, n := range ns {
		r := gru.Recording{Steps: n, Sigma: sigma, Gates: gru.Binary, Seed: seed}
		learned, err := states.Learn(ctx, states.Record(truth, r), states.Config{Hidden: layerUnits, Threads: 1})
		if err != nil {
			return nil, err
		}
		oracles, err := gru.Oracles(ctx, truth, r)
		if err != nil {
			return nil, err
		}
		got, err := learned.Recovered(ctx, truth, gru.Binary, seed)
		if err != nil {
			return nil, err
		}
		doubtful := 0
		for _, unit := range learned.Units {
			if unit.Doubtful() {
				doubtful++
			}
		}
		w, u := offBy(truth, oracles)
		decisions := max(1, got.Update.Decisions+got.Reset.Decisions)
		differ := float64(got.Update.Differ+got.Reset.Differ) / float64(decisions)
		for i, v := range []float64{got.W, w, got.U, u, differ, float64(doubtful)} {
			traces[i].add(float64(n), v)
		}
	}
	out := new(output)
	for i, p := range parts {
		measure := layerErrors
		if p == layerDiffer || p == layerDoubtful {
			measure = layerTable
		}
		out.add(measure, p.of(sigma), run, &traces[i])
	}
	return out, nil
}

// leastShare is that of the steps on which every unit of a layer does each of what it can do.
const leastShare = 0.1

// busyLayer is the first of random layers of which that holds.
func busyLayer(ctx context.Context, seed uint64) (*gru.Layer, error) {
	rng := stream.New(seed, stream.Study, 1)
	for {
		l := gru.Random(rng, layerInputs, layerUnits)
		if err := gru.Balance(ctx, l, seed); err != nil {
			return nil, err
		}
		shares, err := gru.Shares(ctx, l, gru.Recording{Steps: 2000, Sigma: 0.01, Seed: seed})
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(shares, func(s [3]float64) bool { return slices.Min(s[:]) < leastShare }) {
			return l, nil
		}
	}
}

// layersTable has a row for every level of noise and number of steps.
func layersTable(ns []int, sigmas []float64) func(*Outcome) [][]string {
	return func(o *Outcome) (rows [][]string) {
		for _, sigma := range sigmas {
			for at, n := range ns {
				beside := func(p layerPart) []float64 { return o.besideAt(p.of(sigma), float64(n)) }
				row := []string{fmt.Sprint(sigma), fmt.Sprint(n), fmt.Sprint(len(beside(layerDiffer)))}
				for _, p := range []layerPart{layerW, layerKnownW, layerU, layerKnownU} {
					_, y := o.geometric(p.of(sigma))
					row = append(row, g2(y[at]))
				}
				rows = append(rows, append(row, g2(100*stat.Mean(beside(layerDiffer), nil))+" %",
					fmt.Sprint(floats.Sum(beside(layerDoubtful)))))
			}
		}
		return rows
	}
}

// offBy are ‖estimated − true‖ / ‖true‖ of W and U of the oracles that there are.
func offBy(truth *gru.Layer, oracles []*gru.Oracle) (w, u float64) {
	var off, norm [2]float64
	for j, o := range oracles {
		if o == nil {
			continue
		}
		for part, row := range [][]float64{truth.Candidate.W.RawRowView(j), truth.Candidate.U.RawRowView(j)} {
			for i, v := range row {
				e := o.Estimate[part*layerInputs+i] - v
				off[part] += e * e
				norm[part] += v * v
			}
		}
	}
	return math.Sqrt(off[0] / norm[0]), math.Sqrt(off[1] / norm[1])
}

// asGoodAsKnown is how many times the error of one who knows the gates the error at the largest n may be, in the
// geometric mean over layers.
const asGoodAsKnown = 1.2

// judgeLayers asks for that, for no unit in doubt there, and at full size, where layers are enough to tell, for a slope
// of every error on n within 0.2 of −½.
func judgeLayers(z size, sigmas []float64) func(*Outcome) Verdict {
	return func(o *Outcome) Verdict {
		v := Verdict{Agrees: true}
		fail := func(format string, args ...any) { v.Agrees, v.Because = false, fmt.Sprintf(format, args...) }
		var measured []string
		for _, sigma := range sigmas {
			for _, p := range [][2]layerPart{{layerW, layerKnownW}, {layerU, layerKnownU}} {
				x, y := o.geometric(p[0].of(sigma))
				_, known := o.geometric(p[1].of(sigma))
				last, part := len(x)-1, p[0].name
				ratio, by := y[last]/known[last], slope(x, y)
				measured = append(measured, fmt.Sprintf("%s at σ = %v %s, %.2f times (power %.2f)", part, sigma,
					g2(y[last]), ratio, by))
				if !(ratio <= asGoodAsKnown) {
					fail("%s at σ = %v is off by %.2f times as much as with known gates", part, sigma, ratio)
				}
				if !z.quick && !(math.Abs(by+0.5) <= 0.2) {
					fail("the error of %s at σ = %v goes like n to the %.2f", part, sigma, by)
				}
				if doubtful := floats.Sum(o.besideAt(layerDoubtful.of(sigma), x[last])); doubtful > 0 {
					fail("%v units are in doubt at the largest n, σ = %v", doubtful, sigma)
				}
			}
		}
		v.Measured = "errors at the largest n, as multiples of those with known gates, and their power of n: " +
			strings.Join(measured, "; ")
		return v
	}
}
