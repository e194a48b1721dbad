package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/descent"
	"github.com/gatedlearning/moe/host/mixture/mixturetest"
)

var update = flag.Bool("update", false, "write testdata")

// whole is a description in which every key has a value. It contradicts itself.
func whole() *Fit {
	seed, ridge := uint64(0), 0.0
	return &Fit{
		Format: Format, Data: "trial.csv", Moments: "all.moments", Target: "dose", Targets: []string{"a", "b"}, Features: []string{"age", "sex"}, Drop: []string{"id"},
		Roles: map[string]string{"weights": "w"}, Formula: "dose ~ age | sex", GateFeatures: []string{"age"}, Shared: []string{"age"}, Categorical: []string{"site"},
		Reference: map[string]string{"sex": "f"}, Missing: "drop", Decimal: ",", Activation: Activation{"leakyrelu", map[string]float64{"slope": 0.1}},
		Leaves: []Activation{{Name: "identity"}, {"leakyrelu", map[string]float64{"slope": 1e-300}}}, K: 1, KTo: 4, Choose: host.ByICL, Hierarchy: "2x(1,2)", MaxLeaves: 5,
		Intercepts: host.ExpertIntercepts, Gate: "softmax", Noise: "shared,per-expert", Family: "student-t", Dof: 4, ZeroExpert: true, Sigma: 0.1, OutputScale: host.SharedScale, GateShared: true, NoiseCovariance: host.Full,
		Method:    Method{"l4", 3, 0.5, 2, 5, 7, 64, 0.01, "cosine", "adam", 20, descent.UnitNorm, &ridge},
		Transform: host.Optimal, Inputs: host.MixtureInputs, Errors: []host.ErrorKind{host.Robust, host.Dependent}, Arrangements: true, GatePenalty: "0.01", ExpertRidge: "auto", ExpertLasso: "2", Start: "start.json", Truth: "truth.json", Seed: &seed, ExactActivation: true, Embed: true, NoGroupPosteriors: true,
	}
}

// TestGolden: every key as it stands in a file, and the file read again. The example has a value for every
// field, so that no field is without a key.
func TestGolden(t *testing.T) {
	f := whole()
	for _, v := range []any{*f, f.Method, f.Activation} {
		for i, at := 0, reflect.ValueOf(v); i < at.NumField(); i++ {
			if at.Field(i).IsZero() {
				t.Errorf("%T.%s has no value", v, at.Type().Field(i).Name)
			}
		}
	}
	got, err := f.JSON()
	if err != nil {
		t.Fatal(err)
	}
	const file = "testdata/fit.json"
	if *update {
		if err := os.WriteFile(file, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s: %s", file, diff)
	}
	read, err := Parse(file, want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f, read); diff != "" {
		t.Error(diff)
	}
}

// filled has fields of v drawn, any of them absent.
func filled(t *rapid.T, v reflect.Value) {
	if rapid.IntRange(0, 3).Draw(t, "absent") == 0 {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			filled(t, v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rapid.IntRange(0, 3).Draw(t, "length"), 3))
		for i := range v.Len() {
			filled(t, v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			of := reflect.New(v.Type().Elem()).Elem()
			filled(t, of)
			v.SetMapIndex(reflect.ValueOf(rapid.String().Draw(t, "key")), of)
		}
	case reflect.String:
		v.SetString(rapid.String().Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "flag"))
	case reflect.Int:
		v.SetInt(int64(rapid.Int().Draw(t, "number")))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "number"))
	case reflect.Float64:
		v.SetFloat(rapid.Float64().Draw(t, "number"))
	default:
		t.Fatalf("no values of kind %v", v.Kind())
	}
}

// TestRoundTrip: any description, whatever it says, is read from its file as it was written.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := new(Fit)
		filled(t, reflect.ValueOf(f).Elem())
		f.Format = Format
		data, err := f.JSON()
		if err != nil {
			t.Fatal(err)
		}
		read, err := Parse("fit.json", data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(f, read); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestParseRefuses what is no description, and says where.
func TestParseRefuses(t *testing.T) {
	const ok = `{"format": "moe-fit/v1", "data": "a.csv", "activation": {"name": "relu"}, "k": 2`
	for text, want := range map[string]string{
		"":                     "fit.json:1:1: not a description of a fit: want a JSON object",
		"x1,y\n1,2\n":          "fit.json:1:1: not a description of a fit: want a JSON object",
		ok:                     "fit.json:1:",
		ok + "} {}":            "something follows the object",
		ok + ",\n \"k\": 3}":   `fit.json:2:4: not a description of a fit: member "k" stands twice in its object`,
		ok + ",\n\"Seed\": 3}": `fit.json:2:6: not a description of a fit: member "Seed": want "seed"`,
		ok + `, "method": {"name": "l4", "bacth": 9}}`: `unknown key "method.bacth"; did you mean "method.batch"?`,
		ok + ",\n \"weights\": \"w\"}":                 `fit.json:2:10: not a description of a fit: unknown key "weights"`,
		ok + `, "seed": 1.5}`:                          "seed is the number 1.5, want a whole number from 0 on",
		ok + `, "seed": -1}`:                           "seed is the number -1, want a whole number from 0 on",
		ok + `, "features": ["a", null]}`:              "null in a list",
		ok + `, "errors": "robust"}`:                   "errors is a string, want an array",
		`{"data": "a.csv"}`:                            `format = "", want "moe-fit/v1"`,
		`{"format": "moe-model/v1"}`:                   `format = "moe-model/v1", want "moe-fit/v1"`,
		`{"format": "moe-model/v1", "d": 2}`:           `unknown key "d"`,
	} {
		_, err := Parse("fit.json", []byte(text))
		var bad *dataset.Error
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "fit.json:") {
			t.Errorf("%s: error %v, want %s", text, err, want)
		}
	}
	for _, begin := range []string{"", "\ufeff"} { // what some editors begin files with
		if f, err := Parse("fit.json", []byte(begin+ok+"}")); err != nil || f.Check() != nil {
			t.Errorf("%q: %v, %v", begin, err, f.Check())
		}
	}
}

// TestCheckRefuses what contradicts itself, by the names of the keys in files.
func TestCheckRefuses(t *testing.T) {
	for want, change := range map[string]func(*Fit){
		`roles: no role "other"; there are [weights group cluster offset trials]`: func(f *Fit) { f.Roles = map[string]string{"other": "o"} },
		"errors robust has no effect beside roles.cluster, whose standard errors hold where robust ones do": func(f *Fit) {
			f.Roles, f.Errors = map[string]string{"cluster": "site"}, []host.ErrorKind{host.Robust}
		},
		"want one of DATA and moments FILE": func(f *Fit) { f.Moments = "all.moments" },
		"roles.weights has no effect beside moments: the sums have been made": func(f *Fit) {
			f.Data, f.Moments, f.Roles = "", "all.moments", map[string]string{"weights": "w"}
		},
		"max_leaves 3: it bounds the tree of hierarchy auto":                                                      func(f *Fit) { f.MaxLeaves = 3 },
		"k 2: hierarchy auto finds the number of experts, and max_leaves bounds it":                               func(f *Fit) { f.Hierarchy = Growing },
		"k 2: the hierarchy 2x2 has 4 leaves":                                                                     func(f *Fit) { f.Hierarchy = "2x2" },
		`hierarchy "2x": character 3: want`:                                                                       func(f *Fit) { f.Hierarchy = "2x" },
		"k: want a number of experts, or a hierarchy":                                                             func(f *Fit) { f.K = 0 },
		"k -1: want at least 1":                                                                                   func(f *Fit) { f.K = -1 },
		"k 2:1: want the smaller number first":                                                                    func(f *Fit) { f.KTo = 1 },
		"activation: want the name of one, or leaves":                                                             func(f *Fit) { f.Activation = Activation{} },
		"leaves a,b: give it or activation":                                                                       func(f *Fit) { f.Leaves = []Activation{{Name: "a"}, {Name: "b"}} },
		"intercepts has no effect beside formula":                                                                 func(f *Fit) { f.Formula, f.Intercepts = "y ~ x", host.GateIntercepts },
		"missing keep: want refuse or drop":                                                                       func(f *Fit) { f.Missing = "keep" },
		`unknown noise "each"; there are shared, per-expert, per-expert:FLOOR`:                                    func(f *Fit) { f.Noise = "each" },
		`noise per-expert:0: want a number above 0 behind the colon, and neither sigma nor gate_shared beside it`: func(f *Fit) { f.Noise = "per-expert:0" },
		`noise per-expert:1: want a number above 0 behind the colon, and neither sigma nor gate_shared beside it`: func(f *Fit) { f.Noise, f.Sigma = "per-expert:1", 2 },
		`unknown method "em2"`:                                                                                    func(f *Fit) { f.Method.Name = "em2" },
		"mu has no effect on method em; it is for auto, moments, l4":                                              func(f *Fit) { f.Method = Method{Name: "em", Mu: 1} },
		"robust has no effect on method moments; it is for auto, em":                                              func(f *Fit) { f.Method.Name, f.Errors = "moments", []host.ErrorKind{host.Robust} },
		"gate_shared has no effect without targets, which share the gate":                                         func(f *Fit) { f.GateShared = true },
		"output_scale has no effect beside targets: an offset and a scale are of one target":                      func(f *Fit) { f.Targets, f.OutputScale = []string{"a"}, host.SharedScale },
		`targets: column "a" is named twice`:                                                                      func(f *Fit) { f.Targets = []string{"a", "a"} },
		`column "w" is both the weights and dropped`:                                                              func(f *Fit) { f.Roles, f.Drop = map[string]string{"weights": "w"}, []string{"w"} },
	} {
		f := &Fit{Data: "a.csv", Activation: Activation{Name: "relu"}, K: 2}
		if err := f.Check(); err != nil {
			t.Fatal(err)
		}
		change(f)
		if err := f.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// FuzzParse: whatever a file holds, it is refused with its name, or is a description that its own file
// says again, and that can be checked.
func FuzzParse(f *testing.F) {
	golden, err := os.ReadFile("testdata/fit.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{string(golden), string(golden[:len(golden)/2]), `{"format": "moe-fit/v1"}`, `{"format": "moe-fit/v1", "k": 3, "hierarchy": "2x(1,2)", "data": "-", "formula": "y ~ x", "activation": {"name": "relu"}}`,
		`{"format": "moe-fit/v1", "targets": [], "roles": {"": ""}, "method": {"ridge": 0}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("fit.json", data)
		if err != nil {
			if bad := (*dataset.Error)(nil); !errors.As(err, &bad) || bad.File != "fit.json" {
				t.Fatalf("error %v", err)
			}
			return
		}
		if !json.Valid(data) {
			t.Fatal("what is no JSON was read")
		}
		again, err := s.JSON()
		if err != nil {
			t.Fatal(err)
		}
		read, err := Parse("fit.json", again)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s, read); diff != "" {
			t.Fatal(diff)
		}
		if third, _ := read.JSON(); !bytes.Equal(again, third) {
			t.Fatal("written twice, it differs")
		}
		if s.Check() == nil {
			if _, err := s.Config(); err != nil {
				t.Fatalf("checked, and it has no configuration: %v", err)
			}
			if _, err := s.Tables(); err != nil {
				t.Fatalf("checked, and it has no tables: %v", err)
			}
		}
	})
}

// TestKeysOfRoles: the keys of all roles of columns stand among the roles in files.
func TestKeysOfRoles(t *testing.T) {
	for _, role := range dataset.RoleNames() {
		if got := Key(role).String(); got != "roles."+role {
			t.Errorf("%q is %q in files", role, got)
		}
	}
}

// TestMessage: a program says what can be set in its words, of wrapped errors too.
func TestMessage(t *testing.T) {
	f := Default()
	f.Method.Name, f.K, f.Activation.Name, f.MaxLeaves = "auto", 2, "identity", 3
	err := fmt.Errorf("fit.json: %w", f.Check())
	if got, want := err.Error(), "fit.json: max_leaves 3: it bounds the tree of hierarchy auto"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	argument := func(key Key, value string) string { return "arguments$" + string(key) + value }
	want := "fit.json: arguments$max-leaves 3: it bounds the tree of arguments$hierarchy auto"
	if got := Message(err, argument); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestCheckAsFitted: what every fit refuses before it looks at the data is refused of the description.
func TestCheckAsFitted(t *testing.T) {
	for want, key := range map[string]string{
		"transform has no effect beside inputs mixture":     `"activation": {"name": "relu"}, "method": {"name": "spectral"}, "inputs": "mixture", "transform": "polynomial"`,
		"several targets knows normal noise alone":          `"activation": {"name": "exp"}, "targets": ["a", "b"], "family": "poisson"`,
		"poisson is for experts of one activation":          `"leaves": [{"name": "relu"}, {"name": "exp"}], "family": "poisson"`,
		"inputs mixture has no effect on experts with":      `"leaves": [{"name": "relu"}, {"name": "exp"}], "inputs": "mixture"`,
		"output scale shared is for one gate over":          `"leaves": [{"name": "relu"}, {"name": "exp"}], "output_scale": "shared"`,
		"leaves has no effect on method l2":                 `"leaves": [{"name": "relu"}, {"name": "exp"}], "method": {"name": "l2"}`,
		"column of weights has no effect on method l2":      `"activation": {"name": "relu"}, "roles": {"weights": "w"}, "method": {"name": "l2"}`,
		"choice of the gate's features has no effect on":    `"activation": {"name": "relu"}, "gate_features": ["x1"], "method": {"name": "l4"}`,
		"a ridge on the gate is not for rows in groups":     `"activation": {"name": "relu"}, "roles": {"group": "id"}, "gate_penalty": "2"`,
		"expert that is always 0 is not for rows in groups": `"activation": {"name": "exp"}, "family": "poisson", "roles": {"group": "id"}, "zero_expert": true`,
		"the offset log(n) is for families of other than":   `"activation": {"name": "identity"}, "roles": {"offset": "log(n)"}`,
	} {
		f, err := Parse("fit.json", []byte(`{"format": "moe-fit/v1", "data": "nowhere.csv", "k": 2, `+key+`}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", key, err, want)
		}
	}
}

// TestCheckJointFamily: a density of several targets that is registered is for those under one gate, and no others.
func TestCheckJointFamily(t *testing.T) {
	mixturetest.RegisterJoint()
	for more, want := range map[string]string{`, "gate_shared": true`: "", "": "there is no such family"} {
		f, err := Parse("fit.json", []byte(`{"format": "moe-fit/v1", "data": "nowhere.csv", "k": 2, "activation": {"name": "identity"},
			"targets": ["a", "b"], "family": "`+mixturetest.Exchangeable{}.Name()+`"`+more+`}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Check(); want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", more, err, want)
		}
	}
}
