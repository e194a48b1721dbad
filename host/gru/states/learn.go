// Package states learns a layer of gated recurrent units from its states: rows
// (x_t, h_{t−1}, h_t), of which every hidden unit is a mixture of experts over (x, h).
//
// [Learn] fits all units and joins them to a layer. What it needs of the layer is that its gates
// are 0 or 1, that they act as in the form reset-after, and that inputs and states are seen.
package states

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/gru"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/model"
)

// Config says how a layer is learned. Only Hidden must be set.
type Config struct {
	Hidden  int  // units
	HAC     bool // standard errors for dependent rows, beside those of independent ones
	Starts  int  // most of each fit; 0 as of [host.Auto]
	Seed    uint64
	Threads int // 0: one per processor; the result does not depend on it

	// Checkpoint and Resume are as of [host.Config].
	Checkpoint func(save func() (*Checkpoint, error))
	Resume     *Checkpoint
	// Progress, if set, is called with the number of units that are done, from one goroutine at a time.
	Progress func(done, units int)
}

// Learned is what the states say of a layer.
type Learned struct {
	*gru.Layer
	Units     []*Unit
	Steps     int
	Sequences int     // of rows that go on: the state before is the one after of the row above
	Condition float64 // of (x, h) with columns of mean 0 and variance 1
}

// Unit is a hidden unit's rows of the layer, and how they were found.
type Unit struct {
	*gru.Unit
	Fit *fitted.Model // the mixture of which they were made
	// UpdateSeparates and ResetSeparates say that the gate separates the rows: its weights
	// have a direction, and no finite size.
	UpdateSeparates, ResetSeparates bool
}

// leastP is what the test of a unit's restrictions has to reach: one in a million units fails by chance.
const leastP = 1e-6

// IsUnit says whether the experts are those of a unit with gates of 0 and 1, as far as that was tested.
func (u *Unit) IsUnit() bool { return u.DF == 0 || u.PValue >= leastP }

// Judged says whether the mixture has converged to an optimum that passed its certificate.
func (u *Unit) Judged() bool {
	c := u.Fit.Fit.Certificate
	return u.Fit.Fit.Converged && c != nil && c.Optimum == infer.Pass
}

// Doubtful says whether the unit did not pass: it is none, or not judged.
func (u *Unit) Doubtful() bool { return !u.IsUnit() || !u.Judged() }

// What a gate does in the states.
const (
	Switches = "switches"
	Always   = "always 1"
	Never    = "always 0"
	Unknown  = "unknown" // of a reset gate that never switches: it is either
)

// States are what the update gate and the reset gate do.
func (u *Unit) States() (update, reset string) {
	update, reset = Never, Unknown
	switches, resets := u.Switches()
	switch {
	case switches:
		update = Switches
	case u.Has(gru.Keep):
		update = Always
	}
	if resets {
		reset = Switches
	}
	return update, reset
}

// newStates are the steps on whose states gates are compared, and freeSteps those of a free run.
const (
	newStates = 20000
	freeSteps = 1000
)

// Recovered compares what was learned with the true layer, on states with noise as that of the units.
func (l *Learned) Recovered(ctx context.Context, truth *gru.Layer, gates gru.Gates,
	seed uint64) (*gru.Recovery, error) {
	var units []*gru.Unit
	var sigmas []float64
	for _, u := range l.Units {
		units, sigmas = append(units, u.Unit), append(sigmas, u.Fit.Sigma[0])
	}
	slices.Sort(sigmas)
	r := gru.Recording{Steps: newStates, Sigma: sigmas[len(sigmas)/2], Gates: gates, Seed: seed, Number: 1}
	return gru.Recovered(ctx, truth, units, r, freeSteps)
}

// Names are the columns of a table of states: x1 … xI, h1 … hH and next1 … nextH.
func Names(inputs, hidden int) (features, next []string) {
	for i := range inputs {
		features = append(features, fmt.Sprintf("x%d", i+1))
	}
	for j := range hidden {
		features = append(features, fmt.Sprintf("h%d", j+1))
		next = append(next, fmt.Sprintf("next%d", j+1))
	}
	return features, next
}

// Learn learns the layer of cfg.Hidden units whose states src has: I inputs x_t, the H states
// h_{t−1} before and the H states h_t after, in this order whatever their names. Every unit
// is a fit of the tree [gru.Shape] by [host.Fit], from which [gru.Match] makes its rows. Where such a
// fit has an expert too many, or is not a unit's, the trees of fewer leaves are fitted too, and the one of
// least BIC is taken: a gate that never switches has no weights that the states could tell.
//
// The result is the same at any number of threads. Errors are those of src, of ctx and of the fits, a
// [*dataset.Error] where the states do not determine the layer, and a [*host.RequestError] where cfg does not
// fit them.
func Learn(ctx context.Context, src dataset.Source, cfg Config) (*Learned, error) {
	t, err := load(ctx, src, cfg.Hidden)
	if err != nil {
		return nil, err
	}
	r := &run{Config: cfg, table: t, units: make([]*unit, cfg.Hidden), data: sync.OnceValue(t.sum)}
	for j := range r.units {
		r.units[j] = &unit{index: j}
	}
	if err := r.resume(); err != nil {
		return nil, err
	}
	if err := r.all(ctx); err != nil {
		return nil, err
	}
	out := &Learned{Steps: t.n, Sequences: t.sequences, Condition: t.condition}
	rows := make([]*gru.Unit, cfg.Hidden)
	for j, u := range r.units {
		out.Units = append(out.Units, u.chosen)
		rows[j] = u.chosen.Unit
	}
	out.Layer = gru.LayerOf(rows, t.inputs)
	return out, nil
}

// run is a layer that is being learned.
type run struct {
	Config
	*table
	data    func() string // SHA-256 of the rows
	keeping sync.Mutex
	mu      sync.Mutex // of what follows
	units   []*unit
	done    int
}

// unit is where the learning of a hidden unit stands.
type unit struct {
	index  int
	fits   []*attempt // made so far, in the order in which they are
	chosen *Unit      // nil until all are made
	save   func() (*host.Checkpoint, error)
	from   *host.Checkpoint // where the next fit goes on
}

// all learns the units, some of them side by side.
func (r *run) all(ctx context.Context) error {
	threads := model.Workers(r.Threads)
	workers := min(threads, len(r.units))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan *unit)
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			for u := range next {
				if err := r.learn(ctx, u, max(1, threads/workers)); err != nil {
					cancel(err)
				}
			}
		})
	}
	r.show()
	for _, u := range r.units {
		if ctx.Err() == nil {
			next <- u
		}
	}
	close(next)
	wait.Wait()
	return context.Cause(ctx)
}

// keep offers a checkpoint, from one goroutine at a time.
func (r *run) keep() {
	r.keeping.Lock()
	defer r.keeping.Unlock()
	r.Checkpoint(r.checkpoint)
}

func (r *run) show() {
	if r.Progress != nil {
		r.Progress(r.done, len(r.units))
	}
}

// learn learns a unit.
func (r *run) learn(ctx context.Context, u *unit, threads int) error {
	if err := r.choose(ctx, u, threads); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("unit %d: %w", u.index+1, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	r.show()
	return nil
}

// choose makes the fits of a unit until one will do, and chooses.
func (r *run) choose(ctx context.Context, u *unit, threads int) error {
	made := 0
	fit := func(s *shape) (*attempt, error) {
		made++
		if made <= len(u.fits) { // of the checkpoint
			return u.fits[made-1], nil
		}
		a, err := r.fit(ctx, u, s, threads)
		if err != nil {
			return nil, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		u.fits, u.save, u.from = append(u.fits, a), nil, nil
		return a, nil
	}
	done := func(a *attempt) (err error) {
		u.chosen, err = a.unit(u.index, r.inputs)
		return err
	}
	var kept *attempt // the state alone, where it may be all
	if r.carries(u.index) {
		var err error
		if kept, err = fit(shapeKeep); err != nil {
			return err
		}
		if c := kept.Model.Fit.Certificate; c != nil && c.Model != infer.Suspect && c.Optimum == infer.Pass {
			return done(kept)
		}
	}
	best, err := fit(shapeAll)
	if err != nil {
		return err
	}
	if best.Model.Fit.Converged && !best.Model.Fit.Has(fitted.WarnTooMany) {
		whole, err := best.unit(u.index, r.inputs)
		if err != nil {
			return err
		}
		if whole.DF > 0 && whole.IsUnit() {
			return done(best)
		}
	}
	for _, s := range []*shape{shapeOpen, shapeKeepOpen, shapeReset} {
		a, err := fit(s)
		if err != nil {
			return err
		}
		if a.Model.Fit.BIC < best.Model.Fit.BIC {
			best = a
		}
	}
	if kept != nil && kept.Model.Fit.BIC < best.Model.Fit.BIC {
		best = kept
	}
	return done(best)
}

// fewerStarts are those of a tree of fewer leaves, of which nothing speaks for most.
const fewerStarts = 8

// fit fits a tree to a unit.
func (r *run) fit(ctx context.Context, u *unit, s *shape, threads int) (*attempt, error) {
	cfg := host.Config{
		K: len(s.leaves), Intercepts: host.BothIntercepts, Hierarchy: s.tree, Seed: r.Seed, Threads: threads,
		Method: host.Auto{Starts: r.Starts}, Resume: u.from,
		GatePenalty: host.NoPenalty, // new rows are predicted by the layer
	}
	if s != shapeAll {
		cfg.Method = host.Auto{Starts: min(fewerStarts, cmp.Or(r.Starts, fewerStarts))}
	}
	if r.HAC {
		cfg.Errors = []host.ErrorKind{host.Observed, host.Dependent}
	}
	if r.Checkpoint != nil {
		cfg.Checkpoint = func(save func() (*host.Checkpoint, error)) {
			r.mu.Lock()
			u.save = save
			r.mu.Unlock()
			r.keep()
		}
	}
	act, leaves, err := s.activations(ctx)
	if err != nil {
		return nil, err
	}
	cfg.Leaves = leaves
	m, err := host.Fit(ctx, act, r.source(u.index), cfg)
	if err != nil {
		return nil, err
	}
	a := &attempt{Model: m}
	if m.HAC != nil {
		a.HAC = m.HAC.Covariance
	}
	return a, nil
}

// attempt is a fit of a unit.
type attempt struct {
	Model *fitted.Model `json:"model"`
	HAC   [][]float64   `json:"hac"` // of the parameters of Model.Covariance; null for none
}

// unit is what the attempt says of unit j.
func (a *attempt) unit(j, inputs int) (*Unit, error) {
	m := a.Model
	e := gru.Estimates{Params: m.Params(), Keeps: m.Activation.Name == identity || m.Leaves != nil &&
		m.Leaves[0].Name == identity}
	var err error
	if m.Covariance != nil {
		places, found := expertsOf(m)
		if found {
			e.Covariance = chosen(m.Covariance.Matrix, places)
			if a.HAC != nil {
				e.HAC = chosen(a.HAC, places)
			}
		}
	}
	u := &Unit{Fit: m}
	if u.Unit, err = gru.Match(e, j, inputs); err != nil {
		return nil, err
	}
	for _, s := range m.Fit.Separation {
		if e.Keeps && (slices.Contains(s.Above, 1) || slices.Contains(s.Below, 1)) {
			u.UpdateSeparates = true
		} else {
			u.ResetSeparates = true
		}
	}
	return u, nil
}

// expertsOf are the places of the experts' coefficients among the parameters of a covariance, as
// [gru.Estimates] wants them.
func expertsOf(m *fitted.Model) (places []int, found bool) {
	at := map[string]int{}
	for i, name := range m.Covariance.Parameters {
		at[name] = i
	}
	for i := range m.K {
		for _, feature := range append(slices.Clone(m.Features), "(intercept)") {
			place, ok := at[fmt.Sprintf("expert%d:%s", i+1, feature)]
			if !ok {
				return nil, false
			}
			places = append(places, place)
		}
	}
	return places, true
}

// chosen are these rows and columns of a symmetric matrix.
func chosen(matrix [][]float64, places []int) *mat.SymDense {
	out := mat.NewSymDense(len(places), nil)
	for i, a := range places {
		for j, b := range places[i:] {
			out.SetSym(i, i+j, matrix[a][b])
		}
	}
	return out
}

// table is the rows in memory.
type table struct {
	name              string
	n, inputs, hidden int
	x                 *mat.Dense  // n×D: (x_t, h_{t−1})
	next              [][]float64 // H columns of n
	sequences         int
	condition         float64
	gram              *mat.Cholesky // of (x, h, 1), columns in units of their rms
	scale             []float64     // those rms
}

// load reads the states and looks at whether they determine a layer.
func load(ctx context.Context, src dataset.Source, hidden int) (*table, error) {
	schema := src.Schema()
	columns := len(schema.Features)
	if schema.Target != "" {
		columns++
	}
	t := &table{name: schema.Name, hidden: hidden, inputs: columns - 2*hidden}
	if hidden < 1 {
		return nil, &host.RequestError{Msg: fmt.Sprintf("hidden = %d units, want at least 1", hidden)}
	}
	if t.inputs < 1 {
		return nil, &host.RequestError{Msg: fmt.Sprintf("%d hidden units have %d states before and after, which "+
			"leaves none of %d columns for inputs: a row is x_t, h_{t-1}, h_t", hidden, 2*hidden, columns)}
	}
	data, err := dataset.Load(ctx, src)
	if err != nil {
		return nil, err
	}
	t.n = data.N
	d := t.inputs + hidden
	parameters := 5*(d+1) + 1 // three experts, two gates, σ
	if t.n <= parameters {
		return nil, t.refuse("%d steps, and the tree of a unit has %d parameters: record more", t.n, parameters)
	}
	t.x = mat.NewDense(t.n, d, nil)
	for range hidden {
		t.next = append(t.next, make([]float64, t.n))
	}
	t.fill(data)
	names := slices.Clone(schema.Features)
	if schema.Target != "" {
		names = append(names, schema.Target)
	}
	t.sequences = t.n - t.goOn(hidden)
	if other := t.otherHidden(); t.sequences == t.n && other != hidden {
		return nil, t.refuse("the state before is the one after of the row above with %d hidden units, not with %d",
			other, hidden)
	}
	if err := t.look(); err != nil {
		return nil, err
	}
	return t, t.moves(names)
}

// moves refuses states after of which there is nothing to learn: that are one number in all rows, or another of the
// columns that a unit sees. names are the columns as the file has them.
func (t *table) moves(names []string) error {
	d := t.inputs + t.hidden
	for j, next := range t.next {
		before, after := names[t.inputs+j], names[d+j]
		without, others := "; record inputs by which it changes", ""
		if t.hidden > 1 {
			others = fmt.Sprintf("; or learn the others, with one hidden unit fewer: move column %q to the inputs, "+
				"and leave column %q out", before, after)
		}
		constant := !slices.ContainsFunc(next, func(v float64) bool { return v != next[0] })
		if constant {
			return t.refuse("column %q is %v in every row: the state of unit %d after a step is always the same, "+
				"which tells nothing of its weights%s%s", after, next[0], j+1, without, others)
		}
		for f := range d {
			if !slices.Equal(mat.Col(nil, f, t.x), next) {
				continue
			}
			what := fmt.Sprintf("unit %d never leaves its state, which tells nothing of its weights%s", j+1, without)
			if f != t.inputs+j {
				what = fmt.Sprintf("the state of unit %d after a step is that of another column, without noise, which "+
					"no unit of its own has; see that the columns are inputs, states before and states after, in "+
					"this order", j+1)
			}
			return t.refuse("columns %q and %q are equal in every row: %s%s", names[f], after, what, others)
		}
	}
	return nil
}

// goOn counts the rows whose states before are those after of the row above, were there so many units.
func (t *table) goOn(hidden int) (rows int) {
	columns := t.inputs + 2*t.hidden
	value := func(i, c int) float64 {
		if d := t.inputs + t.hidden; c >= d {
			return t.next[c-d][i]
		}
		return t.x.At(i, c)
	}
	for i := 1; i < t.n; i++ {
		same := true
		for j := columns - hidden; j < columns && same; j++ {
			same = value(i, j-hidden) == value(i-1, j)
		}
		if same {
			rows++
		}
	}
	return rows
}

// otherHidden is the number of units with which half of the rows go on; the one that was said where there is none.
func (t *table) otherHidden() int {
	for h := (t.inputs + 2*t.hidden - 1) / 2; h > 0; h-- {
		if 2*t.goOn(h) >= t.n {
			return h
		}
	}
	return t.hidden
}

func (t *table) refuse(format string, args ...any) error {
	return &dataset.Error{File: t.name, Msg: fmt.Sprintf(format, args...)}
}

// fill takes the rows out of blocks whose last column is the target.
func (t *table) fill(data *model.Data) {
	d := t.inputs + t.hidden
	at := 0
	for _, b := range data.Blocks {
		for i := range b.N {
			for f := range d + t.hidden {
				v := 0.0
				if f < data.D {
					v = b.X[f*b.N+i]
				} else {
					v = b.Y[i]
				}
				if f < d {
					t.x.Set(at, f, v)
				} else {
					t.next[f-d][at] = v
				}
			}
			at++
		}
	}
}

// maxCondition is the most that the condition of (x, h) may be.
const maxCondition = 1e6

// look finds the condition and the Gram matrix of (x, h, 1).
func (t *table) look() error {
	d := t.inputs + t.hidden
	mean := make([]float64, d)
	for i := range t.n {
		for f, v := range t.x.RawRowView(i) {
			mean[f] += v / float64(t.n)
		}
	}
	centred, raw := mat.NewSymDense(d, nil), mat.NewSymDense(d+1, nil)
	row, one := make([]float64, d), make([]float64, d+1)
	one[d] = 1
	for i := range t.n {
		copy(one, t.x.RawRowView(i))
		for f := range row {
			row[f] = one[f] - mean[f]
		}
		centred.SymRankOne(centred, 1/float64(t.n), mat.NewVecDense(d, row))
		raw.SymRankOne(raw, 1, mat.NewVecDense(d+1, one))
	}
	features, _ := Names(t.inputs, t.hidden)
	for f := range d {
		if !(centred.At(f, f) > 1e-24*(mean[f]*mean[f]+1e-300)) {
			return t.refuse("column %s is the same in all rows: the states do not tell its weights", features[f])
		}
	}
	unit := func(s *mat.SymDense) []float64 { // to unit diagonal
		n := s.SymmetricDim()
		scale := make([]float64, n)
		for i := range scale {
			scale[i] = math.Sqrt(s.At(i, i))
		}
		for i := range n {
			for j := i; j < n; j++ {
				s.SetSym(i, j, s.At(i, j)/(scale[i]*scale[j]))
			}
		}
		return scale
	}
	unit(centred)
	t.scale = unit(raw)
	var eigen mat.EigenSym
	if !eigen.Factorize(centred, false) {
		return errors.New("states: the eigenvalues of the correlations were not found")
	}
	values := eigen.Values(nil)
	t.condition = math.Sqrt(values[d-1] / max(values[0], 0))
	t.gram = new(mat.Cholesky)
	if !(t.condition <= maxCondition) || !t.gram.Factorize(raw) {
		return t.refuse("(x, h) does not have full rank: its condition is %.3g, want at most %.0g; record more random "+
			"inputs, and noise in the states", t.condition, float64(maxCondition))
	}
	return nil
}

// carries says whether unit j may do nothing but keep its state: whether h_t − h_{t−1} is
// not related to (x, h), by a test of the least squares on it.
func (t *table) carries(j int) bool {
	d := t.inputs + t.hidden
	cross, total := make([]float64, d+1), 0.0
	for i := range t.n {
		row := t.x.RawRowView(i)
		change := t.next[j][i] - row[t.inputs+j]
		total += change * change
		for f, v := range row {
			cross[f] += v * change
		}
		cross[d] += change
	}
	for f := range cross {
		cross[f] /= t.scale[f]
	}
	var c mat.VecDense
	b := mat.NewVecDense(d+1, cross)
	if t.gram.SolveVecTo(&c, b) != nil {
		return false
	}
	explained := mat.Dot(&c, b)
	related, free := float64(d+1), float64(t.n-d-1)
	ratio := (explained / related) / ((total - explained) / free)
	return distuv.F{D1: related, D2: free}.Survival(ratio) >= leastP
}

// source is the table for unit j.
func (t *table) source(j int) dataset.Source {
	features, next := Names(t.inputs, t.hidden)
	return dataset.Matrix(t.x, t.next[j]).Named(features, next[j])
}
