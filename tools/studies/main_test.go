package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestNames: names are in order, each once, and one line says what a study prints; those that the comments of this program
// and the pages name are among them.
func TestNames(t *testing.T) {
	var names []string
	for _, s := range studies {
		if names = append(names, s.name); s.prints == "" || strings.Contains(s.prints, "\n") {
			t.Errorf("%s prints %q", s.name, s.prints)
		}
	}
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("not in order, each once: %v", names)
	}
	command, found := regexp.MustCompile(`tools/studies run \. ([a-z][a-z-]*)`), 0
	for _, root := range []string{".", "../../docs", "../../CONTRIBUTING.md"} {
		err := filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(file, ".md") && !strings.HasSuffix(file, ".go") {
				return err
			}
			text, err := os.ReadFile(file)
			for _, m := range command.FindAllStringSubmatch(string(text), -1) {
				if found++; !slices.Contains(names, m[1]) {
					t.Errorf("%s: there is no study %s", file, m[1])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 2*len(names) {
		t.Errorf("%d commands in comments and on pages, of %d studies: is this test blind?", found, len(names))
	}
}
