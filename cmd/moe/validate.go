package main

import (
	"context"
	"math"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/figures"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/report/verdict"
	"github.com/gatedlearning/moe/internal/atomicfile"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
	"github.com/gatedlearning/moe/solver/properties"
)

// validateFlags are the flags of moe validate-activation.
type validateFlags struct {
	activation activationFlags
	law        lawFlags
	sigma      float64
	design     solver.Design
	plot       string
}

// mostExperts bounds --k: the work of the prediction grows like k³.
const mostExperts = 500

func newValidateCmd() *cobra.Command {
	f := new(validateFlags)
	cmd := &cobra.Command{
		Use:   "validate-activation NAME",
		Short: "Say whether the guarantees hold for an activation",
		Long: `validate-activation finds the output transforms Q4 and Q2 of an activation g and
says whether g is one for which the regressors can be learned from moments, how
noisy that is, and how many rows it takes for k experts over d features. All of
it is judged by g's values: what a plugin says about its own moments and system
is checked against them.

Beside the polynomials stand the transforms of minimum variance, which the values
of g and the noise level determine. They exist wherever the polynomials do, and
for some activations that are not valid; validity is that of 002 Appendix B.

strong_identifiability says whether one expert too many costs no more than
n^(-1/4) in the parameters, by least squares or with sigma known. It is no part
of validity.

With --family y has another law about its mean than the normal one: counts,
positive numbers, heavy tails. Then the transforms of minimum variance are
those of that law, and the polynomials stand beside them where their moments exist.

The exit code is 0 for a valid activation and 1 for an invalid one.`,
		Example: `  moe validate-activation relu
  moe validate-activation 'expr: z*tanh(log1p(exp(z)))'
  moe validate-activation leakyrelu --param slope=0.1 --sigma 0.3 --k 3 --d 20
  moe validate-activation exp --family negative-binomial --dispersion 2 --k 3
  moe validate-activation ./moe-plugin-softplus --json --plot softplus.svg`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.activation.registerNamed(cmd)
	f.law.register(cmd)
	flags := cmd.Flags()
	flags.Float64Var(&f.sigma, "sigma", 0.05, "standard deviation of the noise in y")
	flags.IntVar(&f.design.K, "k", 2, "number of experts that the sample size is predicted for")
	flags.IntVar(&f.design.D, "d", 10, "number of features that it is predicted for")
	flags.StringVar(&f.plot, "plot", "",
		"draw g, S4 and S2 with the conditions, and the transforms, to this .svg or .png `FILE`")
	return cmd
}

func (f *validateFlags) run(cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	if err := f.law.check(cmd, f.sigma); err != nil {
		return err
	}
	plugin, err := f.activation.openFrom(cmd.Context(), catalog.Catalog{Unchecked: true})
	if err != nil {
		return err
	}
	defer plugin.Close()
	if !f.law.normal() {
		return f.printFamily(cmd, plugin)
	}
	return f.printVerdict(cmd, plugin)
}

// printVerdict prints the verdict on an open activation.
func (f *validateFlags) printVerdict(cmd *cobra.Command, plugin *catalog.Plugin) error {
	ctx := cmd.Context()
	v, err := solver.Validate(ctx, plugin.Activation, f.sigma)
	if err != nil {
		return err
	}
	answer := verdict.Activation{Name: stated.Of(plugin.Activation.Info()).String(), Validation: v,
		Design: f.design}
	if e, ok := plugin.Activation.(interface{ Notes() []string }); ok {
		answer.Notes = e.Notes()
	}
	if v.Noise != nil {
		answer.Polynomial = verdict.RowsOf(*v.Noise, f.design)
	}
	if answer.Optimal, err = solver.NewOptimal(ctx, plugin.Activation, f.sigma, f.design.K); err != nil {
		return err
	}
	answer.Least = verdict.RowsOf(answer.Optimal.Noise, f.design)
	if answer.RhoRange, err = properties.RhoRangeOf(ctx, plugin.Activation); err != nil {
		return err
	}
	if answer.Strong, err = properties.StrongIdentifiabilityOf(ctx, plugin.Activation); err != nil {
		return err
	}
	if f.plot != "" {
		if err := f.draw(ctx, plugin.Activation, answer); err != nil {
			return err
		}
	}
	if wantsJSON(cmd) {
		err = printJSON(cmd, newValidationJSON(plugin, answer))
	} else {
		err = answer.Text(textOut(cmd))
	}
	if err == nil && !v.Verdict.Valid {
		return errNo
	}
	return err
}

func (f *validateFlags) check() error {
	if !(f.sigma >= 0) || math.IsInf(f.sigma, 0) {
		return usagef("--sigma %v: want a finite number, 0 or above", f.sigma)
	}
	if f.design.K < 1 || f.design.K > mostExperts {
		return usagef("--k %d: want 1 to %d", f.design.K, mostExperts)
	}
	if f.design.D <= 2*f.design.K-1 {
		return usagef("--d %d: the moment method needs d > 2k − 1 = %d", f.design.D, 2*f.design.K-1)
	}
	if f.plot == "" {
		return nil
	}
	if !f.law.normal() {
		return usagef("--plot draws the conditions of normal noise; leave it out beside --family %s", f.law.family)
	}
	if format := f.format(); format != "svg" && format != "png" {
		return usagef("--plot %s: want a name that ends in .svg or .png", f.plot)
	}
	return creatable(f.plot)
}

func (f *validateFlags) format() string {
	return strings.ToLower(strings.TrimPrefix(filepath.Ext(f.plot), "."))
}

func (f *validateFlags) draw(ctx context.Context, act sdk.Activation, answer verdict.Activation) error {
	curves, err := solver.CurvesOf(ctx, act, answer.Validation.Transform, answer.Optimal)
	if err != nil {
		return err
	}
	file, err := atomicfile.Create(ctx, f.plot)
	if err != nil {
		return err
	}
	defer file.Discard()
	if err := figures.DrawActivation(file, answer.Name, answer.Validation, curves, f.format()); err != nil {
		return err
	}
	return file.Commit()
}

// validationJSON is the JSON of moe validate-activation. Pointers are null
// where there is no such number.
type validationJSON struct {
	Activation activationJSON `json:"activation"`

	Sigma   float64  `json:"sigma"`
	Valid   bool     `json:"valid"`
	Reasons []string `json:"reasons"`
	// of an expression: g′, kinks, where it overflows; of a table: its range and error
	Notes             []string        `json:"notes,omitempty"`
	SignsIdentifiable bool            `json:"signs_identifiable"`
	Even              bool            `json:"even"` // false beside false: the signs cannot be told from the moments
	Transform         transformJSON   `json:"transform"`
	Cubic             cubicJSON       `json:"cubic"`
	System            systemJSON      `json:"system"`
	Conditions        []conditionJSON `json:"conditions"`
	Moments           struct {
		Own           bool    `json:"own"`
		MaxDifference float64 `json:"max_difference"`
	} `json:"moments"`
	Noise struct {
		V4      *float64 `json:"v4"`
		V2      *float64 `json:"v2"`
		K       int      `json:"k"`
		D       int      `json:"d"`
		Samples *float64 `json:"samples_for_1pct"`
		Cubic   *float64 `json:"samples_for_1pct_cubic"` // from T2 and T3
	} `json:"noise"`
	Optimal        optimalJSON `json:"optimal"`
	OneHiddenLayer struct {
		P1  bool     `json:"p1"`
		P2  bool     `json:"p2"`
		P3  bool     `json:"p3"`
		Rho *float64 `json:"rho"`

		P2Range  *bool       `json:"p2_range"`  // at every scale from 0.1 to 10
		RhoRange *[2]float64 `json:"rho_range"` // least and largest there
	} `json:"one_hidden_layer"`
	Strong struct { // no part of valid
		Answer string   `json:"answer"` // yes, no or not judged
		Reason string   `json:"reason"` // of no and not judged
		Least  *float64 `json:"least_singular_value"`
	} `json:"strong_identifiability"`
}

// activationJSON is an activation and where it is from.
type activationJSON struct {
	Name    string             `json:"name"`
	Params  map[string]float64 `json:"params"`
	Source  string             `json:"source"`
	Version string             `json:"version"`
}

func newActivationJSON(plugin *catalog.Plugin) activationJSON {
	file := stated.Of(plugin.Activation.Info())
	return activationJSON{file.Name, file.Params, plugin.Source(), file.Version}
}

// optimalJSON are the transforms of minimum variance.
type optimalJSON struct {
	Level      float64             `json:"level"` // of the noise that they were made for
	Transforms []leastVarianceJSON `json:"transforms"`
	Samples    *float64            `json:"samples_for_1pct"`       // from T2 and T4
	Cubic      *float64            `json:"samples_for_1pct_cubic"` // from T2 and T3
}

type leastVarianceJSON struct {
	Order      int      `json:"order"`
	Exists     bool     `json:"exists"`
	Reason     string   `json:"reason"` // why not
	Variance   *float64 `json:"variance"`
	Polynomial *float64 `json:"variance_polynomial"`
	Gain       *float64 `json:"gain"`        // the polynomial's variance over this one's
	ErrorBound *float64 `json:"error_bound"` // of T_r's table
}

func newOptimalJSON(a verdict.Activation) optimalJSON {
	o := a.Optimal
	return optimalJSON{
		Level: o.Level, Samples: wholeRows(a.Least.L4), Cubic: wholeRows(a.Least.Spectral),
		Transforms: newTransformsJSON(o, a.Validation.Noise),
	}
}

// newTransformsJSON are those of minimum variance beside the polynomials of noise n; nil for none.
func newTransformsJSON(o *solver.Optimal, n *solver.Noise) (all []leastVarianceJSON) {
	for _, r := range solver.Orders() {
		t := leastVarianceJSON{Order: r, Exists: o.Has(r), Reason: o.Reason(r)}
		if n != nil {
			t.Polynomial = positiveOrNil(n.Variance(r, o.K))
		}
		if o.Has(r) {
			t.Variance, t.ErrorBound = positiveOrNil(o.Variance(r)), positiveOrNil(o.ErrorBound(r))
			if t.Polynomial != nil {
				t.Gain = positiveOrNil(*t.Polynomial / o.Variance(r))
			}
		}
		all = append(all, t)
	}
	return all
}

// wholeRows rounds a number of rows up; null where there is none.
func wholeRows(rows float64) *float64 { return positiveOrNil(math.Ceil(rows)) }

func positiveOrNil(v float64) *float64 {
	if !(v > 0) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

type transformJSON struct {
	Alpha float64 `json:"alpha"`
	Beta  float64 `json:"beta"`
	Gamma float64 `json:"gamma"`
	Delta float64 `json:"delta"`
	C4    float64 `json:"c4"`
	C2    float64 `json:"c2"`
}

type cubicJSON struct {
	Alpha float64 `json:"alpha"`
	Beta  float64 `json:"beta"`
	C3    float64 `json:"c3"`
	Valid bool    `json:"valid"`
}

type systemJSON struct {
	Matrix   [3][3]*float64 `json:"matrix"`
	RHS      [3]*float64    `json:"rhs"`
	Rank     int            `json:"rank"`
	Cond     float64        `json:"cond"`
	Residual float64        `json:"residual"`
}

type conditionJSON struct {
	Name      string   `json:"name"`
	Value     *float64 `json:"value"`
	Tolerance *float64 `json:"tolerance"`
	Holds     bool     `json:"holds"`
}

// finiteOrNil is null for a number that overflows.
func finiteOrNil(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func row3(v [3]float64) (out [3]*float64) {
	for i := range v {
		out[i] = finiteOrNil(v[i])
	}
	return out
}

func newValidationJSON(plugin *catalog.Plugin, a verdict.Activation) *validationJSON {
	v := a.Validation
	t, s := v.Transform, v.Verdict
	j := &validationJSON{
		Sigma: v.Sigma, Valid: s.Valid, Reasons: append([]string{}, s.Reasons...), Notes: a.Notes,
		SignsIdentifiable: s.SignsIdentifiable, Even: s.Even,
		Transform:  transformJSON{t.Alpha, t.Beta, t.Gamma, t.Delta, t.C4, t.C2},
		Cubic:      cubicJSON(t.Cubic),
		Conditions: []conditionJSON{},
		System:     systemJSON{RHS: row3(v.System.RHS), Rank: s.Rank, Cond: s.Cond, Residual: s.Residual},
	}
	j.Activation = newActivationJSON(plugin)
	for _, c := range s.Checks {
		j.Conditions = append(j.Conditions,
			conditionJSON{c.Name, finiteOrNil(c.Value), finiteOrNil(c.Tolerance), c.Holds})
	}
	for i, row := range v.System.Matrix {
		j.System.Matrix[i] = row3(row)
	}
	j.Moments.Own, j.Moments.MaxDifference = v.OwnMoments, v.MomentsDifference
	j.Noise.K, j.Noise.D = a.Design.K, a.Design.D
	if n := v.Noise; n != nil {
		j.Noise.V4, j.Noise.V2 = finiteOrNil(n.V4), finiteOrNil(n.V2)
		j.Noise.Samples, j.Noise.Cubic = wholeRows(a.Polynomial.L4), wholeRows(a.Polynomial.Spectral)
	}
	j.Optimal = newOptimalJSON(a)
	if o := v.OneHiddenLayer; o != nil {
		j.OneHiddenLayer.P1, j.OneHiddenLayer.P2, j.OneHiddenLayer.P3, j.OneHiddenLayer.Rho = o.P1, o.P2, o.P3,
			finiteOrNil(o.Rho)
	}
	if r := a.RhoRange; r != nil && finiteOrNil(r.Max-r.Min) != nil {
		j.OneHiddenLayer.P2Range, j.OneHiddenLayer.RhoRange = &r.P2, &[2]float64{r.Min, r.Max}
	}
	j.Strong.Answer, j.Strong.Reason = string(a.Strong.Answer), a.Strong.Reason
	j.Strong.Least = positiveOrNil(a.Strong.Least)
	return j
}
