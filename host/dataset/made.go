package dataset

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/gatedlearning/moe/host/model"
)

// Raw are the columns that a table is opened with for roles as descriptions write them: that of log(hours), an offset,
// is hours, and that of cbind(yes, no), the trials of a target yes, is no.
func (r Roles) Raw() Roles {
	for role, text := range r {
		r[role], _ = made(model.Role(role), text)
	}
	return r
}

// made is what a column is read as whose role's description is text, and how its values are made of those; nil where
// they are taken as they are.
func made(role model.Role, text string) (column string, of *making) {
	inner, call := strings.CutSuffix(text, ")")
	switch {
	case call && role == model.Offsets:
		if column, ok := strings.CutPrefix(inner, "log("); ok && column != "" {
			return column, &logOf
		}
	case call && role == model.Trials:
		if _, column, ok := strings.Cut(inner, ", "); ok && strings.HasPrefix(inner, "cbind(") && column != "" {
			return column, &withSuccesses
		}
	}
	return text, nil
}

// Cbind is the description of trials that are the sum of the target and of a column of failures.
func Cbind(target, failures string) string { return "cbind(" + target + ", " + failures + ")" }

// making is how the values of a role are made.
type making struct {
	// of returns the value made of row t of a block, or what is wrong with it; a missing one makes a missing one.
	of func(b *model.Block, role model.Role, t int) (v float64, wrong string)
	// target says that it is made of the target, and is not there without one.
	target bool
}

var logOf = making{of: func(b *model.Block, role model.Role, t int) (float64, string) {
	v := b.Role[role][t]
	if v <= 0 {
		return v, fmt.Sprintf("is %v: want numbers above 0", v)
	}
	return math.Log(v), ""
}}

var withSuccesses = making{target: true, of: func(b *model.Block, role model.Role, t int) (float64, string) {
	return b.Y[t] + b.Role[role][t], ""
}}

// Made is src, opened with the columns of [Roles.Raw], with the columns of these descriptions; src itself where they
// are the same. A value of which none can be made is an [*Error] that names the row.
func Made(src Source, as Roles) Source {
	has := src.Schema().Roles
	for role, text := range as {
		if column, of := made(model.Role(role), text); of != nil && has[role] == column {
			src = &madeRole{src, model.Role(role), text, of}
		}
	}
	return src
}

type madeRole struct {
	src  Source
	role model.Role
	text string
	*making
}

// missing says that the role is not there.
func (s *madeRole) missing() bool { return s.target && s.src.Schema().Target == "" }

// Schema implements [Source]: the role's column has the description for its name.
func (s *madeRole) Schema() Schema {
	schema := s.src.Schema()
	if schema.Roles[s.role] = s.text; s.missing() {
		schema.Roles[s.role] = ""
	}
	return schema
}

// Watched is the same table, as of [Scaled].
func (s *madeRole) Watched(see func(raw *model.Block)) Source {
	w, ok := s.src.(interface {
		Watched(see func(raw *model.Block)) Source
	})
	if !ok {
		return nil
	}
	return &madeRole{w.Watched(see), s.role, s.text, s.making}
}

// Dropped returns how many rows with missing cells the last pass left out.
func (s *madeRole) Dropped() int { return Dropped(s.src) }

// Read implements [Source].
func (s *madeRole) Read(ctx context.Context, fn func(*model.Block) error) error {
	schema, rows, missing := s.src.Schema(), 0, s.missing()
	values := make([]float64, 0, model.BlockRows)
	return s.src.Read(ctx, func(b *model.Block) error {
		out := *b
		if out.Role[s.role] = nil; missing {
			return fn(&out)
		}
		values = values[:0]
		for t := range b.N {
			v, wrong := s.of(b, s.role, t)
			if wrong != "" {
				return &Error{File: schema.Name, Msg: fmt.Sprintf("row %d: the %s is %s, and %s %s", rows+t+1,
					rules[s.role].plural, s.text, schema.Roles[s.role], wrong)}
			}
			values = append(values, v)
		}
		out.Role[s.role] = values
		rows += b.N
		return fn(&out)
	})
}
