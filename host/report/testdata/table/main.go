// Command table fits a mixture of two lines to a CSV file and prints its table: what a program links that does only that.
package main

import (
	"context"
	"log"
	"os"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/report"
	"github.com/gatedlearning/moe/plugins/identity"
)

func main() {
	log.SetFlags(0)
	act, err := identity.Family.Activation(nil)
	if err != nil {
		log.Fatal(err)
	}
	src, err := dataset.Open(os.Args[1], dataset.Selection{})
	if err != nil {
		log.Fatal(err)
	}
	m, err := host.Fit(context.Background(), act, src, host.Config{K: 2, Intercepts: host.BothIntercepts})
	if err != nil {
		log.Fatal(err)
	}
	if err := report.Text(os.Stdout, m, false); err != nil {
		log.Fatal(err)
	}
}
