package shard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted/progress"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/shard/sealed"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/sdk"
)

// Moments are the sums of one of the rounds over a part of a table, or over all of it. The
// first round knows nothing of g: it sums what σ̂ and T̂2 by the polynomials are made of,
// the powers of y, and takes a random subsample and the rows that a noise level is told
// from. The last sums T̂4 and, where g has one, T̂3 in the span of T̂2. It is the second
// for the polynomials; for the transforms of minimum variance, which need the noise level
// before they are made, it is the third, and the second sums their T̂2.
type Moments struct {
	momentsHeader
	sums   [kinds]sums // of the round; nil of the others' kinds
	drawn              // of the first round
	prints *Prints     // of the blocks of the part; nil in files of before they were written
	given  *Moments    // all of the round before: of a later round's whole and of its part 1
}

// drawn are rows of a table, one behind the other.
type drawn struct {
	sample  []float64 // of the subsample: features, target, weight
	targets []float64 // of moment.LevelRows: target and weight
	design  []float64 // of moment.DesignRows, a block column by column: features, target, weight
}

// momentsHeader is what the file says of the sums.
type momentsHeader struct {
	Table   Table           `json:"table"`
	Place   Place           `json:"place"`
	Columns problem.Columns `json:"columns"`
	Dropped int             `json:"dropped,omitempty"` // rows of the table with missing cells that were left out
	Sample  Subsample       `json:"sample"`
	Span    *Span           `json:"span,omitempty"` // of the second round
	Bodies  []sealed.Body   `json:"bodies"`
}

// Subsample says which rows of a table are taken: row i if the first bits of a hash of
// Seed and i are below Rows/n, whatever the parts that the table is read in. Of a
// table of no more than Rows rows all are.
type Subsample struct {
	Seed uint64 `json:"seed"`
	Rows int    `json:"rows"` // about as many
}

// takes says whether row i of n is among the sample.
func (s Subsample) takes(i, n int) bool {
	if n <= s.Rows {
		return true
	}
	below, _ := bits.Div64(uint64(s.Rows), 0, uint64(n))
	return mixed(mixed(s.Seed)+uint64(i)) < below
}

// mixed is the finaliser of SplitMix64 (Steele, Lea & Flood 2014) behind its increment.
func mixed(v uint64) uint64 {
	v += 0x9e3779b97f4a7c15
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}

// Span is what the sums of later rounds are made for.
type Span struct {
	Activation stated.Activation `json:"activation"`
	K          int               `json:"k"`
	Sigma      float64           `json:"sigma,omitempty"`     // the noise level where it is known; 0: told by the sums
	Family     string            `json:"family,omitempty"`    // the density of the target, "" is normal noise
	Dof        float64           `json:"dof,omitempty"`       // of the t law where they are known
	Transform  moment.Transform  `json:"transform,omitempty"` // [moment.Optimal]; "" is [moment.Polynomial]
	First      string            `json:"first"`               // SHA-256 of the first round's sums
	Second     string            `json:"second,omitempty"`    // of the second of three
}

// Asked is what the later rounds are made for beside the activation.
type Asked struct {
	K         int
	Sigma     float64          // the noise level; 0 where it is not known
	Family    string           // the density of the target by its name in host/mixture, "" is normal noise
	Dof       float64          // of the t law; 0 where they are not known
	Transform moment.Transform // "" is that of Family: [moment.Polynomial], or [moment.Optimal], the only one of others
}

// request is that of a fit.
func (a Asked) request() problem.Request {
	r := problem.Request{K: a.K, Family: a.Family, Dof: a.Dof}
	if a.Sigma > 0 || mixture.Normal(mixture.DensityOf(a.Family)) {
		r.Noise = problem.Shared{Sigma: a.Sigma}
	}
	return r
}

// transform is that asked for.
func (a Asked) transform() moment.Transform {
	if a.Transform == "" && a.Family != "" {
		return moment.Optimal
	}
	return a.Transform
}

func (s *Span) equals(o *Span) bool {
	a, errA := json.Marshal(s)
	b, errB := json.Marshal(o)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// Sum makes the first round over a part of the table.
func Sum(ctx context.Context, src dataset.Source, t Table, at Place, take Subsample) (*Moments, error) {
	d := len(t.Features)
	m := &Moments{momentsHeader: momentsHeader{Table: t, Place: at, Columns: problem.NewColumns(d), Sample: take}}
	m.sums[second] = begin(newSums(second), func() *tensor.Second { return tensor.NewSecond(d) })
	level, design := model.Spaced(t.Blocks(), moment.LevelRows), model.Spaced(t.Blocks(), moment.DesignRows(d))
	var room tensor.Scratch
	err := m.read(ctx, src, func(i int, b *model.Block) error {
		m.sums[second].add(model.Node{Index: i}, b, &room)
		m.take(i, b)
		if _, ok := slices.BinarySearch(level, i); ok {
			m.targets = append(append(m.targets, b.Y...), b.Role[model.Weights]...)
		}
		if _, ok := slices.BinarySearch(design, i); ok {
			m.design = append(append(append(m.design, b.X[:d*b.N]...), b.Y...), b.Role[model.Weights]...)
		}
		return nil
	})
	m.Dropped = dataset.Dropped(src)
	return m, err
}

// read calls fn with the blocks of the part, and keeps what they tell of the columns.
func (m *Moments) read(ctx context.Context, src dataset.Source, fn func(i int, b *model.Block) error) error {
	if m.Table.Groups != "" {
		return &dataset.Error{File: src.Schema().Name, Msg: fmt.Sprintf("column %q of groups: moments are of rows, "+
			"whatever their groups; leave the column out", m.Table.Groups)}
	}
	for _, role := range model.OfLaw {
		if column := m.Table.Roles()[role]; column != "" {
			return &dataset.Error{File: src.Schema().Name, Msg: fmt.Sprintf("column %q of %s: moments are of targets "+
				"that have one law; leave the column out", column, dataset.RoleNames()[role])}
		}
	}
	from, to := m.Place.Blocks(m.Table.Blocks())
	m.prints = NewPrints(m.Table, from, to)
	return dataset.ReadRange(ctx, src, from, to, func(i int, b *model.Block) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		m.Columns.Add(i, b)
		m.prints.Add(i, b)
		return fn(i, b)
	})
}

// take adds the rows of block i that are of the sample.
func (m *Moments) take(i int, b *model.Block) {
	for r := range b.N {
		if !m.Sample.takes(i*model.BlockRows+r, m.Table.Rows) {
			continue
		}
		for j := range m.Table.Features {
			m.sample = append(m.sample, b.Col(j)[r])
		}
		m.sample = append(m.sample, b.Y[r])
		if b.Role[model.Weights] != nil {
			m.sample = append(m.sample, b.Role[model.Weights][r])
		}
	}
}

// SumSpan makes a later round over a part of the table, given all of the one before, for what is asked. file is what
// errors call what is given.
func SumSpan(ctx context.Context, src dataset.Source, t Table, at Place, file string, given *Moments,
	act sdk.Activation, asked Asked) (*Moments, error) {
	r, transform := asked.request(), asked.transform()
	if err := r.Check(); err != nil {
		return nil, err
	}
	if why := given.unfit(t); why != "" {
		return nil, &dataset.Error{File: file, Msg: why}
	}
	span, err := given.next(ctx, file, act, r, transform)
	if err != nil {
		return nil, err
	}
	p, e, err := given.evidence(ctx, file, act, r, transform)
	if err != nil {
		return nil, err
	}
	m := &Moments{momentsHeader: momentsHeader{Table: t, Place: at, Columns: problem.NewColumns(len(t.Features)),
		Sample: given.Sample, Span: span}}
	if at.I == 1 {
		m.given = given
	}
	if m.Round() < m.Rounds() {
		err = m.sumSquares(ctx, src, p, e)
	} else {
		err = m.sumSpan(ctx, src, p, e)
	}
	if rows := m.prints.Changed(t, given.prints); rows != "" && err == nil {
		err = &dataset.Error{File: src.Schema().Name, Msg: fmt.Sprintf("part %d of %d: %s", at.I, at.N,
			ChangedRows(rows, file))}
	}
	return m, err
}

// next names the round behind the given one, or says why there is none.
func (m *Moments) next(ctx context.Context, file string, act sdk.Activation, r problem.Request,
	transform moment.Transform) (*Span, error) {
	span, err := m.span(ctx, act, r, transform)
	if err != nil || m.Span == nil {
		return span, err
	}
	if m.Round() == m.Rounds() {
		return nil, &dataset.Error{File: file, Msg: fmt.Sprintf("it has the last of %d rounds", m.Rounds())}
	}
	if !m.Span.same(span) {
		return nil, &dataset.Error{File: file, Msg: fmt.Sprintf("it was made for %s, this round is for %s", m.Span,
			span)}
	}
	span.Second, err = m.sum()
	return span, err
}

// sumSquares sums T̂2 of the transforms of minimum variance.
func (m *Moments) sumSquares(ctx context.Context, src dataset.Source, p *problem.Problem, e *moment.Evidence) error {
	if e.Optimal == nil || !e.Optimal.Has(2) {
		return noEstimate(p, e)
	}
	d := len(m.Table.Features)
	m.sums[squares] = begin(newSums(squares), func() *tensor.Transformed {
		return tensor.NewTransformed(e.Optimal, 2, d, nil, p.Inputs.Centre)
	})
	return m.sumBlocks(ctx, src, p)
}

// sumSpan sums T̂4 and T̂3 in the span of T̂2.
func (m *Moments) sumSpan(ctx context.Context, src dataset.Source, p *problem.Problem, e *moment.Evidence) error {
	if e.Obstacle(p, 4) != "" && e.Obstacle(p, 3) != "" {
		return noEstimate(p, e)
	}
	d, basis, centre := len(m.Table.Features), e.Subspace.Basis, e.Subspace.Centre
	transformed := func(kind, order int) {
		if e.Outputs().Has(order) {
			m.sums[kind] = begin(newSums(kind), func() *tensor.Transformed {
				return tensor.NewTransformed(e.Outputs(), order, d, basis, centre)
			})
		}
	}
	transformed(third, 3)
	if e.Optimal != nil {
		transformed(fourths, 4)
	} else {
		m.sums[fourth] = begin(newSums(fourth), func() *tensor.Fourth { return tensor.NewFourth(basis, centre) })
	}
	return m.sumBlocks(ctx, src, p)
}

// noEstimate says why there is nothing to sum.
func noEstimate(p *problem.Problem, e *moment.Evidence) error {
	return &problem.RequestError{Msg: "there is no moment estimate: " + e.Obstacle(p, 4)}
}

// sumBlocks adds the blocks of the part, in the units of the fit, to the sums of the round.
func (m *Moments) sumBlocks(ctx context.Context, src dataset.Source, p *problem.Problem) error {
	var room tensor.Scratch
	var back model.Room
	return m.read(ctx, src, func(i int, b *model.Block) error {
		if p.Link != nil {
			if row, wrong := mixture.Outside(p.Shape.Density(), b); row >= 0 {
				return &dataset.Error{File: src.Schema().Name,
					Msg: fmt.Sprintf("row %d: %s", i*model.BlockRows+row+1, wrong)}
			}
		}
		one := &model.Data{N: b.N, D: len(m.Table.Features), Blocks: []model.Block{*b}}
		in, err := p.Units.View(one).Block(0, &back)
		if err != nil {
			return err
		}
		for _, s := range m.sums {
			if s != nil {
				s.add(model.Node{Index: i}, in, &room)
			}
		}
		return nil
	})
}

// unfit says why m is not the whole first round over the table, "" if it is.
func (m *Moments) unfit(t Table) string {
	if m.Place.N > 0 {
		return m.inParts()
	}
	if why := m.Table.differs(t); why != "" {
		return "it is of another table: it has " + why
	}
	return ""
}

func (m *Moments) inParts() string {
	return fmt.Sprintf("it is part %d of %d: merge the parts first", m.Place.I, m.Place.N)
}

// Whole returns an error, which names the file, where m is one of several parts of the rows. It panics if m is nil.
func (m *Moments) Whole(file string) error {
	if m == nil {
		panic("shard: no sums")
	}
	if m.Place.N <= 1 {
		return nil
	}
	return &dataset.Error{File: file, Msg: m.inParts()}
}

// Round is 1, 2 or 3.
func (m *Moments) Round() int {
	switch {
	case m.Span == nil:
		return 1
	case m.Span.Second == "":
		return 2
	}
	return 3
}

// Complete says whether m is the whole of the last round.
func (m *Moments) Complete() bool { return m.Place.N == 0 && m.Span != nil && m.Round() == m.Rounds() }

// Rounds is the number of rounds: 2, or 3 for the transforms of minimum variance. The
// first round does not tell and says 2.
func (m *Moments) Rounds() int {
	if m.Span != nil && m.Span.Transform == moment.Optimal {
		return 3
	}
	return 2
}

// span names the second round over the table of m.
func (m *Moments) span(ctx context.Context, act sdk.Activation, r problem.Request,
	transform moment.Transform) (*Span, error) {
	named, err := stated.Describe(ctx, act)
	if err != nil {
		return nil, err
	}
	s := &Span{Activation: named, K: r.K, Family: r.Family, Dof: r.Dof}
	if transform == moment.Optimal {
		s.Transform = transform
	}
	if r.Noise != nil {
		s.Sigma = problem.KnownSigma(r.Noise)
	}
	s.First, err = m.firstRound().sum()
	return s, err
}

// sum is the SHA-256 of the file of m.
func (m *Moments) sum() (string, error) {
	data, err := m.MarshalBinary()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// firstRound is the first round behind sums of any.
func (m *Moments) firstRound() *Moments {
	for m.given != nil {
		m = m.given
	}
	return m
}

// Rows returns the number of rows of the table, and of those how many are in the sample.
func (m *Moments) Rows() (all, sampled int) {
	first := m.firstRound()
	return m.Table.Rows, len(first.sample) / first.Table.width()
}

// Prints is what a model fitted to the sums keeps of the rows that they were made of; nil of
// sums of an older version.
func (m *Moments) Prints() *progress.Prints { return m.prints.Kept(m.Table) }

// Evidence returns the problem of fitting the table that whole sums are of, whose rows
// are the subsample, and what the moments tell of all rows. Sums of the last round
// must be made for the same activation, k, noise level and transforms, where transform
// is not "".
func (m *Moments) Evidence(ctx context.Context, file string, act sdk.Activation, r problem.Request,
	transform moment.Transform) (*problem.Problem, *moment.Evidence, error) {
	if m.Place.N > 0 {
		return nil, nil, &dataset.Error{File: file, Msg: m.inParts()}
	}
	if m.Round() < m.Rounds() {
		return nil, nil, &dataset.Error{File: file, Msg: fmt.Sprintf("it has the %s: moe moments --given makes the %s",
			[]string{"first of two rounds", "second of three rounds"}[m.Round()-1],
			[]string{"second", "third"}[m.Round()-1])}
	}
	if transform == "" {
		transform = m.Span.Transform
	}
	switch asked, err := m.span(ctx, act, r, transform); {
	case err != nil:
		return nil, nil, err
	case !m.Span.same(asked):
		return nil, nil, &dataset.Error{File: file, Msg: fmt.Sprintf("its last round was made for %s, the fit is of %s",
			m.Span, asked)}
	}
	if err := m.Span.Activation.Verify(ctx, file, act); err != nil {
		return nil, nil, err
	}
	p, e, err := m.evidence(ctx, file, act, r, m.Span.Transform)
	if err != nil {
		return nil, nil, err
	}
	return p, e.Knowing(total[*tensor.Transformed](m.sums[third]), total[*tensor.Transformed](m.sums[fourths]),
		total[*tensor.Fourth](m.sums[fourth])), nil
}

// same says whether rounds are made for the same model.
func (s *Span) same(o *Span) bool {
	return s.Activation.Same(o.Activation) && s.K == o.K && s.Sigma == o.Sigma && s.Family == o.Family &&
		s.Dof == o.Dof && s.Transform == o.Transform
}

// String names what a later round is made for.
func (s *Span) String() string {
	text := fmt.Sprintf("%s, k = %d", s.Activation, s.K)
	if s.Sigma > 0 {
		text += fmt.Sprintf(", sigma = %v", s.Sigma)
	}
	if s.Family != "" {
		text += fmt.Sprintf(", family = %s", s.Family)
	}
	if s.Dof > 0 {
		text += fmt.Sprintf(", dof = %v", s.Dof)
	}
	if s.Transform != "" {
		text += fmt.Sprintf(", transform = %s", s.Transform)
	}
	return text
}

// evidence is what the rounds up to m tell.
func (m *Moments) evidence(ctx context.Context, file string, act sdk.Activation, r problem.Request,
	transform moment.Transform) (*problem.Problem, *moment.Evidence, error) {
	first := m.firstRound()
	all := problem.Sums{Schema: first.Table.Schema(file), Second: first.total(), Columns: first.Columns,
		Dropped: first.Dropped}
	p, err := problem.FromSums(ctx, all, first.SampleData(), act, r)
	if err != nil {
		return nil, nil, err
	}
	w := moment.Want{Transform: moment.Polynomial}
	if transform == moment.Optimal {
		if first.targets == nil {
			return nil, nil, &dataset.Error{File: file,
				Msg: "its first round has no values of the target, which the optimal transform needs: make the " +
					"rounds again"}
		}
		w = moment.Want{Transform: transform, Known: first.known()}
		if rows := first.designData(); rows != nil {
			w.Known.Rows = p.Units.View(rows)
		}
		for round := m; round != nil; round = round.given {
			if t2 := total[*tensor.Transformed](round.sums[squares]); t2 != nil {
				w.Known.T2 = t2
			}
		}
	}
	e, err := moment.Measure(ctx, p, w)
	return p, e, err
}

// total is what the sums of the first round come to.
func (m *Moments) total() *tensor.Second { return total[*tensor.Second](m.sums[second]) }

// known is what the first round tells of the noise level.
func (m *Moments) known() *moment.Known {
	k := &moment.Known{Total: m.total().Y[0]}
	left := m.targets
	for _, i := range model.Spaced(m.Table.Blocks(), moment.LevelRows) {
		n := min(model.BlockRows, m.Table.Rows-i*model.BlockRows)
		k.Y, left = append(k.Y, left[:n]...), left[n:]
		if m.Table.Weights != "" {
			k.W, left = append(k.W, left[:n]...), left[n:]
		}
	}
	return k
}

// designData are the rows that the design is told from; nil where a file of an older version, which has none, is among
// those of the round.
func (m *Moments) designData() *model.Data {
	d, left := len(m.Table.Features), m.design
	if len(left) == 0 || len(left) < m.rowsOf(moment.DesignRows(d))*m.Table.width() {
		return nil
	}
	out := &model.Data{D: d}
	for _, i := range model.Spaced(m.Table.Blocks(), moment.DesignRows(d)) {
		n := min(model.BlockRows, m.Table.Rows-i*model.BlockRows)
		b := model.Block{N: n, X: left[:d*n], Y: left[d*n : (d+1)*n]}
		if left = left[(d+1)*n:]; m.Table.Weights != "" {
			b.Role[model.Weights], left = left[:n], left[n:]
		}
		out.N += n
		out.Blocks = append(out.Blocks, b)
	}
	return out
}

// SampleData returns the rows of the subsample.
func (m *Moments) SampleData() *model.Data {
	m = m.firstRound()
	width, d := m.Table.width(), len(m.Table.Features)
	out := &model.Data{N: len(m.sample) / width, D: d}
	for at := 0; at < out.N; at += model.BlockRows {
		n := min(model.BlockRows, out.N-at)
		columns := make([]float64, n*width)
		for r := range n {
			for j, v := range m.sample[(at+r)*width : (at+r+1)*width] {
				columns[j*n+r] = v
			}
		}
		b := model.Block{N: n, X: columns[:d*n], Y: columns[d*n : (d+1)*n]}
		if m.Table.Weights != "" {
			b.Role[model.Weights] = columns[(d+1)*n:]
		}
		out.Blocks = append(out.Blocks, b)
	}
	return out
}

// width is the number of columns, the weights among them.
func (t Table) width() int { return len(t.Schema("").Columns()) }

// SampleSource is the subsample as a table of a file of this name.
func (m *Moments) SampleSource(file string) dataset.Source {
	return &sampleSource{m.Table.Schema(file), m.SampleData()}
}

type sampleSource struct {
	schema dataset.Schema
	data   *model.Data
}

func (s *sampleSource) Schema() dataset.Schema { return s.schema }

func (s *sampleSource) Read(ctx context.Context, fn func(*model.Block) error) error {
	return model.InOrder(ctx, s.data, fn)
}
