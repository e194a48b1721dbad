package loss

import (
	"math"

	"github.com/gatedlearning/moe/host/loss/constraint"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

// Free says which parameters of a [Likelihood] vary; the others stay at their
// given values. Intercepts, where there are any, vary with their coefficients, the
// output c + s·g of the experts with the regressors.
type Free struct {
	Regressors bool
	Gating     bool
	Sigma      bool
	// ExpertColumns and GateColumns are the features whose coefficients vary,
	// ascending; nil is all of them.
	ExpertColumns, GateColumns []int
	// Tied are columns of the design, among those of the experts, whose coefficients are the same in all experts; D is
	// the intercept.
	Tied       []int
	FixedScale bool // s stays, where the experts have an output of their own
	// LeastSigma is the least σ where each expert has its own, in place of a thousandth of the target's standard
	// deviation: an optimum there is one. 0 is none.
	LeastSigma float64
	// Core stands for the target's root mean square and standard deviation where a few rows are most of these
	// ([model.Core]); 0 for themselves.
	Core     float64
	GivenOwn int // how many of the density's own parameters, the last of them, stay
}

// All is every parameter: the joint likelihood.
var All = Free{Regressors: true, Gating: true, Sigma: true}

// Columns returns the columns of the design whose coefficients vary in an expert
// and in a gate of p's shape: features, then p.D, the column of ones, where there
// is an intercept.
func (f Free) Columns(p *model.Params) (expert, gate []int) {
	columns := func(given []int, intercepts []float64) []int {
		out := append([]int(nil), given...)
		if given == nil {
			for j := range p.D {
				out = append(out, j)
			}
		}
		if intercepts != nil {
			out = append(out, p.D)
		}
		return out
	}
	return columns(f.ExpertColumns, p.RegressorIntercepts), columns(f.GateColumns, p.GatingIntercepts)
}

// Parameter says which free parameter a place of θ holds; of [model.Noise] θ has the logarithm.
type Parameter struct {
	Part    model.ParamPart
	Index   int // of the expert, the gate, the noise level or the output
	Feature int // the coefficient's; D for an intercept, −1 for what is no coefficient
	Own     int // of [model.Noise] which of the density's own parameters; 0 is σ, and below M that of target Own
}

// In returns the parameter's place in p, which must have it.
func (q Parameter) In(p *model.Params) *float64 {
	switch {
	case q.Part == model.Noise && q.Own > 0:
		return &p.Own[q.Own-1][q.Index]
	case q.Part == model.Noise:
		return &p.Sigma[q.Index]
	case q.Part == model.Offset:
		return &p.Offset[q.Index]
	case q.Part == model.Scale:
		return &p.Scale[q.Index]
	case q.Part == model.Expert && q.Feature == p.D:
		return &p.RegressorIntercepts[q.Index]
	case q.Part == model.Expert:
		return &p.Regressor(q.Index)[q.Feature]
	case q.Feature == p.D:
		return &p.GatingIntercepts[q.Index]
	}
	return &p.Gate(q.Index)[q.Feature]
}

// layout is where in θ the free parameters stand: for every expert a_i (and b_i),
// for every row of the gate w_j (and v_j), then log ψ, log σ first of it, then c and s.
type layout struct {
	free            Free
	k, d            int         // experts, features
	classes         int         // of the gate: the experts, and the one that is always 0
	gates, levels   int         // rows of the gate, noise levels
	own, noises     int         // free parameters of the density's own, and how many they are at all levels
	m, means        int         // targets, and means of a row: one of every expert and target, which has coefficients
	nodes           [][]int     // the rows of each gate
	expert, gate    []int       // columns of the free coefficients of an expert and of a gate; d is the column of ones
	da, dw          int         // their numbers
	slopes          []int       // which of an expert's are of features
	correlated      bool        // whether the normal noise of several targets may be
	joined          [][2]int    // targets a ≤ b that the noise may join, for the M-step; nil of one target
	width           int         // columns of the design, ones included
	atGate, atNoise int         // where in θ the gate begins and the noise levels
	atOutput        int         // where the outputs begin: all c, then all s
	outputs         int         // pairs of c and s: none, one, or k
	moved           int         // how many of a pair are free: none, c, or both
	ends            []span      // of each own parameter's logarithm; nil where they are not free
	parameters      []Parameter // in the order of θ

	ties     constraint.Ties  // coefficients that are the same in all experts
	bound    constraint.Bound // on the gates
	largest  []float64        // of every feature in the rows, in size, on which the bound rests; nil for none
	loosened float64          // how much larger the bound is than that of the rows
}

// span is what a value may be, both ends included.
type span struct{ least, most float64 }

func (s span) hold(v float64) float64 { return min(max(v, s.least), s.most) }

// mostLog bounds the logarithms of own parameters.
const mostLog = 300

// spans are those of the logarithms of a density's own parameters, of which the first has another floor. Their
// exponentials do not leave what the parameter may be, by rounding either.
func spans(own []mixture.OwnParameter, floor float64) []span {
	var out []span
	for _, q := range own {
		s := span{math.Log(max(q.Least, floor)), min(math.Log(q.Most), mostLog)}
		for math.Exp(s.least) < q.Least {
			s.least = math.Nextafter(s.least, s.most)
		}
		for math.Exp(s.most) > q.Most {
			s.most = math.Nextafter(s.most, s.least)
		}
		out = append(out, s)
		floor = leastScale
	}
	return out
}

func newLayout(p *model.Params, free Free, ends []span) *layout {
	return newLayoutOf(p, free, ends, 1, nil, min(1, len(p.Sigma))+len(p.Own)-free.GivenOwn)
}

// newLayoutOf is newLayout of m targets, each of the shape of p, of which the noise may join some, with so many own
// parameters at a noise level.
func newLayoutOf(p *model.Params, free Free, ends []span, m int, joined [][2]int, own int) *layout {
	o := &layout{free: free, k: p.K, d: p.D, classes: p.Classes(), gates: p.Gates(), levels: len(p.Sigma),
		m: m, means: m * p.K, joined: joined, own: own, width: p.D, ends: ends}
	o.noises = o.levels * o.own
	for _, g := range p.GateNodes() {
		rows := make([]int, len(g.Ends)-1)
		for c := range rows {
			rows[c] = g.Row(c)
		}
		o.nodes = append(o.nodes, rows)
	}
	o.expert, o.gate = free.Columns(p)
	for c, feature := range o.expert {
		if feature != p.D {
			o.slopes = append(o.slopes, c)
		}
	}
	o.da, o.dw = len(o.expert), len(o.gate)
	if p.RegressorIntercepts != nil || p.GatingIntercepts != nil {
		o.width++
	}
	if free.Regressors {
		o.atGate = o.means * o.da
	}
	o.atNoise = o.atGate
	if free.Gating {
		o.atNoise += o.gates * o.dw
	}
	o.atOutput = o.atNoise
	if free.Sigma {
		o.atOutput += o.noises
	}
	if free.Regressors && p.HasOutput() {
		o.outputs, o.moved = len(p.Offset), 2
		if free.FixedScale {
			o.moved = 1
		}
	}
	o.parameters = o.list()
	o.ties = tiesOf(o)
	return o
}

// boundBy bounds the gates by the largest values of the features in rows, in size, so many times as far out.
func (o *layout) boundBy(largest []float64, times float64) {
	o.largest, o.loosened, o.bound = largest, times, constraint.Bound{}
	if largest == nil || !o.free.Gating {
		return
	}
	var gates [][]int
	for _, rows := range o.nodes {
		at := make([]int, len(rows))
		for i, j := range rows {
			at[i] = o.row(j)
		}
		gates = append(gates, at)
	}
	of := make([]float64, o.dw)
	for c, feature := range o.gate {
		of[c] = 1
		if feature < o.d {
			of[c] = largest[feature]
		}
	}
	o.bound = constraint.NewBound(gates, of, times)
}

// within is o with the gates bounded so.
func (o *layout) within(largest []float64, times float64) *layout {
	out := *o
	out.boundBy(largest, times)
	return &out
}

// list lists the free parameters.
func (o *layout) list() (out []Parameter) {
	add := func(part model.ParamPart, n int, columns []int) {
		for i := range n {
			for _, j := range columns {
				out = append(out, Parameter{Part: part, Index: i, Feature: j})
			}
		}
	}
	if o.free.Regressors {
		add(model.Expert, o.means, o.expert)
	}
	if o.free.Gating {
		add(model.Gate, o.gates, o.gate)
	}
	if o.free.Sigma {
		for m := range o.noises {
			q := Parameter{Part: model.Noise, Feature: -1}
			q.Index, q.Own = o.levelOf(m)
			out = append(out, q)
		}
	}
	for h := range o.moved {
		add(model.Offset+model.ParamPart(h), o.outputs, []int{-1})
	}
	return out
}

// levelOf returns the noise level of place m of ψ, and which of the own parameters of that level it has: of several
// targets those of a level stand beside each other.
func (o *layout) levelOf(m int) (level, own int) {
	if o.joined != nil {
		return m / o.own, m % o.own
	}
	return m % o.levels, m / o.levels
}

// regressor returns the place of the coefficients of expert i, or of mean i of several targets, in θ, row that of row
// j of the gate, noise that of place m of ψ; negative where they are not free.
func (o *layout) regressor(i int) int { return o.place(o.free.Regressors, i*o.da) }
func (o *layout) row(j int) int       { return o.place(o.free.Gating, o.atGate+j*o.dw) }
func (o *layout) noise(m int) int     { return o.place(o.free.Sigma, o.atNoise+m) }

// noiseAt returns the place of parameter l of noise level s: log s_l for l < M.
func (o *layout) noiseAt(s, l int) int { return o.noise(s*o.own + l) }

// pairOf returns c and b of the u_cb that is parameter l ≥ M of a noise.
func (o *layout) pairOf(l int) (c, b int) { return model.LowerAt(l - o.m) }

// output returns the place of c, h = 0, or s, h = 1, of pair m in θ, pair the pair of
// expert i.
func (o *layout) output(h, m int) int { return o.atOutput + h*o.outputs + m }

func (o *layout) pair(i int) int {
	if o.outputs == 1 {
		return 0
	}
	return i
}

func (o *layout) place(free bool, at int) int {
	if !free {
		return -1
	}
	return at
}

// gating returns the part of θ that is the gate's; empty where it is not free.
func (o *layout) gating(theta []float64) []float64 { return theta[o.atGate:o.atNoise] }

// in returns where parameters stand in p.
func in(p *model.Params) func(q Parameter) *float64 {
	return func(q Parameter) *float64 { return q.In(p) }
}

// pack writes the free parameters, which are in those places, to θ.
func (o *layout) pack(theta []float64, in func(q Parameter) *float64) {
	o.each(in, func(at int, v *float64) { theta[at] = *v },
		func(at int, sigma *float64) { theta[at] = math.Log(*sigma) })
	o.ties.Project(theta)
}

// unpack writes θ, its gates within their bounds, to the free parameters, which are in those places.
func (o *layout) unpack(in func(q Parameter) *float64, theta []float64) {
	theta = o.ties.Projected(o.bound.Projected(theta))
	o.each(in, func(at int, v *float64) {
		if *v = theta[at]; o.parameters[at].Part == model.Noise {
			*v = o.endsOf(at).hold(*v)
		}
	}, func(at int, sigma *float64) { *sigma = math.Exp(o.endsOf(at).hold(theta[at])) })
}

// endsOf returns what place at of θ, which is one of ψ, may be.
func (o *layout) endsOf(at int) span {
	_, own := o.levelOf(at - o.atNoise)
	return o.ends[own]
}

// each calls scale with the place in θ of every free parameter of which θ has the logarithm, and where it is, and coef
// with those of all others.
func (o *layout) each(in func(q Parameter) *float64, coef, scale func(at int, v *float64)) {
	for at, q := range o.parameters {
		if q.Part == model.Noise && (o.joined == nil || q.Own < o.m) {
			scale(at, in(q))
		} else {
			coef(at, in(q))
		}
	}
}
