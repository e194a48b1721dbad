package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/report"
)

// TestScreensOfFiles: models of real tables, as fits have written them, have the screens beside them, whatever later fits of
// the tables come to. testdata/models/make.sh made the files; go test ./cmd/moe -run TestScreensOfFiles -update writes the screens.
func TestScreensOfFiles(t *testing.T) {
	const files, lines = 20, 40 // of 10 features and 3 experts at most, which these have
	models, err := filepath.Glob("testdata/models/*.json")
	if err != nil || len(models) < files {
		t.Fatalf("%d models, %v", len(models), err)
	}
	for _, path := range models {
		m, err := fitted.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Unknown) > 0 {
			t.Errorf("%s has members that nobody reads: %v", path, m.Unknown)
		}
		var screen bytes.Buffer
		if err := report.Screen(&screen, m, filepath.Base(path), false); err != nil {
			t.Fatal(err)
		}
		golden := strings.TrimSuffix(path, ".json") + ".txt"
		if *updateSchemas {
			if err := os.WriteFile(golden, screen.Bytes(), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, screen.Bytes()) {
			t.Errorf("%s: the screen is\n%s\nwant\n%s", path, screen.Bytes(), want)
		}
		if n := bytes.Count(screen.Bytes(), []byte("\n")); m.K <= 3 && m.D <= 10 && n > lines {
			t.Errorf("%s: %d lines", path, n)
		}
	}
}
