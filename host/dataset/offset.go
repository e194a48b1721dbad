package dataset

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/gatedlearning/moe/host/model"
)

// OffsetColumn is the column of an offset as descriptions write it, and whether its logarithm is added: log(hours) is
// that of the column hours.
func OffsetColumn(text string) (column string, log bool) {
	inner, log := strings.CutPrefix(text, "log(")
	if inner, closed := strings.CutSuffix(inner, ")"); log && closed && inner != "" {
		return inner, true
	}
	return text, false
}

// LogOffsets is src with the logarithm of its offsets. One that is not above 0 is an [*Error] that names the row; a
// missing one stays missing.
func LogOffsets(src Source) Source { return &logOffsets{src} }

type logOffsets struct{ src Source }

// Schema implements [Source]: the role's column is log(NAME).
func (s *logOffsets) Schema() Schema {
	schema := s.src.Schema()
	schema.Roles[model.Offsets] = "log(" + schema.Roles[model.Offsets] + ")"
	return schema
}

// Watched is the same table, as of [Scaled].
func (s *logOffsets) Watched(see func(raw *model.Block)) Source {
	w, ok := s.src.(interface {
		Watched(see func(raw *model.Block)) Source
	})
	if !ok {
		return nil
	}
	return &logOffsets{w.Watched(see)}
}

// Dropped returns how many rows with missing cells the last pass left out.
func (s *logOffsets) Dropped() int { return Dropped(s.src) }

// Read implements [Source].
func (s *logOffsets) Read(ctx context.Context, fn func(*model.Block) error) error {
	schema, rows := s.src.Schema(), 0
	logs := make([]float64, 0, model.BlockRows)
	return s.src.Read(ctx, func(b *model.Block) error {
		out := *b
		logs = logs[:0]
		for r, v := range b.Role[model.Offsets] {
			if v <= 0 {
				return &Error{File: schema.Name, Msg: fmt.Sprintf("row %d: the offset is log(%s), and %s is %v: want "+
					"numbers above 0", rows+r+1, schema.Roles[model.Offsets], schema.Roles[model.Offsets], v)}
			}
			logs = append(logs, math.Log(v))
		}
		out.Role[model.Offsets] = logs
		rows += b.N
		return fn(&out)
	})
}
