package moe_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// named finds what a page says of the code: `solver.Transform.Q4`,
// `host/tensor.L4`, `sdk.TestSteinIdentities`.
var named = regexp.MustCompile("`([a-z0-9/-]+)\\.([A-Za-z]\\w*)(?:\\.(\\w+))?(?:\\(\\))?`")

// TestNamesOnPages: every function, type, method, field, constant and test that a
// page names exists in the package that it names, by its directory.
func TestNamesOnPages(t *testing.T) {
	var pages []string
	for _, below := range []string{"docs/*.md", "docs/theory/*.md", "docs/studies/*.md"} {
		found, err := filepath.Glob(below)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	found := 0
	packages := make(map[string]map[string]bool)
	for _, page := range append(pages, "README.md", "CONTRIBUTING.md", "examples/README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			dir, name := m[1], m[2]
			if m[3] != "" {
				name += "." + m[3]
			}
			if packages[dir] == nil {
				packages[dir] = declarations(t, dir)
			}
			if len(packages[dir]) == 0 && !token.IsExported(m[2]) {
				continue // a file
			}
			found++
			if !packages[dir][name] {
				t.Errorf("%s names %s, which does not exist", page, strings.Trim(m[0], "`"))
			}
		}
	}
	if found == 0 {
		t.Error("no page names anything")
	}
}

// declarations returns the top-level names of a package with its tests, and the
// methods and fields of its types as Type.Name.
func declarations(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	names, embedded := make(map[string]bool), make(map[string][]string)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				names[receiver(d)+d.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					declare(names, embedded, spec)
				}
			}
		}
	}
	for name, types := range embedded { // those a level down, whose members are its own
		for member := range maps.Clone(names) {
			if of, part, ok := strings.Cut(member, "."); ok && slices.Contains(types, of) {
				names[name+"."+part] = true
			}
		}
	}
	return names
}

// receiver returns "Type." for a method and "" for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	return typeName(d.Recv.List[0].Type) + "."
}

// typeName is the name of a type of the package, of a pointer to it or of one with a type as its parameter; else "?".
func typeName(kind ast.Expr) string {
	switch kind := kind.(type) {
	case *ast.StarExpr:
		return typeName(kind.X)
	case *ast.IndexExpr:
		return typeName(kind.X)
	case *ast.Ident:
		return kind.Name
	}
	return "?"
}

func declare(names map[string]bool, embedded map[string][]string, spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, id := range spec.Names {
			names[id.Name] = true
		}
	case *ast.TypeSpec:
		names[spec.Name.Name] = true
		var fields *ast.FieldList
		switch kind := spec.Type.(type) {
		case *ast.StructType:
			fields = kind.Fields
		case *ast.InterfaceType:
			fields = kind.Methods
		default:
			return
		}
		for _, f := range fields.List {
			if len(f.Names) == 0 {
				embedded[spec.Name.Name] = append(embedded[spec.Name.Name], typeName(f.Type))
			}
			for _, id := range f.Names {
				names[spec.Name.Name+"."+id.Name] = true
			}
		}
	}
}
