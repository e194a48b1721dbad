package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"html/template"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// Site is what is written: the bytes of each file, by its path with slashes.
type Site struct {
	Files map[string][]byte
	Pages []Page // in the order of the menu
}

// Page is a page of the menu.
type Page struct{ Path, Title, Group string }

// groups are the parts of the menu, each with the pages that it has: those named, and all of a directory that are named
// nowhere.
var groups = []struct {
	name  string
	pages []string
}{
	{"Start", []string{"README.md", "docs/session.md", "docs/your-own-data.md", "docs/glossary.md"}},
	{"Guide", []string{
		"docs/certificate.md", "docs/search.md", "docs/inference.md", "docs/trees.md", "docs/writing-a-plugin.md",
		"docs/scale.md", "docs",
	}},
	{"Theory", []string{"docs/theory"}},
	{"Studies", []string{"docs/studies", "docs/results"}},
	{"Project", []string{
		"CONTRIBUTING.md", "SECURITY.md", "docs/architecture.md", "docs/paper-map.md", "docs/robustness.md",
		"tools/mutate/mutants.md", "tools/mutate/survivors.md",
		"examples", "distributed/beam",
	}},
}

//go:embed page.html
var layout string

//go:embed style.css
var style []byte

//go:embed search.js
var search []byte

// section is what a search finds: a heading with the text below it.
type section struct {
	URL     string `json:"u"`
	Page    string `json:"p"`
	Heading string `json:"h"`
	Text    string `json:"t"`
}

// Make reads the pages below a root directory and what they link to. Every link that leads nowhere is in its error.
func Make(root string) (*Site, error) {
	s := &Site{Files: map[string][]byte{"style.css": style, "search.js": search}}
	sources := make(map[string][]byte)
	var explicit []string
	for _, g := range groups {
		explicit = append(explicit, g.pages...)
	}
	for _, g := range groups {
		for _, name := range g.pages {
			names := []string{name}
			if !strings.HasSuffix(name, ".md") {
				found, err := filepath.Glob(filepath.Join(root, name, "*.md"))
				if err != nil {
					return nil, err
				}
				names = nil
				for _, f := range found {
					if n := path.Join(name, filepath.Base(f)); !slices.Contains(explicit, n) {
						names = append(names, n)
					}
				}
			}
			for _, n := range names {
				source, err := os.ReadFile(filepath.Join(root, n))
				if err != nil {
					return nil, err
				}
				sources[n] = source
				s.Pages = append(s.Pages, Page{Path: n, Title: title(source), Group: g.name})
			}
		}
	}
	page, err := template.New("page").Parse(layout)
	if err != nil {
		return nil, err
	}
	var index []section
	var others []string
	for _, p := range s.Pages {
		body, sections, links, err := render(root, p.Path, sources[p.Path], sources)
		if err != nil {
			return nil, err
		}
		index = append(index, sections...)
		others = append(others, links...)
		var out bytes.Buffer
		if err := page.Execute(&out, s.data(p, body)); err != nil {
			return nil, err
		}
		s.Files[target(p.Path)] = out.Bytes()
	}
	var wrong []error
	for _, file := range others {
		if err := s.add(root, file); err != nil {
			wrong = append(wrong, err)
		}
	}
	data, err := json.Marshal(index)
	if err != nil {
		return nil, err
	}
	s.Files["index.js"] = slices.Concat([]byte("const sections = "), data, []byte(";\n"))
	return s, errors.Join(append(wrong, s.check()...)...)
}

// add takes a file that a page links to, or a directory with all that stands right in it and a list of that.
func (s *Site) add(root, file string) error {
	full := filepath.Join(root, filepath.FromSlash(file))
	info, err := os.Stat(full)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		data, err := os.ReadFile(full)
		s.Files[file] = data
		return err
	}
	entries, err := os.ReadDir(full)
	if err != nil {
		return err
	}
	var list strings.Builder
	fmt.Fprintf(&list, "<!doctype html><meta charset=utf-8><title>%s</title><h1>%[1]s</h1><ul>\n",
		html.EscapeString(file))
	for _, e := range entries {
		name, to := e.Name(), target(e.Name())
		if e.IsDir() {
			continue
		}
		if s.Files[path.Join(file, to)] == nil {
			if err := s.add(root, path.Join(file, name)); err != nil {
				return err
			}
			to = name
		}
		fmt.Fprintf(&list, "<li><a href=%q>%s</a>\n", to, html.EscapeString(name))
	}
	s.Files[path.Join(file, "index.html")] = []byte(list.String() + "</ul>\n")
	return nil
}

// data is what the layout shows of a page.
func (s *Site) data(p Page, body []byte) any {
	type entry struct {
		Title, URL string
		Here       bool
	}
	type group struct {
		Name  string
		Pages []entry
	}
	top := strings.Repeat("../", strings.Count(p.Path, "/"))
	var menu []group
	for _, other := range s.Pages {
		if len(menu) == 0 || menu[len(menu)-1].Name != other.Group {
			menu = append(menu, group{Name: other.Group})
		}
		last := &menu[len(menu)-1]
		last.Pages = append(last.Pages, entry{other.Title, top + target(other.Path), other.Path == p.Path})
	}
	return map[string]any{"Title": p.Title, "Top": top, "Menu": menu, "Body": template.HTML(body)}
}

// target is where a file of the project stands in the site.
func target(file string) string {
	if file == "README.md" {
		return "index.html"
	}
	if page, ok := strings.CutSuffix(file, ".md"); ok {
		return page + ".html"
	}
	return file
}

// title is a page's first heading.
func title(source []byte) string {
	first, _, _ := strings.Cut(string(source), "\n")
	return strings.TrimSpace(strings.TrimLeft(first, "#"))
}

// render makes HTML of a page, with links between pages changed to those of the site; and returns the sections for
// the search, and the other files that the page links to.
func render(root, page string, source []byte,
	pages map[string][]byte) (body []byte, sections []section, files []string, err error) {
	md := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	doc := md.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(&anchors{}))))
	top := strings.Repeat("../", strings.Count(page, "/"))
	redirect := func(destination []byte) []byte {
		to, fragment, _ := strings.Cut(string(destination), "#")
		if to == "" || strings.Contains(to, ":") {
			return destination
		}
		file := path.Join(path.Dir(page), to)
		if pages[file] == nil {
			files = append(files, file)
		}
		if fragment != "" {
			fragment = "#" + fragment
		}
		if info, err := os.Stat(filepath.Join(root, file)); err == nil && info.IsDir() {
			file += "/index.html"
		}
		return []byte(top + target(file) + fragment)
	}
	at := section{URL: target(page), Page: title(source)}
	end := func() {
		if at.Heading != "" || at.Text != "" {
			at.Text = strings.Join(strings.Fields(at.Text), " ")
			sections = append(sections, at)
		}
	}
	err = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			end()
			id, _ := n.AttributeString("id")
			at = section{URL: fmt.Sprintf("%s#%s", target(page), id), Page: title(source), Heading: plain(n, source)}
		case *ast.Link:
			n.Destination = redirect(n.Destination)
		case *ast.Image:
			n.Destination = redirect(n.Destination)
		case *ast.Text:
			at.Text += string(n.Segment.Value(source)) + " "
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			for i := range n.Lines().Len() {
				line := n.Lines().At(i)
				at.Text += string(line.Value(source))
			}
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return nil, nil, nil, err
	}
	end()
	var out bytes.Buffer
	if err := md.Renderer().Render(&out, source, doc); err != nil {
		return nil, nil, nil, err
	}
	return out.Bytes(), sections, files, nil
}

// plain is the text of a heading.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.Write(t.Segment.Value(source))
		} else {
			b.WriteString(plain(c, source))
		}
	}
	return b.String()
}

// anchors names headings as GitHub does: small letters, digits and hyphens for spaces, -1 behind a second of the same
// name.
type anchors struct{ used []string }

// Generate implements parser.IDs.
func (a *anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	name := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(string(value)))
	unique := name
	for n := 1; slices.Contains(a.used, unique); n++ {
		unique = fmt.Sprintf("%s-%d", name, n)
	}
	a.used = append(a.used, unique)
	return []byte(unique)
}

// Put implements parser.IDs.
func (a *anchors) Put(value []byte) { a.used = append(a.used, string(value)) }

var (
	reference = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	named     = regexp.MustCompile(`id="([^"]*)"`)
)

// check says which links of the site lead nowhere, by what is in its files.
func (s *Site) check() (wrong []error) {
	ids := make(map[string]map[string]bool)
	for file, data := range s.Files {
		ids[file] = make(map[string]bool)
		for _, m := range named.FindAllSubmatch(data, -1) {
			ids[file][html.UnescapeString(string(m[1]))] = true
		}
	}
	for _, p := range s.Pages {
		from := target(p.Path)
		for _, m := range reference.FindAllSubmatch(s.Files[from], -1) {
			link, err := url.Parse(html.UnescapeString(string(m[1])))
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %w", from, err))
				continue
			}
			if link.Scheme != "" {
				continue
			}
			to := from
			if link.Path != "" {
				to = path.Join(path.Dir(from), link.Path)
			}
			switch {
			case s.Files[to] == nil:
				wrong = append(wrong, fmt.Errorf("%s links to %s, which is not in the site", from, to))
			case link.Fragment != "" && !ids[to][link.Fragment]:
				wrong = append(wrong, fmt.Errorf("%s links to %s, which has no #%s", from, to, link.Fragment))
			}
		}
	}
	return wrong
}

// Write writes the site to a directory that does not exist or is empty.
func (s *Site) Write(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty", dir)
	}
	for _, file := range slices.Sorted(maps.Keys(s.Files)) {
		full := filepath.Join(dir, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(full), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(full, s.Files[file], 0o666); err != nil {
			return err
		}
	}
	return nil
}
