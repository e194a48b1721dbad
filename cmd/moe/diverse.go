package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/diverse"
)

func newDiverseCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diverse",
		Short: "Look at networks whose own weights make them easy to train",
		Long: `diverse is about networks

    f(x) = v_1*max(<w_1, x>, 0) + ... + v_n*max(<w_n, x>, 0),   v_k = +1 or -1

on m points x uniform on the unit sphere, with weights w ~ N(0, I): where these are
diverse, a small gradient of the loss means a small loss.`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDiverseGramCmd(), newDiverseTrainCmd())
	return cmd
}

// diverseFlags are what the subcommands have in common.
type diverseFlags struct {
	n, m, d int
	seed    uint64
}

// Bounds of the work: eigenvalues of m×m matrices, and n×m and n×n products.
const (
	mostPoints   = 2000
	mostWeights  = 20000
	mostInOnes   = 50_000_000 // of n·m and n·d
	mostTraining = 5000       // weights of a training: R is over their pairs
)

func (f *diverseFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&f.n, "n", 0, "number of weights (required)")
	flags.IntVar(&f.m, "m", 0, "number of points (required)")
	flags.IntVar(&f.d, "d", 0, "number of dimensions, at least 2 (required)")
	addSeed(cmd, &f.seed)
	for _, name := range []string{"n", "m", "d"} {
		cobra.CheckErr(cmd.MarkFlagRequired(name))
	}
}

func (f *diverseFlags) check(mostN int) error {
	switch {
	case f.n < 2 || f.n > mostN:
		return usagef("--n %d: want 2 to %d", f.n, mostN)
	case f.m < 1 || f.m > mostPoints:
		return usagef("--m %d: want 1 to %d", f.m, mostPoints)
	case f.d < 2:
		return usagef("--d %d: want at least 2", f.d)
	case f.n > mostInOnes/f.m || max(f.n, f.m) > mostInOnes/f.d:
		return usagef("--n %d --m %d --d %d: want n*m, n*d and m*d of at most %d", f.n, f.m, f.d, mostInOnes)
	}
	return nil
}

func newDiverseGramCmd() *cobra.Command {
	f := new(diverseFlags)
	cmd := &cobra.Command{
		Use:   "gram --n N --m M --d D",
		Short: "Gram matrices of points and weights, their spectra, and the discrepancy",
		Long: `gram draws m points on the unit sphere of R^d and n weights N(0, I), and says what
G_ij = k(<x_i,x_j>)*<x_i,x_j>, with k(u) = 1/2 - arccos(u)/(2*pi), and its counterpart
G_n of the weights have for eigenvalues; how far they are apart; the kernel's own
eigenvalue gamma_m; the weights' discrepancy L2 and regulariser R with its gradient.

The exit code is 0 where the least eigenvalue of G_n is above 0, so that a gradient of
0 means a loss of 0, and 1 where it is not.`,
		Example: `  moe diverse gram --n 400 --m 100 --d 20
  moe diverse gram --n 50 --m 100 --d 20 --seed 2 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.gram(cmd) },
	}
	f.register(cmd)
	return cmd
}

func (f *diverseFlags) gram(cmd *cobra.Command) error {
	if err := f.check(mostWeights); err != nil {
		return err
	}
	draw := diverse.NewDraw(f.seed, f.n, f.m, f.d)
	s, err := draw.Spectra()
	if err != nil {
		return err
	}
	flat, grad := draw.W.RawMatrix().Data, make([]float64, f.n*f.d)
	r, err := diverse.Regulariser{N: f.n, D: f.d}.Grad(cmd.Context(), grad, flat)
	if err != nil {
		return err
	}
	ideal, own := s.Least()
	holds := own > diverse.Singular*s.Own[0]
	if !holds {
		own = 0
	}
	norm := 0.0
	for _, g := range grad {
		norm = math.Hypot(norm, g)
	}
	out := diverseGramJSON{
		N: f.n, M: f.m, D: f.d, Seed: f.seed, G: s.Ideal, Gn: s.Own, LeastG: ideal, LeastGn: own, Apart: s.Apart,
		Weyl: ideal - s.Apart, Gamma: diverse.Gamma(f.d, f.m)[f.m-1],
		Discrepancy: math.Sqrt(max(diverse.Discrepancy(draw.W), 0)),
		Random:      math.Sqrt((0.25 - diverse.MeanSquare(f.d)) / float64(f.n)), Regulariser: r, Gradient: norm,
		FullRank: holds,
	}
	if wantsJSON(cmd) {
		err = printJSON(cmd, out)
	} else {
		err = out.say(cmd)
	}
	if err == nil && !holds {
		return errNo
	}
	return err
}

// diverseGramJSON is the JSON of moe diverse gram.
type diverseGramJSON struct {
	N           int       `json:"n"`
	M           int       `json:"m"`
	D           int       `json:"d"`
	Seed        uint64    `json:"seed"`
	G           []float64 `json:"g_eigenvalues"`
	Gn          []float64 `json:"gn_eigenvalues"`
	LeastG      float64   `json:"g_least"`
	LeastGn     float64   `json:"gn_least"`
	Apart       float64   `json:"distance"`
	Weyl        float64   `json:"weyl_bound"`
	Gamma       float64   `json:"gamma_m"`
	Discrepancy float64   `json:"discrepancy"`
	Random      float64   `json:"discrepancy_expected"`
	Regulariser float64   `json:"regulariser"`
	Gradient    float64   `json:"regulariser_gradient"`
	FullRank    bool      `json:"full_rank"`
}

func (j diverseGramJSON) say(cmd *cobra.Command) error {
	answer := "A gradient of 0 means a loss of 0: D has rank m"
	if !j.FullRank {
		answer = "A gradient of 0 can leave a loss: D has a rank below m"
	}
	return errors.Join(
		say(cmd, "%s, for these %d weights on %d points of the sphere of R^%d.\n", answer, j.N, j.M, j.D),
		say(cmd, "eigenvalues of G     largest %.4g  median %.4g  least %.4g", j.G[0], j.G[j.M/2], j.LeastG),
		say(cmd, "eigenvalues of G_n   largest %.4g  median %.4g  least %.4g", j.Gn[0], j.Gn[j.M/2], j.LeastGn),
		say(cmd, "|G - G_n|            %.4g, so that the least of G_n is at least %.4g (Weyl)", j.Apart, j.Weyl),
		say(cmd, "m*gamma_m/2          %.4g, with gamma_m = %.4g, beside the least of G", float64(j.M)*j.Gamma/2,
			j.Gamma),
		say(cmd, "discrepancy L2       %.4g; of random weights the root mean square is %.4g", j.Discrepancy, j.Random),
		say(cmd, "regulariser R        %.6g, with a gradient of norm %.4g", j.Regulariser, j.Gradient),
	)
}

// diverseTrainFlags are the flags of moe diverse train.
type diverseTrainFlags struct {
	diverseFlags
	lambda  float64
	steps   int
	test    int
	teacher int
}

func newDiverseTrainCmd() *cobra.Command {
	f := new(diverseTrainFlags)
	cmd := &cobra.Command{
		Use:   "train --n N --m M --d D",
		Short: "Train a network with and without the regulariser of its weights",
		Long: `train draws m points, and targets from a network of its own with N(0, I) weights
(--teacher of them), and goes down the squared loss L, and then from the same start
L + lambda*R, by full gradient descent with a step of the inverse of the largest
curvature at the start. It says of both where training and test error, the gradient,
the least eigenvalue of G_n and the discrepancy L2 end.

The exit code is 0 where both trainings have lowered the loss and at their ends
|r| <= |dL/dW|/s_m(D), and 1 where not.`,
		Example: `  moe diverse train --n 150 --m 100 --d 20 --steps 300
  moe diverse train --n 300 --m 300 --d 20 --lambda 1000 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.register(cmd)
	flags := cmd.Flags()
	flags.Float64Var(&f.lambda, "lambda", 1000, "weight of the regulariser, above 0")
	flags.IntVar(&f.steps, "steps", 300, "steps of gradient descent")
	flags.IntVar(&f.test, "test", 1000, "test points")
	flags.IntVar(&f.teacher, "teacher", 10, "units of the network that gives the targets")
	return cmd
}

func (f *diverseTrainFlags) run(cmd *cobra.Command) error {
	if err := f.check(mostTraining); err != nil {
		return err
	}
	switch {
	case !(f.lambda > 0) || math.IsInf(f.lambda, 0):
		return usagef("--lambda %v: want a finite number above 0", f.lambda)
	case f.steps < 1:
		return usagef("--steps %d: want at least 1", f.steps)
	case f.test < 1 || f.test > mostInOnes/max(f.n, f.d):
		return usagef("--test %d: want 1 to %d", f.test, mostInOnes/max(f.n, f.d))
	case f.teacher < 1 || f.teacher > mostTraining:
		return usagef("--teacher %d: want 1 to %d", f.teacher, mostTraining)
	}
	draw := diverse.NewDraw(f.seed, f.n, f.m, f.d)
	teacher, fresh := diverse.NewDraw(f.seed+1, f.teacher, 1, f.d), diverse.NewDraw(f.seed+2, 1, f.test, f.d).X
	y, yTest := teacher.Targets(draw.X), teacher.Targets(fresh)
	out := diverseTrainJSON{N: f.n, M: f.m, D: f.d, Seed: f.seed, Lambda: f.lambda, Steps: f.steps, Test: f.test,
		Teacher: f.teacher}
	progress := newBar(cmd)
	for i, lambda := range []float64{0, f.lambda} {
		begin, end, err := draw.Train(cmd.Context(), y, diverse.TrainSettings{Lambda: lambda, Steps: f.steps,
			TestX: fresh, TestY: yTest,
			Watch: func(step int) { progress.show(stageTraining, i*f.steps+step, 2*f.steps) }})
		if err != nil {
			return err
		}
		out.Begin = newDiverseState(begin, f.n, 0)
		out.Runs = append(out.Runs, newDiverseState(end, f.n, lambda))
	}
	progress.done()
	var err error
	if wantsJSON(cmd) {
		err = printJSON(cmd, out)
	} else {
		err = out.say(cmd)
	}
	if err == nil && !out.holds() {
		return errNo
	}
	return err
}

const stageTraining host.Stage = "training"

// diverseState is where a training begins or ends.
type diverseState struct {
	Lambda      float64  `json:"lambda"`
	Steps       int      `json:"steps"`
	Train       float64  `json:"train"`
	Test        float64  `json:"test"`
	Gradient    float64  `json:"gradient"`
	Residual    float64  `json:"residual"`
	Bound       *float64 `json:"bound"` // null where D has a rank below m
	Least       float64  `json:"gn_least"`
	Discrepancy float64  `json:"discrepancy"`
}

func newDiverseState(s diverse.State, n int, lambda float64) diverseState {
	out := diverseState{Lambda: lambda, Steps: s.Steps, Train: s.Loss, Test: s.Test, Gradient: s.Gradient,
		Residual: s.Residual, Least: s.Least, Discrepancy: s.Discrepancy}
	if bound := s.Bound(n); !math.IsInf(bound, 1) {
		out.Bound = &bound
	}
	return out
}

// within says whether ‖r‖ ≤ ‖∂L/∂W‖/s_m(D), to rounding.
func (s diverseState) within() bool { return s.Bound == nil || s.Residual <= *s.Bound*(1+1e-6)+1e-14 }

// diverseTrainJSON is the JSON of moe diverse train.
type diverseTrainJSON struct {
	N       int            `json:"n"`
	M       int            `json:"m"`
	D       int            `json:"d"`
	Seed    uint64         `json:"seed"`
	Lambda  float64        `json:"lambda"`
	Steps   int            `json:"steps"`
	Test    int            `json:"test_points"`
	Teacher int            `json:"teacher"`
	Begin   diverseState   `json:"begin"`
	Runs    []diverseState `json:"runs"` // without and with the regulariser
}

func (j diverseTrainJSON) holds() bool {
	for _, r := range j.Runs {
		if !(r.Train < j.Begin.Train) || !r.within() {
			return false
		}
	}
	return true
}

func (j diverseTrainJSON) say(cmd *cobra.Command) error {
	err := say(cmd, "%d weights on %d points of the sphere of R^%d, targets of a network of %d.\n", j.N, j.M, j.D,
		j.Teacher)
	err = errors.Join(err, say(cmd, "%-14s %6s  %10s  %10s  %10s  %10s  %10s  %8s  %8s", "lambda", "steps", "train",
		"test", "|dL/dW|", "|r|", "bound", "least", "L2"))
	for i, s := range append([]diverseState{j.Begin}, j.Runs...) {
		name := fmt.Sprintf("%g", s.Lambda)
		if i == 0 {
			name = "at the start"
		}
		bound := "none"
		if s.Bound != nil {
			bound = fmt.Sprintf("%.4g", *s.Bound)
		}
		err = errors.Join(err, say(cmd, "%-14s %6d  %10.4g  %10.4g  %10.4g  %10.4g  %10s  %8.4f  %8.5f", name,
			s.Steps, s.Train, s.Test, s.Gradient, s.Residual, bound, s.Least, s.Discrepancy))
	}
	return err
}
