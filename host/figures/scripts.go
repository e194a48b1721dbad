package figures

import (
	"math"
	"strings"
	"unicode"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	plottext "gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

// scripts is the handler of text in one line in which what follows a _ or a ^, in
// braces or as far as letters and digits go, is a subscript or a superscript.
type scripts struct{ plottext.Plain }

func newScripts() scripts { return scripts{plottext.Plain{Fonts: plot.DefaultTextHandler.Cache()}} }

// Sizes of scripts and how far they stand from the base line, in units of the font's size.
const (
	scriptSize = 0.8
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
		var script string
		script, txt = cutScript(txt[i+1:])
		out = append(out, span{script, small, rise})
	}
	return out
}

// cutScript cuts a script from what follows it: what stands in braces, or a sign with
// the letters and digits behind it.
func cutScript(s string) (script, rest string) {
	if inner, found := strings.CutPrefix(s, "{"); found {
		if script, rest, found = strings.Cut(inner, "}"); found {
			return script, rest
		}
	}
	digits := strings.TrimPrefix(s, "−")
	end := strings.IndexFunc(digits, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if end < 0 {
		return s, ""
	}
	end += len(s) - len(digits)
	return s[:end], s[end:]
}

// width is how wide the text is.
func (h scripts) width(txt string, fnt font.Font) vg.Length {
	w, _, _ := h.Box(txt, fnt)
	return w
}

// Box implements text.Handler.
func (h scripts) Box(txt string, fnt font.Font) (width, height, depth vg.Length) {
	_, height, depth = h.Plain.Box(txt, fnt)
	for _, s := range spans(txt, fnt) {
		w, up, down := h.Plain.Box(s.text, s.font)
		width, height, depth = width+w, max(height, up+s.rise), max(depth, down-s.rise)
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
	width, height, _ := h.Box(txt, style.Font)
	_, _, depth := h.Plain.Box(txt, style.Font) // so that scripts do not lift the line
	x := at.Y*vg.Length(sin) + at.X*vg.Length(cos) + vg.Length(style.XAlign)*width
	y := at.Y*vg.Length(cos) - at.X*vg.Length(sin) + vg.Length(style.YAlign)*(height+depth) + depth
	for _, s := range spans(txt, style.Font) {
		c.FillString(h.Cache().Lookup(s.font, s.font.Size), vg.Point{X: x, Y: y + s.rise}, s.text)
		w, _, _ := h.Plain.Box(s.text, s.font)
		x += w
	}
}
