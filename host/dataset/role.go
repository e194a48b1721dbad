package dataset

import (
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/model"
)

// rules say of every role what stands in its column. A role that is added is a constant in host/model and an entry
// here: selections, schemas, blocks, all formats and descriptions of fits then have it, and passes over shards refuse
// it until they know it.
var rules = model.ByRole[rule]{
	model.Weights: {plural: "weights", accepts: func(v float64) bool { return v >= 0 }, refused: "a weight below 0",
		least: leastWeight, most: mostWeight},
	model.Groups:   {plural: "group", accepts: func(float64) bool { return true }, ids: true},
	model.Clusters: {plural: "cluster", accepts: func(float64) bool { return true }, ids: true},
	model.Offsets:  {plural: "offset", accepts: func(float64) bool { return true }},
	model.Trials: {plural: "trials", refused: "not a whole number of trials",
		accepts: func(v float64) bool { return v >= 0 && v == math.Trunc(v) && v <= 1<<53 }},
}

// rule is what stands in a column that has a role.
type rule struct {
	plural      string               // of its values, as flags, descriptions of fits and errors call them
	accepts     func(v float64) bool // of finite numbers
	refused     string               // what is said of the others
	least, most float64              // bounds of the sum of the column, where most is not 0
	ids         bool                 // the values are those of an [IDs]
}

// leastWeight and mostWeight bound the sum of the weights: a sum of rows times
// their weights then has all its digits, and is finite.
const (
	leastWeight = 1e-300
	mostWeight  = 1e300
)

// Roles names the columns that have a role; "" for none.
type Roles model.ByRole[string]

// Columns are the names of those that there are, in the order of the roles.
func (r Roles) Columns() []string {
	return slices.DeleteFunc(r[:], func(name string) bool { return name == "" })
}

// OfLaw are the columns that the law of a target depends on, by the names of their roles: what predictions need beside
// the features. nil where there are none.
func (r Roles) OfLaw() (columns map[string]string) {
	for _, role := range model.OfLaw {
		if r[role] != "" {
			if columns == nil {
				columns = map[string]string{}
			}
			columns[rules[role].plural] = r[role]
		}
	}
	return columns
}

// RoleNames are the names of all roles, in their order, as descriptions of fits have them.
func RoleNames() []string {
	var names []string
	for _, rule := range rules {
		names = append(names, rule.plural)
	}
	return names
}

// RolesOf names the columns by the names of their roles, which must be among [RoleNames].
func RolesOf(columns map[string]string) (r Roles) {
	for role, rule := range rules {
		r[role] = columns[rule.plural]
	}
	return r
}

// check refuses a column that is something else too.
func (r Roles) check(s Selection) error {
	for role, name := range r {
		other := ""
		switch {
		case name == "":
		case name == s.Target:
			other = "the target"
		case slices.Contains(s.Features, name):
			other = "a feature"
		case slices.Contains(s.Drop, name):
			other = "dropped"
		case slices.Contains(r[:role], name):
			other = "the " + rules[slices.Index(r[:], name)].plural
		}
		if other != "" {
			return &SelectionError{Msg: fmt.Sprintf("column %q is both the %s and %s", name, rules[role].plural, other)}
		}
	}
	return nil
}
