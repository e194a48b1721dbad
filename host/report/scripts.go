package report

import (
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	plottext "gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

// scripts is the handler of text in one line in which what follows a _ or a ^, up to
// the next space, is written as a subscript or a superscript.
type scripts struct{ plottext.Plain }

func newScripts() scripts { return scripts{plottext.Plain{Fonts: plot.DefaultTextHandler.Cache()}} }

// Sizes of scripts and how far they stand from the base line, in units of the font's size.
const (
	scriptSize = 0.72
	subDrop    = -0.2
	superRise  = 0.38
)

// span is a piece of text in one font at one height.
type span struct {
	text string
	font font.Font
	rise vg.Length
}

func spans(txt string, fnt font.Font) []span {
	var out []span
	small := fnt
	small.Size *= scriptSize
	for txt != "" {
		i := strings.IndexAny(txt, "_^")
		if i < 0 {
			return append(out, span{txt, fnt, 0})
		}
		rise := subDrop * fnt.Size
		if txt[i] == '^' {
			rise = superRise * fnt.Size
		}
		if i > 0 {
			out = append(out, span{txt[:i], fnt, 0})
		}
		script := txt[i+1:]
		txt = ""
		if end := strings.IndexByte(script, ' '); end >= 0 {
			script, txt = script[:end], script[end:]
		}
		out = append(out, span{script, small, rise})
	}
	return out
}

// Box implements text.Handler.
func (h scripts) Box(txt string, fnt font.Font) (width, height, depth vg.Length) {
	_, height, depth = h.Plain.Box(txt, fnt)
	for _, s := range spans(txt, fnt) {
		w, _, _ := h.Plain.Box(s.text, s.font)
		width += w
	}
	return width, height, depth
}

// Draw implements text.Handler.
func (h scripts) Draw(c vg.Canvas, txt string, style plottext.Style, at vg.Point) {
	c.SetColor(style.Color)
	sin, cos := math.Sincos(style.Rotation)
	if style.Rotation != 0 {
		c.Push()
		defer c.Pop()
		c.Rotate(style.Rotation)
	}
	width, height, depth := h.Box(txt, style.Font)
	x := at.Y*vg.Length(sin) + at.X*vg.Length(cos) + vg.Length(style.XAlign)*width
	y := at.Y*vg.Length(cos) - at.X*vg.Length(sin) + vg.Length(style.YAlign)*(height+depth) + depth
	for _, s := range spans(txt, style.Font) {
		c.FillString(h.Cache().Lookup(s.font, s.font.Size), vg.Point{X: x, Y: y + s.rise}, s.text)
		w, _, _ := h.Plain.Box(s.text, s.font)
		x += w
	}
}
