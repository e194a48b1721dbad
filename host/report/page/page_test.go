package page_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/network"
	"github.com/gatedlearning/moe/host/network/networkfile"
	"github.com/gatedlearning/moe/host/report/diagnosis"
	"github.com/gatedlearning/moe/host/report/page"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
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
		m, err := host.Fit(t.Context(), act, src, host.Config{K: 2, Intercepts: host.BothIntercepts, Noise: host.PerExpert{}})
		if err != nil {
			t.Fatal(err)
		}
		read, err := diagnosis.Of(t.Context(), m, act, src)
		if err != nil {
			t.Fatal(err)
		}
		if read.Rows != 400 || (read.Curves != nil) != (d == 1) || (read.Index != nil) != (d > 1) {
			t.Errorf("d = %d: %d rows, curves %v", d, read.Rows, read.Curves != nil)
		}
		for _, p := range read.Points[:5*(d/2)] {
			want := m.RegressorIntercepts[p.Expert]
			for j, v := range p.Features {
				want += v * m.Regressors[p.Expert][j]
			}
			// The sums differ in order.
			if math.Abs(p.Index-want) > 1e-12 || math.Abs(p.Residual-(p.Y-want)/m.Sigma[p.Expert]) > 1e-9 {
				t.Errorf("index %v and residual %v of a row whose expert is at %v, with y = %v", p.Index, p.Residual, want, p.Y)
			}
		}
		for i, shares := range append(read.Residuals, read.Sharpness) {
			sum := 0.0
			for _, s := range shares {
				sum += s
			}
			if math.Abs(sum-1) > 1e-12 {
				t.Errorf("d = %d: distribution %d sums to %v", d, i, sum)
			}
		}
		var out bytes.Buffer
		settings := []page.Setting{{Name: "--k", Value: "<2>"}}
		if err := page.Fits(&out, settings, page.Fitted{Model: m, Diagnosis: read}); err != nil {
			t.Fatal(err)
		}
		text := out.String()
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

// TestNetworkPage: the page of a network, with and without noise, and of the tensors'
// estimate alone, is complete, needs nothing from elsewhere, and shows no number that is not
// finite; what it draws of a row adds up to the row.
func TestNetworkPage(t *testing.T) {
	act, err := relu.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		sigma   float64
		request network.Request
		want    []string
	}{
		"noise":    {.1, network.Request{K: 2, Output: network.Signs, Starts: 1, Descent: 50}, []string{"Residuals", "Moment tensors", "Starts", "Certificate"}},
		"no noise": {0, network.Request{K: 2, Output: network.Signs, Starts: 1, Descent: 50}, []string{"Moment tensors", "Starts", "Certificate"}},
		"init":     {.1, network.Request{K: 2, Output: network.Signs, TensorsOnly: true}, []string{"Residuals", "Moment tensors"}},
	} {
		src, err := sample.NewNetwork(sample.NetworkConfig{Activation: act, K: 2, D: 4, N: 3000, Sigma: c.sigma, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		r, err := network.Fit(t.Context(), src, act, c.request)
		if err != nil {
			t.Fatal(err)
		}
		file := networkfile.New(stated.Of(act.Info()), r.Network, r.Schema)
		file.Fit = &networkfile.NetworkFit{Method: "fit", N: r.N, Loss: r.Loss, Converged: true, Notes: []string{"<note>"}, Certificate: fitted.NewCertificate(r.Certificate)}
		for _, s := range r.Starts {
			file.Fit.Starts = append(file.Fit.Starts, networkfile.NetworkStart{Kind: s.Kind, LossAtStart: s.AtStart, Loss: s.Result.Value, Agrees: s.Agrees})
		}
		file.Fit.Tensors = &networkfile.TensorEstimate{Orders: []int{2, 4}, Eigenvalues: r.Tensors.Eigenvalues}
		d, err := diagnosis.OfNetwork(t.Context(), file, act, src)
		if err != nil {
			t.Fatal(err)
		}
		if d.Rows != 3000 || len(d.Points) != 1500 {
			t.Errorf("%s: %d rows, %d points", name, d.Rows, len(d.Points))
		}
		for _, p := range d.Points {
			if math.Abs(p.Units[0]+p.Units[1]-p.Mean) > 1e-12 || math.Abs(p.Units[0]) > 1e-12 && math.Abs(math.Abs(p.Units[0])-p.Index[0]) > 1e-12 {
				t.Fatalf("%s: units %v of a row with indices %v and mean %v", name, p.Units, p.Index, p.Mean)
			}
		}
		var out bytes.Buffer
		if err := page.Network(&out, file, d, []page.Setting{{Name: "--k", Value: "<2>"}}); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		for _, want := range append(c.want, "Data and network", "Each unit along its direction", "Weights", "&lt;2&gt;", "&lt;note&gt;", "</html>") {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the page lacks %q", name, want)
			}
		}
		for _, bad := range []string{"NaN", "Inf", "http:", "https:", "<script", "<2>", "<note>", "ZgotmplZ"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s: the page has %q", name, bad)
			}
		}
		if open, closed := strings.Count(text, "<svg viewBox"), strings.Count(text, "</svg></svg>"); open < 5 || closed < 5 {
			t.Errorf("%s: %d pictures", name, open)
		}
	}
}
