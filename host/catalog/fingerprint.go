package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/gatedlearning/moe/sdk"
)

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
	sum := sha256.New()
	for _, v := range z {
		fmt.Fprintf(sum, "%.11e\n", v+0) // + 0 makes −0 a 0
	}
	return hex.EncodeToString(sum.Sum(nil)[:16]), nil
}
