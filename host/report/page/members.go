package page

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/report/diagnosis"
	"github.com/gatedlearning/moe/host/report/numeral"
	"github.com/gatedlearning/moe/internal/shown"
)

const (
	// openMembers is how many columns the table of members shows unfolded, and openLevels how many levels of a factor
	// it shows at all; what is left of these is together in a row.
	openMembers = 12
	openLevels  = 12
	// drawnMembers is how many rows the picture of the members has.
	drawnMembers = 14
)

// strongestFirst are members by how far the experts are apart in them.
func strongestFirst(all []diagnosis.Members) []diagnosis.Members {
	out := slices.Clone(all)
	slices.SortStableFunc(out, func(a, b diagnosis.Members) int { return cmp.Compare(b.Differs, a.Differs) })
	return out
}

// memberSection says who is in each expert.
func memberSection(m *fitted.Model, d *diagnosis.Diagnosis, targets ...diagnosis.Members) section {
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
func memberTable(m *fitted.Model, d *diagnosis.Diagnosis, of, targets []diagnosis.Members) table {
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
func shownLevels(c *diagnosis.Members) (out []levelShares) {
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
func apart(c *diagnosis.Members, l int) float64 {
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
func memberChart(m *fitted.Model, all []diagnosis.Members) template.HTML {
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
