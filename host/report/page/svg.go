package page

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gatedlearning/moe/host/report/diagnosis"
	"github.com/gatedlearning/moe/internal/shown"
)

// hardly is the gate's probability below which an expert's line is dashed.
const hardly = 0.02

// offsetOf is where expert i of k stands beside a row.
func offsetOf(row, i, k int) float64 {
	return -float64(row) + 0.6*(float64(k-1)/2-float64(i))/float64(k)
}

// chart draws in data coordinates on an SVG canvas with axes. Colours are
// classes, which the page's style sheet sets for light and dark.
type chart struct {
	title          string // for readers of the page that do not see it
	width, height  float64
	x0, x1, y0, y1 float64 // data range
	xLabel, yLabel string
	xTick          func(v float64) string // what stands at a value of x; nil: the value
	rows           []string               // names of the rows at y = 0, −1, …, instead of numbers
	left, top      float64                // margins: names of rows widen the one, and do without the other
	body           strings.Builder
}

// Margins of a chart, in its own units.
const (
	left, right, top, bottom = 58.0, 14.0, 26.0, 42.0
	// letter is the width of a letter as wide as small screens have it, lineHeight that of a line of text, and
	// nameLetters the most letters in a line of a name of a row.
	letter, lineHeight, nameLetters = 7.6, 15.0, 24
)

func newChart(title string, x0, x1, y0, y1 float64) *chart {
	c := &chart{title: title, width: 520, height: 300, left: left, top: top}
	c.x0, c.x1 = widen(x0, x1)
	c.y0, c.y1 = widen(y0, y1)
	return c
}

// widen makes a range of positive length.
func widen(lo, hi float64) (float64, float64) {
	if !(hi > lo) {
		pad := max(math.Abs(lo)*0.05, 0.5)
		return lo - pad, hi + pad
	}
	return lo, hi
}

func (c *chart) px(x float64) float64 {
	return c.left + (x-c.x0)/(c.x1-c.x0)*(c.width-c.left-right)
}

func (c *chart) py(y float64) float64 {
	return c.height - bottom - (y-c.y0)/(c.y1-c.y0)*(c.height-c.top-bottom)
}

// n formats a coordinate to a tenth of a unit.
func n(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

func (c *chart) dot(x, y, radius, opacity float64, class string) {
	fmt.Fprintf(&c.body, `<circle cx="%s" cy="%s" r="%s" class="%s" fill-opacity="%.2f"/>`, n(c.px(x)), n(c.py(y)),
		n(radius), class, opacity)
}

func (c *chart) line(x, y []float64, class string) {
	c.body.WriteString(`<polyline class="line ` + class + `" points="`)
	for i := range x {
		fmt.Fprintf(&c.body, "%s,%s ", n(c.px(x[i])), n(c.py(y[i])))
	}
	c.body.WriteString(`"/>`)
}

// band fills what is between two curves.
func (c *chart) band(x, lower, upper []float64, class string) {
	fmt.Fprintf(&c.body, `<polygon class="%s" fill-opacity="0.22" points="`, class)
	for i := range x {
		fmt.Fprintf(&c.body, "%s,%s ", n(c.px(x[i])), n(c.py(upper[i])))
	}
	for i := len(x) - 1; i >= 0; i-- {
		fmt.Fprintf(&c.body, "%s,%s ", n(c.px(x[i])), n(c.py(lower[i])))
	}
	c.body.WriteString(`"/>`)
}

func (c *chart) segment(x0, y0, x1, y1 float64, class string) {
	fmt.Fprintf(&c.body, `<line class="line %s" x1="%s" y1="%s" x2="%s" y2="%s"/>`, class, n(c.px(x0)), n(c.py(y0)),
		n(c.px(x1)), n(c.py(y1)))
}

func (c *chart) bar(x0, x1, y float64, class string) { c.box(x0, x1, c.y0, y, class) }

// box is a bar that stands at y0.
func (c *chart) box(x0, x1, y0, y1 float64, class string) {
	fmt.Fprintf(&c.body, `<rect class="%s" x="%s" y="%s" width="%s" height="%s"/>`, class,
		n(c.px(x0)), n(c.py(y1)), n(max(c.px(x1)-c.px(x0)-1, 0.5)), n(c.py(y0)-c.py(y1)))
}

// named has a name shown where the pointer rests on what draw draws, and read to those who do not see it.
func (c *chart) named(name string, draw func()) {
	c.body.WriteString("<g><title>" + template.HTMLEscapeString(name) + "</title>")
	draw()
	c.body.WriteString("</g>")
}

// ticks draws values of rows at the foot of a chart.
func (c *chart) ticks(x []float64) {
	const length = 7
	if len(x) == 0 {
		return
	}
	c.body.WriteString(`<path class="ticks" d="`)
	for _, v := range x {
		fmt.Fprintf(&c.body, "M%s %sv-%d", n(c.px(v)), n(c.py(c.y0)), length)
	}
	c.body.WriteString(`"/>`)
}

// rowChart is a chart whose rows have names, whole and in as many lines as they take.
func rowChart(title, xLabel string, names []string, lo, hi float64) *chart {
	c := newChart(title, lo, hi, 0.5-float64(len(names)), 0.5)
	c.rows, c.xLabel = make([]string, len(names)), xLabel
	longest, most := 0, 1
	for i, name := range names {
		c.rows[i] = shown.Name(name)
		lines := wrapped(c.rows[i])
		most = max(most, len(lines))
		for _, line := range lines {
			longest = max(longest, utf8.RuneCountInString(line))
		}
	}
	c.left = max(24, letter*float64(longest)+12)
	c.top = 8
	c.height = c.top + bottom + max(24, lineHeight*float64(most)+5)*float64(len(names)) + 6
	return c
}

// wrapped breaks a name into lines, at blanks and signs where there are any.
func wrapped(name string) (lines []string) {
	r := []rune(name)
	for len(r) > nameLetters {
		cut := nameLetters
		for i := nameLetters; i > nameLetters/2; i-- {
			if !unicode.IsLetter(r[i-1]) && !unicode.IsDigit(r[i-1]) {
				cut = i
				break
			}
		}
		lines = append(lines, string(r[:cut]))
		r = r[cut:]
	}
	return append(lines, string(r))
}

// clipped draws a curve where it lies within the chart.
func (c *chart) clipped(x, y []float64, class string) {
	from := -1
	for i := range len(x) + 1 {
		inside := i < len(x) && y[i] >= c.y0 && y[i] <= c.y1
		switch {
		case inside && from < 0:
			from = i
		case !inside && from >= 0:
			c.line(x[from:i], y[from:i], class)
			from = -1
		}
	}
}

// point draws a row over x, in the colour of its most probable expert, paler where that is less sure.
func (c *chart) point(x float64, p diagnosis.Point) {
	c.dot(x, p.Y, 2.4, 0.2+0.6*p.Posterior*p.Posterior, colour(p.Expert))
}

// parts draws a curve within the chart, dashed where its weight is small.
func (c *chart) parts(x, y, weight []float64, class string) {
	from := 0
	for i := 1; i <= len(x); i++ {
		if i < len(x) && (weight[i] < hardly) == (weight[from] < hardly) {
			continue
		}
		of := class
		if weight[from] < hardly {
			of += " faint"
		}
		to := min(i+1, len(x)) // joined to the next part
		c.clipped(x[from:to], y[from:to], of)
		from = i
	}
}

// dots draws a value of expert i of k beside each of the rows of a chart that have one, pale where that is wanted.
func (c *chart) dots(i, k, rows int, at func(row int) (v float64, ok bool), pale func(row int) bool, class string) {
	for row := range rows {
		v, ok := at(row)
		if !ok {
			continue
		}
		opacity := 1.0
		if pale(row) {
			opacity = 0.3
		}
		c.dot(v, offsetOf(row, i, k), 3.4, opacity, class)
	}
}

// svg returns the finished picture.
func (c *chart) svg() template.HTML {
	var b strings.Builder
	title := template.HTMLEscapeString(c.title)
	fmt.Fprintf(&b, `<svg viewBox="0 0 %s %s" role="img" aria-label="%s"><title>%s</title>`, n(c.width), n(c.height),
		title, title)
	xTick := tick
	if c.xTick != nil {
		xTick = c.xTick
	}
	for _, t := range axisTicks(c.x0, c.x1) {
		fmt.Fprintf(&b,
			`<line class="grid" x1="%s" x2="%s" y1="%s" y2="%s"/><text x="%s" y="%s" text-anchor="middle">%s</text>`,
			n(c.px(t)), n(c.px(t)), n(c.top), n(c.height-bottom), n(c.px(t)), n(c.height-bottom+16), xTick(t))
	}
	for i, name := range c.rows {
		lines := wrapped(name)
		from := c.py(-float64(i)) + 4 - lineHeight*float64(len(lines)-1)/2
		fmt.Fprintf(&b, `<text text-anchor="end">`)
		for l, line := range lines {
			fmt.Fprintf(&b, `<tspan x="%s" y="%s">%s</tspan>`, n(c.left-8), n(from+lineHeight*float64(l)),
				template.HTMLEscapeString(line))
		}
		b.WriteString("</text>")
	}
	for _, t := range axisTicks(c.y0, c.y1) {
		if c.rows != nil {
			break
		}
		fmt.Fprintf(&b,
			`<line class="grid" x1="%s" x2="%s" y1="%s" y2="%s"/><text x="%s" y="%s" text-anchor="end">%s</text>`,
			n(c.left), n(c.width-right), n(c.py(t)), n(c.py(t)), n(c.left-6), n(c.py(t)+4), tick(t))
	}
	middle := (c.left + c.width - right) / 2
	if half := letter * float64(utf8.RuneCountInString(c.xLabel)) / 2; middle+half > c.width {
		middle = max(c.width/2, c.width-half)
	}
	fmt.Fprintf(&b, `<text class="label" x="%s" y="%s" text-anchor="middle">%s</text>`, n(middle), n(c.height-6),
		template.HTMLEscapeString(c.xLabel))
	if c.rows == nil {
		fmt.Fprintf(&b, `<text class="label" x="4" y="14">%s</text>`, template.HTMLEscapeString(c.yLabel))
	}
	fmt.Fprintf(&b, `<svg x="0" y="0" width="%s" height="%s"><g>%s</g></svg></svg>`, n(c.width), n(c.height),
		c.body.String())
	return template.HTML(b.String())
}

// axisTicks returns about five round numbers in [lo, hi].
func axisTicks(lo, hi float64) []float64 {
	raw := (hi - lo) / 5
	step := math.Pow(10, math.Floor(math.Log10(raw)))
	switch r := raw / step; {
	case r > 5:
		step *= 10
	case r > 2:
		step *= 5
	case r > 1:
		step *= 2
	}
	var out []float64
	for t := math.Ceil(lo/step) * step; t <= hi+step*1e-9 && len(out) < 20; t += step {
		out = append(out, t)
	}
	return out
}

func tick(t float64) string {
	if math.Abs(t) < 1e-12 {
		return "0"
	}
	return strconv.FormatFloat(t, 'g', 6, 64)
}

// colour is the class of expert i.
func colour(i int) string { return "e" + strconv.Itoa(i%10) }
