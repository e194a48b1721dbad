package conform

import (
	"context"
	"fmt"
	"maps"
	"math"
	"reflect"

	"github.com/gatedlearning/moe/internal/setting"
	"github.com/gatedlearning/moe/internal/wire"
	"github.com/gatedlearning/moe/sdk"
)

// Maker makes the member of a family with the given parameters, as
// sdk.Family.Activation does.
type Maker func(sdk.Params) (sdk.Activation, error)

// Family runs the checks of a family: its description, its parameters, and that
// its members do not disturb each other. Members are made by member: f.Activation
// where f is in the process, and what asks the plugin itself where it is not,
// so that the plugin's own treatment of parameters is seen. The members
// themselves are for [Activation]; see [Members].
func Family(ctx context.Context, f sdk.Family, member Maker) []Finding {
	var findings []Finding
	for _, c := range []struct {
		name, means string
		run         func(context.Context, sdk.Family, Maker) error
	}{
		{"family", "the family's description is well-formed",
			func(_ context.Context, f sdk.Family, _ Maker) error { return wire.CheckFamily(f) }},
		{"defaults", "parameters that are not given take their defaults", checkDefaults},
		{"parameters", "members describe the parameters that they were given, up to the ends of the ranges",
			checkParameters},
		{"refusals", "unknown, out-of-range and non-finite parameters are errors", checkRefusals},
		{"members", "members with other parameters do not change each other", checkMembers},
	} {
		findings = append(findings, newFinding(c.name, c.means,
			guard(ctx, func() error { return c.run(ctx, f, member) })))
	}
	return findings
}

// Members returns the parameters of members that stand for all: the defaults,
// and for each parameter its ends, or one either side where it has none.
func Members(f sdk.Family) []sdk.Params {
	members := []sdk.Params{defaults(f)}
	for _, p := range f.Params {
		for _, v := range ends(p) {
			m := defaults(f)
			m[p.Name] = v
			members = append(members, m)
		}
	}
	return members
}

func ends(p sdk.Param) []float64 {
	if p.Min == 0 && p.Max == 0 {
		return []float64{p.Default - 1, p.Default + 1}
	}
	return []float64{p.Min, p.Max}
}

func defaults(f sdk.Family) sdk.Params {
	d := sdk.Params{}
	for _, p := range f.Params {
		d[p.Name] = p.Default
	}
	return d
}

func checkDefaults(_ context.Context, f sdk.Family, member Maker) error {
	act, err := member(nil)
	if err != nil {
		return err
	}
	return describes(act, f, defaults(f))
}

// describes reports whether act says that it is the member of f with params. A
// family without parameters may have a member that describes some.
func describes(act sdk.Activation, f sdk.Family, params sdk.Params) error {
	if act == nil {
		return fmt.Errorf("parameters %v: no activation and no error", params)
	}
	info := act.Info()
	if info.Name != f.Name || info.Version != f.Version {
		return fmt.Errorf("the family is %q version %q, its activation %q version %q", f.Name, f.Version, info.Name,
			info.Version)
	}
	if len(f.Params) > 0 && !maps.Equal(info.Params, params) {
		return fmt.Errorf("made with parameters %v, it describes %v", params, info.Params)
	}
	return nil
}

func checkParameters(_ context.Context, f sdk.Family, member Maker) error {
	for _, params := range Members(f) {
		act, err := member(maps.Clone(params))
		if err != nil {
			return err
		}
		if err := describes(act, f, params); err != nil {
			return err
		}
	}
	return nil
}

func checkRefusals(_ context.Context, f sdk.Family, member Maker) error {
	refused := []sdk.Params{{"no-such-parameter": 1}}
	for _, p := range f.Params {
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			refused = append(refused, sdk.Params{p.Name: v})
		}
		if p.Min != 0 || p.Max != 0 {
			refused = append(refused,
				sdk.Params{p.Name: math.Nextafter(p.Min, math.Inf(-1))},
				sdk.Params{p.Name: math.Nextafter(p.Max, math.Inf(1))})
		}
	}
	for _, params := range refused {
		if _, err := member(params); err == nil {
			return fmt.Errorf("parameters %v are no error", params)
		}
	}
	return nil
}

// checkMembers evaluates the default member before and after others were made
// and evaluated.
func checkMembers(ctx context.Context, f sdk.Family, member Maker) error {
	z := points(1000)
	first, err := member(nil)
	if err != nil {
		return err
	}
	for _, m := range methods {
		before, err := m.of(ctx, first, z)
		if err != nil {
			return err
		}
		for _, params := range Members(f) {
			other, err := member(params)
			if err != nil {
				return err
			}
			if _, err := m.of(ctx, other, z); err != nil {
				return err
			}
		}
		after, err := m.of(ctx, first, z)
		if err != nil {
			return err
		}
		if i := differ(before, after); i >= 0 {
			return fmt.Errorf("%s at z = %v is %v, and %v after other members were used", m.name, z[i], before[i],
				after[i])
		}
	}
	return nil
}

// same reports whether a and b are the same activation to the bit.
func same(ctx context.Context, a, b sdk.Activation) error {
	ia, ib := a.Info(), b.Info()
	if ia.Name != ib.Name || ia.Version != ib.Version || !maps.Equal(ia.Params, ib.Params) ||
		fmt.Sprint(ia.Kinks) != fmt.Sprint(ib.Kinks) {
		return fmt.Errorf("%+v became %+v", ia, ib)
	}
	z := points(wire.Chunk + 1000)
	for _, m := range methods {
		va, err := m.of(ctx, a, z)
		if err != nil {
			return err
		}
		vb, err := m.of(ctx, b, z)
		if err != nil {
			return err
		}
		if i := differ(va, vb); i >= 0 {
			return fmt.Errorf("%s at z = %v: %v became %v", m.name, z[i], va[i], vb[i])
		}
	}
	return sameExtras(ctx, a, b)
}

// sameExtras compares the optional interfaces of a and b.
func sameExtras(ctx context.Context, a, b sdk.Activation) error {
	ma, oka := a.(sdk.MomentsProvider)
	mb, okb := b.(sdk.MomentsProvider)
	sa, hasA := a.(sdk.SystemProvider)
	sb, hasB := b.(sdk.SystemProvider)
	if oka != okb || hasA != hasB {
		return fmt.Errorf("own moments %v and system %v became %v and %v", oka, hasA, okb, hasB)
	}
	if oka {
		va, err := ma.Moments(ctx)
		if err != nil {
			return err
		}
		if vb, err := mb.Moments(ctx); err != nil || va != vb {
			return setting.Errorf("moments %v became %v (%v)", va, vb, err)
		}
	}
	if hasA {
		va, err := sa.System(ctx, 0.3)
		if err != nil {
			return err
		}
		if vb, err := sb.System(ctx, 0.3); err != nil || !reflect.DeepEqual(va, vb) {
			return setting.Errorf("system %v became %v (%v)", va, vb, err)
		}
	}
	return nil
}
