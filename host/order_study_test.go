package host

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gatedlearning/moe/host/criterion"
	"github.com/gatedlearning/moe/host/fitted"
)

// The study of what ranges of k say of the number of experts adds a line per table to a file:
//
//	go test ./host -run TestOrderStudy -orderfrom 5001 -ordersets 5 -orderto out/order -timeout 0
//
// and is summed up from files:
//
//	go test ./host -run TestOrderStudy -ordersum 'out/order*' -v
//
// Tables up to 5000 are for choosing, those from 5001 on for reporting.
var (
	orderFrom = flag.Uint64("orderfrom", 5001, "first table of each design of the study of the number of experts")
	orderSets = flag.Int("ordersets", 0, "its tables of each design")
	orderRows = flag.Int("orderrows", 0, "its designs' rows; 0 for 500 and 2,000")
	orderOnly = flag.String("orderonly", "", "its only design")
	orderTo   = flag.String("orderto", "", "file to which it adds what came out")
	orderSum  = flag.String("ordersum", "", "pattern of the files that it sums up")
)

// orderDesigns are eight designs, of which each is drawn with one, two and three experts.
var orderDesigns = []groupDesign{
	{group: "order", name: "plain", act: ident, d: 3, sigma: 0.5},
	{group: "order", name: "near experts", act: ident, d: 3, sigma: 0.3, intercept: true, near: 0.6},
	{group: "order", name: "steep gate", act: ident, d: 3, sigma: 0.4, intercept: true, gate: 3},
	{group: "order", name: "own noise", act: ident, d: 2, sigma: 0.5, intercept: true, perExpert: true},
	{group: "order", name: "relu", act: rectify, d: 4, sigma: 0.4},
	{group: "order", name: "tanh", act: tanh, d: 2, sigma: 0.3, intercept: true},
	{group: "order", name: "overlapping", act: ident, d: 3, sigma: 1, intercept: true},
	{group: "order", name: "rare", act: ident, d: 2, sigma: 0.4, intercept: true, rare: 40},
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

// TestOrderStudy is the study, which docs/studies/inference.md reports.
func TestOrderStudy(t *testing.T) {
	if *orderSum != "" {
		sumOrder(t, *orderSum)
		return
	}
	if *orderSets == 0 {
		t.Skip("a study of hours; see its flags")
	}
	out, err := os.OpenFile(*orderTo, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	sizes := []int{500, 2000}
	if *orderRows > 0 {
		sizes = []int{*orderRows}
	}
	for table := *orderFrom; table < *orderFrom+uint64(*orderSets); table++ {
		for _, g := range orderDesigns {
			if *orderOnly != "" && g.name != *orderOnly {
				continue
			}
			near, rare := g.near, g.rare
			for g.k = 1; g.k <= 3; g.k++ {
				for _, g.n = range sizes {
					if g.near, g.rare = near, rare; g.k == 1 {
						g.near, g.rare = 0, 0
					}
					src, _ := g.draw(t, table)
					cfg := g.config()
					cfg.Threads = 1
					m, err := FitRange(t.Context(), g.act, src, 1, g.k+2, cfg)
					if err != nil {
						t.Fatalf("%s, k = %d, table %d: %v", g.name, g.k, table, err)
					}
					line, err := json.Marshal(orderFit{g.name, table, g.n, g.k, m.K, m.Fit.Selection, m.Fit.AtLeast, m.Fit.KSet})
					if err != nil {
						t.Fatal(err)
					}
					if _, err := out.Write(append(line, '\n')); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
}

// sumOrder prints how often the bound is right and the set holds the true k, for all tables and for each cell of a design,
// a k and a number of rows, and how many ks the set has where BIC is right in at least 95 % of a cell.
func sumOrder(t *testing.T, pattern string) {
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	type count struct{ tables, bound, exact, set, chosen, members int }
	var all, sure count
	cells := map[string]*count{}
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for lines := json.NewDecoder(file); lines.More(); {
			var f orderFit
			if err := lines.Decode(&f); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			r := criterion.Fits{}
			for _, c := range f.Selection {
				parameters := int(math.Round((c.AIC + 2*c.LogLikelihood) / 2))
				r[c.K] = criterion.Fit{Candidate: c, Parameters: parameters, Few: criterion.Fewness(float64(f.Rows), parameters)}
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
		}
		file.Close()
	}
	fmt.Println("| cell | tables | bound right | bound = k | set holds k | BIC chooses k | members |\n|---|--:|--:|--:|--:|--:|--:|")
	line := func(name string, c *count) {
		fmt.Printf("| %s | %d | %d | %d | %d | %d | %.2f |\n", name, c.tables, c.bound, c.exact, c.set, c.chosen,
			float64(c.members)/float64(c.tables))
	}
	for _, name := range slices.Sorted(maps.Keys(cells)) {
		c := cells[name]
		line(name, c)
		if float64(c.chosen) >= 0.95*float64(c.tables) {
			sure.tables, sure.members = sure.tables+c.tables, sure.members+c.members
		}
	}
	line("all", &all)
	fmt.Printf("where BIC is right in 95 %% of a cell: %.2f members\n", float64(sure.members)/float64(sure.tables))
}
