package host

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/search/penalty"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
)

// overlapping are n rows of one feature with two targets, of two lines each that go a little apart, with the same expert for both.
func overlapping(seed uint64, n int, apart float64) []Target {
	rng := rand.New(rand.NewPCG(seed, 7))
	x, y := mat.NewDense(n, 1, nil), [][]float64{make([]float64, n), make([]float64, n)}
	for r := range n {
		at, slope := rng.NormFloat64(), apart*float64(2*rng.IntN(2)-1)
		x.Set(r, 0, at)
		y[0][r], y[1][r] = slope*at+.5*rng.NormFloat64(), (1-slope)*at+.5*rng.NormFloat64()
	}
	return targetsOf(x, y, []*model.Params{{D: 1}, {D: 1}})
}

// without are the targets without starts and truths.
func without(targets []Target) (out []Target) {
	for _, t := range targets {
		out = append(out, Target{Source: t.Source})
	}
	return out
}

// heldOutByHand are the log-densities of the rows of every part under a fit of k experts to the others, those of several targets added up or their
// joint one; the rows are in the order of the parts.
func heldOutByHand(t *testing.T, a Alternative, k, folds int) (logDensity []float64) {
	t.Helper()
	var tables []dataset.Loaded
	for _, of := range a.Targets {
		data, err := dataset.Load(t.Context(), of.Source)
		if err != nil {
			t.Fatal(err)
		}
		tables = append(tables, dataset.InMemory(of.Source.Schema(), data))
	}
	part := penalty.Folds(tables[0].Data.N, folds, a.Config.Seed)
	for fold := range folds {
		var rest []Target
		var left []dataset.Source
		for _, table := range tables {
			rest = append(rest, Target{Source: table.Where(func(row int) bool { return part[row] != fold })})
			left = append(left, table.Where(func(row int) bool { return part[row] == fold }))
		}
		cfg := a.Config
		cfg.K, cfg.Choose, cfg.unjudged, cfg.GatePenalty = k, "", true, NoPenalty
		if a.Covariance != "" {
			v, err := FitSharedGate(t.Context(), a.Activation, rest, a.Covariance, cfg)
			if err == nil {
				err = predict.JointDensities(t.Context(), v, a.Activation, left, func(_ []*model.Block, of []float64) error {
					logDensity = append(logDensity, of...)
					return nil
				})
			}
			if err != nil {
				t.Fatal(err)
			}
			continue
		}
		from := len(logDensity)
		for j, target := range rest {
			fit, err := Fit(t.Context(), a.Activation, target.Source, cfg)
			if err != nil {
				t.Fatal(err)
			}
			p := predict.NewPredictor(fit.Params(), a.Activation, "").With(predict.UncertaintyOf(fit))
			err = left[j].Read(t.Context(), func(b *model.Block) error {
				of, err := p.Predict(t.Context(), b)
				for r := range b.N {
					if j == 0 {
						logDensity = append(logDensity, 0)
					}
					logDensity[from+r] += p.LogPredictive(of, r, b.Y[r])
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return logDensity
}

// ruled is the place of the density that the rule of one standard error takes, of those of few parameters first, with how far each is below the
// highest and the standard error of that: √(n·Σ(d − d̄)²/(n−1)) of the rows' differences d.
func ruled(densities [][]float64) (at int, below, se []float64) {
	top := 0
	for i, d := range densities {
		if floats.Sum(d) > floats.Sum(densities[top]) {
			top = i
		}
	}
	at = -1
	for i, d := range densities {
		off := slices.Clone(densities[top])
		floats.Sub(off, d)
		n, by, squares := float64(len(off)), floats.Sum(off), 0.0
		for _, v := range off {
			squares += (v - by/float64(len(off))) * (v - by/float64(len(off)))
		}
		below, se = append(below, by), append(se, math.Sqrt(n*squares/(n-1)))
		if at < 0 && by <= max(se[i], 1e-9) {
			at = i
		}
	}
	return at, below, se
}

// TestChooseTargets: of several targets the one table has what crossvalidation says of each k, what is chosen is what the rule says of densities
// by hand, and its fit to all rows is that of the chosen number of experts. On some of the tables that is not the highest.
func TestChooseTargets(t *testing.T) {
	testslow.Mark(t)
	act, notHighest := activation(identity.Family, nil), 0
	for name, c := range map[string]struct {
		noise NoiseCovariance
		seed  uint64
		apart float64
	}{
		"gates of their own":    {"", 1, 1},
		"diagonal":              {Diagonal, 1, 1},
		"full, not the highest": {Full, 2, .3},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{K: 1, Seed: 1, Method: Auto{Starts: 1}, Choose: ByHeldOut}
			a := Alternative{Activation: act, Targets: without(overlapping(c.seed, 50, c.apart)), Covariance: c.noise, From: 1, To: 2, Config: cfg}
			v, err := a.FitTargets(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			table, held := v.Fits()[0].Descriptions, [][]float64{heldOutByHand(t, a, 1, 10), heldOutByHand(t, a, 2, 10)}
			at, below, se := ruled(held)
			whole, err := a.CrossValidate(t.Context(), 10)
			if err != nil {
				t.Fatal(err)
			}
			if len(table) != 2 || v.K != at+1 {
				t.Fatalf("k = %d of %+v, by hand %d", v.K, table, at+1)
			}
			for i, d := range table {
				if d.K != i+1 || d.Chosen != (i == at) || d.Targets != 2 || d.Converged != 10 || d.Settings == nil {
					t.Errorf("%+v", d)
				}
				if d.HeldOut == nil {
					t.Errorf("k = %d: %s", d.K, d.Reason)
					continue
				}
				if *d.HeldOut != whole[i].Judged() {
					t.Errorf("k = %d: %v held out, crossvalidation says %v", d.K, *d.HeldOut, whole[i].Judged())
				}
				// Both searches end at the same maxima, by steps of their own.
				for what, v := range map[string][2]float64{"held out": {*d.HeldOut, floats.Sum(held[i])}, "below": {*d.Below, below[i]}, "±": {*d.StandardError, se[i]}} {
					if math.Abs(v[0]-v[1]) > 1e-4*math.Max(1, math.Abs(v[1])) {
						t.Errorf("k = %d: %s %v, by hand %v", d.K, what, v[0], v[1])
					}
				}
			}
			if below[at] > 0 {
				notHighest++
			}
			old := runtime.GOMAXPROCS(1)
			one, err := Compare(t.Context(), []Alternative{a})
			runtime.GOMAXPROCS(old)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(table, one.Table); diff != "" {
				t.Errorf("by one processor another table: %s", diff)
			}

			cfg.K, cfg.Choose = v.K, ""
			if c.noise != "" {
				want, err := FitSharedGate(t.Context(), act, a.Targets, c.noise, cfg)
				if err != nil {
					t.Fatal(err)
				}
				fit := v.SharedGate.Fit
				if fit.ChosenBy != "heldout" {
					t.Errorf("chosen by %q", fit.ChosenBy)
				}
				edge := slices.ContainsFunc(fit.Warnings, func(s string) bool { return strings.Contains(s, "the largest that was fitted") })
				if edge != (v.K == 2) {
					t.Errorf("k = %d of 1 to 2: %q", v.K, fit.Warnings)
				}
				fit.ChosenBy, fit.Descriptions, fit.Warnings, fit.WarningKinds, fit.Notes = "", nil, nil, nil, want.SharedGate.Fit.Notes
				want.SharedGate.Fit.Warnings, want.SharedGate.Fit.WarningKinds = nil, nil
				if diff := cmp.Diff(vectorFile(t, want), vectorFile(t, v)); diff != "" {
					t.Errorf("the fit to all rows is not that of k = %d: %s", v.K, diff)
				}
				return
			}
			// Each target is that of its range alone, where the same k is taken, and its log-likelihoods add up to the table's.
			sums := make([]float64, 2)
			for j, target := range a.Targets {
				alone, err := CrossValidate(t.Context(), act, target.Source, 1, 2, 10, a.Config)
				if err != nil {
					t.Fatal(err)
				}
				m := v.Model(j)
				for i, s := range m.Fit.Selection {
					if sums[i] += *s.HeldOut; *s.HeldOut != alone[i].Judged() {
						t.Errorf("%s, k = %d: %v held out, alone %v", m.Target, s.K, *s.HeldOut, alone[i].Judged())
					}
				}
				want, err := FitRange(t.Context(), act, target.Source, 1, 2, Config{Seed: 1, Method: Auto{Starts: 1}, GatePenalty: NoPenalty}.ChosenBy(one))
				if err != nil {
					t.Fatal(err)
				}
				if !cmp.Equal(want.Params(), m.Params()) {
					t.Errorf("%s is not that of its range", m.Target)
				}
			}
			for i, d := range table {
				if math.Abs(sums[i]-*d.HeldOut) > 1e-9*math.Abs(sums[i]) {
					t.Errorf("k = %d: the targets' add up to %v, the table has %v", d.K, sums[i], *d.HeldOut)
				}
			}
		})
	}
	if notHighest == 0 {
		t.Error("on every table the highest is chosen")
	}
}

// vectorFile is the file of a model of several targets.
func vectorFile(t *testing.T, v *fitted.Vector) string {
	t.Helper()
	data, err := v.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestChooseOneTarget: one target by itself, and one among several, are chosen and fitted alike, to the byte.
func TestChooseOneTarget(t *testing.T) {
	testslow.Mark(t)
	act, cfg := activation(identity.Family, nil), Config{Seed: 1, Method: Auto{Starts: 1}, Choose: ByHeldOut}
	targets := without(overlapping(1, 50, 1))[:1]
	want, err := FitRange(t.Context(), act, targets[0].Source, 1, 2, cfg)
	if err != nil {
		t.Fatal(err)
	}
	v, err := Alternative{Activation: act, Targets: targets, From: 1, To: 2, Config: cfg}.FitTargets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(jsonOf(t, want), jsonOf(t, v.Model(0))); diff != "" {
		t.Error(diff)
	}
	if want.Fit.Selection[1].HeldOut == nil || want.Fit.ChosenBy != "heldout" {
		t.Errorf("%+v", want.Fit.Selection)
	}
	// Among alternatives, whose table is in the file.
	all := []Alternative{{Activation: act, From: 1, To: 2, Config: cfg, Settings: map[string]string{"noise": "shared"}}}
	all = append(all, all[0])
	all[1].Config.Noise, all[1].Settings = PerExpert{}, map[string]string{"noise": "per-expert"}
	several := slices.Clone(all)
	for i := range all {
		all[i].Source, several[i].Targets = targets[0].Source, targets
	}
	one, err := Compare(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	among, err := Compare(t.Context(), several)
	if err != nil {
		t.Fatal(err)
	}
	if want, err = FitRange(t.Context(), act, targets[0].Source, 1, 2, all[one.Chosen].Config.ChosenBy(one)); err != nil {
		t.Fatal(err)
	}
	chosen := several[among.Chosen]
	chosen.Config = chosen.Config.ChosenBy(among)
	if v, err = chosen.FitTargets(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(jsonOf(t, want), jsonOf(t, v.Model(0))); diff != "" || len(want.Fit.Descriptions) != 4 {
		t.Errorf("%d descriptions: %s", len(want.Fit.Descriptions), diff)
	}
}

// TestChooseTargetsBegins: a start or a truth of the chosen k is taken under one gate, and one of another stands aside; a fit goes on from a
// checkpoint of its second target to the same bytes.
func TestChooseTargetsBegins(t *testing.T) {
	testslow.Mark(t)
	ctx, act := t.Context(), activation(identity.Family, nil)
	cfg := Config{Seed: 1, Method: Auto{Starts: 1}, Choose: ByHeldOut}
	for _, k := range []int{1, 2} {
		v, err := FitSharedGate(ctx, act, without(overlapping(1, 50, 1)), Diagonal, Config{K: k, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		targets := overlapping(1, 50, 1)
		for j := range targets {
			targets[j].Start, targets[j].Truth = v.Params(j), v.Params(j)
		}
		a := Alternative{Activation: act, Targets: targets, Covariance: Diagonal, From: 1, To: 2, Config: cfg}
		got, err := a.FitTargets(ctx)
		if err != nil {
			t.Fatal(err)
		}
		own := slices.ContainsFunc(got.SharedGate.Fit.Starts, func(s fitted.Start) bool { return s.Kind == "own" })
		if got.K != 2 || own != (k == 2) || (got.Outputs[0].Truth != nil) != (k == 2) {
			t.Errorf("k = %d from a start of %d: %v, truth %v", got.K, k, own, got.Outputs[0].Truth)
		}
	}
	a := Alternative{Activation: act, Targets: without(overlapping(1, 50, 1)), From: 1, To: 2, Config: cfg}
	var kept [][]byte
	a.Config.Checkpoint = func(save func() (*Checkpoint, error)) {
		kept = append(kept, checkpointText(t, save))
	}
	whole, err := a.FitTargets(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{kept[0], kept[len(kept)/2], kept[len(kept)-1]} {
		a.Config.Resume = new(Checkpoint)
		if err := json.Unmarshal(data, a.Config.Resume); err != nil {
			t.Fatal(err)
		}
		a.Config.Checkpoint = nil
		got, err := a.FitTargets(context.WithoutCancel(ctx))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(vectorFile(t, whole), vectorFile(t, got)); diff != "" {
			t.Error(diff)
		}
	}
}

// TestChooseTargetsRefuses: a range of several targets without a way to choose from it.
func TestChooseTargetsRefuses(t *testing.T) {
	a := Alternative{Activation: activation(identity.Family, nil), Targets: without(overlapping(1, 20, 1)), From: 1, To: 2}
	if _, err := a.FitTargets(t.Context()); err == nil || !strings.Contains(err.Error(), "k of a range is chosen by heldout") {
		t.Error(err)
	}
}
