package dataset

import (
	"slices"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/model"
)

// TestDefaultTarget: whatever is dropped, weighs or is named a feature of columns in any order,
// the target is the last of the others, and the features are all the rest, in the file's order.
func TestDefaultTarget(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	const feature, drop, weights, other = 0, 1, 2, 3
	for code := range 4 * 4 * 4 * 4 {
		var sel Selection
		var others []string
		weighted := 0
		for i, role := range []int{code % 4, code / 4 % 4, code / 16 % 4, code / 64} {
			switch role {
			case feature:
				sel.Features = append(sel.Features, names[i])
			case drop:
				sel.Drop = append(sel.Drop, names[i])
			case weights:
				sel.Roles[model.Weights], weighted = names[i], weighted+1
			case other:
				others = append(others, names[i])
			}
		}
		if weighted > 1 || len(others) == 0 {
			continue
		}
		target := others[len(others)-1]
		features := sel.Features
		if len(features) == 0 {
			features = others[:len(others)-1]
		}
		if len(sel.Features) == 0 && slices.Contains(sel.Drop, "d") || len(features) == 0 {
			continue // the last column is dropped, or no feature is left: errors, which have tests of their own
		}
		src, err := NewReader("data.csv", strings.NewReader(strings.Join(names, ",")+"\n1,2,3,4\n"), sel)
		if err != nil {
			t.Errorf("%+v: %v", sel, err)
			continue
		}
		if s := src.Schema(); s.Target != target || s.Roles[model.Weights] != sel.Roles[model.Weights] || !slices.Equal(s.Features, features) {
			t.Errorf("%+v: target %q, features %q, weights %q; want %q, %q", sel, s.Target, s.Features, s.Roles[model.Weights], target, features)
		}
	}
}
