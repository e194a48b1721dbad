package host

import (
	"encoding/csv"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/terms"
	"github.com/gatedlearning/moe/plugins/identity"
)

var (
	heldOutTables = flag.String("heldout", "", "directory of the tables of docs/heldout.md, as docs/peers/heldout.R writes them")
	heldOutSplits = flag.Int("splits", 10, "splits of each")
	heldOutFirst  = flag.Uint64("first", 0, "number of the first split")
	heldOutOnly   = flag.String("only", "", "the one table, by its name; all")
)

// gateTables are those of the study of penalised gates: name, target and number of experts.
var gateTables = []struct {
	name, target string
	k            int
}{
	{"pieces", "", 4}, {"airquality", "Ozone", 2}, {"mcycle", "accel", 4}, {"servo", "Class", 4}, {"boston", "medv", 3},
}

// splitOf returns a number of a split of a table, three quarters to fit and the rest to judge by.
func splitOf(t *testing.T, name, target string, split uint64) (train, test dataset.Loaded) {
	t.Helper()
	if name == "pieces" {
		return nestedPieces(2*split+1, 1500), nestedPieces(2*split+2, 1500)
	}
	all := tableOf(t, name, target)
	train1 := make([]bool, all.Data.N)
	for _, i := range rand.New(rand.NewPCG(split, 7)).Perm(all.Data.N)[:3*all.Data.N/4] {
		train1[i] = true
	}
	return all.Where(func(r int) bool { return train1[r] }), all.Where(func(r int) bool { return !train1[r] })
}

// tableOf returns a table of the study.
func tableOf(t *testing.T, name, target string) dataset.Loaded {
	t.Helper()
	path := filepath.Join(*heldOutTables, name+".csv")
	table, err := terms.Open(t.Context(), func(sel dataset.Selection) (dataset.Source, error) { return dataset.Open(path, sel) },
		terms.Request{Selection: dataset.Selection{Target: target}, Categorical: wordsOf(t, path)})
	if err != nil {
		t.Fatal(err)
	}
	data, err := dataset.Load(t.Context(), table.Source)
	if err != nil {
		t.Fatal(err)
	}
	return dataset.InMemory(table.Source.Schema(), data)
}

// wordsOf are the columns of a table with a cell that is no number.
func wordsOf(t *testing.T, path string) (out []string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for j, name := range rows[0] {
		if slices.ContainsFunc(rows[1:], func(row []string) bool { _, err := strconv.ParseFloat(row[j], 64); return err != nil }) {
			out = append(out, name)
		}
	}
	return out
}

// TestGateStudy prints what rows that were not fitted say of a linear regression, of the maximum and of the penalised model, a
// line for each split:
//
//	go test ./host -run TestGateStudy -heldout DIR -v
func TestGateStudy(t *testing.T) {
	if *heldOutTables == "" {
		t.Skip("a study: see docs/heldout.md")
	}
	act := activation(identity.Family, nil)
	for _, table := range gateTables {
		if *heldOutOnly != "" && *heldOutOnly != table.name {
			continue
		}
		worse, loss := 0, 0.0
		for split := *heldOutFirst; split < *heldOutFirst+uint64(*heldOutSplits); split++ {
			train, test := splitOf(t, table.name, table.target, split)
			m, err := Fit(t.Context(), act, train, Config{K: table.k, Intercepts: BothIntercepts, Seed: 1})
			if err != nil { // of a split without a level of a factor
				fmt.Printf("%s, split %d: %v\n", table.name, split, err)
				continue
			}
			e, err := predict.EvaluateModel(t.Context(), m, act, test)
			if err != nil {
				t.Fatal(err)
			}
			lambda, coverage := math.NaN(), e.Calibration[2].Coverage
			if m.Penalised != nil {
				lambda = m.Penalised.Lambda
			}
			maximum := heldOutBy(t, m, fitted.Maximum, test)
			if e.LogLikelihood < maximum-1e-9 {
				worse, loss = worse+1, max(loss, maximum-e.LogLikelihood)
			}
			fmt.Printf("%s, k = %d, split %d: line %.1f, maximum %.1f, penalised %.1f (lambda %.0e, 90 %% intervals hold %.2f)\n", table.name,
				table.k, split, *e.Baselines.Linear.LogLikelihood, maximum, e.LogLikelihood, lambda, coverage)
		}
		fmt.Printf("%s: worse than the maximum on %d of %d splits, by %.1f at most\n", table.name, worse, *heldOutSplits, loss)
	}
}
