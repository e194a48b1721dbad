// Command studies runs the studies of docs/studies that hold nothing against a bound: what they print is for people to
// judge. Those that do are tests. From the root of the repository:
//
//	go -C tools/studies run .                # lists them
//	go -C tools/studies run . NAME -h        # the flags of one
//	go -C tools/studies run . NAME [flags]
//
// Files that flags name are relative to tools/studies, where the command runs.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
)

// study is one of them: its name, what it prints, in a line, and what does so.
type study struct {
	name, prints string
	run          func(ctx context.Context)
}

var studies = []study{
	{"arrangements", "what intervals over arrangements of the experts hold", arrangements},
	{"average", "what the mean over k says of rows of real tables that were not fitted", average},
	{"bootstrap", "what the mean over fits to bootstrap samples says of such rows", bootstrap},
	{"choice", "what BIC and crossvalidation choose on real tables, and new rows of them", choice},
	{"corrections", "E_reg of the spectral method without and with corrections", corrections},
	{"curve-size", "how often what is true of a learned curve is rejected", curveSize},
	{"curves", "curves learned with the experts beside the truth", curves},
	{"dependence", "intervals of recurrent layers learned from rows that depend on each other", dependence},
	{"experts", "what a ridge and a lasso on the experts do for new rows of real tables", experts},
	{"gain", "bounds on what other mixtures gain on small tables", gains},
	{"gate", "what a penalised gate does for new rows of real tables", gate},
	{"groups", "the certificate by groups of data sets", groups},
	{"grow", "how often a tree that is grown has the shape of the truth", grow},
	{"hard-cells", "which starts climb to the best optimum where some fail", hardCells},
	{"inputs", "E_reg on features in clusters by what the moments take them for", inputs},
	{"layer-bound", "errors of one learned recurrent layer beside their bound", layerBound},
	{"layers", "recurrent layers learned from their states beside the truth", layers},
	{"leave-one-out", "what leaving out each row costs, as fits say it and exactly", leaveOneOut},
	{"networks", "how many fits of networks miss the optimum, and pass", networks},
	{"order", "what ranges of k say of the number of experts", order},
	{"passes", "how many fits of real tables pass though more work finds a better optimum", passes},
	{"ranges", "what fits of a range of k gain from those of other k", ranges},
	{"small-trees", "how many fits of trees to small tables with wide noise pass and are not the best", smallTrees},
	{"spare", "fits whose k is one or two too large", spare},
	{"subsample", "where passes over parts end from the fit of a subsample", subsample},
	{"too-many", "how fast the error falls with n where k is one too large", tooMany},
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("studies: ")
	if len(os.Args) < 2 {
		for _, s := range studies {
			fmt.Printf("%-14s %s\n", s.name, s.prints)
		}
		return
	}
	at := slices.IndexFunc(studies, func(s study) bool { return s.name == os.Args[1] })
	if at < 0 {
		log.Fatalf("there is no study %s; without a name they are listed", os.Args[1])
	}
	flag.CommandLine.Init(os.Args[1], flag.ExitOnError)
	studies[at].run(context.Background())
}

// parse reads the flags of a study, which has defined them.
func parse() {
	check(flag.CommandLine.Parse(os.Args[2:]))
	if flag.NArg() > 0 {
		log.Fatalf("%q is no flag", flag.Arg(0))
	}
}
