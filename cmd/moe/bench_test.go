package main

import (
	"testing"

	"github.com/gatedlearning/moe/host/benchmark"
)

// TestComparison: the stages that are slow are named, each with how slow it is beside the machine.
func TestComparison(t *testing.T) {
	stage := func(name string, times float64, slow bool) benchmark.Stage {
		return benchmark.Stage{Name: name, Times: times, Slow: slow}
	}
	for _, c := range []struct {
		s    benchmark.Stages
		want string
	}{
		{benchmark.Stages{Stages: []benchmark.Stage{stage("a", 0, false)}},
			"The committed figures are of another table, and nothing is compared with them."},
		{benchmark.Stages{Times: 1.5, Stages: []benchmark.Stage{stage("a", 1.5, false), stage("b", 2, false)}},
			"A stage takes a thread 1.50 times as long as for the committed figures (median). " +
				"None takes 2 times that: none is slow beside the others."},
		{benchmark.Stages{Times: 2, Stages: []benchmark.Stage{stage("a", 5, true), stage("b", 2, false), stage("c", 8, true)}},
			"A stage takes a thread 2.00 times as long as for the committed figures (median). " +
				"Slow beside the others, more than 2 times that: a (2.5), c (4.0)."},
	} {
		if got := comparison(&c.s); got != c.want {
			t.Errorf("it says %q, want %q", got, c.want)
		}
	}
}
