// Package experiment holds the figures and tables of the papers as data: what
// each says, in which setting, the runs that make it, and how to tell from them
// whether what the paper says holds.
//
// A figure's name says where it is: those of 002 by theorem, lemma, section or
// appendix (002-T3 in paper002_theorem3.go, 002-2a in paper002_section4.go), those
// of 000 and 001 in paper000.go and slides001.go, and ours in a file of their name.
// What they share are the runs of the methods, units.go, on a mixture and its data,
// study.go.
package experiment

import (
	"fmt"
	"slices"
)

// Axis is one axis of a figure.
type Axis struct {
	Label    string
	Log      bool
	Min, Max float64 // what is shown, where it is not all: Min < Max
}

// Curve is one run's line in a figure. Runs of a series with equal X are drawn
// as their mean with a band. Reference marks a line that was computed, not
// measured.
type Curve struct {
	Measure   string    `json:"measure"` // which of a unit's figures it belongs to
	Series    string    `json:"series"`
	Run       int       `json:"run"`
	X         []float64 `json:"x"`
	Y         []float64 `json:"y"`
	Reference bool      `json:"reference,omitempty"`
	Status    string    `json:"status,omitempty"` // how the run ended, where it did not just end
}

// Last returns the last value of the curve.
func (c Curve) Last() float64 { return c.Y[len(c.Y)-1] }

// Verdict says whether what the source says was seen.
type Verdict struct {
	Measured string // the numbers, as a sentence
	Agrees   bool
	Because  string // where it does not agree, why; else what qualifies it, or ""
}

// Sentence is "agrees" or "does not, because …".
func (v Verdict) Sentence() string {
	switch {
	case !v.Agrees:
		return "does not, because " + v.Because
	case v.Because != "":
		return "agrees; " + v.Because
	}
	return "agrees"
}

// Figure is a figure or a table of a source.
type Figure struct {
	ID, Title string
	Source    string // where the source has it
	Claim     string // what the source says
	Own       bool   // the claim is ours, not a paper's
	Identity  bool   // the claim holds by algebra: no data could contradict it, errors of ours alone
	Same      string // the figure of another source that shows the same runs for the same claim, if any
	Settings  string // what was run, and what of it the source leaves out
	X, Y      Axis
	Scatter   bool // points, not lines; a logarithmic Y shows their sizes
	// every run a point, the series side by side at each X, with their medians: for runs of which some end elsewhere
	Apart  bool
	Plain  bool    // the runs' mean is the arithmetic one, on a logarithmic axis too
	Errors bool    // the band is two standard errors of the mean, not the runs' spread
	Level  float64 // a value of Y that the claim is about, drawn as a line; 0 for none
	// An error from which on a run has not found what it looks for: means and bands are of the others, with their
	// number beside them. It is asked of every point, or, where Whole is set, of a run's last. 0: of all runs.
	Lost  float64
	Whole bool
	// names of the values −1, −2, … of Y, from above: what is drawn is then values between the ends of their intervals
	Names   []string
	Views   []View   // the panels of its picture, from the top; none: one with all series
	Columns []string // of the table that goes with it, if any

	measure string                    // of the units' curves, "" for all
	drawn   func(*Outcome) []Curve    // what is drawn of the units' curves, which are then aside; nil: they
	table   func(*Outcome) [][]string // rows that come from all units together, if any
	cost    float64                   // of all its units, in seconds of one core
	units   []unit
	judge   func(*Outcome) Verdict
}

// View is a panel of a figure's picture.
type View struct {
	Title string
	Part  string // shows the series of which this is a part, as "relu" is of "relu, cubic"; "" for all
	Only  string // shows this series alone, by its whole name; "" for all that have the part
	X     Axis   // its own, from Min to Max; without a label the figure's, spanning all
	Y     Axis   // its own, spanning what it shows; without a label the figure's, spanning all
}

// views are panels for parts of the series' names.
func views(parts ...string) (out []View) {
	for _, p := range parts {
		out = append(out, View{Title: p, Part: p})
	}
	return out
}

// Source is where figures come from.
type Source struct{ Number, Title string }

// Sources are the papers by the numbers that the figures name them by.
func Sources() []Source {
	return []Source{
		{"000", "A. V. Makkuva, S. Oh, S. Kannan, P. Viswanath, Learning in Gated Neural Networks " +
			"(proceedings version)"},
		{"001", "The slides of the same title, with Breaking the Gridlock in Mixture-of-Experts by the same authors"},
		{"002", "Learning in Gated Neural Networks, the longer version with the appendices"},
		{"003", "Slides of K. Zhong, Z. Song, P. Jain, P. L. Bartlett, I. S. Dhillon, Recovery Guarantees for " +
			"One-hidden-layer Neural Networks"},
		{"004", "Slides of L. Song with B. Xie and Y. Liang, Diverse Neural Network Learns True Target"},
	}
}

// Outcome is a figure with its data.
type Outcome struct {
	*Figure
	Curves  []Curve
	Rows    [][]string // of the table
	Verdict Verdict

	aside []Curve // of the units' other measures
}

// unit is the smallest piece of work: one run of one method. Its key names all
// its settings that vary; of constants see version. Equal keys are equal work,
// done once.
type unit struct {
	key string
	run task
}

// output is what a unit gives.
type output struct {
	Curves []Curve    `json:"curves"`
	Rows   [][]string `json:"rows,omitempty"`
}

func (o *output) add(measure, series string, run int, t *trace) {
	o.Curves = append(o.Curves, Curve{Measure: measure, Series: series, Run: run, X: t.x, Y: t.y, Status: t.status})
}

// point adds a curve of one point.
func (o *output) point(measure, series string, run int, x, y float64) {
	o.add(measure, series, run, &trace{x: []float64{x}, y: []float64{y}})
}

// reference adds a line that was computed, not measured.
func (o *output) reference(measure, series string, t *trace) {
	o.add(measure, series, 0, t)
	o.Curves[len(o.Curves)-1].Reference = true
}

// size says how large the experiments are.
type size struct{ quick bool }

// of returns the first number at quick size, else the second.
func (s size) of(quick, full int) int {
	if s.quick {
		return quick
	}
	return full
}

// Figures returns all figures, at quick or full size, in the order of the
// sources.
func Figures(quick bool) []*Figure {
	s := size{quick}
	all := slices.Concat(section4(s), paper000(s), slides001(s), []*Figure{
		conjecture(s), slidesLandscape(), gateEnds(s),
		appendixB(), landscape(s), landscapeCondition(s), samples(s, sampledBuiltins(s)), samplesOverD(s),
		workOfDescent(s), rates(s), ratesOverD(s), ratesOverDistance(s), gateFloor(s), gateError(s, "n"),
		gateError(s, "d"), gateErrorOverT(s), perturbation(s), deviation(s),
		ray(), fixedTable(s), efficiency(s, efficiencyBuiltins(2)), efficiency(s, efficiencyBuiltins(3)),
		transforms(s, 2), transforms(s, 3), transforms(s, 6), families(s),
		overfit(s), overfitTwo(s), overfitHeld(),
		identifiability(s), identifiabilitySigmoid(s), identifiabilityQuadratic(),
		obliqueGate(s), emRate(s),
		trees(s), treesFlat(s), treesRecurrent(s), layersFromStates(s), gainBound(s),
	}, slides003(s), slides004(s))
	s.finish(all)
	return all
}

// finish gives figures what they have in common.
func (s size) finish(figures []*Figure) {
	for _, f := range figures {
		f.cost = s.cost(f.ID)
		if f.Y == axisReg && f.Level == 0 {
			f.Level = recovered
		}
		if f.X == axisBatches || f.X == axisRows {
			f.Plain = true // as the papers draw them
		}
	}
}

// Find returns the figures with the given IDs, or all if there are none. The
// error names the first unknown ID.
func Find(ids []string, quick bool) ([]*Figure, error) { return Among(Figures(quick), ids) }

// Among returns those of the figures that have the given IDs, or all if there are
// none. The error names the first unknown ID.
func Among(all []*Figure, ids []string) ([]*Figure, error) {
	if len(ids) == 0 {
		return all, nil
	}
	var out []*Figure
	for _, id := range ids {
		i := slices.IndexFunc(all, func(f *Figure) bool { return f.ID == id })
		if i < 0 {
			var known []string
			for _, f := range all {
				known = append(known, f.ID)
			}
			return nil, fmt.Errorf("no figure %q; there are %v", id, known)
		}
		if !slices.Contains(out, all[i]) {
			out = append(out, all[i])
		}
	}
	return out, nil
}

// Of returns the measured curves of a series.
func (o *Outcome) Of(series string) []Curve {
	var out []Curve
	for _, c := range o.Curves {
		if c.Series == series && !c.Reference {
			out = append(out, c)
		}
	}
	return out
}

// computed returns the line of that name that was computed, not measured.
func (o *Outcome) computed(series string) Curve {
	i := slices.IndexFunc(o.Curves, func(c Curve) bool { return c.Series == series && c.Reference })
	return o.Curves[i]
}

// beside returns all ordinates of a series of a measure that is not drawn.
func (o *Outcome) beside(series string) []float64 {
	var out []float64
	for _, c := range o.aside {
		if c.Series == series {
			out = append(out, c.Y...)
		}
	}
	return out
}

// values returns all ordinates of a series.
func (o *Outcome) values(series string) []float64 {
	var out []float64
	for _, c := range o.Of(series) {
		out = append(out, c.Y...)
	}
	return out
}

// at returns the ordinates of a series at x.
func (o *Outcome) at(series string, x float64) []float64 {
	var out []float64
	for _, c := range o.Of(series) {
		if i := slices.Index(c.X, x); i >= 0 {
			out = append(out, c.Y[i])
		}
	}
	return out
}

// besideAt returns the ordinates at x of a series of a measure that is not drawn.
func (o *Outcome) besideAt(series string, x float64) (out []float64) {
	for _, c := range o.aside {
		if i := slices.Index(c.X, x); i >= 0 && c.Series == series {
			out = append(out, c.Y[i])
		}
	}
	return out
}

// lasts returns the last values of a series' runs; of one that diverged 1, the
// error of a guess.
func (o *Outcome) lasts(series string) []float64 {
	var out []float64
	for _, c := range o.Of(series) {
		if c.Status != "" {
			out = append(out, 1)
			continue
		}
		out = append(out, c.Last())
	}
	return out
}

// diverged says whether a run of the series did.
func (o *Outcome) diverged(series ...string) bool {
	return slices.ContainsFunc(o.Curves, func(c Curve) bool {
		return slices.Contains(series, c.Series) &&
			c.Status != ""
	})
}

// Series returns the names of the series in order of appearance.
func (o *Outcome) Series() []string {
	var out []string
	for _, c := range o.Curves {
		if !slices.Contains(out, c.Series) {
			out = append(out, c.Series)
		}
	}
	return out
}
