package sweep

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/plugins/identity"
)

func grid(t *testing.T) *Grid {
	act, err := identity.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Grid{Activation: act, D: 4, Design: sample.Paper, InputsName: "gaussian", K: []int{1, 2}, N: []int{5, 300}, Sigma: []float64{0.2}, First: 7, Seeds: 2}
}

var (
	never   = func(*Table, int, int) error { return nil }
	seconds = regexp.MustCompile(`,[0-9.]+\n`)
)

// written is a table's CSV without the seconds.
func written(t *testing.T, table *Table, g *Grid) string {
	var out bytes.Buffer
	if err := table.Write(&out, g); err != nil {
		t.Fatal(err)
	}
	return seconds.ReplaceAllString(out.String(), "\n")
}

// TestRun: a row has what a fit of that very sample says, and samples that cannot be
// fitted say why.
func TestRun(t *testing.T) {
	g, table := grid(t), new(Table)
	if err := Run(context.Background(), g, table, Options{Finished: never}); err != nil {
		t.Fatal(err)
	}
	sampler, err := sample.New(sample.Config{Activation: g.Activation, K: 2, D: 4, N: 300, Sigma: 0.2, Seed: 8})
	if err != nil {
		t.Fatal(err)
	}
	m, err := host.Fit(context.Background(), g.Activation, sampler, host.Config{K: 2, Seed: 8, Truth: sampler.Truth})
	if err != nil {
		t.Fatal(err)
	}
	row := table.rows[table.index[key(g.what(Setting{2, 300, 0.2, 8}))]]
	if number(row, atEReg) != m.Truth.EReg || number(row, atEGating) != m.Truth.EGating || number(row, atLogLikelihood) != m.Fit.LogLikelihood {
		t.Errorf("%v, want %+v and %v", row, *m.Truth, m.Fit.LogLikelihood)
	}
	// The fit maximises what the truth is one point of, and has 11 parameters: half a
	// chi-squared of so many is above 20 once in 4e4.
	if gain := number(row, atLogLikelihood) - number(row, atOfTruth); gain < 0 || gain > 20 {
		t.Errorf("the fit is %v above the truth", gain)
	}
	s := table.Summaries(g)
	if len(s) != 4 || s[2].Failed != 2 || s[2].Runs != 0 || s[3].Runs != 2 || s[3].Failed != 0 {
		t.Errorf("summaries %+v", s)
	}
	if failed := table.rows[table.index[key(g.what(Setting{2, 5, 0.2, 7}))]][atStatus]; !strings.HasPrefix(failed, "5 rows cannot determine") {
		t.Errorf("status %q", failed)
	}
}

// TestResume: a sweep that ended early goes on to the same rows, at any number of
// threads; those of other sweeps stay.
func TestResume(t *testing.T) {
	g, whole := grid(t), new(Table)
	if err := Run(context.Background(), g, whole, Options{Threads: 1, Finished: never}); err != nil {
		t.Fatal(err)
	}
	want := written(t, whole, g)
	stop, table := errors.New("enough"), new(Table)
	err := Run(context.Background(), g, table, Options{Threads: 2, Finished: func(_ *Table, done, total int) error {
		if total != 8 {
			t.Errorf("%d fits in all, want 8", total)
		}
		if done == 3 {
			return stop
		}
		return nil
	}})
	if !errors.Is(err, stop) || len(table.rows) < 3 || len(table.rows) == 8 {
		t.Fatalf("%d rows and %v", len(table.rows), err)
	}
	other := slices.Clone(whole.rows[0])
	other[0] = "relu"
	table.put(other)
	var text bytes.Buffer
	if err := table.Write(&text, g); err != nil {
		t.Fatal(err)
	}
	if table, err = Read(&text, "t.csv"); err != nil {
		t.Fatal(err)
	}
	ran := 0
	if err := Run(context.Background(), g, table, Options{Threads: 2, Finished: func(*Table, int, int) error { ran++; return nil }}); err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(want, "\n")
	line := strings.Join(other[:atSeconds], ",")
	if strings.Contains(other[atStatus], ",") {
		line = strings.Join(other[:atStatus], ",") + `,"` + other[atStatus] + `"`
	}
	if diff := cmp.Diff(head+"\n"+line+"\n"+rest, written(t, table, g)); diff != "" || ran == 0 || ran > 5 {
		t.Errorf("%d fits; %s", ran, diff)
	}
	if err := Run(context.Background(), g, table, Options{Finished: func(*Table, int, int) error { return stop }}); err != nil {
		t.Errorf("there was something left to do: %v", err)
	}
}

func TestReadFaults(t *testing.T) {
	head := strings.Join(columns, ",") + "\n"
	row := "identity,paper,gaussian,4,1,300,0.2,7,0.1,0,1,1,true,pass,pass,1,fitted,0.1\n"
	if _, err := Read(strings.NewReader(head+row), "t.csv"); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"": "t.csv:1: this is no table of a sweep", "x1,y\n1,2\n": "t.csv:1: this is no table",
		head + "identity,4\n":                           "t.csv:2: wrong number of fields; remove the row",
		head + row + strings.Replace(row, "0.1", "", 1): `t.csv:3:9: "" is no number; remove the row`,
	} {
		if _, err := Read(strings.NewReader(text), "t.csv"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// zeros is a file of bytes 0 that never ends, and counts those that are read.
type zeros int

func (z *zeros) Read(p []byte) (int, error) {
	clear(p)
	*z += zeros(len(p))
	return len(p), nil
}

// TestReadEndless: what is no table is not read to its end.
func TestReadEndless(t *testing.T) {
	var z zeros
	if _, err := Read(&z, "t.csv"); err == nil || z > 1<<12 {
		t.Errorf("%v after %d bytes", err, z)
	}
	if len(strings.Join(columns, ","))+1 > headSize {
		t.Errorf("the names of the columns do not fit into %d bytes", headSize)
	}
}

// TestOutcome: a curve a seed against n, one series for every k and σ.
func TestOutcome(t *testing.T) {
	g, table := grid(t), new(Table)
	g.N = []int{100, 1000}
	for i, s := range g.Settings() {
		table.add(g, &Result{Setting: s, EReg: float64(i + 1)})
	}
	o := table.Outcome(g)
	if len(o.Curves) != 4 || o.Curves[3].Series != "k = 2, σ = 0.2" || o.Curves[3].Run != 8 ||
		!slices.Equal(o.Curves[3].X, []float64{100, 1000}) || !slices.Equal(o.Curves[3].Y, []float64{6, 8}) {
		t.Errorf("%+v", o.Curves)
	}
	for want, of := range map[float64][]float64{0: nil, 7: {7}, 2: {3, 1, 2}, 2.5: {3, 1, 2, 10}} {
		if m := median(of); m != want {
			t.Errorf("median of %v: %v, want %v", of, m, want)
		}
	}
}
