package stated_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/plugins/leakyrelu"
	"github.com/gatedlearning/moe/sdk"
)

// named is an activation of this name with a slope; none of NaN.
func named(name string, slope float64) stated.Activation {
	a := stated.Activation{Name: name, Params: map[string]float64{}}
	if !math.IsNaN(slope) {
		a.Params["slope"] = slope
	}
	return a
}

// TestNames: two are the same by name and parameters, and are written as one types them.
func TestNames(t *testing.T) {
	none := math.NaN()
	for _, c := range []struct {
		a    stated.Activation
		want string
	}{
		{named("relu", none), "relu"},
		{named("leakyrelu", .1), "leakyrelu(slope=0.1)"},
		{named("expr: slope*z", 2), "'expr: slope*z'(slope=2)"},
	} {
		if got := c.a.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	leaves := []stated.Activation{named("relu", none), named("leakyrelu", .1), named("relu", none), named("leakyrelu", .2)}
	leaves[2].Version = "2" // versions may differ
	if got := stated.Kinds(leaves); !slices.Equal(got, []int{0, 1, 0, 3}) {
		t.Errorf("kinds %v", got)
	}
}

// TestValues: another function of the same name is told by its values, from g itself and from another file's.
func TestValues(t *testing.T) {
	describe := func(slope float64) (stated.Activation, sdk.Activation) {
		act, err := leakyrelu.Family.New(sdk.Params{"slope": slope})
		if err != nil {
			t.Fatal(err)
		}
		a, err := stated.Describe(t.Context(), act)
		if err != nil {
			t.Fatal(err)
		}
		return a, act
	}
	a, act := describe(.1)
	other, another := describe(.2)
	if err := a.Verify(t.Context(), "m.json", act); err != nil {
		t.Error(err)
	}
	if err := a.Agree("m.json", a); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"g":    a.Verify(t.Context(), "m.json", another),
		"file": a.Agree("m.json", other),
	} {
		if data := (*dataset.Error)(nil); !errors.As(err, &data) || data.File != "m.json" || !strings.Contains(data.Msg, "another function") {
			t.Errorf("%s: %v", name, err)
		}
	}
	silent := stated.Of(act.Info()) // as files of before there were values
	if err := errors.Join(silent.Verify(t.Context(), "", another), silent.Agree("", other), a.Agree("", silent)); err != nil {
		t.Error("a file without values says something:", err)
	}
}

// TestCheck: what no activation can be is refused, with the member.
func TestCheck(t *testing.T) {
	module, err := stated.NewModule([]byte("\x00asm"))
	if err != nil {
		t.Fatal(err)
	}
	spoiled := *module
	spoiled.Code = []byte("\x00asn")
	with := func(m *stated.Module) stated.Activation {
		a := named("gelu", math.NaN())
		a.Module = m
		return a
	}
	for _, c := range []struct {
		a    stated.Activation
		want string // "" for none
	}{
		{named("relu", math.NaN()), ""},
		{named("a-2", math.Inf(1)), "activation.params.slope = +Inf is not finite"},
		{named("", 1), "activation.name is missing"},
		{named("../relu", 1), "want lower case letters, digits and dashes"},
		{named("2a", 1), "want lower case letters, digits and dashes"},
		{named("expr: slope*z", 2), ""},
		{named("expr: slope * z", 2), `want it as "expr: slope*z"`},
		{named("expr: slope*(z", 2), "activation.name: "},
		{with(module), ""},
		{with(&spoiled), "activation.module: sha256 is"},
	} {
		if err := c.a.Check(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.a, err, c.want)
		}
	}
	if _, err := stated.NewModule(make([]byte, 256<<10+1)); err == nil {
		t.Error("a module of more than 256 KiB goes into a file")
	}
}

// TestModuleInJSON: the code comes back as it was.
func TestModuleInJSON(t *testing.T) {
	m, err := stated.NewModule([]byte{0, 1, 255})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var back stated.Module
	if err := json.Unmarshal(text, &back); err != nil || !bytes.Equal(back.Code, m.Code) || back.SHA256 != m.SHA256 {
		t.Errorf("%s: %v, %v", text, back, err)
	}
}
