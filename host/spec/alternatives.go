package spec

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/crossvalidation"
	"github.com/gatedlearning/moe/host/model"
)

// NoTree is the hierarchy of experts under one gate, as it stands among others.
const NoTree = "none"

// Alternative is one of the descriptions that a description stands for in which some keys have several values.
type Alternative struct {
	*Fit                       // with one value for every key
	Settings map[string]string // the values that it has of these keys, as they stand in files
	Refused  error             // why it contradicts itself; nil of one that can be fitted
}

// listed is a key that may have several values, with commas between them, for [host.ByHeldOut] to choose from.
type listed struct {
	key   Key
	value *string
}

func (f *Fit) listed() []listed {
	return []listed{{"family", &f.Family}, {"noise", &f.Noise}, {"hierarchy", &f.Hierarchy},
		{"noise-covariance", (*string)(&f.NoiseCovariance)},
		{"gate-penalty", (*string)(&f.GatePenalty)}, {"expert-ridge", (*string)(&f.ExpertRidge)},
		{"expert-lasso", (*string)(&f.ExpertLasso)}}
}

// values are those of a key, between commas that stand in no parentheses.
func (l listed) values() (out []string) {
	depth, from := 0, 0
	for i, c := range *l.value {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			out, from = append(out, (*l.value)[from:i]), i+1
		}
	}
	return append(out, (*l.value)[from:])
}

// Several says whether a key has several values, so that the description stands for [Fit.Alternatives].
func (f *Fit) Several() bool {
	return slices.ContainsFunc(f.listed(), func(l listed) bool { return len(l.values()) > 1 })
}

// Alternatives are all that the description stands for, every value beside every other: the description itself where
// it has one of each key. Their order is not that of the values. A tree has a number of experts of its own, so that K
// is that of [NoTree].
func (f *Fit) Alternatives() []Alternative {
	all := []Alternative{{Fit: f}}
	for i, l := range f.listed() {
		values := l.values()
		if len(values) == 1 {
			continue
		}
		slices.SortFunc(values, inOrder)
		var next []Alternative
		for _, a := range all {
			for _, v := range values {
				one, settings := *a.Fit, maps.Clone(a.Settings)
				if settings == nil {
					settings = map[string]string{}
				}
				*one.listed()[i].value, settings[l.key.String()] = v, v
				next = append(next, Alternative{Fit: &one, Settings: settings})
			}
		}
		all = next
	}
	if len(all) == 1 {
		return all
	}
	for i := range all {
		a := &all[i]
		switch of := a.Settings["hierarchy"]; of {
		case "": // not listed
		case NoTree:
			a.Hierarchy = ""
		default:
			a.K, a.KTo = 0, 0
		}
		if a.KTo == 0 {
			a.Choose = ""
		}
		a.WithDefaults(true)
		a.Refused = a.Check()
	}
	return all
}

// inOrder has what is without before what is with, noise and families as their lists have them, trees by their leaves,
// and the rest by name.
func inOrder(a, b string) int {
	known := []string{NoTree, string(host.AutoPenalty)}
	for _, n := range host.Noises() {
		known = append(known, n.Name())
	}
	place := func(v string) (known1, leaves int) {
		if at := slices.Index(known, v); at >= 0 {
			return at, 0
		}
		if h, err := model.ParseHierarchy(v); err == nil {
			leaves = h.Leaves()
		}
		return len(known), leaves
	}
	knownA, leavesA := place(a)
	knownB, leavesB := place(b)
	return cmp.Or(cmp.Compare(knownA, knownB), cmp.Compare(leavesA, leavesB), cmp.Compare(a, b))
}

// checkAlternatives refuses several values for what knows one, and a value with which nothing can be fitted.
func (f *Fit) checkAlternatives() error {
	all := f.Alternatives()
	for _, l := range f.listed() {
		values := l.values()
		if len(values) == 1 {
			continue
		}
		if f.Choose != host.ByHeldOut {
			return refuse("%s %s: several are for %s %s, to choose from", l.key, *l.value, Key("choose"),
				string(host.ByHeldOut))
		}
		for _, k := range f.given([]string{"moments", "start", "truth", "leaves"}) {
			return refuse("%s has no effect beside several values of %s", Key(k), l.key)
		}
		for i, v := range values {
			switch {
			case v == "":
				return refuse("%s %s: value %d is empty", l.key, *l.value, i+1)
			case slices.Contains(values[:i], v):
				return refuse("%s %s: %s stands twice", l.key, *l.value, v)
			case l.key == "hierarchy" && v == Growing:
				return refuse("%s %s: a tree that grows is chosen by BIC, and stands alone", l.key, *l.value)
			}
			at := slices.IndexFunc(all, func(a Alternative) bool {
				return a.Settings[l.key.String()] == v && a.Refused == nil
			})
			if at < 0 {
				return all[slices.IndexFunc(all, func(a Alternative) bool {
					return a.Settings[l.key.String()] == v
				})].Refused
			}
		}
		if l.key == "hierarchy" && f.K != 0 && !slices.Contains(values, NoTree) {
			return refuse("%s %s: the trees of %s %s have numbers of their own; %s among them is one gate", Key("k"),
				f.numbers(), l.key, *l.value, NoTree)
		}
	}
	return crossvalidation.Comparable(listed{"family", &f.Family}.values())
}

// First is the first of the alternatives that can be fitted, of a description that has been checked.
func (f *Fit) First() *Fit {
	all := f.Alternatives()
	return all[slices.IndexFunc(all, func(a Alternative) bool { return a.Refused == nil })].Fit
}

// activation is that of experts that are linear in the family, or in all of several; "" where these differ.
func activation(family string) string {
	var names []string
	for _, name := range strings.Split(family, ",") {
		names = append(names, host.ActivationOf(name))
	}
	if slices.Sort(names); names[0] != names[len(names)-1] {
		return ""
	}
	return names[0]
}
