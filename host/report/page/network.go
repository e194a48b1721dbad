package page

import (
	"fmt"
	"html/template"
	"io"
	"math"

	"github.com/gatedlearning/moe/host/network/networkfile"
	"github.com/gatedlearning/moe/host/report"
	"github.com/gatedlearning/moe/host/report/diagnosis"
	"github.com/gatedlearning/moe/host/report/numeral"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/shown"
)

// Network writes the report of a fitted network as one HTML file that needs
// nothing else, as [Fits] does of a mixture.
func Network(w io.Writer, n *networkfile.Network, d *diagnosis.Network, settings []Setting) error {
	var legend []map[string]string
	for i, v := range n.OutputWeights {
		legend = append(legend, map[string]string{"Class": colour(i), "Text": fmt.Sprintf("unit %d, v = %s", i+
			1, numeral.Significant(v))})
	}
	doubts := []section{{Title: "What to doubt", Reading: report.NetworkTruth(n.Fit), Doubts: true}}
	if d.Residuals != nil {
		doubts = append(doubts, networkResidualSection(d))
	}
	if n.Fit.Tensors != nil {
		doubts = append(doubts, tensorSection(n))
	}
	if len(n.Fit.Starts) > 0 {
		doubts = append(doubts, networkStartSection(n.Fit))
	}
	doubts = append(doubts, certificateSections(n.Fit.Certificate,
		"The residuals of the right network have mean 0 along every direction. "+
			"Where they have not, units are missing, or one stands for two.")...)
	title := fmt.Sprintf("%s, %s", numeral.Plural(n.K, n.Activation.String()+" unit"), numeral.Plural(n.Fit.N, "row"))
	return pageTemplate().Execute(shown.Writer(w), map[string]any{
		"Title": title, "Settings": settings, "Last": 0,
		"Fits": []map[string]any{{
			"Title":    title,
			"Doubt":    0,
			"Sentence": report.NetworkAnswer(n),
			"Good":     n.Fit.Converged,
			"Badges":   badges(n.Fit.Certificate),
			"Notes":    n.Fit.Notes,
			"Legend":   legend,
			"Sections": append([]section{networkDataSection(n, d), unitSection(n, d), weightSection(n)},
				under(doubts)...),
		}},
	})
}

func networkDataSection(n *networkfile.Network, d *diagnosis.Network) section {
	var x, y []float64
	for _, p := range d.Points {
		x, y = append(x, p.Mean), append(y, p.Y)
	}
	x0, x1 := numeric.Extent(x)
	y0, y1 := numeric.Extent(y)
	c := newChart("observed against predicted", x0, x1, y0, y1)
	c.xLabel, c.yLabel = "predicted", shown.Name(n.Target)
	c.segment(max(x0, y0), max(x0, y0), min(x1, y1), min(x1, y1), "ink dashed")
	for i := range x {
		c.dot(x[i], y[i], 2.2, 0.4, "plain")
	}
	return section{
		Title: "Data and network",
		Reading: "Each row's target against its prediction. Rows that leave the diagonal together are something " +
			"that the units lack.",
		Pictures: []template.HTML{c.svg()},
	}
}

// unitSection shows every unit with its partial residuals.
func unitSection(n *networkfile.Network, d *diagnosis.Network) section {
	s := section{
		Title: "Each unit along its direction",
		Reading: "What the other units leave of the target, against ⟨w, x⟩ of a unit, and the unit's own v·φ. Rows " +
			"that leave the curve together are a shape " +
			"that the unit does not have: another nonlinearity, or a second unit of nearly the same direction.",
	}
	every := (len(d.Points) + maxScattered - 1) / maxScattered
	for i := range min(n.K, maxExpertPlots) {
		var z, left []float64
		for r, p := range d.Points {
			if r%every == 0 {
				z, left = append(z, p.Index[i]), append(left, p.Y-p.Mean+p.Units[i])
			}
		}
		lo, hi := numeric.Extent(left, d.Units[i])
		pad := 0.05 * (hi - lo)
		c := newChart(fmt.Sprintf("unit %d along its direction", i+1), d.Z[i][0],
			d.Z[i][len(d.Z[i])-1], lo-pad, hi+pad)
		c.height = 260
		c.xLabel, c.yLabel = fmt.Sprintf("⟨w, x⟩ of unit %d", i+1), shown.Name(n.Target)+" less the others"
		for r := range z {
			c.dot(z[r], left[r], 2.2, 0.5, colour(i))
		}
		c.line(d.Z[i], d.Units[i], "ink")
		s.Pictures = append(s.Pictures, c.svg())
	}
	if n.K > maxExpertPlots {
		s.Reading += fmt.Sprintf(" The first %d of %d units.", maxExpertPlots, n.K)
	}
	return s
}

func weightSection(n *networkfile.Network) section {
	names := n.Features[:min(n.D, report.MaxFeatures)]
	return section{
		Title:   "Weights",
		Reading: "The output weight v of every unit, and its weights w by feature.",
		Tables:  []table{asTable(report.Units(n))},
		Pictures: []template.HTML{dotChart("weights", names, n.K, func(i, row int) (v, half float64) {
			return n.Weights[i][row], 0
		})},
	}
}

func networkResidualSection(d *diagnosis.Network) section {
	return section{
		Title: "Residuals",
		Reading: "The residuals over their rms, against the normal density. The fit by least squares asks for no " +
			"particular shape; prediction intervals are those " +
			"of normal noise.",
		Pictures: []template.HTML{residualChart("residuals", "residual, in σ", d.Residuals, densest(d.Residuals),
			"plain")},
	}
}

// tensorSection shows how well the tensors of k units describe those of the rows.
func tensorSection(n *networkfile.Network) section {
	t := n.Fit.Tensors
	c := newChart("eigenvalues", 0.4, float64(len(t.Eigenvalues))+0.6, 0, 1.05*t.Eigenvalues[0])
	c.height = 200
	c.xLabel, c.yLabel = "eigenvalue, largest first", "size"
	for i, v := range t.Eigenvalues {
		c.bar(float64(i)+0.7, float64(i)+1.3, v, "plain")
	}
	return section{
		Title:    "Moment tensors",
		Reading:  report.OfTensors(n) + " Those beyond the number of units are noise if that number is right.",
		Pictures: []template.HTML{c.svg()},
	}
}

func networkStartSection(f *networkfile.NetworkFit) section {
	s := section{
		Title: "Starts",
		Reading: "Every start's loss over the least, on a logarithmic scale: at its beginning (pale) and at its end. " +
			"Those that agree with the best are green; those that end " +
			"above are other minima.",
		Tables: []table{asTable(report.NetworkStarts(f))},
	}
	least := math.Inf(1)
	for _, st := range f.Starts {
		least = min(least, st.Loss)
	}
	// A loss of 0 to rounding has no ratio to it.
	floor := max(least, 1e-12*f.Starts[0].LossAtStart, math.SmallestNonzeroFloat64)
	over := func(loss float64) float64 { return math.Log10(max(loss, floor) / floor) }
	var from, to []float64
	for _, st := range f.Starts {
		from, to = append(from, over(st.LossAtStart)), append(to, over(st.Loss))
	}
	_, hi := numeric.Extent(from, to)
	c := newChart("loss of every start", 0.5, float64(len(from))+0.5, -0.05*hi, max(1.05*hi, 0.1))
	c.height = 220
	c.xLabel, c.yLabel = "start", "log10 of loss over the least"
	for i, st := range f.Starts {
		class := "bad"
		if st.Agrees {
			class = "good"
		}
		c.dot(float64(i+1), from[i], 3.5, 0.35, class)
		c.dot(float64(i+1), to[i], 4.5, 1, class)
	}
	s.Pictures = []template.HTML{c.svg()}
	return s
}
