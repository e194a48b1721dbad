package compare

import (
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
)

// TestLimit: of a family and its limit it is said which is which and why there is no test, in either order; of one
// family, of others and of other activations not.
func TestLimit(t *testing.T) {
	of := func(family, activation string) *fitted.Model {
		return &fitted.Model{K: 2, Family: family, Activation: stated.Activation{Name: activation}}
	}
	for _, c := range []struct {
		a, b *fitted.Model
		want string
	}{
		{of("poisson", "exp"), of("negative-binomial", "exp"), "poisson is the limit of negative-binomial for infinite theta"},
		{of("", "identity"), of("student-t", "identity"), "gaussian is the limit of student-t for infinite degrees of freedom"},
		{of("poisson", "exp"), of("gamma", "exp"), "different kinds"},
		{of("poisson", "exp"), of("negative-binomial", "softplus"), "different kinds"},
	} {
		for _, err := range []error{apart(c.a, c.b), apart(c.b, c.a)} {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s and %s: %v, want %q", c.a.Family, c.b.Family, err, c.want)
			}
		}
	}
	if err := apart(of("student-t", "identity"), of("student-t", "identity")); err != nil {
		t.Error(err)
	}
}
