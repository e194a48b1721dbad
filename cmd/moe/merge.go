package main

import (
	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/host/shard/newton"
)

func newMergeCmd() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "merge PART... -o FILE",
		Short: "Put the sums of all parts of a data set together",
		Long: `merge adds up the sums that moe moments wrote for the parts 1 to N of a data set.
All of them must be there once, in any order; parts of different data, rounds or
activations are refused.

Of parts that moe newton wrote it makes a step of Newton's method, and FILE is the
best model so far with what the next pass needs. Its log-likelihood never falls from
one pass to the next. The exit code is 1 where the step of the twelfth pass is still above
1e-9 and the maximum at no kink of the likelihood, or no step leads higher; the line says
why, and the model is written all the same.
Of the parts of the pass behind those that converged it makes the certificate of the
model. The exit code is 1 where its optimum is not passed, as that of moe fit.`,
		Example: `  moe merge first-*.moments -o first.moments
  moe merge part-*.newton -o next.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := distinct(out, args...); err != nil {
				return err
			}
			if err := creatable(out); err != nil {
				return err
			}
			if newton.Is(args[0]) {
				return mergeNewton(cmd, args, out)
			}
			return mergeMoments(cmd, args, out)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "write the sums of all parts to this `FILE` (required)")
	cobra.CheckErr(cmd.MarkFlagRequired("output"))
	return cmd
}

// readParts reads the files of all parts.
func readParts[T any](files []string, read func(path string) (T, error)) ([]T, error) {
	parts := make([]T, len(files))
	for i, file := range files {
		var err error
		if parts[i], err = read(file); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

func mergeMoments(cmd *cobra.Command, files []string, out string) error {
	parts, err := readParts(files, shard.ReadMoments)
	if err != nil {
		return err
	}
	m, err := shard.MergeMoments(files, parts)
	if err != nil {
		return err
	}
	if err := m.Write(cmd.Context(), out); err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return printJSON(cmd, momentsJSON(out, m))
	}
	_, taken := m.Rows()
	return say(cmd, "%s: round %d of %d, %d rows in %s, subsample of %d", out, m.Round(), m.Rounds(),
		m.Table.Rows, plural(len(parts), "part"), taken)
}
