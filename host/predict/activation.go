package predict

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/native"
	"github.com/gatedlearning/moe/sdk"
)

// Resolver finds the activation that a model names, such as by catalog.Open.
type Resolver func(ctx context.Context, named stated.Activation) (model.Activation, error)

// BeyondError says that an argument lies outside the approximation of g in a
// model's file, and that the activation itself could not be asked.
type BeyondError struct {
	File, Activation string
	Z                float64 // the argument
	Lo, Hi           float64 // the approximation covers [Lo, Hi)
	Err              error   // of the resolver; nil where it found another activation of that name
}

func (e *BeyondError) Error() string {
	why := "the activation of that name here is another one"
	if e.Err != nil {
		why = "further out only the activation itself can be asked: " + e.Err.Error()
	}
	return e.Outside() + "; " + why
}

// Outside is the error without its cause.
func (e *BeyondError) Outside() string {
	at := ""
	if e.File != "" {
		at = e.File + ": "
	}
	return fmt.Sprintf("%san argument of %s is %.6g, and the file's approximation of it covers %.6g <= z < %.6g", at,
		e.Activation, e.Z, e.Lo, e.Hi)
}

func (e *BeyondError) Unwrap() error { return e.Err }

// ActivationOf returns the activation of a model read from file (or ""): its
// approximation, continued by what resolve finds, or that alone where it carries
// none. Where there is an approximation resolve is not called before an argument
// is out of its range; that it then finds nothing, or another function, is a
// [*BeyondError] of that evaluation. Nor is it for a table, which is in the file. Another function than that of the
// values in the file is a *dataset.Error. The result is safe for concurrent use where
// what resolve returns is.
func ActivationOf(ctx context.Context, m *fitted.Model, file string, resolve Resolver) (model.Activation, error) {
	verified := func(ctx context.Context, named stated.Activation) (model.Activation, error) {
		open := resolve
		if named.Table != nil {
			open = func(context.Context, stated.Activation) (model.Activation, error) { return named.Table.Open() }
		}
		act, err := open(ctx, named)
		if err != nil {
			return nil, err
		}
		return act, named.Verify(ctx, file, act)
	}
	if m.Leaves != nil {
		return leavesOf(ctx, m.Leaves, verified)
	}
	if m.Approximation == nil {
		return verified(ctx, m.Activation)
	}
	approximation, err := native.New(m.Approximation, &beyond{m: m, file: file, resolve: verified})
	if err != nil {
		return nil, &dataset.Error{File: file, Msg: "approximation: " + err.Error()}
	}
	return approximation, nil
}

// leavesOf returns the activations of the experts, each resolved once.
func leavesOf(ctx context.Context, leaves []stated.Activation, resolve Resolver) (model.PerExpert, error) {
	out := make(model.PerExpert, len(leaves))
	for i, kind := range stated.Kinds(leaves) {
		if out[i] = out[kind]; kind < i {
			continue
		}
		var err error
		if out[i], err = resolve(ctx, leaves[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// beyond is the activation that a model names, resolved when it is first asked for
// a value.
type beyond struct {
	m       *fitted.Model
	file    string
	resolve Resolver

	mu  sync.Mutex
	act model.Activation // nil until it is resolved
}

// Eval writes g(z_i) to dst_i for arguments out of the approximation's range.
func (b *beyond) Eval(ctx context.Context, dst, z []float64) error {
	act, err := b.open(ctx, z)
	if err != nil {
		return err
	}
	return act.Eval(ctx, dst, z)
}

// Deriv writes g′(z_i) to dst_i, as Eval does g(z_i).
func (b *beyond) Deriv(ctx context.Context, dst, z []float64) error {
	act, err := b.open(ctx, z)
	if err != nil {
		return err
	}
	return act.Deriv(ctx, dst, z)
}

// open returns the activation, compared with the approximation that it continues.
func (b *beyond) open(ctx context.Context, z []float64) (model.Activation, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.act != nil {
		return b.act, nil
	}
	lo, hi := b.m.Approximation.Value.Range()
	failed := &BeyondError{File: b.file, Activation: b.m.Activation.Name, Z: z[0], Lo: lo, Hi: hi}
	act, err := b.resolve(ctx, b.m.Activation)
	if err != nil {
		failed.Err = err
		return nil, failed
	}
	same, err := b.m.Approximation.Describes(ctx, act)
	if err != nil {
		return nil, err
	}
	if !same {
		return nil, failed
	}
	b.act = act
	return act, nil
}

// sameName refuses an activation that says that it is another than the model's.
func sameName(act model.Activation, named stated.Activation) error {
	is, ok := act.(interface{ Info() sdk.Info })
	if !ok {
		return nil
	}
	if info := is.Info(); info.Name != named.Name || !maps.Equal(info.Params, sdk.Params(named.Params)) {
		return fmt.Errorf("the model was fitted with %s, not with %s", describe(named.Name, named.Params),
			describe(info.Name, info.Params))
	}
	return nil
}

// describe names an activation with its parameters: leakyrelu slope=0.1.
func describe(name string, params map[string]float64) string {
	for _, key := range slices.Sorted(maps.Keys(params)) {
		name += fmt.Sprintf(" %s=%g", key, params[key])
	}
	return name
}
