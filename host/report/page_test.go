package report_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/report"
	"github.com/gatedlearning/moe/plugins/identity"
)

// rows are two lines with a gate between them, over d features.
func rows(n, d int) dataset.Source {
	x, y := mat.NewDense(n, d, nil), make([]float64, n)
	for i := range n {
		for j := range d {
			x.Set(i, j, math.Sin(float64((i+1)*(j+3)*7919)))
		}
		noise := 0.1 * math.Sin(float64(i*i))
		if y[i] = 1 + x.At(i, 0) + noise; math.Sin(float64(i*31)) > 0.3*x.At(i, 0) {
			y[i] = -2*x.At(i, 0) + noise
		}
	}
	return dataset.Matrix(x, y)
}

// TestPage: a page for one feature and for several is complete, needs nothing
// from elsewhere, and shows no number that is not finite.
func TestPage(t *testing.T) {
	act, err := identity.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []int{1, 3} {
		src := rows(400, d)
		m, err := host.Fit(t.Context(), act, src, host.Config{K: 2, Intercept: true, Noise: host.PerExpert{}})
		if err != nil {
			t.Fatal(err)
		}
		diagnosis, err := report.Diagnose(t.Context(), m, act, src)
		if err != nil {
			t.Fatal(err)
		}
		if diagnosis.Rows != 400 || (diagnosis.Curves != nil) != (d == 1) || (diagnosis.Index != nil) != (d > 1) {
			t.Errorf("d = %d: %d rows, curves %v", d, diagnosis.Rows, diagnosis.Curves != nil)
		}
		for _, p := range diagnosis.Points[:5*(d/2)] {
			want := m.RegressorIntercepts[p.Expert]
			for j, v := range p.Features {
				want += v * m.Regressors[p.Expert][j]
			}
			// The sums differ in order.
			if math.Abs(p.Index-want) > 1e-12 || math.Abs(p.Residual-(p.Y-want)/m.Sigma[p.Expert]) > 1e-9 {
				t.Errorf("index %v and residual %v of a row whose expert is at %v, with y = %v", p.Index, p.Residual, want, p.Y)
			}
		}
		for i, shares := range append(diagnosis.Residuals, diagnosis.Sharpness) {
			sum := 0.0
			for _, s := range shares {
				sum += s
			}
			if math.Abs(sum-1) > 1e-12 {
				t.Errorf("d = %d: distribution %d sums to %v", d, i, sum)
			}
		}
		var page bytes.Buffer
		settings := []report.Setting{{Name: "--k", Value: "<2>"}}
		if err := report.Page(&page, settings, report.Fitted{Model: m, Diagnosis: diagnosis}); err != nil {
			t.Fatal(err)
		}
		text := page.String()
		for _, want := range []string{"<title>", "Data and experts", "Residuals", "Starts", "&lt;2&gt;", "</html>"} {
			if !strings.Contains(text, want) {
				t.Errorf("d = %d: the page lacks %q", d, want)
			}
		}
		for _, bad := range []string{"NaN", "Inf", "http:", "https:", "<script", "<2>", "ZgotmplZ"} {
			if strings.Contains(text, bad) {
				t.Errorf("d = %d: the page has %q", d, bad)
			}
		}
		if has := strings.Contains(text, "Each expert along its index") && strings.Contains(text, "Residuals against features"); has != (d > 1) {
			t.Errorf("d = %d: pictures of indices and features: %v", d, has)
		}
		if open, closed := strings.Count(text, "<svg"), strings.Count(text, "</svg>"); open != closed || open < 6 {
			t.Errorf("d = %d: %d pictures begin, %d end", d, open, closed)
		}
	}
}
