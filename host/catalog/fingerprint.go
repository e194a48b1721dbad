package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/gatedlearning/moe/internal/claims"
	"github.com/gatedlearning/moe/sdk"
)

// describe adds to the record what the family says of itself, and checksums of its g.
func (r *Record) describe(ctx context.Context, f sdk.Family) (err error) {
	r.Name, r.Version, r.Parameters = f.Name, f.Version, ParametersOf(f)
	if r.Fingerprint, err = fingerprint(ctx, f); err != nil {
		return err
	}
	r.WideFingerprint, err = wideFingerprint(ctx, f)
	return err
}

// fingerprint returns the checksum of the values of the family's default
// member at −4, −3.75, …, 4, to 12 digits: fewer than a double has, for the
// last may differ between processors. It shows a change of g that the checksum
// of a plugin's file does not, such as one in a module that a script imports.
func fingerprint(ctx context.Context, f sdk.Family) (string, error) {
	act, err := f.Activation(nil)
	if err != nil {
		return "", err
	}
	z := make([]float64, 33)
	for i := range z {
		z[i] = float64(i-16) / 4
	}
	if err := act.Eval(ctx, z, z); err != nil {
		return "", err
	}
	return digest(z), nil
}

// wideFingerprint is the same of the nodes at which two functions of one name are
// compared, the tails among them: [fingerprint] alone does not know a ReLU from
// min(ReLU, 4). Where g is not finite in a tail, that is part of it.
func wideFingerprint(ctx context.Context, f sdk.Family) (string, error) {
	act, err := f.Activation(nil)
	if err != nil {
		return "", err
	}
	v, err := claims.ValuesOf(ctx, act)
	if err != nil {
		return "", err
	}
	return digest(append(v.Z, v.G...)), nil
}

func digest(values []float64) string {
	sum := sha256.New()
	for _, v := range values {
		fmt.Fprintf(sum, "%.11e\n", v+0) // + 0 makes −0 a 0
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// impostor refuses a plugin under the name of a built-in that is another function
// than it, both with their default parameters.
func impostor(ctx context.Context, shown string, f sdk.Family) error {
	builtins := Builtins()
	i := slices.IndexFunc(builtins, func(b sdk.Family) bool { return b.Name == f.Name })
	if i < 0 {
		return nil
	}
	own, err := builtins[i].Activation(nil)
	if err != nil {
		return err
	}
	values, err := claims.ValuesOf(ctx, own)
	if err != nil {
		return err
	}
	act, err := f.Activation(nil)
	if err != nil {
		return err
	}
	err = values.Compare(ctx, act)
	if differ := (*claims.DifferenceError)(nil); errors.As(err, &differ) {
		return &UntrustedError{shown, fmt.Sprintf("it calls itself %q, which is built in and another function: g(%v) "+
			"is %.12g there and %.12g here; it must have a name of its own", f.Name, differ.Z, differ.Was, differ.Is)}
	}
	return err
}
