package export

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/internal/claims"
	"github.com/gatedlearning/moe/table"
)

// TestRefused: what cannot travel is named in one line, and nothing is written.
func TestRefused(t *testing.T) {
	rng := rand.New(rand.NewPCG(37, 2))
	plugin := mixture(rng, 2, numbered(2), "y", "swish")
	other := mixture(rng, 2, numbered(2), "y", "relu")
	values, err := claims.ValuesOf(t.Context(), pointsOf(t, 30))
	if err != nil {
		t.Fatal(err)
	}
	other.Activation.Values = values
	noise := mixture(rng, 2, numbered(2), "y", "relu")
	noise.Family = "poisson"
	long := mixture(rng, 3, numbered(2), "y", "")
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
		{"it cannot be exported: its noise is poisson, and predictions for normal noise alone are known",
			Write(t.Context(), new(bytes.Buffer), noise, Request{Language: Python})},
		{"it cannot be exported to sql: the statement has ",
			Write(t.Context(), new(bytes.Buffer), long, Request{Language: SQL})},
	} {
		unsupported := (*UnsupportedError)(nil)
		if !errors.As(c.err, &unsupported) || !strings.HasPrefix(c.err.Error(), c.what) {
			t.Errorf("%v, want %q", c.err, c.what)
		}
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
