// Package memory says before a large allocation that there is no room for it. A
// Go program whose allocation fails is ended by the runtime, with a stack in
// place of an answer.
package memory

import (
	"fmt"
	"math"
)

// Error says that something needs more memory than there is.
type Error struct {
	What string  // needs it: "the second moments of 20000 features"
	Need float64 // bytes
	Have float64 // bytes that are available
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s need %s of memory and %s are available", e.What, size(e.Need), size(e.Have))
}

// size writes bytes for people.
func size(bytes float64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i := 0
	for ; bytes >= 1024 && i < len(units)-1; i++ {
		bytes /= 1024
	}
	return fmt.Sprintf("%.3g %s", bytes, units[i])
}

// worthAsking is the size from which it is asked whether there is room.
const worthAsking = 64 << 20

// Check returns an *[Error] if bytes are more than this process can have. What is
// small is not asked for, and where the system does not tell there is room.
func Check(what string, bytes float64) error {
	if bytes < worthAsking {
		return nil
	}
	if have := available(); !(bytes <= have) {
		return &Error{What: what, Need: bytes, Have: have}
	}
	return nil
}

// Free is how many bytes this process can have, more than anybody has where the system
// does not tell.
func Free() float64 { return available() }

// unknown is what is available where the system does not tell: anything that an
// address space holds.
const unknown = math.MaxInt64
