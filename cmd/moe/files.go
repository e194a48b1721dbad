package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/internal/atomicfile"
)

// addSeed adds --seed to a command that draws random numbers.
func addSeed(cmd *cobra.Command, seed *uint64) {
	cmd.Flags().Uint64Var(seed, "seed", 1, "seed of the random numbers; equal seeds give equal output")
}

// distinct refuses an output that is also an input or another output. Empty
// names are passed over.
func distinct(output string, others ...string) error {
	if output == "" {
		return nil
	}
	for _, other := range others {
		if other != "" && sameFile(output, other) {
			return usagef("%s would be overwritten by the output %s: name another file", other, output)
		}
	}
	return nil
}

// sameFile says whether two paths are one file, or would be once it is there.
func sameFile(a, b string) bool {
	ia, erra := os.Stat(a)
	ib, errb := os.Stat(b)
	if erra == nil && errb == nil {
		return ia.Mode().IsRegular() && os.SameFile(ia, ib)
	}
	pa, erra := place(a)
	pb, errb := place(b)
	return erra == nil && errb == nil && pa == pb
}

// place is the path of a file that need not be there, with the links on the way
// to it resolved.
func place(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	return path, nil
}

// creatable asks whether every output can be created. Empty names are passed
// over.
func creatable(outputs ...string) error {
	for _, path := range outputs {
		if path == "" {
			continue
		}
		if err := atomicfile.Check(path); err != nil {
			return err
		}
	}
	return nil
}
