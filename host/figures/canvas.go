package figures

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"regexp"
	"strconv"
	"sync"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// newCanvas returns a canvas of a picture in the given format, "svg", or "png" with so
// many dots to the inch.
func newCanvas(width, height vg.Length, format string, dotsPerInch int) (vg.CanvasWriterTo, error) {
	switch format {
	case "png":
		return vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dotsPerInch))}, nil
	case "svg":
		canvas, err := draw.NewFormattedCanvas(width, height, format)
		return svgCanvas{canvas}, err
	}
	return nil, fmt.Errorf("plot format %q: want svg or png", format)
}

// svgCanvas is an SVG whose texts keep their places and widths where the viewer does
// not have the font that they were measured with.
type svgCanvas struct{ vg.CanvasWriterTo }

var (
	svgText = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(
			`(?s)(<text [^>]*?)( style=|\s+style=)("[^"]*font-size:([0-9.]+)px[^"]*")>([^<]*)</text>`)
	})
	svgFamily = []byte("font-family:Liberation Sans;")
)

// WriteTo implements io.WriterTo. Fonts of the same widths come first among the others.
func (c svgCanvas) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	if _, err := c.CanvasWriterTo.WriteTo(&b); err != nil {
		return 0, err
	}
	out := svgText().ReplaceAllFunc(b.Bytes(), func(text []byte) []byte {
		m := svgText().FindSubmatch(text)
		size, err := strconv.ParseFloat(string(m[4]), 64)
		if err != nil || len(m[5]) == 0 {
			return text
		}
		face := plot.DefaultTextHandler.Cache().Lookup(sans(size), vg.Length(size))
		width := float64(face.Width(html.UnescapeString(string(m[5]))))
		return fmt.Appendf(nil,
			`%s textLength="%.5g" lengthAdjust="spacingAndGlyphs" xml:space="preserve"%s%s>%s</text>`, m[1], width,
			m[2], m[3], m[5])
	})
	n, err := w.Write(bytes.ReplaceAll(out, svgFamily,
		[]byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;")))
	return int64(n), err
}
