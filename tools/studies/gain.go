package main

import (
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/infer/gain"
	"github.com/gatedlearning/moe/host/loss"
)

// gains prints what others than the fitted mixture may gain in tables of at most 300 rows and two features:
//
//	go -C tools/studies run . gain -tables DIR
//
// docs/theory/certificate.md says how they are made.
func gains(ctx context.Context) {
	dir := flag.String("tables", "", "`directory` of CSV files, the target the last column")
	parse()
	files := must(filepath.Glob(filepath.Join(*dir, "*.csv")))
	if *dir == "" || len(files) == 0 {
		log.Fatalf("no tables in -tables %q", *dir)
	}
	for _, file := range slices.Sorted(slices.Values(files)) {
		x, y := numbers(file)
		n, d := x.Dims()
		for j := range d { // units in which boxes are good ones
			column := mat.Col(nil, j, x)
			mean, sd := stat.MeanStdDev(column, nil)
			for i, v := range column {
				x.Set(i, j, (v-mean)/sd)
			}
		}
		src := dataset.Matrix(x, y)
		rows := must(dataset.Load(ctx, src))
		for _, k := range []int{1, 2, 3} {
			m := must(host.Fit(ctx, line, src, host.Config{K: k, Intercepts: host.BothIntercepts,
				Gate: host.Constant{}, Seed: 1}))
			g := must(gain.BoundOf(ctx, rows, m.Params(), loss.All, 5*gain.Budget))
			fmt.Printf("%s, n = %d, %d coefficients, k = %d: sigma %.4g, log-likelihood %.2f, bound %.2f, gained "+
				"%.2f by %d, closed %v, certificate %v\n",
				strings.TrimSuffix(filepath.Base(file), ".csv"), n, d+1, k, m.Sigma[0], m.Fit.LogLikelihood, g.Upper,
				g.Lower, g.Experts, g.Closed, m.Fit.Certificate != nil && m.Fit.Certificate.Gain != nil)
		}
	}
}

// numbers are the features and the target of a table of numbers.
func numbers(file string) (*mat.Dense, []float64) {
	opened := must(os.Open(file))
	defer opened.Close()
	lines := must(csv.NewReader(opened).ReadAll())
	d := len(lines[0]) - 1
	x, y := mat.NewDense(len(lines)-1, d, nil), make([]float64, len(lines)-1)
	for i, line := range lines[1:] {
		for j, text := range line {
			if v := must(strconv.ParseFloat(text, 64)); j < d {
				x.Set(i, j, v)
			} else {
				y[i] = v
			}
		}
	}
	return x, y
}
