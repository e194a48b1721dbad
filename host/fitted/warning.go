package fitted

import (
	"cmp"
	"fmt"
	"slices"
)

// WarningKind is what a warning is of.
type WarningKind string

// The kinds of warnings, those of the most weight first.
const (
	WarnWeights   WarningKind = "weights"       // they do not look like counts of rows
	WarnRepeated  WarningKind = "repeated rows" // equal to another in all columns
	WarnTarget    WarningKind = "target"        // it is not what the noise of the model can be around
	WarnRange     WarningKind = "range of g"    // much of the target lies beyond it
	WarnStarts    WarningKind = "starts"        // too few have met the optimum
	WarnTooMany   WarningKind = "k too large"   // experts of few rows, or nearly equal ones
	WarnStopped   WarningKind = "stopped"       // below the k asked for, or beside the best one
	WarnNewRows   WarningKind = "new rows"      // they are worse off than those that were fitted
	WarnGate      WarningKind = "gate"          // it separates rows, or nearly does
	WarnCollinear WarningKind = "collinear features"
	WarnErrors    WarningKind = "no errors" // there are no standard errors
	WarnLargerK   WarningKind = "larger k"  // may have less BIC
	WarnSmallerK  WarningKind = "smaller k" // may have less BIC
	warnOtherwise WarningKind = ""          // of a file of before there were kinds
)

// byWeight are the kinds, the weightiest first.
var byWeight = []WarningKind{WarnWeights, WarnRepeated, WarnTarget, WarnRange, WarnStarts, WarnTooMany, WarnStopped,
	WarnNewRows, WarnGate, WarnCollinear, WarnErrors, warnOtherwise, WarnLargerK, WarnSmallerK}

// Warn adds a warning.
func (f *Fit) Warn(kind WarningKind, format string, args ...any) {
	f.Warnings = append(f.Warnings, fmt.Sprintf(format, args...))
	f.WarningKinds = append(f.WarningKinds, kind)
}

// Has says whether there is a warning of a kind.
func (f *Fit) Has(kind WarningKind) bool { return slices.Contains(f.WarningKinds, kind) }

// Weighed are the warnings, the weightiest first, one of every kind before the second of any, without those that others
// contradict: where k may be too large none says that a larger one may be better.
func (f *Fit) Weighed() []string {
	type weighed struct {
		text   string
		second bool // of its kind
		weight int
	}
	var list []weighed
	met := make(map[WarningKind]bool)
	for i, text := range f.Warnings {
		kind := warnOtherwise
		if len(f.WarningKinds) == len(f.Warnings) {
			kind = f.WarningKinds[i]
		}
		if kind != WarnLargerK || !f.Has(WarnTooMany) {
			list = append(list, weighed{text, met[kind] && kind != warnOtherwise, slices.Index(byWeight, kind)})
			met[kind] = true
		}
	}
	slices.SortStableFunc(list, func(a, b weighed) int {
		if a.second != b.second {
			if a.second {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.weight, b.weight)
	})
	var out []string
	for _, w := range list {
		out = append(out, w.text)
	}
	return out
}
