package dataset

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
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
	check := func(from string, schema Schema, rows model.Rows) {
		t.Helper()
		total := 0
		err := model.InOrder(t.Context(), rows, func(b *model.Block) error {
			for role, values := range b.Role {
				for r, v := range values {
					if rules[role].ids { // of which blocks may hold the places
						v, _ = strconv.ParseFloat(schema.ID(model.Role(role), v), 64)
					}
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
		src := open()
		data, err := Load(t.Context(), src)
		if err != nil {
			t.Fatal(from, err)
		}
		check(from, src.Schema(), data)
		src = open()
		kept, err := Rows(t.Context(), src, 1, 1) // a byte of memory: they stay in a file
		if err != nil {
			t.Fatal(from, err)
		}
		check(from+", in a file", src.Schema(), kept.Rows)
		check(from+", two views of it", src.Schema(), model.Map(model.Map(kept.Rows, 2, copyX), 2, copyX))
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

// TestIDs: ids of a CSV file are texts, numbers by their values, and blocks hold their places in all passes, whatever
// the number of files; a missing one is a missing cell.
func TestIDs(t *testing.T) {
	sel := Selection{Target: "y", Features: []string{"x"}, Roles: Roles{model.Clusters: "site"}}
	source := func(text string, sel Selection) Source {
		path := t.TempDir() + "/t.csv"
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		src, err := Open(path, sel)
		if err != nil {
			t.Fatal(err)
		}
		return src
	}
	const text = "x,site,y\n1,b,1\n2,\"a, b\",2\n3,7,3\n4,b,4\n5,7.0,5\n6,7e0 ,6\n"
	other := source("x,site,y\n7,new,1\n8,7.00,2\n", sel)
	for name, c := range map[string]struct {
		src  func() Source
		want string
	}{
		"one file":  {func() Source { return source(text, sel) }, "b|a, b|7|b|7|7"},
		"two files": {func() Source { return concat(t, source(text, sel), other) }, "b|a, b|7|b|7|7|new|7"},
	} {
		src := c.src()
		for pass := range 2 {
			var ids []string
			if err := src.Read(t.Context(), func(b *model.Block) error {
				for _, v := range b.Role[model.Clusters] {
					ids = append(ids, src.Schema().ID(model.Clusters, v))
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(ids, "|"); got != c.want {
				t.Errorf("%s, pass %d: ids %s, want %s", name, pass, got, c.want)
			}
		}
	}
	for text, want := range map[string]string{
		"x,site,y\n1,a,1\n2,,2\n":                                  "an empty cell in column \"site\" is missing",
		"x,site,y\n1,a,1\n2," + strings.Repeat("w", 2000) + ",2\n": "the beginning of an id of more than 1024 bytes",
	} {
		err := source(text, sel).Read(t.Context(), func(*model.Block) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	sel.Absent = Drop
	src := source("x,site,y\n1,a,1\n2,NA,2\n", sel)
	if data, err := Load(t.Context(), src); err != nil || data.N != 1 || Dropped(src) != 1 {
		t.Errorf("a row without an id is not left out: %v", err)
	}
	numbers := Matrix(mat.NewDense(1, 1, nil), []float64{1}).Named([]string{"x"}, "y").With(model.Clusters, "site", []float64{3})
	var fault *Error
	if _, err := Concat(numbers, other); !errors.As(err, &fault) || !strings.Contains(err.Error(), `column "site"`) {
		t.Errorf("ids that are texts here and numbers there: %v", err)
	}
}

func concat(t *testing.T, parts ...Source) Source {
	t.Helper()
	src, err := Concat(parts...)
	if err != nil {
		t.Fatal(err)
	}
	return src
}
