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

// tally is a number of claims, how many of them were seen, and how many of those are identities.
type tally struct{ claims, agree, identities int }

// tallies are those of the claims of the papers, each of which counts once where two of them have it, and of our own.
func (r Results) tallies() (papers, own tally) {
	for _, f := range r.Figures {
		t := &papers
		if f.Own {
			t = &own
		} else if slices.ContainsFunc(r.Figures, func(g Figure) bool { return g.ID == f.Same }) {
			continue
		}
		t.claims++
		if f.Verdict.Agrees {
			t.agree++
			if f.Identity {
				t.identities++
			}
		}
	}
	return papers, own
}

// Summary says in a sentence how many claims agree with what was measured, and how many of those could not have come
// out otherwise.
func (r Results) Summary() string {
	papers, own := r.tallies()
	if papers.claims+own.claims == 1 {
		if papers.agree+own.agree == 1 {
			return "The figure agrees with its source."
		}
		return "The figure does not agree with its source."
	}
	var parts []string
	if papers.claims > 0 {
		parts = append(parts, fmt.Sprintf("of %s of the papers %d agree with what was measured and %d do not",
			claims(papers.claims), papers.agree, papers.claims-papers.agree)+papers.otherwise())
	}
	if own.claims > 0 {
		parts = append(parts, fmt.Sprintf("of %s of our own %d agree and %d do not", claims(own.claims), own.agree,
			own.claims-own.agree)+own.otherwise())
	}
	s := strings.Join(parts, "; ")
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// otherwise says how many of the claims that agree data could have contradicted, where not all of them.
func (t tally) otherwise() string {
	if t.identities == 0 {
		return ""
	}
	return fmt.Sprintf("; of those that agree %d could have come out otherwise and %d, as identities, could not",
		t.agree-t.identities, t.identities)
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

// Short is the verdict in a few words.
func (f Figure) Short() string {
	switch {
	case !f.Verdict.Agrees:
		return "does not agree"
	case f.Identity:
		return "agrees (an identity)"
	}
	return "agrees"
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
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", f.ID, anchor(f.ID+" "+f.Title), cell(f.Title), f.Short())
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
