package shard

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/shard/sealed"
	"github.com/gatedlearning/moe/host/tensor"
)

// TestTablesDiffer: tables that differ in any one of their fields are two, and their parts do
// not go together. A fingerprint or a kernel that an old file has not differs from none.
func TestTablesDiffer(t *testing.T) {
	table := Table{Features: []string{"a", "b"}, Target: "y", Weights: "w", Rows: 700, Head: 3, Print: 5, Kernel: "amd64"}
	if table.differs(table) != "" {
		t.Errorf("a table differs from itself: %s", table.differs(table))
	}
	fields := reflect.TypeFor[Table]()
	for i := range fields.NumField() {
		other := table
		other.Features = slices.Clone(table.Features)
		switch f := reflect.ValueOf(&other).Elem().Field(i); f.Kind() {
		case reflect.String:
			f.SetString("v")
		case reflect.Int:
			f.SetInt(701)
		case reflect.Uint64:
			f.SetUint(7)
		case reflect.Slice:
			f.Index(1).SetString("c")
		}
		a, b := Moments{momentsHeader: momentsHeader{Table: table, Place: Place{I: 1, N: 2}}}, Moments{momentsHeader: momentsHeader{Table: other, Place: Place{I: 2, N: 2}}}
		_, err := MergeMoments([]string{"one", "two"}, []*Moments{&a, &b})
		if name := fields.Field(i).Name; table.differs(other) == "" || other.differs(table) == "" || err == nil || !strings.HasPrefix(err.Error(), "two: it does not go with one: ") {
			t.Errorf("another %s: %q, %q, error %v", name, table.differs(other), other.differs(table), err)
		}
		// Files of before there were fingerprints of the whole: the columns still tell.
		table, other := table, other
		table.Print, other.Print, table.Kernel, other.Kernel = 0, 0, "", ""
		if known := i != fields.NumField()-1 && i != fields.NumField()-2; (table.differs(other) != "") != known {
			t.Errorf("another %s of old files: %q", fields.Field(i).Name, table.differs(other))
		}
	}
	old := table
	old.Print, old.Kernel = 0, ""
	if table.differs(old) != "" || old.differs(table) != "" {
		t.Errorf("an old file: %q, %q", table.differs(old), old.differs(table))
	}
	if table.DiffersInRound(old) == "" || old.DiffersInRound(table) == "" || old.DiffersInRound(old) != "" {
		t.Error("an old part beside a new one of its round")
	}
}

// TestColumnsOfATable: what parts say of a table names its columns, the weights among them, and
// weights are part of its fingerprints.
func TestColumnsOfATable(t *testing.T) {
	x, y, w := mat.NewDense(600, 2, nil), make([]float64, 600), make([]float64, 600)
	for i := range y {
		x.SetRow(i, []float64{float64(i), float64(i * i % 11)})
		y[i], w[i] = float64(i%7), float64(1+i%3)
	}
	open := func(src dataset.Source) Table {
		table, err := Open(t.Context(), src)
		if err != nil {
			t.Fatal(err)
		}
		want := src.Schema()
		if got := table.Schema(want.Name); !reflect.DeepEqual(got, want) {
			t.Errorf("columns %+v, want %+v", got, want)
		}
		if table.Rows != 600 || table.width() != len(want.Columns()) {
			t.Errorf("%d rows, %d columns of %v", table.Rows, table.width(), want.Columns())
		}
		return table
	}
	plain, weighted := open(dataset.Matrix(x, y)), open(dataset.WeightedMatrix(x, y, w))
	w[599]++
	other := open(dataset.WeightedMatrix(x, y, w))
	w[0]++
	if first := open(dataset.WeightedMatrix(x, y, w)); other.differs(first) != "other values in the first rows" {
		t.Errorf("with another first weight: %q", other.differs(first))
	}
	if plain.differs(weighted) != "other columns" || weighted.differs(other) != "other values in rows behind the first" {
		t.Errorf("without weights: %q; with other weights: %q", plain.differs(weighted), weighted.differs(other))
	}
}

// TestParsePlace: what is a part, and nothing else.
func TestParsePlace(t *testing.T) {
	for text, want := range map[string]Place{
		"1/1": {I: 1, N: 1}, "3/8": {I: 3, N: 8}, "8/8": {I: 8, N: 8}, "1048576/1048576": {I: 1 << 20, N: 1 << 20},
		"0/8": {}, "9/8": {}, "1/1048577": {}, "3": {}, "3/": {}, "/8": {}, "x/8": {}, "3/x": {}, "-1/8": {}, "1/-8": {}, "0/0": {}, "1/0": {}, "3/8/1": {}, "": {},
	} {
		p, err := ParsePlace(text)
		if p != want || (err == nil) != (want != Place{}) || err == nil && !p.Valid() {
			t.Errorf("%q is %+v, error %v, want %+v", text, p, err, want)
		}
	}
}

// TestJoined: parts that follow one another are one of all their blocks, one alone is itself, and others are refused.
func TestJoined(t *testing.T) {
	files := []string{"a", "b", "c", "d", "e"}
	for n := 1; n <= 5; n++ {
		for from := 1; from <= n; from++ {
			var parts []Place
			for to := from; to <= n; to++ {
				parts = append(parts, Place{I: to, N: n})
				want := Place{I: from, N: n, To: to}
				if to == from {
					want.To = 0
				}
				got, err := Joined(files, parts)
				if err != nil || got != want || !got.Valid() {
					t.Errorf("parts %d to %d of %d: %+v, error %v", from, to, n, got, err)
				}
				if to > from { // joined in two steps
					if again, err := Joined(files, []Place{want, {I: to + 1, N: n + 1}}); err == nil {
						t.Errorf("with a part of %d: %+v", n+1, again)
					}
					rest := Place{I: from + 1, N: n, To: to}
					if to == from+1 {
						rest.To = 0
					}
					if again, err := Joined(files, []Place{{I: from, N: n}, rest}); err != nil || again != want {
						t.Errorf("part %d and those to %d: %+v, error %v", from, to, again, err)
					}
				}
			}
		}
	}
	for _, parts := range [][]Place{{{I: 1, N: 3}, {I: 3, N: 3}}, {{I: 2, N: 3}, {I: 1, N: 3}}, {{I: 1, N: 3}, {I: 1, N: 3}}, {{I: 1, N: 3, To: 2}, {I: 2, N: 3}}, {{I: 0, N: 3}}, {{I: 1, N: 3, To: 1}}, {{}}} {
		if got, err := Joined(files, parts); err == nil {
			t.Errorf("%+v are joined as %+v", parts, got)
		}
	}
}

// TestNodesOfFiles: the nodes of a part's sums are those of its blocks, in order, and no others.
func TestNodesOfFiles(t *testing.T) {
	empty := func(n int) sealed.Body {
		s := tensor.NewSecond(1)
		s.N, s.W2, s.Y[0] = n, float64(n), float64(n)
		b, err := sealed.BodyOf(bodies[second], 0, 0, s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	at := func(level, index, rows int) sealed.Body {
		b := empty(rows)
		b.Level, b.Index = level, index
		return b
	}
	const block = model.BlockRows
	for name, c := range map[string]struct {
		bodies []sealed.Body
		good   bool
	}{
		"three":            {[]sealed.Body{at(0, 0, block), at(0, 1, block), at(0, 2, block)}, true},
		"a pair and one":   {[]sealed.Body{at(1, 0, 2*block), at(0, 2, block)}, true},
		"all":              {[]sealed.Body{at(2, 0, 3*block)}, true},
		"one too many":     {[]sealed.Body{at(0, 0, block), at(0, 1, block), at(0, 2, block), at(0, 3, 0)}, false},
		"two too many":     {[]sealed.Body{at(2, 0, 3*block), at(0, 3, 0)}, false},
		"one is missing":   {[]sealed.Body{at(0, 0, block), at(0, 2, block)}, false},
		"the last is":      {[]sealed.Body{at(0, 0, block), at(0, 1, block)}, false},
		"another order":    {[]sealed.Body{at(0, 1, block), at(0, 0, block), at(0, 2, block)}, false},
		"twice":            {[]sealed.Body{at(0, 0, block), at(0, 0, block), at(0, 1, block), at(0, 2, block)}, false},
		"below the first":  {[]sealed.Body{at(0, -1, block), at(0, 0, block), at(0, 1, block), at(0, 2, block)}, false},
		"a level below":    {[]sealed.Body{at(-1, 0, block)}, false},
		"too high a level": {[]sealed.Body{at(51, 0, 3*block)}, false},
		"of other rows":    {[]sealed.Body{at(0, 0, block), at(0, 1, block), at(0, 2, block-1)}, false},
		"of another name":  {[]sealed.Body{at(2, 0, 3*block), {Name: "other"}}, false},
		"none":             {nil, false},
	} {
		m := &Moments{momentsHeader: momentsHeader{Table: Table{Features: []string{"x"}, Target: "y", Rows: 3 * block}, Sample: Subsample{Rows: 5}}}
		if err := m.load(c.bodies, 0); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}
