package report_test

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
	"github.com/gatedlearning/moe/host/report"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestPageInChromium opens the pages in a browser without a network, at 1280 and
// 400 pixels, light and dark: no message on the console, nothing wider than the
// window.
func TestPageInChromium(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed")
	}
	for name, write := range map[string]func(*testing.T, string){"fit": writePage, "results": writeResults} {
		t.Run(name, func(t *testing.T) { inChromium(t, browser, write) })
	}
}

func inChromium(t *testing.T, browser string, write func(*testing.T, string)) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "page.html"))
	for _, width := range []int{1280, 400} {
		for scheme, flag := range map[string]string{"light": "1", "dark": "0"} {
			// A frame measures the page at a width that the window cannot have.
			frame := fmt.Sprintf(`<!doctype html><link rel="icon" href="data:,"><p id="out">-</p>
<iframe src="page.html" style="width:%dpx;height:800px;border:0"></iframe>
<script>onload = () => { const d = document.querySelector('iframe').contentDocument;
document.getElementById('out').textContent = 'wide ' + d.documentElement.scrollWidth + ' paper ' + getComputedStyle(d.body).backgroundColor; }</script>`, width)
			outer := filepath.Join(dir, "frame.html")
			if err := os.WriteFile(outer, []byte(frame), 0o600); err != nil {
				t.Fatal(err)
			}
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
				t.Errorf("%d pixels, %s: the console says\n%s", width, scheme, messages.String())
			}
			var wide int
			found := regexp.MustCompile(`wide (\d+) paper (rgb\([^)]*\))`).FindSubmatch(dom)
			if found == nil {
				t.Fatalf("the page did not load: %s", dom)
			}
			fmt.Sscan(string(found[1]), &wide)
			if wide > width {
				t.Errorf("%s: the page is %d pixels wide in a window of %d", scheme, wide, width)
			}
			if dark := strings.HasPrefix(string(found[2]), "rgb(21"); dark != (scheme == "dark") {
				t.Errorf("%s: the paper is %s", scheme, found[2])
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
	m, err := host.Fit(t.Context(), act, src, host.Config{K: 3, Intercept: true, Noise: host.PerExpert{}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := report.Diagnose(t.Context(), m, act, src)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := report.Page(f, nil, report.Fitted{Model: m, Diagnosis: d}); err != nil {
		t.Fatal(err)
	}
}

// writeResults runs two experiments and writes their page.
func writeResults(t *testing.T, path string) {
	t.Helper()
	figures, err := experiment.Find([]string{"002-B", "002-L3"}, true)
	if err != nil {
		t.Fatal(err)
	}
	outcomes, err := experiment.Run(t.Context(), figures, experiment.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	var r report.Results
	for _, o := range outcomes {
		r.Figures = append(r.Figures, report.Figure{Outcome: o})
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
