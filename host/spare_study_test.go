package host

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/internal/testslow"
	builtin "github.com/gatedlearning/moe/plugins/tanh"
	"github.com/gatedlearning/moe/sdk"
)

// The study of fits whose k is one or two too large goes in pieces, each of which adds a line per fit to a file, and is
// summed up from the files. What is known of a table is the best of all files, so that fits of another seed, of more
// starts or of another version add to it:
//
//	go test ./host -run TestSpareStudy -sparefrom 5001 -sparesets 20 -spareto out/fits
//	go test ./host -run TestSpareStudy -sparefrom 5001 -sparesets 20 -sparestarts 640 -spareem 50 -spareto out/known
//	go test ./host -run TestSpareStudy -sparesum 'out/*' -v
//
// Tables up to 5000 are for choosing, those from 5001 on for reporting.
var (
	spareFrom   = flag.Uint64("sparefrom", 5001, "first table of the study of fits whose k is too large")
	spareSets   = flag.Int("sparesets", 0, "its tables")
	spareStarts = flag.Int("sparestarts", 0, "its budget of starts; 0 for the default")
	spareSeed   = flag.Uint64("spareseed", 1, "seed of its fits")
	spareEM     = flag.Int("spareem", 0, "its random EM starts on all rows beside each fit")
	spareTo     = flag.String("spareto", "", "file to which it adds what came out")
	spareSum    = flag.String("sparesum", "", "pattern of the files that it sums up")
)

// spareDesign is table seed, and how many experts more than it has are fitted to it.
func spareDesign(seed uint64) (groupDesign, int) {
	rng := rand.New(rand.NewPCG(seed, 2929))
	acts := []sdk.Activation{ident, rectify, activation(builtin.Family, nil), logistic}
	act := acts[rng.IntN(len(acts))]
	g := groupDesign{group: "spare", act: act, k: 1 + rng.IntN(3), d: 2 + rng.IntN(9)}
	g.n = int(math.Round(600 * math.Exp(rng.Float64()*math.Log(20000./600))))
	g.sigma = []float64{.1, .2, .3, .5}[rng.IntN(4)]
	g.perExpert = rng.IntN(2) == 1
	g.intercept = rng.IntN(3) > 0
	extra := 1 + rng.IntN(2)
	g.name = fmt.Sprintf("%s k=%d+%d d=%d n=%d sigma=%g own=%v intercepts=%v", act.Info().Name, g.k, extra, g.d, g.n, g.sigma, g.perExpert, g.intercept)
	return g, extra
}

// spareFit is what came out for one fit.
type spareFit struct {
	Name                   string
	Table, Seed            uint64
	Rows                   int
	LogLikelihood, Known   float64
	Optimum, Model, Reason string
	Converged              bool
}

// TestSpareStudy is the study, which docs/studies/certificate.md reports.
func TestSpareStudy(t *testing.T) {
	switch {
	case *spareSum != "":
		sumSpare(t, *spareSum)
	case *spareSets > 0:
		runSpare(t)
	default:
		t.Skip("a study of hours; see its flags")
	}
}

func runSpare(t *testing.T) {
	out, err := os.OpenFile(*spareTo, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for table := *spareFrom; table < *spareFrom+uint64(*spareSets); table++ {
		g, extra := spareDesign(table)
		src, _ := g.draw(t, table)
		cfg := g.config()
		cfg.K, cfg.Seed, cfg.Threads, cfg.Method = g.k+extra, *spareSeed, 1, Auto{Starts: *spareStarts}
		p, e, o, m := fitInSteps(t, g.act, src, cfg)
		f := spareFit{Name: g.name, Table: table, Seed: *spareSeed, Rows: g.n, LogLikelihood: m.Fit.LogLikelihood, Known: m.Fit.LogLikelihood, Converged: m.Fit.Converged}
		if c := o.Certificate; c != nil {
			f.Optimum, f.Model, f.Reason = c.Optimum, c.Model, c.Reason
		}
		if *spareEM > 0 {
			*groupStarts = *spareEM
			f.Known = g.best(t, p, e, table, f.Known)
		}
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

// sumSpare prints of each file how many fits pass, and how many of these are more than .5 below the best that is known.
func sumSpare(t *testing.T, pattern string) {
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	known, all := map[uint64]float64{}, map[string][]spareFit{}
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(file); lines.Scan(); {
			var f spareFit
			if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if v, ok := known[f.Table]; !ok || f.Known > v {
				known[f.Table] = f.Known
			}
			all[name] = append(all[name], f)
		}
		file.Close()
	}
	fmt.Println("| file | fits | pass | of n ≤ 10,000 | passes with a better optimum known by more than .5 | at most by | fits below the best by more than .5 |\n|---|---|---|---|---|---|---|")
	for _, name := range names {
		var passes, small, smallPasses, missed, below int
		worst := 0.0
		for _, f := range all[name] {
			gap, pass := known[f.Table]-f.LogLikelihood, f.Optimum == infer.Pass
			if f.Rows <= 10_000 {
				small++
			}
			if gap > 0.5 {
				below++
			}
			if !pass {
				continue
			}
			passes++
			if f.Rows <= 10_000 {
				smallPasses++
			}
			if worst = max(worst, gap); gap > 0.5 {
				missed++
				t.Logf("table %d, %s: %.2f below; %s", f.Table, f.Name, gap, f.Reason)
			}
		}
		fmt.Printf("| %s | %d | %d | %d of %d | %d | %.1f | %d |\n", filepath.Base(name), len(all[name]), passes, smallPasses, small, missed, worst, below)
	}
}

// TestHeldOthers: where the others have adapted to the absence of the spare expert the best place is not met, and starts
// agree on another that is 1.75 lower; where they are held as they are it is.
func TestHeldOthers(t *testing.T) {
	testslow.Mark(t)
	g, extra := spareDesign(4903)
	src, _ := g.draw(t, 4903)
	cfg := g.config()
	cfg.K, cfg.Seed = g.k+extra, 1
	if _, _, _, m := fitInSteps(t, g.act, src, cfg); m.Fit.LogLikelihood < -2453.3 {
		t.Errorf("log-likelihood %.2f, and -2453.27 is known", m.Fit.LogLikelihood)
	}
}

// TestKnownSigmaStays: a level of noise that the user knows is that of the model, where an expert is spare too.
func TestKnownSigmaStays(t *testing.T) {
	g := groupDesign{act: ident, k: 1, d: 2, n: 400, sigma: 0.3}
	src, _ := g.draw(t, 1)
	m, err := Fit(t.Context(), g.act, src, Config{K: 2, Intercepts: BothIntercepts, Noise: Shared{Sigma: 0.35}})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Sigma) != 1 || m.Sigma[0] != 0.35 {
		t.Errorf("sigma %v, want 0.35", m.Sigma)
	}
}
