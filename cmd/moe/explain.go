package main

import (
	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/jsonfile"
	"github.com/gatedlearning/moe/host/network/networkfile"
	"github.com/gatedlearning/moe/host/report"
)

// explainFlags are the flags of moe explain: which parts are wanted.
type explainFlags struct {
	starts, certificate, notes bool
	screen, all                bool
}

// explanation is the JSON of moe explain: what a fit says of itself, a member for every target.
type explanation struct {
	Model   string          `json:"model"`
	Targets []explainedJSON `json:"targets"`
}

// explainedJSON is of one target, or of several under one gate.
type explainedJSON struct {
	Target       string               `json:"target"` // "" of several under one gate
	Selection    []fitted.Candidate   `json:"selection"`
	Descriptions []fitted.Description `json:"descriptions"` // that were compared; empty of one
	AtLeast      *fitted.AtLeast      `json:"k_at_least"`   // null where there is no bound
	KSet         []int                `json:"k_set"`        // of a range, empty of one k
	Starts       []fitted.Start       `json:"starts"`
	Survey       *fitted.Survey       `json:"survey"`       // null where there was none
	Arrangements *fitted.Arrangements `json:"arrangements"` // null where none was seen
	Penalised    *fitted.Penalised    `json:"penalised"`    // null where the file has no other model for new rows
	Certificate  *fitted.Certificate  `json:"certificate"`  // null where there is none
	Warnings     []string             `json:"warnings"`
	Separation   []fitted.Separation  `json:"separation"`
	Notes        []string             `json:"notes"`
}

func newExplainCmd() *cobra.Command {
	f := new(explainFlags)
	cmd := &cobra.Command{
		Use:   "explain MODEL",
		Short: "Say what a fit leaves out of its first screen, from the model's file",
		Long: `explain prints what a model's file knows of its fit: every start and what they
saw, the tests of the certificate with their bounds, all warnings and notes. Flags choose
among these. With --screen it prints what moe fit printed, byte for byte.`,
		Example: `  moe explain model.json
  moe explain model.json --certificate
  moe explain model.json --screen
  moe explain model.json --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.starts, "starts", false, "what was compared, every start, and what a survey saw")
	flags.BoolVar(&f.certificate, "certificate", false, "the verdicts and the tests behind them")
	flags.BoolVar(&f.notes, "notes", false, "warnings, boundaries of the gate, and notes")
	flags.BoolVar(&f.screen, "screen", false, "what moe fit printed")
	flags.BoolVar(&f.all, "all", false, "with --screen the coefficients of all features, however many")
	return cmd
}

func (f *explainFlags) run(cmd *cobra.Command, path string) error {
	var parts []report.Part
	for _, p := range []struct {
		wanted bool
		part   report.Part
	}{{f.starts, report.PartStarts}, {f.certificate, report.PartCertificate}, {f.notes, report.PartNotes}} {
		if p.wanted {
			parts = append(parts, p.part)
		}
	}
	switch {
	case f.screen && len(parts) > 0:
		return usagef("--screen: give it, or --%s", parts[0])
	case f.all && !f.screen:
		return usagef("--all has no effect without --screen")
	case wantsJSON(cmd) && (f.screen || len(parts) > 0):
		return usagef("--json has all parts: give it without --screen, --starts, --certificate and --notes")
	}
	file, head, err := jsonfile.OpenHead(path)
	if err != nil {
		return err
	}
	switch {
	case head.Format == networkfile.Format:
		return explainNetwork(cmd, f, parts, file)
	case head.Several:
		v, err := fitted.VectorOf(file)
		if err != nil {
			return err
		}
		remarkUnread(cmd, path, v.Unknown)
		return f.outputs(cmd, path, v, parts)
	}
	m, err := fitted.Of(file)
	if err != nil {
		return err
	}
	remarkUnread(cmd, path, m.Unknown)
	switch out := textOut(cmd); {
	case wantsJSON(cmd):
		return printJSON(cmd, explanation{path, []explainedJSON{
			explained(m.Target, &m.Fit, m.Arrangements, m.Penalised)}})
	case f.screen:
		return report.Screen(out, m, path, f.all)
	default:
		return report.Explain(out, m, parts...)
	}
}

// outputs explains a model of several targets.
func (f *explainFlags) outputs(cmd *cobra.Command, path string, v *fitted.Vector, parts []report.Part) error {
	switch out := textOut(cmd); {
	case wantsJSON(cmd):
		all := explanation{Model: path}
		if s := v.SharedGate; s != nil && s.Fit != nil {
			all.Targets = append(all.Targets, explained("", s.Fit, nil, nil))
			return printJSON(cmd, all)
		}
		for i := range v.Outputs {
			m := v.Model(i)
			all.Targets = append(all.Targets, explained(m.Target, &m.Fit, m.Arrangements, nil))
		}
		return printJSON(cmd, all)
	case f.screen:
		return report.OutputsScreen(out, v, path, f.all)
	default:
		return report.ExplainOutputs(out, v, parts...)
	}
}

// explainNetwork prints all of a network, which has one screen.
func explainNetwork(cmd *cobra.Command, f *explainFlags, parts []report.Part, file *jsonfile.File) error {
	n, err := networkfile.Of(file)
	switch {
	case err != nil:
		return err
	case n.Fit == nil:
		return usagef("%s: a network that was drawn, not fitted: there is nothing to explain", file.Path)
	case len(parts) > 0 || wantsJSON(cmd):
		return usagef("%s: a network, whose fit is one screen: moe explain %[1]s prints it, and the file is its JSON",
			file.Path)
	}
	remarkUnread(cmd, file.Path, n.Unknown)
	return report.Network(textOut(cmd), n)
}

func explained(target string, f *fitted.Fit, a *fitted.Arrangements, s *fitted.Penalised) explainedJSON {
	return explainedJSON{
		Target: target, Selection: list(f.Selection), Descriptions: list(f.Descriptions),
		AtLeast: f.AtLeast, KSet: list(f.KSet),
		Starts: list(f.Starts), Survey: f.Survey, Arrangements: a,
		Penalised:   s,
		Certificate: f.Certificate,
		Warnings:    list(f.Warnings), Separation: list(f.Separation), Notes: list(f.Notes),
	}
}

// list is one that is not null.
func list[T any](of []T) []T { return append([]T{}, of...) }
