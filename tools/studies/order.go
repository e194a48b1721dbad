package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"maps"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/criterion"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/search/searchtest"
)

// orderDesigns are eight designs, of which each is drawn with one, two and three experts.
var orderDesigns = []searchtest.Design{
	{Name: "plain", Act: searchtest.Ident, D: 3, Sigma: 0.5},
	{Name: "near experts", Act: searchtest.Ident, D: 3, Sigma: 0.3, Intercept: true, Near: 0.6},
	{Name: "steep gate", Act: searchtest.Ident, D: 3, Sigma: 0.4, Intercept: true, Gate: 3},
	{Name: "own noise", Act: searchtest.Ident, D: 2, Sigma: 0.5, Intercept: true, PerExpert: true},
	{Name: "relu", Act: searchtest.Rectify, D: 4, Sigma: 0.4},
	{Name: "tanh", Act: tanh, D: 2, Sigma: 0.3, Intercept: true},
	{Name: "overlapping", Act: searchtest.Ident, D: 3, Sigma: 1, Intercept: true},
	{Name: "rare", Act: searchtest.Ident, D: 2, Sigma: 0.4, Intercept: true, Rare: 40},
}

// orderFit is what came out for one table.
type orderFit struct {
	Name      string
	Table     uint64
	Rows, K   int // of the truth
	Chosen    int
	Selection []fitted.Candidate
	AtLeast   *fitted.AtLeast
	Set       []int
}

// order is the study of what ranges of k say of the number of experts, which docs/studies/inference.md reports. It
// adds a line per table to a file, and is summed up from files:
//
//	go -C tools/studies run . order -from 5001 -sets 5 -to $PWD/out/order
//	go -C tools/studies run . order -sum "$PWD/out/order*"
//
// Tables up to 5000 are for choosing, those from 5001 on for reporting.
func order(ctx context.Context) {
	out := fileFlags()
	from := flag.Uint64("from", 5001, "first table of each design")
	sets := flag.Int("sets", 1, "tables of each design")
	rows := flag.Int("rows", 0, "rows; 0 for 500 and 2,000")
	only := flag.String("only", "", "the one `design`; all")
	parse()
	if *out.sum != "" {
		sumOrder(*out.sum)
		return
	}
	sizes := []int{500, 2000}
	if *rows > 0 {
		sizes = []int{*rows}
	}
	for table := *from; table < *from+uint64(*sets); table++ {
		for _, g := range orderDesigns {
			if *only != "" && g.Name != *only {
				continue
			}
			near, rare := g.Near, g.Rare
			for g.K = 1; g.K <= 3; g.K++ {
				for _, g.N = range sizes {
					if g.Near, g.Rare = near, rare; g.K == 1 {
						g.Near, g.Rare = 0, 0
					}
					src, _ := g.Draw(table)
					cfg := configOf(g)
					cfg.Threads = 1
					m, err := host.FitRange(ctx, g.Act, src, 1, g.K+2, cfg)
					if err != nil {
						log.Fatalf("%s, k = %d, table %d: %v", g.Name, g.K, table, err)
					}
					out.add(orderFit{g.Name, table, g.N, g.K, m.K, m.Fit.Selection, m.Fit.AtLeast, m.Fit.KSet})
				}
			}
		}
	}
}

// sumOrder prints how often the bound is right and the set holds the true k, for all tables and for each cell of a
// design, a k and a number of rows, and how many ks the set has where BIC is right in at least 95 % of a cell.
func sumOrder(pattern string) {
	type count struct{ tables, bound, exact, set, chosen, members int }
	var all, sure count
	cells := map[string]*count{}
	eachLine(pattern, func(_ string, f orderFit) {
		r := criterion.Fits{}
		for _, c := range f.Selection {
			parameters := int(math.Round((c.AIC + 2*c.LogLikelihood) / 2))
			few := criterion.Fewness(float64(f.Rows), parameters)
			r[c.K] = criterion.Fit{Candidate: c, Parameters: parameters, Few: few}
		}
		left := r.Left(f.AtLeast) // by the rule of today, whatever that of the file was
		cell := fmt.Sprintf("%s, n = %d, k = %d", f.Name, f.Rows, f.K)
		if cells[cell] == nil {
			cells[cell] = new(count)
		}
		for _, c := range []*count{&all, cells[cell]} {
			c.tables++
			c.members += len(left)
			for _, says := range []struct {
				to *int
				is bool
			}{{&c.bound, f.AtLeast == nil || f.AtLeast.K <= f.K}, {&c.exact, f.AtLeast != nil && f.AtLeast.K == f.K},
				{&c.set, slices.Contains(left, f.K)}, {&c.chosen, f.Chosen == f.K}} {
				if says.is {
					*says.to++
				}
			}
		}
	})
	fmt.Println("| cell | tables | bound right | bound = k | set holds k | BIC chooses k | members |\n" +
		"|---|--:|--:|--:|--:|--:|--:|")
	row := func(name string, c *count) {
		fmt.Printf("| %s | %d | %d | %d | %d | %d | %.2f |\n", name, c.tables, c.bound, c.exact, c.set, c.chosen,
			float64(c.members)/float64(c.tables))
	}
	for _, name := range slices.Sorted(maps.Keys(cells)) {
		c := cells[name]
		row(name, c)
		if float64(c.chosen) >= 0.95*float64(c.tables) {
			sure.tables, sure.members = sure.tables+c.tables, sure.members+c.members
		}
	}
	row("all", &all)
	fmt.Printf("where BIC is right in 95 %% of a cell: %.2f members\n", float64(sure.members)/float64(sure.tables))
}
