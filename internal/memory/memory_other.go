//go:build !linux

package memory

func available() float64 { return unknown }

// Huge does nothing here: on Linux it asks for large pages.
func Huge([]float64) {}
