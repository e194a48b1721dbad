package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/spec"
	"github.com/gatedlearning/moe/internal/setting"
	"github.com/gatedlearning/moe/internal/textfile"
)

// described are the flags that describe a fit: one spelling of a [spec.Fit].
type described struct {
	flag       spec.Fit // those whose values stand in it as they are
	activation activationFlags
	tree       treeFlags
	method     methodFlags
	k          string
	sigma      string
	dof        string
	weights    string
	group      string
	cluster    string
	offset     string
	trials     string
	references []string
	intercept  bool
	robust     bool
	hac        bool
	gate       string
	// of the model for new rows
	gatePenalty string
	expertRidge string
	expertLasso string
	choose      string
	noise       string
	output      string
	covariance  string
	cells       cellFlags
	seed        uint64
}

// spellings say what each of the flags that describe a fit puts into the description.
var spellings = map[string]func(*described, *spec.Fit) error{
	"target":        func(d *described, s *spec.Fit) error { s.Target = d.flag.Target; return nil },
	"targets":       func(d *described, s *spec.Fit) error { s.Targets = d.flag.Targets; return nil },
	"features":      func(d *described, s *spec.Fit) error { s.Features = d.flag.Features; return nil },
	"drop":          func(d *described, s *spec.Fit) error { s.Drop = d.flag.Drop; return nil },
	"weights":       func(d *described, s *spec.Fit) error { return d.role(s, "weights", d.weights) },
	"group":         func(d *described, s *spec.Fit) error { return d.role(s, "group", d.group) },
	"cluster":       func(d *described, s *spec.Fit) error { return d.role(s, "cluster", d.cluster) },
	"offset":        func(d *described, s *spec.Fit) error { return d.role(s, "offset", d.offset) },
	"trials":        func(d *described, s *spec.Fit) error { return d.role(s, "trials", d.trials) },
	"moments":       func(d *described, s *spec.Fit) error { s.Moments = d.flag.Moments; return nil },
	"formula":       (*described).writeFormula,
	"gate-features": func(d *described, s *spec.Fit) error { s.GateFeatures = d.flag.GateFeatures; return nil },
	"shared":        func(d *described, s *spec.Fit) error { s.Shared = d.flag.Shared; return nil },
	"categorical":   func(d *described, s *spec.Fit) error { s.Categorical = d.flag.Categorical; return nil },
	"reference":     (*described).writeReferences,
	"missing":       func(d *described, s *spec.Fit) error { s.Missing = d.cells.missing; return nil },
	"decimal":       func(d *described, s *spec.Fit) error { s.Decimal = d.cells.decimal; return nil },
	"k":             (*described).writeK,
	"hierarchy":     (*described).writeHierarchy,
	"max-leaves":    (*described).writeMaxLeaves,
	"intercept":     (*described).writeIntercept,
	"gate":          func(d *described, s *spec.Fit) error { s.Gate = d.gate; return nil },
	"noise":         func(d *described, s *spec.Fit) error { s.Noise = d.noise; return nil },
	"sigma":         (*described).writeSigma,
	"family":        func(d *described, s *spec.Fit) error { s.Family = d.flag.Family; return nil },
	"dof":           (*described).writeDof,
	"zero-expert":   func(d *described, s *spec.Fit) error { s.ZeroExpert = d.flag.ZeroExpert; return nil },
	"output-scale":  func(d *described, s *spec.Fit) error { s.OutputScale = host.OutputScale(d.output); return nil },
	"gate-shared":   func(d *described, s *spec.Fit) error { s.GateShared = d.flag.GateShared; return nil },
	"noise-covariance": func(d *described, s *spec.Fit) error {
		s.NoiseCovariance = host.NoiseCovariance(d.covariance)
		return nil
	},
	"method":    (*described).writeMethod,
	"transform": func(d *described, s *spec.Fit) error { s.Transform = host.Transform(d.method.transform); return nil },
	"inputs":    func(d *described, s *spec.Fit) error { s.Inputs = host.Inputs(d.method.inputs); return nil },
	"robust": func(d *described, s *spec.Fit) error {
		s.Errors = withError(s.Errors, host.Robust, d.robust)
		return nil
	},
	"hac": func(d *described, s *spec.Fit) error {
		s.Errors = withError(s.Errors, host.Dependent, d.hac)
		return nil
	},
	"arrangements": func(d *described, s *spec.Fit) error { s.Arrangements = d.flag.Arrangements; return nil },
	"choose":       func(d *described, s *spec.Fit) error { s.Choose = host.Choice(d.choose); return nil },
	"gate-penalty": func(d *described, s *spec.Fit) error {
		s.GatePenalty = host.Penalty(d.gatePenalty)
		return nil
	},
	"expert-ridge": func(d *described, s *spec.Fit) error {
		s.ExpertRidge = host.Penalty(d.expertRidge)
		return nil
	},
	"expert-lasso": func(d *described, s *spec.Fit) error {
		s.ExpertLasso = host.Penalty(d.expertLasso)
		return nil
	},
	"start": func(d *described, s *spec.Fit) error { s.Start = d.flag.Start; return nil },
	"truth": func(d *described, s *spec.Fit) error { s.Truth = d.flag.Truth; return nil },
	"seed":  func(d *described, s *spec.Fit) error { s.Seed = &d.seed; return nil },
	"exact-activation": func(d *described,
		s *spec.Fit) error {
		s.ExactActivation = d.flag.ExactActivation
		return nil
	},
	"embed": func(d *described, s *spec.Fit) error { s.Embed = d.flag.Embed; return nil },
	"no-group-posteriors": func(d *described, s *spec.Fit) error {
		s.NoGroupPosteriors = d.flag.NoGroupPosteriors
		return nil
	},
	"starts": func(d *described, s *spec.Fit) error { s.Method.Starts = d.method.set.Starts; return nil },
	"mu":     func(d *described, s *spec.Fit) error { s.Method.Mu = d.method.set.Mu; return nil },
	"radius": func(d *described, s *spec.Fit) error { s.Method.Radius = d.method.set.Radius; return nil },
	"corrections": func(d *described, s *spec.Fit) error {
		s.Method.Corrections = d.method.set.Corrections
		return nil
	},
	"epochs":    func(d *described, s *spec.Fit) error { s.Method.Epochs = d.method.set.Epochs; return nil },
	"batch":     func(d *described, s *spec.Fit) error { s.Method.Batch = d.method.set.Batch; return nil },
	"step-size": func(d *described, s *spec.Fit) error { s.Method.StepSize = d.method.set.StepSize; return nil },
	"schedule":  func(d *described, s *spec.Fit) error { s.Method.Schedule = d.method.set.Schedule; return nil },
	"optimiser": func(d *described, s *spec.Fit) error { s.Method.Optimiser = d.method.set.Optimiser; return nil },
	"lambda":    func(d *described, s *spec.Fit) error { s.Method.Lambda = d.method.set.Lambda; return nil },
	"penalty":   func(d *described, s *spec.Fit) error { s.Method.Penalty = d.method.penalty(); return nil },
	"ridge":     func(d *described, s *spec.Fit) error { s.Method.Ridge = &d.method.ridge; return nil },
}

// write puts what the flags that were given say into s. It returns those that stand in the place of what
// s had.
func (d *described) write(cmd *cobra.Command, s *spec.Fit, args []string) (instead []string, err error) {
	if err := d.method.check(cmd); err != nil {
		return nil, err
	}
	apply := func(name string, fn func(*described, *spec.Fit) error) {
		before := *s
		if err == nil {
			err = fn(d, s)
		}
		if replaced(reflect.ValueOf(before), reflect.ValueOf(*s)) {
			instead = append(instead, name)
		}
	}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if fn := spellings[flag.Name]; fn != nil && err == nil {
			apply("--"+flag.Name, fn)
		}
	})
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"activation", "param", "leaves"} {
		if cmd.Flags().Changed(name) {
			apply("--"+name, func(d *described, s *spec.Fit) error { return d.writeActivations(cmd, s) })
			break
		}
	}
	if err == nil && len(args) > 0 {
		apply("DATA", func(_ *described, s *spec.Fit) error { s.Data = args[0]; return nil })
	}
	return instead, err
}

// replaced says whether a part of a description that had a value has another.
func replaced(before, after reflect.Value) bool {
	if before.Kind() != reflect.Struct {
		return !before.IsZero() && !reflect.DeepEqual(before.Interface(), after.Interface())
	}
	for i := range before.NumField() {
		if replaced(before.Field(i), after.Field(i)) {
			return true
		}
	}
	return false
}

func (d *described) role(s *spec.Fit, role, column string) error {
	roles := map[string]string{}
	for r, c := range s.Roles {
		roles[r] = c
	}
	if roles[role] = column; column == "" {
		delete(roles, role)
	}
	s.Roles = roles
	return nil
}

func (d *described) writeFormula(s *spec.Fit) error {
	s.Formula = d.flag.Formula
	return nil
}

func (d *described) writeReferences(s *spec.Fit) (err error) {
	s.Reference, err = references(d.references)
	return err
}

func (d *described) writeIntercept(s *spec.Fit) error {
	s.Intercepts = host.InterceptsOf(d.intercept, d.intercept)
	return nil
}

func (d *described) writeSigma(s *spec.Fit) (err error) {
	s.Sigma, err = parseSigma(d.sigma)
	return err
}

func (d *described) writeDof(s *spec.Fit) (err error) {
	s.Dof, err = parseDof(d.dof)
	return err
}

// parseDof reads --dof; 0 is auto.
func parseDof(text string) (float64, error) {
	if text == "auto" {
		return 0, nil
	}
	dof, err := strconv.ParseFloat(text, 64)
	if err != nil || !(dof > 0) {
		return 0, usagef("--dof %s: want a number above 0, or auto", text)
	}
	return dof, nil
}

func (d *described) writeMethod(s *spec.Fit) error {
	s.Method.Name = d.method.name
	return nil
}

// withError is a list of kinds of standard errors with one of them, or without it.
func withError(kinds []host.ErrorKind, kind host.ErrorKind, on bool) (out []host.ErrorKind) {
	for _, k := range kinds {
		if k != kind && !(on && kind == host.Robust && k == host.Observed) {
			out = append(out, k)
		}
	}
	if on {
		out = append(out, kind)
	}
	return out
}

// writeK reads --k, a number or a range FROM:TO.
func (d *described) writeK(s *spec.Fit) error {
	from, to, isRange := strings.Cut(d.k, ":")
	var err error
	if s.K, err = strconv.Atoi(from); err == nil && isRange {
		s.KTo, err = strconv.Atoi(to)
	} else {
		s.KTo = 0
	}
	switch {
	case err != nil:
		return usagef("--k %s: want a number of experts, or a range such as 1:6", d.k)
	case s.K < 1:
		return usagef("--k %s: want at least 1", d.k)
	case isRange && s.KTo < s.K:
		return usagef("--k %s: want the smaller number first", d.k)
	}
	return nil
}

func (d *described) writeHierarchy(s *spec.Fit) error {
	s.Hierarchy = d.tree.hierarchy
	return nil
}

func (d *described) writeMaxLeaves(s *spec.Fit) error {
	if s.MaxLeaves = d.tree.most; d.tree.most < 1 {
		return usagef("--max-leaves %d: want at least 1", d.tree.most)
	}
	return nil
}

// writeActivations reads --activation, --param and --leaves.
func (d *described) writeActivations(cmd *cobra.Command, s *spec.Fit) error {
	params := d.activation.params
	switch {
	case cmd.Flags().Changed("leaves") && cmd.Flags().Changed("activation"):
		return usagef("--leaves %s: give it or --activation", d.tree.leaves)
	case cmd.Flags().Changed("leaves"):
		leaves, err := parseLeaves(d.tree.leaves)
		if err != nil {
			return err
		}
		s.Activation, s.Leaves = spec.Activation{}, nil
		if len(leaves) > 1 {
			if len(params) > 0 {
				return usagef("--param %s: parameters of leaves stand with their names, as in leakyrelu(slope=0.1)",
					params[0])
			}
			for _, l := range leaves {
				s.Leaves = append(s.Leaves, spec.Activation{Name: l.name, Params: l.params})
			}
			return nil
		}
		s.Activation.Name = leaves[0].name
		for key, v := range leaves[0].params {
			params = append(params, fmt.Sprintf("%s=%v", key, v))
		}
	case cmd.Flags().Changed("activation"):
		s.Activation, s.Leaves = spec.Activation{Name: d.activation.name}, nil
	}
	given, err := parseParams(params)
	if err != nil || len(given) == 0 {
		return err
	}
	of := map[string]float64{}
	for key, v := range s.Activation.Params {
		of[key] = v
	}
	for key, v := range given {
		of[key] = v
	}
	s.Activation.Params = of
	return nil
}

// check refuses a description that contradicts itself, and names its parts as flags where
// those say them, or no file has been read.
func check(cmd *cobra.Command, s *spec.Fit) error {
	return worded(cmd, s.Check())
}

// worded is an error of a description with its keys as the user has said them.
func worded(cmd *cobra.Command, err error) error {
	var bad *spec.Error
	if !errors.As(err, &bad) {
		return err
	}
	fromFile := cmd.Flags().Lookup("config") != nil && cmd.Flags().Changed("config")
	return usagef("%s", bad.Worded(func(key setting.Key, value string) string {
		if fromFile && !cmd.Flags().Changed(string(key)) {
			return setting.InFile(key, value)
		}
		return asFlag(key, value)
	}))
}

// asFlag says a setting as a flag of the command.
func asFlag(key setting.Key, value string) string {
	if value == "" {
		return "--" + string(key)
	}
	return "--" + string(key) + " " + value
}

// message is what an error says, with what can be set as flags.
func message(err error) string { return setting.Message(err, asFlag) }

// readConfig reads the description in a file, or on standard input for "-".
func readConfig(cmd *cobra.Command, path string) (*spec.Fit, []byte, error) {
	name, from := path, io.Reader(cmd.InOrStdin())
	if path == "-" {
		name = "stdin"
	} else {
		f, err := textfile.Open(path)
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		from = f
	}
	data, err := io.ReadAll(io.LimitReader(from, spec.MaxSize+1))
	if err != nil {
		return nil, nil, err
	}
	s, err := spec.Parse(name, data)
	return s, bytes.TrimSpace(data), err
}

// printConfig prints a description as a file.
func printConfig(cmd *cobra.Command, s *spec.Fit) error {
	data, err := s.JSON()
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(data)
	return err
}
