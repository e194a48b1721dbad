package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/report/verdict"
	"github.com/gatedlearning/moe/solver"
)

// lawFlags are the flags of the law of y in moe validate-activation.
type lawFlags struct {
	family     string
	dispersion float64
	dof        float64
	trials     int
	psi        []float64 // its own parameters
}

func (f *lawFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.family, "family", "", "law of y given its mean: "+strings.Join(host.Families(), ", ")+
		" (default gaussian, which lognormal is of log y)")
	flags.Float64Var(&f.dispersion, "dispersion", 2, "theta of --family negative-binomial, shape of --family gamma")
	flags.Float64Var(&f.dof, "dof", 4, "degrees of freedom of --family student-t")
	flags.IntVar(&f.trials, "trials", 1, "trials of a row of --family binomial")
}

// normal says whether y is normal about its mean.
func (f *lawFlags) normal() bool { return host.DensityName(f.family) == "" }

// check takes the own parameters of the family from the flags, and refuses those that it has not.
func (f *lawFlags) check(cmd *cobra.Command, sigma float64) error {
	if f.family != "" && !slices.Contains(host.Families(), f.family) {
		return usagef("--family %s: there is no such family; there are %s", f.family,
			strings.Join(host.Families(), ", "))
	}
	f.family = host.DensityName(f.family)
	takes := map[string]bool{}
	f.psi = nil
	for _, own := range mixture.DensityOf(f.family).Own() {
		flag, v := "dispersion", f.dispersion
		switch own.Name {
		case "sigma":
			flag, v = "sigma", sigma
		case "dof":
			flag, v = "dof", f.dof
		}
		takes[flag] = true
		if !f.normal() && !(v > 0 && v >= own.Least && v <= own.Most && !math.IsInf(v, 0)) {
			return usagef("--%s %v: want a number above 0, from %v to %v", flag, v, own.Least, own.Most)
		}
		f.psi = append(f.psi, v)
	}
	takes["trials"] = f.binomial()
	if f.trials < 1 {
		return usagef("--trials %d: want a number from 1", f.trials)
	}
	for _, name := range []string{"sigma", "dispersion", "dof", "trials"} {
		if cmd.Flags().Changed(name) && !takes[name] {
			return usagef("--%s has no effect on %s", name, f.words())
		}
	}
	return nil
}

// binomial says whether y counts the successes of trials.
func (f *lawFlags) binomial() bool { return f.family == (mixture.Binomial{}).Name() }

// density is the law of y under an expert.
func (f *lawFlags) density() mixture.Density {
	d := mixture.DensityOf(f.family)
	if f.binomial() {
		d = mixture.OfTrials(d, []float64{float64(f.trials)})
	}
	return d
}

// words name the family and its parameters.
func (f *lawFlags) words() string {
	if f.normal() {
		return "normal noise"
	}
	var own []string
	for q, of := range mixture.DensityOf(f.family).Own() {
		if q < len(f.psi) {
			own = append(own, fmt.Sprintf("%s %v", of.Name, f.psi[q]))
		}
	}
	if f.binomial() && f.trials > 1 {
		own = append(own, fmt.Sprintf("%d trials", f.trials))
	}
	if own == nil {
		return "family " + f.family
	}
	return "family " + f.family + " with " + strings.Join(own, " and ")
}

// printFamily prints the verdict on an open activation where y is of the family.
func (f *validateFlags) printFamily(cmd *cobra.Command, plugin *catalog.Plugin) error {
	answer := verdict.Family{
		Name: stated.Of(plugin.Activation.Info()).String(), Law: f.law.words(), Design: f.design,
	}
	var err error
	answer.Optimal, answer.Polynomial, err = solver.Under(cmd.Context(), plugin.Activation,
		mixture.NewGiven(f.law.density(), f.law.psi), f.design.K)
	if err != nil {
		return err
	}
	if wantsJSON(cmd) {
		err = printJSON(cmd, newValidationFamilyJSON(plugin, answer, f.law))
	} else {
		err = answer.Text(textOut(cmd))
	}
	if err == nil && !answer.Valid() {
		return errNo
	}
	return err
}

// validationFamilyJSON is the JSON of moe validate-activation --family.
type validationFamilyJSON struct {
	Activation activationJSON     `json:"activation"`
	Family     string             `json:"family"`
	Own        map[string]float64 `json:"own"`              // parameters of the family
	Trials     int                `json:"trials,omitempty"` // of a binomial row
	Valid      bool               `json:"valid"`
	Reasons    []string           `json:"reasons"`
	// SignsIdentifiable says whether the regressors' signs are told.
	SignsIdentifiable bool                `json:"signs_identifiable"`
	K                 int                 `json:"k"`
	D                 int                 `json:"d"`
	Transforms        []leastVarianceJSON `json:"transforms"`
	Samples           *float64            `json:"samples_for_1pct"`                  // from T2 and T4
	Cubic             *float64            `json:"samples_for_1pct_cubic"`            // from T2 and T3
	Polynomial        *float64            `json:"samples_for_1pct_polynomial"`       // from T2 and T4
	PolynomialCubic   *float64            `json:"samples_for_1pct_cubic_polynomial"` // from T2 and T3
}

func newValidationFamilyJSON(plugin *catalog.Plugin, a verdict.Family, f lawFlags) *validationFamilyJSON {
	j := &validationFamilyJSON{
		Activation: newActivationJSON(plugin), Family: f.family, Own: map[string]float64{}, Valid: a.Valid(),
		Reasons: append([]string{}, a.Reasons()...), SignsIdentifiable: a.Signs(), K: a.Design.K, D: a.Design.D,
		Transforms: newTransformsJSON(a.Optimal, &a.Polynomial),
	}
	if f.binomial() {
		j.Trials = f.trials
	}
	for q, own := range mixture.DensityOf(f.family).Own() {
		j.Own[own.Name] = f.psi[q]
	}
	least, polynomial := a.Least(), verdict.RowsOf(a.Polynomial, a.Design)
	j.Samples, j.Cubic = wholeRows(least.L4), wholeRows(least.Spectral)
	j.Polynomial, j.PolynomialCubic = wholeRows(polynomial.L4), wholeRows(polynomial.Spectral)
	return j
}
