package host

import (
	"encoding/csv"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/infer/gain"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/plugins/identity"
)

var gainTables = flag.String("gaintables", "", "directory of CSV files for TestGainStudy, the target the last column")

// TestGainStudy prints what others than the fitted mixture may gain in tables of at most 300 rows and two features:
//
//	go test ./host -run TestGainStudy -gaintables DIR -v
//
// docs/theory/certificate.md says how they are made.
func TestGainStudy(t *testing.T) {
	if *gainTables == "" {
		t.Skip("a study: see docs/theory/certificate.md")
	}
	files, err := filepath.Glob(filepath.Join(*gainTables, "*.csv"))
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, file := range slices.Sorted(slices.Values(files)) {
		opened, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := csv.NewReader(opened).ReadAll()
		opened.Close()
		if err != nil {
			t.Fatal(err)
		}
		n, d := len(lines)-1, len(lines[0])-1
		x, y := mat.NewDense(n, d, nil), make([]float64, n)
		for i, line := range lines[1:] {
			for j, text := range line {
				v, err := strconv.ParseFloat(text, 64)
				if err != nil {
					t.Fatal(file, err)
				}
				if j < d {
					x.Set(i, j, v)
				} else {
					y[i] = v
				}
			}
		}
		for j := range d { // units in which boxes are good ones
			column := mat.Col(nil, j, x)
			mean, sd := stat.MeanStdDev(column, nil)
			for i, v := range column {
				x.Set(i, j, (v-mean)/sd)
			}
		}
		src := dataset.Matrix(x, y)
		rows, err := dataset.Load(t.Context(), src)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range []int{1, 2, 3} {
			m, err := Fit(t.Context(), activation(identity.Family, nil), src, Config{K: k, Intercepts: BothIntercepts, Gate: Constant{}, Seed: 1})
			if err != nil {
				t.Fatal(file, err)
			}
			g, err := gain.BoundOf(t.Context(), rows, m.Params(), loss.All, 5*gain.Budget)
			if err != nil {
				t.Fatal(file, err)
			}
			fmt.Printf("%s, n = %d, %d coefficients, k = %d: sigma %.4g, log-likelihood %.2f, bound %.2f, gained %.2f by %d, closed %v, certificate %v\n",
				strings.TrimSuffix(filepath.Base(file), ".csv"), n, d+1, k, m.Sigma[0], m.Fit.LogLikelihood, g.Upper, g.Lower, g.Experts,
				g.Closed, m.Fit.Certificate != nil && m.Fit.Certificate.Gain != nil)
		}
	}
}
