package specification

import (
	"math"

	"github.com/gatedlearning/moe/host/model"
)

// GroupDraws are groups drawn from a table, each for experts from which its targets are to be drawn.
type GroupDraws struct {
	table  *groupTable // of those drawn; its targets are none of the data's
	upTo   []int       // where the draws of every group end
	expert []int       // of every draw
	weight []float64   // makes up for experts that were drawn more often than the model would
	wanted int         // of all parts
}

// NewGroupDraws are none, of d features.
func NewGroupDraws(d int) *GroupDraws { return &GroupDraws{table: &groupTable{d: d}} }

// Like are none of the same table.
func (s *GroupDraws) Like() *GroupDraws { return NewGroupDraws(s.table.d) }

// Draws is how many targets are to be drawn.
func (s *GroupDraws) Draws() int { return len(s.expert) }

// groups are those of every draw.
func (s *GroupDraws) groups() []int {
	out := make([]int, 0, len(s.expert))
	for g, end := range s.upTo {
		for len(out) < end {
			out = append(out, g)
		}
	}
	return out
}

// take adds a group of another table, without its targets.
func (t *groupTable) take(from *groupTable, g int) {
	rows := from.groups[g]
	own := span(len(t.y), len(t.y)+len(rows))
	t.groups, t.weight, t.y = append(t.groups, own), append(t.weight, 1), append(t.y, make([]float64, len(rows))...)
	for _, r := range rows {
		t.x = append(t.x, from.x[r*t.d:(r+1)*t.d]...)
		for _, role := range model.OfLaw {
			if values := from.role[role]; values != nil {
				t.role[role] = append(t.role[role], values[r])
			}
		}
	}
}

// Append adds those of later groups.
func (s *GroupDraws) Append(o *GroupDraws) {
	for g := range o.table.groups {
		s.table.take(o.table, g)
	}
	for _, end := range o.upTo {
		s.upTo = append(s.upTo, len(s.expert)+end)
	}
	s.expert, s.weight = append(s.expert, o.expert...), append(s.weight, o.weight...)
	s.wanted = max(s.wanted, o.wanted)
}

// Values are all of them: how many are wanted, and of every group its rows and draws, the expert and the weight of each
// of these, and the features of each of those with what its law depends on.
func (s *GroupDraws) Values() []float64 {
	t, out, from := s.table, []float64{float64(s.wanted)}, 0
	for g, rows := range t.groups {
		out = append(out, float64(len(rows)), float64(s.upTo[g]-from))
		for ; from < s.upTo[g]; from++ {
			out = append(out, float64(s.expert[from]), s.weight[from])
		}
		for _, r := range rows {
			out = append(out, t.x[r*t.d:(r+1)*t.d]...)
			for _, role := range model.OfLaw {
				if values := t.role[role]; values != nil {
					out = append(out, values[r])
				}
			}
		}
	}
	return out
}

// GroupDrawsOf is what Values gave, of d features, so many experts and tables with columns of these roles; false of
// what are none.
func GroupDrawsOf(values []float64, d, experts int, has model.ByRole[bool]) (*GroupDraws, bool) {
	s, good := NewGroupDraws(d), true
	next := func() (v float64) {
		if good = good && len(values) > 0; good {
			v, values = values[0], values[1:]
		}
		return v
	}
	count := func(least, most int) int {
		v := next()
		good = good && v >= float64(least) && v <= float64(most) && v == math.Trunc(v)
		if !good {
			return 0
		}
		return int(v)
	}
	s.wanted = count(0, math.MaxInt32)
	for t := s.table; good && len(values) > 0; {
		rows, draws := count(1, len(values)), count(1, len(values))
		for range draws {
			expert, weight := count(0, experts-1), next()
			good = good && weight > 0
			if !good {
				return nil, false
			}
			s.expert, s.weight = append(s.expert, expert), append(s.weight, weight)
		}
		s.upTo = append(s.upTo, len(s.expert))
		t.groups, t.weight = append(t.groups, span(len(t.y), len(t.y)+rows)), append(t.weight, 1)
		t.y = append(t.y, make([]float64, rows)...)
		for range rows {
			for range d {
				t.x = append(t.x, next())
			}
			for _, role := range model.OfLaw {
				if has[role] {
					v := next()
					good = good && (role != model.Trials || v >= 1 && v == math.Trunc(v))
					t.role[role] = append(t.role[role], v)
				}
			}
			if !good {
				return nil, false
			}
		}
	}
	return s, good
}
