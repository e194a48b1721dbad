// Package newton climbs the likelihood by passes over a table in parts: [Sums] of a part are log-likelihood, score and
// information at a model, and what all parts come to is the model of the next pass, or the certificate of the last.
package newton

import (
	"bytes"
	"cmp"
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer/specification"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/loss/kink"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/recheck"
	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/host/shard/sealed"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/textfile"
	"github.com/gatedlearning/moe/sdk"
)

const (
	// Format is the format of the files of a pass of Newton's method.
	Format = "moe-newton/v1"
	// Method is what the models of these passes call their method.
	Method = "newton"
	// MostPasses bounds the passes of a loop, SmallStep ends them: no parameter then moves by
	// more than that times the larger of 1 and its size.
	MostPasses = 12
	SmallStep  = 1e-9
)

// Sums are the sums of one pass of Newton's method over a part of a table: the
// log-likelihood at the points that the climbs of a model are at, its score and its observed information.
// At a model where the passes have converged they are those of its certificate.
type Sums struct {
	newtonHeader
	points  []point        // of the climbs that go on, in order
	second  *tensor.Second // of the features and the target, of the first pass
	largest []float64      // of every feature, in size, which bounds the gate; nil in files of before it was written
	tests   *tests         // of the certificate, which has nothing else
	prints  *shard.Prints  // of the blocks of the part; nil in files of before they were written
	groups  []members      // of the rows; nil where each has its own expert

	observations float64 // of a part that is summed: its groups, by their weights
	first        int     // its first row in the table, where rows are in groups
	weight       float64 // of all rows, where parts of groups are merged
}

// point are the sums at the parameters of one climb.
type point struct {
	sums    []float64              // log-likelihood, weight, Σ p_i, score, upper triangle of the information
	squares *specification.Squares // of the passes behind the first
	kinks   *beside                // nil where the likelihood has none that are seen, and in files of before they were
}

// beside are the rows next to kinks of the likelihood at a point.
type beside struct{ rows []kink.Row }

type newtonHeader struct {
	Table shard.Table `json:"table"`
	Place shard.Place `json:"place"`
	// at whose parameters the sums are, without what only the merge needs
	Model  json.RawMessage `json:"model"`
	Full   json.RawMessage `json:"full,omitempty"` // all of it, of part 1, where it has more
	Kinks  []float64       `json:"kinks"`          // of its activation
	Bodies []sealed.Body   `json:"bodies"`
}

// Admit refuses a model that no pass can be made at: what it has beyond a flat mixture, file says where it was read.
func Admit(file string, m *fitted.Model) error {
	fault := func(format string, args ...any) error {
		return &dataset.Error{File: file, Msg: fmt.Sprintf(format, args...)}
	}
	switch {
	case m.Leaves != nil || m.Hierarchy != "":
		return fault("a tree of experts; passes over shards are for flat mixtures")
	case m.OutputScale != nil:
		return fault("experts with an output scale; passes over shards are for means without")
	case m.Fit.SigmaFloor > 0:
		return fault("no sigma is below %g there, by a floor; passes over shards keep to none", m.Fit.SigmaFloor)
	case m.Shared != nil:
		return problem.Refuse("%s has coefficients that are the same in all experts; passes over shards have none",
			file)
	case m.TargetScale != "":
		return problem.Refuse("%s is of %s; passes over shards are for the target itself", file, m.ScaledTarget())
	}
	return nil
}

// Sum makes a pass over a part of the table at the points of m, or sums what
// the certificate needs where the passes have converged there. The part is held in memory.
// Rows that are not those that m was made of are a *dataset.Error.
func Sum(ctx context.Context, src dataset.Source, t shard.Table, at shard.Place, m *fitted.Model, act sdk.Activation,
	workers int) (*Sums, error) {
	if err := admitLaw(src.Schema().Name, t, m); err != nil {
		return nil, err
	}
	if err := admitGroups(src.Schema().Name, t, m); err != nil {
		return nil, err
	}
	m = withoutPosteriors(m)
	out := &Sums{newtonHeader: newtonHeader{Table: t, Place: at, Kinks: act.Info().Kinks}}
	if err := out.embed(m); err != nil {
		return nil, err
	}
	known, why := shard.Recalled(m.Fit.Prints, t)
	if why != "" {
		return nil, &dataset.Error{File: src.Schema().Name,
			Msg: fmt.Sprintf("not the rows that the model was made of: %s", why)}
	}
	from, to := at.Blocks(t.Blocks())
	out.prints = shard.NewPrints(t, from, to)
	data, err := out.read(ctx, src, m, from, to)
	if err != nil {
		return nil, err
	}
	if rows := out.prints.Changed(t, known); rows != "" {
		return nil, &dataset.Error{File: src.Schema().Name, Msg: fmt.Sprintf("part %d of %d: %s", at.I, at.N,
			shard.ChangedRows(rows, "the model"))}
	}
	if certifies(m) {
		out.tests, err = out.sumTests(ctx, m, act, data, from, workers)
		return out, err
	}
	return out, out.pass(ctx, m, act, data, from, workers)
}

// RolesAt are the roles of the columns that a table is opened with for a pass at m: those that the law of a target
// depends on, its weights and its groups, unless others are named.
func RolesAt(m *fitted.Model, roles dataset.Roles) dataset.Roles {
	for i, role := range dataset.RolesOf(m.Roles).Raw() {
		roles[i] = cmp.Or(roles[i], role)
	}
	roles[model.Weights] = cmp.Or(roles[model.Weights], m.Fit.WeightColumn)
	if m.Groups != nil {
		roles[model.Groups] = cmp.Or(roles[model.Groups], m.Groups.Column)
	}
	return roles
}

// admitLaw refuses a table that has other columns of offsets or trials than a model.
func admitLaw(file string, t shard.Table, m *fitted.Model) error {
	for _, role := range model.OfLaw {
		what := dataset.RoleNames()[role]
		switch has, want := t.Roles()[role], dataset.RolesOf(m.Roles)[role]; {
		case has == want:
		case has == "":
			return &dataset.Error{File: file, Msg: fmt.Sprintf("no column of %s, and the model has %s", what, want)}
		case want == "":
			return &dataset.Error{File: file, Msg: fmt.Sprintf("column %q of %s: the model has none", has, what)}
		default:
			return &dataset.Error{File: file, Msg: fmt.Sprintf("column %q of %s: the model has %s", has, what, want)}
		}
	}
	return nil
}

// read reads the rows of the part.
func (n *Sums) read(ctx context.Context, src dataset.Source, m *fitted.Model, from, to int) (*model.Data, error) {
	if n.Table.Groups != "" {
		data, first, err := readGroups(ctx, src, n.Table, from, to, n.prints.Add)
		if err != nil {
			return nil, err
		}
		return data, n.takeGroups(ctx, src.Schema(), m, data, first)
	}
	data := &model.Data{D: len(n.Table.Features)}
	err := dataset.ReadRange(ctx, src, from, to, func(i int, b *model.Block) error {
		n.prints.Add(i, b)
		data.Blocks = append(data.Blocks, b.Clone())
		data.N += b.N
		return nil
	})
	return data, err
}

// embed writes the model into the header: all of it into that of part 1.
func (n *Sums) embed(m *fitted.Model) (err error) {
	light := lightOf(m)
	if n.Model, err = compact(light); err != nil || n.Place.I > 1 {
		return err
	}
	full, err := compact(m)
	if !bytes.Equal(full, n.Model) {
		n.Full = full
	}
	return err
}

// lightOf is a model without what only the merge needs.
func lightOf(m *fitted.Model) *fitted.Model {
	light := *m
	light.Fit.Prints = nil
	light.Fit.Climbs = slices.Clone(m.Fit.Climbs)
	for i := range light.Fit.Climbs {
		light.Fit.Climbs[i].Curvature, light.Fit.Climbs[i].Kinks = nil, nil
	}
	return &light
}

func compact(m *fitted.Model) ([]byte, error) {
	text, err := m.JSON()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = json.Compact(&out, text)
	return out.Bytes(), err
}

// pass sums what the steps of the climbs need.
func (n *Sums) pass(ctx context.Context, m *fitted.Model, act sdk.Activation, data *model.Data, from,
	workers int) error {
	climbs, err := climbsOf(m)
	if err != nil {
		return err
	}
	totals, err := model.TotalsOf(data)
	if err != nil {
		return err
	}
	n.largest = totals.Largest
	for _, c := range climbs {
		if c.Ended != "" {
			continue
		}
		at := moved(m, c.Point())
		sums, err := n.sumPoint(ctx, at, c.Trial == nil, act, data, workers)
		if err != nil {
			return err
		}
		near, err := n.kinksAt(ctx, at, sums[0], act, data, from, workers)
		if err != nil {
			return err
		}
		n.points = append(n.points, point{sums: sums, kinks: near})
		if err := n.scales(ctx, at, data, from); err != nil {
			return err
		}
	}
	return nil
}

// kinksAt are the rows of data, which begins at a block, next to kinks of the likelihood at the parameters of m.
func (n *Sums) kinksAt(ctx context.Context, m *fitted.Model, loglik float64, act sdk.Activation, data *model.Data, from,
	workers int) (*beside, error) {
	p := m.Params()
	if len(n.Kinks) == 0 || n.Table.Groups != "" || p.HasOutput() {
		return nil, nil
	}
	if data.N == 0 || loglik == nowhere {
		return &beside{}, nil
	}
	l := loss.NewLikelihood(data, act, p, freeOf(m), workers).Loosened(math.Inf(1))
	rows, err := kink.Near(ctx, l, p, n.Kinks, from*model.BlockRows)
	return &beside{rows}, err
}

// nowhere is the log-likelihood of rows at a point where it is not finite: sums of as many
// as there can be parts are.
const nowhere = -1e300

// sumPoint sums the log-likelihood of data at the parameters of m, its score and information. At
// a point that must do it has to be finite.
func (n *Sums) sumPoint(ctx context.Context, m *fitted.Model, must bool, act sdk.Activation, data *model.Data,
	workers int) ([]float64, error) {
	p := m.Params()
	free := freeOf(m)
	q := likelihoodOf(p, free, nil).Dim()
	sums := make([]float64, sumsOf(p.K, q))
	if data.N == 0 {
		return sums, nil
	}
	// The parts have one gate, whatever bound the rows of each would have: the merge knows that of all.
	l := loss.NewLikelihood(data, act, p, free, workers).Loosened(math.Inf(1))
	h := mat.NewSymDense(q, nil)
	if err := l.Information(ctx, h, scoreOf(sums, p.K, q), p, n.Kinks); err != nil {
		return nil, err
	}
	packed := sums[2+p.K+q:]
	for i := range q {
		for j := i; j < q; j++ {
			packed[0] = h.At(i, j)
			packed = packed[1:]
		}
	}
	priors, err := l.Proportions(ctx, p)
	if err != nil {
		return nil, err
	}
	observations := l.Rows()
	if n.groups != nil {
		observations = n.observations
	}
	sums[1] = observations
	for i, v := range priors {
		sums[2+i] = v * observations
	}
	if sums[0], err = l.LogLikelihood(ctx, p); err != nil {
		return nil, err
	}
	switch {
	case numeric.Finite(sums...):
		return sums, n.rechecked(ctx, p, l, act, data, sums[0], workers)
	case must:
		return nil, &dataset.Error{File: n.Table.Target,
			Msg: "the log-likelihood of the model is not finite on these rows"}
	}
	clear(sums)
	sums[0], sums[1] = nowhere, observations
	return sums, nil
}

// rechecked returns a [*recheck.Error] unless the log-likelihood of data at p is what the pass
// has. Every pass says so of its part, and the last of what is returned.
func (n *Sums) rechecked(ctx context.Context, p *model.Params, l *loss.Likelihood, act sdk.Activation,
	data *model.Data, loglik float64, workers int) error {
	of := recheck.Under(p, problem.LawOf(p.Family))
	return recheck.Fit{
		Rows: data, Act: act, Result: of, Passes: of, LogLikelihood: loglik, Workers: workers,
		Grouped: n.groups != nil,
		Widened: func(ctx context.Context, times float64) (float64, error) {
			q := p.Clone()
			floats.Scale(times, q.Sigma)
			return l.LogLikelihood(ctx, q)
		},
	}.Check(ctx)
}

// sumsOf is how many sums there are at a point of k experts and q free parameters.
func sumsOf(k, q int) int { return 2 + k + q + q*(q+1)/2 }

func scoreOf(sums []float64, k, q int) []float64 { return sums[2+k : 2+k+q] }

// freeOf says which parameters of a model are estimated: all, but for the coefficients
// of features that no expert, or no gate, has, and a noise level that was given.
func freeOf(m *fitted.Model) loss.Free {
	p := m.Params()
	seen := func(rows []float64) []int {
		columns, all := []int{}, true
		for j := range p.D {
			any := false
			for i := j; i < len(rows); i += p.D {
				any = any || rows[i] != 0
			}
			if all = all && any; any {
				columns = append(columns, j)
			}
		}
		if all {
			return nil
		}
		return columns
	}
	free := loss.All
	free.Sigma, free.GivenOwn = !m.Fit.SigmaGiven, len(m.Fit.OwnGiven)
	free.ExpertColumns, free.GateColumns = seen(p.Regressors), seen(p.Gating)
	return free
}

// likelihoodOf knows where in θ the parameters of p stand, and holds its gate where the logits of rows are not
// rounded by more than those of a fit, where the largest of every feature are known; it has one row, of these.
func likelihoodOf(p *model.Params, free loss.Free, largest []float64) *loss.Likelihood {
	row := model.Block{N: 1, X: make([]float64, p.D), Y: make([]float64, 1)}
	copy(row.X, largest)
	return loss.NewLikelihood(&model.Data{N: 1, D: p.D, Blocks: []model.Block{row}}, nil, p, free, 1)
}

// Step is what a pass over all rows came to.
type Step struct {
	Model *fitted.Model // the best point so far, and what the next pass needs
	Pass  int           // from 1
	// of the next step: the most that a parameter moves, relative to the larger of 1 and its size
	Size      float64
	Converged bool   // Size is at most SmallStep, or AtKink, and nothing that may be better is left
	AtKink    bool   // at a kink that parts do not bring, steps leap over the maximum: Model is as near as matters
	Certified bool   // it was no pass but the certificate behind them: Model has it, and Size says nothing
	Climbs    int    // points from which the next pass goes on, side by side
	Reason    string // why the passes end without having converged
}

// GoOn says whether another pass is to be made at Model.
func (s *Step) GoOn() bool { return GoOn(s.Model) }

// GoOn says whether another pass is to be made at a model that one has left.
func GoOn(m *fitted.Model) bool {
	if m.Fit.Converged {
		return m.Fit.Passes != nil
	}
	return m.Fit.Climbs != nil && m.Fit.Iterations%MostPasses != 0
}

// Merge puts the parts of a pass together. Every climb takes its step,
// (H + λD)⁻¹·s with the score s, the observed information H and its diagonal D, from the best
// point that it has seen: a pass in which the log-likelihood fell only makes the next step
// shorter. Climbs that lead to the same maximum, or cannot come up to the best any more, are given
// up. What does not fit together, and parts of a
// certificate, which [Certify] merges, are a *dataset.Error.
func Merge(files []string, parts []*Sums) (*Step, error) {
	m, all, err := mergeNewton(files, parts)
	if err != nil {
		return nil, err
	}
	if all.tests != nil {
		return nil, &dataset.Error{File: files[0], Msg: "it is of no pass but of the certificate behind them"}
	}
	return step(m, all)
}

// mergeNewton returns the sums of all parts, and the model that they are at.
func mergeNewton(files []string, parts []*Sums) (*fitted.Model, *Sums, error) {
	places, err := newtonPlaces(files, parts)
	if err != nil {
		return nil, nil, err
	}
	order, err := shard.Complete(files, places)
	if err != nil {
		return nil, nil, err
	}
	if err := wholeGroups(files, parts, order); err != nil {
		return nil, nil, err
	}
	first := order[0]
	m, err := parts[first].full()
	if err != nil {
		return nil, nil, &dataset.Error{File: files[first], Msg: "the model in it cannot be read: " + err.Error()}
	}
	for i, c := range m.Fit.Climbs {
		if c.Curvature == nil && (c.Trial != nil || c.Ended != "") {
			return nil, nil, &dataset.Error{File: files[first],
				Msg: fmt.Sprintf("the model in it has no curvature of fit.climbs[%d]: make the part again", i)}
		}
	}
	all := addNewton(parts, order)
	known, why := shard.Recalled(m.Fit.Prints, all.Table)
	if why != "" {
		return nil, nil, &dataset.Error{File: files[first], Msg: "its rows are not those that the model was made of: " +
			why}
	}
	for i, p := range parts {
		if rows := p.prints.Changed(all.Table, known); rows != "" {
			return nil, nil, &dataset.Error{File: files[i], Msg: shard.ChangedRows(rows, "the model")}
		}
	}
	if all.prints.Changed(all.Table, known) != "" {
		return nil, nil, &dataset.Error{File: files[first], Msg: "this pass has read other values than the one before"}
	}
	if m.Fit.Prints == nil {
		m.Fit.Prints = all.prints.Kept(all.Table)
	}
	if all.groups != nil {
		if all.weight, err = all.count(files[first], m); err != nil {
			return nil, nil, err
		}
	}
	return m, all, nil
}

// full returns the model at which the sums are, with what the merge needs where the part
// has it.
func (n *Sums) full() (*fitted.Model, error) {
	if n.Full == nil {
		return n.At()
	}
	m := new(fitted.Model)
	if err := json.Unmarshal(n.Full, m); err != nil {
		return nil, err
	}
	return m, m.Validate()
}

// At returns the model at which the sums are.
func (n *Sums) At() (*fitted.Model, error) {
	m := new(fitted.Model)
	if err := json.Unmarshal(n.Model, m); err != nil {
		return nil, err
	}
	return m, m.Validate()
}

// Join makes one part of parts of one pass that follow one another in this order,
// for those who merge in several steps. What does not fit together is a *dataset.Error.
func Join(files []string, parts []*Sums) (*Sums, error) {
	places, err := newtonPlaces(files, parts)
	if err != nil {
		return nil, err
	}
	at, err := shard.Joined(files, places)
	if err != nil {
		return nil, err
	}
	order := make([]int, len(parts))
	for i := range order {
		order[i] = i
	}
	if err := wholeGroups(files, parts, order); err != nil {
		return nil, err
	}
	out := addNewton(parts, order)
	out.Place = at
	return out, nil
}

// namePrints names the body with the digests of the part's blocks.
const namePrints = "prints"

// newtonPlaces returns the places of parts of one pass over one table.
func newtonPlaces(files []string, parts []*Sums) ([]shard.Place, error) {
	places := make([]shard.Place, len(parts))
	for i, p := range parts {
		places[i] = p.Place
		if why := p.Table.DiffersInRound(parts[0].Table); why != "" {
			return nil, &dataset.Error{File: files[i], Msg: fmt.Sprintf("it does not go with %s: %s", files[0], why)}
		}
		if !bytes.Equal(p.Model, parts[0].Model) {
			return nil, &dataset.Error{File: files[i],
				Msg: fmt.Sprintf("it does not go with %s: they are at different models", files[0])}
		}
	}
	return places, nil
}

// addNewton adds the sums of parts up in this order.
func addNewton(parts []*Sums, order []int) *Sums {
	first := parts[order[0]]
	out := &Sums{newtonHeader: first.newtonHeader, largest: slices.Clone(first.largest)}
	for _, p := range first.points {
		empty := point{sums: make([]float64, len(p.sums))}
		if p.squares != nil {
			empty.squares = p.squares.Like()
		}
		if p.kinks != nil {
			empty.kinks = &beside{}
		}
		out.points = append(out.points, empty)
	}
	if first.second != nil {
		out.second = tensor.NewSecond(first.second.D)
	}
	if first.tests != nil {
		out.tests = first.tests.like()
	}
	for _, i := range order {
		out.add(parts[i])
	}
	return out
}

// add adds the sums of a part at the same model.
func (n *Sums) add(o *Sums) {
	for i, p := range n.points {
		floats.Add(p.sums, o.points[i].sums)
		if p.squares != nil {
			p.squares.Merge(o.points[i].squares)
		}
		if of := o.points[i].kinks; p.kinks != nil && of != nil {
			p.kinks.rows = kink.Nearest(slices.Concat(p.kinks.rows, of.rows))
		} else {
			n.points[i].kinks = nil
		}
	}
	if n.second != nil {
		n.second.Merge(o.second)
	}
	if n.largest = n.largest[:min(len(n.largest), len(o.largest))]; len(n.largest) > 0 {
		for j, v := range o.largest {
			n.largest[j] = max(n.largest[j], v)
		}
	}
	n.prints = n.prints.Merged(o.prints)
	n.groups = append(n.groups, o.groups...)
	if n.tests != nil {
		n.tests.add(o.tests)
	}
}

// MarshalBinary writes the sums with all that they are of.
func (n *Sums) MarshalBinary() ([]byte, error) {
	h := n.newtonHeader
	h.Bodies = nil
	put := func(name string, v encoding.BinaryMarshaler) error {
		b, err := sealed.BodyOf(name, 0, 0, v)
		h.Bodies = append(h.Bodies, b)
		return err
	}
	var err error
	for i, p := range n.points {
		err = errors.Join(err, put(nth("sums", i), sealed.Values(p.sums)))
		if p.squares != nil {
			err = errors.Join(err, put(nth("squares", i), sealed.Values(squaresValues(p.squares))))
		}
		if p.kinks != nil {
			err = errors.Join(err, put(nth(bodyKinks, i), sealed.Values(kink.Pack(p.kinks.rows))))
		}
	}
	if n.second != nil && err == nil {
		err = put("second", n.second)
	}
	if len(n.largest) > 0 && err == nil {
		err = put("largest", sealed.Values(n.largest))
	}
	if n.prints != nil && err == nil {
		err = put(namePrints, n.prints)
	}
	if n.groups != nil && err == nil {
		err = put(bodyGroups, membership(n.groups))
	}
	if n.tests != nil && err == nil {
		err = errors.Join(put("tests", sealed.Values(n.tests.sumsValues())),
			put("draws", sealed.Values(n.tests.drawnValues())))
	}
	if err != nil {
		return nil, err
	}
	return sealed.Seal(Format, h, h.Bodies)
}

// bodyKinks names the body with the rows next to kinks.
const bodyKinks = "kinks"

// nth names the body of the climb of that number.
func nth(name string, i int) string {
	if i == 0 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, i)
}

// UnmarshalBinary reads what [Newton.MarshalBinary] wrote.
func (n *Sums) UnmarshalBinary(data []byte) error {
	out := new(Sums)
	rest, err := sealed.Open(data, Format, &out.newtonHeader)
	if err != nil {
		return err
	}
	if err := sealed.Cut(rest, out.Bodies); err != nil {
		return err
	}
	m, err := out.At()
	if err != nil {
		return err
	}
	if !out.Place.Valid() || out.Table.Rows < 1 || len(out.Table.Features) != m.D {
		return sealed.ErrDamaged
	}
	bodies := make(map[string][]byte)
	for _, b := range out.Bodies {
		bodies[b.Name] = b.Data
	}
	if len(bodies) != len(out.Bodies) {
		return sealed.ErrDamaged
	}
	if out.Full != nil {
		full, err := out.full()
		if err != nil {
			return err
		}
		if light, err := compact(lightOf(full)); err != nil || !bytes.Equal(light, out.Model) {
			return sealed.ErrDamaged
		}
	}
	if out.Table.Print != 0 {
		from, to := out.Place.Blocks(out.Table.Blocks())
		data, ok := bodies[namePrints]
		if out.prints, err = shard.LoadPrints(out.Table, from, to, data); err != nil || !ok {
			return sealed.ErrDamaged
		}
		delete(bodies, namePrints)
	}
	if out.Table.Groups != "" {
		data, ok := bodies[bodyGroups]
		if out.groups, err = loadMembership(out.Place, data); err != nil || !ok {
			return sealed.ErrDamaged
		}
		delete(bodies, bodyGroups)
	}
	if err := out.load(m, bodies); err != nil {
		return err
	}
	out.Bodies = nil
	*n = *out
	return nil
}

// load reads the bodies that sums at the model have, and refuses any other.
func (n *Sums) load(m *fitted.Model, bodies map[string][]byte) (err error) {
	if certifies(m) {
		n.tests, err = loadTests(m, n.Table.Roles(), bodies)
		return err
	}
	climbs, err := climbsOf(m)
	if err != nil {
		return err
	}
	spec, err := specificationOf(m, nil)
	tested := err == nil && spec != nil
	want := 0
	for _, c := range climbs {
		if c.Ended != "" {
			continue
		}
		p, i := point{}, len(n.points)
		if p.sums, err = sealed.Exactly(bodies[nth("sums", i)], sumsOf(m.K, len(c.At))); err != nil {
			return err
		}
		want++
		if tested && m.Fit.Passes != nil {
			v, err := sealed.Exactly(bodies[nth("squares", i)], 1+2*m.K+m.D)
			if err != nil {
				return err
			}
			p.squares = squaresOf(v, m.K)
			want++
		}
		if data, ok := bodies[nth(bodyKinks, i)]; ok {
			if p.kinks, err = loadKinks(m, data); err != nil {
				return err
			}
			want++
		}
		n.points = append(n.points, p)
	}
	if tested && m.Fit.Passes == nil {
		n.second = new(tensor.Second)
		if err := n.second.UnmarshalBinary(bodies["second"]); err != nil || n.second.D != m.D {
			return sealed.ErrDamaged
		}
		want++
	}
	if data, ok := bodies["largest"]; ok {
		if n.largest, err = sealed.Exactly(data, m.D); err != nil || slices.ContainsFunc(n.largest,
			func(v float64) bool { return v < 0 }) {
			return sealed.ErrDamaged
		}
		want++
	}
	if len(bodies) != want || len(n.points) == 0 {
		return sealed.ErrDamaged
	}
	return nil
}

// loadKinks reads the rows next to kinks of a likelihood of m.
func loadKinks(m *fitted.Model, data []byte) (*beside, error) {
	v, err := sealed.Numbers(data)
	if err != nil {
		return nil, err
	}
	p := m.Params()
	columns, _ := freeOf(m).Columns(p)
	rows, ok := kink.Unpack(v, p.K, len(columns))
	if !ok || len(data)%8 != 0 {
		return nil, sealed.ErrDamaged
	}
	return &beside{rows}, nil
}

// Write writes the file of a part.
func (n *Sums) Write(ctx context.Context, path string) error {
	data, err := n.MarshalBinary()
	if err != nil {
		return err
	}
	return sealed.Write(ctx, path, data)
}

// Read reads the file of a part. What is none is a *dataset.Error.
func Read(path string) (*Sums, error) {
	return sealed.Read[Sums](path, Format)
}

// Is says whether a file begins as one of [Sums].
func Is(path string) bool {
	f, err := textfile.Regular(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, len(Format)+1)
	n, _ := io.ReadFull(f, head)
	return string(head[:n]) == Format+"\n"
}
