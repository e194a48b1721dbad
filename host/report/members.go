package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/report/numeral"
	"github.com/gatedlearning/moe/internal/shown"
)

// Members says who is in each expert: what a column's values are among all rows and among those of each expert, every
// row counted with its posterior times its weight.
type Members struct {
	Name   string
	Levels []string // of a factor; the values below are then shares of its levels
	Binary bool     // its values are 0 and 1: means are shares of 1

	Mean, SD float64   // of all rows
	Means    []float64 // per expert
	SDs      []float64

	Shares  []float64   // of all rows, by level
	Experts [][]float64 // per expert, by level

	// Differs is how far the experts are apart, from 0 to 1: of numbers the square root of the share of the variance
	// that is between experts, of a factor Cramér's V with the expert.
	Differs float64
}

// tally are sums over the rows, in their order, of the columns of a table by expert.
type tally struct {
	k       int
	columns []rawColumn
	shift   []float64     // of each column, near its values
	mass    []float64     // per expert, then of all
	first   [][]float64   // per expert and of all, by column: Σ w·(x − shift)
	second  [][]float64   // Σ w·(x − shift)²
	levels  [][][]float64 // the same by level, of factors
	binary  []bool
}

func newTally(k int, columns []rawColumn) *tally {
	t := &tally{k: k, columns: columns, mass: make([]float64, k+1), binary: make([]bool, len(columns))}
	for range k + 1 {
		t.first, t.second = append(t.first, make([]float64, len(columns))),
			append(t.second, make([]float64, len(columns)))
		levels := make([][]float64, len(columns))
		for c := range columns {
			levels[c] = make([]float64, len(columns[c].levels))
		}
		t.levels = append(t.levels, levels)
	}
	for c := range t.binary {
		t.binary[c] = true
	}
	return t
}

// add adds the rows of a block: cells are its columns, posterior k rows of its length.
func (t *tally) add(cells *model.Block, weights, posterior []float64) {
	n := cells.N
	if t.shift == nil {
		for c := range t.columns {
			sum := 0.0
			for _, x := range cells.Col(c) {
				sum += x / float64(n)
			}
			t.shift = append(t.shift, sum)
		}
	}
	weight := make([]float64, n)
	for i := range t.k + 1 {
		for r := range weight {
			weight[r] = 1
			if weights != nil {
				weight[r] = weights[r]
			}
			if i < t.k {
				weight[r] *= posterior[i*n+r]
			}
			t.mass[i] += weight[r]
		}
		for c := range t.columns {
			t.addColumn(i, c, cells.Col(c), weight)
		}
	}
}

func (t *tally) addColumn(i, c int, cells, weight []float64) {
	col := &t.columns[c]
	if col.levels != nil {
		for r, x := range cells {
			t.levels[i][c][int(col.code(x))] += weight[r]
		}
		return
	}
	first, second, binary := 0.0, 0.0, t.binary[c]
	for r, x := range cells {
		binary = binary && (x == 0 || x == 1)
		e := x - t.shift[c]
		first += weight[r] * e
		second += weight[r] * e * e
	}
	t.first[i][c] += first
	t.second[i][c] += second
	t.binary[c] = binary
}

// moments are the mean and the standard deviation of column c in expert i, of all rows for i = k.
func (t *tally) moments(i, c int) (mean, sd float64) {
	if !(t.mass[i] > 0) {
		return math.NaN(), math.NaN()
	}
	off := t.first[i][c] / t.mass[i]
	return t.shift[c] + off, math.Sqrt(max(0, t.second[i][c]/t.mass[i]-off*off))
}

// members are the columns, in their order.
func (t *tally) members() []Members {
	out := make([]Members, len(t.columns))
	for c := range out {
		out[c] = t.member(c)
	}
	return out
}

func (t *tally) member(c int) Members {
	col := &t.columns[c]
	m := Members{Name: col.name, Levels: col.levels}
	if col.levels != nil {
		for i := range t.k + 1 {
			shares := slices.Clone(t.levels[i][c])
			for l := range shares {
				shares[l] /= t.mass[i]
			}
			if i == t.k {
				m.Shares = shares
			} else {
				m.Experts = append(m.Experts, shares)
			}
		}
		m.Differs = t.cramer(&m)
		return m
	}
	m.Binary = t.binary[c]
	between := 0.0
	for i := range t.k + 1 {
		mean, sd := t.moments(i, c)
		if i == t.k {
			m.Mean, m.SD = mean, sd
		} else {
			m.Means, m.SDs = append(m.Means, mean), append(m.SDs, sd)
		}
	}
	for i, mean := range m.Means {
		if t.mass[i] > 0 {
			between += t.mass[i] / t.mass[t.k] * (mean - m.Mean) * (mean - m.Mean)
		}
	}
	// What is only rounding of the sums differs by nothing.
	if m.SD > 1e-9*math.Abs(m.Mean) {
		m.Differs = min(1, math.Sqrt(between)/m.SD)
	}
	return m
}

// cramer is Cramér's V of the levels with the experts.
func (t *tally) cramer(m *Members) float64 {
	sum, levels := 0.0, 0
	for l, p := range m.Shares {
		if !(p > 0) {
			continue
		}
		levels++
		for i := range t.k {
			if t.mass[i] > 0 {
				e := m.Experts[i][l] - p
				sum += t.mass[i] / t.mass[t.k] * e * e / p
			}
		}
	}
	if least := min(t.k, levels) - 1; least > 0 {
		return min(1, math.Sqrt(sum/float64(least)))
	}
	return 0
}

const (
	// openMembers is how many columns the table of members shows unfolded, and openLevels how many levels of a factor
	// it shows at all; what is left of these is together in a row.
	openMembers = 12
	openLevels  = 12
	// drawnMembers is how many rows the picture of the members has.
	drawnMembers = 14
)

// strongestFirst are members by how far the experts are apart in them.
func strongestFirst(all []Members) []Members {
	out := slices.Clone(all)
	slices.SortStableFunc(out, func(a, b Members) int { return cmp.Compare(b.Differs, a.Differs) })
	return out
}

// memberSection says who is in each expert.
func memberSection(m *fitted.Model, d *Diagnosis, targets ...Members) section {
	s := section{
		Title: "Who is in each expert",
		Reading: "Means, with the standard deviation in brackets, and of factors the shares of the levels: of all " +
			"rows, and of each expert's, in which a row counts " +
			"with the probability that it is the expert's, given its features and its target. " +
			"Those in which the experts differ the most come first; the difference is 0 where they are alike and 1 " +
			"where the column tells them apart.",
	}
	if m.K == 1 {
		s.Title, s.Reading = "The rows",
			"Means, with the standard deviation in brackets, and of factors the shares of the levels."
	}
	if d.Rows < m.Fit.N {
		s.Reading += fmt.Sprintf(" Of a subsample of %s of the %d.", numeral.Plural(d.Rows, "row"), m.Fit.N)
	}
	all := strongestFirst(d.Members)
	open := all[:min(len(all), openMembers)]
	s.Tables = []table{memberTable(m, d, open, targets)}
	if rest := all[len(open):]; len(rest) > 0 {
		folded := memberTable(m, d, rest, nil)
		folded.Fold = fmt.Sprintf("%s more, in which the experts differ less", numeral.Plural(len(rest), "column"))
		if m.K == 1 {
			folded.Fold = numeral.Plural(len(rest), "column") + " more"
		}
		s.Tables = append(s.Tables, folded)
	}
	if m.K > 1 {
		s.Pictures = []template.HTML{memberChart(m, all)}
	}
	return s
}

// memberTable is the table of some columns, below the rows and the targets where these are given.
func memberTable(m *fitted.Model, d *Diagnosis, of, targets []Members) table {
	head := []string{"Column", "all rows"}
	if m.K > 1 {
		for i := range m.K {
			head = append(head, fmt.Sprintf("expert %d", i+1))
		}
		head = append(head, "difference")
	}
	out := table{Head: head, Caption: "Means and shares by expert"}
	add := func(name, all, differs string, k func(i int) string) {
		row := []string{name, all}
		if m.K > 1 {
			for i := range m.K {
				row = append(row, k(i))
			}
			row = append(row, differs)
		}
		out.Rows = append(out.Rows, row)
	}
	if targets != nil {
		add("rows", "100 %", "", func(i int) string { return numeral.Percent(d.Shares[i]) })
	}
	for _, y := range targets {
		add(shown.Name(y.Name)+" (target)", withSpread(y.Mean, y.SD), numeral.Hundredths(y.Differs),
			func(i int) string { return withSpread(y.Means[i], y.SDs[i]) })
	}
	for _, c := range of {
		name, differs := shown.Name(c.Name), numeral.Hundredths(c.Differs)
		switch {
		case c.Levels != nil:
			for _, l := range shownLevels(&c) {
				add(name+": "+l.name, numeral.Percent(l.all), differs,
					func(i int) string { return numeral.Percent(l.experts[i]) })
				differs = ""
			}
		case c.Binary:
			add(name+" = 1", numeral.Percent(c.Mean), differs,
				func(i int) string { return numeral.Percent(c.Means[i]) })
		default:
			add(name, withSpread(c.Mean, c.SD), differs, func(i int) string { return withSpread(c.Means[i], c.SDs[i]) })
		}
	}
	return out
}

// levelShares are the shares of a level, or of several together.
type levelShares struct {
	name    string
	all     float64
	experts []float64
}

// shownLevels are those of a factor: all, or the ones in which the experts differ the most, and the others together.
func shownLevels(c *Members) (out []levelShares) {
	order := make([]int, len(c.Levels))
	for l := range order {
		order[l] = l
	}
	most := len(order)
	if most > openLevels {
		most = openLevels - 1
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(apart(c, b), apart(c, a)) })
		slices.Sort(order[:most])
	}
	for at, l := range order {
		if at <= most {
			name := shown.Name(c.Levels[l])
			if at == most {
				name = fmt.Sprintf("%d other levels", len(order)-most)
			}
			out = append(out, levelShares{name, 0, make([]float64, len(c.Experts))})
		}
		s := &out[len(out)-1]
		s.all += c.Shares[l]
		for i := range c.Experts {
			s.experts[i] += c.Experts[i][l]
		}
	}
	return out
}

// apart is how far apart the shares of a level are.
func apart(c *Members, l int) float64 {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, shares := range c.Experts {
		if !math.IsNaN(shares[l]) {
			lo, hi = min(lo, shares[l]), max(hi, shares[l])
		}
	}
	return hi - lo
}

// withSpread is a mean with its standard deviation, to two digits of a tenth of it.
func withSpread(mean, sd float64) string {
	const finer = 10
	switch {
	case math.IsNaN(mean):
		return "–"
	case sd == 0:
		return strconv.FormatFloat(mean, 'g', 6, 64)
	}
	value, _ := numeral.ByError(mean, sd/finer)
	return value + " (" + numeral.TwoDigits(sd) + ")"
}

// memberChart draws how far the means of the experts are from those of all rows, in standard deviations: the
// columns and levels in which they are the furthest apart.
func memberChart(m *fitted.Model, all []Members) template.HTML {
	type row struct {
		name string
		off  []float64
		far  float64
	}
	var rows []row
	add := func(name string, mean, sd float64, of func(i int) float64) {
		r := row{name: name}
		for i := range m.K {
			off := 0.0
			if sd > 0 && !math.IsNaN(of(i)) {
				off = (of(i) - mean) / sd
			}
			r.off, r.far = append(r.off, off), r.far+m.Proportions[i]*off*off
		}
		rows = append(rows, r)
	}
	for _, c := range all {
		for l, p := range c.Shares {
			add(c.Name+": "+c.Levels[l], p, math.Sqrt(p*(1-p)), func(i int) float64 { return c.Experts[i][l] })
		}
		if c.Levels == nil {
			add(c.Name, c.Mean, c.SD, func(i int) float64 { return c.Means[i] })
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(b.far, a.far) })
	rows = rows[:min(len(rows), drawnMembers)]
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.name
	}
	return dotChart("an expert's mean less that of all rows, in standard deviations", names, m.K,
		func(i, row int) (v, half float64) {
			return rows[row].off[i], 0
		})
}
