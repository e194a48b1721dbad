package network

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/native"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/recheck"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/stream"
	"github.com/gatedlearning/moe/sdk"
)

// Request says what is to be fitted. Only K must be set.
type Request struct {
	K       int
	Output  Output
	V       []float64 // the output weights, with [Given]
	Starts  int       // random starts beside the tensors'
	More    int       // at most so many starts beside these, as long as fewer than three agree
	Descent int       // steps of gradient descent before Levenberg–Marquardt
	// TensorsOnly asks for the tensors' estimate and nothing else; NoTensors for
	// random starts alone.
	TensorsOnly, NoTensors bool

	Seed        uint64
	Threads     int
	Approximate bool // see [problem.Request]
}

// Start is one start of a fit and where it led.
type Start struct {
	Kind         string // tensors, random, or signs: random weights with the signs of v that fit them well
	AtStart      float64
	Descended    *optim.Result
	StepSize     float64
	Rate         float64 // see [Fit]
	Result       *optim.Result
	AfterDescent float64
	Agrees       bool
	Network      *model.Network
}

// Result is a fitted network.
type Result struct {
	Schema      dataset.Schema
	Network     *model.Network
	Loss        float64 // mean of (y − f(x))²/2
	N           int
	Weight      float64
	Starts      []Start // the first is the tensors', where there is one
	Best        int     // of Starts
	Tensors     *Tensors
	Certificate *infer.Certificate
	Native      native.Evaluator
	Odd         bool // φ is odd about a constant
	Notes       []string
}

const (
	// agreement is how far above the least loss a start may end that agrees with
	// it, relative to that loss and to the mean square of y.
	agreement, agreementOfY = 1e-6, 1e-12
	// precision of Levenberg–Marquardt, relative to the mean square of y: the fall
	// of the loss that is still promised.
	precision = 1e-14
)

// Fit learns a network from the rows of src: the tensors' estimate, random
// starts, and more as long as fewer than three agree, each by gradient descent with a step
// of the inverse of the largest curvature at its start (003), then by Levenberg–Marquardt; the least loss wins,
// and the residuals have to show no sign of units that are missing or merged
// ([Certify]). Where the rows do not tell its weights the optimum is not judged. The rate of a descent is the factor by
// which its last steps bring the loss nearer to where Levenberg–Marquardt ends, a step.
//
// Errors: [*problem.RequestError] for an even or constant activation, more units
// than features, zeros in v, and a request for tensors that the activation does
// not have; those of src, of act and of ctx.
func Fit(ctx context.Context, src dataset.Source, act sdk.Activation, r Request) (*Result, error) {
	f, err := prepare(ctx, src, act, r)
	if err != nil {
		return nil, err
	}
	if !r.NoTensors {
		if err := f.tensors(ctx); err != nil {
			return nil, err
		}
	}
	if r.TensorsOnly {
		return f.out, f.finish(ctx, f.out.Tensors.Network)
	}
	for i := range r.Starts {
		f.from = append(f.from, f.random(stream.New(r.Seed, stream.NetworkStart, i)))
	}
	if len(f.from) == 0 {
		return nil, refuse("no starts: ask for tensors or for random starts")
	}
	for _, s := range f.from {
		if err := f.climb(ctx, s); err != nil {
			return nil, err
		}
	}
	agreeing, err := f.more(ctx)
	if err != nil {
		return nil, err
	}
	if err := f.finish(ctx, f.out.Starts[f.out.Best].Network); err != nil {
		return nil, err
	}
	evidence := infer.Evidence{Starts: len(f.out.Starts), Agreeing: agreeing}
	var constant string
	f.out.Certificate, constant, err = Certify(ctx, f.rows, f.out.Native, f.out.Network, f.Output, evidence, r.Threads)
	if err != nil {
		return nil, err
	}
	if constant != "" {
		f.out.Notes = append(f.out.Notes, constant)
	}
	return f.out, f.identify(ctx)
}

// more makes starts until three agree, at most More of them, and tries other signs from where they do. It returns
// how many agree on the best.
func (f *fit) more(ctx context.Context) (agreeing int, err error) {
	agreeing = f.compare()
	for made := 0; ; {
		for ; made < f.More && agreeing < infer.AgreeingStarts; made++ {
			s, err := f.signed(ctx, stream.New(f.Seed, stream.NetworkStart, f.Starts+made), made)
			if err != nil {
				return 0, err
			}
			if err := f.climb(ctx, s); err != nil {
				return 0, err
			}
			agreeing = f.compare()
		}
		best := f.out.Best
		if f.More > 0 && agreeing >= infer.AgreeingStarts {
			if err := f.turn(ctx); err != nil {
				return 0, err
			}
			agreeing = f.compare()
		}
		if f.out.Best == best || made >= f.More {
			return agreeing, nil
		}
	}
}

// turn makes a start with every other number of positive v_i, from the best network: it turns one unit after the
// other, (v_i, w_i) to (−v_i, −w_i) or to (−v_i, w_i), always that at which the loss is least. For a φ that is odd
// about a constant c the first changes a prediction by 2c·v_i alone. Where the tensors' start agrees with the best one
// the signs were told in two ways, and a start is made only where the loss is below the best one at once.
func (f *fit) turn(ctx context.Context) error {
	if f.Output != Signs || f.curves.signless() {
		return nil
	}
	best := f.out.Starts[f.out.Best]
	told := f.out.Starts[0].Kind == "tensors" && f.out.Starts[0].Agrees
	for _, sign := range []float64{1, -1} {
		n := best.Network.Clone()
		for {
			least, unit, along := math.Inf(1), -1, 1.0
			for i, v := range n.Output {
				if v != sign {
					continue
				}
				for _, by := range []float64{-1, 1} {
					loss, err := f.turned(ctx, n, i, by)
					if err != nil {
						return err
					}
					if loss < least {
						least, unit, along = loss, i, by
					}
				}
			}
			if unit < 0 {
				break
			}
			n.Output[unit] = -sign
			floats.Scale(along, n.Unit(unit))
			if told && !(least < best.Result.Value) {
				continue
			}
			if err := f.climb(ctx, from{"signs", n.Clone()}); err != nil {
				return err
			}
		}
	}
	return nil
}

// turned is the loss with −v_i in the stead of v_i, and w_i times by.
func (f *fit) turned(ctx context.Context, n *model.Network, i int, by float64) (float64, error) {
	n = n.Clone()
	n.Output[i] = -n.Output[i]
	floats.Scale(by, n.Unit(i))
	l, err := f.loss(n)
	if err != nil {
		return 0, err
	}
	return l.Value(ctx, l.Theta(n))
}

// from is a start before it has run.
type from struct {
	kind string
	net  *model.Network
}

// fit is a fit on its way.
type fit struct {
	Request
	act    sdk.Activation
	rows   model.Rows
	curves *curves
	inputs *problem.Inputs
	sums   *tensor.Second
	from   []from
	out    *Result
}

// prepare reads the rows and refuses what cannot be fitted.
func prepare(ctx context.Context, src dataset.Source, act sdk.Activation, r Request) (*fit, error) {
	f := &fit{Request: r, act: act, out: &Result{Schema: src.Schema()}}
	d := len(f.out.Schema.Features)
	switch {
	case r.K < 1:
		return nil, refuse("k = %d, want at least 1", r.K)
	case r.K > d:
		return nil, refuse("k = %d units over d = %d features: their weights cannot be linearly independent; want k "+
			"of at most d", r.K, d)
	case f.out.Schema.Target == "":
		return nil, refuse("the data have no target column")
	case r.Output == Given && len(r.V) != r.K:
		return nil, refuse("%d output weights for k = %d units", len(r.V), r.K)
	}
	for i, v := range r.V {
		if v == 0 || !numeric.Finite(v) {
			return nil, refuse("output weight %d is %v: a unit that does not enter y cannot be learned; want numbers "+
				"other than 0", i+1, v)
		}
	}
	if _, err := problem.MomentsOf(ctx, act); err != nil {
		return nil, err
	}
	var err error
	if f.curves, err = curvesOf(ctx, act); err != nil {
		return nil, err
	}
	if f.curves.vanishes(1) && f.curves.vanishes(3) {
		return nil, refuseEven(act)
	}
	f.out.Odd = f.curves.odd()
	if f.out.Native, err = native.EvaluatorOf(ctx, act, r.Approximate); err != nil {
		return nil, err
	}
	data, err := dataset.Load(ctx, src)
	if err != nil {
		return nil, err
	}
	if err := problem.CheckColumns(ctx, data, f.out.Schema); err != nil {
		return nil, err
	}
	if q := r.K * (d + 1); q >= data.N {
		return nil, &dataset.Error{File: f.out.Schema.Name,
			Msg: "too few rows for the parameters of the network; use more rows or a smaller k"}
	}
	f.rows, f.out.N = data, data.N
	if f.sums, err = tensor.SumSecond(ctx, f.rows, r.Threads); err != nil {
		return nil, err
	}
	f.out.Weight = f.sums.Y[0]
	weights, err := problem.WeightsOf(ctx, f.rows)
	if err != nil {
		return nil, err
	}
	if weights.Doubt && !weights.Light() { // of light ones the certificate says it
		f.out.Notes = append(f.out.Notes, infer.Uncounted(weights.Rows, weights.Total))
	}
	f.inputs, err = problem.InputsOf(f.sums)
	return f, err
}

// refuseEven says why an even activation cannot be fitted.
func refuseEven(act sdk.Activation) error {
	return refuse("activation %s is even: w_i and -w_i give the same network, and no data can tell their signs; no "+
		"even one is fitted, want one that is not, such as relu", act.Info().Name)
}

// tensors adds the tensors' estimate to the starts. Where there can be none, that
// is an error if nothing else was asked for, else a note.
func (f *fit) tensors(ctx context.Context) error {
	none := func(err error) error {
		var request *problem.RequestError
		if f.TensorsOnly || !errors.As(err, &request) {
			return err
		}
		f.out.Notes = append(f.out.Notes, "no tensor initialisation: "+err.Error())
		return nil
	}
	if !f.inputs.Standard() {
		return none(refuse("the inputs are not N(0, I): %s", f.inputs.Far))
	}
	subspace, terms, err := f.curves.ordersOf(f.act)
	if err != nil {
		return none(err)
	}
	_, d := f.rows.Dims()
	e := &estimator{
		rows: f.rows, curves: f.curves, k: f.K, d: d, output: f.Output, given: f.V,
		rng: stream.New(f.Seed, stream.NetworkTensors, 0), workers: f.Threads,
	}
	if f.out.Tensors, err = e.estimate(ctx, subspace, terms); err != nil {
		return err
	}
	if f.out.Tensors == nil {
		return none(refuse("the moment tensors of %d rows do not have %d rank-1 terms", f.out.N, f.K))
	}
	f.from = append(f.from, from{"tensors", f.out.Tensors.Network})
	return nil
}

// random draws a start: random directions of the length at which independent
// units give y its variance, v as given, or random signs.
func (f *fit) random(rng *rand.Rand) from {
	_, d := f.rows.Dims()
	n := model.NewNetwork(f.K, d)
	copy(n.Weights, model.RandomDirections(rng, f.K, d))
	squares := 0.0
	for i := range n.Output {
		n.Output[i] = 1
		if rng.Float64() < 0.5 && !f.curves.signless() {
			n.Output[i] = -1
		}
		if f.Output == Given {
			n.Output[i] = f.V[i]
		}
		squares += n.Output[i] * n.Output[i]
	}
	variance := f.sums.MeanY(2) - f.sums.MeanY(1)*f.sums.MeanY(1)
	s, _ := f.curves.minimise(func(s float64) float64 {
		return math.Abs(math.Log(squares * f.curves.variance(s) / variance))
	})
	if f.Output == UnitRows {
		floats.Scale(math.Sqrt(variance/(squares*f.curves.variance(1))), n.Output)
	} else {
		floats.Scale(s, n.Weights)
	}
	return from{"random", n}
}

// signed draws a random start in which the signs of v fit the weights: the number of units with v_i > 0 is that of the
// least loss there, and in every third start that of the second. Units are drawn alike, so which of them is no
// matter. The mean of y tells of their number, and a descent does not change it. Where v is given, or its signs are no
// matter, it is random's.
func (f *fit) signed(ctx context.Context, rng *rand.Rand, number int) (from, error) {
	s := f.random(rng)
	if f.Output == Given || f.curves.signless() {
		return s, nil
	}
	s.kind = "signs"
	losses := make([]float64, f.K+1)
	for positive := range losses {
		sign(s.net.Output, positive)
		l, err := f.loss(s.net)
		if err != nil {
			return s, err
		}
		if losses[positive], err = l.Value(ctx, l.Theta(s.net)); err != nil {
			return s, err
		}
	}
	order := make([]int, len(losses))
	floats.Argsort(losses, order)
	at := 0
	if number%3 == 2 {
		at = 1
	}
	sign(s.net.Output, order[at])
	return s, nil
}

// sign makes the first of v positive, and the others negative.
func sign(v []float64, positive int) {
	for i := range v {
		v[i] = math.Abs(v[i])
		if i >= positive {
			v[i] = -v[i]
		}
	}
}

// loss is that of networks with the output weights of n, or with any where they are to be found.
func (f *fit) loss(n *model.Network) (*Loss, error) {
	v := n.Output
	if f.Output == UnitRows {
		v = nil
	}
	return NewLoss(f.out.Native, f.rows, f.K, v, f.Threads)
}

// climb runs a start to its end.
func (f *fit) climb(ctx context.Context, s from) error {
	l, err := f.loss(s.net)
	if err != nil {
		return err
	}
	x := l.Theta(s.net)
	out := Start{Kind: s.kind}
	if out.StepSize, out.AtStart, err = StepSize(ctx, l, x); err != nil {
		return err
	}
	out.AfterDescent = out.AtStart
	if f.Descent > 0 && out.StepSize > 0 {
		out.Descended, err = optim.Projected(ctx, l, x,
			optim.ProjectedSettings{Iterations: f.Descent, StepSize: out.StepSize, Tolerance: 1e-12})
		if err != nil {
			return err
		}
		if out.Descended.Status != optim.Diverged && out.Descended.Value < out.AtStart {
			x, out.AfterDescent = out.Descended.X, out.Descended.Value
		}
	}
	scale := f.sums.MeanY(2)
	out.Result, err = optim.Newton(ctx, l, x, optim.Settings{Iterations: 300, Tolerance: precision * scale,
		Slack: 1e-9 * scale})
	if err != nil {
		return err
	}
	if out.Descended != nil {
		out.Rate = rate(out.Descended.Trace, out.Result.Value)
	}
	out.Network = l.Network(out.Result.X)
	f.out.Starts = append(f.out.Starts, out)
	return nil
}

// StepSize returns the inverse of the largest curvature at θ, 0 where there is none,
// and the loss: the step of the descents of [Fit].
func StepSize(ctx context.Context, l *Loss, theta []float64) (size, value float64, err error) {
	h := mat.NewSymDense(l.Dim(), nil)
	if value, err = l.Hessian(ctx, h, make([]float64, l.Dim()), theta); err != nil {
		return 0, 0, err
	}
	var eig mat.EigenSym
	if !numeric.Finite(value) || !eig.Factorize(h, false) {
		return 0, value, nil
	}
	values := eig.Values(nil)
	if largest := values[len(values)-1]; largest > 0 {
		size = 1 / largest
	}
	return size, value, nil
}

// rateSteps is the number of last steps over which the rate is taken.
const rateSteps = 50

// rate is the factor by which the last steps of a descent bring the loss nearer to
// end, a step; 0 where it has come there.
func rate(trace []float64, end float64) float64 {
	last := len(trace) - 1
	from := max(0, last-rateSteps)
	a, b := trace[from]-end, trace[last]-end
	if !(a > 0 && b > 0) || last == from {
		return 0
	}
	return math.Pow(b/a, 1/float64(last-from))
}

// compare finds the best start and those that agree with it, and returns how many these are.
func (f *fit) compare() (agreeing int) {
	for i, s := range f.out.Starts {
		if s.Result.Value < f.out.Starts[f.out.Best].Result.Value {
			f.out.Best = i
		}
	}
	best := f.out.Starts[f.out.Best].Result.Value
	for i := range f.out.Starts {
		s := &f.out.Starts[i]
		s.Agrees = s.Result.Value <= best*(1+agreement)+agreementOfY*f.sums.MeanY(2)
		if s.Agrees {
			agreeing++
		}
	}
	return agreeing
}

// finish takes the network, with the loss, computed twice, and the residuals' rms as its noise.
func (f *fit) finish(ctx context.Context, n *model.Network) error {
	l, err := NewLoss(f.out.Native, f.rows, f.K, n.Output, f.Threads)
	if err != nil {
		return err
	}
	if f.out.Loss, err = l.Value(ctx, n.Weights); err != nil {
		return err
	}
	second := recheck.NetworkFit{Rows: f.rows, Act: f.out.Native, Network: n, Loss: f.out.Loss, Workers: f.Threads}
	if err := second.Check(ctx); err != nil {
		return err
	}
	f.out.Network = n.Clone()
	f.out.Network.Sigma = math.Sqrt(2 * f.out.Loss)
	return nil
}

// Converged says whether the best start ended at a minimum.
func (r *Result) Converged() bool {
	return len(r.Starts) == 0 || r.Starts[r.Best].Result.Status == optim.Converged
}
