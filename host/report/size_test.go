package report_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/internal/testslow"
)

// TestSize: a program that fits and prints a table has at most 15 MB. It is what stands in testdata/table, and works.
func TestSize(t *testing.T) {
	testslow.Mark(t) // it links a program
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command: the tests' programs run where they were not built")
	}
	const most = 15e6
	program := filepath.Join(t.TempDir(), "table.exe")
	if out, err := exec.Command("go", "build", "-o", program, "./testdata/table").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > most {
		t.Errorf("the program has %.1f MB, want at most %.1f", float64(info.Size())/1e6, most/1e6)
	}
	out, err := exec.Command(program, "../../examples/tone.csv").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Converged: 2 identity experts") {
		t.Errorf("%v\n%s", err, out)
	}
}
