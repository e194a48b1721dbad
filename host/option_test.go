package host

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/descent"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/sdk"
)

// trial is a fit that asks for one thing more than another.
type trial struct {
	act     sdk.Activation
	src     dataset.Source
	cfg     Config
	started *model.Params
}

// json is the model's file.
func (r *trial) json(t *testing.T) ([]byte, error) {
	m, err := Fit(t.Context(), r.act, r.src, r.cfg)
	if err != nil {
		return nil, err
	}
	return m.JSON()
}

// weighted are the rows of src with weights 1, 2, 3, 1, …
func weighted(t *testing.T, src dataset.Source) dataset.Source {
	t.Helper()
	return withRole(t, src, model.Weights, func(r int) float64 { return float64(1 + r%3) })
}

// withRole gives the rows a column of a role, by their places in their blocks.
func withRole(t *testing.T, src dataset.Source, role model.Role, value func(r int) float64) dataset.Source {
	t.Helper()
	data, err := dataset.Load(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	schema := src.Schema()
	schema.Roles[role] = "w"
	for i := range data.Blocks {
		b := &data.Blocks[i]
		for r := range b.N {
			b.Role[role] = append(b.Role[role], value(r))
		}
	}
	return dataset.InMemory(schema, data)
}

// asks are what fits may be asked for, by the fields of [Config] that say so.
var asks = []struct {
	option Option // "": every method takes it
	field  string
	set    func(*trial)
}{
	{OptStart, "Start", func(r *trial) { r.cfg.Start = r.started }},
	{OptTransform, "Transform", func(r *trial) { r.cfg.Transform = Polynomial }},
	{OptInputs, "Inputs", func(r *trial) { r.cfg.Inputs = MixtureInputs }},
	{OptRobust, "Errors", func(r *trial) { r.cfg.Errors = []ErrorKind{Robust} }},
	{OptHAC, "Errors", func(r *trial) { r.cfg.Errors = []ErrorKind{Dependent} }},
	{OptArrangements, "Arrangements", func(r *trial) { r.cfg.Arrangements = true }},
	{OptGatePenalty, "GatePenalty", func(r *trial) { r.cfg.GatePenalty = "0.1" }},
	{OptExpertRidge, "ExpertRidge", func(r *trial) { r.cfg.ExpertRidge = "0.1" }},
	{OptExpertLasso, "ExpertLasso", func(r *trial) { r.cfg.ExpertLasso = "0.1" }},
	{OptIntercepts, "Intercepts", func(r *trial) { r.cfg.Intercepts = BothIntercepts }},
	{OptIntercepts, "Intercepts", func(r *trial) { r.cfg.Intercepts = ExpertIntercepts }},
	{OptIntercepts, "Intercepts", func(r *trial) { r.cfg.Intercepts = GateIntercepts }},
	{OptConstantGate, "Gate", func(r *trial) { r.cfg.Gate = Constant{} }},
	{OptGateFeatures, "Gate", func(r *trial) { r.cfg.Gate = Softmax{Features: []string{"x2"}} }},
	{OptExpertFeatures, "ExpertFeatures", func(r *trial) { r.cfg.ExpertFeatures = []string{"x1", "x3"} }},
	{OptShared, "Tied", func(r *trial) { r.cfg.Tied = []string{"x2"} }},
	{OptHierarchy, "Hierarchy", func(r *trial) {
		r.cfg.K, r.cfg.Hierarchy = 3, model.Hierarchy{Branches: []model.Hierarchy{{}, model.FlatHierarchy(2)}}
	}},
	{OptLeaves, "Leaves", func(r *trial) { r.cfg.Leaves, r.act = []sdk.Activation{r.act, activation(relu.Family, nil)}, nil }},
	{OptOutput, "Output", func(r *trial) { r.act, r.cfg.Output = activation(relu.Family, nil), SharedScale }},
	{OptFamily, "Family", func(r *trial) { r.cfg.Family = "logistic" }},
	{"", "K", func(r *trial) { r.cfg.K = 1 }},
	{"", "Noise", func(r *trial) { r.cfg.Noise = PerExpert{} }},
	{"", "Noise", func(r *trial) { r.cfg.Noise = Shared{Sigma: 0.3} }},
	{"", "Truth", func(r *trial) { r.cfg.Truth = r.started }},
}

// elsewhere are the fields of [Config] that no fit here is asked for, and why.
var elsewhere = map[string]string{
	"Choose":      "of a range of k, by any method",
	"Method":      "what they are asked of",
	"Seed":        "the moment estimate draws nothing",
	"Threads":     "nothing depends on it",
	"MaxMemory":   "changes where rows are, and not the model",
	"Design":      "goes to the model's file as it is",
	"Approximate": "is for plugins, whatever the method",
	"Dof":         "is of one family: TestGivenDof",
	"ZeroExpert":  "is of counts: TestZeroExpertRefused",
	"Checkpoint":  "is told", "Resume": "is refused where it is of another fit", "Progress": "is told", "Reading": "is told",
}

// small are the methods with settings that make fits short.
func small() []Method {
	few := MiniBatches{Batch: 64, Epochs: 2}
	return []Method{Auto{Starts: 2}, Moments{}, Spectral{}, EM{Starts: 2}, L2{MiniBatches: few, Starts: 2}, L4{MiniBatches: few}}
}

// settings are other values than those of [small] for the methods' own fields.
var settings = map[Option]struct {
	field string
	value any
}{
	OptStarts: {"Starts", 1}, OptMu: {"Mu", 0.7}, OptRadius: {"Radius", 0.01}, OptCorrections: {"Corrections", 1}, OptOptimiser: {"Optimiser", descent.Optimisers()[1]},
	OptBatch: {"Batch", 50}, OptStepSize: {"StepSize", 0.01}, OptSchedule: {"Schedule", optim.Schedules()[0]}, OptEpochs: {"Epochs", 1},
	OptLambda: {"Lambda", 3.0}, OptPenalty: {"Penalty", descent.UnitNorm}, OptRidge: {"Ridge", new(float64)},
}

// with returns m with another value of a field; nil where it has none of that name.
func with(m Method, field string, value any) Method {
	v := reflect.New(reflect.TypeOf(m)).Elem()
	v.Set(reflect.ValueOf(m))
	f := v.FieldByName(field)
	if !f.IsValid() {
		return nil
	}
	f.Set(reflect.ValueOf(value))
	return v.Interface().(Method)
}

// TestTakes goes over every method and everything that a fit may be asked for: what the
// method does not take is refused, by name, with the methods that take it, and what it does take
// changes the model's file. Every field of the configuration is among what is asked, or said not to be.
func TestTakes(t *testing.T) {
	testslow.Mark(t)
	act, src, truth := cell{identity.Family, nil, 2, 5, 250, 0.3, sample.Random}.draw(t, 1) // d above 2k, standard inputs: every method can fit it
	table := &trial{act: act, src: src, started: truth, cfg: Config{K: 2}}
	for _, m := range small() {
		base := *table
		base.cfg.Method = m
		want, err := base.json(t)
		if err != nil {
			t.Fatalf("%s: %v", m.Name(), err)
		}
		for _, a := range asks {
			r := base
			a.set(&r)
			got, err := r.json(t)
			checkTaken(t, m, a.option, got, want, err)
		}
		r := base
		r.src = weighted(t, src)
		got, err := r.json(t)
		checkTaken(t, m, OptWeights, got, want, err)
		r = base
		r.src = withRole(t, src, model.Clusters, func(r int) float64 { return float64(r / 10) })
		got, err = r.json(t)
		checkTaken(t, m, OptCluster, got, want, err)
		r = base
		r.src = withRole(t, src, model.Groups, func(r int) float64 { return float64(r / 2) })
		got, err = r.json(t)
		checkTaken(t, m, OptGroup, got, want, err)
		for o, s := range settings {
			other := with(m, s.field, s.value)
			if (other != nil) != Takes(m, o) {
				t.Errorf("method %s: a field %s %v, takes %s %v", m.Name(), s.field, other != nil, o, Takes(m, o))
			}
			if other == nil {
				continue
			}
			r := base
			r.cfg.Method = other
			got, err := r.json(t)
			checkTaken(t, m, o, got, want, err)
		}
	}
}

func checkTaken(t *testing.T, m Method, o Option, got, want []byte, err error) {
	t.Helper()
	if o == "" || Takes(m, o) {
		switch {
		case err != nil:
			t.Errorf("method %s takes %q: %v", m.Name(), o, err)
		case bytes.Equal(got, want):
			t.Errorf("method %s takes %q, and it changes nothing", m.Name(), o)
		}
		return
	}
	var request *RequestError
	text := string(o) + " has no effect on method " + m.Name() + "; it is for " + strings.Join(Taking(o), ", ")
	if !errors.As(err, &request) || err.Error() != text {
		t.Errorf("method %s does not take %q: error %v, want %s", m.Name(), o, err, text)
	}
}

// TestAsks: no field of the configuration or of a method is left out of [TestTakes].
func TestAsks(t *testing.T) {
	known := elsewhere
	for _, a := range asks {
		if known[a.field] != "" {
			t.Errorf("%s is asked for and said not to be", a.field)
		}
	}
	for f := range reflect.TypeFor[Config]().Fields() {
		asked := slices.ContainsFunc(asks, func(a struct {
			option Option
			field  string
			set    func(*trial)
		}) bool {
			return a.field == f.Name
		})
		if f.IsExported() && !asked && known[f.Name] == "" {
			t.Errorf("nothing asks for Config.%s", f.Name)
		}
	}
	for _, m := range Methods() {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(m)) {
			if f.Anonymous {
				continue
			}
			found := false
			for _, s := range settings {
				found = found || s.field == f.Name
			}
			if !found {
				t.Errorf("nothing asks for the %s of method %s", f.Name, m.Name())
			}
		}
		for _, o := range m.Takes() {
			if !slices.Contains(Options(), o) {
				t.Errorf("method %s takes %q, which is no option", m.Name(), o)
			}
		}
	}
	for _, o := range Options() {
		if len(Taking(o)) == 0 {
			t.Errorf("no method takes %q", o)
		}
	}
}

// TestListsRefused: kinds of intercepts and standard errors that there are not, or that
// contradict each other.
func TestListsRefused(t *testing.T) {
	act, src, _ := cell{identity.Family, nil, 2, 5, 250, 0.3, sample.Random}.draw(t, 1)
	for want, cfg := range map[string]Config{
		`intercepts = "none"; there are both, experts, gate, and "" for none`: {Intercepts: "none"},
		`standard errors = "bootstrap"; there are [observed robust hac]`:      {Errors: []ErrorKind{Robust, "bootstrap"}},
		"standard errors: hac stands twice":                                   {Errors: []ErrorKind{Dependent, Robust, Dependent}},
		"standard errors: a model has those of kind observed or robust":       {Errors: []ErrorKind{Observed, Robust}},
	} {
		cfg.K = 2
		var request *RequestError
		if _, err := Fit(t.Context(), act, src, cfg); !errors.As(err, &request) || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
