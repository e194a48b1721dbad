package page_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/experiment"
	"github.com/gatedlearning/moe/host/figures"
	"github.com/gatedlearning/moe/host/report/diagnosis"
	"github.com/gatedlearning/moe/host/report/page"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestPageInChromium opens the pages in a browser without a network, at 1280 and
// 400 pixels, light and dark: no message on the console, nothing wider than the
// window.
func TestPageInChromium(t *testing.T) {
	testslow.Mark(t)
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed")
	}
	dir := t.TempDir()
	writePage(t, filepath.Join(dir, "fit.html"))
	writeResults(t, filepath.Join(dir, "results.html"))
	// Frames measure the pages at widths that the window cannot have; a start of the
	// browser takes longer than all of them.
	var frames strings.Builder
	for _, page := range []string{"fit", "results"} {
		for _, width := range []int{1280, 400} {
			fmt.Fprintf(&frames, `<iframe src="%s.html" style="width:%dpx;height:800px;border:0"></iframe>`, page, width)
		}
	}
	outer := filepath.Join(dir, "frames.html")
	if err := os.WriteFile(outer, []byte(`<!doctype html><link rel="icon" href="data:,"><p id="out">-</p>
`+frames.String()+`
<script>onload = () => { for (const f of document.querySelectorAll('iframe')) { const d = f.contentDocument;
document.getElementById('out').textContent += f.getAttribute('src') + ' at ' + f.clientWidth + ' wide ' + d.documentElement.scrollWidth + ' paper ' + getComputedStyle(d.body).backgroundColor + '; '; } }</script>`), 0o600); err != nil {
		t.Fatal(err)
	}
	for scheme, flag := range map[string]string{"light": "1", "dark": "0"} {
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
			"--disable-background-networking", "--disable-component-update", "--disable-sync", "--allow-file-access-from-files",
			"--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--blink-settings=preferredColorScheme="+flag,
			"--user-data-dir="+filepath.Join(dir, "profile"), "--virtual-time-budget=5000", "--dump-dom", "file://"+outer)
		var messages strings.Builder
		cmd.Stderr = &messages
		dom, err := cmd.Output()
		cancel()
		if err != nil {
			t.Skipf("chromium does not run here: %v", err)
		}
		if strings.Contains(messages.String(), "CONSOLE") {
			t.Errorf("%s: the console says\n%s", scheme, messages.String())
		}
		found := regexp.MustCompile(`(\w+)\.html at (\d+) wide (\d+) paper (rgb\([^)]*\))`).FindAllStringSubmatch(string(dom), -1)
		if len(found) != 4 {
			t.Fatalf("%s: the pages did not load: %s", scheme, dom)
		}
		for _, f := range found {
			var width, wide int
			fmt.Sscan(f[2], &width)
			fmt.Sscan(f[3], &wide)
			if wide > width || width != 1280 && width != 400 {
				t.Errorf("%s, %s: the page is %d pixels wide in a window of %d", f[1], scheme, wide, width)
			}
			if dark := strings.HasPrefix(f[4], "rgb(21"); dark != (scheme == "dark") {
				t.Errorf("%s, %s: the paper is %s", f[1], scheme, f[4])
			}
		}
	}
}

// writePage fits, over a range of k, and writes the page of the fit.
func writePage(t *testing.T, path string) {
	t.Helper()
	act, err := identity.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	src := rows(400, 12)
	m, err := host.Fit(t.Context(), act, src, host.Config{K: 3, Intercepts: host.BothIntercepts, Noise: host.PerExpert{}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := diagnosis.Of(t.Context(), m, act, src)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := page.Fits(f, nil, page.Fitted{Model: m, Diagnosis: d}); err != nil {
		t.Fatal(err)
	}
}

// writeResults runs two experiments and writes their page.
func writeResults(t *testing.T, path string) {
	t.Helper()
	chosen, err := experiment.Find([]string{"002-B", "002-L3"}, true)
	if err != nil {
		t.Fatal(err)
	}
	outcomes, err := experiment.Run(t.Context(), chosen, experiment.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	var r figures.Results
	for _, o := range outcomes {
		r.Figures = append(r.Figures, figures.Figure{Outcome: o})
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := r.Page(f); err != nil {
		t.Fatal(err)
	}
}
