package memory

import (
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	for _, bytes := range []float64{0, worthAsking - 1, worthAsking} {
		if err := Check("they", bytes); err != nil {
			t.Errorf("%v bytes: %v", bytes, err)
		}
	}
	if runtime.GOOS != "linux" {
		t.Skip("the system does not tell")
	}
	for _, bytes := range []float64{1 << 60, math.Inf(1), math.NaN()} {
		var e *Error
		if err := Check("the sums", bytes); !errors.As(err, &e) || !strings.HasPrefix(err.Error(), "the sums need ") {
			t.Errorf("%v bytes: %v", bytes, err)
		}
	}
}

func TestSize(t *testing.T) {
	for bytes, want := range map[float64]string{0: "0 bytes", 1023: "1.02e+03 bytes", 1536: "1.5 KiB", 22 << 30: "22 GiB", 1 << 60: "1.02e+03 PiB"} {
		if got := size(bytes); got != want {
			t.Errorf("%v: %q, want %q", bytes, got, want)
		}
	}
}
