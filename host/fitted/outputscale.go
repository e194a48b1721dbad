package fitted

import (
	"cmp"
	"fmt"

	"github.com/gatedlearning/moe/host/fitted/check"
	"github.com/gatedlearning/moe/host/model"
)

// OutputScale is what experts make of g: their means are c + s·g(⟨a,x⟩ + b), with one c and s
// of all experts or K of each.
type OutputScale struct {
	Offset []float64 `json:"offset"` // c
	// s; of standard errors null where it is 1 or -1 and the regressors' norms have the rest
	Scale []float64 `json:"scale"`
}

func outputScaleOf(p *model.Params) *OutputScale {
	if !p.HasOutput() {
		return nil
	}
	return &OutputScale{Offset: p.Offset, Scale: p.Scale}
}

// validate reports an output of another size than 1 or k, or one that is not finite. The
// scale may be missing from standard errors.
func (o *OutputScale) validate(name string, k int) error {
	if o == nil {
		return nil
	}
	if n := len(o.Offset); n != 1 && n != k {
		return fmt.Errorf("%s.offset has %d values, want 1 or k = %d", name, n, k)
	}
	if name == "output_scale" && len(o.Scale) != len(o.Offset) {
		return fmt.Errorf("%s.scale has %d values, want %d, as offset", name, len(o.Scale), len(o.Offset))
	}
	return cmp.Or(
		check.Vector(name+".offset", o.Offset, len(o.Offset)),
		check.Optional(name+".scale", o.Scale, len(o.Offset)),
	)
}
