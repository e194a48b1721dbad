package figures

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/gatedlearning/moe/internal/shown"
	"github.com/gatedlearning/moe/solver"
)

// Colours that differ in lightness, so that they also do in grey.
var (
	ink    = color.RGBA{0x22, 0x22, 0x22, 0xff}
	strong = color.RGBA{0x1f, 0x4e, 0x8c, 0xff}
	light  = color.RGBA{0xe0, 0x8a, 0x1e, 0xff}
	pale   = color.RGBA{0xb8, 0xbf, 0xc8, 0xff}
	wrong  = color.RGBA{0xb0, 0x1c, 0x2e, 0xff}
)

const (
	plotWidth  = 22 * vg.Centimeter
	plotHeight = 27 * vg.Centimeter
)

// DrawActivation writes the picture of an activation and what was found of it in the given format, "svg" or "png": on
// the left g and the conditional expectations S4 = E[Q4(y)|Z] and S2 = E[Q2(y)|Z], on the
// right the conditions: S4 must have no Hermite coefficient of order 1, 2 and 3
// and one of order 4, S2 none of order 1 and one of order 2. Below, the transforms
// of minimum variance over the polynomials. The same input gives the same bytes.
func DrawActivation(w io.Writer, name string, v *solver.Validation, curves solver.Curves, format string) error {
	canvas, err := newCanvas(plotWidth, plotHeight, format, vgimg.DefaultDPI)
	if err != nil {
		return err
	}
	t := v.Transform
	page := draw.New(canvas)
	page.SetColor(color.White)
	page.Fill(page.Rectangle.Path())
	page = draw.Crop(page, 14, -14, 12, -14)
	heading(page, name, v)
	const below = 0.27
	height := page.Max.Y - page.Min.Y - 60
	body := draw.Crop(page, 0, 0, below*height, -60)

	plots := [][]*plot.Plot{
		{curveG(curves), nil},
		{curve(curves.Z, curves.S4, t.C4, 4), bars(curves.Spectrum4, 4)},
		{curve(curves.Z, curves.S2, t.C2, 2), bars(curves.Spectrum2, 2)},
	}
	cells := plot.Align(plots, draw.Tiles{Rows: 3, Cols: 2, PadX: 18, PadY: 16}, body)
	for i, row := range plots {
		for j, p := range row {
			if p != nil {
				p.Draw(cells[i][j])
			}
		}
	}
	conditions(cells[0][1], v.Verdict.Checks)
	transforms := [][]*plot.Plot{{}}
	for _, t := range curves.T {
		transforms[0] = append(transforms[0], transformPlot(curves.Y, t))
	}
	for i, cell := range plot.Align(transforms, draw.Tiles{Rows: 1, Cols: len(curves.T), PadX: 18},
		draw.Crop(page, 0, 0, 0, -60-(1-below)*height-16))[0] {
		transforms[0][i].Draw(cell)
	}
	_, err = canvas.WriteTo(w)
	return err
}

// heading writes the answer and the transforms over the panels.
func heading(page draw.Canvas, name string, v *solver.Validation) {
	t := v.Transform
	verdict := "valid"
	if !v.Verdict.Valid {
		verdict = "NOT valid"
	}
	text(page, page.Min.X+6, page.Max.Y-14, fmt.Sprintf("%s is %s at σ = %g", name, verdict, v.Sigma), 15, ink)
	text(page, page.Min.X+6, page.Max.Y-31,
		fmt.Sprintf("Q4(y) = y⁴ + αy³ + βy² + γy with α = %s, β = %s, γ = %s and c4 = %s",
			shown.Number(t.Alpha, 4), shown.Number(t.Beta, 4), shown.Number(t.Gamma, 4), shown.Number(t.C4, 4)), 9.5,
		ink)
	text(page, page.Min.X+6, page.Max.Y-44, fmt.Sprintf("Q2(y) = y² + δy with δ = %s and c2 = %s",
		shown.Number(t.Delta, 4), shown.Number(t.C2, 4)), 9.5, ink)
}

// newPlot returns a plot in the house style: a title on the left, no frame, a
// light grid.
func newPlot(title, x string) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	p.Title.TextStyle.Font = sans(11)
	p.Title.TextStyle.Color = ink
	p.Title.Padding = 4
	p.X.Label.Text = x
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font = sans(10)
		axis.Tick.Label.Font = sans(9)
		axis.LineStyle.Color, axis.Tick.LineStyle.Color = ink, ink
		axis.LineStyle.Width, axis.Tick.LineStyle.Width = 0.6, 0.6
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(ticks), plot.TickerFunc(ticks)
	p.Legend.TextStyle.Font = sans(9.5)
	p.Legend.TextStyle.Color = ink
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.ThumbnailWidth = 22
	p.Legend.Padding = 3
	p.Legend.XOffs, p.Legend.YOffs = 10, -2
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xe8}, color.Gray{0xf2}
	p.Add(grid)
	return p
}

// ticks puts labels at multiples of 1, 2 or 5 times a power of ten, four to
// eight of them.
func ticks(lo, hi float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/4)))
	for _, f := range []float64{5, 2} {
		if (hi-lo)/(f*step) >= 4 {
			step *= f
			break
		}
	}
	var list []plot.Tick
	for i := math.Ceil(lo / step); i*step <= hi; i++ {
		list = append(list, plot.Tick{Value: i * step, Label: shortest(i * step)})
	}
	return list
}

func sans(size float64) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Length(size)}
}

func text(c draw.Canvas, x, y vg.Length, s string, size float64, col color.Color) {
	style := draw.TextStyle{Color: col, Font: sans(size), XAlign: draw.XLeft, YAlign: draw.YBottom,
		Handler: plot.DefaultTextHandler}
	c.FillText(style, vg.Point{X: x, Y: y}, s)
}

func points(x, y []float64) plotter.XYs {
	xy := make(plotter.XYs, len(x))
	for i := range x {
		xy[i] = plotter.XY{X: x[i], Y: y[i]}
	}
	return xy
}

func line(x, y []float64, col color.Color, width vg.Length, dashes ...vg.Length) *plotter.Line {
	return &plotter.Line{XYs: points(x, y), LineStyle: draw.LineStyle{Color: col, Width: width, Dashes: dashes}}
}

// curveG draws g with its kinks marked.
func curveG(c solver.Curves) *plot.Plot {
	p := newPlot("g(z)", "z")
	lo, hi := room(c.G)
	p.Y.Min, p.Y.Max = lo, hi
	for i, k := range c.Kinks {
		l := line([]float64{k, k}, []float64{lo, hi}, pale, 1.2, 4, 3)
		p.Add(l)
		if i == 0 {
			p.Legend.Add("kink", l)
		}
	}
	p.Add(line(c.Z, c.G, strong, 2))
	fitX(p, c.Z)
	return p
}

// curve draws S4 or S2 and the part of it that the tensor of that order sees,
// c·He_q(z)/q!.
func curve(z, s []float64, c float64, q int) *plot.Plot {
	p := newPlot(fmt.Sprintf("S%d(z) = E[Q%d(y) | Z = z]", q, q), "z")
	mean := weightedMean(z, s)
	part := make([]float64, len(s))
	for i, z := range z {
		part[i] = mean + c*hermiteOver(q, z)
	}
	whole, seen := line(z, s, strong, 2), line(z, part, light, 1.8, 6, 3)
	p.Add(whole, seen)
	p.Legend.Add(fmt.Sprintf("S%d", q), whole)
	p.Legend.Add(fmt.Sprintf("mean + c%d·He%d(z)/%d!", q, q, q), seen)
	p.Y.Min, p.Y.Max = room(s, part)
	fitX(p, z)
	return p
}

// transformPlot draws T_r(y), the polynomial and the one of minimum variance. The
// polynomial is cut off where it leaves three times the other's range.
func transformPlot(y []float64, t solver.TransformCurve) *plot.Plot {
	p := newPlot(fmt.Sprintf("T%d(y)", t.Order), "y")
	fitX(p, y)
	p.Y.Min, p.Y.Max = -1, 1
	switch {
	case t.Optimal != nil:
		p.Y.Min, p.Y.Max = room(t.Optimal)
		middle, half := (p.Y.Min+p.Y.Max)/2, 1.5*(p.Y.Max-p.Y.Min)
		p.Y.Min, p.Y.Max = middle-half/1.5, middle+half/1.5
	case t.Polynomial != nil:
		p.Y.Min, p.Y.Max = room(t.Polynomial)
	}
	add := func(name string, values []float64, col color.Color, width vg.Length, dashes ...vg.Length) {
		if values == nil {
			return
		}
		inside := slices.Clone(values)
		for i, v := range inside {
			inside[i] = min(max(v, p.Y.Min), p.Y.Max)
		}
		l := line(y, inside, col, width, dashes...)
		p.Add(l)
		p.Legend.Add(name, l)
	}
	add("polynomial", t.Polynomial, light, 1.6, 6, 3)
	add("least variance", t.Optimal, strong, 2)
	return p
}

func fitX(p *plot.Plot, z []float64) { p.X.Min, p.X.Max = z[0], z[len(z)-1] }

// hermiteOver returns He_q(z)/q! for q = 2 and 4.
func hermiteOver(q int, z float64) float64 {
	if q == 2 {
		return (z*z - 1) / 2
	}
	return (z*z*(z*z-6) + 3) / 24
}

// weightedMean is the mean of s under the normal density, by trapezoids over
// the range drawn.
func weightedMean(z, s []float64) float64 {
	var sum, total float64
	for i := 1; i < len(z); i++ {
		m := (z[i] + z[i-1]) / 2
		w := (z[i] - z[i-1]) * math.Exp(-m*m/2)
		sum += w * (s[i] + s[i-1]) / 2
		total += w
	}
	return sum / total
}

// room returns the range of the values with a margin, more of it above, where
// the legend is.
func room(lists ...[]float64) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, l := range lists {
		for _, v := range l {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	span := hi - lo
	if span <= 1e-9*max(math.Abs(lo), math.Abs(hi)) { // rounding
		span = max(1, math.Abs(lo))
	}
	return lo - 0.06*span, hi + 0.28*span
}

// bars draws the Hermite coefficients of S4 or S2: those that must vanish and
// the one that must not are marked.
func bars(spectrum []float64, wanted int) *plot.Plot {
	p := newPlot(fmt.Sprintf("Hermite coefficients of S%d(Z) / sd: T%d sees order %d alone", wanted, wanted, wanted),
		"order")
	p.X.Min, p.X.Max = 0.4, float64(len(spectrum))-0.4
	p.Y.Min, p.Y.Max = -1.1, 1.3
	var orders plot.ConstantTicks
	for q := 1; q < len(spectrum); q++ {
		orders = append(orders, plot.Tick{Value: float64(q), Label: fmt.Sprint(q)})
		p.Add(bar(q, spectrum[q], barColour(q, wanted)))
	}
	p.X.Tick.Marker = orders
	p.Add(line([]float64{p.X.Min, p.X.Max}, []float64{0, 0}, ink, 0.8))
	p.Add(requirements{spectrum, wanted})
	return p
}

func barColour(q, wanted int) color.Color {
	if q <= wanted {
		return strong
	}
	return pale
}

func bar(q int, v float64, col color.Color) *plotter.Polygon {
	x := float64(q)
	return &plotter.Polygon{
		XYs:   []plotter.XYs{{{X: x - .3}, {X: x + .3}, {X: x + .3, Y: v}, {X: x - .3, Y: v}}},
		Color: col,
	}
}

// requirements writes over the bars what the conditions ask of them: "= 0"
// below the wanted order, "≠ 0" at it.
type requirements struct {
	spectrum []float64
	wanted   int
}

// Plot implements plot.Plotter.
func (r requirements) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	style := draw.TextStyle{Font: sans(10), XAlign: draw.XCenter, YAlign: draw.YBottom,
		Handler: plot.DefaultTextHandler}
	for q := 1; q <= r.wanted; q++ {
		zero := math.Abs(r.spectrum[q]) < 1e-6
		want, holds := "= 0", zero
		if q == r.wanted {
			want, holds = "≠ 0", !zero
		}
		y := ty(max(r.spectrum[q], 0)) + 4
		style.Color = ink
		if !holds {
			style.Color = wrong
			c.FillText(style, vg.Point{X: tx(float64(q)), Y: y + 11}, "fails")
		}
		c.FillText(style, vg.Point{X: tx(float64(q)), Y: y}, want)
		if q < r.wanted {
			c.DrawGlyph(draw.GlyphStyle{Color: style.Color, Radius: 3, Shape: draw.RingGlyph{}},
				vg.Point{X: tx(float64(q)), Y: ty(0)})
		}
	}
}

// conditions writes the conditions with their values.
func conditions(c draw.Canvas, checks []solver.Check) {
	x, y := c.Min.X+8, c.Max.Y-12
	text(c, x, y, "Conditions, after standardising g", 11, ink)
	y -= 20
	for _, check := range checks {
		mark, col := "holds", color.Color(ink)
		if !check.Holds {
			mark, col = "fails", wrong
		}
		text(c, x, y, check.Name, 9.5, col)
		right := c.Max.X
		style := draw.TextStyle{Color: col, Font: sans(9.5), XAlign: draw.XRight, YAlign: draw.YBottom,
			Handler: plot.DefaultTextHandler}
		c.FillText(style, vg.Point{X: right - 36, Y: y}, strings.ReplaceAll(fmt.Sprintf("%.3g", check.Value), "-", "−"))
		c.FillText(style, vg.Point{X: right, Y: y}, mark)
		y -= 13.5
	}
}
