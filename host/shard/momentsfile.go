package shard

import (
	"context"
	"encoding"
	"slices"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/shard/sealed"
)

// MomentsFormat is the format of the files of moment sums.
const MomentsFormat = "moe-moments/v1"

// MarshalBinary writes the sums with all that they are of.
func (m *Moments) MarshalBinary() ([]byte, error) {
	h := m.momentsHeader
	h.Bodies = nil
	var failed error
	put := func(name string, at model.Node, s encoding.BinaryMarshaler) {
		b, err := sealed.BodyOf(name, at.Level, at.Index, s)
		if err != nil {
			failed = err
		}
		h.Bodies = append(h.Bodies, b)
	}
	for kind, sums := range m.sums {
		if sums != nil {
			sums.each(func(at model.Node, s encoding.BinaryMarshaler) { put(bodies[kind], at, s) })
		}
	}
	if m.given != nil {
		put("first", model.Node{}, m.given)
	}
	if len(m.sample) > 0 {
		put("sample", model.Node{}, sealed.Values(m.sample))
	}
	if len(m.targets) > 0 {
		put("targets", model.Node{}, sealed.Values(m.targets))
	}
	if len(m.design) > 0 {
		put("design", model.Node{}, sealed.Values(m.design))
	}
	if m.prints != nil {
		put(bodyPrints, model.Node{}, m.prints)
	}
	if failed != nil {
		return nil, failed
	}
	return sealed.Seal(MomentsFormat, h, h.Bodies)
}

// UnmarshalBinary reads what [Moments.MarshalBinary] wrote.
func (m *Moments) UnmarshalBinary(data []byte) error { return m.unmarshal(data, 0) }

func (m *Moments) unmarshal(data []byte, depth int) error {
	out := new(Moments)
	rest, err := sealed.Open(data, MomentsFormat, &out.momentsHeader)
	if err != nil {
		return err
	}
	if err := out.check(); err != nil {
		return err
	}
	if err := sealed.Cut(rest, out.Bodies); err != nil {
		return err
	}
	if err := out.load(out.Bodies, depth); err != nil {
		return err
	}
	if (out.Span != nil && out.Place.I < 2) != (out.given != nil) || out.given != nil && (out.given.Place.N > 0 ||
		out.given.Round() != out.Round()-1) {
		return sealed.ErrDamaged
	}
	if out.Table.Print != 0 && out.prints == nil {
		return sealed.ErrDamaged
	}
	out.Bodies = nil
	*m = *out
	return nil
}

// check refuses a header that no sums of ours have.
func (h *Moments) check() error {
	d := len(h.Table.Features)
	p := h.Place
	whole := p == Place{}
	if d < 1 || h.Table.Target == "" || h.Table.Rows < 1 || !whole && !p.Valid() ||
		len(h.Columns.Least) != d+1 || len(h.Columns.Most) != d+1 || len(h.Columns.Prints) != d+1 ||
		h.Sample.Rows < 1 || h.Round() > h.Rounds() {
		return sealed.ErrDamaged
	}
	if s := h.Span; s != nil && s.Transform != "" && s.Transform != moment.Optimal {
		return sealed.ErrDamaged
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

// bodyPrints names the body with the digests of the part's blocks.
const bodyPrints = "prints"

// load gives m what the bodies hold.
func (m *Moments) load(all []sealed.Body, depth int) error {
	next := make(map[int]int) // block behind those of each kind of sums
	from, to := m.blocks()
	for _, b := range all {
		var err error
		switch b.Name {
		case "first":
			if depth > 1 || m.Span == nil {
				return sealed.ErrDamaged
			}
			m.given = new(Moments)
			err = m.given.unmarshal(b.Data, depth+1)
		case "sample":
			err = m.loadSample(b.Data)
		case "targets":
			n := m.rowsOf(moment.LevelRows)
			if m.Table.Weights != "" {
				n *= 2
			}
			m.targets, err = sealed.Exactly(b.Data, n)
		case "design":
			m.design, err = sealed.Exactly(b.Data, m.rowsOf(moment.DesignRows(len(m.Table.Features)))*m.Table.width())
		case bodyPrints:
			m.prints, err = LoadPrints(m.Table, from, to, b.Data)
		default:
			kind := slices.Index(bodies[:], b.Name)
			at := model.Node{Level: b.Level, Index: b.Index}
			if _, ok := next[kind]; !ok {
				next[kind] = from
			}
			if kind < 0 || b.Level < 0 || b.Level > 50 || b.Index < 0 || at.First() != next[kind] ||
				b.Index >= (to+1<<b.Level-1)>>b.Level {
				return sealed.ErrDamaged
			}
			next[kind] = min((b.Index+1)<<b.Level, to)
			if m.sums[kind] == nil {
				m.sums[kind] = newSums(kind)
			}
			rows := min((at.First()+1<<at.Level)*model.BlockRows, m.Table.Rows) - at.First()*model.BlockRows
			err = m.sums[kind].load(at, b.Data, rows, len(m.Table.Features))
		}
		if err != nil {
			return err
		}
	}
	must, may := m.kinds()
	for kind, at := range next {
		if at != to || !slices.Contains(must, kind) && !slices.Contains(may, kind) {
			return sealed.ErrDamaged
		}
	}
	for _, kind := range must {
		if _, ok := next[kind]; !ok && from < to {
			return sealed.ErrDamaged
		}
	}
	return nil
}

// rowsOf is how many rows the part has of about so many of the table as whole blocks, see [model.Part].
func (m *Moments) rowsOf(most int) (n int) {
	from, to := m.blocks()
	for _, i := range model.Spaced(m.Table.Blocks(), most) {
		if i >= from && i < to {
			n += min(model.BlockRows, m.Table.Rows-i*model.BlockRows)
		}
	}
	return n
}

// kinds are the sums that a round must and may have.
func (m *Moments) kinds() (must, may []int) {
	switch {
	case m.Span == nil:
		return []int{second}, nil
	case m.Round() < m.Rounds():
		return []int{squares}, nil
	case m.Rounds() == 3:
		return nil, []int{third, fourths}
	}
	return []int{fourth}, []int{third}
}

func (m *Moments) loadSample(data []byte) error {
	if len(data)%(8*m.Table.width()) != 0 {
		return sealed.ErrDamaged
	}
	var err error
	m.sample, err = sealed.Numbers(data)
	return err
}

// Write writes the file of sums.
func (m *Moments) Write(ctx context.Context, path string) error {
	data, err := m.MarshalBinary()
	if err != nil {
		return err
	}
	return sealed.Write(ctx, path, data)
}

// ReadMoments reads a file of sums. What is none is a *dataset.Error.
func ReadMoments(path string) (*Moments, error) {
	return sealed.Read[Moments](path, MomentsFormat)
}
