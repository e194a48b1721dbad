package host

import (
	"fmt"
	"testing"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/plugins/identity"
)

// leftOutTables are those of the study of leaving out rows: name and target. On the first six it was decided which rows
// are left out by fits.
var leftOutTables = []struct{ name, target string }{
	{"boston", "medv"}, {"mcycle", "accel"}, {"faithful", "waiting"}, {"servo", "Class"}, {"birthwt", "bwt"}, {"chickweight", "weight"},
	{"airquality", "Ozone"}, {"caschools", "read"}, {"cps1985", "wage"}, {"houseprices", "price"}, {"iris", "Petal.Width"},
	{"mpg", "hwy"}, {"ozone", "V4"}, {"swiss", "Fertility"}, {"quakes", "stations"}, {"trees", "Volume"}, {"attitude", "rating"},
	{"warpbreaks", "breaks"}, {"cars", "dist"}, {"stackloss", "stack.loss"}, {"whiteside", "Gas"}, {"cats", "Hwt"}, {"uscereal", "calories"},
	{"toothgrowth", "len"},
}

// onTables does one with each of leftOutTables that -only admits; without -heldout the study is skipped.
func onTables(t *testing.T, one func(name, target string)) {
	t.Helper()
	if *heldOutTables == "" {
		t.Skip("a study: see docs/heldout.md")
	}
	for _, table := range leftOutTables {
		if *heldOutOnly == "" || *heldOutOnly == table.name {
			one(table.name, table.target)
		}
	}
}

// onSplits is onTables with each split.
func onSplits(t *testing.T, one func(name string, split uint64, train, test dataset.Loaded)) {
	t.Helper()
	onTables(t, func(name, target string) {
		for split := *heldOutFirst; split < *heldOutFirst+uint64(*heldOutSplits); split++ {
			train, test := splitOf(t, name, target, split)
			one(name, split, train, test)
		}
	})
}

// TestLeaveOneOutStudy prints what leaving out each row costs, as fits say it and by fits without each:
//
//	go test ./host -run TestLeaveOneOutStudy -heldout DIR -v
func TestLeaveOneOutStudy(t *testing.T) {
	act := activation(identity.Family, nil)
	onTables(t, func(name, target string) {
		rows := tableOf(t, name, target)
		for _, k := range []int{1, 2, 3} {
			cfg := Config{K: k, Intercepts: BothIntercepts, Seed: 1}
			m, err := Fit(t.Context(), act, rows, cfg)
			if err != nil { // of too few rows
				fmt.Printf("%s, k = %d: %v\n", name, k, err)
				continue
			}
			left := m.LeftOut()
			if left == nil {
				fmt.Printf("%s, k = %d: not given\n", name, k)
				continue
			}
			exact, lost := exactGap(t, act, rows, cfg, m)
			fmt.Printf("%-12s k = %d: %d rows, %d parameters, gap %.3f (%d rows by fits), exactly %.3f (%d fits without an end), ratio %.3f\n",
				name, k, m.Fit.N, left.Parameters, left.Gap, left.Refitted, exact, lost, left.Gap/exact)
		}
	})
}

// TestChoiceStudy prints, of splits of the same tables, what a quarter of the rows says of a line, of k from 1 to 3 as BIC
// chooses it and as crossvalidation does:
//
//	go test ./host -run TestChoiceStudy -heldout DIR -splits 3 -v -timeout 0
func TestChoiceStudy(t *testing.T) {
	act := activation(identity.Family, nil)
	onSplits(t, func(name string, split uint64, train, test dataset.Loaded) {
		line := fmt.Sprintf("%-12s split %d, %d rows:", name, split, test.Data.N)
		for _, by := range []Choice{ByBIC, ByHeldOut} {
			m, err := FitRange(t.Context(), act, train, 1, 3, Config{Intercepts: BothIntercepts, Seed: 1, Choose: by})
			if err != nil { // of a split without a level of a factor, or of too few rows
				line += fmt.Sprintf(" %v", err)
				break
			}
			e, err := predict.EvaluateModel(t.Context(), m, act, test)
			if err != nil {
				t.Fatal(err)
			}
			if by == ByBIC {
				line += fmt.Sprintf(" line %.1f,", *e.Baselines.Linear.LogLikelihood)
			}
			line += fmt.Sprintf(" %s k = %d %.1f", by, m.K, e.LogLikelihood)
		}
		fmt.Println(line)
	})
}
