package host

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/crossvalidation"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/sdk"
)

// line is a table of n rows of one feature x, whose targets are of draw.
func line(seed uint64, n int, draw func(rng *rand.Rand, x float64) float64) dataset.Loaded {
	rng := rand.New(rand.NewPCG(seed, 29))
	d := &model.Data{N: n, D: 1}
	for at := 0; at < n; at += model.BlockRows {
		b := model.Block{N: min(model.BlockRows, n-at)}
		for range b.N {
			x := rng.NormFloat64()
			b.X, b.Y = append(b.X, x), append(b.Y, draw(rng, x))
		}
		d.Blocks = append(d.Blocks, b)
	}
	return dataset.InMemory(dataset.Schema{Name: "line", Features: []string{"x"}, Target: "y"}, d)
}

// twoLines draws of two experts with noise of these levels.
func twoLines(first, second float64) func(rng *rand.Rand, x float64) float64 {
	return func(rng *rand.Rand, x float64) float64 {
		if rng.IntN(2) == 0 {
			return 2*x + first*rng.NormFloat64()
		}
		return -2*x + second*rng.NormFloat64()
	}
}

// drawT is a draw of a t law of 2 degrees of freedom.
func drawT(rng *rand.Rand) float64 {
	s := 0.0
	for range 2 {
		v := rng.NormFloat64()
		s += v * v
	}
	return rng.NormFloat64() / math.Sqrt(s/2)
}

// alternativesOf are alternatives of one table: from one to the most experts of every family and noise, or trees.
func alternativesOf(src dataset.Source, most int, families []string, noises []Noise, trees ...string) (all []Alternative) {
	base := Config{Method: EM{Starts: 2}, Seed: 1, Choose: ByHeldOut}
	add := func(from, to int, settings map[string]string, c Config) {
		all = append(all, Alternative{Activation: activation(identity.Family, nil), Source: src, From: from, To: to, Config: c, Settings: settings})
	}
	for _, family := range families {
		for _, noise := range noises {
			c := base
			c.Family, c.Noise = DensityName(family), noise
			settings := map[string]string{"family": family, "noise": noise.Name()}
			if trees == nil {
				add(1, most, settings, c)
			}
			for _, tree := range trees {
				c.Hierarchy, c.Intercepts, settings = model.Hierarchy{}, BothIntercepts, map[string]string{"hierarchy": tree}
				h, err := model.ParseHierarchy(tree)
				if err != nil {
					panic(err)
				}
				if h.Depth() > 1 {
					c.Hierarchy = h
				}
				add(h.Leaves(), h.Leaves(), settings, c)
			}
		}
	}
	return all
}

// TestCompareFinds: of tables of a known description that one is chosen. Of ten seeds each design is chosen for nine at
// least:
//
//	go test ./host -run TestCompareFinds -study 10 -v -timeout 0
func TestCompareFinds(t *testing.T) {
	testslow.Mark(t)
	families, sets := []string{"gaussian"}, max(1, *studySets)
	for name, d := range map[string]struct {
		alternatives func(seed uint64) []Alternative
		k            int
		settings     map[string]string
	}{
		"one noise": {func(seed uint64) []Alternative {
			return alternativesOf(line(seed, 120, twoLines(.5, .5)), 2, families, Noises())
		}, 2, map[string]string{"family": "gaussian", "noise": "shared"}},
		"two noises": {func(seed uint64) []Alternative {
			return alternativesOf(line(seed, 120, twoLines(.2, 1)), 2, families, Noises())
		}, 2, map[string]string{"family": "gaussian", "noise": "per-expert"}},
		"outliers": {func(seed uint64) []Alternative {
			return alternativesOf(line(seed, 120, func(rng *rand.Rand, x float64) float64 { return 2*x + .5*drawT(rng) }), 1,
				[]string{"gaussian", "student-t"}, Noises()[:1])
		}, 1, map[string]string{"family": "student-t", "noise": "shared"}},
		"a tree": {func(seed uint64) []Alternative {
			return alternativesOf(searchtest.NestedPieces(seed, 800), 1, families[:1], Noises()[:1], "1", "4", "2x2")
		}, 4, map[string]string{"hierarchy": "2x2"}},
	} {
		if name == "a tree" && *studySets == 0 { // half a minute
			continue
		}
		t.Run(name, func(t *testing.T) {
			right, others := 0, map[string]int{}
			for seed := *studyFrom; seed < *studyFrom+uint64(sets); seed++ {
				all := d.alternatives(seed)
				x, err := Compare(t.Context(), all)
				if err != nil {
					t.Fatal(err)
				}
				if x.K == d.k && cmp.Equal(all[x.Chosen].Settings, d.settings) {
					right++
				} else {
					others[fmt.Sprint(x.K, all[x.Chosen].Settings)]++
				}
			}
			t.Logf("%s: chosen for %d of %d; else %v", name, right, sets, others)
			if 10*right < 9*sets {
				t.Errorf("chosen for %d of %d, want nine of ten", right, sets)
			}
		})
	}
}

// TestCompare: the table of descriptions has what crossvalidation says of each alone, whatever their order and the number
// of processors; what cannot be fitted is in it with the reason, and the fit of the chosen one is that of its range.
func TestCompare(t *testing.T) {
	testslow.Mark(t)
	src := line(4, 100, twoLines(.3, .6))
	all := alternativesOf(src, 2, []string{"gaussian", "gamma"}, Noises())
	all = append(all, Alternative{Settings: map[string]string{"family": "none", "noise": "none"}, Refused: errors.New("of no use")})
	want, err := Compare(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	compared, chosen, byAlternative := 0, 0, map[int][]crossvalidation.HeldOut{}
	for _, d := range want.Table {
		at := slices.IndexFunc(all, func(a Alternative) bool { return cmp.Equal(a.Settings, d.Settings) })
		if d.Chosen {
			if chosen++; at != want.Chosen || d.K != want.K {
				t.Errorf("%v, k = %d is chosen in the table, alternative %d, k = %d of it", d.Settings, d.K, want.Chosen, want.K)
			}
		}
		if d.Settings["family"] == "gamma" || d.Settings["family"] == "none" {
			if d.HeldOut != nil || d.K != 0 || !strings.Contains(d.Reason, map[string]string{"gamma": "the family gamma", "none": "of no use"}[d.Settings["family"]]) {
				t.Errorf("%v: k = %d, held out %v, reason %q", d.Settings, d.K, d.HeldOut, d.Reason)
			}
			continue
		}
		held := byAlternative[at]
		if held == nil {
			if held, err = CrossValidate(t.Context(), all[at].Activation, src, 1, 2, 10, all[at].Config); err != nil {
				t.Fatal(err)
			}
			byAlternative[at] = held
		}
		if compared++; held[d.K-1].Judged() != *d.HeldOut {
			t.Errorf("%v, k = %d: %v held out, want %v", d.Settings, d.K, *d.HeldOut, held[d.K-1].Judged())
		}
	}
	if compared != 4 || chosen != 1 {
		t.Errorf("%d compared and %d chosen, want 4 and 1", compared, chosen)
	}

	slices.Reverse(all)
	old := runtime.GOMAXPROCS(1)
	got, err := Compare(t.Context(), all)
	runtime.GOMAXPROCS(old)
	if err != nil {
		t.Fatal(err)
	}
	if got.K != want.K || got.Chosen != len(all)-1-want.Chosen {
		t.Errorf("in the other order alternative %d, k = %d", got.Chosen, got.K)
	}
	for _, d := range got.Table {
		if !slices.ContainsFunc(want.Table, func(o fitted.Description) bool { return cmp.Equal(o, d) }) {
			t.Errorf("in the other order %+v", d)
		}
	}

	a := all[got.Chosen]
	m, err := FitRange(t.Context(), a.Activation, src, a.From, a.To, a.Config.ChosenBy(got))
	if err != nil {
		t.Fatal(err)
	}
	alone, err := FitRange(t.Context(), a.Activation, src, a.From, a.To, a.Config)
	if err != nil {
		t.Fatal(err)
	}
	if m.K != got.K || m.Fit.ChosenBy != "heldout" || !cmp.Equal(m.Fit.Descriptions, got.Table) {
		t.Errorf("k = %d chosen by %s, and %d descriptions", m.K, m.Fit.ChosenBy, len(m.Fit.Descriptions))
	}
	if m.Fit.Descriptions = nil; m.K == alone.K && !slices.Equal(fileOf(t, m), fileOf(t, alone)) {
		t.Error("the chosen one fitted is not the fit of its range")
	}
}

// fileOf is the model's file.
func fileOf(t *testing.T, m *fitted.Model) []byte {
	t.Helper()
	data, err := m.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestCompareRefuses: what does not compare, and what none of which can be fitted.
func TestCompareRefuses(t *testing.T) {
	src := line(1, 60, twoLines(.5, .5))
	of := func(families ...string) []Alternative { return alternativesOf(src, 1, families, Noises()[:1]) }
	leaves := of("gaussian", "student-t")
	leaves[1].Config.Leaves, leaves[1].Activation = []sdk.Activation{leaves[1].Activation}, nil
	range0 := of("gaussian", "student-t")
	range0[0].From = 0
	for want, all := range map[string][]Alternative{
		"family poisson beside gaussian: the probability of a whole number and a density do not compare": of("gaussian", "poisson"),
		"the family gamma has means above 0": of("gamma"),
		"of one activation":                  leaves,
		"k from 0 to 1":                      range0,
		"there is nothing to compare":        nil,
	} {
		if _, err := Compare(t.Context(), all); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// TestLeft: of 200 rows near a plane, with 30 features, two experts are left before all parts are fitted, which the table and
// a note say; the one that is taken is the same as by crossvalidation of all, and what it comes to the same.
func TestLeft(t *testing.T) {
	testslow.Mark(t)
	const n, d = 200, 30
	rng := rand.New(rand.NewPCG(1, 41))
	x, y := mat.NewDense(n, d, nil), make([]float64, n)
	for i := range y {
		y[i] = .5 * rng.NormFloat64()
		for j := range d {
			x.Set(i, j, rng.NormFloat64())
			y[i] += x.At(i, j) / float64(j+1)
		}
	}
	src := dataset.Matrix(x, y)
	a := Alternative{Activation: activation(identity.Family, nil), Source: src, From: 1, To: 2, Config: Config{Intercepts: BothIntercepts, Seed: 1, Method: EM{Starts: 1}}}
	got, err := Compare(t.Context(), []Alternative{a})
	if err != nil {
		t.Fatal(err)
	}
	held, err := CrossValidate(t.Context(), a.Activation, src, 1, 2, 10, a.Config)
	if err != nil {
		t.Fatal(err)
	}
	selection := make([]fitted.Candidate, 2)
	got.Into(selection, "")
	if got.K != 1 || selection[0].HeldOut == nil || math.Abs(*selection[0].HeldOut-held[0].Judged()) > 1e-9 {
		t.Errorf("k = %d, %+v, want 1 and %v", got.K, selection[0].HeldOut, held[0].Judged())
	}
	left := 0
	for i, c := range selection {
		if c.HeldOut != nil {
			continue
		}
		left++
		if held[i].Judged() > held[0].Judged() {
			t.Errorf("k = %d was left, and is the best by all parts", i+1)
		}
		if !slices.ContainsFunc(got.Notes, func(s string) bool {
			return strings.HasPrefix(s, fmt.Sprintf("crossvalidation: k = %d was left after ", i+1))
		}) {
			t.Errorf("k = %d was left without a note: %q", i+1, got.Notes)
		}
	}
	if left == 0 || got.Ks() != 2 {
		t.Errorf("%d of %d left", left, got.Ks())
	}
	other := a
	other.Config.Noise, other.Settings = PerExpert{}, map[string]string{"noise": "per-expert"}
	both, err := Compare(t.Context(), []Alternative{a, other})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(both.Table, func(d fitted.Description) bool {
		return d.K == 2 && d.HeldOut == nil && strings.HasPrefix(d.Reason, "left after ")
	}) {
		t.Errorf("nothing is left: %+v", both.Table)
	}
}
