package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
)

// verdictOn runs the command on an activation that is not in the catalog.
func verdictOn(t *testing.T, act sdk.Activation, asJSON bool) (string, error) {
	t.Helper()
	cmd := newValidateCmd()
	cmd.Flags().Bool("json", asJSON, "")
	cmd.SetContext(t.Context())
	var out bytes.Buffer
	cmd.SetOut(&out)
	f := &validateFlags{sigma: 0.05, design: solver.Design{K: 2, D: 10}}
	err := f.printVerdict(cmd, &catalog.Plugin{Activation: act})
	return out.String(), err
}

// TestInvalidActivations: the answer no is exit code 1, in words and as a JSON
// object whose numbers are all finite.
func TestInvalidActivations(t *testing.T) {
	zero := func(float64) float64 { return 0 }
	for _, act := range []sdk.Func{
		{Name: "sign", G: func(z float64) float64 { return math.Copysign(1, z) }, DG: zero, Kinks: []float64{0}},
		{Name: "constant", G: func(float64) float64 { return math.Pi }, DG: zero},
		{Name: "wild", G: func(z float64) float64 { return math.Exp(z * z / 4) }, DG: func(z float64) float64 { return z / 2 * math.Exp(z*z/4) }},
	} {
		text, err := verdictOn(t, act, false)
		if !errors.Is(err, errNo) || exitCode(err) != exitNo {
			t.Errorf("%s: %v, want the answer no", act.Name, err)
		}
		if !strings.HasPrefix(text, act.Name+" is NOT valid at σ = 0.05") || strings.Contains(text, "NaN") {
			t.Errorf("%s: %s", act.Name, text)
		}
		text, err = verdictOn(t, act, true)
		if !errors.Is(err, errNo) {
			t.Errorf("%s: %v, want the answer no", act.Name, err)
		}
		var object struct {
			Valid   *bool
			Reasons []string
			Noise   map[string]*float64
		}
		if err := json.Unmarshal([]byte(text), &object); err != nil {
			t.Fatalf("%s: %v in %s", act.Name, err, text)
		}
		if object.Valid == nil || *object.Valid || len(object.Reasons) == 0 || object.Noise["v4"] != nil {
			t.Errorf("%s: %s", act.Name, text)
		}
	}
}

// TestOptimalWithoutValidity: z·Φ(βz) with c4 = 0 is not valid, and its transforms of
// minimum variance are there all the same, with the variance 2.38 of T4.
func TestOptimalWithoutValidity(t *testing.T) {
	const beta = 0.80652091059317166 // where c4 vanishes: solver.TestOptimalWithoutPolynomial
	act := sdk.Func{
		Name: "swish", G: func(z float64) float64 { return z * math.Erfc(-beta*z/math.Sqrt2) / 2 },
		DG: func(z float64) float64 {
			return math.Erfc(-beta*z/math.Sqrt2)/2 + beta*z*math.Exp(-beta*beta*z*z/2)/math.Sqrt(2*math.Pi)
		},
	}
	text, err := verdictOn(t, act, false)
	if !errors.Is(err, errNo) || !strings.Contains(text, "c4 = 0") || !strings.Contains(text, "--transform optimal") {
		t.Errorf("%v: %s", err, text)
	}
	text, err = verdictOn(t, act, true)
	if !errors.Is(err, errNo) {
		t.Errorf("%v, want the answer no", err)
	}
	var got struct {
		Valid   bool
		Noise   map[string]*float64
		Optimal struct {
			Samples    *float64 `json:"samples_for_1pct"`
			Transforms []struct {
				Order    int
				Exists   bool
				Variance float64
				Gain     *float64
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	fourth := got.Optimal.Transforms[2]
	if got.Valid || got.Noise["samples_for_1pct"] != nil || got.Optimal.Samples == nil || *got.Optimal.Samples <= 0 ||
		fourth.Order != 4 || !fourth.Exists || math.Abs(fourth.Variance-2.38) > .005 || fourth.Gain != nil {
		t.Errorf("%s", text)
	}
}

// TestValidationJSON: the keys and a few of the values that other programs rely
// on.
func TestValidationJSON(t *testing.T) {
	text, err := verdictOn(t, sdk.Func{Name: "identity", G: func(z float64) float64 { return z }, DG: func(float64) float64 { return 1 }}, true)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]any{
		"activation.name": "identity", "sigma": 0.05, "transform.alpha": 0.0, "transform.beta": -6.015, "transform.gamma": 0.0,
		"transform.delta": 0.0, "transform.c4": 24.0, "transform.c2": 2.0, "cubic.alpha": 0.0, "cubic.beta": -3.0075, "cubic.c3": 6.0, "cubic.valid": true,
		"system.rank": 3.0, "moments.max_difference": 0.0, "noise.k": 2.0, "noise.d": 10.0,
		"optimal.level": 0.05, "one_hidden_layer.p2_range": false,
		"one_hidden_layer.p1": true, "one_hidden_layer.p2": false, "one_hidden_layer.p3": true, "one_hidden_layer.rho": 0.0,
		"signs_identifiable": true, "valid": true,
	} {
		value := any(got)
		for _, key := range strings.Split(path, ".") {
			value = value.(map[string]any)[key]
		}
		if number, ok := value.(float64); ok && math.Abs(number-want.(float64)) < 1e-9 {
			continue
		}
		if value != want {
			t.Errorf("%s is %v, want %v", path, value, want)
		}
	}
	for _, key := range []string{"matrix", "rhs", "cond", "residual"} {
		if got["system"].(map[string]any)[key] == nil {
			t.Errorf("system has no %s", key)
		}
	}
	for _, key := range []string{"v4", "v2", "samples_for_1pct"} {
		if v, _ := got["noise"].(map[string]any)[key].(float64); v <= 0 {
			t.Errorf("noise.%s is %v", key, v)
		}
	}
	for _, key := range []string{"samples_for_1pct", "samples_for_1pct_cubic"} {
		least, _ := got["optimal"].(map[string]any)[key].(float64)
		polynomial, _ := got["noise"].(map[string]any)[key].(float64)
		if !(least > 0 && least < polynomial) {
			t.Errorf("%s: %v by the polynomials, %v by transforms of minimum variance", key, polynomial, least)
		}
	}
	for i, v := range []float64{1.06, 1.47, 1.72} { // of one row, at k = 2
		transform := got["optimal"].(map[string]any)["transforms"].([]any)[i].(map[string]any)
		if got := transform["variance"].(float64); transform["order"] != float64(i+2) || math.Abs(got-v) > .005 || transform["gain"].(float64) < 1 {
			t.Errorf("%v, want order %d of variance %v", transform, i+2, v)
		}
	}
	condition := got["conditions"].([]any)[0].(map[string]any)
	for _, key := range []string{"name", "value", "tolerance", "holds"} {
		if condition[key] == nil {
			t.Errorf("a condition has no %s", key)
		}
	}
}

// TestFiguresForNone: an even activation and an invalid one have no figures: one
// line, and the exit code of the answer no.
func TestFiguresForNone(t *testing.T) {
	for _, act := range []sdk.Func{
		{Name: "abs", G: math.Abs, DG: func(z float64) float64 { return math.Copysign(1, z) }, Kinks: []float64{0}},
		{Name: "one", G: func(float64) float64 { return 1 }, DG: func(float64) float64 { return 0 }},
	} {
		_, err := figuresFor(t.Context(), act, true)
		if exitCode(err) != exitNo || !strings.HasPrefix(err.Error(), "no figures for activation "+act.Name+": it is ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: exit code %d, error %v", act.Name, exitCode(err), err)
		}
	}
}
