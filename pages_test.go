package moe_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// The guide is the README and the pages right in docs/. What is long stands below it, in
// docs/theory (formulas, proofs) and docs/studies (seeds, constants, what was tried).
const (
	guideWords    = 1200 // of a page of the guide
	sentenceWords = 30   // of a sentence there
	readmeLines   = 150
	glossaryPage  = "docs/glossary.md"
)

// references are pages right in docs/ in which one looks something up: as long as they need to be.
var references = []string{
	"docs/architecture.md", "docs/paper-map.md", glossaryPage,
}

// pagesBelow returns all pages of the project, by where they stand.
func pagesBelow(t *testing.T) map[string]string {
	t.Helper()
	pages := make(map[string]string)
	err := filepath.WalkDir(".", func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && notOurs(e.Name()) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(file, ".md") {
			return nil
		}
		text, err := os.ReadFile(file)
		pages[filepath.ToSlash(file)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// inGuide says whether a page is of the guide.
func inGuide(page string) bool {
	return page == "README.md" || path.Dir(page) == "docs" && !slices.Contains(references, page)
}

// guideOf is the page of the guide that links to one of this name below it: that of its name, but where the guide
// has none.
func guideOf(below string) string {
	if below == "constants.md" {
		return "search.md"
	}
	return below
}

// TestGuide: a page of the guide is short, its sentences are, and it uses the words that the
// glossary has.
func TestGuide(t *testing.T) {
	pages := pagesBelow(t)
	terms, wrong := glossary(pages[glossaryPage])
	for _, w := range wrong {
		t.Errorf("%s: %s", glossaryPage, w)
	}
	words := instead(pages[glossaryPage])
	for term := range terms {
		used := regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(term))
		if !slices.ContainsFunc(sortedKeys(pages), func(page string) bool { return page != glossaryPage && used.MatchString(pages[page]) }) {
			t.Errorf("%s: no page uses %s", glossaryPage, term)
		}
	}
	for _, page := range sortedKeys(pages) {
		if !inGuide(page) {
			continue
		}
		for _, w := range append(guideFaults(pages[page], terms), wordFaults(pages[page], words)...) {
			t.Errorf("%s: %s", page, w)
		}
	}
	if n := strings.Count(pages["README.md"], "\n"); n > readmeLines {
		t.Errorf("README.md has %d lines, %d at most", n, readmeLines)
	}
}

// TestTurns: no page has a turn of phrase that an editor would strike.
func TestTurns(t *testing.T) {
	pages := pagesBelow(t)
	for _, page := range sortedKeys(pages) {
		for _, w := range turnFaults(pages[page]) {
			t.Errorf("%s: %s", page, w)
		}
	}
}

// TestLinks: what a page links to is there, with its heading, and so is every page, with its
// heading, that a Go file names. The guide links to what stands below it.
func TestLinks(t *testing.T) {
	pages := pagesBelow(t)
	there := func(file string) bool { _, err := os.Stat(file); return err == nil }
	for _, page := range sortedKeys(pages) {
		for _, w := range linkFaults(page, pages, there) {
			t.Errorf("%s: %s", page, w)
		}
	}
	for _, page := range sortedKeys(pages) {
		if dir := path.Dir(page); dir == "docs/theory" || dir == "docs/studies" {
			guide := path.Join("docs", guideOf(path.Base(page)))
			if to := "](" + strings.TrimPrefix(page, "docs/") + ")"; !strings.Contains(pages[guide], to) {
				t.Errorf("%s does not link to %s", guide, page)
			}
		}
	}
	err := filepath.WalkDir(".", func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && notOurs(e.Name()) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(file, ".go") || file == "pages_test.go" {
			return nil
		}
		text, err := os.ReadFile(file)
		for _, m := range namedPage.FindAllStringSubmatch(string(text), -1) {
			if w := missing(m[1], m[2], pages, there); w != "" {
				t.Errorf("%s: %s", file, w)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestGuideFaults: each limit can be broken.
func TestGuideFaults(t *testing.T) {
	terms, wrong := glossary("# Glossary\n\n**expert**: one of k functions.\n\n**gate**: what chooses between them.\n")
	if len(wrong) > 0 || len(terms) != 2 {
		t.Fatalf("%v, %v: want two terms and nothing wrong", terms, wrong)
	}
	right := "# Page\n\nAn *expert* is one line.\nThe *gates* choose, at 1.5 of 2.\n\n```console\n$ moe fit *any*\n```\n\n| *a* | table |\n|---|---|\n"
	if w := guideFaults(right, terms); len(w) > 0 {
		t.Errorf("a right page has faults: %q", w)
	}
	long := strings.Repeat("word ", sentenceWords)
	for _, c := range []struct{ name, page, fault string }{
		{"a sentence", "One. " + strings.ToUpper(long[:1]) + long[1:] + "more. Two.", "a sentence of 31 words"},
		{"a sentence in a list", "- One\n- two\n- " + long + "more", "a sentence of 31 words"},
		{"a page", strings.Repeat("Word.\n\n", guideWords+1), "1201 words"},
		{"a term", "The *vacancy* is not told.", "vacancy"},
		{"a term in bold", "The **vacancy** is not told.", "vacancy"},
	} {
		w := guideFaults(c.page, terms)
		if len(w) != 1 || !strings.Contains(w[0], c.fault) {
			t.Errorf("%s: %q, want one fault with %q", c.name, w, c.fault)
		}
	}
	// Words exactly at the limits are right.
	for _, page := range []string{strings.TrimSpace(long) + ".", strings.Repeat("Word.\n\n", guideWords)} {
		if w := guideFaults(page, terms); len(w) > 0 {
			t.Errorf("at the limit: %q", w)
		}
	}
	for _, text := range []string{
		"**gate**: one.\n\n**expert**: not in order.\n", "**gate**: one.\n\n**gate**: two.\n", "**gate**:\n",
	} {
		if _, wrong := glossary(text); len(wrong) != 1 {
			t.Errorf("glossary %q: %q, want one fault", text, wrong)
		}
	}
	words := instead("**gate**: one.\nNot \"router\",\n\"switch\".\n\n**row**: two.\n")
	if len(words) != 2 || len(wordFaults("Two Switches route it, a switched one. Routers too.", words)) != 1 || len(wordFaults("A gate, rerouters.", words)) != 0 {
		t.Errorf("words that a term stands for, %v, are not found or found elsewhere", words)
	}
	for _, text := range []string{"the experts are as they\nshould be.", "which is told from y"} {
		if len(turnFaults(text)) != 1 {
			t.Errorf("%q passes", text)
		}
	}
	if w := turnFaults("```\nthe experts are as they should be\n```\n"); len(w) > 0 {
		t.Errorf("what a program prints is not the page's: %q", w)
	}
	pages := map[string]string{"docs/a.md": "# Of A\n\n[b](b.md#x-1), [x](../x.svg), [c](#of-a) [d](https://example.com)", "docs/b.md": "## X\n\n## X\n"}
	there := func(file string) bool { return file == "x.svg" }
	if w := linkFaults("docs/a.md", pages, there); len(w) > 0 {
		t.Errorf("right links have faults: %q", w)
	}
	for _, link := range []string{"[b](c.md)", "[b](b.md#y)", "[b](x.svg)", "[b](#b)", "![b](y.svg)"} {
		pages["docs/a.md"] = link
		if w := linkFaults("docs/a.md", pages, there); len(w) != 1 {
			t.Errorf("%s: %q, want one fault", link, w)
		}
	}
}

// guideFaults says what is wrong with a page of the guide.
func guideFaults(text string, terms map[string]bool) (wrong []string) {
	words := 0
	for _, p := range paragraphs(text) {
		words += len(strings.Fields(p))
		for _, s := range sentences(p) {
			if n := len(strings.Fields(s)); n > sentenceWords {
				wrong = append(wrong, fmt.Sprintf("a sentence of %d words, %d at most: %s", n, sentenceWords, s))
			}
		}
	}
	if words > guideWords {
		wrong = append(wrong, fmt.Sprintf("%d words, %d at most: what is long belongs into docs/theory and docs/studies", words, guideWords))
	}
	for _, term := range emphasised(text) {
		if !terms[singular(term)] {
			wrong = append(wrong, fmt.Sprintf("%q is used as a term, and is not in %s", term, glossaryPage))
		}
	}
	return wrong
}

var (
	fenced   = regexp.MustCompile("(?sm)^ *```.*?^ *```[^\n]*$")
	comment  = regexp.MustCompile(`(?s)<!--.*?-->`)
	link     = regexp.MustCompile(`!?\[([^\]]*)\]\(([^)\s]*)\)`)
	inline   = regexp.MustCompile("`[^`]*`")
	emphasis = regexp.MustCompile(`\*{1,2}([^*\s](?:[^*]*[^*\s])?)\*{1,2}`)
	item     = regexp.MustCompile(`^ *(?:[-*]|\d+\.) +`)
	sentence = regexp.MustCompile(`[.!?][)"”*]*\s+`)
)

// paragraphs are the texts of a page: headings, paragraphs, items of lists; without code and tables. A piece of code within a line is one word.
func paragraphs(text string) (all []string) {
	text = comment.ReplaceAllString(fenced.ReplaceAllString(text, "\n"), "")
	text = link.ReplaceAllString(inline.ReplaceAllString(text, "code"), "$1")
	at, inList := "", false
	end := func() {
		if at != "" {
			all = append(all, at)
		}
		at = ""
	}
	for _, line := range strings.Split(text, "\n") {
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "":
			end()
			continue
		case strings.HasPrefix(trimmed, "|"):
			end()
			continue
		case strings.HasPrefix(trimmed, "#"):
			end()
			inList = false
			at = strings.TrimLeft(trimmed, "# ")
			end()
			continue
		case item.MatchString(line):
			end()
			inList = true
			line = item.ReplaceAllString(line, "")
		case strings.HasPrefix(line, "    ") && at == "" && !inList:
			continue // code
		case !strings.HasPrefix(line, " "):
			inList = inList && at != ""
		}
		at = strings.TrimSpace(at + " " + strings.TrimSpace(line))
	}
	end()
	return all
}

// sentences cuts a paragraph after each stop behind which no small letter follows: "e.g. this" is one.
// Neither a colon nor a semicolon ends a sentence.
func sentences(p string) (all []string) {
	from := 0
	for _, m := range sentence.FindAllStringIndex(p, -1) {
		next := []rune(p[m[1]:])
		if len(next) > 0 && unicode.IsLower(next[0]) && !strings.HasPrefix(string(next), "code") {
			continue
		}
		all = append(all, strings.TrimSpace(p[from:m[1]]))
		from = m[1]
	}
	if rest := strings.TrimSpace(p[from:]); rest != "" {
		all = append(all, rest)
	}
	return all
}

// emphasised are the terms of a page: what stands between asterisks in its text. A lead that ends
// with a stop ("**Budget.**") is a heading, and what has a capital within is a title.
func emphasised(text string) (terms []string) {
	for _, p := range paragraphs(text) {
		for _, m := range emphasis.FindAllStringSubmatch(p, -1) {
			term := m[1]
			if strings.HasSuffix(term, ".") || strings.Contains(term, " ") && term[1:] != strings.ToLower(term[1:]) {
				continue
			}
			terms = append(terms, strings.ToLower(term))
		}
	}
	return terms
}

// singular is a term as the glossary has it.
func singular(term string) string {
	switch {
	case term == "optima" || term == "maxima":
		return strings.TrimSuffix(term, "a") + "um"
	case term == "leaves":
		return "leaf"
	case strings.HasSuffix(term, "ies"):
		return strings.TrimSuffix(term, "ies") + "y"
	}
	return strings.TrimSuffix(term, "s")
}

// not is how the glossary lists words that a term stands for.
var not = regexp.MustCompile(`Not ("[^.]*")\.`)

// instead are the words that no page of the guide uses, each with the term that stands for it.
func instead(text string) map[string]string {
	words := make(map[string]string)
	for _, p := range strings.Split(text, "\n\n") {
		term, meaning, _ := strings.Cut(strings.TrimPrefix(p, "**"), "**:")
		if m := not.FindStringSubmatch(strings.Join(strings.Fields(meaning), " ")); m != nil {
			for _, word := range strings.Split(m[1], ", ") {
				words[strings.Trim(word, `"`)] = term
			}
		}
	}
	return words
}

// wordFaults finds words in a page of the guide for which the glossary has a term.
func wordFaults(text string, words map[string]string) (wrong []string) {
	for _, p := range paragraphs(text) {
		for _, word := range sortedKeys(words) {
			if regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(word) + `s?\b`).MatchString(p) {
				wrong = append(wrong, fmt.Sprintf("%q: the glossary says %s, in: %s", word, words[word], p))
			}
		}
	}
	return wrong
}

// glossary returns the terms of the glossary, "**term**: meaning" a paragraph each, and what is wrong.
func glossary(text string) (terms map[string]bool, wrong []string) {
	terms = make(map[string]bool)
	last := ""
	for _, p := range strings.Split(text, "\n\n") {
		term, meaning, ok := strings.Cut(strings.TrimPrefix(p, "**"), "**:")
		if !strings.HasPrefix(p, "**") || !ok {
			continue
		}
		switch {
		case terms[singular(term)]:
			wrong = append(wrong, fmt.Sprintf("%s has two meanings", term))
		case term < last:
			wrong = append(wrong, fmt.Sprintf("%s stands behind %s", term, last))
		case strings.TrimSpace(meaning) == "":
			wrong = append(wrong, fmt.Sprintf("%s has no meaning", term))
		}
		terms[singular(term)], last = true, term
	}
	return terms, wrong
}

// turns are what an editor strikes: words that make a reader stop, each with what is plain.
var turns = map[string]string{
	`nothing to speak of`:       "negligible, or how much",
	`come about\b`:              "arise",
	`which that is taken`:       "say what is taken",
	`what is wrong with the`:    "an error in",
	`goes for one goes for all`: "is the same for all",
	`is told with exit code`:    "ends with exit code",
	`is told by what\b`:         "shows in, or depends on",
	`nobody died`:               "no worker died",
	`everything else are`:       "everything else is",
	`told from\b`:               "seen from, or not the same as",
	`as they should be`:         "right, or as assumed",
	`rows are open`:             "say which rows, and for what",
	`contraction matters`:       "say what depends on what",
	`the place of`:              "instead of",
	`nobody had`:                "leave it out",
	`\bone's own\b`:             "your own",
	`to be had`:                 "available",
	`(^|[.;,] )[Ww]hoever`:      "you, or those who",
	`the more so`:               "and more",
	`has not been seen to`:      "does not, in these runs",
	`is asked for\b`:            "if you ask for, or give the flag",
	`\bhave led there`:          "say how it was reached",
	`which is not how`:          "not",
	`\bof trees this\b`:         "this ... for trees",
	`goes through that`:         "is treated so",
	`\bas good as that\b`:       "nearly",
	`\ball that is repeated`:    "this is repeated",
	`what there is\b`:           "name it",
}

// turnFaults finds turns in a page's text, code apart.
func turnFaults(text string) (wrong []string) {
	for _, p := range paragraphs(text) {
		for _, turn := range sortedKeys(turns) {
			if m := regexp.MustCompile(turn).FindString(p); m != "" {
				wrong = append(wrong, fmt.Sprintf("%q: write %s, in: %s", m, turns[turn], p))
			}
		}
	}
	return wrong
}

// namedPage is a page, perhaps with a heading, that a Go file names.
var namedPage = regexp.MustCompile(`\b(docs/[a-z/-]+\.md)(?:#([a-z0-9-]+))?`)

// linkFaults says which relative links of a page lead nowhere.
func linkFaults(page string, pages map[string]string, there func(file string) bool) (wrong []string) {
	for _, m := range link.FindAllStringSubmatch(inline.ReplaceAllString(fenced.ReplaceAllString(pages[page], ""), ""), -1) {
		target, anchor, _ := strings.Cut(m[2], "#")
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		to := page
		if target != "" {
			to = path.Join(path.Dir(page), target)
		}
		if w := missing(to, anchor, pages, there); w != "" {
			wrong = append(wrong, w)
		}
	}
	return wrong
}

// missing says that a file or a heading in it is not there, or "".
func missing(file, anchor string, pages map[string]string, there func(file string) bool) string {
	text, isPage := pages[file]
	switch {
	case !isPage && !there(file):
		return file + " does not exist"
	case anchor != "" && !slices.Contains(anchors(text), anchor):
		return fmt.Sprintf("%s has no heading for #%s: it has %s", file, anchor, strings.Join(anchors(text), ", "))
	}
	return ""
}

// anchors are the names of a page's headings: small letters, digits and hyphens for spaces, and -1
// behind a second of the same name.
func anchors(text string) (all []string) {
	for _, line := range strings.Split(fenced.ReplaceAllString(text, ""), "\n") {
		heading := strings.TrimLeft(line, "#")
		if heading == line || !strings.HasPrefix(heading, " ") {
			continue
		}
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(link.ReplaceAllString(heading, "$1")))
		unique := name
		for n := 1; slices.Contains(all, unique); n++ {
			unique = fmt.Sprintf("%s-%d", name, n)
		}
		all = append(all, unique)
	}
	return all
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
