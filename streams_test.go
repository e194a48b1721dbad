package moe_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/internal/stream"
)

// drawers say which package draws from a use, where that is not one alone.
var drawers = map[string][]string{
	"Start": {"host", "host/descent", "host/search"}, // methods of a fit, of which each has one
	"Study": {"host/diverse", "host/experiment", "solver"},
}

// TestStreams: generators of random numbers are made by internal/stream alone, with a use of its table that is
// named where it is drawn from, and no use is drawn from by two packages that may be parts of one fit. What no result
// depends on is left out: which of a plugin's answers are checked, which nobody is to foresee, the name of its cgroup, and what
// a WebAssembly module may ask for, of which each instance has the same.
func TestStreams(t *testing.T) {
	makers := map[string][]string{"internal/stream": {"New", "NewPCG"}, "internal/spotcheck": {"New", "NewChaCha8"}, "internal/pluginproc": {"Uint32"}, "internal/wasm": {"NewChaCha8"},
		"host/search/searchtest": {"New", "NewPCG"}, "host/shard/shardtest": {"New", "NewPCG"}} // data of tests
	used := map[string][]string{}
	eachSource(t, func(file string) error {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := path.Dir(file)
		for _, name := range selected(parsed, "math/rand") {
			t.Errorf("%s has %s of math/rand, of which there is one stream for all", file, name)
		}
		for _, name := range selected(parsed, "math/rand/v2") {
			if name != "Rand" && !slices.Contains(makers[dir], name) {
				t.Errorf("%s has %s of math/rand/v2: generators come from internal/stream", file, name)
			}
		}
		for _, name := range selected(parsed, module+"/internal/stream") {
			if !slices.Contains(used[name], dir) {
				used[name] = append(used[name], dir)
			}
		}
		return nil
	})
	for _, e := range stream.Table() {
		want := drawers[e.Name]
		if want == nil && len(used[e.Name]) == 1 {
			continue
		}
		if slices.Sort(used[e.Name]); !slices.Equal(used[e.Name], want) {
			t.Errorf("%s is drawn from by %v, want %v, or one package where none are listed", e.Name, used[e.Name], want)
		}
	}
}

// selected are the names that a file takes from a package.
func selected(f *ast.File, from string) (names []string) {
	as := ""
	for _, spec := range f.Imports {
		if to, err := strconv.Unquote(spec.Path.Value); err == nil && to == from {
			if as = path.Base(strings.TrimSuffix(from, "/v2")); spec.Name != nil {
				as = spec.Name.Name
			}
		}
	}
	if as == "" {
		return nil
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == as {
				names = append(names, s.Sel.Name)
			}
		}
		return true
	})
	return names
}
