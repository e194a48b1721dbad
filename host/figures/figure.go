// Package figures draws experiments, and activations with their transforms, and writes the page of
// the papers' results. The same input gives the same bytes.
package figures

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"image/color"
	"io"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/gatedlearning/moe/host/experiment"
)

// Figure is a figure of a source with its data, to be drawn and listed.
type Figure struct{ *experiment.Outcome }

// A picture is as wide as it is shown on a page; printed at half a page's width,
// 8.5 cm, it has 0.71 of its size.
const (
	figureWidth = 12 * vg.Centimeter
	margin      = 7
)

// Sizes of type, in points. At half a page's width they are 8, 7.5 and 6.5 points, and
// scripts (scriptSize) 6.
const (
	typeTitle = 11.3
	typeText  = 10.6
	typeNote  = 9.2
)

// CSV writes every run as rows series, kind (run or reference), run, status, x,
// y, the last two under the axes' names.
func (f Figure) CSV(w io.Writer) error {
	c := csv.NewWriter(w)
	rows := [][]string{{"series", "kind", "run", "status", f.X.Label, f.Y.Label}}
	for _, curve := range f.Curves {
		kind := "run"
		if curve.Reference {
			kind = "reference"
		}
		for i := range curve.X {
			rows = append(rows, []string{curve.Series, kind, strconv.Itoa(curve.Run), curve.Status, exact(curve.X[i]),
				exact(curve.Y[i])})
		}
	}
	return c.WriteAll(rows)
}

func exact(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// TableCSV writes the table that goes with the figure.
func (f Figure) TableCSV(w io.Writer) error {
	return csv.NewWriter(w).WriteAll(append([][]string{f.Columns}, f.Rows...))
}

// HasTable says whether a table goes with the figure.
func (f Figure) HasTable() bool { return len(f.Columns) > 0 && len(f.Rows) > 0 }

// Draw writes the picture in the given format, "svg" or "png": single runs thin,
// their mean thick with a band that holds 80 % of them. On a logarithmic axis the
// mean is the geometric one, unless the figure is Plain. Views are panels, one above
// another. The same outcome gives the same bytes.
func (f Figure) Draw(w io.Writer, format string) error {
	panels, looks := f.panels(), f.looks()
	var notes []string
	for _, p := range panels {
		for _, s := range p.key() {
			notes = appendNew(notes, s)
		}
	}
	const width = figureWidth - 2*margin
	blocks := []block{titleBlock(f.Title, width)}
	blocks = append(blocks, panelBlocks(panels, looks)...)
	blocks = append(blocks, f.legendBlock(looks, width), noteBlock(notes, width))
	height := vg.Length(2 * margin)
	for _, b := range blocks {
		height += b.height
	}
	canvas, err := newCanvas(figureWidth, height, format, 300)
	if err != nil {
		return err
	}
	page := draw.New(canvas)
	page.SetColor(color.White)
	page.Fill(page.Rectangle.Path())
	page = draw.Crop(page, margin, -margin, margin, -margin)
	for _, b := range blocks {
		b.draw(draw.Crop(page, 0, 0, page.Max.Y-page.Min.Y-b.height, 0))
		page.Max.Y -= b.height
	}
	_, err = canvas.WriteTo(w)
	return err
}

// block is a part of the picture that takes its whole width.
type block struct {
	height vg.Length
	draw   func(draw.Canvas)
}

// textBlock has lines of text from its upper end on, each leading points high, and
// gap points below them.
func textBlock(lines []string, size float64, col color.Color, leading, gap vg.Length) block {
	return block{vg.Length(len(lines))*leading + gap, func(c draw.Canvas) {
		for i, s := range lines {
			scripted(c, c.Min.X, c.Max.Y-vg.Length(i+1)*leading+3, s, size, col)
		}
	}}
}

// scripted writes a line of text with its scripts.
func scripted(c draw.Canvas, x, y vg.Length, s string, size float64, col color.Color) {
	style := draw.TextStyle{Color: col, Font: sans(size), XAlign: draw.XLeft, YAlign: draw.YBottom,
		Handler: newScripts()}
	c.FillText(style, vg.Point{X: x, Y: y}, s)
}

func titleBlock(title string, width vg.Length) block {
	return textBlock(flow(strings.Fields(title), " ", sans(typeTitle), width), typeTitle, ink, 14, 3)
}

func noteBlock(notes []string, width vg.Length) block {
	return textBlock(flow(notes, " · ", sans(typeNote), width), typeNote, seriesColors[4], 12, 0)
}

// flow joins pieces to lines that are at most so wide.
func flow(pieces []string, between string, f font.Font, width vg.Length) (lines []string) {
	for _, s := range pieces {
		if last := len(lines) - 1; last >= 0 && newScripts().width(lines[last]+between+s, f) <= width {
			lines[last] += between + s
			continue
		}
		lines = append(lines, s)
	}
	return lines
}

// panel is one of the pictures that a figure has one above another: the curves that
// it shows, under the names that the legend has for them.
type panel struct {
	Figure
	title string
	all   Figure // what its axes span
	named bool   // its axis below has its name beside it
}

func (f Figure) panels() []panel {
	if len(f.Views) == 0 {
		return []panel{{f, "", f, true}}
	}
	var out []panel
	for i, v := range f.Views {
		p := panel{Figure: f.seen(v), title: v.Title, all: f, named: i == len(f.Views)-1}
		if i+1 < len(f.Views) && f.Views[i+1].X != v.X {
			p.named = true
		}
		if v.Y.Label != "" {
			p.all = p.Figure
		}
		out = append(out, p)
	}
	return out
}

// seen is the figure as a view shows it: only the series that have its part in their
// names, without it.
func (f Figure) seen(v experiment.View) Figure {
	o, g := *f.Outcome, *f.Outcome.Figure
	o.Figure, o.Curves = &g, nil
	if v.Y.Label != "" {
		g.Y = v.Y
	}
	if v.X.Label != "" {
		g.X = v.X
	}
	for _, c := range f.Curves {
		if v.Only != "" && c.Series != v.Only {
			continue
		}
		if v.X.Label != "" {
			c.X = c.X[:sort.SearchFloat64s(c.X, v.X.Max)]
			c.Y = c.Y[:len(c.X)]
		}
		parts := strings.Split(c.Series, ", ")
		if i := slices.Index(parts, v.Part); i >= 0 {
			c.Series = strings.Join(slices.Delete(parts, i, i+1), ", ")
		} else if v.Part != "" {
			continue
		}
		o.Curves = append(o.Curves, c)
	}
	return Figure{&o}
}

// panelBlocks draws the panels, with what they plot one below another.
func panelBlocks(panels []panel, looks []look) (out []block) {
	height := 6.6 * vg.Centimeter
	switch {
	case len(panels) > 2:
		height = 4.6 * vg.Centimeter
	case len(panels) > 1:
		height = 5.8 * vg.Centimeter
	}
	left := vg.Length(0) // room for the widest tick labels
	plots := make([]*plot.Plot, len(panels))
	for i, p := range panels {
		plots[i] = p.plot(looks)
		c := draw.Canvas{Rectangle: vg.Rectangle{Max: vg.Point{X: figureWidth, Y: height}}}
		left = max(left, plots[i].DataCanvas(c).Min.X)
	}
	for i, p := range panels {
		out = append(out, block{height, func(c draw.Canvas) { p.draw(plots[i], c, left) }})
	}
	return out
}

// plot is the panel's plot, but for its title and the names of its axes.
func (p panel) plot(looks []look) *plot.Plot {
	out := newPlot("", "")
	shown := p.Series()
	looks = slices.DeleteFunc(slices.Clone(looks), func(l look) bool { return !slices.Contains(shown, l.series) })
	switch {
	case p.Apart:
		for i, l := range looks {
			p.apart(out, l, i, len(looks))
		}
	default:
		for _, l := range looks { // all bands lie below all lines
			p.runs(out, l)
		}
		var all counts
		for _, l := range looks {
			all = append(all, p.mean(out, l)...)
		}
		out.Add(all)
	}
	p.scale(out)
	for _, axis := range []*plot.Axis{&out.X, &out.Y} {
		axis.Tick.Label.Font, axis.Tick.Length = sans(typeText), 5
	}
	return out
}

// look is how a series is drawn.
type look struct {
	series    string
	hue, dash int
	color     color.RGBA
	dashes    []vg.Length
	glyph     draw.GlyphDrawer
}

// Colours that differ in lightness, and dashes and marks that differ without
// colours.
var (
	seriesColors = []color.RGBA{
		{0x12, 0x35, 0x5b, 0xff}, {0xe0, 0x8a, 0x1e, 0xff}, {0xa3, 0x24, 0x3b, 0xff}, {0x2a, 0x9d, 0x8f, 0xff},
		{0x5f, 0x66, 0x70, 0xff},
	}
	seriesDashes = [][]vg.Length{nil, {6, 2.5}, {2, 2}, {7, 2.5, 2, 2.5}, {11, 3}}
	seriesGlyphs = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.PyramidGlyph{}, draw.BoxGlyph{}, draw.RingGlyph{},
		draw.CrossGlyph{}}
)

// looks gives every series its look. Where the names form a grid, as in
// "moments, relu" … "refined, sigmoid", one part of the name chooses colour and
// mark and the other the dashes, and the series are in the grid's order.
func (f Figure) looks() []look {
	var names []string
	for _, p := range f.panels() {
		for _, s := range p.Series() {
			names = appendNew(names, s)
		}
	}
	var hues, dashes []string // the values of the parts, in order of appearance
	for _, name := range names {
		hue, dash, _ := strings.Cut(name, ", ")
		hues, dashes = appendNew(hues, hue), appendNew(dashes, dash)
	}
	grid := len(hues) > 1 && len(dashes) > 1 && (len(names) > len(seriesColors) || len(hues)*len(dashes) == len(names))
	swap := len(dashes) > len(hues)
	var out []look
	for i, name := range names {
		l := look{series: name, hue: i, dash: i + i/len(seriesColors)} // no two alike
		if grid {
			hue, dash, _ := strings.Cut(name, ", ")
			l.hue, l.dash = slices.Index(hues, hue), slices.Index(dashes, dash)
			if swap {
				l.hue, l.dash = l.dash, l.hue
			}
		}
		l.color, l.glyph = seriesColors[l.hue%len(seriesColors)], seriesGlyphs[l.hue%len(seriesGlyphs)]
		l.dashes = seriesDashes[l.dash%len(seriesDashes)]
		out = append(out, l)
	}
	if grid {
		slices.SortStableFunc(out, func(a, b look) int { return cmp.Or(a.dash-b.dash, a.hue-b.hue) })
	}
	return out
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// few is the number of points of its longest curve up to which a figure's points
// are marked.
const few = 12

// manyRuns is the number of runs of a series that are drawn as thin lines; the
// CSV has all.
const manyRuns = 40

func (l look) faint(alpha float64) color.Color {
	c := l.color
	return color.NRGBA{c.R, c.G, c.B, uint8(255 * alpha)}
}

// dots are points. Unlike plotter.Scatter they ask for no margin.
type dots struct {
	at    plotter.XYs
	style draw.GlyphStyle
}

// Plot implements plot.Plotter.
func (d dots) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	for _, at := range d.at {
		if p := (vg.Point{X: tx(at.X), Y: ty(at.Y)}); c.Contains(p) {
			c.DrawGlyph(d.style, p)
		}
	}
}

// runs draws the band of a series and its single runs.
func (f Figure) runs(p *plot.Plot, l look) {
	curves := f.Of(l.series)
	part := f.part(l.series)
	if s := f.summary(l.series); !f.Scatter && !part && len(curves) > 1 && len(s.x) > 1 {
		low, high := points(s.x, s.low), points(s.x, s.high)
		slices.Reverse(high)
		p.Add(&plotter.Polygon{XYs: []plotter.XYs{append(low, high...)}, Color: l.faint(0.1)})
	}
	if f.Errors && len(curves) > 1 { // the band is of the mean: the runs' spread would hide it
		return
	}
	for i, c := range curves {
		if i >= manyRuns && len(c.X) > 1 && !f.Scatter {
			break
		}
		x, y := f.drawable(c.X, c.Y)
		switch {
		case len(f.Names) > 0 && len(x) == 3:
			p.Add(line(x, y, l.color, 0.9),
				dots{points(x[1:2], y[1:2]), draw.GlyphStyle{Color: l.color, Radius: 3, Shape: l.glyph}})
		case f.Scatter || len(x) == 1:
			alpha := 0.55
			if !f.Scatter {
				alpha = 0.35
			}
			p.Add(dots{points(x, y), draw.GlyphStyle{Color: l.faint(alpha), Radius: 2, Shape: l.glyph}})
		case part && len(x) > 1:
			p.Add(line(x, y, l.color, 0.8, l.dashes...))
		case len(x) > 1 && len(curves) > 1:
			thin := line(x, y, nil, 0.4)
			thin.Color = l.faint(0.45)
			p.Add(thin)
		}
	}
}

// columnWidth is the width of the points of all series at one x, as a factor: the
// axis is logarithmic.
const columnWidth = 1.9

// apart draws all runs of series i of n in a column of its own at each x, spread
// within it in order of their numbers, and a dash at their median.
func (f Figure) apart(p *plot.Plot, l look, i, n int) {
	place := func(x, within float64) float64 { // 0 ≤ within ≤ 1 of the column
		return x * math.Pow(columnWidth, (float64(i)+0.12+0.76*within)/float64(n)-0.5)
	}
	at := map[float64][]float64{}
	var all plotter.XYs
	for _, c := range f.Of(l.series) {
		x, y := f.drawable(c.X, c.Y)
		for j := range x {
			at[x[j]] = append(at[x[j]], y[j])
			all = append(all, plotter.XY{X: place(x[j], math.Mod(float64(c.Run)*math.Phi, 1)), Y: y[j]})
		}
	}
	p.Add(dots{all, draw.GlyphStyle{Color: l.faint(0.5), Radius: 1.7, Shape: l.glyph}})
	for _, x := range slices.Sorted(maps.Keys(at)) {
		m := experiment.Quantile(at[x], 0.5)
		p.Add(line([]float64{place(x, 0), place(x, 1)}, []float64{m, m}, l.color, 1.6))
	}
}

// part says whether the runs of a series end apart, some at or below the level and
// some at five times as much or more: a mean and a band would show neither.
func (f Figure) part(series string) bool {
	var reached, not bool
	for _, c := range f.Of(series) {
		if len(c.X) > 1 && f.Y.Log && f.Level > 0 && f.Lost == 0 {
			reached = reached || c.Last() <= f.Level
			not = not || c.Last() >= 5*f.Level
		}
	}
	return reached && not
}

// mean draws the thick line of a series: the mean of its runs, or the reference. It
// returns the numbers of runs that are to stand beside it.
func (f Figure) mean(p *plot.Plot, l look) counts {
	if f.Scatter && len(f.Of(l.series)) > 0 || f.part(l.series) {
		return nil
	}
	width := vg.Length(1.6)
	s := f.summary(l.series)
	if len(s.x) == 0 { // a reference
		width = 0.9
		for _, c := range f.Curves {
			if c.Series == l.series {
				s.x, s.y = f.drawable(c.X, c.Y)
			}
		}
	}
	if len(s.x) == 0 {
		return nil
	}
	for _, part := range f.unbroken(s.y) {
		p.Add(line(s.x[part[0]:part[1]], s.y[part[0]:part[1]], l.color, width, l.dashes...))
	}
	marks := f.marks(s.x, s.y, l)
	p.Add(dots{marks, draw.GlyphStyle{Color: l.color, Radius: 1 + 1.1*width, Shape: l.glyph}})
	return f.fewer(l, s, marks)
}

// counts are numbers of runs beside points of lines.
type counts []count

type count struct {
	at    plotter.XY
	runs  int
	color color.Color
}

// Plot implements plot.Plotter. Numbers of points that lie close together are stacked
// above the highest of them, in the order of the points.
func (n counts) Plot(c draw.Canvas, p *plot.Plot) {
	const wide, high = 16, 10 // room for a number
	tx, ty := p.Transforms(&c)
	left := slices.DeleteFunc(slices.Clone(n),
		func(v count) bool { return !c.Contains(vg.Point{X: tx(v.at.X), Y: ty(v.at.Y)}) })
	slices.SortStableFunc(left, func(a, b count) int { return cmp.Compare(a.at.Y, b.at.Y) })
	style := draw.TextStyle{Font: sans(typeNote), XAlign: draw.XCenter, YAlign: draw.YBottom, Handler: newScripts()}
	for len(left) > 0 {
		stack, rest := left[:1:1], counts(nil)
		top := ty(left[0].at.Y)
		for _, v := range left[1:] {
			if far := tx(v.at.X) - tx(stack[0].at.X); far < wide && far > -wide && ty(v.at.Y) < top+high+4 {
				stack, top = append(stack, v), ty(v.at.Y)
				continue
			}
			rest = append(rest, v)
		}
		for i, v := range stack {
			at, label := vg.Point{X: tx(v.at.X), Y: top + 4 + high*vg.Length(i)}, strconv.Itoa(v.runs)
			c.SetColor(color.NRGBA{0xff, 0xff, 0xff, 0xc0})
			halo := style.Rectangle(label).Add(at)
			halo.Min.Y += 2
			c.Fill(halo.Path())
			style.Color = v.color
			c.FillText(style, at, label)
		}
		left = rest
	}
}

// fewer returns those of the marks of a series' mean from which on it is over another
// number of runs, and one that is smaller than the series has elsewhere, or another
// series at the same x.
func (f Figure) fewer(l look, s summary, marks plotter.XYs) (out counts) {
	if len(s.runs) == 0 { // a reference
		return nil
	}
	most, before := slices.Max(s.runs), 0
	for _, m := range marks {
		here, there := s.runs[slices.Index(s.x, m.X)], 0
		for _, other := range f.Series() {
			there = max(there, f.runsAt(other, m.X))
		}
		if here < max(most, there) && here != before {
			out = append(out, count{m, here, l.color})
		}
		before = here
	}
	return out
}

// runsAt counts the runs of a series that have a value at x.
func (f Figure) runsAt(series string, x float64) (n int) {
	for _, c := range f.Of(series) {
		if slices.Contains(c.X, x) {
			n++
		}
	}
	return n
}

// unbroken returns the ranges of points that one line joins: it does not join a point
// above what the axis shows to one below, between which there is a pole.
func (f Figure) unbroken(y []float64) (parts [][2]int) {
	first := 0
	for i := 1; i < len(y) && f.Y.Max > f.Y.Min; i++ {
		if lo, hi := min(y[i-1], y[i]), max(y[i-1], y[i]); lo < f.Y.Min && hi > f.Y.Max {
			parts, first = append(parts, [2]int{first, i}), i
		}
	}
	return append(parts, [2]int{first, len(y)})
}

// marks are the points of a line that carry its mark: all where the figure's
// curves are short, else some, evenly along the axis, at places that differ from
// look to look.
func (f Figure) marks(x, y []float64, l look) plotter.XYs {
	if f.short() {
		return points(x, y)
	}
	position := func(v float64) float64 {
		if f.X.Log {
			return math.Log(v)
		}
		return v
	}
	const marked = 9
	apart := (position(x[len(x)-1]) - position(x[0])) / marked
	next := position(x[0]) + apart*(0.1+float64(l.hue%5)/5)
	var out plotter.XYs
	for i, v := range x {
		if p := position(v); p >= next {
			out = append(out, plotter.XY{X: v, Y: y[i]})
			next += apart
		}
	}
	return out
}

// short says whether no curve of the figure has many points.
func (f Figure) short() bool {
	return !slices.ContainsFunc(f.Curves, func(c experiment.Curve) bool { return len(c.X) > few })
}

// summary is the mean of a series' runs at each x where at least half of them
// have a value, or any where the figure wants Errors or has lost runs, which it leaves out, with its band and their
// number.
type summary struct {
	x, y, low, high []float64
	runs            []int
}

func (f Figure) summary(series string) summary {
	curves := f.Of(series)
	at, runs := map[float64][]float64{}, map[float64]int{}
	var xs []float64
	for _, c := range curves {
		x, y := f.drawable(f.found(c))
		for _, v := range slices.Compact(slices.Clone(x)) {
			runs[v]++
		}
		for i, v := range x {
			if at[v] == nil {
				xs = append(xs, v)
			}
			at[v] = append(at[v], y[i])
		}
	}
	slices.Sort(xs)
	most := 0
	for _, v := range at {
		most = max(most, len(v))
	}
	var s summary
	for _, x := range xs {
		v := at[x]
		if 2*len(v) < most && !f.Errors && f.Lost == 0 {
			continue
		}
		mean, low, high := f.band(v)
		s.x, s.y, s.low, s.high = append(s.x, x), append(s.y, mean), append(s.low, low), append(s.high, high)
		s.runs = append(s.runs, runs[x])
	}
	return s
}

// found are the points of a curve that are not lost.
func (f Figure) found(c experiment.Curve) (x, y []float64) {
	switch {
	case f.Lost == 0:
		return c.X, c.Y
	case f.Whole && c.Last() < f.Lost:
		return c.X, c.Y
	case f.Whole:
		return nil, nil
	}
	for i, v := range c.Y {
		if v < f.Lost {
			x, y = append(x, c.X[i]), append(y, v)
		}
	}
	return x, y
}

// band returns the mean of v, and the ends of the band: the 10th and 90th
// percentile, or where the figure wants Errors two standard errors to either side.
func (f Figure) band(v []float64) (mean, low, high float64) {
	slices.Sort(v) // so that sums do not depend on the order of the runs
	geometric := f.Y.Log && !f.Plain
	if f.Errors && geometric {
		logs := make([]float64, len(v))
		for i, x := range v {
			logs[i] = math.Log(x)
		}
		at, far := meanWithin(logs)
		return math.Exp(at), math.Exp(at - far), math.Exp(at + far)
	}
	if f.Errors {
		mean, far := meanWithin(v)
		return mean, max(mean-far, mean/100), mean + far // a band cannot reach 0 on a logarithmic axis
	}
	mean = stat.Mean(v, nil)
	if geometric {
		mean = stat.GeometricMean(v, nil)
	}
	return mean, experiment.Quantile(v, 0.1), experiment.Quantile(v, 0.9)
}

// meanWithin returns the mean of v, and two of its standard errors; 0 of one value.
func meanWithin(v []float64) (mean, far float64) {
	if len(v) == 1 {
		return v[0], 0
	}
	mean, far = stat.MeanStdDev(v, nil)
	return mean, 2 * far / math.Sqrt(float64(len(v)))
}

// smallest is what a logarithmic axis shows of a value of 0: errors below it are
// rounding.
const smallest = 1e-16

// drawable leaves out what an axis cannot show, lifts an error of 0 to the
// smallest, and takes the sign from points on a logarithmic axis.
func (f Figure) drawable(x, y []float64) (dx, dy []float64) {
	for i := range x {
		a, b := x[i], y[i]
		if f.X.Log && a <= 0 || math.IsNaN(a+b) || math.IsInf(a+b, 0) {
			continue
		}
		if f.Y.Log && f.Scatter {
			b = math.Abs(b)
		}
		if f.Y.Log {
			b = max(b, smallest)
		}
		dx, dy = append(dx, a), append(dy, b)
	}
	return dx, dy
}

// draw draws the panel's plot with its title and the names of its axes, the one below
// if it is to be named. The plot itself would keep room for them in the wrong place where
// an axis is logarithmic. Its data begin left of what the names leave.
func (p panel) draw(plotted *plot.Plot, c draw.Canvas, left vg.Length) {
	const name = 16 // room for an axis' name
	if p.title != "" {
		scripted(c, c.Min.X, c.Max.Y-12, p.title, typeText, ink)
		c.Max.Y -= 16
	}
	inner := draw.Crop(c, name, -2, name, 0)
	if !p.named {
		inner.Min.Y = c.Min.Y + 6
	}
	inner.Min.X += left - plotted.DataCanvas(inner).Min.X + inner.Min.X
	plotted.Draw(inner)
	data := plotted.DataCanvas(inner)
	style := draw.TextStyle{Color: ink, Font: sans(typeText), XAlign: draw.XCenter, YAlign: draw.YBottom,
		Handler: newScripts()}
	if p.named {
		c.FillText(style, vg.Point{X: data.Center().X, Y: c.Min.Y + 3}, p.X.Label)
	}
	style.Rotation, style.YAlign = math.Pi/2, draw.YTop
	c.FillText(style, vg.Point{X: c.Min.X, Y: data.Center().Y}, p.Y.Label)
}

// scale sets the axes to what the curves reach that they span, and draws the lines
// that are no curves: the level, and 0.
func (f panel) scale(p *plot.Plot) {
	var xs, ys []float64
	for _, c := range f.all.Curves {
		x, y := f.drawable(c.X, c.Y)
		xs, ys = append(xs, x...), append(ys, y...)
	}
	values := xs
	if f.Apart && len(xs) > 0 {
		values = slices.Clone(xs)
		half := math.Sqrt(columnWidth)
		xs = append(xs, floats.Min(xs)/half, floats.Max(xs)*half)
	}
	if f.Level != 0 {
		ys = append(ys, f.Level)
	}
	x0, x1 := reach(&p.X, f.X, xs)
	y0, y1 := reach(&p.Y, f.Y, ys)
	if ticks := valuesOf(values); ticks != nil && f.X.Log && !(f.Scatter && slices.ContainsFunc(values, long)) {
		p.X.Tick.Marker = ticks
	}
	if len(f.Names) > 0 {
		var ticks plot.ConstantTicks
		for i, name := range f.Names {
			ticks = append(ticks, plot.Tick{Value: -float64(i + 1), Label: drawn.Replace(name)})
		}
		p.Y.Tick.Marker = ticks
		y0, y1 = -float64(len(f.Names))-0.5, -0.5
	}
	if f.Level != 0 {
		p.Add(line([]float64{x0, x1}, []float64{f.Level, f.Level}, ink, 0.6, 1.2, 1.6))
	}
	if !f.Y.Log && y0 < 0 && y1 > 0 {
		p.Add(line([]float64{x0, x1}, []float64{0, 0}, ink, 0.5))
	}
	p.X.Tick.Label.Handler, p.Y.Tick.Label.Handler = newScripts(), newScripts()
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = x0, x1, y0, y1 // what is added widens them
}

// reach sets an axis up for values and returns its range, with a margin.
func reach(p *plot.Axis, a experiment.Axis, v []float64) (lo, hi float64) {
	if len(v) == 0 {
		return 1, 10
	}
	lo, hi = floats.Min(v), floats.Max(v)
	if a.Log {
		p.Scale = plot.LogScale{}
		p.Tick.Marker = plot.TickerFunc(decades)
		pad := max(math.Pow(hi/lo, 0.03), 1.05)
		return lo / pad, hi * pad
	}
	if a.Max > a.Min {
		return a.Min, a.Max
	}
	pad := 0.03 * (hi - lo)
	if pad == 0 {
		pad = max(1, math.Abs(lo)) / 10
	}
	if lo == 0 { // where time starts, and errors
		return 0, hi + pad
	}
	return lo - pad, hi + pad
}

// decades puts ticks at powers of ten, at most eight of them with labels, and
// small ones between them; where there is a decade or less, labels at 2 and 5
// times powers of ten too, or at all between them.
func decades(lo, hi float64) []plot.Tick {
	first, last := int(math.Floor(math.Log10(lo))), int(math.Ceil(math.Log10(hi)))
	whole := math.Floor(math.Log10(hi)) - math.Ceil(math.Log10(lo))
	every := 1 + (last-first)/9
	var list []plot.Tick
	var labelled []float64
	for e := first; e <= last; e++ {
		for m := 1; m < 10; m++ {
			v := float64(m) * math.Pow(10, float64(e))
			if v < lo || v > hi {
				continue
			}
			label := whole < 1 && (m == 1 || m == 2 || m == 5 || hi < 5*lo) || m == 1 && e%every == 0
			if label {
				labelled = append(labelled, v)
			}
			if label || every == 1 {
				list = append(list, plot.Tick{Value: v})
			}
		}
	}
	write := scientific
	if whole < 1 {
		write = oneStyle(labelled)
	}
	for i, t := range list {
		if slices.Contains(labelled, t.Value) {
			list[i].Label = write(t.Value)
		}
	}
	return list
}

// power writes a power of ten for [scripts].
func power(e int) string { return "10^" + strings.ReplaceAll(strconv.Itoa(e), "-", "−") }

// shortest writes a number to six digits, as a multiple of a power of ten
// from 1e5 on and below 1e−4, for [scripts].
func shortest(v float64) string {
	a := math.Abs(v)
	if v == 0 || a >= 1e-4 && a < 1e5 {
		return strings.ReplaceAll(strconv.FormatFloat(v+0, 'g', 6, 64), "-", "−") // not −0
	}
	return scientific(v)
}

// scientific writes a number as a multiple of a power of ten, for [scripts].
func scientific(v float64) string {
	digits, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', -1, 64), "e")
	e, _ := strconv.Atoi(exponent)
	if digits == "1" {
		return power(e)
	}
	return strings.ReplaceAll(digits, "-", "−") + "·" + power(e)
}

// oneStyle writes labels alike: as they are where all lie between 0.01 and 1000, to
// three digits, and else as multiples of powers of ten.
func oneStyle(labels []float64) func(float64) string {
	outside := func(v float64) bool { return v < 0.00999 || v >= 999.5 }
	if slices.ContainsFunc(labels, outside) {
		return scientific
	}
	return func(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
}

// valuesOf puts ticks at the values that the runs have, where these are few.
func valuesOf(v []float64) plot.Ticker {
	v = slices.Compact(slices.Sorted(slices.Values(v)))
	if len(v) < 2 || len(v) > 6 {
		return nil
	}
	write := oneStyle(v)
	var list plot.ConstantTicks
	for _, x := range v {
		list = append(list, plot.Tick{Value: x, Label: write(x)})
	}
	return list
}

// long says whether a number has too many digits for a tick.
func long(v float64) bool { return len(strconv.FormatFloat(v, 'g', -1, 64)) > 8 }

// drawn replaces what the font does not have.
var drawn = strings.NewReplacer("⟨", "<", "⟩", ">")

// legendBlock names the series below the plots, column by column.
func (f Figure) legendBlock(looks []look, width vg.Length) block {
	const sample, leading = 22.0, 14.0 // of a line, and from line to line
	widest := vg.Length(0)
	for _, l := range looks {
		widest = max(widest, newScripts().width(l.series, sans(typeText)))
	}
	widest += sample + 5 + 12
	columns := min(len(looks), max(1, int((width+12)/widest)))
	rows := (len(looks) + columns - 1) / columns
	return block{vg.Length(rows)*leading + 8, func(c draw.Canvas) {
		for i, l := range looks {
			left := c.Min.X + vg.Length(i/rows)*widest
			right, y := left+sample, c.Max.Y-4-leading*vg.Length(i%rows+1)+3
			middle := y + 4
			if !f.Scatter && !f.Apart || len(f.Of(l.series)) == 0 {
				c.StrokeLine2(draw.LineStyle{Color: l.color, Width: 1.6, Dashes: l.dashes}, left, middle, right, middle)
			}
			c.DrawGlyph(draw.GlyphStyle{Color: l.color, Radius: 2.7, Shape: l.glyph},
				vg.Point{X: (left + right) / 2, Y: middle})
			scripted(c, right+5, y, drawn.Replace(l.series), typeText, ink)
		}
	}}
}

// key says what thick, thin and shaded mean.
func (f Figure) key() []string {
	most, longest := 0, 0
	for _, series := range f.Series() {
		curves := f.Of(series)
		most = max(most, len(curves))
		for _, c := range curves {
			longest = max(longest, len(c.X))
		}
	}
	if f.Apart {
		return []string{"points: single runs", "dashes: their medians", fmt.Sprintf("dotted: %g", f.Level)}
	}
	if f.Scatter || most < 2 {
		return nil
	}
	mean, band := "thick: mean of the runs", "band: 10th to 90th percentile"
	if f.Y.Log && !f.Plain {
		mean = "thick: geometric mean of the runs"
	}
	if f.Errors {
		band = "band: two standard errors of the mean"
	}
	thin := "thin: single runs"
	if longest == 1 {
		thin = "points: single runs"
	}
	if most > manyRuns && longest > 1 {
		thin += fmt.Sprintf(" (%d of %d)", manyRuns, most)
	}
	out := []string{mean, band}
	if f.Lost != 0 && f.Whole {
		out = append(out, fmt.Sprintf("both: of runs that end below %g", f.Lost))
	} else if f.Lost != 0 {
		out = append(out, fmt.Sprintf("both: of errors below %g", f.Lost))
	}
	if !f.Errors {
		out = append(out, thin)
	}
	if slices.ContainsFunc(f.Series(), f.part) {
		out = append(out, "where runs part: all of them, no mean")
	}
	if slices.ContainsFunc(f.Series(), func(s string) bool {
		sum := f.summary(s)
		return !f.part(s) && len(f.fewer(look{}, sum, points(sum.x, sum.y))) > 0
	}) {
		out = append(out, "numbers: runs that the mean is over, where not all")
	}
	if f.Level != 0 {
		out = append(out, fmt.Sprintf("dotted: %g", f.Level))
	}
	return out
}
