package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/report/numeral"
	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/host/shard/newton"
)

// newtonFlags are the flags of moe newton.
type newtonFlags struct {
	shardFlags
	limits  limitFlags
	model   string
	roles   dataset.Roles
	threads int
}

func newNewtonCmd() *cobra.Command {
	f := new(newtonFlags)
	cmd := &cobra.Command{
		Use:   "newton DATA... --shard I/N --at MODEL -o FILE",
		Short: "Sum score and information of one part of a data set",
		Long: `newton reads part I of N of DATA, as moe moments does, and writes the sums of the
log-likelihood at the parameters of MODEL, of its score and of its observed
information. moe merge puts those of all parts together, chooses a step of Newton's
method, shortened where the last one led down, and writes the best model so far with what
the next pass needs, until a step is below 1e-9: at most 12 passes. Where MODEL is the fit of a
subsample that found several optima, up to four are followed side by side and the best on all
rows is taken. At the model where the passes have converged newton sums what
its certificate needs, which merge makes: one pass more.

Of rows in groups (--group, or a MODEL that was fitted to such) a part holds the groups
that begin in its range, whole: the rows of a group stand beside each other, or merge
refuses it. The gate is that of MODEL, and a column of it that varies within a group is
refused.

The parts carry digests of their rows: a pass over other rows than those of the pass
before, or of the sums of moe moments, is refused.`,
		Example: `  moe newton data.npy --shard 1/2 --at start.json -o part-1.newton
  moe newton data.npy --shard 2/2 --at start.json -o part-2.newton
  moe merge part-*.newton -o next.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.register(cmd)
	f.limits.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.model, "at", "", "the `MODEL` at whose parameters the sums are taken (required)")
	flags.StringVar(&f.roles[model.Weights], "weights", "",
		"column `NAME` of observation weights: a row of weight w counts as w rows (default that of MODEL)")
	flags.StringVar(&f.roles[model.Groups], "group", "",
		"column `NAME` of the ids of groups: rows of one have one expert (default that of MODEL)")
	flags.IntVar(&f.threads, "threads", 0, "threads to use (default one per processor); the result is the same")
	cobra.CheckErr(cmd.MarkFlagRequired("at"))
	return cmd
}

func (f *newtonFlags) run(cmd *cobra.Command, data []string) error {
	if err := f.check(append(data, f.model)...); err != nil {
		return err
	}
	if err := f.limits.check(); err != nil {
		return err
	}
	ctx := cmd.Context()
	m, err := fitted.Read(f.model)
	if err != nil {
		return err
	}
	remarkUnread(cmd, f.model, m.Unknown)
	if err := newton.Admit(f.model, m); err != nil {
		return err
	}
	f.roles = newton.RolesAt(m, f.roles)
	plugin, err := openNamed(ctx, f.limits.within(catalog.Catalog{}), m.Activation, f.model)
	if err != nil {
		return err
	}
	defer plugin.Close()
	if err := m.Activation.Verify(ctx, f.model, plugin.Activation); err != nil {
		return err
	}
	src, err := openAll(data, func(path string) (dataset.Source, error) {
		sel := f.cells.on(predict.Selection(m, false))
		sel.Roles = f.roles
		raw, err := dataset.Open(path, sel)
		if err != nil {
			return nil, err
		}
		return predict.Features(m, raw, false), nil
	})
	if err != nil {
		return err
	}
	t, err := shard.Open(ctx, src)
	if err != nil {
		return err
	}
	sums, err := newton.Sum(ctx, src, t, f.at, m, plugin.Activation, f.threads)
	if err != nil {
		return err
	}
	if err := sums.Write(ctx, f.out); err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return printJSON(cmd, newtonReport{f.out, newton.Format, sums.Place.I, sums.Place.N, t.Rows})
	}
	return say(cmd, "%s: part %d of %d at %s", f.out, sums.Place.I, sums.Place.N, f.model)
}

// newtonReport is what moe newton prints with --json.
type newtonReport struct {
	File   string `json:"file"`
	Format string `json:"format"`
	Part   int    `json:"part"`
	Parts  int    `json:"parts"`
	Rows   int    `json:"rows"` // of the table
}

// stepReport is what moe merge prints of a pass with --json.
type stepReport struct {
	File      string  `json:"file"`
	Pass      int     `json:"pass"`
	Step      float64 `json:"step"`
	Converged bool    `json:"converged"`
	// converged next to a kink of the likelihood, where steps stay larger than 1e-9
	AtKink        bool    `json:"at_kink"`
	LogLikelihood float64 `json:"log_likelihood"` // of the model, before the step
	GoOn          bool    `json:"go_on"`          // another pass is to be made, if only for the certificate
	SideBySide    int     `json:"side_by_side"`   // points from which the next pass goes on
	Reason        string  `json:"reason"`         // why the passes end without having converged; "" elsewhere

	Certificate *fitted.Certificate `json:"certificate"` // of the pass behind those that have converged; null before
}

func mergeNewton(cmd *cobra.Command, files []string, out string) error {
	parts, err := readParts(files, newton.Read)
	if err != nil {
		return err
	}
	s, err := merged(cmd.Context(), files, parts)
	if err != nil {
		return err
	}
	if err := s.Model.Write(cmd.Context(), out); err != nil {
		return err
	}
	c := s.Model.Fit.Certificate
	if wantsJSON(cmd) {
		err = printJSON(cmd, stepReport{out, s.Pass, s.Size, s.Converged, s.AtKink, s.Model.Fit.LogLikelihood, s.GoOn(),
			s.Climbs, s.Reason, c})
	} else if s.Certified {
		err = say(cmd, "%s: certificate: optimum %s, model %s, p = %.2g", out, c.Optimum, c.Model, c.PValue)
	} else {
		err = say(cmd, "%s: pass %d, step %.2g, log-likelihood %s before it: %s", out, s.Pass, s.Size,
			numeral.Likelihood(s.Model.Fit.LogLikelihood), outcome(s))
	}
	if err == nil && (!s.Converged && !s.GoOn() || c != nil && c.Optimum != infer.Pass) {
		return errNo
	}
	return err
}

// merged makes the step of a pass, or the certificate behind the last.
func merged(ctx context.Context, files []string, parts []*newton.Sums) (*newton.Step, error) {
	if !parts[0].Certificate() {
		return newton.Merge(files, parts)
	}
	m, err := parts[0].At()
	if err != nil {
		return nil, &dataset.Error{File: files[0], Msg: err.Error()}
	}
	plugin, err := openNamed(ctx, catalog.Catalog{}, m.Activation, files[0])
	if err != nil {
		return nil, err
	}
	defer plugin.Close()
	return newton.Certify(ctx, files, parts, plugin.Activation, 0)
}

// outcome says how a pass ended.
func outcome(s *newton.Step) string {
	var text string
	switch {
	case s.AtKink:
		text = "at a kink of the likelihood: converged"
	case s.Converged:
		text = "converged"
	case s.GoOn() && s.Climbs > 1:
		return fmt.Sprintf("go on, from %d side by side", s.Climbs)
	case s.GoOn():
		return "go on"
	default:
		return "not converged: " + s.Reason
	}
	if s.GoOn() {
		text += ", go on for the certificate"
	}
	return text
}
