package host

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/starts"
)

// The study of the certificate by groups goes in pieces, each of which adds a line
// per fit to a file, and is summed up from the files:
//
//	go test ./host -run TestCertificateGroups -group rare -groupfrom 5001 -groupsets 2 -groupto out/rare-5001
//	go test ./host -run TestCertificateGroups -groupsum 'out/*' -v
//
// Seeds up to 1000 are for choosing, those from 5001 on for reporting.
var (
	groupName   = flag.String("group", "", "group of the study of the certificate by groups")
	groupFrom   = flag.Uint64("groupfrom", 5001, "its first seed")
	groupSets   = flag.Int("groupsets", 1, "its data sets of each design")
	groupStarts = flag.Int("groupstarts", 200, "its random EM starts on all rows")
	groupTo     = flag.String("groupto", "", "file to which it adds what came out")
	groupSum    = flag.String("groupsum", "", "pattern of the files that it sums up")
)

// groupFit is what came out for one data set.
type groupFit struct {
	Group, Name    string
	Seed           uint64
	LogLikelihood  float64
	FromTruth      float64 // log-likelihood of the maximum that the truth leads to
	Known          float64 // the greatest known: of the fit, from the truth, from random starts
	Optimum, Model string
	Reason         string  // for the verdict on the optimum
	Survey         *survey // what was seen of the optima, nil where there was none
	PValue         float64
	PValues        map[string]float64 // of the tests
	Starts         int
	Converged      bool
}

// survey is a [search.Survey] without its optima.
type survey struct{ Starts, Moves, Optima, Singles, Met int }

// missed says whether a better optimum is known, by more than 1.
func (f groupFit) missed() bool { return f.Known > f.LogLikelihood+1 }

// TestCertificateGroups is the study, which docs/studies/certificate.md reports.
func TestCertificateGroups(t *testing.T) {
	switch {
	case *groupSum != "":
		sumGroups(t, *groupSum)
	case *groupName != "":
		runGroup(t)
	default:
		t.Skip("a study of hours; see its flags")
	}
}

func runGroup(t *testing.T) {
	out, err := os.OpenFile(*groupTo, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for seed := *groupFrom; seed < *groupFrom+uint64(*groupSets); seed++ {
		for _, g := range groupDesigns {
			if g.group != *groupName {
				continue
			}
			f := g.try(t, seed)
			line, err := json.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := out.Write(append(line, '\n')); err != nil {
				t.Fatal(err)
			}
			t.Logf("%s", line)
		}
	}
}

// try fits one data set and looks for what the fit missed.
func (g groupDesign) try(t *testing.T, seed uint64) groupFit {
	src, truth := g.draw(t, seed)
	cfg := g.config()
	p, e, out, m := fitInSteps(t, g.act, src, cfg)
	f := groupFit{
		Group: g.group, Name: g.name, Seed: seed, LogLikelihood: m.Fit.LogLikelihood,
		Starts: len(m.Fit.Starts), Converged: m.Fit.Converged, PValues: map[string]float64{},
	}
	if s := out.Survey; s != nil {
		f.Survey = &survey{s.Starts, s.Moves, s.Optima, s.Singles, s.Met}
	}
	if c := out.Certificate; c != nil {
		f.Optimum, f.Model, f.PValue, f.Reason = c.Optimum, c.Model, c.PValue, c.Reason
		for _, x := range c.Tests {
			f.PValues[x.Name] = x.PValue
		}
	}
	_, f.FromTruth = climbFrom(t, p, truth)
	f.Known = g.best(t, p, e, seed, max(f.LogLikelihood, f.FromTruth))
	return f
}

// best returns the greatest log-likelihood of random starts on all rows, and known
// if that is greater. Every second start begins with a small σ, and every third
// with experts of unlike sizes; a start is given up that would not reach the best
// in 200 more iterations as good as its last.
func (g groupDesign) best(t *testing.T, p *problem.Problem, e *moment.Evidence, seed uint64, known float64) float64 {
	n := float64(p.N())
	for stream := range uint64(*groupStarts) {
		rng := rand.New(rand.NewPCG(seed, 1<<40+stream))
		q, err := starts.Random(p, e).Draw(t.Context(), rng)
		if err != nil {
			t.Fatal(err)
		}
		if stream%2 == 1 {
			floats.Scale(0.3, q.Sigma)
		}
		if stream%3 == 2 {
			for i := range q.K {
				floats.Scale(math.Exp(rng.NormFloat64()), q.Regressor(i))
			}
		}
		l := loss.NewLikelihood(p.Rows, p.G, q, p.Shape.Free(), 1)
		if v := climbWithin(t.Context(), l, q, -known/n); v != nil && -v.value*n > known {
			if degenerate, err := l.Degenerate(t.Context(), v.at); err != nil || !degenerate {
				known = -v.value * n
			}
		}
	}
	return known
}

type climbed struct {
	at    *model.Params
	value float64
}

// climbWithin climbs from q unless that falls behind best; nil if it does, or fails.
func climbWithin(ctx context.Context, l *loss.Likelihood, q *model.Params, best float64) *climbed {
	last := math.Inf(1)
	behind := false
	r, err := climb.Climb(ctx, l, l.Theta(q), func(iteration int, value float64) bool {
		gain := last - value
		last = value
		behind = iteration >= 10 && value-best > 200*gain
		return behind
	})
	if err != nil || behind || math.IsNaN(r.Value) {
		return nil
	}
	return &climbed{l.Params(r.X), r.Value}
}

// groupTally counts over fits.
type groupTally struct {
	fits, passes, missedPasses int
	best, optimumSuspect       int // fits at the best known, and those called suspect
	modelSuspect               int // of those at the best
	starts, tests, small       int
	worst                      float64 // most that a pass was below the best known
}

func (n *groupTally) add(f groupFit) {
	n.fits++
	n.starts += f.Starts
	for _, p := range f.PValues {
		n.tests++
		if p < 0.05 {
			n.small++
		}
	}
	if f.Optimum == infer.Pass {
		n.passes++
		n.worst = max(n.worst, f.Known-f.LogLikelihood)
		if f.missed() {
			n.missedPasses++
		}
	}
	if f.missed() {
		return
	}
	n.best++
	if f.Optimum == infer.Suspect {
		n.optimumSuspect++
	}
	if f.Model == infer.Suspect {
		n.modelSuspect++
	}
}

// row is a line of the table, with one-sided 95 % Clopper–Pearson bounds.
func (n *groupTally) row(name string) string {
	share := func(times, of int) string {
		return fmt.Sprintf("%d of %d (≤ %.3f)", times, of, atMost(times, of))
	}
	return fmt.Sprintf("| %s | %d | %s | %.1f | %s | %s | %.3f | %.1f |", name, n.fits, share(n.missedPasses, n.passes), n.worst,
		share(n.optimumSuspect, n.best), share(n.modelSuspect, n.best), float64(n.small)/float64(max(n.tests, 1)), float64(n.starts)/float64(max(n.fits, 1)))
}

// sumGroups prints the table of what the files with such names hold, a line for
// every design and one for every group.
func sumGroups(t *testing.T, pattern string) {
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	groups, designs := map[string]*groupTally{}, map[string]*groupTally{}
	count := func(in map[string]*groupTally, key string, f groupFit) {
		if in[key] == nil {
			in[key] = new(groupTally)
		}
		in[key].add(f)
	}
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(file); lines.Scan(); {
			var f groupFit
			if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			count(groups, f.Group, f)
			count(designs, f.Group+": "+f.Name, f)
		}
		file.Close()
	}
	var table strings.Builder
	table.WriteString("| data | fits | passes with a better optimum known | at most by | optimum suspect at the best | model suspect at the best | p < 0.05 | starts |\n|---|---|---|---|---|---|---|---|\n")
	last := ""
	for _, g := range groupDesigns {
		if n := designs[g.group+": "+g.name]; n != nil {
			fmt.Fprintln(&table, n.row(g.group+": "+g.name))
		}
	}
	for _, g := range groupDesigns {
		if n := groups[g.group]; n != nil && g.group != last {
			fmt.Fprintln(&table, n.row("**all "+g.group+"**"))
		}
		last = g.group
	}
	fmt.Print(table.String())
}
