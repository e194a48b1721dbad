package dataset

import (
	"fmt"
	"strconv"

	"github.com/gatedlearning/moe/host/model"
)

// IDs are the texts of a column of a CSV file that tells which rows belong together. Blocks hold their places, in the
// order in which they first came in a pass, the same in all passes over a source; of other formats the numbers that
// stand there.
type IDs struct {
	places map[string]float64
	texts  []string
}

// place returns that of a text, which is added where it is new.
func (d *IDs) place(text string) float64 {
	at, ok := d.places[text]
	if !ok {
		at = float64(len(d.texts))
		d.places[text], d.texts = at, append(d.texts, text)
	}
	return at
}

// shareIDs has src, a table of the same columns, give the ids of s the same places.
func (s Schema) shareIDs(src Source) error {
	with := src.Schema()
	for role, ids := range s.ids {
		if (ids == nil) != (with.ids[role] == nil) {
			return &Error{File: with.Name, Msg: fmt.Sprintf("column %q holds the ids of a CSV file here or in %s, and "+
				"numbers in the other; want files of one format", with.Roles[role], s.Name)}
		}
		if ids == nil {
			continue
		}
		src.(*csvSource).layout.hold(model.Role(role), ids)
	}
	return nil
}

// ID is what a table calls the rows that have v in the column of that role: the text of a CSV file, a number elsewhere.
func (s Schema) ID(role model.Role, v float64) string {
	if ids := s.ids[role]; ids != nil && v >= 0 && int(v) < len(ids.texts) {
		return ids.texts[int(v)]
	}
	return nameOf(v)
}

func nameOf(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
