package network

import (
	"fmt"

	"github.com/gatedlearning/moe/host/problem"
)

// refuse is a request that does not fit the data or the activation.
func refuse(format string, args ...any) error {
	return &problem.RequestError{Msg: fmt.Sprintf(format, args...)}
}
