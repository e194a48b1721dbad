package shard

import (
	"fmt"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/problem"
)

// MergeMoments puts all parts of one round together, whose sums are the result's from then
// on. What does not fit together is a *dataset.Error that names the file.
func MergeMoments(files []string, parts []*Moments) (*Moments, error) {
	places, err := momentsPlaces(files, parts)
	if err != nil {
		return nil, err
	}
	order, err := Complete(files, places)
	if err != nil {
		return nil, err
	}
	m, err := addMoments(files, parts, order, Place{})
	if err != nil {
		return nil, err
	}
	if m.given == nil {
		return m, nil
	}
	for i, p := range parts {
		if rows := p.prints.Changed(m.Table, m.given.prints); rows != "" {
			return nil, &dataset.Error{File: files[i], Msg: ChangedRows(rows, "the round before")}
		}
	}
	if m.prints.Changed(m.Table, m.given.prints) != "" || !equalPrints(m.given.Columns, m.Columns) {
		return nil, &dataset.Error{File: files[0], Msg: "this round has read other values than the one before"}
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
	at, err := Joined(files, places)
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
	if why := m.Table.DiffersInRound(o.Table); why != "" {
		return why
	}
	switch {
	case m.Round() != o.Round():
		return "they are of different rounds"
	case m.Sample != o.Sample:
		return fmt.Sprintf("a sample of %d rows by seed %d, not of %d by %d", m.Sample.Rows, m.Sample.Seed,
			o.Sample.Rows, o.Sample.Seed)
	case m.Span == nil:
		return ""
	case m.Span.First != o.Span.First:
		return "they are given different first rounds"
	case m.Span.Second != o.Span.Second:
		return "they are given different second rounds"
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
	m.targets = append(m.targets, o.targets...)
	m.design = append(m.design, o.design...)
	m.prints = m.prints.Merged(o.prints)
	if o.given != nil {
		m.given = o.given
	}
	for kind, sums := range o.sums {
		if sums == nil {
			continue
		}
		if m.sums[kind] == nil {
			m.sums[kind] = newSums(kind)
		}
		if err := m.sums[kind].graft(sums); err != nil {
			return err
		}
	}
	return nil
}

func equalPrints(a, b problem.Columns) bool {
	for j, v := range a.Prints {
		if b.Prints[j] != v {
			return false
		}
	}
	return true
}
