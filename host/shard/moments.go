package shard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/bits"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/sdk"
)

// MomentsFormat is the format of the files of moment sums.
const MomentsFormat = "moe-moments/v1"

// Moments are the sums of one of the two rounds over a part of a table, or over all of
// it. The first round knows nothing of g: it sums what σ̂ and T̂2 by the polynomials are
// made of, the powers of y, and takes a random subsample. The second sums T̂4 and,
// where g has one, T̂3 in the span of T̂2.
type Moments struct {
	momentsHeader
	second *model.Tree[*tensor.Second] // of the first round
	sample []float64                   // rows of the subsample, in order: features, target, weight
	fourth *model.Tree[*tensor.Fourth] // of the second round
	third  *model.Tree[*tensor.Transformed]
	first  *Moments // all of the first round: of the second's whole and of its part 1
}

// momentsHeader is what the file says of the sums.
type momentsHeader struct {
	Table   Table           `json:"table"`
	Place   Place           `json:"place"`
	Columns problem.Columns `json:"columns"`
	Dropped int             `json:"dropped,omitempty"` // rows of the table with missing cells that were left out
	Sample  Subsample       `json:"sample"`
	Span    *Span           `json:"span,omitempty"` // of the second round
	Bodies  []body          `json:"bodies"`
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

// Span is what the second round's sums are made for. The transforms of y are the
// polynomials.
type Span struct {
	Activation fitted.Activation `json:"activation"`
	K          int               `json:"k"`
	Sigma      float64           `json:"sigma,omitempty"` // the noise level where it is known; 0: told by the sums
	First      string            `json:"first"`           // SHA-256 of the first round's sums
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
	m.second = model.NewTree(func() *tensor.Second { return tensor.NewSecond(d) })
	var room tensor.Scratch
	err := m.read(ctx, src, func(i int, b *model.Block) error {
		s := m.second.Empty()
		s.Add(b, &room)
		m.second.Put(model.Node{Index: i}, s)
		m.take(i, b)
		return nil
	})
	m.Dropped = dataset.Dropped(src)
	return m, err
}

// read calls fn with the blocks of the part, and keeps what they tell of the columns.
func (m *Moments) read(ctx context.Context, src dataset.Source, fn func(i int, b *model.Block) error) error {
	from, to := m.Place.Blocks(m.Table.Blocks())
	return dataset.ReadRange(ctx, src, from, to, func(i int, b *model.Block) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		m.Columns.Add(i, b)
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
		if b.W != nil {
			m.sample = append(m.sample, b.W[r])
		}
	}
}

// SumSpan makes the second round over a part of the table, given all of the first, for
// k experts and the noise level sigma, 0 where it is not known.
// file is what errors call that.
func SumSpan(ctx context.Context, src dataset.Source, t Table, at Place, file string, first *Moments, act sdk.Activation, k int, sigma float64) (*Moments, error) {
	r := problem.Request{K: k, Noise: problem.Shared{Sigma: sigma}}
	if err := r.Check(); err != nil {
		return nil, err
	}
	if why := first.unfit(t); why != "" {
		return nil, &dataset.Error{File: file, Msg: why}
	}
	p, e, err := first.evidence(ctx, file, act, r)
	if err != nil {
		return nil, err
	}
	if why := e.Obstacle(p, 4); why != "" && e.Obstacle(p, 3) != "" {
		return nil, &problem.RequestError{Msg: "there is no moment estimate: " + why}
	}
	m := &Moments{momentsHeader: momentsHeader{Table: t, Place: at, Columns: problem.NewColumns(len(t.Features)), Sample: first.Sample}}
	if m.Span, err = first.span(ctx, act, r); err != nil {
		return nil, err
	}
	if at.I == 1 {
		m.first = first
	}
	basis, centre := e.Subspace.Basis, e.Subspace.Centre
	m.fourth = model.NewTree(func() *tensor.Fourth { return tensor.NewFourth(basis, centre) })
	if e.Transform.Has(3) {
		m.third = model.NewTree(func() *tensor.Transformed {
			return tensor.NewTransformed(e.Transform, 3, len(t.Features), basis, centre)
		})
	}
	var room tensor.Scratch
	var back model.Room
	return m, m.read(ctx, src, func(i int, b *model.Block) error {
		one := &model.Data{N: b.N, D: len(t.Features), Blocks: []model.Block{*b}}
		in, err := p.Units.View(one).Block(0, &back)
		if err != nil {
			return err
		}
		f := m.fourth.Empty()
		f.Add(in, &room)
		m.fourth.Put(model.Node{Index: i}, f)
		if m.third != nil {
			s := m.third.Empty()
			s.Add(in, &room)
			m.third.Put(model.Node{Index: i}, s)
		}
		return nil
	})
}

// unfit says why m is not the whole first round over the table, "" if it is.
func (m *Moments) unfit(t Table) string {
	why := m.Table.differs(t)
	switch {
	case m.Place.N > 0:
		return fmt.Sprintf("it is part %d of %d: merge the parts first", m.Place.I, m.Place.N)
	case why != "":
		return "it is of another table: it has " + why
	}
	return ""
}

// Round is 1 or 2.
func (m *Moments) Round() int {
	if m.Span == nil {
		return 1
	}
	return 2
}

// span names the second round over the table of m.
func (m *Moments) span(ctx context.Context, act sdk.Activation, r problem.Request) (*Span, error) {
	named, err := fitted.Describe(ctx, act)
	if err != nil {
		return nil, err
	}
	data, err := m.firstRound().MarshalBinary()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	s := &Span{Activation: named, K: r.K, First: hex.EncodeToString(sum[:])}
	if r.Noise != nil {
		s.Sigma = problem.KnownSigma(r.Noise)
	}
	return s, nil
}

// firstRound is the first round behind sums of either.
func (m *Moments) firstRound() *Moments {
	if m.first != nil {
		return m.first
	}
	return m
}

// Rows returns the number of rows of the table, and of those how many are in the sample.
func (m *Moments) Rows() (all, sampled int) {
	first := m.firstRound()
	return m.Table.Rows, len(first.sample) / first.Table.width()
}

// Evidence returns the problem of fitting the table that whole sums are of, whose rows
// are the subsample, and what the moments tell of all rows. Sums of the second round
// must be made for the same activation, k and noise level.
func (m *Moments) Evidence(ctx context.Context, file string, act sdk.Activation, r problem.Request) (*problem.Problem, *moment.Evidence, error) {
	if m.Place.N > 0 {
		return nil, nil, &dataset.Error{File: file, Msg: fmt.Sprintf("it is part %d of %d: merge the parts first", m.Place.I, m.Place.N)}
	}
	switch asked, err := m.span(ctx, act, r); {
	case err != nil:
		return nil, nil, err
	case m.Span == nil:
		return nil, nil, &dataset.Error{File: file, Msg: "it has the first of two rounds: moe moments --given makes the second"}
	case !m.Span.Activation.Same(asked.Activation) || m.Span.K != asked.K || m.Span.Sigma != asked.Sigma:
		return nil, nil, &dataset.Error{File: file, Msg: fmt.Sprintf("its second round was made for %s, the fit is of %s", m.Span, asked)}
	}
	if err := m.Span.Activation.Verify(ctx, file, act); err != nil {
		return nil, nil, err
	}
	p, e, err := m.evidence(ctx, file, act, r)
	if err != nil {
		return nil, nil, err
	}
	e = e.Knowing(nil, m.fourth.Total())
	if m.third != nil {
		e = e.Knowing(m.third.Total(), m.fourth.Total())
	}
	return p, e, nil
}

// String names what a second round is made for.
func (s *Span) String() string {
	text := fmt.Sprintf("%s, k = %d", s.Activation, s.K)
	if s.Sigma > 0 {
		text += fmt.Sprintf(", sigma = %v", s.Sigma)
	}
	return text
}

func (m *Moments) evidence(ctx context.Context, file string, act sdk.Activation, r problem.Request) (*problem.Problem, *moment.Evidence, error) {
	first := m.firstRound()
	all := problem.Sums{Schema: first.Table.Schema(file), Second: first.second.Total(), Columns: first.Columns, Dropped: first.Dropped}
	p, err := problem.FromSums(ctx, all, first.SampleData(), act, r)
	if err != nil {
		return nil, nil, err
	}
	e, err := moment.Measure(ctx, p, moment.Want{Transform: moment.Polynomial})
	return p, e, err
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
			b.W = columns[(d+1)*n:]
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

// MergeMoments puts all parts of one round together, whose sums are the result's from then
// on. What does not fit together is a *dataset.Error that names the file.
func MergeMoments(files []string, parts []*Moments) (*Moments, error) {
	places, err := momentsPlaces(files, parts)
	if err != nil {
		return nil, err
	}
	order, err := complete(files, places)
	if err != nil {
		return nil, err
	}
	m, err := addMoments(files, parts, order, Place{})
	if err != nil {
		return nil, err
	}
	if m.first != nil && !equalPrints(m.first.Columns, m.Columns) {
		return nil, &dataset.Error{File: files[0], Msg: "the second round has read other values than the first"}
	}
	return m, nil
}

// JoinMoments makes one part of parts of one round that follow one another in this order,
// for those who merge in several steps. The parts' sums are the result's from then on.
// What does not fit together is a *dataset.Error.
func JoinMoments(files []string, parts []*Moments) (*Moments, error) {
	places, err := momentsPlaces(files, parts)
	if err != nil {
		return nil, err
	}
	at, err := joined(files, places)
	if err != nil {
		return nil, err
	}
	order := make([]int, len(parts))
	for i := range order {
		order[i] = i
	}
	return addMoments(files, parts, order, at)
}

// momentsPlaces returns the places of parts of one round over one table.
func momentsPlaces(files []string, parts []*Moments) ([]Place, error) {
	places := make([]Place, len(parts))
	for i, p := range parts {
		places[i] = p.Place
		if why := p.mixes(parts[0]); why != "" {
			return nil, &dataset.Error{File: files[i], Msg: fmt.Sprintf("it does not go with %s: %s", files[0], why)}
		}
	}
	return places, nil
}

// addMoments adds parts up in this order, which are then at that place.
func addMoments(files []string, parts []*Moments, order []int, at Place) (*Moments, error) {
	m := &Moments{momentsHeader: parts[0].momentsHeader}
	m.Place, m.Columns = at, problem.NewColumns(len(m.Table.Features))
	for _, i := range order {
		if err := m.add(parts[i]); err != nil {
			return nil, &dataset.Error{File: files[i], Msg: err.Error()}
		}
	}
	return m, nil
}

// mixes says why parts are not of one round over one table, "" if they are.
func (m *Moments) mixes(o *Moments) string {
	if why := m.Table.differs(o.Table); why != "" {
		return why
	}
	switch {
	case (m.Span == nil) != (o.Span == nil):
		return "they are of different rounds"
	case m.Sample != o.Sample:
		return fmt.Sprintf("a sample of %d rows by seed %d, not of %d by %d", m.Sample.Rows, m.Sample.Seed, o.Sample.Rows, o.Sample.Seed)
	case m.Span == nil:
		return ""
	case m.Span.First != o.Span.First:
		return "they are given different first rounds"
	case !m.Span.equals(o.Span):
		return fmt.Sprintf("it is made for %s, not for %s", m.Span, o.Span)
	}
	return ""
}

// add adds the next part.
func (m *Moments) add(o *Moments) error {
	m.Columns.Merge(o.Columns)
	m.Dropped = max(m.Dropped, o.Dropped)
	m.sample = append(m.sample, o.sample...)
	if o.first != nil {
		m.first = o.first
	}
	if m.Span == nil {
		m.second = grafted(m.second, o.second, func() *tensor.Second { return tensor.NewSecond(len(m.Table.Features)) })
		return nil
	}
	var err error
	if m.fourth, err = graftedAlike(m.fourth, o.fourth); err != nil {
		return err
	}
	if o.third != nil {
		m.third, err = graftedAlike(m.third, o.third)
	}
	return err
}

// grafted is a tree with the nodes of another.
func grafted[T model.Sums[T]](to, from *model.Tree[T], empty func() T) *model.Tree[T] {
	if to == nil {
		to = model.NewTree(empty)
	}
	if from != nil {
		from.Each(to.Put)
	}
	return to
}

// graftedAlike is grafted for sums over a projection, which must be one.
func graftedAlike[T interface {
	model.Sums[T]
	Alike(T) bool
	Like() T
}](to, from *model.Tree[T]) (*model.Tree[T], error) {
	var first T
	known := false
	same := true
	see := func(_ model.Node, s T) {
		if !known {
			first, known = s, true
		}
		same = same && first.Alike(s)
	}
	if to != nil {
		to.Each(see)
	}
	if from != nil {
		from.Each(see)
	}
	if !same {
		return nil, fmt.Errorf("its sums are over another span in the last digits: let machines of one kind of processor make the second round")
	}
	if !known {
		return to, nil
	}
	return grafted(to, from, func() T { return first.Like() }), nil
}

func equalPrints(a, b problem.Columns) bool {
	for j, v := range a.Prints {
		if b.Prints[j] != v {
			return false
		}
	}
	return true
}

// MarshalBinary writes the sums with all that they are of.
func (m *Moments) MarshalBinary() ([]byte, error) {
	h := m.momentsHeader
	h.Bodies = nil
	var failed error
	put := func(name string, at model.Node, s interface{ MarshalBinary() ([]byte, error) }) {
		b, err := bodyOf(name, at.Level, at.Index, s)
		if err != nil {
			failed = err
		}
		h.Bodies = append(h.Bodies, b)
	}
	if m.second != nil {
		m.second.Each(func(at model.Node, s *tensor.Second) { put("second", at, s) })
	}
	if m.fourth != nil {
		m.fourth.Each(func(at model.Node, s *tensor.Fourth) { put("fourth", at, s) })
	}
	if m.third != nil {
		m.third.Each(func(at model.Node, s *tensor.Transformed) { put("third", at, s) })
	}
	if m.first != nil {
		put("first", model.Node{}, m.first)
	}
	if len(m.sample) > 0 {
		put("sample", model.Node{}, values(m.sample))
	}
	if failed != nil {
		return nil, failed
	}
	return seal(MomentsFormat, h, h.Bodies)
}

// values are numbers as bytes.
type values []float64

func (f values) MarshalBinary() ([]byte, error) {
	return numeric.AppendFloats(make([]byte, 0, 8*len(f)), f), nil
}

// UnmarshalBinary reads what [Moments.MarshalBinary] wrote.
func (m *Moments) UnmarshalBinary(data []byte) error { return m.unmarshal(data, 0) }

func (m *Moments) unmarshal(data []byte, depth int) error {
	out := new(Moments)
	rest, err := open(data, MomentsFormat, &out.momentsHeader)
	if err != nil {
		return err
	}
	if err := out.momentsHeader.check(); err != nil {
		return err
	}
	if err := cut(rest, out.Bodies); err != nil {
		return err
	}
	if err := out.load(out.Bodies, depth); err != nil {
		return err
	}
	if (out.Span != nil && out.Place.I < 2) != (out.first != nil) || out.first != nil && (out.first.Place.N > 0 || out.first.Span != nil) {
		return errDamaged
	}
	out.Bodies = nil
	*m = *out
	return nil
}

// check refuses a header that no sums of ours have.
func (h *momentsHeader) check() error {
	d := len(h.Table.Features)
	p := h.Place
	whole := p == Place{}
	if d < 1 || h.Table.Target == "" || h.Table.Rows < 1 || !whole && !p.valid() ||
		len(h.Columns.Least) != d+1 || len(h.Columns.Most) != d+1 || len(h.Columns.Prints) != d+1 || h.Sample.Rows < 1 {
		return errDamaged
	}
	return nil
}

// blocks is the range of blocks that the sums are over.
func (h *momentsHeader) blocks() (from, to int) {
	if h.Place.N == 0 {
		return 0, h.Table.Blocks()
	}
	return h.Place.Blocks(h.Table.Blocks())
}

// load gives m what the bodies hold.
func (m *Moments) load(bodies []body, depth int) error {
	next := make(map[string]int)
	for _, b := range bodies {
		at := model.Node{Level: b.Level, Index: b.Index}
		from, to := m.blocks()
		if _, ok := next[b.Name]; !ok {
			next[b.Name] = from
		}
		var err error
		switch b.Name {
		case "second", "fourth", "third":
			if b.Level < 0 || b.Level > 50 || b.Index < 0 || at.First() != next[b.Name] || b.Index >= (to+1<<b.Level-1)>>b.Level {
				return errDamaged
			}
			next[b.Name] = min((b.Index+1)<<b.Level, to)
			err = m.loadSums(b, at)
		case "first":
			if depth > 0 || m.Span == nil {
				return errDamaged
			}
			m.first = new(Moments)
			err = m.first.unmarshal(b.data, depth+1)
		case "sample":
			err = m.loadSample(b.data)
		default:
			return errDamaged
		}
		if err != nil {
			return err
		}
	}
	from, to := m.blocks()
	for _, name := range m.sums() {
		if at, ok := next[name]; from < to && (!ok || at != to) {
			return errDamaged
		}
		delete(next, name)
	}
	if len(next) > 0 && (next["fourth"] > 0 || next["second"] > 0) {
		return errDamaged
	}
	return nil
}

// sums names the sums that a round has in any case.
func (m *Moments) sums() []string {
	if m.Span == nil {
		return []string{"second"}
	}
	return []string{"fourth"}
}

// loadSums reads a node.
func (m *Moments) loadSums(b body, at model.Node) error {
	d := len(m.Table.Features)
	rows := min((at.First()+1<<at.Level)*model.BlockRows, m.Table.Rows) - at.First()*model.BlockRows
	switch b.Name {
	case "second":
		s := new(tensor.Second)
		if err := s.UnmarshalBinary(b.data); err != nil {
			return err
		}
		if s.D != d || s.N != rows {
			return errDamaged
		}
		m.second = planted(m.second, at, s, func() *tensor.Second { return tensor.NewSecond(d) })
	case "fourth":
		f := new(tensor.Fourth)
		if err := f.UnmarshalBinary(b.data); err != nil {
			return err
		}
		if f.Features() != d || f.N != rows {
			return errDamaged
		}
		m.fourth = planted(m.fourth, at, f, f.Like)
	case "third":
		s := new(tensor.Transformed)
		if err := s.UnmarshalBinary(b.data); err != nil {
			return err
		}
		if s.Order != 3 || s.N != rows {
			return errDamaged
		}
		m.third = planted(m.third, at, s, s.Like)
	}
	return nil
}

// planted is a tree with one node more.
func planted[T model.Sums[T]](tree *model.Tree[T], at model.Node, s T, empty func() T) *model.Tree[T] {
	if tree == nil {
		tree = model.NewTree(empty)
	}
	tree.Put(at, s)
	return tree
}

func (m *Moments) loadSample(data []byte) error {
	if len(data)%(8*m.Table.width()) != 0 {
		return errDamaged
	}
	var err error
	m.sample, err = numbers(data)
	return err
}

// Write writes the file of sums.
func (m *Moments) Write(ctx context.Context, path string) error {
	data, err := m.MarshalBinary()
	if err != nil {
		return err
	}
	return write(ctx, path, data)
}

// ReadMoments reads a file of sums. What is none is a *dataset.Error.
func ReadMoments(path string) (*Moments, error) {
	return readAs[Moments](path, MomentsFormat)
}
