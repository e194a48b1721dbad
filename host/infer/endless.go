package infer

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/numeric"
)

const (
	// certain is the information of the gate along a direction, over that of a gate that knows nothing, below which no
	// row is in doubt along it. One row of evens among a million has 1e−6; a climb ends where its gain is some 1e−9 of
	// a row.
	certain = 1e-8
	// moved is the share of a direction, all of its coefficients by their information, from which one is moved by it.
	moved = 1e-4
	// large is the least coefficient of a gate, in the units of the fit, that may have no finite optimum.
	large = 3
)

// Endless are directions in the space of θ, columns, along which the gate is certain of all rows that they move: there
// the likelihood rises to its supremum and has no maximum. They are of length 1 when each parameter is multiplied by
// its scale.
type Endless struct {
	parameters []loss.Parameter
	along      *mat.Dense
	scale      []float64
}

// Moves says whether a coefficient of the gate has no finite optimum, since it moves only rows of which the gate is
// certain, as where an expert has no row of a factor's level.
func (e *Endless) Moves(q loss.Parameter) bool {
	if e == nil {
		return false
	}
	at := slices.Index(e.parameters, q)
	return at >= 0 && slices.ContainsFunc(e.along.RawRowView(at), func(d float64) bool {
		return math.Abs(d)*e.scale[at] > moved
	})
}

// Converted are the same directions for the parameters of the features themselves, as [Covariance.Convert] has them;
// nil for nil.
func (e *Endless) Converted(mean, sd []float64) *Endless {
	if e == nil {
		return nil
	}
	d := len(sd)
	along := convertRows(mat.DenseCopyOf(e.along), e.parameters, d, mean, sd)
	out := &Endless{e.parameters, along, slices.Clone(e.scale)}
	for at, q := range e.parameters {
		if q.Feature >= 0 && q.Feature != d {
			out.scale[at] *= sd[q.Feature]
		}
	}
	return out
}

// Names are those of the coefficients that are moved, as [Covariance.Names] has them.
func (e *Endless) Names(features []string) []string {
	if e == nil {
		return nil
	}
	moved := slices.DeleteFunc(slices.Clone(e.parameters), func(q loss.Parameter) bool { return !e.Moves(q) })
	return (&Covariance{Parameters: moved, d: len(features)}).Names(features)
}

// gated is a likelihood as its gate is looked at, of one target or of several.
type gated[P any] interface {
	Ridge() bool
	Parameters() []loss.Parameter
	GateInformation(ctx context.Context, h *mat.SymDense, p P) error
}

// withGate are parameters with a gate, which OfGate aliases.
type withGate[P any] interface {
	Clone() P
	OfGate() *model.Params
}

// EndlessOf are those of l at p, nil where there are none, or l has a ridge on its gate.
func EndlessOf[P withGate[P]](ctx context.Context, l gated[P], p P) (*Endless, error) {
	gate := p.OfGate()
	if l.Ridge() || max(floats.Norm(gate.Gating, math.Inf(1)),
		floats.Norm(gate.GatingIntercepts, math.Inf(1))) < large {
		return nil, nil
	}
	parameters := l.Parameters()
	var places []int
	for i, q := range parameters {
		if q.Part == model.Gate {
			places = append(places, i)
		}
	}
	if len(places) == 0 {
		return nil, nil
	}
	directions, scale, err := certainDirections(ctx, l, p, len(places))
	if directions == nil || err != nil {
		return nil, err
	}
	_, found := directions.Dims()
	out := &Endless{parameters, mat.NewDense(len(parameters), found, nil), make([]float64, len(parameters))}
	for i, at := range places {
		out.scale[at] = scale[i]
		for j := range found {
			out.along.Set(at, j, directions.At(i, j)/scale[i])
		}
	}
	return out, nil
}

// certainDirections are those of the n coefficients of the gate at p of which no row is in doubt, each of length 1 when
// coefficients are multiplied by scale; nil where there are none.
func certainDirections[P withGate[P]](ctx context.Context, l gated[P], p P,
	n int) (directions *mat.Dense, scale []float64, err error) {
	g, blind := mat.NewSymDense(n, nil), mat.NewSymDense(n, nil)
	if err := l.GateInformation(ctx, g, p); err != nil {
		return nil, nil, err
	}
	even := p.Clone()
	clear(even.OfGate().Gating)
	clear(even.OfGate().GatingIntercepts)
	if err := l.GateInformation(ctx, blind, even); err != nil {
		return nil, nil, err
	}
	scale, unit := make([]float64, n), make([]float64, n)
	for i := range scale {
		scale[i] = math.Sqrt(blind.At(i, i))
		if !(scale[i] > 0) {
			return nil, nil, nil
		}
		unit[i] = 1 / scale[i]
	}
	var factor mat.Cholesky
	if !factor.Factorize(scaledBy(unit, blind)) {
		return nil, nil, nil
	}
	// The eigenvectors u of L⁻¹·G·L⁻ᵀ are those d = L⁻ᵀu at which dᵀGd over dᵀBd is stationary, B = LLᵀ.
	var lower mat.TriDense
	factor.LTo(&lower)
	var half, both mat.Dense
	if half.Solve(&lower, scaledBy(unit, g)) != nil || both.Solve(&lower, half.T()) != nil {
		return nil, nil, nil
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(numeric.Symmetric(&both), true) {
		return nil, nil, nil
	}
	found := 0
	for _, value := range eigen.Values(nil) { // ascending
		if value < certain {
			found++
		}
	}
	if found == 0 {
		return nil, nil, nil
	}
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	directions = new(mat.Dense)
	if directions.Solve(lower.T(), vectors.Slice(0, n, 0, found)) != nil {
		return nil, nil, nil
	}
	for j := range found {
		norm := mat.Norm(directions.ColView(j), 2)
		for i := range n {
			directions.Set(i, j, directions.At(i, j)/norm)
		}
	}
	return directions, scale, nil
}

// across is the map R of free parameters, see [freeMap], to those at the places left that do not move along e.
func (e *Endless) across(free *mat.Dense, left []int) *mat.Dense {
	_, found := e.along.Dims()
	along := mat.NewDense(len(left), found, nil)
	for i, at := range left {
		copy(along.RawRowView(i), e.along.RawRowView(at))
	}
	if free != nil { // directions are of the gate, whose parameters are their own columns of R
		var in mat.Dense
		in.Mul(free.T(), along)
		along = &in
	}
	n, r := along.Dims()
	var qr mat.QR
	qr.Factorize(along)
	var q mat.Dense
	qr.QTo(&q)
	rest := mat.DenseCopyOf(q.Slice(0, n, r, n))
	if free == nil {
		return rest
	}
	var out mat.Dense
	out.Mul(free, rest)
	return &out
}
