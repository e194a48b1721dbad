package main

import (
	"flag"
	"slices"
	"testing"
	"time"
)

var sandboxFits = flag.Int("sandbox-fits", 0, "how many pairs of fits TestSandboxCost measures, six seconds each")

// TestSandboxCost: the processor time of a fit through a plugin, host and plugin together, is in the
// sandbox at most 1.05 times what it is without: the ratio of the medians of fits that take turns.
func TestSandboxCost(t *testing.T) {
	if *sandboxFits == 0 {
		t.Skip("a study: -sandbox-fits 20")
	}
	s := newStage(t, "relu")
	if code, _, stderr := s.run(t, "sample", "--activation", "relu", "--k", "3", "--d", "10", "--n", "20000", "--sigma", "0.1", "-o", "large.csv"); code != 0 {
		t.Fatal(stderr)
	}
	spent := map[string][]time.Duration{}
	for i := range *sandboxFits {
		modes := []string{"off", "default"}
		if i%2 == 1 {
			slices.Reverse(modes)
		}
		for _, mode := range modes {
			cmd, _, stderr := s.command(t, t.Context(), "fit", "large.csv", "--activation", s.plugin, "--exact-activation", "--k", "3", "--starts", "2",
				"--sandbox", mode, "-o", "model.json")
			start := time.Now()
			if code := exitOf(cmd.Run()); code > 1 {
				t.Fatal(stderr)
			}
			if took := time.Since(start); took < 2*time.Second {
				t.Fatalf("a fit takes %v, want 2 s at least", took)
			}
			spent[mode] = append(spent[mode], cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()) // those of its processes included
		}
	}
	median := func(mode string) time.Duration {
		slices.Sort(spent[mode])
		n := len(spent[mode])
		return (spent[mode][(n-1)/2] + spent[mode][n/2]) / 2
	}
	ratio := float64(median("default")) / float64(median("off"))
	t.Logf("%v in the sandbox, %v without: %.3f", median("default"), median("off"), ratio)
	if ratio > 1.05 {
		t.Errorf("%.3f times as long in the sandbox", ratio)
	}
}
