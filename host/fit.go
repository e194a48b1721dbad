// Package host fits mixtures of experts: the moment estimate of the papers,
// the likelihood that refines it, and the search that makes sure of the
// optimum.
package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/native"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
	"gonum.org/v1/gonum/floats"
)

// Fit fits a mixture of cfg.K experts with nonlinearity act to the rows of src
// by the method that cfg names. It reads like the paper:
//
//	moments of g → Q4, Q2 → T̂2 → its span → T̂4 there → L4 → regressors → signs
//	→ L_log → gating → joint likelihood
//
// The result is the same at any number of threads. A fit that did not converge
// is returned with Fit.Converged false, not as an error. Errors: [*RequestError]
// where the request does not fit the data or the activation, those of src, of
// act and of ctx.
func Fit(ctx context.Context, act sdk.Activation, src dataset.Source, cfg Config) (*fitted.Model, error) {
	f, err := prepare(ctx, act, src, cfg)
	if err != nil {
		return nil, err
	}
	return f.run(ctx)
}

// prepare does all that does not depend on k.
func prepare(ctx context.Context, act sdk.Activation, src dataset.Source, cfg Config) (*fit, error) {
	if err := cfg.checkUse(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	f := &fit{cfg: cfg, request: cfg, sdk: act, act: act, schema: src.Schema()}
	if err := f.load(ctx, src); err != nil {
		return nil, err
	}
	if err := f.firstPass(ctx); err != nil {
		return nil, err
	}
	return f, f.approximate(ctx)
}

// run fits cfg.K experts by the method asked for.
func (f *fit) run(ctx context.Context) (*fitted.Model, error) {
	if err := f.resume(); err != nil {
		return nil, err
	}
	switch f.cfg.Method {
	case MethodMoments:
		return f.byMoments(ctx)
	case MethodEM:
		return f.byEM(ctx)
	case MethodL2:
		return f.byL2(ctx)
	case MethodL4:
		return f.byL4(ctx)
	default:
		return f.byEverything(ctx)
	}
}

// fit is the state of one fit on its way through the method.
type fit struct {
	cfg     Config
	request Config // cfg as it was asked for, where a range of k changes it
	sdk     sdk.Activation
	act     model.Activation
	schema  dataset.Schema
	weight  weighting
	shape   shape
	data    *model.Data
	units   *standard // of the features in data; nil: the user's own

	moments   sdk.Moments
	transform solver.Transform
	verdict   solver.Verdict
	second    *tensor.Second
	inputs    *inputs
	span      *span           // nil where T̂2 cannot give one
	estimate  *momentEstimate // nil where the tensors cannot give one
	descent   Descent         // of methods l2 and l4, complete
	descended *fitted.Descent // what came of it
	projected *model.Data     // the racing part in the span's coordinates
	resumed   *progress       // where an earlier run of this fit stood; nil for a new one
	before    *chosen         // what a range of k has come to; nil for a single k
	scale     float64         // norm of the regressors of a start
	native    *native.Coefficients
	notes     []string

	certificate *infer.Certificate // nil where there is none
}

// load reads the data and refuses what no method can fit.
func (f *fit) load(ctx context.Context, src dataset.Source) (err error) {
	f.progress(StageRead, 0, 0)
	if err := f.resolve(); err != nil {
		return err
	}
	if f.schema.Target == "" {
		return &RequestError{"the data have no target column"}
	}
	if m := f.cfg.Method; f.schema.Weights != "" && (m == MethodL2 || m == MethodL4) {
		return &RequestError{"method " + m + " knows no weights; methods auto, moments and em do"}
	}
	if f.data, err = dataset.Load(ctx, src); err != nil {
		return err
	}
	f.weight = weigh(f.data)
	f.noteWeights()
	k, n := f.cfg.K, f.weight.rows
	if k > n {
		return &RequestError{fmt.Sprintf("k = %d experts for %d rows; choose a smaller k", k, n)}
	}
	if f.descent, err = f.cfg.Descent.of(f.cfg.Method, n); err != nil {
		return err
	}
	if s := f.cfg.Start; s != nil && (s.K != k || s.D != f.data.D) {
		return &RequestError{fmt.Sprintf("the start has k = %d and d = %d, the fit k = %d and d = %d", s.K, s.D, k, f.data.D)}
	}
	if err := dataset.CheckColumns(f.data, f.schema); err != nil {
		return err
	}
	if err := checkMagnitudes(f.data, f.schema); err != nil {
		return err
	}
	f.weight.even(f.data)
	if p := f.parameters(); p >= n {
		return &dataset.Error{File: f.schema.Name, Msg: fmt.Sprintf("%d rows cannot determine the %d parameters of k = %d experts over %d features; use more rows, fewer features or a smaller k", n, p, k, f.data.D)}
	}
	return nil
}

// parameters counts the free parameters.
func (f *fit) parameters() int {
	width := func(named []int, intercept bool) int {
		n := f.data.D
		if named != nil {
			n = len(named)
		}
		if intercept {
			n++
		}
		return n
	}
	p := f.cfg.K*width(f.shape.experts, f.shape.intercept) +
		(f.cfg.K-1)*width(f.shape.gate, f.shape.intercept || f.cfg.Gate == GateConstant)
	switch {
	case f.cfg.Sigma > 0:
	case f.shape.perExpert:
		p += f.cfg.K
	default:
		p++
	}
	return p
}

// firstPass takes the activation's moments and transforms, and from one pass
// over the data T̂2 with everything else that its sums can tell: σ, whether x is
// N(0, I), and the span of the regressors.
func (f *fit) firstPass(ctx context.Context) (err error) {
	f.progress(StageMoments, 0, 2)
	if f.moments, err = sdk.MomentsOf(ctx, f.sdk); err != nil {
		return err
	}
	if err := varies(f.sdk, f.moments); err != nil {
		return err
	}
	if f.second, err = tensor.SumSecond(ctx, f.data, f.cfg.Threads); err != nil {
		return err
	}
	sigma, z := sigmaFromNorms(f.second, f.moments)
	if f.cfg.Sigma > 0 {
		sigma = f.cfg.Sigma
	}
	f.scale = 1
	if ratio := f.second.MeanY(2) / f.moments.Value[2][0]; z < -4 || ratio > 1.5 {
		f.scale = math.Sqrt(ratio)
	}
	if f.inputs, err = checkInputs(f.second); err != nil {
		return err
	}
	if !f.inputs.standard() || f.shape.intercept {
		if err := f.inOwnUnits(ctx); err != nil {
			return err
		}
	}
	system, err := sdk.SystemOf(ctx, f.sdk, sigma)
	if err != nil {
		return err
	}
	f.transform, f.verdict = solver.Solve(f.moments, system, sigma)
	f.unitNorm(z)
	return f.lead()
}

// lead finds the span of the regressors of k experts, where T̂2 can give one.
func (f *fit) lead() error {
	if f.transform.C2 == 0 || f.data.D < f.cfg.K {
		return nil
	}
	s, err := leadingSpan(f.second, f.inputs, f.transform, f.cfg.K)
	if err != nil {
		return err
	}
	if s.positive() {
		f.span = s
	}
	return nil
}

// inOwnUnits standardises features that are not N(0, I) and sums them anew.
func (f *fit) inOwnUnits(ctx context.Context) (err error) {
	f.standardise()
	if f.second, err = tensor.SumSecond(ctx, f.data, f.cfg.Threads); err != nil {
		return err
	}
	far := f.inputs.far
	f.inputs, err = checkInputs(f.second)
	if err == nil && far != "" {
		f.inputs.far = far
	}
	return err
}

// approximate lets a native approximation stand in for the activation in
// everything that iterates, where that was asked for and can be had.
func (f *fit) approximate(ctx context.Context) error {
	if !f.cfg.Approximate {
		return nil
	}
	fn, err := native.Build(ctx, f.sdk)
	if rough := (*native.RoughError)(nil); errors.As(err, &rough) {
		f.note(rough.Error() + "; every value was asked of it")
		return nil
	}
	if err != nil {
		return err
	}
	f.act, f.native = fn, fn.Coefficients()
	return nil
}

// secondPass takes T̂4 in the span, minimises L4 there, and sets the estimate
// of regressors and proportions with their signs. Where it cannot, it says why.
func (f *fit) secondPass(ctx context.Context) (obstacle string, err error) {
	f.progress(StageMoments, 1, 2)
	if obstacle = f.obstacle(); obstacle != "" {
		return obstacle, nil
	}
	fourth, err := tensor.SumFourth(ctx, f.data, f.span.basis, f.span.centre, f.cfg.Threads)
	if err != nil {
		return "", err
	}
	rng := rand.New(rand.NewPCG(f.cfg.Seed, 1<<33))
	e, err := estimateRegressors(ctx, fourth, f.span, f.transform, f.cfg.Mu, rng)
	if err != nil {
		return err.Error(), ctx.Err()
	}
	f.adoptEstimate(e)
	return "", nil
}

// adoptEstimate gives the estimate its signs, where the first moment tells them,
// and makes it the fit's.
func (f *fit) adoptEstimate(e *momentEstimate) {
	if why := e.chooseSigns(f.second.YX(), f.moments); why != "" && f.verdict.SignsIdentifiable {
		f.note("the first moment does not tell the regressors' signs: " + why)
	}
	f.estimate = e
}

// obstacle says which assumption of the moment estimate fails so badly that
// there is none.
func (f *fit) obstacle() string {
	if why := f.unidentified(); why != "" {
		return why
	}
	if f.span == nil {
		return fmt.Sprintf("T2 from %d rows does not have %d positive eigenvalues", f.data.N, f.cfg.K)
	}
	return ""
}

// unidentified says why the moment tensors do not determine the regressors,
// whatever the number of rows.
func (f *fit) unidentified() string {
	k, d := f.cfg.K, f.data.D
	switch {
	case !f.verdict.Valid:
		return fmt.Sprintf("%s is not a valid nonlinearity: %s", f.sdk.Info().Name, f.verdict.Reasons[0])
	case d <= 2*k-1:
		return fmt.Sprintf("d = %d is not above 2k-1 = %d", d, 2*k-1)
	}
	return ""
}

// gating fits the gate, and σ where it is free, by L_log with the regressors
// as they are, from W = 0 and a σ as large as the target's spread (002 §3.2).
func (f *fit) gating(ctx context.Context, data *model.Data, p *model.Params, workers int) (*model.Params, *optim.Result, error) {
	p = p.Clone()
	for i := range p.Sigma {
		p.Sigma[i] = f.spread()
	}
	l := loss.NewLikelihood(data, f.act, p, loss.Free{Gating: true, Sigma: true, GateColumns: f.shape.gate}, workers)
	run, err := refine(ctx, l, l.Theta(p), nil)
	if err != nil {
		return nil, nil, err
	}
	return l.Params(run.X), run, nil
}

// byMoments is the paper alone: regressors from the tensors, gating by L_log.
func (f *fit) byMoments(ctx context.Context) (*fitted.Model, error) {
	obstacle, err := f.secondPass(ctx)
	if err != nil {
		return nil, err
	}
	if obstacle != "" {
		return nil, &RequestError{"the moment estimate is not to be had: " + obstacle + "; method auto falls back to the likelihood"}
	}
	f.noteInputs()
	c := &climber{kind: KindMoments, rows: f.data.N, agrees: true}
	if c.params, c.run, err = f.gatingAlone(ctx, f.adopt(f.estimate.params)); err != nil {
		return nil, err
	}
	if c.failed() {
		return nil, f.noneFinite()
	}
	f.noteNoCertificate()
	return f.model(ctx, c, []*climber{c})
}

// gatingAlone is gating on all rows, with σ as given where it is, and within the
// radius where there is one.
func (f *fit) gatingAlone(ctx context.Context, p *model.Params) (*model.Params, *optim.Result, error) {
	if f.cfg.Radius > 0 {
		return f.gatingWithin(ctx, p)
	}
	p, run, err := f.gating(ctx, f.data, p, f.cfg.Threads)
	if err != nil || f.cfg.Sigma == 0 {
		return p, run, err
	}
	f.fixSigma(p)
	l := loss.Log(f.data, f.act, p, f.cfg.Threads)
	if run, err = refine(ctx, l, l.Theta(p), nil); err != nil {
		return nil, nil, err
	}
	return l.Params(run.X), run, nil
}

// noteNoCertificate says why a method without a joint likelihood has none.
func (f *fit) noteNoCertificate() {
	f.note("no certificate: it judges a maximum of the joint likelihood, which method " + f.cfg.Method + " does not look for")
}

// byEverything is method auto: the moment estimate and other starts race on
// part of the data; the best is refined on all of it by the joint likelihood.
func (f *fit) byEverything(ctx context.Context) (*fitted.Model, error) {
	obstacle, err := f.secondPass(ctx)
	if err != nil {
		return nil, err
	}
	if obstacle != "" {
		f.note("no moment estimate: " + obstacle + "; the likelihood was maximised from other starts")
	}
	f.noteInputs()
	part := partOf(f.data, f.raceRows())
	if f.span != nil && f.cfg.K > 1 {
		f.projected = f.span.project(part)
	}
	best, all, err := f.search(ctx, part)
	if err != nil {
		return nil, err
	}
	return f.model(ctx, best, all)
}

// raceRows is the number of rows on which the starts race: all of them where
// that would not save much.
func (f *fit) raceRows() int {
	rows := max(raceRows, raceRowsPerParam*f.parameters())
	if 2*rows > f.data.N {
		return f.data.N
	}
	return rows
}

// byEM is joint EM from random starts, the paper's baseline: with σ fixed where
// it is given, free otherwise.
func (f *fit) byEM(ctx context.Context) (*fitted.Model, error) {
	all := f.randomStarts()
	err := f.side(ctx, all, 0, func(ctx context.Context, c *climber, rng *rand.Rand) error {
		p, free := f.randomStart(rng), f.free()
		if c.kind == KindOwn {
			p = f.ownStart()
		}
		if f.cfg.Sigma > 0 {
			f.fixSigma(p)
			free.Sigma = false
		}
		l := loss.NewLikelihood(f.data, f.act, p, free, 1)
		var err error
		if c.run, err = optim.EM(ctx, l, l.Theta(p), optim.Settings{Iterations: 2000, Tolerance: 1e-10}); err != nil {
			return err
		}
		c.params, c.rows = l.Params(c.run.X), f.data.N
		return nil
	})
	if err != nil {
		return nil, err
	}
	f.settled(all, sameOptimum/float64(f.data.N))
	if all[0].failed() {
		return nil, f.noneFinite()
	}
	if err := f.certify(ctx, all[0], all); err != nil {
		return nil, err
	}
	return f.model(ctx, all[0], all)
}

// fixSigma gives p the noise level that the user knows.
func (f *fit) fixSigma(p *model.Params) {
	for i := range p.Sigma {
		p.Sigma[i] = f.cfg.Sigma
	}
}

// momentStart is the moment estimate with its gate fitted on the racing part.
func (f *fit) momentStart(ctx context.Context) (*model.Params, error) {
	p := f.adopt(f.estimate.params)
	floats.Scale(f.scale, p.Regressors)
	p, _, err := f.gating(ctx, partOf(f.data, f.raceRows()), p, 1)
	return p, err
}

// spread is the target's rms, the σ that starts begin with: large, so that
// early posteriors are soft.
func (f *fit) spread() float64 { return math.Sqrt(f.second.MeanY(2)) }

func (f *fit) note(text string) { f.notes = append(f.notes, text) }

// noteInputs says what shows that x is not N(0, I).
func (f *fit) noteInputs() {
	if !f.inputs.standard() {
		f.note("the inputs are not N(0, I): " + f.inputs.far + "; the moment tensors carry no guarantee here and give starts only")
	}
}

// unitNorm notes where regressors of unit norm cannot be: E[y²] is then
// E[g(Z)²] + σ², and σ² may be neither negative nor many times the signal.
func (f *fit) unitNorm(z float64) {
	if z < -4 {
		f.note("the target's second moment is below what unit regressors give: their norms are free in the likelihood, the moment estimate's are not")
	}
}
