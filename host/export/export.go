package export

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gatedlearning/moe/host/fitted"
)

// Language is one in which a model can be written.
type Language string

// The languages.
const (
	ONNX   Language = "onnx"
	SQL    Language = "sql"
	Go     Language = "go"
	Python Language = "python"
)

// Languages lists them.
var Languages = []Language{ONNX, SQL, Go, Python}

// Request says what is to be written.
type Request struct {
	Language Language
	// NoTarget leaves the target out of what is read, and the posterior out of what is written; of SQL and ONNX alone.
	NoTarget bool
	// Of SQL alone: the table that is read, and columns of it that stand before the predictions.
	Table string
	Keep  []string
}

// Validate refuses what goes with other languages.
func (r Request) Validate() error {
	switch {
	case !slices.Contains(Languages, r.Language):
		return fmt.Errorf("a model is exported to %s, not to %q", names(Languages), r.Language)
	case r.Language != SQL && (r.Table != "" || len(r.Keep) > 0):
		return fmt.Errorf("a table and columns to keep are of SQL alone")
	case r.Language != SQL && r.Language != ONNX && r.NoTarget:
		return fmt.Errorf("a function of %s has the target as an argument of its own", r.Language)
	}
	return nil
}

func names(all []Language) string {
	out := make([]string, len(all))
	for i, l := range all {
		out[i] = string(l)
	}
	return strings.Join(out[:len(out)-1], ", ") + " or " + out[len(out)-1]
}

// Write writes what a model says of rows in another language: the mean of y, the gate's probabilities, the posterior
// given y, and in Go and Python quantiles of y, with the parameters as they are. What cannot be said is an
// [*UnsupportedError], and nothing is written.
func Write(ctx context.Context, w io.Writer, m *fitted.Model, r Request) error {
	if err := r.Validate(); err != nil {
		return err
	}
	p, err := programOf(ctx, m, !r.NoTarget)
	if err != nil {
		return err
	}
	var out []byte
	switch r.Language {
	case ONNX:
		out, err = onnxOf(p, title(m))
	case SQL:
		out, err = sqlOf(p, r, title(m))
	case Go:
		out, err = goOf(p, title(m))
	case Python:
		out, err = pythonOf(p, title(m))
	}
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}

// title is a line about a model, in which no name of a column can end a comment.
func title(m *fitted.Model) string {
	experts := "1 expert"
	if m.K > 1 {
		experts = fmt.Sprint(m.K, " experts")
	}
	return fmt.Sprintf("%s of activation %s for %s", experts, quoted(m.Activation.String()), quoted(m.ScaledTarget()))
}

// quoted is a name in quotes, of letters that nobody reads otherwise: no line ends in it, and no quotes.
func quoted(name string) string {
	return strings.NewReplacer("*/", "* /").Replace(strconv.QuoteToASCII(name))
}

// noMean refuses a model without a mean of y in a language that has no quantiles.
func noMean(p *program, to Language) error {
	if p.mean < 0 {
		return &UnsupportedError{What: "the median, which stands for the mean of a model of 1/y", To: to}
	}
	return nil
}
