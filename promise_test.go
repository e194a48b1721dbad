package moe_test

import (
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPromise: docs/architecture.md names every type of another package that the promised packages speak of in an
// exported name, a field or a method, and no other. A change that makes the promise larger is seen there.
func TestPromise(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## What is promised to stay\n")
	section, _, _ = strings.Cut(section, "\n## ")
	ours, named, ok := strings.Cut(section, "\nThey speak of types of other packages.")
	_, ours, found := strings.Cut(ours, "\n- in Go: ")
	named, _, end := strings.Cut(named, "\nEverything else")
	if !ok || !found || !end {
		t.Fatal("docs/architecture.md does not say what is promised in Go, and which types of others that speaks of")
	}
	quoted := func(in string) (out []string) {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(in, -1) {
			out = append(out, m[1])
		}
		return out
	}
	packages := slices.DeleteFunc(quoted(ours), func(name string) bool { return strings.HasPrefix(name, "host/model") })
	want := quoted(named)
	slices.Sort(want)
	if got := spokenOf(t, packages); !slices.Equal(got, want) {
		for _, name := range got {
			if !slices.Contains(want, name) {
				t.Errorf("docs/architecture.md does not say that the promised packages speak of %s", name)
			}
		}
		for _, name := range want {
			if !slices.Contains(got, name) {
				t.Errorf("docs/architecture.md says that the promised packages speak of %s: none does", name)
			}
		}
	}
}

// spokenOf are the exported types of other packages of the module, as in "host/model.Block", that exported names of
// these packages, exported fields of their types and exported methods speak of.
func spokenOf(t *testing.T, packages []string) []string {
	const below = module + "/"
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	ours := map[string]bool{}
	for _, p := range packages {
		args, ours[below+p] = append(args, below+p), true
	}
	list, err := exec.Command("go", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	compiled := map[string]string{}
	for line := range strings.Lines(string(list)) {
		p, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		compiled[p] = file
	}
	read := importer.ForCompiler(token.NewFileSet(), "gc", func(p string) (io.ReadCloser, error) {
		return os.Open(compiled[p])
	})
	spoken := map[string]bool{}
	speaks := func(o *types.TypeName) {
		if p := o.Pkg(); p != nil && strings.HasPrefix(p.Path(), below) && !ours[p.Path()] && o.Exported() {
			spoken[strings.TrimPrefix(p.Path(), below)+"."+o.Name()] = true
		}
	}
	for p := range ours {
		of, err := read.Import(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range of.Scope().Names() {
			if o := of.Scope().Lookup(name); o.Exported() {
				_, isType := o.(*types.TypeName)
				eachType(o.Type(), isType, map[types.Type]bool{}, speaks)
			}
		}
	}
	delete(spoken, "host/model.Params") // promised itself
	var out []string
	for name := range spoken {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// eachType passes the names of all types in t on: with what is exported of it where it is declared there.
func eachType(t types.Type, declared bool, seen map[types.Type]bool, speaks func(*types.TypeName)) {
	if t == nil || seen[t] {
		return
	}
	seen[t] = true
	in := func(of types.Type) { eachType(of, false, seen, speaks) }
	methods := func(n int, method func(int) *types.Func) {
		for i := range n {
			if m := method(i); m.Exported() {
				in(m.Type())
			}
		}
	}
	switch t := t.(type) {
	case *types.Alias:
		speaks(t.Obj())
		eachType(t.Rhs(), declared, seen, speaks)
	case *types.Named:
		speaks(t.Obj())
		for of := range t.TypeArgs().Types() {
			in(of)
		}
		if declared {
			methods(t.NumMethods(), t.Method)
			eachType(t.Underlying(), true, seen, speaks)
		}
	case *types.Pointer:
		eachType(t.Elem(), declared, seen, speaks)
	case *types.Slice:
		in(t.Elem())
	case *types.Array:
		in(t.Elem())
	case *types.Map:
		in(t.Key())
		in(t.Elem())
	case *types.Signature:
		for v := range t.Params().Variables() {
			in(v.Type())
		}
		for v := range t.Results().Variables() {
			in(v.Type())
		}
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() {
				in(f.Type())
			}
		}
	case *types.Interface:
		methods(t.NumMethods(), t.Method)
	}
}
