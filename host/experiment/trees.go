package experiment

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/steps"
	"github.com/gatedlearning/moe/sdk"
)

// treeCase is a tree of experts that data are drawn from: unit gates, unit regressors at
// least 0.5 apart.
type treeCase struct {
	shape  string
	leaves string // one activation of all, or one for every leaf, with commas
	d      int
	sigma  float64

	recurrent bool // the last feature is the target of the row before
}

// name is how the figures call the case.
func (c treeCase) name() string {
	if strings.Contains(c.leaves, ",") {
		return c.shape + " mixed"
	}
	return c.shape + " " + c.leaves
}

// treeCases are those of the figures of trees.
func treeCases() []treeCase {
	return []treeCase{
		{shape: "2x2", leaves: "identity", d: 5, sigma: 0.1},
		{shape: "2x2", leaves: "relu", d: 5, sigma: 0.1},
		{shape: "2x(1,2)", leaves: "identity,tanh,tanh", d: 5, sigma: 0.1},
	}
}

// treeStarts is the most starts of a search in these figures: three agree after 4, as a
// rule.
const treeStarts = 16

// treeSizes are the rows and the number of data sets of the figures of trees.
func treeSizes(z size) (ns []int, sets int) {
	if z.quick {
		return []int{1000, 4000}, 2
	}
	return []int{1000, 3000, 10000, 30000}, 5
}

const treeSettings = "Leaves of 2x2 are all identity or all ReLU, those of 2x(1,2) mixed: identity, tanh, tanh. d = " +
	"5, σ = 0.1, inputs N(0, I), unit gates and unit regressors at least 0.5 apart, drawn anew for every data set; " +
	"the first n rows of each of %d data sets. Fits as by moe fit --hierarchy with at most %d starts, σ estimated. "

// trees is the error of trees of experts against n.
func trees(z size) *Figure {
	ns, sets := treeSizes(z)
	f := &Figure{
		ID: "trees", Title: "Trees of experts: errors against n", Source: "beyond the papers; 002 Eq. 3 to 5",
		Own:   true,
		Claim: "The regressors and the gates of a tree of experts are recovered, and their errors fall like 1/√n.",
		Settings: fmt.Sprintf(treeSettings, sets, treeStarts) +
			"The errors are the largest distance of a regressor from its truth, and of a gate's coefficients from " +
			"theirs, up to exchanges of branches that leave the tree as it is.",
		X: Axis{Label: "n", Log: true}, Y: Axis{Label: "largest distance from the truth", Log: true},
		measure: distances, judge: judgeTrees(z),
	}
	f.units = treeUnits(treeCases(), ns, sets, true)
	return f
}

// treesFlat is a tree of experts beside the flat mixture of as many.
func treesFlat(z size) *Figure {
	ns, sets := treeSizes(z)
	cases := treeCases()
	f := &Figure{
		ID: "trees-flat", Title: "A tree of experts and the flat mixture of as many",
		Source: "beyond the papers; 002 Eq. 3 to 5", Own: true,
		Claim: "On rows of a tree the tree's fit comes near to the truth as fast as its parameters allow, q/(2n) " +
			"for q of them, the flat mixture of as many experts and as many parameters does not; and from 10,000 " +
			"rows on BIC takes the tree.",
		Settings: fmt.Sprintf(treeSettings, sets, treeStarts) +
			fmt.Sprintf("The flat mixture is fitted to the same rows in the same way. The divergence is the mean "+
				"over %d fresh rows of the log-density of the truth less that of the fit, which estimates that of "+
				"Kullback and Leibler. The picture has it over q/(2n): a fit that comes near to the truth as fast as "+
				"its parameters allow stays at 1, the dotted line.", freshRows),
		X: Axis{Label: "n", Log: true}, Y: Axis{Label: "divergence·2n/q", Log: true}, Level: 1,
		measure: divergence, judge: judgeTreesFlat(z, cases),
		drawn: func(o *Outcome) []Curve { return overOwn(o, cases) },
		Columns: []string{"tree", "n", "data sets", "BIC takes the tree", "log-likelihood above the flat fit's: least",
			"median", "most"}, table: treesFlatTable(cases),
	}
	for _, c := range cases {
		f.Views = append(f.Views, views(c.name())...)
	}
	f.units = treeUnits(cases, ns, sets, true)
	return f
}

// overOwn are the divergences of cases over what the number of parameters allows.
func overOwn(o *Outcome, cases []treeCase) (out []Curve) {
	for _, c := range cases {
		for _, fit := range []string{fitTree, fitFlat} {
			for _, d := range o.Of(c.name() + ", " + fit) {
				d.Y = slices.Clone(d.Y)
				for i, n := range d.X {
					d.Y[i] *= 2 * n / float64(c.parameters())
				}
				out = append(out, d)
			}
		}
	}
	return out
}

// treesRecurrent is a gated recurrence of which one trajectory is seen.
func treesRecurrent(z size) *Figure {
	ns, sets := []int{300, 1000, 3000, 10000}, 10
	if z.quick {
		ns, sets = []int{500, 4000}, 4
	}
	c := recurrence()
	f := &Figure{
		ID: "trees-recurrent", Title: "A gated recurrence from one trajectory",
		Source: "beyond the papers; 002 Eq. 3 to 5", Own: true,
		Claim: "The experts and the gates of a gated recurrence, h_t drawn with noise around the tree 2x(1,2) of " +
			"identity, tanh and tanh over (x_t, h_{t−1}), are recovered from one trajectory, and their errors fall " +
			"like 1/√n, though h is far from N(0, 1).",
		Settings: fmt.Sprintf("Three inputs from N(0, I) and the state before; σ = 0.1; unit gates and unit "+
			"regressors at least 0.5 apart, drawn anew for every trajectory; the first n steps of each of %d. Fits "+
			"as by moe fit --hierarchy '2x(1,2)' --leaves identity,tanh,tanh with at most %d starts. Distances of "+
			"single regressors and gates from their truths; a pair of leaves that may stand for each other counts "+
			"with the larger.", sets, treeStarts),
		X: Axis{Label: "n", Log: true}, Y: Axis{Label: "distance from the truth", Log: true}, measure: distances,
		judge: judgeTrees(z),
	}
	f.units = treeUnits([]treeCase{c}, ns, sets, false)
	return f
}

func recurrence() treeCase {
	return treeCase{shape: "2x(1,2)", leaves: "identity,tanh,tanh", d: 4, sigma: 0.1, recurrent: true}
}

// Measures of the curves of trees.
const (
	distances  = "distances"
	divergence = "divergence"
	gainOver   = "gain" // log-likelihood of the tree less that of the flat fit
)

// The fits whose divergences are compared.
const fitTree, fitFlat = "tree", "flat"

// freshRows is how many rows a divergence is the mean over.
const freshRows = 200000

// part is what of a tree's parameters has a curve of its own: some regressors and gates.
type part struct {
	name              string
	regressors, gates []int
}

// parts are those whose errors are shown: regressors and gates, of a recurrence by
// activation and by level, since a gate is as hard to find as its experts are alike.
func (c treeCase) parts() []part {
	if c.recurrent {
		return []part{
			{"identity, regressors", []int{0}, nil}, {"tanh, regressors", []int{1, 2}, nil},
			{"identity against tanh, gates", nil, []int{0}}, {"tanh against tanh, gates", nil, []int{1}},
		}
	}
	k := c.hierarchy().Leaves()
	all := make([]int, k)
	for i := range all {
		all[i] = i
	}
	return []part{{c.name() + ", regressors", all, nil}, {c.name() + ", gates", nil, all[:k-1]}}
}

// of is the largest distance of the part from the truth.
func (q part) of(p, truth *model.Params) float64 {
	largest := 0.0
	for _, i := range q.regressors {
		largest = max(largest, floats.Distance(p.Regressor(i), truth.Regressor(i), 2))
	}
	for _, i := range q.gates {
		largest = max(largest, floats.Distance(p.Gate(i), truth.Gate(i), 2))
	}
	return largest
}

// hierarchy is the tree's shape; the cases are constants of this package.
func (c treeCase) hierarchy() model.Hierarchy {
	h, err := model.ParseHierarchy(c.shape)
	if err != nil {
		panic(err)
	}
	return h
}

// parameters is how many a tree has, and the flat mixture of as many experts.
func (c treeCase) parameters() int {
	k := c.hierarchy().Leaves()
	return k*c.d + (k-1)*c.d + 1
}

// treeUnits are the data sets of cases, each a unit; with a flat fit beside that of the
// tree where that is wanted.
func treeUnits(cases []treeCase, ns []int, sets int, flat bool) (out []unit) {
	for _, c := range cases {
		for run := range sets {
			key := fmt.Sprintf("tree %+v n %v starts %d flat %v run %d", c, ns, treeStarts, flat, run)
			out = append(out, unit{key: key, run: func(ctx context.Context, seed uint64) (*output, error) {
				return c.run(ctx, seed, ns, run, flat)
			}})
		}
	}
	return out
}

// run fits the first rows of a data set, as many as each of ns.
func (c treeCase) run(ctx context.Context, seed uint64, ns []int, run int, flat bool) (*output, error) {
	parts := c.parts()
	errs, apart, gains := make([]trace, len(parts)), make([]trace, 2), new(trace)
	for _, n := range ns {
		s, err := c.open(ctx, seed, n)
		if err != nil {
			return nil, err
		}
		tree, err := s.fit(ctx, c.hierarchy())
		if err != nil {
			return nil, err
		}
		labelled := s.labelled(tree.params)
		for j, q := range parts {
			errs[j].add(float64(n), q.of(labelled, s.sampler.Truth))
		}
		if !flat {
			continue
		}
		other, err := s.fit(ctx, model.Hierarchy{})
		if err != nil {
			return nil, err
		}
		gains.add(float64(n), tree.loglik-other.loglik)
		from, err := s.divergences(ctx, tree.params, other.params)
		if err != nil {
			return nil, err
		}
		for j, v := range from {
			apart[j].add(float64(n), v)
		}
	}
	out := new(output)
	for j, q := range parts {
		out.add(distances, q.name, run, &errs[j])
	}
	if flat {
		out.add(divergence, c.name()+", "+fitTree, run, &apart[0])
		out.add(divergence, c.name()+", "+fitFlat, run, &apart[1])
		out.add(gainOver, c.name(), run, gains)
	}
	return out, nil
}

// treeStudy is a data set of a case.
type treeStudy struct {
	treeCase
	kinds   []int            // which leaves may stand for each other; nil: all
	leaves  []sdk.Activation // nil: all are act
	act     sdk.Activation
	draw    sample.Config
	sampler *sample.Sampler
	seed    uint64
}

func (c treeCase) open(ctx context.Context, seed uint64, n int) (*treeStudy, error) {
	s := &treeStudy{treeCase: c, seed: seed}
	names := strings.Split(c.leaves, ",")
	for _, name := range names {
		plugin, err := catalog.Open(ctx, name, nil)
		if err != nil {
			return nil, err
		}
		if len(names) == 1 {
			s.act, s.draw.Activation = plugin.Activation, plugin.Activation
			break
		}
		s.leaves, s.draw.Leaves = append(s.leaves, plugin.Activation), append(s.draw.Leaves, plugin.Activation)
		s.kinds = append(s.kinds, slices.Index(names, name))
	}
	h := c.hierarchy()
	s.draw.Tree, s.draw.K, s.draw.D, s.draw.N, s.draw.Sigma = h, h.Leaves(), c.d, n, c.sigma
	s.draw.Design, s.draw.Recurrent, s.draw.Seed = sample.Separated, c.recurrent, seed
	var err error
	s.sampler, err = sample.New(s.draw)
	return s, err
}

// treeFit is what a fit of a study came to, in the units of the data.
type treeFit struct {
	params *model.Params
	loglik float64
}

// fit fits the study's rows under gates of that shape; the zero value is one gate.
func (s *treeStudy) fit(ctx context.Context, h model.Hierarchy) (*treeFit, error) {
	p, err := problem.Load(ctx, s.sampler, s.act, problem.Request{K: s.draw.K, Tree: h, Leaves: s.leaves, Seed: s.seed,
		Threads: 1})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	e, err := moment.Measure(ctx, p, moment.Want{Transform: moment.Polynomial})
	if err != nil {
		return nil, err
	}
	found, err := search.Auto(ctx, p, e, search.Settings{Starts: treeStarts, Steps: steps.All()})
	if err != nil {
		return nil, err
	}
	return &treeFit{p.Units.OutOf(found.Best.Params), -found.Best.Run.Value * float64(p.N())}, nil
}

// labelled are parameters with the truth's labels.
func (s *treeStudy) labelled(p *model.Params) *model.Params {
	_, perm := metric.EregOf(p, s.sampler.Truth, s.kinds)
	return p.Relabel(perm)
}

// divergences are those of fits from the truth, on fresh rows.
func (s *treeStudy) divergences(ctx context.Context, fits ...*model.Params) ([]float64, error) {
	draw := s.draw
	draw.N, draw.Seed = freshRows, s.seed+1<<32
	fresh, err := sample.New(draw)
	if err != nil {
		return nil, err
	}
	fresh.Truth = s.sampler.Truth
	rows, err := dataset.Load(ctx, fresh)
	if err != nil {
		return nil, err
	}
	var act model.Activation = s.act
	if s.leaves != nil {
		act = s.draw.Leaves
	}
	perRow := func(p *model.Params) (float64, error) {
		v, err := loss.NewLikelihood(rows, act, p, loss.All, 1).LogLikelihood(ctx, p)
		return v / freshRows, err
	}
	best, err := perRow(s.sampler.Truth)
	if err != nil {
		return nil, err
	}
	var out []float64
	for _, p := range fits {
		v, err := perRow(p)
		if err != nil {
			return nil, err
		}
		out = append(out, best-v)
	}
	return out, nil
}

// judgeTrees asks that the median of every error falls like 1/√n: that its slope on
// n is within 0.2 of −½; at quick size, where few data sets leave more than that, that the
// median of the slopes is within 0.35. Fits of few rows whose arrangement is another than the
// truth's, an error above ½, are counted beside, and at the largest n there may be none.
func judgeTrees(z size) func(*Outcome) Verdict {
	return func(o *Outcome) Verdict {
		v := Verdict{Agrees: true}
		var measured []string
		var slopes []float64
		arranged, all := 0, 0
		for _, s := range o.Series() {
			x, y := o.medians(s)
			for _, c := range o.Of(s) {
				all += len(c.Y)
				arranged += below(c.Y, 0.5)
				if !z.quick && c.Last() > 0.5 {
					v.Agrees, v.Because = false, fmt.Sprintf("%s has an error of %s at the largest n", s, g2(c.Last()))
				}
			}
			by := slope(x, y)
			slopes = append(slopes, by)
			measured = append(measured, fmt.Sprintf("%s %s (%.2f)", s, g2(y[len(y)-1]), by))
			if !z.quick && !(math.Abs(by+0.5) <= 0.2) {
				v.Agrees, v.Because = false, fmt.Sprintf("the error of %s goes like n to the %.2f", s, by)
			}
		}
		if by := median(slopes); z.quick && !(math.Abs(by+0.5) <= 0.35) {
			v.Agrees, v.Because = false, fmt.Sprintf("half of the errors go like n to the %.2f or less", by)
		}
		v.Measured = fmt.Sprintf("median error at the largest n, and its power of n: %s; %d of %d errors, of "+
			"regressors or gates, are above 0.5",
			strings.Join(measured, "; "), all-arranged, all)
		return v
	}
}

// enoughForBIC is the n from which on BIC has to take the tree.
const enoughForBIC = 10000

// treesFlatTable has for every tree and n how often BIC takes the tree: as there are as
// many parameters, where its likelihood is the higher.
func treesFlatTable(cases []treeCase) func(*Outcome) [][]string {
	return func(o *Outcome) (rows [][]string) {
		for _, c := range cases {
			x, _ := o.medians(c.name() + ", " + fitTree)
			for _, n := range x {
				gains := o.besideAt(c.name(), n)
				rows = append(rows, []string{c.name(), fmt.Sprint(n), fmt.Sprint(len(gains)),
					fmt.Sprint(len(gains) - below(gains, 0)),
					fmt.Sprintf("%.1f", slices.Min(gains)), fmt.Sprintf("%.1f", median(gains)),
					fmt.Sprintf("%.1f", slices.Max(gains))})
			}
		}
		return rows
	}
}

// judgeTreesFlat asks that at the largest n the tree's divergence is q/(2n) within a factor
// of 1.5, that of the flat fit twice the tree's or more, and that BIC takes the tree in all
// data sets but one in ten from enoughForBIC rows on. At quick size, of fewer rows, the
// factor is 3, the flat fit's divergence no less than the tree's, and every n counts.
func judgeTreesFlat(z size, cases []treeCase) func(*Outcome) Verdict {
	factor, apart, enough, from := 1.5, 2.0, float64(enoughForBIC), fmt.Sprintf(" of %d rows and more", enoughForBIC)
	least := 0.9 // share of the data sets in which BIC takes the tree
	if z.quick {
		factor, apart, enough, from, least = 3, 1, 0, "", 0.6
	}
	return func(o *Outcome) Verdict {
		v := Verdict{Agrees: true}
		fail := func(format string, args ...any) { v.Agrees, v.Because = false, fmt.Sprintf(format, args...) }
		var measured []string
		taken, of := 0, 0
		for _, c := range cases {
			x, tree := o.geometric(c.name() + ", " + fitTree) // over q/(2n), as drawn
			_, flat := o.geometric(c.name() + ", " + fitFlat)
			last := len(x) - 1
			expected := float64(c.parameters()) / (2 * x[last])
			measured = append(measured, fmt.Sprintf("%s %s and %s (%s)", c.name(), g2(tree[last]*expected),
				g2(flat[last]*expected), g2(expected)))
			if r := tree[last]; !(r <= factor && r >= 1/factor) {
				fail("the divergence of %s is %s times q/(2n)", c.name(), g2(r))
			}
			if !(flat[last] >= apart*tree[last]) {
				fail("the flat fit of %s is as near to the truth", c.name())
			}
			for _, n := range x {
				if n >= enough {
					gains := o.besideAt(c.name(), n)
					taken, of = taken+len(gains)-below(gains, 0), of+len(gains)
				}
			}
		}
		if float64(taken) < least*float64(of) {
			fail("BIC takes the tree in %d of %d data sets", taken, of)
		}
		v.Measured = fmt.Sprintf("divergence at the largest n of tree and flat fit (q/(2n)): %s; BIC takes the tree "+
			"in %d of %d data sets%s", strings.Join(measured, "; "), taken, of, from)
		return v
	}
}
