package moe_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/experiment"
)

// TestResults holds the committed results against the figures that there are:
// all of them are listed, with their claims and settings as they stand now, and
// have a picture. What was measured is not run again here; host/experiment's own
// tests do that at a smaller size.
func TestResults(t *testing.T) {
	const dir = "docs/results"
	page, err := os.ReadFile(filepath.Join(dir, "results.md"))
	if err != nil {
		t.Fatal(err)
	}
	var pictures []string
	for _, f := range experiment.Figures(false) {
		for _, want := range []string{"## " + f.ID + " " + f.Title, strings.TrimSuffix(f.Claim, "."), strings.TrimSpace(f.Settings), "](" + f.ID + ".svg)"} {
			if !bytes.Contains(page, []byte(want)) {
				t.Errorf("%s/results.md is not of today's figure %s: it lacks %q (moe reproduce makes it)", dir, f.ID, want)
			}
		}
		pictures = append(pictures, filepath.Join(dir, f.ID+".svg"))
	}
	drawn, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	if err != nil {
		t.Fatal(err)
	}
	if len(drawn) != len(pictures) {
		t.Errorf("%d pictures in %s, want the %d of the figures", len(drawn), dir, len(pictures))
	}
	for _, picture := range pictures {
		if svg, err := os.ReadFile(picture); err != nil || !bytes.Contains(svg, []byte("</svg>")) {
			t.Errorf("%s: no whole picture: %v", picture, err)
		}
	}
}
