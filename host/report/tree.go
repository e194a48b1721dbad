package report

import (
	"strings"

	"github.com/gatedlearning/moe/host/fitted"
)

// Activations names those of a mixture: act, or leaves where the experts have several, as
// in "identity, relu".
func Activations(act fitted.Activation, leaves []fitted.Activation) string {
	if leaves == nil {
		return act.String()
	}
	var names []string
	for _, leaf := range leaves {
		names = append(names, leaf.String())
	}
	return strings.Join(names, ", ")
}
