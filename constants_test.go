package moe_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// stated is a constant as code or the page has it: by its package and name.
type stated struct{ in, name string }

// TestConstants: docs/theory/constants.md has every numeric constant of the search with its value, a unit of those that
// the page defines and what chose it, and no other.
func TestConstants(t *testing.T) {
	const page = "docs/theory/constants.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	code, faults := constantsOf(t, "host/search")
	if len(code) == 0 {
		t.Fatal("the search has no constants")
	}
	for _, w := range append(faults, constantFaults(string(text), code)...) {
		t.Errorf("%s: %s", page, w)
	}
}

// TestConstantFaults: a page can be wrong in every way.
func TestConstantFaults(t *testing.T) {
	code := map[stated]string{{"host/search", "a"}: "1_000", {"host/search", "b"}: "1 << 4", {"host/search/c", "a"}: "2"}
	const right = "| unit | what |\n|---|---|\n| rows | rows |\n| share, ratio | numbers |\n\n" +
		"## host/search\n\n| `a` | 1000 | rows | most | no study |\n| `b` | 1 << 4 | ratio | most | a study |\n\n" +
		"## host/search/c\n\n| `a` | 2 | share | most | a study |\n"
	if w := constantFaults(right, code); len(w) > 0 {
		t.Errorf("a right page has faults: %q", w)
	}
	for _, c := range [][2]string{
		{"| `a` | 1000 |", "| `a` | 100 |"},      // another value
		{"| `b` | 1 << 4 |", "| `other` | 16 |"}, // one is not there, and one is not the search's
		{"## host/search/c", "## host/search/d"}, // of another package
		{"| 1 << 4 | ratio |", "| 1 << 4 | furlongs |"},
		{"| a study |\n\n", "|  |\n\n"}, // chosen by nothing
		{"| `a` | 2 | share | most | a study |\n", "| `a` | 2 | share | most | a study |\n| `a` | 2 | share | most | it |\n"},
		{"| `a` | 1000 | rows | most |", "| `a` | 1000 | most |"}, // without a unit
	} {
		wrong := strings.Replace(right, c[0], c[1], 1)
		if wrong == right || len(constantFaults(wrong, code)) == 0 {
			t.Errorf("%q passes", c[1])
		}
	}
}

// constantsOf are the numeric constants of the packages at and below a directory, by the text of their values, but
// for what only tests import, and enumerations by iota. Two of one name in one package are faults where they differ.
func constantsOf(t *testing.T, below string) (all map[stated]string, faults []string) {
	all = map[stated]string{}
	eachSource(t, func(file string) error {
		if in := path.Dir(file); !within(file, below) || strings.HasSuffix(in, "test") {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		files := token.NewFileSet()
		parsed, err := parser.ParseFile(files, file, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if d, ok := n.(*ast.GenDecl); !ok || d.Tok != token.CONST {
				return true
			}
			for _, spec := range n.(*ast.GenDecl).Specs {
				spec := spec.(*ast.ValueSpec)
				for i, v := range spec.Values { // none where iota goes on
					if value := string(text[files.Position(v.Pos()).Offset:files.Position(v.End()).Offset]); numeric(v) {
						name := stated{path.Dir(file), spec.Names[i].Name}
						if was, twice := all[name]; twice && bare(was) != bare(value) {
							faults = append(faults, "two constants "+name.name+" of "+name.in+" differ")
						}
						all[name] = value
					}
				}
			}
			return true
		})
		return nil
	})
	return all, faults
}

// numeric says whether a constant is a number, and no text and none of those that iota counts.
func numeric(value ast.Expr) bool {
	is := true
	ast.Inspect(value, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			is = is && n.Kind != token.STRING
		case *ast.Ident:
			is = is && n.Name != "iota"
		}
		return true
	})
	return is
}

// bare is the text of a value without what makes it easier to read.
func bare(value string) string { return strings.NewReplacer(" ", "", "_", "").Replace(value) }

var constantRow = regexp.MustCompile("^\\| `(\\w+)` \\|(.*)\\|$")

// constantFaults says in what a page differs from these constants: its tables are under the headings of packages, with
// the units defined in the one before them.
func constantFaults(page string, code map[stated]string) (wrong []string) {
	head, sections, _ := strings.Cut(page, "\n## ")
	var units []string
	for _, m := range regexp.MustCompile(`(?m)^\| ([a-z][a-z/, ]*) \|`).FindAllStringSubmatch(head, -1) {
		units = append(units, strings.Split(m[1], ", ")...)
	}
	seen := map[stated]bool{}
	for section := range strings.SplitSeq(sections, "\n## ") {
		in, rows, _ := strings.Cut(section, "\n")
		for line := range strings.Lines(rows) {
			m := constantRow.FindStringSubmatch(strings.TrimSpace(line))
			if m == nil {
				continue
			}
			name, cells := stated{in, m[1]}, strings.Split(m[2], "|")
			for i, cell := range cells {
				cells[i] = strings.TrimSpace(cell)
			}
			value, there := code[name]
			switch {
			case !there:
				wrong = append(wrong, in+" has no constant "+m[1])
			case seen[name]:
				wrong = append(wrong, m[1]+" of "+in+" is there twice")
			case len(cells) != 4 || slices.Contains(cells, ""):
				wrong = append(wrong, m[1]+" of "+in+" is without its value, unit, meaning or study")
			case bare(cells[0]) != bare(value):
				wrong = append(wrong, m[1]+" of "+in+" is "+value+", not "+cells[0])
			case !slices.Contains(units, cells[1]):
				wrong = append(wrong, m[1]+" of "+in+" has a unit that the page does not define: "+cells[1])
			}
			seen[name] = true
		}
	}
	for name, value := range code {
		if !seen[name] {
			wrong = append(wrong, name.name+" = "+value+" of "+name.in+" is not there")
		}
	}
	slices.Sort(wrong)
	return wrong
}
