// Package check says what is wrong with a member of a model's file: numbers of another shape or that are not finite,
// and names that no table has.
package check

import (
	"fmt"
	"strings"

	"github.com/gatedlearning/moe/internal/numeric"
)

// Sizes refuses a mixture or a network of no experts or of no features.
func Sizes(k, d int) error {
	if k < 1 || d < 1 {
		return fmt.Errorf("k = %d, d = %d, want at least 1", k, d)
	}
	return nil
}

// Matrix refuses another number of rows or columns than these, and numbers that are not finite.
func Matrix(name string, m [][]float64, rows, cols int) error {
	if len(m) != rows {
		return fmt.Errorf("%s has %d rows, want %d", name, len(m), rows)
	}
	for i, row := range m {
		if err := Vector(fmt.Sprintf("%s[%d]", name, i), row, cols); err != nil {
			return err
		}
	}
	return nil
}

// Optional is [Vector] of a list that may be nil.
func Optional(name string, v []float64, n int) error {
	if v == nil {
		return nil
	}
	return Vector(name, v, n)
}

// Vector refuses another number of values than n, and numbers that are not finite.
func Vector(name string, v []float64, n int) error {
	if len(v) != n {
		return fmt.Errorf("%s has %d values, want %d", name, len(v), n)
	}
	for i, x := range v {
		if !numeric.Finite(x) {
			return fmt.Errorf("%s[%d] = %v is not finite", name, i, x)
		}
	}
	return nil
}

// Names holds the names of d features and the target against what tables
// allow.
func Names(features []string, target string, d int) error {
	if len(features) != d {
		return fmt.Errorf("features has %d names, want d = %d", len(features), d)
	}
	seen := map[string]bool{target: true}
	if target == "" {
		return fmt.Errorf("target is missing")
	}
	if err := Name(target); err != nil {
		return err
	}
	for i, name := range features {
		if name == "" || seen[name] {
			return fmt.Errorf("features[%d] = %q is empty or named twice", i, name)
		}
		seen[name] = true
		if err := Name(name); err != nil {
			return err
		}
	}
	return nil
}

// Name refuses a name that no column of a table has.
func Name(name string) error {
	if strings.ContainsRune(name, 0) {
		return fmt.Errorf("the name %q holds a NUL character", name)
	}
	return nil
}
