package export

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/scaling"
	"github.com/gatedlearning/moe/host/terms"
	"github.com/gatedlearning/moe/internal/setting"
)

// UnsupportedError says what of a model cannot be said in a language.
type UnsupportedError struct {
	What   string       // "the activation swish: …"
	To     Language     // "" for none of them
	Advice setting.Text // what can be; zero where there is none
}

func (e *UnsupportedError) Error() string { return e.Worded(setting.InFile) }

// Worded is the error with the settings of its advice in other words.
func (e *UnsupportedError) Worded(as setting.Words) string {
	to, advice := "", ""
	if e.To != "" {
		to = " to " + string(e.To)
	}
	if !e.Advice.IsZero() {
		advice = "; " + e.Advice.Worded(as)
	}
	return "it cannot be exported" + to + ": " + e.What + advice
}

func unsupported(format string, args ...any) error {
	return &UnsupportedError{What: fmt.Sprintf(format, args...)}
}

// builder makes the program of a model.
type builder struct {
	*program
	m        *fitted.Model
	complete ref   // whether all is there that predictions need
	needed   []ref // what that is made of
	offset   ref   // what is added to every expert's predictor; −1 for none
	trials   ref   // of the row, NaN where they are a sum with the target and that is missing; −1 for none
	err      error // the first
}

// programOf returns what m says of a row, the posterior given its target too where withTarget says so. With features
// x, regressors a_i, gating w_i, and the arrangements A of a fit, or its one, of weights ω_A,
//
//	m_i = c_i + s_i·g(⟨a_i,x⟩ + b_i),   p = softmax(⟨w_i,x⟩ + v_i),   E[y|x] = Σ_A ω_A·Σ_i p_i·E[y|m_i]
//	P(z=i|x,y) = softmax over A and i of log ω_A + log p_i − ((h(y) − m_i)/σ_i)²/2 − log σ_i, summed over A
//
// as [predict.Predictor] has them. Where a column is missing, or a word is no level, all is NaN; where the target is,
// so is the posterior. Of a file with a penalised model beside the maximum it is that which predicts.
func programOf(ctx context.Context, m *fitted.Model, withTarget bool) (*program, error) {
	m = m.ForNewRows()
	if err := known(m); err != nil {
		return nil, err
	}
	if g := m.Groups; g != nil && withTarget {
		return nil, &UnsupportedError{
			What: fmt.Sprintf("it is of rows in groups (column %q), whose posteriors are of whole groups", g.Column),
			Advice: setting.Textf("with %s %s and onnx have means and the gate, as for rows of new groups",
				setting.Key("no-target"), setting.To("to", "sql"))}
	}
	b := &builder{program: newProgram(), m: m, offset: -1, trials: -1}
	b.target, b.k, b.zero, b.scale = m.Target, m.Classes(), m.ZeroExpert, string(m.TargetScale)
	b.complete = b.make(opTrue)
	x := b.features()
	b.roles(withTarget)
	activations, err := b.activations(ctx)
	if err != nil {
		return nil, err
	}
	var members []member
	for _, a := range arrangementsOf(m) {
		members = append(members, b.member(a, x, activations))
	}
	if b.err != nil {
		return nil, b.err
	}
	missing := b.num(math.NaN())
	complete := b.named(b.complete, "complete")
	if m.TargetScale.HasMean() {
		mean := b.meanOf(members)
		if b.trials >= 0 {
			mean = b.where(b.finite(b.trials), b.make(opMul, b.trials, mean), mean)
		}
		b.mean = b.named(b.where(complete, mean, missing), "mean")
	}
	for i := range b.k {
		p := b.total(members, func(a *member) ref { return b.make(opMul, b.num(a.weight), a.gate[i]) })
		b.gate = append(b.gate, b.named(b.where(complete, p, missing), b.class("p", i)))
	}
	for _, a := range members {
		if m.Family != "" {
			break // quantiles are of normal noise
		}
		for i, p := range a.gate {
			b.weights = append(b.weights, b.where(complete, b.make(opMul, b.num(a.weight), p), missing))
			b.means = append(b.means, b.where(complete, a.means[i], missing)) // of every row, be it one number
			b.sigma = append(b.sigma, a.sigma[i])
		}
	}
	if withTarget {
		b.posteriors(members)
	}
	if b.err != nil {
		return nil, b.err
	}
	return b.program, nil
}

// knownMembers are those of a model that this package knows: of what predictions are made, or what they do not
// depend on; of a penalised model the parameters are in the others' place.
var knownMembers = []string{
	"Format", "Activation", "D", "K", "Features", "Target", "TargetScale", "Hierarchy", "Leaves", "Family",
	"Design", "Regressors", "Gating", "RegressorIntercepts", "GatingIntercepts", "OutputScale", "Sigma", "Own",
	"Proportions", "Fit", "StandardErrors", "Covariance", "HAC", "Arrangements", "Truth", "Baselines",
	"Approximation", "Unknown", "Penalised", "Shared", "Groups", "ZeroExpert", "Roles",
}

// known refuses a model with a member that predictions may depend on in a way that this package does not know.
func known(m *fitted.Model) error {
	v := reflect.ValueOf(*m)
	for i := range v.NumField() {
		if f := v.Type().Field(i); !slices.Contains(knownMembers, f.Name) && !v.Field(i).IsZero() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			return unsupported("its file has %q, which no export has", name)
		}
	}
	return nil
}

// arrangement is one of the optima that predictions are over.
type arrangement struct {
	weight float64
	params *model.Params
}

// arrangementsOf are those of a model that have a weight, or its own alone.
func arrangementsOf(m *fitted.Model) (out []arrangement) {
	s := m.Arrangements
	if s == nil || s.Weight == nil {
		return []arrangement{{1, m.Params()}}
	}
	if *s.Weight > 0 {
		out = append(out, arrangement{*s.Weight, m.Params()})
	}
	for i := range s.Others {
		if a := &s.Others[i]; a.Weight != nil && *a.Weight > 0 {
			out = append(out, arrangement{*a.Weight, a.Of(m).Params()})
		}
	}
	if len(out) < 2 {
		return []arrangement{{1, m.Params()}}
	}
	return out
}

// member is what one arrangement says of a row.
type member struct {
	weight              float64
	gate, scores, means []ref
	logs                []func() ref // log m_i, of those densities that need it
	sigma               []float64    // of normal noise
	own                 [][]float64
}

// steep is the largest coefficient of a gate that needs no exact sums where 1e-9 is enough.
const steep = 1e3

func (b *builder) member(a arrangement, x []ref, g []func(z ref) ref) member {
	p := a.params
	out := member{weight: a.weight}
	for i := range p.K {
		intercept := 0.0
		if p.RegressorIntercepts != nil {
			intercept = p.RegressorIntercepts[i]
		}
		z := b.sum(intercept, p.Regressor(i), x)
		if b.offset >= 0 {
			z = b.make(opAdd, z, b.offset)
		}
		z = b.named(z, fmt.Sprint("z", i+1))
		offset, scale := p.OutputOf(i)
		mean := b.make(opAdd, b.num(offset), b.make(opMul, b.num(scale), g[i](z)))
		out.means = append(out.means, b.named(mean, fmt.Sprint("m", i+1)))
		out.logs = append(out.logs, func() ref { return b.logMean(i, mean, z, offset, scale) })
		out.own = append(out.own, p.OwnOf(nil, i))
		if b.m.Family == "" {
			out.sigma = append(out.sigma, p.SigmaOf(i))
		}
	}
	logits := make([]ref, b.k)
	for j := range p.Gates() {
		intercept := 0.0
		if p.GatingIntercepts != nil {
			intercept = p.GatingIntercepts[j]
		}
		for _, c := range append(slices.Clone(p.Gate(j)), intercept) {
			b.steep = b.steep || math.Abs(c) > steep
		}
		logits[j] = b.named(b.exactSum(intercept, p.Gate(j), x), fmt.Sprint("s", j+1))
	}
	logits[b.k-1] = b.num(0)
	out.scores = b.scores(p.Hierarchy(), logits)
	out.gate = b.softmax(out.scores)
	for i, p := range out.gate {
		b.named(p, fmt.Sprint("q", i+1))
	}
	return out
}

// scores are log P(z=i|x) but for a constant: the predictors themselves under one gate, and in a tree the sums of the
// branches' log-probabilities, as mixture.Tree has them.
func (b *builder) scores(shape model.Hierarchy, logits []ref) []ref {
	if shape.Depth() <= 1 {
		return logits
	}
	out := slices.Clone(logits)
	for _, v := range shape.Gates() { // parents first: a node's own score stands at its last leaf
		node := out[v.To-1]
		var z []ref
		for _, end := range v.Ends[:len(v.Ends)-1] {
			z = append(z, out[end-1])
		}
		z = append(z, b.num(0))
		top := b.fold(opMax, z)
		terms := make([]ref, len(z))
		powers := make([]ref, len(z))
		for c, s := range z {
			terms[c] = b.make(opSub, s, top)
			powers[c] = b.make(opExp, terms[c])
		}
		total := b.make(opLog, b.fold(opAdd, powers))
		for c, end := range v.Ends {
			out[end-1] = b.make(opAdd, node, b.make(opSub, terms[c], total))
		}
	}
	return out
}

// meanOf is E[y|x].
func (b *builder) meanOf(members []member) ref {
	return b.total(members, func(a *member) ref {
		terms := make([]ref, len(a.means)) // that of an expert which is always 0 is none
		for i, m := range a.means {
			terms[i] = b.share(a.gate[i], b.onScale(m, a.own[i]))
		}
		return b.make(opMul, b.num(a.weight), b.fold(opAdd, terms))
	})
}

// What an expert of a probability of nothing adds to the mean where that is large is left out, as in package predict.
const negligible, mostSquared = 4.3e-18, 0x1p511

// share is p·m, which is no number where p is 0 and m beyond the numbers.
func (b *builder) share(p, m ref) ref {
	out := b.make(opMul, p, m)
	if _, one := b.constant(p); one || b.m.TargetScale != "" {
		return out
	}
	counts := b.make(opOr, b.make(opLess, b.num(negligible), p),
		b.make(opLess, b.make(opAbs, out), b.num(mostSquared)))
	return b.where(counts, out, b.make(opMul, b.num(0), p)) // 0, and missing where p is
}

// onScale is the mean of y where h(y) is N(m, σ²), as [scaling.Scale.Mean].
func (b *builder) onScale(m ref, own []float64) ref {
	if b.m.TargetScale == "" {
		return m
	}
	sigma := own[0]
	switch b.m.TargetScale {
	case scaling.Log:
		return b.make(opExp, b.make(opAdd, m, b.num(sigma*sigma/2)))
	case scaling.Sqrt:
		return b.make(opAdd, b.make(opMul, m, m), b.num(sigma*sigma))
	}
	return m
}

func (b *builder) total(members []member, of func(a *member) ref) ref {
	all := make([]ref, len(members))
	for i := range members {
		all[i] = of(&members[i])
	}
	return b.fold(opAdd, all)
}

// posteriors are those given x and y.
func (b *builder) posteriors(members []member) {
	y := b.add(node{op: opY})
	v, has := y, b.make(opAnd, b.complete, b.finite(y))
	domain := mixture.DensityOf(b.m.Family).Domain()
	if b.m.TargetScale != "" || domain.Least == math.SmallestNonzeroFloat64 {
		has = b.make(opAnd, has, b.make(opLess, b.num(0), y))
	} else if !math.IsInf(domain.Least, -1) {
		has = b.make(opAnd, has, b.make(opLessEqual, b.num(domain.Least), y))
	}
	if b.trials >= 0 { // not where they are not told
		has = b.make(opAnd, has, b.make(opLessEqual, y, b.trials))
	} else if domain.Most < 1<<53 {
		has = b.make(opAnd, has, b.make(opLessEqual, y, b.num(domain.Most)))
	}
	switch b.m.TargetScale {
	case scaling.Log:
		v = b.make(opLog, y)
	case scaling.Sqrt:
		v = b.make(opSqrt, y)
	case scaling.Reciprocal:
		v = b.make(opDiv, b.num(1), y)
	}
	type term struct {
		score, log ref // of the gate, and of y
		remote
	}
	var terms []term
	var offs []ref
	for _, a := range members {
		constant := b.num(0) // of several members the scores are to be log-probabilities
		if len(members) > 1 {
			constant = b.make(opSub, b.num(math.Log(a.weight)), b.logSumExp(a.scores))
		}
		for i, s := range a.scores {
			t := term{b.make(opAdd, s, constant), b.num(0), remote{off: -1}}
			if i < len(a.means) {
				t.log, t.remote = b.logDensity(v, a.means[i], a.logs[i], a.own[i])
			} else { // always 0
				isZero := b.make(opEqual, y, b.num(0))
				t.score = b.where(isZero, t.score, b.num(never))
				offs = append(offs, b.where(isZero, b.num(0), b.num(math.MaxFloat64)))
			}
			if terms = append(terms, t); t.off >= 0 {
				offs = append(offs, t.off)
			}
		}
	}
	scores := make([]ref, len(terms))
	for i, t := range terms {
		scores[i] = b.make(opAdd, t.score, t.log)
		if t.off >= 0 {
			far := b.where(b.make(opLess, b.fold(opMin, offs), t.off), b.num(never), t.score)
			scores[i] = b.where(b.make(opLessEqual, b.num(t.most), t.off), far, scores[i])
		}
	}
	all := b.softmax(scores)
	known := b.named(has, "known")
	for i := range b.k {
		r := all[i]
		for at := i + b.k; at < len(all); at += b.k {
			r = b.make(opAdd, r, all[at])
		}
		b.posterior = append(b.posterior,
			b.named(b.where(known, r, b.num(math.NaN())), b.class("r", i)))
	}
}

// roles are the columns that predictions need beside the features; trials are read with the target alone.
func (b *builder) roles(withTarget bool) {
	described := dataset.RolesOf(b.m.Roles)
	raw := described.Raw()
	if name := raw[model.Offsets]; name != "" {
		b.offset = b.number(name)
		if described[model.Offsets] != name { // its logarithm
			b.need(b.make(opLess, b.num(0), b.offset))
			b.offset = b.make(opLog, b.offset)
		}
	}
	if name := raw[model.Trials]; name != "" && withTarget {
		if !slices.ContainsFunc(b.columns, func(c column) bool { return c.name == name }) {
			b.single = name
		}
		b.trials = b.number(name)
		if described[model.Trials] != name { // failures, which with the successes are the trials
			b.trials = b.make(opAdd, b.trials, b.add(node{op: opY}))
		}
	}
}

// features are the model's, of raw columns.
func (b *builder) features() []ref {
	if b.m.Design == nil {
		x := make([]ref, b.m.D)
		for j, name := range b.m.Features {
			x[j] = b.number(name)
		}
		return x
	}
	for _, f := range b.m.Design.Factors { // a word that is no level leaves the row without predictions
		b.need(b.make(opLessEqual, b.num(0), b.code(f)))
	}
	x := make([]ref, len(b.m.Design.Terms))
	for j, t := range b.m.Design.Terms {
		x[j] = b.num(1)
		plain := true
		for _, v := range t.Product {
			x[j] = b.make(opMul, x[j], b.value(v))
			plain = plain && v.Level != nil
		}
		if !plain {
			b.need(b.finite(x[j]))
		}
	}
	return x
}

// need adds what must hold for a row to be predicted, once.
func (b *builder) need(condition ref) {
	if !slices.Contains(b.needed, condition) {
		b.complete, b.needed = b.make(opAnd, b.complete, condition), append(b.needed, condition)
	}
}

// column notes that a column is read.
func (b *builder) column(name string, words bool) {
	if !slices.ContainsFunc(b.columns, func(c column) bool { return c.name == name }) {
		b.columns = append(b.columns, column{name, words})
	}
}

// number is a column of numbers.
func (b *builder) number(name string) ref {
	b.column(name, false)
	x := b.add(node{op: opColumn, text: name})
	b.need(b.finite(x))
	return x
}

// code is the place of a row's level.
func (b *builder) code(f terms.Factor) ref {
	if f.Numbers == nil {
		b.column(f.Column, true)
		return b.add(node{op: opCode, text: f.Column, levels: f.Levels})
	}
	x, out := b.number(f.Column), b.num(-1)
	for i := len(f.Numbers) - 1; i >= 0; i-- {
		out = b.where(b.make(opEqual, x, b.num(f.Numbers[i])), b.num(float64(i)), out)
	}
	return out
}

// value is one of those that terms are products of.
func (b *builder) value(v terms.Value) ref {
	switch {
	case v.Level != nil:
		at := slices.IndexFunc(b.m.Design.Factors, func(f terms.Factor) bool { return f.Name == v.Factor })
		f := b.m.Design.Factors[at]
		place := b.num(float64(slices.Index(f.Levels, *v.Level)))
		return b.where(b.make(opEqual, b.code(f), place), b.num(1), b.num(0))
	case v.Polynomial != nil:
		return b.polynomial(v.Polynomial)
	case v.Expression != "":
		return b.arithmetic(v.Expression)
	}
	return b.number(v.Column)
}

// polynomial is the value of one, by its recurrence ([terms.Polynomial]).
func (b *builder) polynomial(p *terms.Polynomial) ref {
	x := b.arithmetic(p.Expression)
	before, v := b.num(0), b.num(1)
	for j, alpha := range p.Alpha {
		next := b.make(opMul, b.make(opSub, x, b.num(alpha)), v)
		if j > 0 {
			next = b.make(opSub, next, b.make(opMul, b.num(p.Norms[j]/p.Norms[j-1]), before))
		}
		before, v = v, next
	}
	return b.make(opDiv, v, b.num(math.Sqrt(p.Norms[len(p.Alpha)])))
}

// arithmetic is an expression of columns.
func (b *builder) arithmetic(text string) ref {
	r, err := terms.Fold(text, b.num, b.number, func(o string, args ...ref) ref {
		if o == "-" && len(args) == 1 {
			return b.make(opNeg, args...)
		}
		return b.make(op(o), args...)
	})
	if err != nil {
		b.err = err
	}
	return r
}
