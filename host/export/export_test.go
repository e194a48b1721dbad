package export

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/internal/testslow"
)

// The bounds of differences, relative to the larger of 1 and the value: of rounding in another order, of what engines
// of SQL make of functions, and of quantiles.
const (
	tolerance         = 1e-12
	sqlTolerance      = 1e-9
	quantileTolerance = 1e-9
)

// systemPython is that of the system, whose packages the tests are for.
const systemPython = "/usr/bin/python3"

// TestEngines: every example, written in every language and run in the real engine on 1,000 rows, says what
// host/predict says of them, or is refused by name.
func TestEngines(t *testing.T) {
	testslow.Mark(t)
	if testing.Short() {
		t.Skip("a study of engines")
	}
	all := examples(t)
	dir := t.TempDir()
	want := map[string]saidOf{}
	data := map[string]any{}
	for _, e := range all {
		want[e.name] = reference(t, e)
		data[e.name] = rowsOf(e)
		for _, to := range Languages {
			request := Request{Language: to}
			if to == SQL {
				request.Table, request.Keep = sqlTable, []string{sqlRow}
			}
			var text bytes.Buffer
			err := Write(t.Context(), &text, e.m, request)
			if what, ok := e.refused[to]; ok {
				refused := (*UnsupportedError)(nil)
				if !errors.As(err, &refused) || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s to %s: %v, want it refused for %s", e.name, to, err, what)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s to %s: %v", e.name, to, err)
			}
			write(t, filepath.Join(dir, map[Language]string{ONNX: e.name + ".onnx", SQL: e.name + ".sql",
				Go: filepath.Join("go", packageOf(e), "model.go"), Python: e.name + ".py"}[to]), text.Bytes())
		}
		write(t, filepath.Join(dir, e.name+".load.sql"), []byte(loading(e)))
	}
	text, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "data.json"), text)

	t.Run("go", func(t *testing.T) {
		runGo(t, dir, all)
		compareAll(t, dir, "go", all, want, tolerance)
	})
	t.Run("python", func(t *testing.T) {
		if err := exec.Command(systemPython, "-c", "import numpy").Run(); err != nil {
			t.Skip("no python3 with numpy")
		}
		out := run(t, systemPython, filepath.Join("testdata", "run.py"), dir)
		compareAll(t, dir, "python", all, want, tolerance)
		compareAll(t, dir, "sqlite", all, want, sqlTolerance)
		t.Run("onnx", func(t *testing.T) {
			if err := exec.Command(systemPython, "-c", "import onnx").Run(); err != nil {
				t.Skip("no python3 with onnx")
			}
			for _, e := range all {
				if _, refused := e.refused[ONNX]; !refused && !strings.Contains(out, "checked "+e.name+"\n") {
					t.Errorf("%s: the graph was not checked", e.name)
				}
			}
		})
	})
	t.Run("node", func(t *testing.T) {
		if err := exec.Command("node", "-e", `require("onnxruntime-web"); require("@duckdb/node-api")`).Run(); err != nil {
			t.Skip("no node with the packages of host/export/testdata/package.json ($NODE_PATH)")
		}
		run(t, "node", filepath.Join("testdata", "run.js"), dir)
		compareAll(t, dir, "onnx", all, want, tolerance)
		compareAll(t, dir, "duckdb", all, want, sqlTolerance)
	})
	t.Run("postgres", func(t *testing.T) {
		server := startPostgres(t)
		for _, e := range all {
			if _, refused := e.refused[SQL]; !refused {
				server.query(t, dir, e.name)
			}
		}
		compareAll(t, dir, "postgres", all, want, sqlTolerance)
	})
}

func packageOf(e example) string { return strings.ReplaceAll(e.name, "-", "") }

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// run runs a program and returns what it says.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// rowsOf are the rows of an example as JSON has them.
func rowsOf(e example) any {
	columns := map[string]any{}
	for name, v := range e.table.number {
		columns[name] = nulls(v)
	}
	for name, v := range e.table.word {
		columns[name] = v
	}
	return map[string]any{"columns": columns, "y": nulls(e.table.y), "level": level}
}

func nulls(v []float64) []*float64 {
	out := make([]*float64, len(v))
	for i := range v {
		if v[i] == v[i] {
			out[i] = &v[i]
		}
	}
	return out
}

// The names of a table and of its column of rows' numbers, which are to be quoted.
const (
	sqlTable = `da"ta'; --`
	sqlRow   = `row "id"`
)

// loading makes the table of an example.
func loading(e example) string {
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE TABLE %s (%s INTEGER", sqlName(sqlTable), sqlName(sqlRow))
	for _, name := range e.table.names {
		kind := "DOUBLE PRECISION"
		if e.table.word[name] != nil {
			kind = "TEXT"
		}
		fmt.Fprintf(&b, ", %s %s", sqlName(name), kind)
	}
	fmt.Fprintf(&b, ", %s DOUBLE PRECISION);\nINSERT INTO %s VALUES\n", sqlName(e.m.Target), sqlName(sqlTable))
	for i := range rows {
		fmt.Fprintf(&b, "(%d", i)
		for _, name := range e.table.names {
			if words := e.table.word[name]; words == nil {
				b.WriteString(", " + sqlNumber(e.table.number[name][i]).text)
			} else if words[i] == "" {
				b.WriteString(", NULL")
			} else {
				b.WriteString(", " + sqlString(words[i]))
			}
		}
		fmt.Fprintf(&b, ", %s)%s\n", sqlNumber(e.table.y[i]).text, map[bool]string{true: ";", false: ","}[i == rows-1])
	}
	return b.String()
}

// runGo builds and runs a program of all packages.
func runGo(t *testing.T, dir string, all []example) {
	t.Helper()
	var imports, calls strings.Builder
	for _, e := range all {
		p := packageOf(e)
		fmt.Fprintf(&imports, "\t%s \"try/%s\"\n", p, p)
		fields := fieldsOf(readColumns(t, e))
		var row strings.Builder
		for _, c := range readColumns(t, e) {
			kind := "number"
			if c.words {
				kind = "word"
			}
			fmt.Fprintf(&row, "%s: %s(d.Columns[%q][i]), ", fields[c.name], kind, c.name)
		}
		mean := p + ".Mean(row)"
		quantile := func(q string) string {
			if e.m.Family != "" {
				return "math.NaN()"
			}
			return p + ".Quantile(row, " + q + ")"
		}
		if e.m.TargetScale == "reciprocal" {
			mean = p + ".Quantile(row, 0.5)"
		}
		fmt.Fprintf(&calls, `	say(%q, func(d table, i int, out *said) {
		row := %s.Row{%s}
		gate, posterior := %[2]s.Gate(row), %[2]s.Posterior(row, number(d.Y[i]))
		out.add(%[4]s, %[5]s, %[6]s, gate[:], posterior[:])
	})
`, e.name, p, row.String(), mean, quantile("(1-d.Level)/2"), quantile("(1+d.Level)/2"))
	}
	program := fmt.Sprintf(goProgram, imports.String(), calls.String())
	write(t, filepath.Join(dir, "go", "main.go"), []byte(program))
	write(t, filepath.Join(dir, "go", "go.mod"), []byte("module try\n\ngo 1.22\n"))
	cmd := exec.CommandContext(t.Context(), "go", "run", ".", dir)
	cmd.Dir = filepath.Join(dir, "go")
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go run: %v\n%s", err, out)
	}
}

// readColumns are the columns that an example's program reads.
func readColumns(t *testing.T, e example) []column {
	t.Helper()
	p, err := programOf(context.Background(), e.m, true)
	if err != nil {
		t.Fatal(err)
	}
	return p.columns
}

const goProgram = `package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"

%s)

type table struct {
	Columns map[string][]any
	Y       []any
	Level   float64
}

type said struct {
	Mean      []any   ` + "`json:\"mean\"`" + `
	Lower     []any   ` + "`json:\"lower\"`" + `
	Upper     []any   ` + "`json:\"upper\"`" + `
	Gate      [][]any ` + "`json:\"gate\"`" + `
	Posterior [][]any ` + "`json:\"posterior\"`" + `
}

func number(v any) float64 {
	if v == nil {
		return math.NaN()
	}
	return v.(float64)
}

func word(v any) string { return v.(string) }

func null(v float64) any {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return v
}

func all(v []float64) (out []any) {
	for _, v := range v {
		out = append(out, null(v))
	}
	return out
}

func (s *said) add(mean, lower, upper float64, gate, posterior []float64) {
	s.Mean, s.Lower, s.Upper = append(s.Mean, null(mean)), append(s.Lower, null(lower)), append(s.Upper, null(upper))
	s.Gate, s.Posterior = append(s.Gate, all(gate)), append(s.Posterior, all(posterior))
}

var data map[string]table

func say(name string, of func(d table, i int, out *said)) {
	var out said
	for i := range data[name].Y {
		of(data[name], i, &out)
	}
	text, err := json.Marshal(out)
	if err == nil {
		err = os.WriteFile(filepath.Join(os.Args[1], name+".go.json"), text, 0o666)
	}
	if err != nil {
		panic(err)
	}
}

func main() {
	text, err := os.ReadFile(filepath.Join(os.Args[1], "data.json"))
	if err == nil {
		err = json.Unmarshal(text, &data)
	}
	if err != nil {
		panic(err)
	}
%s}
`

// compareAll holds what an engine says against the reference.
func compareAll(t *testing.T, dir, engine string, all []example, want map[string]saidOf, tolerance float64) {
	t.Helper()
	to := map[string]Language{"go": Go, "python": Python, "onnx": ONNX}[engine]
	if to == "" {
		to = SQL
	}
	largest, where := 0.0, ""
	for _, e := range all {
		if _, refused := e.refused[to]; refused {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.name+"."+engine+".json"))
		if err != nil {
			t.Errorf("%s in %s: %v", e.name, engine, err)
			continue
		}
		got := decode(t, e, to, text)
		var worst float64
		check := func(what string, got, want []*float64, tolerance float64) {
			if len(got) != len(want) {
				t.Errorf("%s in %s: %d values of %s, want %d", e.name, engine, len(got), what, len(want))
				return
			}
			for i, w := range want {
				g := got[i]
				if g == nil || w == nil {
					if (g == nil) != (w == nil) {
						t.Errorf("%s in %s: %s %d is %v, want %v", e.name, engine, what, i, text64(g), text64(w))
						return
					}
					continue
				}
				off := math.Abs(*g-*w) / max(1, math.Abs(*w))
				worst = max(worst, off)
				if !(off <= tolerance) {
					t.Errorf("%s in %s: %s %d is %v, want %v, %.2g off", e.name, engine, what, i, *g, *w, off)
					return
				}
			}
		}
		w := want[e.name]
		if to == Go && strings.HasPrefix(e.m.Roles["trials"], "cbind") { // its mean is told no target, and is of one trial
			w.Mean = slices.Clone(w.Mean)
			for i, v := range w.Mean {
				if v != nil {
					w.Mean[i] = &[]float64{*v / (e.table.y[i] + e.table.number["x3"][i])}[0]
				}
			}
		}
		check("mean", got.Mean, w.Mean, tolerance)
		check("gate", flat(got.Gate), flat(w.Gate), tolerance)
		check("posterior", flat(got.Posterior), flat(w.Posterior), tolerance)
		if worst > largest {
			largest, where = worst, e.name
		}
		if (to == Go || to == Python) && e.m.Family == "" {
			check("lower", got.Lower, w.Lower, quantileTolerance)
			check("upper", got.Upper, w.Upper, quantileTolerance)
		}
	}
	t.Logf("%s: %.2g off at most, in %s", engine, largest, where)
}

func text64(v *float64) string {
	if v == nil {
		return "missing"
	}
	return fmt.Sprint(*v)
}

func flat(m [][]*float64) (out []*float64) {
	for _, row := range m {
		out = append(out, row...)
	}
	return out
}

// decode reads what an engine has written; of SQL the rows in any order.
func decode(t *testing.T, e example, to Language, text []byte) (out saidOf) {
	t.Helper()
	if to != SQL {
		if err := json.Unmarshal(text, &out); err != nil {
			t.Fatalf("%s to %s: %v", e.name, to, err)
		}
		return out
	}
	var result struct {
		Names []string
		Rows  [][]*float64
	}
	if err := json.Unmarshal(text, &result); err != nil {
		t.Fatalf("%s to %s: %v", e.name, to, err)
	}
	want := []string{sqlRow, "mean"}
	for _, prefix := range []string{"p", "posterior"} {
		for i := range e.m.K {
			want = append(want, fmt.Sprint(prefix, i+1))
		}
		if e.m.ZeroExpert {
			want = append(want, prefix+"_zero")
		}
	}
	if fmt.Sprint(result.Names) != fmt.Sprint(want) {
		t.Fatalf("%s to %s: columns %q, want %q", e.name, to, result.Names, want)
	}
	sorted := make([][]*float64, rows)
	for _, row := range result.Rows {
		sorted[int(*row[0])] = row[1:]
	}
	k := e.m.Classes()
	for i, row := range sorted {
		if row == nil {
			t.Fatalf("%s to %s: no row %d", e.name, to, i)
		}
		out.Mean = append(out.Mean, row[0])
		out.Gate, out.Posterior = append(out.Gate, row[1:1+k]), append(out.Posterior, row[1+k:])
	}
	return out
}
