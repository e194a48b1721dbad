// Mutate says which changes of a package's code its tests do not notice.
//
// It makes the mutants of gremlins v0.6.0 at its defaults (+ and −, * and /, % to *;
// < and <=, > and >=; a comparison turned into its opposite; ++ and --; −x to x), but
// compiles them all into one test binary, where an environment variable chooses one,
// and runs for each only those tests that reach it, the cheap ones first. A thousand
// mutants so take minutes. What cannot be chosen while the program runs, as the
// operators of constants, is compiled alone.
//
//	go run ./mutate [flags] DIRECTORY
//
// A mutant is killed by a test that fails, and timed out where the tests take more than
// ten times the processor time that they take without it. One that does not compile is
// not viable. A minus counts twice, as gremlins has it. Linux only.
//
// A package that takes long is run in parts (-sample, -part) or by files, and those that
// lived again after tests were added (-only). Of such outputs, one after the other in a file,
// -survivors makes a table of those that lived, and the counts.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"hash/fnv"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed helpers.go.txt
var helpers string

// A mutant is a change of one operator.
type mutant struct {
	id    int      // its number in the binary
	kinds []string // as gremlins calls them: "ARITHMETIC_BASE"; a minus has two
	at    token.Position
	from  token.Token
	to    token.Token
	alone bool // compiled alone
}

func (m mutant) String() string {
	return fmt.Sprintf("%s at %s:%d:%d", m.kinds[0], filepath.Base(m.at.Filename), m.at.Line, m.at.Column)
}

// A test of the package, with what it takes and reaches.
type test struct {
	name    string
	cpu     time.Duration
	reached []byte // by number of mutant
}

func main() {
	only := flag.String("only", "", "mutants whose line of the output contains a line of this `file`, and no others")
	files := flag.String("files", "", "mutants of the files whose name matches this `expression`, and no others")
	skip := flag.String("skip", "", "tests that are not run, an `expression`")
	sample := flag.Int("sample", 1, "one mutant in so many, by a hash of its line")
	part := flag.Int("part", 0, "which of the samples, from 0")
	space := flag.Int("space", 16,
		"GiB of addresses that the tests may take; 0 for any number, where they ask for more")
	table := flag.String("survivors", "",
		"run nothing: the rows of a Markdown table, one a line of code, of those that lived in this `file` of outputs")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(64)
	}
	if *table != "" {
		if err := survivors(os.Stdout, flag.Arg(0), *table); err != nil {
			fmt.Fprintln(os.Stderr, "mutate:", err)
			os.Exit(1)
		}
		return
	}
	if err := mutate(os.Stdout, flag.Arg(0), *only, *files, *skip, uint32(*sample), uint32(*part), *space); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func mutate(w io.Writer, dir, only, files, skip string, sample, part uint32, space int) error {
	scratch, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	dir, err = copyModule(dir, filepath.Join(scratch, "module"))
	if err != nil {
		return err
	}
	p, err := load(dir)
	if err != nil {
		return err
	}
	p.scratch, p.space = scratch, "unlimited"
	if space > 0 {
		p.space = strconv.Itoa(space << 20) // KiB
	}
	p.find()
	if err := p.build(); err != nil {
		return err
	}
	tests, err := p.measure(w, skip)
	if err != nil {
		return err
	}
	wanted, err := choose(only, files, sample, part)
	if err != nil {
		return err
	}
	counts := map[string]int{}
	for _, m := range p.mutants {
		if !wanted(m) {
			continue
		}
		status, by := p.judge(m, tests)
		counts[status] += len(m.kinds)
		for _, kind := range m.kinds {
			fmt.Fprintf(w, "%12s %s at %s:%d:%d", status, kind, filepath.Base(m.at.Filename), m.at.Line, m.at.Column)
			fmt.Fprintf(w, "  %s -> %s  %s\n", m.from, m.to, by)
		}
	}
	summary(w, counts)
	return nil
}

// summary writes how many mutants there are of every status.
func summary(w io.Writer, counts map[string]int) {
	for _, s := range []string{"KILLED", "LIVED", "NOT COVERED", "TIMED OUT", "NOT VIABLE"} {
		fmt.Fprintf(w, "%s: %d\n", s, counts[s])
	}
	fmt.Fprintf(w, "killed of killed and lived: %.2f%%\n", 100*float64(counts["KILLED"])/float64(counts["KILLED"]+
		counts["LIVED"]))
}

// choose makes the predicate of the flags -only, -files, -sample and -part.
func choose(only, files string, sample, part uint32) (func(mutant) bool, error) {
	lines := map[string]bool{}
	if only != "" {
		b, err := os.ReadFile(only)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(b)) {
			if at := regexp.MustCompile(`[A-Z_]+ at \S+`).FindString(line); at != "" {
				lines[at] = true
			}
		}
	}
	match, err := regexp.Compile(files)
	return func(m mutant) bool {
		h := fnv.New32a()
		io.WriteString(h, m.String())
		return (only == "" || lines[m.String()]) && h.Sum32()%sample == part &&
			match.MatchString(filepath.Base(m.at.Filename))
	}, err
}

// A target is a package with its mutants.
type target struct {
	dir, name string
	set       *token.FileSet
	files     map[string]*ast.File // by path
	source    map[string][]byte
	info      *types.Info
	mutants   []mutant
	last      int // the greatest number
	edits     map[string][]edit
	scratch   string
	space     string // that a run of tests may take, as ulimit has it
}

// An edit puts text in place of the n bytes at an offset. Those at the same place stand in
// ascending order.
type edit struct {
	at, n int
	text  string
	order int
}

// copyModule copies the module of a package to a directory, for tests that fail may write
// where they stand, and returns where the package is then.
func copyModule(dir, to string) (string, error) {
	list := exec.Command("go", "list", "-f", "{{.Module.Dir}}\n{{.Dir}}", ".")
	list.Dir, list.Stderr = dir, os.Stderr
	out, err := list.Output()
	if err != nil {
		return "", err
	}
	root, dir, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := filepath.Join(to, strings.TrimPrefix(path, root))
		switch {
		case e.Name() == ".git":
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e.IsDir():
			return os.MkdirAll(at, 0o755)
		case !e.Type().IsRegular():
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(at, b, info.Mode())
	})
	return filepath.Join(to, strings.TrimPrefix(dir, root)), err
}

// load reads and checks a package, its tests apart.
func load(dir string) (*target, error) {
	list := exec.Command("go", "list", "-export", "-deps", "-json=Dir,Name,ImportPath,Export,GoFiles", ".")
	list.Dir, list.Stderr = dir, os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, err
	}
	type listed struct {
		Dir, Name, ImportPath, Export string
		GoFiles                       []string
	}
	exports := map[string]string{}
	var this listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := d.Decode(&l); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		exports[l.ImportPath] = l.Export
		this = l // the last is the package itself
	}
	p := &target{dir: dir, name: this.Name, set: token.NewFileSet(), files: map[string]*ast.File{},
		source: map[string][]byte{}, edits: map[string][]edit{}}
	var all []*ast.File
	for _, name := range this.GoFiles {
		path := filepath.Join(dir, name)
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(p.set, path, b, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.files[path], p.source[path] = f, b
		all = append(all, f)
	}
	p.info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	config := types.Config{Importer: importer.ForCompiler(p.set, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	_, err = config.Check(this.ImportPath, p.set, all, p.info)
	return p, err
}

var (
	opposite = map[token.Token]token.Token{token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.GEQ,
		token.LEQ: token.GTR, token.GTR: token.LEQ, token.GEQ: token.LSS}
	boundary = map[token.Token]token.Token{token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ,
		token.GEQ: token.GTR}
	inverse = map[token.Token]token.Token{token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO,
		token.QUO: token.MUL, token.REM: token.MUL, token.INC: token.DEC, token.DEC: token.INC}
	function = map[token.Token]string{token.ADD: "mutAdd", token.SUB: "mutSub", token.MUL: "mutMul",
		token.QUO: "mutQuo",
		token.REM: "mutRem", token.LSS: "mutLss", token.LEQ: "mutLeq", token.GTR: "mutGtr", token.GEQ: "mutGeq",
		token.INC: "mutOne", token.DEC: "mutOff"}
)

// find lists the mutants in the order of the code and notes the edits that make them.
func (p *target) find() {
	p.last = 0
	for _, path := range slices.Sorted(maps.Keys(p.files)) {
		var blocks []token.Pos // where the statements of the blocks around begin
		var around []ast.Node
		ast.Inspect(p.files[path], func(n ast.Node) bool {
			if n == nil {
				if around[len(around)-1] != nil {
					blocks = blocks[:len(blocks)-1]
				}
				around = around[:len(around)-1]
				return true
			}
			switch n := n.(type) {
			case *ast.BlockStmt:
				blocks, around = append(blocks, n.Lbrace+1), append(around, n)
			case *ast.CommClause:
				blocks, around = append(blocks, n.Colon+1), append(around, n)
			case *ast.CaseClause:
				blocks, around = append(blocks, n.Colon+1), append(around, n)
			default:
				around = append(around, nil)
			}
			p.operator(path, n, blocks)
			return true
		})
	}
}

// operator adds the mutants of a node, if it has any.
func (p *target) operator(path string, n ast.Node, blocks []token.Pos) {
	var op token.Token
	var pos token.Pos
	switch n := n.(type) {
	case *ast.BinaryExpr:
		op, pos = n.Op, n.OpPos
	case *ast.UnaryExpr:
		op, pos = n.Op, n.OpPos
		if op != token.SUB && op != token.ADD {
			return
		}
	case *ast.IncDecStmt:
		op, pos = n.Tok, n.TokPos
	default:
		return
	}
	var ms []mutant
	add := func(to token.Token, kinds ...string) {
		p.last++
		ms = append(ms, mutant{id: p.last, kinds: kinds, at: p.set.Position(pos), from: op, to: to})
	}
	switch {
	case boundary[op] != 0:
		add(boundary[op], "CONDITIONALS_BOUNDARY")
		add(opposite[op], "CONDITIONALS_NEGATION")
	case opposite[op] != 0:
		add(opposite[op], "CONDITIONALS_NEGATION")
	case op == token.INC || op == token.DEC:
		add(inverse[op], "INCREMENT_DECREMENT")
	case op == token.SUB:
		add(token.ADD, "INVERT_NEGATIVES", "ARITHMETIC_BASE")
	case inverse[op] != 0:
		add(inverse[op], "ARITHMETIC_BASE")
	default:
		return
	}
	if !p.choosable(path, n, ms[0].id) {
		for i := range ms {
			ms[i].alone = true
			if len(blocks) > 0 {
				p.edit(path, blocks[len(blocks)-1], 0, fmt.Sprintf("mutHit(%d);", ms[i].id), 0)
			}
		}
	}
	p.mutants = append(p.mutants, ms...)
}

// choosable makes the edits of an operator that is to be chosen while the program runs
// and says whether there are any.
func (p *target) choosable(path string, n ast.Node, id int) bool {
	begin := func(at token.Pos, text string) { p.edit(path, at, 0, text, p.last) }
	end := func(at token.Pos, text string) { p.edit(path, at, 0, text, -p.last) }
	switch n := n.(type) {
	case *ast.IncDecStmt:
		if !types.Identical(p.info.Types[n.X].Type, types.Typ[types.Int]) {
			return false
		}
		p.edit(path, n.TokPos, 2, fmt.Sprintf("+= %s(%d)", function[n.Tok], id), 0)
	case *ast.UnaryExpr:
		tv := p.info.Types[ast.Expr(n)]
		if tv.Value != nil || n.Op != token.SUB || !number(tv.Type) {
			return false
		}
		p.edit(path, n.OpPos, 1, "", p.last)
		begin(n.X.Pos(), "mutNeg"+instance(tv.Type)+"(")
		end(n.X.End(), fmt.Sprintf(", %d)", id))
	case *ast.BinaryExpr:
		tv := p.info.Types[ast.Expr(n)]
		if tv.Value != nil {
			return false
		}
		if n.Op == token.EQL || n.Op == token.NEQ {
			begin(n.X.Pos(), "mutIs(")
			end(n.Y.End(), fmt.Sprintf(", %d)", id))
			break
		}
		of := p.info.Types[n.X]
		if of.Value != nil {
			of = p.info.Types[n.Y]
		}
		b, ok := of.Type.Underlying().(*types.Basic)
		if !ok || b.Info()&types.IsString != 0 && boundary[n.Op] == 0 {
			return false
		}
		begin(n.X.Pos(), function[n.Op]+instance(of.Type)+"(")
		p.edit(path, n.OpPos, len(n.Op.String()), ",", 0)
		end(n.Y.End(), fmt.Sprintf(", %d)", id))
	}
	return true
}

func number(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&(types.IsInteger|types.IsFloat) != 0
}

// instance is the type's argument of a helper: without it an untyped operand would
// have its own idea.
func instance(t types.Type) string {
	if b, ok := t.(*types.Basic); ok && b.Info()&types.IsUntyped == 0 {
		return "[" + b.Name() + "]"
	}
	return ""
}

func (p *target) edit(path string, at token.Pos, n int, text string, order int) {
	p.edits[path] = append(p.edits[path], edit{p.set.Position(at).Offset, n, text, order})
}

// build makes the binaries: one that is fast and one that notes what is reached.
func (p *target) build() error {
	replace := map[string]string{}
	for path := range p.files {
		if err := p.write(replace, path, apply(p.source[path], p.edits[path])); err != nil {
			return err
		}
	}
	for _, record := range []bool{false, true} {
		h := strings.Replace(strings.Replace(helpers, "PACKAGE", p.name, 1), "RECORD", strconv.FormatBool(record), 1)
		if err := p.write(replace, filepath.Join(p.dir, "mut_helpers.go"), []byte(h)); err != nil {
			return err
		}
		if out, err := p.compile(p.binary(record), replace); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
	}
	return nil
}

func (p *target) binary(record bool) string {
	if record {
		return filepath.Join(p.scratch, "record.test")
	}
	return filepath.Join(p.scratch, "mutants.test")
}

// write puts a file's new text aside and notes it in the overlay.
func (p *target) write(replace map[string]string, path string, text []byte) error {
	to := filepath.Join(p.scratch, filepath.Base(path))
	replace[path] = to
	return os.WriteFile(to, text, 0o644)
}

// compile builds the package's tests with some files replaced.
func (p *target) compile(binary string, replace map[string]string) (string, error) {
	overlay := filepath.Join(p.scratch, "overlay.json")
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, b, 0o644); err != nil {
		return "", err
	}
	c := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-gcflags=-e", "-overlay", overlay, "-o",
		binary, ".")
	c.Dir = p.dir
	out, err := c.CombinedOutput()
	return string(out), err
}

// apply makes the edits, which are in the order of the code's tree, in a text.
func apply(text []byte, edits []edit) []byte {
	edits = slices.Clone(edits)
	slices.SortStableFunc(edits, func(a, b edit) int {
		if a.at != b.at {
			return a.at - b.at
		}
		return a.order - b.order // ends of inner expressions, then beginnings of outer ones
	})
	var out bytes.Buffer
	at := 0
	for _, e := range edits {
		out.Write(text[at:e.at])
		out.WriteString(e.text)
		at = e.at + e.n
	}
	out.Write(text[at:])
	return out.Bytes()
}

// measure runs every test alone, without a mutant, for its time and what it reaches.
func (p *target) measure(w io.Writer, skip string) ([]test, error) {
	list := exec.Command(p.binary(false), "-test.list", ".")
	list.Dir = p.dir
	out, err := list.Output()
	if err != nil {
		return nil, err
	}
	without := regexp.MustCompile(skip)
	var tests []test
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		if strings.HasPrefix(name, "Benchmark") || skip != "" && without.MatchString(name) {
			continue
		}
		t := test{name: name}
		noted := filepath.Join(p.scratch, "reached")
		if err := os.WriteFile(noted, make([]byte, p.last+2), 0o644); err != nil {
			return nil, err
		}
		r := p.run(p.binary(true), []string{name}, 600, "MUTANTS_REACHED="+noted)
		if !r.passed {
			return nil, fmt.Errorf("%s fails without a mutant:\n%s", name, r.output)
		}
		if t.reached, err = os.ReadFile(noted); err != nil {
			return nil, err
		}
		r = p.run(p.binary(false), []string{name}, 600)
		if !r.passed {
			return nil, fmt.Errorf("%s fails without a mutant:\n%s", name, r.output)
		}
		t.cpu = r.cpu
		tests = append(tests, t)
	}
	slices.SortFunc(tests, func(a, b test) int { return int(a.cpu - b.cpu) })
	total := time.Duration(0)
	for _, t := range tests {
		total += t.cpu
	}
	fmt.Fprintf(w, "%s: %d tests, %.1f s of processor time\n", p.dir, len(tests), total.Seconds())
	return tests, nil
}

// A result is what came of a run of tests.
type result struct {
	passed, timedOut bool
	cpu              time.Duration
	output           string
}

// run runs tests on one processor, with at most some seconds of its time.
func (p *target) run(binary string, names []string, seconds int, env ...string) result {
	script := fmt.Sprintf(`ulimit -t %d -v %s; exec "$@"`, seconds, p.space)
	c := exec.Command("bash", "-c", script, "bash", binary, "-test.failfast", "-test.timeout",
		fmt.Sprint(time.Duration(60+20*seconds)*time.Second),
		"-test.run", "^("+strings.Join(names, "|")+")$")
	c.Dir = p.dir
	c.Env = append(append(os.Environ(), "GOMAXPROCS=1"), env...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a mutant may kill its group
	out, err := c.CombinedOutput()
	r := result{passed: err == nil, output: string(out)}
	r.cpu = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	s, ok := c.ProcessState.Sys().(syscall.WaitStatus)
	r.timedOut = ok && s.Signaled() || strings.Contains(r.output, "panic: test timed out")
	return r
}

// judge says what comes of a mutant, and of what it died.
func (p *target) judge(m mutant, tests []test) (status, by string) {
	var reach []test
	for _, t := range tests {
		if t.reached[m.id] != 0 {
			reach = append(reach, t)
		}
	}
	if len(reach) == 0 {
		return "NOT COVERED", ""
	}
	binary := p.binary(false)
	if m.alone {
		binary = filepath.Join(p.scratch, "alone.test")
		text := p.source[m.at.Filename]
		replace := map[string]string{}
		text = apply(text, []edit{{m.at.Offset, len(m.from.String()), m.to.String(), 0}})
		if err := p.write(replace, m.at.Filename, text); err != nil {
			panic(err)
		}
		if _, err := p.compile(binary, replace); err != nil {
			return "NOT VIABLE", ""
		}
	}
	for _, group := range groups(reach) {
		var cpu time.Duration
		var names []string
		for _, t := range group {
			cpu += t.cpu
			names = append(names, t.name)
		}
		r := p.run(binary, names, 2+int(math.Ceil(10*cpu.Seconds())), "MUTANT="+strconv.Itoa(m.id))
		switch {
		case r.timedOut:
			return "TIMED OUT", ""
		case !r.passed:
			return "KILLED", cause(r.output)
		}
	}
	return "LIVED", fmt.Sprintf("%d tests", len(reach))
}

// groups divides tests, cheapest first, into runs of which each takes longer than the
// one before.
func groups(tests []test) [][]test {
	var out [][]test
	limit := 50 * time.Millisecond
	for len(tests) > 0 {
		var sum time.Duration
		n := 0
		for n < len(tests) && (n == 0 || sum+tests[n].cpu <= limit) {
			sum += tests[n].cpu
			n++
		}
		out = append(out, tests[:n])
		tests = tests[n:]
		limit *= 4
	}
	return out
}

// cause is the first test that failed.
func cause(output string) string {
	if m := regexp.MustCompile(`--- FAIL: (\S+)`).FindStringSubmatch(output); m != nil {
		return m[1]
	}
	return "panic"
}
