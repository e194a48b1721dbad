//go:build !unix

package atomicfile

func syncDir(string) {}
