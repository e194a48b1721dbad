package main

import (
	"fmt"
	"testing"

	again "github.com/gatedlearning/moe/host/recheck"
)

// TestExitOfADefect: a result whose log-likelihood is not what was stated is a defect of ours.
func TestExitOfADefect(t *testing.T) {
	err := fmt.Errorf("y2: %w", &again.Error{Stated: -348.28, Second: -1119})
	if code := exitCode(err); code != exitSoftware {
		t.Errorf("exit code %d, want %d", code, exitSoftware)
	}
}
