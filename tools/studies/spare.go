package main

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/search/searchtest"
)

// spareFit is what came out for one fit.
type spareFit struct {
	Name                   string
	Table, Seed            uint64
	Rows                   int
	LogLikelihood, Known   float64
	Optimum, Model, Reason string
	Converged              bool
	Survey                 *fitted.Survey // of all rows, where there was one
	Merges                 []fitted.Merge // two experts as one
}

// spare is the study of fits whose k is one or two too large, which docs/studies/search.md reports. It goes in
// pieces, each of which adds a line per fit to a file, and is summed up from the files. What is known of a table is
// the best of all files, so that fits of another seed, of more starts or of another version add to it:
//
//	go -C tools/studies run . spare -from 5001 -sets 20 -to $PWD/out/fits
//	go -C tools/studies run . spare -from 5001 -sets 20 -starts 640 -em 50 -to $PWD/out/known
//	go -C tools/studies run . spare -sum "$PWD/out/*"
//
// Tables up to 5000 are for choosing, those from 5001 on for reporting.
func spare(ctx context.Context) {
	out := fileFlags()
	from := flag.Uint64("from", 5001, "first table")
	sets := flag.Int("sets", 1, "tables")
	starts := flag.Int("starts", 0, "budget of starts; 0 for the default")
	seed := flag.Uint64("seed", 1, "seed of the fits")
	em := flag.Int("em", 0, "random EM starts on all rows beside each fit")
	parse()
	if *out.sum != "" {
		sumSpare(*out.sum)
		return
	}
	for table := *from; table < *from+uint64(*sets); table++ {
		g, extra := searchtest.Spare(table)
		src, _ := g.Draw(table)
		cfg := configOf(g)
		cfg.K, cfg.Seed, cfg.Threads, cfg.Method = g.K+extra, *seed, 1, host.Auto{Starts: *starts}
		cfg.Transform = moment.Polynomial
		m := must(host.Fit(ctx, g.Act, src, cfg))
		f := spareFit{Name: g.Name, Table: table, Seed: *seed, Rows: g.N, LogLikelihood: m.Fit.LogLikelihood,
			Known: m.Fit.LogLikelihood, Converged: m.Fit.Converged, Survey: m.Fit.Survey, Merges: m.Fit.Merges}
		if c := m.Fit.Certificate; c != nil {
			f.Optimum, f.Model, f.Reason = c.Optimum, c.Model, c.Reason
		}
		if *em > 0 {
			p, e := problemOf(ctx, g.Act, src, cfg)
			f.Known = best(ctx, p, e, table, *em, f.Known)
		}
		out.add(f)
	}
}

// sumSpare prints of each file how many fits pass, and how many of these are more than .5 below the best that is known.
func sumSpare(pattern string) {
	known, all := map[uint64]float64{}, map[string][]spareFit{}
	names := eachLine(pattern, func(file string, f spareFit) {
		if v, ok := known[f.Table]; !ok || f.Known > v {
			known[f.Table] = f.Known
		}
		all[file] = append(all[file], f)
	})
	fmt.Println("| file | fits | pass | of n ≤ 10,000 | passes with a better optimum known by more than .5 " +
		"| at most by | fits below the best by more than .5 |\n|---|---|---|---|---|---|---|")
	for _, name := range names {
		var passes, small, smallPasses, missed, below int
		worst := 0.0
		for _, f := range all[name] {
			gap, pass := known[f.Table]-f.LogLikelihood, f.Optimum == infer.Pass
			if f.Rows <= 10_000 {
				small++
			}
			if gap > 0.5 {
				below++
			}
			if !pass {
				continue
			}
			passes++
			if f.Rows <= 10_000 {
				smallPasses++
			}
			if worst = max(worst, gap); gap > 0.5 {
				missed++
				fmt.Printf("table %d, %s: %.2f below; %s\n", f.Table, f.Name, gap, f.Reason)
			}
		}
		fmt.Printf("| %s | %d | %d | %d of %d | %d | %.1f | %d |\n", filepath.Base(name), len(all[name]), passes,
			smallPasses, small, missed, worst, below)
	}
}
