package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/report/verdict"
	"github.com/gatedlearning/moe/internal/conform"
	"github.com/gatedlearning/moe/internal/shown"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
)

// verifyFlags are the flags of moe plugin verify.
type verifyFlags struct {
	activation   activationFlags
	runUntrusted bool
	sigma        float64
}

func newPluginVerifyCmd() *cobra.Command {
	f := new(verifyFlags)
	cmd := &cobra.Command{
		Use:   "verify PATH",
		Short: "Check that a plugin keeps its promises and that its activation is valid",
		Long: `verify runs the conformance kit against the plugin in its process: on its family
and on the members with the default parameters and at the ends of their ranges.
It ends with the verdict on the member with the parameters given.

The exit code is 0 where all checks pass and the activation is valid, also with
warnings: of places far out, up to |z| = 1e6, at which g or g′ is not finite. It
is 1 where not, 69 where the plugin fails, and 77 where it is not trusted: nothing of it
has run then.`,
		Example: "  moe plugin trust ./moe-plugin-smoothrelu\n  moe plugin verify ./moe-plugin-smoothrelu",
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.activation.registerNamed(cmd)
	cmd.Flags().Float64Var(&f.sigma, "sigma", 0.05, "standard deviation of the noise in y, for the verdict")
	cmd.Flags().BoolVar(&f.runUntrusted, "run-untrusted", false,
		"run the file though it is not trusted: it is a program and can do all that you can")
	return cmd
}

func (f *verifyFlags) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	if !(f.sigma >= 0) {
		return usagef("--sigma %v: want a finite number, 0 or above", f.sigma)
	}
	plugin, err := f.activation.openFrom(ctx, catalog.Catalog{RunUntrusted: f.runUntrusted, Unchecked: true})
	if err != nil {
		return err
	}
	defer plugin.Close()
	if plugin.Source() == catalog.SourceExpression {
		return usagef("%s is no plugin: moe validate-activation says what there is to say of an expression",
			f.activation.name)
	}
	sandbox := sandboxInfo{f.activation.limits.sandbox, append([]string{}, plugin.Unconfined()...),
		plugin.Module() != nil}
	v := verification{Plugin: newVerifiedPlugin(plugin), Sandbox: sandbox, Groups: verify(ctx, plugin)}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if fault := v.fault(); fault == nil {
		if v.verdict, err = solver.Validate(ctx, plugin.Activation, f.sigma); err != nil {
			return err
		}
		v.Valid, v.Reasons = v.verdict.Verdict.Valid, append(v.Reasons, v.verdict.Verdict.Reasons...)
	}
	v.OK = v.count((*verifyFinding).failed) == 0 && v.Valid
	if err := v.print(cmd, plugin); err != nil {
		return err
	}
	if fault := v.fault(); fault != nil {
		return fault
	}
	if !v.OK {
		return errNo
	}
	return nil
}

// verification is the JSON of moe plugin verify.
type verification struct {
	Plugin  pluginInfo    `json:"plugin"`
	Sandbox sandboxInfo   `json:"sandbox"`
	Groups  []verifyGroup `json:"checks"`
	Valid   bool          `json:"valid"`
	Reasons []string      `json:"reasons"`
	OK      bool          `json:"ok"`

	verdict *solver.Validation // nil where the plugin has failed
}

// sandboxInfo says what the plugin was confined by.
type sandboxInfo struct {
	Mode    string   `json:"mode"`
	Missing []string `json:"missing"` // what the kernel does not have, and what follows

	module bool // there is no process
}

func (s sandboxInfo) String() string {
	switch {
	case s.module:
		return "a WebAssembly module: it can do nothing but compute"
	case s.Mode == string(catalog.SandboxOff):
		return "sandbox: off"
	case len(s.Missing) == 0:
		return "sandbox: whole"
	}
	return "sandbox: not whole here: " + strings.Join(s.Missing, "; ")
}

// verifyGroup is what was found about one subject: the family, or a member.
type verifyGroup struct {
	Subject  string          `json:"subject"`
	Findings []verifyFinding `json:"findings"`
}

type verifyFinding struct {
	Check  string `json:"check"`
	Means  string `json:"means"`
	OK     bool   `json:"ok"`
	Absent bool   `json:"absent,omitempty"` // there is nothing to check
	// the plugin had ended before, for good: nothing is known, and ok is false
	Unchecked bool   `json:"unchecked,omitempty"`
	Problem   string `json:"problem,omitempty"`
	Warning   string `json:"warning,omitempty"` // what to know though it is no fault

	err error
}

func newVerifiedPlugin(p *catalog.Plugin) pluginInfo {
	return pluginInfo{
		Name: p.Family.Name, Version: p.Family.Version, Parameters: catalog.ParametersOf(p.Family),
		SHA256: p.SHA256(), Source: p.Source(),
	}
}

// verify runs the checks of the family, of its members, and of the member that
// was opened where it is none of those.
func verify(ctx context.Context, p *catalog.Plugin) []verifyGroup {
	member := p.Family.Activation
	if p.Source() != catalog.SourceBuiltin {
		member = p.Family.New // leaves all judgement of parameters to the plugin
	}
	groups := []verifyGroup{newVerifyGroup("family", conform.Family(ctx, p.Family, member))}
	seen := map[string]bool{}
	check := func(act sdk.Activation) {
		label := stated.Of(act.Info()).String()
		if !seen[label] {
			seen[label] = true
			groups = append(groups, newVerifyGroup(label, conform.Activation(ctx, act)))
		}
	}
	check(p.Activation)
	for _, params := range conform.Members(p.Family) {
		if act, err := member(params); err == nil { // else the family's checks have said so
			check(act)
		}
	}
	fault := (*catalog.FaultError)(nil)
	if err := p.Activation.Eval(ctx, make([]float64, 1), make([]float64, 1)); errors.As(err, &fault) {
		end(groups, fault)
	}
	return groups
}

// end takes back what was found after the check in which the plugin ended for good, with this fault: its answers since
// are none of the activation's.
func end(groups []verifyGroup, fault *catalog.FaultError) {
	ended := false
	for _, g := range groups {
		for i := range g.Findings {
			f := &g.Findings[i]
			switch {
			case ended:
				*f = verifyFinding{Check: f.Check, Means: f.Means, Unchecked: true}
			case strings.Contains(f.Problem+f.Warning, fault.Error()):
				ended = true
				*f = verifyFinding{Check: f.Check, Means: f.Means, Problem: message(fault), err: fault}
			}
		}
	}
}

func newVerifyGroup(subject string, findings []conform.Finding) verifyGroup {
	g := verifyGroup{Subject: subject}
	for _, f := range findings {
		found := verifyFinding{Check: f.Check, Means: f.Means, OK: f.OK(), Absent: f.Absent, err: f.Err}
		if f.Warning != nil {
			found.Warning = message(f.Warning)
		}
		if f.Err != nil {
			found.Problem = message(f.Err)
		}
		g.Findings = append(g.Findings, found)
	}
	return g
}

// count is the number of findings that are so.
func (v *verification) count(is func(*verifyFinding) bool) int {
	n := 0
	for _, g := range v.Groups {
		for i := range g.Findings {
			if is(&g.Findings[i]) {
				n++
			}
		}
	}
	return n
}

func (f *verifyFinding) failed() bool    { return !f.OK && !f.Unchecked }
func (f *verifyFinding) warned() bool    { return f.Warning != "" }
func (f *verifyFinding) unchecked() bool { return f.Unchecked }

// fault returns the first failure of the plugin itself, as against an answer
// that is wrong, or nil.
func (v *verification) fault() error {
	for _, g := range v.Groups {
		for _, f := range g.Findings {
			if fault := (*catalog.FaultError)(nil); errors.As(f.err, &fault) {
				return fault
			}
		}
	}
	return nil
}

func (v *verification) print(cmd *cobra.Command, p *catalog.Plugin) error {
	if v.Reasons == nil {
		v.Reasons = []string{}
	}
	if wantsJSON(cmd) {
		return printJSON(cmd, v)
	}
	return v.text(textOut(cmd), p)
}

func (v *verification) text(w io.Writer, p *catalog.Plugin) error {
	fmt.Fprintf(w, "%s: activation %s, version %s, sha256 %s\n",
		shown.Names([]any{v.Plugin.Source, v.Plugin.Name, orDash(v.Plugin.Version), orDash(v.Plugin.SHA256)})...)
	fmt.Fprintln(w, v.Sandbox)
	for _, g := range v.Groups {
		fmt.Fprintf(w, "\n%s\n", g.Subject)
		for _, f := range g.Findings {
			switch {
			case f.Unchecked:
				fmt.Fprintf(w, "  -     %-12s not checked: the plugin had ended\n", f.Check)
			case f.err != nil && errors.As(f.err, new(*catalog.FaultError)):
				fmt.Fprintf(w, "  FAIL  %-12s the plugin failed: whether %s is not known\n        %s\n",
					f.Check, f.Means, f.Problem)
			case f.Absent:
				fmt.Fprintf(w, "  none  %-12s it brings none of its own\n", f.Check)
			case f.Warning != "":
				fmt.Fprintf(w, "  warn  %-12s not quite so: %s\n        %s\n", f.Check, f.Means, f.Warning)
			case f.OK:
				fmt.Fprintf(w, "  ok    %-12s %s\n", f.Check, f.Means)
			default:
				fmt.Fprintf(w, "  FAIL  %-12s not so: %s\n        %s\n", f.Check, f.Means, f.Problem)
			}
		}
	}
	fmt.Fprintln(w)
	failed, warned := v.count((*verifyFinding).failed), v.count((*verifyFinding).warned)
	switch unchecked := v.count((*verifyFinding).unchecked); {
	case unchecked > 0:
		fmt.Fprintf(w, "%d of the checks failed, and %d were not made: the plugin had ended.\n", failed, unchecked)
	case failed > 0:
		fmt.Fprintf(w, "%d of the checks failed.\n", failed)
	case warned > 0:
		fmt.Fprintf(w, "No check failed; to be known: the %d marked warn.\n", warned)
	default:
		fmt.Fprintln(w, "All checks passed.")
	}
	if v.verdict == nil {
		return nil
	}
	answer := verdict.Activation{Name: stated.Of(p.Activation.Info()).String(), Validation: v.verdict}
	_, err := fmt.Fprintln(w, answer.Sentence())
	for _, r := range v.Reasons {
		_, err = fmt.Fprintln(w, "  because", r)
	}
	return err
}
