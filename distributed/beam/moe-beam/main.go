// Command moe-beam makes the passes of moe moments, moe newton and moe merge as Apache
// Beam pipelines: see the README of the module.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"

	moebeam "github.com/gatedlearning/moe/distributed/beam"
)

var (
	pass       = flag.String("pass", "", "first or second, of the moments, or newton: all passes of Newton's method")
	data       = flag.String("data", "", "files of rows, separated by commas, as the workers see them")
	shards     = flag.Int("shards", 64, "number of parts of the rows")
	given      = flag.String("given", "", "second: file of the first round; newton: model to start at")
	out        = flag.String("out", "", "file to write, as the workers see it")
	dir        = flag.String("dir", "", "newton: directory for the models between, as the workers see it")
	again      = flag.Int("again", 2, "how often a pass is started again after the runner gave it up")
	target     = flag.String("target", "", "column of the target; default the last")
	weights    = flag.String("weights", "", "column of the weights")
	groups     = flag.String("group", "", "newton: column of the ids of groups; default that of the model")
	features   = flag.String("features", "", "columns of the features, separated by commas; default all others")
	activation = flag.String("activation", "", "second: name of the activation")
	params     = flag.String("param", "", "second: its parameters, NAME=VALUE separated by commas")
	k          = flag.Int("k", 0, "second: number of experts")
	sigma      = flag.Float64("sigma", 0, "second: noise level where it is known")
	transform  = flag.String("transform", "polynomial",
		"second: polynomial, or optimal, which takes another second pass --given the file of this")
	subsample = flag.Int("subsample", 1<<16, "first: about as many rows are taken for the subsample")
	seed      = flag.Uint64("seed", 1, "first: of the subsample")
)

func main() {
	flag.Parse()
	beam.Init() // a worker goes no further
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "moe-beam:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	p := moebeam.Pass{
		Kind: *pass, Data: list(*data), Given: *given, Shards: *shards, Out: *out,
		Table: moebeam.Columns{Target: *target, Weights: *weights, Groups: *groups, Features: list(*features)},
		Second: moebeam.Span{Activation: *activation, Params: map[string]float64{}, K: *k, Sigma: *sigma,
			Transform: *transform},
	}
	p.Sample.Seed, p.Sample.Rows = *seed, *subsample
	for _, text := range list(*params) {
		name, value, _ := strings.Cut(text, "=")
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Errorf("--param %s: want NAME=VALUE", text)
		}
		p.Second.Params[name] = v
	}
	if len(p.Data) == 0 || p.Out == "" {
		return fmt.Errorf("--data and --out are required")
	}
	switch p.Kind {
	case moebeam.First, moebeam.Second:
		return p.Run(ctx, beamx.Run, *again)
	case moebeam.Newton:
		m, err := p.Maximise(ctx, beamx.Run, *again, *dir)
		if err != nil {
			return err
		}
		if !m.Fit.Converged {
			return fmt.Errorf("%s: not converged after %d passes: %s", *out, m.Fit.Iterations, m.Fit.Status)
		}
		fmt.Printf("%s: converged after %d passes\n", *out, m.Fit.Iterations)
		return nil
	}
	return fmt.Errorf("--pass %q: want first, second or newton", p.Kind)
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}
