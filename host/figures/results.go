package figures

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/gatedlearning/moe/host/experiment"
	"github.com/gatedlearning/moe/internal/shown"
)

//go:embed results.html
var resultsText string

var resultsTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("results").Parse(
		resultsText))
})

// Results are the papers' figures and tables, made at a seed.
type Results struct {
	Figures    []Figure
	Seed       uint64
	Quick      bool
	Activation string // that the figures are for, with its parameters as flags; "" for the papers'
}

// Command is what makes the results again.
func (r Results) Command() string {
	out := "moe reproduce"
	if r.Quick {
		out += " --quick"
	}
	if r.Seed != 1 {
		out += fmt.Sprintf(" --seed %d", r.Seed)
	}
	if r.Activation != "" {
		out += " --activation " + r.Activation
	}
	if len(r.Figures) < len(experiment.Figures(r.Quick)) {
		for _, f := range r.Figures {
			out += " " + f.ID
		}
	}
	return out
}

// Agree counts the claims of the papers, those that two of them have once, and
// those of our own, and how many of each were seen.
func (r Results) Agree() (papers, seen, own, ownSeen int) {
	for _, f := range r.Figures {
		twin := slices.ContainsFunc(r.Figures, func(g Figure) bool { return g.ID == f.Same })
		agrees := 0
		if f.Verdict.Agrees {
			agrees = 1
		}
		switch {
		case f.Own:
			own, ownSeen = own+1, ownSeen+agrees
		case !twin:
			papers, seen = papers+1, seen+agrees
		}
	}
	return papers, seen, own, ownSeen
}

// Summary says in a sentence how many claims agree with what was measured.
func (r Results) Summary() string {
	papers, seen, own, ownSeen := r.Agree()
	if papers+own == 1 {
		if seen+ownSeen == 1 {
			return "The figure agrees with its source."
		}
		return "The figure does not agree with its source."
	}
	var parts []string
	if papers > 0 {
		parts = append(parts, fmt.Sprintf("of %s of the papers %d agree with what was measured and %d do not",
			claims(papers), seen, papers-seen))
	}
	if own > 0 {
		parts = append(parts, fmt.Sprintf("of %s of our own %d agree and %d do not", claims(own), ownSeen, own-ownSeen))
	}
	s := strings.Join(parts, "; ")
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

func claims(n int) string {
	if n == 1 {
		return "1 claim"
	}
	return fmt.Sprintf("%d claims", n)
}

// Sources are those that the figures are from.
func (Results) Sources() []experiment.Source { return experiment.Sources() }

// Line is what is to be said of a figure, in one line.
func (f Figure) Line() string {
	return fmt.Sprintf("%s: %s · measured: %s · %s", f.Says(), unstop(f.Claim), f.Verdict.Measured,
		f.Verdict.Sentence())
}

// Says introduces the claim by whose it is.
func (f Figure) Says() string {
	if f.Own {
		return "the claim is"
	}
	return "the paper says"
}

// unstop takes the full stop from the end of a sentence.
func unstop(s string) string { return strings.TrimSuffix(s, ".") }

// Text writes the lines of all figures to a terminal.
func (r Results) Text(w io.Writer) error {
	for _, f := range r.Figures {
		if _, err := fmt.Fprintf(w, "%s  %s (%s)\n  %-14s  %s\n  measured        %s\n  %s\n\n",
			f.ID, f.Title, f.Source, f.Says(), unstop(f.Claim), f.Verdict.Measured, f.Verdict.Sentence()); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w, r.Summary())
	return err
}

// Markdown writes a page that shows the pictures ID.svg beside it.
func (r Results) Markdown(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# The papers' experiments\n\nMade by `%s`. %s\n\n", r.Command(), r.Summary())
	for _, s := range experiment.Sources() {
		fmt.Fprintf(&b, "- %s: %s\n", s.Number, s.Title)
	}
	b.WriteString("\n| figure | | verdict |\n|---|---|---|\n")
	for _, f := range r.Figures {
		verdict := "agrees"
		if !f.Verdict.Agrees {
			verdict = "does not agree"
		}
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", f.ID, anchor(f.ID+" "+f.Title), cell(f.Title), verdict)
	}
	for _, f := range r.Figures {
		fmt.Fprintf(&b, "\n## %s %s\n\n![%s](%s.svg)\n\n%s.\n\n%s %s\n", f.ID, f.Title, f.Title, f.ID, f.Line(),
			f.Source+".", strings.TrimSpace(f.Settings))
		if f.HasTable() {
			b.WriteByte('\n')
			markdownTable(&b, f.Columns, f.Rows)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// anchor is the name that common renderers of Markdown give a heading: letters,
// digits and hyphens, in lower case.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsMark(r), unicode.IsDigit(r):
			return r
		}
		return -1
	}, strings.ToLower(heading))
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

func markdownTable(b *bytes.Buffer, columns []string, rows [][]string) {
	line := func(cells []string) {
		for _, c := range cells {
			b.WriteString("| " + cell(c) + " ")
		}
		b.WriteString("|\n")
	}
	line(columns)
	b.WriteString(strings.Repeat("|---", len(columns)) + "|\n")
	for _, r := range rows {
		line(r)
	}
}

// Page writes all figures as one HTML file that needs nothing else.
func (r Results) Page(w io.Writer) error { return resultsTemplate().Execute(shown.Writer(w), r) }

// Picture is the figure's SVG as a part of a page.
func (f Figure) Picture() (template.HTML, error) {
	var b bytes.Buffer
	if err := f.Draw(&b, "svg"); err != nil {
		return "", err
	}
	_, svg, found := strings.Cut(b.String(), "<svg ")
	if !found {
		return "", fmt.Errorf("figure %s: no SVG was drawn", f.ID)
	}
	return template.HTML(`<svg role="img" aria-label="` + template.HTMLEscapeString(f.Title) + `" ` + svg), nil
}
