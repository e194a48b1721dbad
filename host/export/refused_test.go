package export

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/internal/claims"
	"github.com/gatedlearning/moe/table"
)

// TestRefused: what cannot travel is named in one line, and nothing is written.
func TestRefused(t *testing.T) {
	rng := rand.New(rand.NewPCG(37, 2))
	plugin := mixtureOf(rng, 2, numbered(2), "y", "swish")
	other := mixtureOf(rng, 2, numbered(2), "y", "relu")
	values, err := claims.ValuesOf(t.Context(), pointsOf(t, 30))
	if err != nil {
		t.Fatal(err)
	}
	other.Activation.Values = values
	noise := mixtureOf(rng, 2, numbered(2), "y", "exp")
	noise.Family, noise.Sigma, noise.Own = "negative-binomial", nil, fitted.Own{"theta": {1, 2}}
	long := mixtureOf(rng, 3, numbered(2), "y", "")
	data := pointsOf(t, table.MaxPoints).Data()
	long.Activation.Name, long.Activation.Table = "table", &data
	for _, c := range []struct {
		what string
		err  error
	}{
		{"it cannot be exported: the activation swish is another program's, and the file has no approximation of it",
			Write(t.Context(), new(bytes.Buffer), plugin, Request{Language: Go})},
		{"it cannot be exported: the activation relu is not the function of that name here",
			Write(t.Context(), new(bytes.Buffer), other, Request{Language: Go})},
		{"it cannot be exported: the posterior of negative binomial noise with a theta for each expert",
			Write(t.Context(), new(bytes.Buffer), noise, Request{Language: Python})},
		{"it cannot be exported to sql: the statement has ",
			Write(t.Context(), new(bytes.Buffer), long, Request{Language: SQL})},
	} {
		unsupported := (*UnsupportedError)(nil)
		if !errors.As(c.err, &unsupported) || !strings.HasPrefix(c.err.Error(), c.what) {
			t.Errorf("%v, want %q", c.err, c.what)
		}
	}
	if err := Write(t.Context(), new(bytes.Buffer), noise, Request{Language: ONNX, NoTarget: true}); err != nil {
		t.Errorf("without the posterior: %v", err)
	}
	for _, r := range []Request{{Language: "rust"}, {Language: Go, Table: "t"}, {Language: ONNX, Keep: []string{"id"}},
		{Language: Python, NoTarget: true}} {
		if err := Write(t.Context(), new(bytes.Buffer), plugin, r); err == nil || errors.As(err, new(*UnsupportedError)) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// pointsOf is a curve of n points.
func pointsOf(t *testing.T, n int) *table.Table {
	t.Helper()
	var z, g []float64
	for i := range n {
		z = append(z, float64(i)/10)
		g = append(g, float64(i%7))
	}
	curve, err := table.New(z, g, nil)
	if err != nil {
		t.Fatal(err)
	}
	return curve
}

// TestKnownMembers: the list has members of models alone. What it lacks is refused where it is there.
func TestKnownMembers(t *testing.T) {
	for _, name := range knownMembers {
		if _, ok := reflect.TypeFor[fitted.Model]().FieldByName(name); !ok {
			t.Errorf("no member %s", name)
		}
	}
	at := slices.Index(knownMembers, "Hierarchy")
	knownMembers[at] = ""
	defer func() { knownMembers[at] = "Hierarchy" }()
	m := mixtureOf(rand.New(rand.NewPCG(37, 3)), 4, numbered(2), "y", "relu")
	if err := Write(t.Context(), new(bytes.Buffer), m, Request{Language: Go}); err != nil {
		t.Error(err)
	}
	m.Hierarchy = "2x2"
	err := Write(t.Context(), new(bytes.Buffer), m, Request{Language: Go})
	if want := `it cannot be exported: its file has "hierarchy", which no export has`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestNeeded: what a row needs to be predicted is asked once, though experts and gate read the same columns.
func TestNeeded(t *testing.T) {
	asked := 0
	for _, e := range examples(t) {
		var text bytes.Buffer
		if _, refused := e.refused[Go]; refused {
			continue
		}
		if err := Write(t.Context(), &text, e.m, Request{Language: Go}); err != nil {
			t.Fatal(err)
		}
		line := regexp.MustCompile(`(?m)^\s*complete := .*`).FindString(text.String())
		needs := regexp.MustCompile(`&& v\d+\b`).FindAllString(line, -1)
		asked += len(needs)
		if slices.Sort(needs); len(slices.Compact(slices.Clone(needs))) != len(needs) {
			t.Errorf("%s: %s", e.name, line)
		}
	}
	if asked == 0 {
		t.Error("no example has a condition with a name")
	}
}
