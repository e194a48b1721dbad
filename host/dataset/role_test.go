package dataset

import (
	"fmt"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
)

// Columns of every role come back from every format and every way to the rows with the role that they were given, and in no
// other column's place.
func TestRoles(t *testing.T) {
	const n = model.BlockRows + 44
	x, y := mat.NewDense(n, 2, nil), make([]float64, n)
	for i := range n {
		x.Set(i, 0, float64(i))
		x.Set(i, 1, -float64(i))
		y[i] = float64(i) / 2
	}
	table, sel := Matrix(x, y), Selection{Target: "y"}
	for role := range rules {
		column, name := make([]float64, n), "role"+fmt.Sprint(role)
		for i := range column {
			column[i] = float64(i + 1000*(role+1)) // positive: no role refuses it
		}
		table = table.With(model.Role(role), name, column)
		sel.Roles[role] = name
	}
	check := func(from string, rows model.Rows) {
		t.Helper()
		total := 0
		err := model.InOrder(t.Context(), rows, func(b *model.Block) error {
			for role, values := range b.Role {
				for r, v := range values {
					if i := total + r; v != float64(i%n+1000*(role+1)) || b.Y[r] != y[i%n] || b.X[b.N+r] != -b.X[r] {
						return fmt.Errorf("row %d has %v for its %s", i, v, rules[role].plural)
					}
				}
				if len(values) != b.N {
					return fmt.Errorf("%d values of %d for the %s", len(values), b.N, rules[role].plural)
				}
			}
			total += b.N
			return nil
		})
		if err != nil || total%n != 0 {
			t.Errorf("%s: %d rows, %v", from, total, err)
		}
	}
	both := func(from string, open func() Source) {
		t.Helper()
		data, err := Load(t.Context(), open())
		if err != nil {
			t.Fatal(from, err)
		}
		check(from, data)
		kept, err := Rows(t.Context(), open(), 1, 1) // a byte of memory: they stay in a file
		if err != nil {
			t.Fatal(from, err)
		}
		check(from+", in a file", kept.Rows)
		check(from+", two views of it", model.Map(model.Map(kept.Rows, 2, copyX), 2, copyX))
		kept.Close()
	}
	both("memory", func() Source { return table })
	for _, name := range []string{"t.csv", "t.npy"} {
		path := t.TempDir() + "/" + name
		if err := Write(t.Context(), path, table); err != nil {
			t.Fatal(err)
		}
		columns := sel
		if name == "t.npy" { // without names: features, target and roles are x1 … and, the last, y
			columns = Selection{Features: []string{"x1", "x2"}, Target: "x3"}
			for role := range rules {
				columns.Roles[role] = fmt.Sprintf("x%d", 4+role)
			}
			columns.Roles[len(rules)-1] = "y"
		}
		open := func() Source {
			src, err := Open(path, columns)
			if err != nil {
				t.Fatal(err)
			}
			return src
		}
		both(name, open)
		both(name+" twice", func() Source {
			src, err := Concat(open(), open())
			if err != nil {
				t.Fatal(err)
			}
			return src
		})
	}
	if got, want := table.Schema().Columns(), append([]string{"x1", "x2", "y"}, sel.Roles.Columns()...); !slices.Equal(got, want) {
		t.Errorf("columns %v, want %v", got, want)
	}
}

func copyX(dst, src *model.Block) { copy(dst.X, src.X) }

// A column of a role is nothing else, and a name that is no role's has no column.
func TestRolesOf(t *testing.T) {
	given := make(map[string]string)
	for i, name := range RoleNames() {
		given[name] = fmt.Sprint("c", i)
	}
	r := RolesOf(given)
	for role, name := range r {
		if name != fmt.Sprint("c", role) {
			t.Errorf("the %s are the column %q", rules[role].plural, name)
		}
		for other, sel := range map[string]Selection{
			"the target": {Target: name}, "a feature": {Features: []string{name}}, "dropped": {Drop: []string{name}},
		} {
			sel.Roles = r
			want := fmt.Sprintf("column %q is both the %s and %s", name, rules[role].plural, other)
			if err := sel.Check(); err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
}
