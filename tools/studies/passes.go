package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/plugins/exp"
)

// passTables are those on which it was chosen what makes a pass, and those on which it is reported.
var passTables = map[string][]string{
	"chosen": {"trees", "airquality", "cars", "stackloss", "swiss", "boston", "faithful", "birthwt", "uscereal",
		"mcycle", "warpbreaks"},
	"reported": {"attitude", "cats", "whiteside", "toothgrowth", "iris", "mpg", "ozone", "servo", "quakes",
		"chickweight", "caschools", "cps1985", "houseprices"},
}

// passes is the study of docs/studies/families.md of passes on small tables of R: how many of them six times the
// work, from other random numbers, finds a better optimum than, by more than .5.
//
//	go -C tools/studies run . passes -on chosen -tables DIR
//	go -C tools/studies run . passes -on reported -tables DIR
func passes(ctx context.Context) {
	on, which := tableFlags(), flag.String("on", "reported", "`tables` of the study: chosen or reported")
	parse()
	if passTables[*which] == nil {
		log.Fatalf("-on %s: neither chosen nor reported", *which)
	}
	passed, beaten := map[string]int{}, map[string]int{}
	for _, name := range passTables[*which] {
		if !on.admits(name) {
			continue
		}
		rows := on.open(ctx, table{name: name})
		families := []string{"gaussian", "student-t", "gamma"}
		switch name {
		case "mcycle": // has targets of 0 and less
			families = families[:2]
		case "warpbreaks":
			families = []string{"gaussian", "poisson", "negative-binomial"}
		case "quakes":
			families = append(families, "poisson", "negative-binomial")
		}
		for _, family := range families {
			act := activation(exp.Family)
			if family == "student-t" || family == "gaussian" {
				act = line
			}
			for _, k := range []int{2, 3} {
				cfg := host.Config{K: k, Family: family, Intercepts: host.BothIntercepts, Seed: 1}
				fit, err := host.Fit(ctx, act, rows, cfg)
				if err != nil {
					fmt.Println(name, family, k, err)
					continue
				}
				if c := fit.Fit.Certificate; c == nil || c.Optimum != infer.Pass {
					continue
				}
				cfg.Seed, cfg.Method = 77, host.Auto{Starts: 200}
				more := must(host.Fit(ctx, act, rows, cfg))
				passed[family]++
				what := fmt.Sprintf("%s, %s, k = %d: %.2f", name, family, k, fit.Fit.LogLikelihood)
				if more.Fit.LogLikelihood > fit.Fit.LogLikelihood+0.5 {
					beaten[family]++
					what += fmt.Sprintf(", with more starts %.2f", more.Fit.LogLikelihood)
				}
				fmt.Println(what)
			}
		}
	}
	fmt.Printf("passes %v, with a better optimum known %v\n", passed, beaten)
}
