package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSite makes the site of this project: every link leads somewhere, and a search finds what a page has.
func TestSite(t *testing.T) {
	s, err := Make("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"index.html", "docs/search.html", "docs/theory/search.html", "docs/results/results.html", "docs/tone.png", "docs/schema/index.html"} {
		if len(s.Files[file]) == 0 {
			t.Errorf("%s is not in the site", file)
		}
	}
	if index := string(s.Files["index.js"]); !strings.Contains(index, `"u":"docs/search.html#an-example"`) {
		t.Error("the search does not know docs/search.md")
	}
	if page := string(s.Files["docs/search.html"]); !strings.Contains(page, `href="../docs/certificate.html"`) {
		t.Error("docs/search.html does not link to docs/certificate.html")
	}
	dir := filepath.Join(t.TempDir(), "site")
	if err := s.Write(dir); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(dir); err == nil {
		t.Error("a directory that is not empty is written to")
	}
}

// TestBrokenLinks: each kind of link that leads nowhere is an error, and a right one is none.
func TestBrokenLinks(t *testing.T) {
	for _, c := range []struct{ link, fault string }{
		{"[a](docs/A.md#of-a)", ""},
		{"[a](docs/A.md) ![p](p.svg) [d](docs) [w](https://example.com)", ""},
		{"[a](docs/B.md)", "docs/B.md"},
		{"[a](docs/A.md#of-b)", "has no #of-b"},
		{"[a](#other)", "has no #other"},
		{"![p](q.svg)", "q.svg"},
	} {
		root := t.TempDir()
		files := map[string]string{"docs/A.md": "# Of A\n", "p.svg": "<svg/>"}
		for _, g := range groups {
			for _, name := range g.pages {
				if strings.HasSuffix(name, ".md") {
					files[name] = "# A page\n"
				}
			}
		}
		files["README.md"] = "# Here\n\n" + c.link + "\n"
		for name, text := range files {
			file := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Make(root)
		switch {
		case c.fault == "" && err != nil:
			t.Errorf("%s: %v", c.link, err)
		case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%s: %v, want an error with %q", c.link, err, c.fault)
		}
	}
}
