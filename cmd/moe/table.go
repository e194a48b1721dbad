package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/internal/atomicfile"
)

// cellFlags say how the cells of a table are read.
type cellFlags struct {
	missing, decimal string
	absent           dataset.Absent
	point            byte
}

func (c *cellFlags) register(cmd *cobra.Command, dropping string) {
	cmd.Flags().StringVar(&c.missing, "missing", "refuse",
		"rows with missing cells (empty, NA, NaN, null): refuse them, or drop: "+dropping)
	cmd.Flags().StringVar(&c.decimal, "decimal", ".", "between a number's digits in a CSV file: a point or a comma")
}

// check reads the flags; kept is what becomes of rows that are not refused.
func (c *cellFlags) check(kept dataset.Absent) error {
	switch c.missing {
	case "refuse":
		c.absent = dataset.Refuse
	case "drop":
		c.absent = kept
	default:
		return usagef("--missing %s: want refuse or drop", c.missing)
	}
	if c.decimal != "." && c.decimal != "," {
		return usagef("--decimal %s: want . or ,", c.decimal)
	}
	c.point = c.decimal[0]
	return nil
}

// on returns a selection with these flags.
func (c *cellFlags) on(sel dataset.Selection) dataset.Selection {
	sel.Absent, sel.Decimal = c.absent, c.point
	return sel
}

// modelTableFlags say how a table is read for a model.
type modelTableFlags struct {
	cellFlags
	unseen string
	roles  dataset.Roles // columns that are neither features nor the target
}

func (t *modelTableFlags) register(cmd *cobra.Command, dropping string) {
	t.cellFlags.register(cmd, dropping)
	cmd.Flags().StringVar(&t.unseen, "unseen", "refuse",
		"levels that the fit has not seen: refuse them, or take them for the reference")
}

func (t *modelTableFlags) check(kept dataset.Absent) error {
	if t.unseen != "refuse" && t.unseen != "reference" {
		return usagef("--unseen %s: want refuse or reference", t.unseen)
	}
	return t.cellFlags.check(kept)
}

// openFrom opens an input for the features of a model.
func (t *modelTableFlags) openFrom(in *input, m anyModel, optional bool) (dataset.Source, error) {
	unseen := t.unseen == "reference"
	sel := t.on(m.selection(unseen))
	sel.Optional = optional
	for role, column := range t.roles {
		if column != "" {
			sel.Roles[role] = column
		}
	}
	src, err := in.open(sel)
	if err != nil {
		return nil, err
	}
	return m.features(src, unseen), nil
}

// input is a file, or standard input for "-".
type input struct {
	path  string
	stdin io.Reader
	spool *os.File // what standard input or a pipe held; nil where it is read as it comes
}

// openStream makes an input ready for one pass: standard input is read as it comes, unless its index is at the end.
func openStream(ctx context.Context, cmd *cobra.Command, path string) (*input, error) {
	in := &input{path: path, stdin: cmd.InOrStdin()}
	if path != "-" || regular(in.stdin) {
		return in, nil
	}
	ahead := bufio.NewReader(in.stdin)
	in.stdin = ahead
	head, err := ahead.Peek(dataset.MagicSize)
	if err == nil && dataset.Indexed(head) {
		in.spool, err = spool(ctx, ahead)
		return in, err
	}
	return in, nil // what is wrong is told when it is read
}

// regular says whether a stream is a regular file, every pass over which begins anew.
func regular(from io.Reader) bool {
	f, ok := from.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// openInput makes an input ready for any number of passes: what cannot be read again
// is kept in a temporary file until it is closed.
func openInput(ctx context.Context, cmd *cobra.Command, path string) (*input, error) {
	in := &input{path: path, stdin: cmd.InOrStdin()}
	from := in.stdin
	if path != "-" {
		info, err := os.Stat(path)
		if err != nil || info.Mode()&os.ModeNamedPipe == 0 {
			return in, nil // opened, or refused, when it is read
		}
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	} else if regular(from) {
		return in, nil
	}
	var err error
	if in.spool, err = spool(ctx, from); err != nil {
		return nil, err
	}
	return in, nil
}

// spool copies a stream to a temporary file, which has no name where the system
// allows that.
func spool(ctx context.Context, from io.Reader) (*os.File, error) {
	f, err := os.CreateTemp("", "moe-stdin-*")
	if err != nil {
		return nil, &atomicfile.CreateError{Path: os.TempDir(), Err: err}
	}
	os.Remove(f.Name()) // Windows refuses; close does it there
	if _, err = io.Copy(f, &cancelled{ctx, from}); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		os.Remove(f.Name())
		return nil, err
	}
	return f, nil
}

// cancelled is a stream that ends with its context.
type cancelled struct {
	ctx context.Context
	r   io.Reader
}

func (c *cancelled) Read(p []byte) (int, error) {
	if err := context.Cause(c.ctx); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

func (in *input) close() {
	if in.spool != nil {
		in.spool.Close()
		os.Remove(in.spool.Name())
	}
}

// name is what errors call the input.
func (in *input) name() string {
	if in.path == "-" {
		return "stdin"
	}
	return in.path
}

// open opens the table with a selection of its columns.
func (in *input) open(sel dataset.Selection) (dataset.Source, error) {
	switch {
	case in.spool != nil:
		return dataset.NewReader(in.name(), in.spool, sel)
	case in.path == "-":
		return dataset.NewReader(in.name(), in.stdin, sel)
	}
	return dataset.Open(in.path, sel)
}

// references reads --reference COLUMN=LEVEL, given any number of times.
func references(list []string) (map[string]string, error) {
	out := make(map[string]string, len(list))
	for _, text := range list {
		column, level, ok := strings.Cut(text, "=")
		if !ok || column == "" {
			return nil, usagef("--reference %s: want COLUMN=LEVEL", text)
		}
		if known, twice := out[column]; twice && known != level {
			return nil, usagef("--reference %s: the reference of %s is %s already", text, column, known)
		}
		out[column] = level
	}
	return out, nil
}

// leftOut says how many rows were left out, "" for none.
func leftOut(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d left out for missing cells)", n)
}
