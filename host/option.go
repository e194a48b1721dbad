package host

import (
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
)

// Option is a setting of a fit that not every method has a use for, as messages call it;
// where a flag has it, the flag's name.
type Option string

// The settings that [Method.Takes] is about. What is not among them, such as the noise,
// every method takes.
const (
	OptStart          Option = "start"
	OptStarts         Option = "starts"
	OptMu             Option = "mu"
	OptTransform      Option = "transform"
	OptInputs         Option = "inputs"
	OptRadius         Option = "radius"
	OptCorrections    Option = "corrections"
	OptOptimiser      Option = "optimiser"
	OptBatch          Option = "batch"
	OptStepSize       Option = "step-size"
	OptSchedule       Option = "schedule"
	OptEpochs         Option = "epochs"
	OptLambda         Option = "lambda"
	OptPenalty        Option = "penalty"
	OptRidge          Option = "ridge"
	OptRobust         Option = "robust"
	OptHAC            Option = "hac"
	OptCluster        Option = "cluster"
	OptGroup          Option = "group"
	OptShared         Option = "shared" // coefficients of all experts
	OptArrangements   Option = "arrangements"
	OptGatePenalty    Option = "gate-penalty"
	OptExpertRidge    Option = "expert-ridge"
	OptExpertLasso    Option = "expert-lasso"
	OptStrict         Option = "strict" // to be judged by a certificate, at a maximum of the joint likelihood
	OptIntercepts     Option = "intercept"
	OptConstantGate   Option = "constant gate"
	OptGateFeatures   Option = "choice of the gate's features"
	OptExpertFeatures Option = "choice of the experts' features"
	OptHierarchy      Option = "hierarchy"
	OptLeaves         Option = "leaves"
	OptOutput         Option = "output scale"
	OptFamily         Option = "family of the target"
	OptZeroExpert     Option = "zero-expert"
	OptWeights        Option = "column of weights"
	OptMaxMemory      Option = "max memory"   // rows stay in their file
	OptSharedGate     Option = "shared gate"  // of several targets
	OptSums           Option = "sums of rows" // in the place of rows
	OptCheckpoints    Option = "checkpoints"
)

// Options lists the options.
func Options() []Option {
	return []Option{
		OptStart, OptStarts, OptMu, OptTransform, OptInputs, OptRadius, OptCorrections, OptOptimiser, OptBatch,
		OptStepSize, OptSchedule,
		OptEpochs, OptLambda, OptPenalty, OptRidge,
		OptRobust, OptHAC, OptCluster, OptGroup, OptShared, OptArrangements, OptGatePenalty, OptExpertRidge,
		OptExpertLasso,
		OptStrict,
		OptIntercepts, OptConstantGate, OptGateFeatures, OptExpertFeatures, OptHierarchy, OptLeaves, OptOutput,
		OptFamily, OptZeroExpert,
		OptWeights, OptMaxMemory, OptSharedGate, OptSums, OptCheckpoints,
	}
}

// What methods of a kind take.
var (
	likelihoodOptions = []Option{
		OptStart, OptStarts, OptRobust, OptHAC, OptCluster, OptGroup, OptShared, OptGatePenalty, OptExpertRidge,
		OptExpertLasso, OptStrict,
		OptIntercepts, OptConstantGate, OptGateFeatures, OptExpertFeatures, OptHierarchy, OptLeaves,
		OptOutput, OptFamily, OptZeroExpert, OptWeights, OptMaxMemory,
	}
	tensorOptions = []Option{OptTransform, OptInputs, OptRadius, OptFamily, OptWeights, OptMaxMemory, OptSums}
	batchOptions  = []Option{OptBatch, OptStepSize, OptSchedule, OptEpochs}
)

// Takes says whether m has a use for o.
func Takes(m Method, o Option) bool { return slices.Contains(m.Takes(), o) }

// Taking lists the names of the methods that have a use for o.
func Taking(o Option) (names []string) {
	for _, m := range Methods() {
		if Takes(m, o) {
			names = append(names, m.Name())
		}
	}
	return names
}

// Admit refuses an option that m has no use for, and names the methods that have.
func Admit(m Method, o Option) error {
	if Takes(m, o) {
		return nil
	}
	return problem.Refuse("%s has no effect on method %s; it is for %s", o, m.Name(), strings.Join(Taking(o), ", "))
}

// admitted refuses what c asks for beside a method that has no use for it.
func admitted(c Config) error {
	gate, softmax := c.Gate.(Softmax)
	for _, asked := range []struct {
		option Option
		is     bool
	}{
		{OptStart, c.Start != nil},
		{OptTransform, c.Transform != ""},
		{OptInputs, !c.Inputs.Gaussian()},
		{OptRobust, c.wants(Robust)},
		{OptHAC, c.wants(Dependent)},
		{OptArrangements, c.Arrangements},
		{OptGatePenalty, c.GatePenalty.Asked()},
		{OptExpertRidge, c.ExpertRidge != ""},
		{OptExpertLasso, c.ExpertLasso != ""},
		{OptIntercepts, c.Intercepts != NoIntercepts},
		{OptConstantGate, !softmax},
		{OptGateFeatures, gate.Features != nil},
		{OptExpertFeatures, c.ExpertFeatures != nil},
		{OptShared, c.Tied != nil},
		{OptHierarchy, c.Hierarchy.Depth() > 1},
		{OptLeaves, c.Leaves != nil},
		{OptOutput, c.Output != ""},
		{OptFamily, !c.normal()},
		{OptZeroExpert, c.ZeroExpert},
		{OptMaxMemory, c.MaxMemory != 0},
	} {
		if asked.is {
			if err := Admit(c.Method, asked.option); err != nil {
				return err
			}
		}
	}
	return nil
}

// admits refuses data of a kind that the method has no use for.
func admits(c Config, s dataset.Schema) error {
	if !c.normal() {
		if err := ofItself("a target of the family "+c.Family, s); err != nil {
			return err
		}
	}
	if c.Output != "" || c.Hierarchy.Depth() > 1 {
		if err := c.untied("an output scale, or a tree of gates,"); err != nil {
			return err
		}
	}
	for _, of := range []struct {
		role   model.Role
		option Option
	}{{model.Weights, OptWeights}, {model.Groups, OptGroup}, {model.Clusters, OptCluster}} {
		if s.Roles[of.role] != "" {
			if err := Admit(c.Method, of.option); err != nil {
				return err
			}
		}
	}
	if s.Roles[model.Groups] != "" {
		if err := groupable(c); err != nil {
			return err
		}
	}
	if c.wants(Robust) && s.Roles[model.Clusters] != "" {
		return problem.Refuse("robust has no effect beside cluster: its standard errors hold where robust ones do")
	}
	return nil
}

// ofItself refuses tables whose targets have a scale.
func ofItself(what string, s dataset.Schema) error {
	if s.Scale != "" {
		return problem.Refuse("%s is fitted as it is in the table, not as %s", what, s.Scale.Title(s.Target))
	}
	return nil
}
