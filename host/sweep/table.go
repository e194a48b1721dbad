package sweep

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/experiment"
	"github.com/gatedlearning/moe/host/fitted/stated"
)

// columns are those of a table's CSV. The first eight say what was run.
var columns = []string{
	"activation", "design", "inputs", "d", "k", "n", "sigma", "seed",
	"e_reg", "e_gating", "log_likelihood", "log_likelihood_truth", "converged", "optimum", "model", "p_value", "status",
	"seconds",
}

// keyed is the number of columns that say what was run.
const keyed = 8

// The columns of results.
const (
	atEReg = keyed + iota
	atEGating
	atLogLikelihood
	atOfTruth
	atConverged
	atOptimum
	atModel
	atPValue
	atStatus
	atSeconds
)

// finished is the status of a row with a fit; any other says why there is none.
const finished = "fitted"

// Table is what sweeps have finished, a row a fit. The zero value has none.
type Table struct {
	rows  [][]string
	index map[string]int // of rows, by what was run
}

func key(row []string) string { return strings.Join(row[:keyed], "\x00") }

func (t *Table) put(row []string) {
	if t.index == nil {
		t.index = map[string]int{}
	}
	if i, ok := t.index[key(row)]; ok {
		t.rows[i] = row
		return
	}
	t.index[key(row)] = len(t.rows)
	t.rows = append(t.rows, row)
}

func exact(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// what is the key's part of a row.
func (g *Grid) what(s Setting) []string {
	return []string{
		stated.Of(g.Activation.Info()).String(), string(g.Design), g.InputsName, strconv.Itoa(g.D),
		strconv.Itoa(s.K), strconv.Itoa(s.N), exact(s.Sigma), strconv.FormatUint(s.Seed, 10),
	}
}

func (t *Table) has(g *Grid, s Setting) bool {
	_, ok := t.index[key(g.what(s))]
	return ok
}

func (t *Table) add(g *Grid, r *Result) {
	row := g.what(r.Setting)
	if r.Failed != "" {
		row = append(row, make([]string, atSeconds-keyed)...)
		row[atStatus] = r.Failed
	} else {
		row = append(row, exact(r.EReg), exact(r.EGating), exact(r.LogLikelihood), exact(r.OfTruth),
			strconv.FormatBool(r.Converged), r.Optimum, r.Model, exact(r.PValue), finished)
	}
	t.put(append(row, strconv.FormatFloat(r.Seconds, 'f', 3, 64)))
}

// headSize is how much of a file is looked at for the names of a table's columns.
const headSize = 512

// Read reads a table as [Table.Write] writes it. name is the file's, for messages. Of what is no table no more is read
// than the names of the columns would take.
func Read(r io.Reader, name string) (*Table, error) {
	start := bufio.NewReaderSize(r, headSize)
	head, err := start.Peek(headSize)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if row, err := csv.NewReader(bytes.NewReader(head)).Read(); err != nil || !slices.Equal(row, columns) {
		return nil, &dataset.Error{File: name, Line: 1,
			Msg: "this is no table of a sweep; name another file, or remove it"}
	}
	in := csv.NewReader(start)
	in.FieldsPerRecord = len(columns)
	t := new(Table)
	for line := 1; ; line++ {
		row, err := in.Read()
		switch {
		case err == io.EOF:
			return t, nil
		case err != nil:
			var parse *csv.ParseError
			if errors.As(err, &parse) {
				return nil, &dataset.Error{File: name, Line: parse.Line, Msg: parse.Err.Error() +
					"; remove the row, and it is run again"}
			}
			return nil, err
		case line == 1:
			continue
		}
		for _, at := range []int{atEReg, atEGating, atLogLikelihood, atOfTruth, atSeconds} {
			if _, err := strconv.ParseFloat(row[at], 64); err != nil && (row[atStatus] == finished || at == atSeconds) {
				return nil, &dataset.Error{File: name, Line: line, Col: at +
					1, Msg: fmt.Sprintf("%q is no number; remove the row, and it is run again", row[at])}
			}
		}
		t.put(row)
	}
}

// Write writes the table as CSV: first the rows that are not of the grid, as they were
// read, then those of the grid, in its order, however they were finished.
func (t *Table) Write(w io.Writer, g *Grid) error {
	out := csv.NewWriter(w)
	if err := out.Write(columns); err != nil {
		return err
	}
	of := make([]bool, len(t.rows))
	var mine [][]string
	for _, s := range g.Settings() {
		if i, ok := t.index[key(g.what(s))]; ok && !of[i] {
			of[i], mine = true, append(mine, t.rows[i])
		}
	}
	for i, row := range t.rows {
		if !of[i] {
			if err := out.Write(row); err != nil {
				return err
			}
		}
	}
	return out.WriteAll(mine)
}

// Summary is what the seeds of a setting have in common.
type Summary struct {
	K              int     `json:"k"`
	N              int     `json:"n"`
	Sigma          float64 `json:"sigma"`
	Runs           int     `json:"runs"`            // with a fit
	Failed         int     `json:"failed"`          // without one
	EReg           float64 `json:"e_reg"`           // median
	EGating        float64 `json:"e_gating"`        // median
	ReachedTruth   int     `json:"reached_truth"`   // runs of at least the truth's likelihood
	OptimumPassed  int     `json:"optimum_passed"`  // runs whose certificate says so
	ModelPassed    int     `json:"model_passed"`    // likewise
	SecondsPerFit  float64 `json:"seconds_per_fit"` // median
	eregs, egates  []float64
	secondsOfThese []float64
}

// Summaries are the medians and counts of every setting of the grid, in its order.
func (t *Table) Summaries(g *Grid) []Summary {
	var out []Summary
	for _, s := range g.Settings() {
		if n := len(out); n == 0 || out[n-1].K != s.K || out[n-1].N != s.N || out[n-1].Sigma != s.Sigma {
			out = append(out, Summary{K: s.K, N: s.N, Sigma: s.Sigma})
		}
		if i, ok := t.index[key(g.what(s))]; ok {
			out[len(out)-1].take(t.rows[i])
		}
	}
	for i := range out {
		out[i].EReg, out[i].EGating, out[i].SecondsPerFit = median(out[i].eregs), median(out[i].egates),
			median(out[i].secondsOfThese)
	}
	return out
}

// take counts a row.
func (s *Summary) take(row []string) {
	if row[atStatus] != finished {
		s.Failed++
		return
	}
	s.Runs++
	s.eregs, s.egates = append(s.eregs, number(row, atEReg)), append(s.egates, number(row, atEGating))
	s.secondsOfThese = append(s.secondsOfThese, number(row, atSeconds))
	if number(row, atLogLikelihood) >= number(row, atOfTruth) {
		s.ReachedTruth++
	}
	if row[atOptimum] == "pass" {
		s.OptimumPassed++
	}
	if row[atModel] == "pass" {
		s.ModelPassed++
	}
}

// number is a cell that Read or add have seen to be one.
func number(row []string, at int) float64 {
	v, _ := strconv.ParseFloat(row[at], 64)
	return v
}

// median is that of values, 0 of none.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	return experiment.Quantile(v, 0.5)
}

// Outcome is the picture of the grid's rows: E_reg against n, or against σ where there
// is one n, a series for every other setting, a curve for every seed.
func (t *Table) Outcome(g *Grid) *experiment.Outcome {
	byN := len(g.N) > 1 || len(g.Sigma) == 1
	label := "rows n"
	if !byN {
		label = "noise σ"
	}
	o := &experiment.Outcome{Figure: &experiment.Figure{
		Title: fmt.Sprintf("E_reg of %s experts, d = %d, design %s, %d seeds", stated.Of(g.Activation.Info()),
			g.D, g.Design, g.Seeds),
		X: experiment.Axis{Label: label, Log: true}, Y: experiment.Axis{Label: "E_reg", Log: true},
	}}
	curves := map[string]int{}
	for _, s := range g.Settings() {
		i, ok := t.index[key(g.what(s))]
		if !ok || t.rows[i][atStatus] != finished {
			continue
		}
		x, series := float64(s.N), fmt.Sprintf("k = %d, σ = %v", s.K, s.Sigma)
		if !byN {
			x, series = s.Sigma, fmt.Sprintf("k = %d", s.K)
		}
		name := fmt.Sprint(series, s.Seed)
		at, ok := curves[name]
		if !ok {
			at = len(o.Curves)
			curves[name] = at
			o.Curves = append(o.Curves, experiment.Curve{Series: series, Run: int(s.Seed)})
		}
		c := &o.Curves[at]
		c.X, c.Y = append(c.X, x), append(c.Y, number(t.rows[i], atEReg))
	}
	return o
}
