package newton

import (
	"errors"
	"testing"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/problem"
)

// TestAdmit: what passes would leave out of a model is refused, the file named; a flat mixture is not.
func TestAdmit(t *testing.T) {
	if err := Admit("m.json", &fitted.Model{}); err != nil {
		t.Error(err)
	}
	floor := fitted.Model{Fit: fitted.Fit{SigmaFloor: .1}}
	for want, m := range map[string]*fitted.Model{
		"m.json: a tree of experts; passes over shards are for flat mixtures":                    {Hierarchy: "2x2"},
		"m.json: experts with an output scale; passes over shards are for means without":         {OutputScale: &fitted.OutputScale{}},
		"m.json: no sigma is below 0.1 there, by a floor; passes over shards keep to none":       &floor,
		"m.json is of log(y); passes over shards are for the target itself":                      {Target: "y", TargetScale: "log"},
		"m.json has coefficients that are the same in all experts; passes over shards have none": {Shared: []string{"x"}},
	} {
		err := Admit("m.json", m)
		fault, request := (*dataset.Error)(nil), (*problem.RequestError)(nil)
		if err == nil || err.Error() != want || !errors.As(err, &fault) && !errors.As(err, &request) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
