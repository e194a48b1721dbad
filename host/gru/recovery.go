package gru

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Recovery is how near a learned layer comes to the one whose states it was learned from.
type Recovery struct {
	// W and U are ‖learned − true‖ / ‖true‖ of the candidate's weights, over the units whose
	// weights the states tell: for W those that have a candidate, for U those whose reset gate
	// switches. 0 where there is none.
	W float64 `json:"w"`
	U float64 `json:"u"`
	// Update and Reset are of the gates that switch.
	Update GateRecovery `json:"update"`
	Reset  GateRecovery `json:"reset"`
	Free   FreeRun      `json:"free"`
}

// GateRecovery compares gates by their decisions, η > 0 or not, on the states of a new record
// of the true layer, and by the directions of their weights on (x, h).
type GateRecovery struct {
	Gates     int     `json:"gates"` // that switch, of as many as there are units
	Decisions int     `json:"decisions"`
	Differ    int     `json:"differ"` // of the decisions
	Angle     float64 `json:"angle"`  // the largest between the weights of a gate and the true ones, degrees
}

// FreeRun is a run of both layers side by side from the state 0 with the same inputs and
// without noise, each going on from its own state.
type FreeRun struct {
	Steps   int     `json:"steps"`
	Largest float64 `json:"largest"` // difference of a state
	Parted  int     `json:"parted"`  // the first step at which one is above Apart, from 1; 0: none
	Apart   int     `json:"apart"`   // steps at which one is
}

// Apart is the difference of a state above which two layers have parted: a gate has decided
// otherwise.
const Apart = 0.1

// Recovered compares the layer of these units with the true one: the candidate's weights, the gates on the
// states of a record, and a free run of so many steps under the gates of the record, with other inputs.
func Recovered(ctx context.Context, truth *Layer, units []*Unit, record Recording, free int) (*Recovery, error) {
	learned := LayerOf(units, truth.Inputs())
	out := new(Recovery)
	w, u := new(distance), new(distance)
	var updates, resets []int
	for j, unit := range units {
		update, reset := unit.Switches()
		if unit.Has(Open) {
			w.add(learned.Candidate.W.RawRowView(j), truth.Candidate.W.RawRowView(j))
		}
		if update {
			updates = append(updates, j)
			out.Update.Angle = max(out.Update.Angle, angle(learned.Update, truth.Update, j))
		}
		if reset {
			u.add(learned.Candidate.U.RawRowView(j), truth.Candidate.U.RawRowView(j))
			resets = append(resets, j)
			out.Reset.Angle = max(out.Reset.Angle, angle(learned.Reset, truth.Reset, j))
		}
	}
	out.W, out.U = w.relative(), u.relative()
	out.Update.Gates, out.Reset.Gates = len(updates), len(resets)
	inputs, hidden := truth.Inputs(), truth.Hidden()
	a, b := truth.NewStepper(record.Gates), learned.NewStepper(record.Gates)
	err := Record(ctx, truth, record, func(row []float64) error {
		x, h := row[:inputs], row[inputs:inputs+hidden]
		a.predictors(x, h)
		b.predictors(x, h)
		out.Update.count(updates, a.z, b.z)
		out.Reset.count(resets, a.r, b.r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	out.Free, err = freeRun(ctx, truth, learned, Recording{Steps: free, Gates: record.Gates, Seed: record.Seed,
		Number: record.Number + 1})
	return out, err
}

func (g *GateRecovery) count(units []int, a, b *mat.VecDense) {
	for _, j := range units {
		g.Decisions++
		if (a.AtVec(j) > 0) != (b.AtVec(j) > 0) {
			g.Differ++
		}
	}
}

// freeRun runs other beside l, whose run r records.
func freeRun(ctx context.Context, l, other *Layer, r Recording) (FreeRun, error) {
	out := FreeRun{Steps: r.Steps}
	inputs, hidden := l.Inputs(), l.Hidden()
	step, h := other.NewStepper(r.Gates), make([]float64, hidden)
	t := 0
	err := Record(ctx, l, r, func(row []float64) error {
		t++
		step.Next(h, row[:inputs], h)
		d := floats.Distance(row[inputs+hidden:], h, math.Inf(1))
		out.Largest = max(out.Largest, d)
		if d > Apart {
			out.Apart++
			if out.Parted == 0 {
				out.Parted = t
			}
		}
		return nil
	})
	return out, err
}

// distance adds up ‖a − b‖² and ‖b‖².
type distance struct{ apart, norm float64 }

func (d *distance) add(a, b []float64) {
	d.apart += math.Pow(floats.Distance(a, b, 2), 2)
	d.norm += floats.Dot(b, b)
}

func (d *distance) relative() float64 {
	if d.norm == 0 {
		return math.Sqrt(d.apart)
	}
	return math.Sqrt(d.apart / d.norm)
}

// angle is that between rows j of two predictors' weights, in degrees; 90 where one is 0.
func angle(a, b Affine, j int) float64 {
	of := func(a Affine) []float64 {
		return append(append([]float64{}, a.W.RawRowView(j)...), a.U.RawRowView(j)...)
	}
	p, q := of(a), of(b)
	if floats.Norm(p, 2) == 0 || floats.Norm(q, 2) == 0 {
		return 90
	}
	floats.Scale(1/floats.Norm(p, 2), p)
	floats.Scale(1/floats.Norm(q, 2), q)
	// exact for small angles, as the arc cosine is not
	return 2 * math.Asin(min(1, floats.Distance(p, q, 2)/2)) * 180 / math.Pi
}
