package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/benchmark"
	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/compare"
	"github.com/gatedlearning/moe/host/fitted/known"
	"github.com/gatedlearning/moe/host/network/networkfile"
	"github.com/gatedlearning/moe/host/spec"
)

var updateSchemas = flag.Bool("update", false, "write the schemas of docs/schema")

const schemaDir = "../../docs/schema"

// The commands' JSON that is a file and how long it took.
type (
	fitJSON struct {
		fitted.Model
		Seconds float64 `json:"seconds"`
	}
	vectorFitJSON struct {
		fitted.Vector
		Seconds float64 `json:"seconds"`
	}
	networkFitJSON struct {
		networkfile.Network
		Seconds float64 `json:"seconds"`
	}
	predictionsShape struct {
		Columns []string     `json:"columns"`
		Rows    [][]*float64 `json:"rows"` // null where there is no prediction
	}
)

// schemas are the types of the files and of every command's JSON.
var schemas = map[string]any{
	"model": fitted.Model{}, "vector-model": fitted.Vector{}, "network-model": networkfile.Network{}, "truth": known.Truth{},
	"validate-activation": validationJSON{}, "validate-activation-family": validationFamilyJSON{}, "sample": sampleJSON{}, "data": dataJSON{}, "explore": exploreJSON{}, "explain": explanation{}, "export": exportJSON{}, "compare": compare.Comparison{}, "fit": fitJSON{}, "fit-config": spec.Fit{}, "fit-targets": vectorFitJSON{}, "crossvalidate": crossValidation{}, "learn-activation": learnedJSON{},
	"predict": predictionsShape{}, "predict-written": writtenJSON{}, "evaluate": evaluation{}, "evaluate-targets": outputsEvaluation{}, "evaluate-network": networkEvaluation{},
	"network-sample": networkSampleJSON{}, "network-check": networkCheckJSON{}, "network-fit": networkFitJSON{},
	"diverse-gram": diverseGramJSON{}, "diverse-train": diverseTrainJSON{},
	"reproduce": reproduceJSON{}, "sweep": sweepJSON{}, "gru": gruJSON{}, "gru-learn": gruLearnJSON{}, "gru-record": gruRecordJSON{}, "man": manJSON{}, "skill": skillJSON{}, "version": versionInfo{},
	"plugin-list": pluginList{}, "plugin-trust": pluginInfo{}, "plugin-verify": verification{}, "plugin-new": newPluginJSON{},
	"bench": benchmark.Stages{}, "reproduce-scaling": scalingJSON{}, "reproduce-list": listedJSON{},
	"moments": momentsReport{}, "newton": newtonReport{}, "merge-newton": stepReport{},
}

// TestSchemas: docs/schema has the schema of every type, as its fields and their
// comments say it. What the commands write is held against it by the scripts.
func TestSchemas(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		data, err := json.MarshalIndent(schemaOf(t, name), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, '\n')
		file := filepath.Join(schemaDir, name+".json")
		if *updateSchemas {
			if err := os.WriteFile(file, data, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		there, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(there), string(data)); diff != "" {
			t.Errorf("%s (if the types are right: go test ./cmd/moe -run TestSchemas -update): %s", file, diff)
		}
		if _, err := compile(data); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		var schema any
		if err := json.Unmarshal(data, &schema); err != nil {
			t.Fatal(err)
		}
		if err := checkKeywords(schema); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	files, err := filepath.Glob(filepath.Join(schemaDir, "*.json"))
	if err != nil || len(files) != len(schemas) {
		t.Errorf("%d files for %d schemas, %v", len(files), len(schemas), err)
	}
}

// TestSchemasRefuse: a wrong type, a key that is missing and one that no schema has.
func TestSchemasRefuse(t *testing.T) {
	for _, c := range []struct {
		instance string
		want     bool
	}{
		{`{"version":"1","go":"1","os":"linux","arch":"amd64"}`, true},
		{`{"version":1,"go":"1","os":"linux","arch":"amd64"}`, false},
		{`{"version":"1","go":"1","os":"linux"}`, false},
		{`{"version":"1","go":"1","os":"linux","arch":"amd64","more":1}`, false},
	} {
		if err := valid("version", []byte(c.instance)); (err == nil) != c.want {
			t.Errorf("%s: %v", c.instance, err)
		}
	}
}

// cmdSchema holds stdout, or a file, against a schema of docs/schema, in which no key
// may be that it does not name.
func cmdSchema(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 1 || len(args) == 2, "schema NAME [FILE]")
	file := "stdout"
	if len(args) == 2 {
		file = args[1]
	}
	if err := valid(args[0], []byte(ts.ReadFile(file))); err != nil {
		ts.Fatalf("%s is not what docs/schema/%s.json says: %v", file, args[0], err)
	}
}

func valid(name string, instance []byte) error {
	data, err := os.ReadFile(filepath.Join(schemaHome, name+".json"))
	if err != nil {
		return err
	}
	var loose any
	if err := json.Unmarshal(data, &loose); err != nil {
		return err
	}
	closeObjects(loose)
	if data, err = json.Marshal(loose); err != nil {
		return err
	}
	schema, err := compile(data)
	if err != nil {
		return err
	}
	var value any
	if err := json.Unmarshal(instance, &value); err != nil {
		return err
	}
	return schema.Validate(value)
}

// schemaHome is schemaDir wherever a test's working directory is.
var schemaHome, _ = filepath.Abs(schemaDir)

// compile makes of a schema what values are held against. The library must be one that
// does little when a program starts: the moe that scripts start, a thousand times, is
// this one.
func compile(data []byte) (*jsonschema.Resolved, error) {
	schema := new(jsonschema.Schema)
	if err := json.Unmarshal(data, schema); err != nil {
		return nil, err
	}
	return schema.Resolve(nil)
}

// checkKeywords says what in a schema is none of the keywords that schemaOf writes, or
// is a type that JSON does not have: the library takes both, and nothing is refused then.
func checkKeywords(schema any) error {
	s, ok := schema.(map[string]any)
	if !ok {
		return fmt.Errorf("no schema: %v", schema)
	}
	for _, keyword := range slices.Sorted(maps.Keys(s)) {
		var inner []any
		switch v := s[keyword]; keyword {
		case "$schema", "$ref", "title", "description", "required": // the library checks what they are
		case "type":
			names, ok := v.([]any)
			if !ok {
				names = []any{v}
			}
			for _, name := range names {
				if !slices.Contains([]any{"null", "boolean", "object", "array", "number", "string", "integer"}, name) {
					return fmt.Errorf("no type of JSON: %v", name)
				}
			}
		case "properties", "$defs":
			inner = slices.Collect(maps.Values(v.(map[string]any)))
		case "anyOf":
			inner = v.([]any)
		case "items", "additionalProperties":
			inner = []any{v}
		default:
			return fmt.Errorf("an unknown keyword: %q", keyword)
		}
		for _, s := range inner {
			if err := checkKeywords(s); err != nil {
				return fmt.Errorf("%s: %w", keyword, err)
			}
		}
	}
	return nil
}

// closeObjects forbids keys that a schema does not name.
func closeObjects(schema any) {
	switch s := schema.(type) {
	case map[string]any:
		if _, ok := s["properties"].(map[string]any); ok {
			s["additionalProperties"] = false
		}
		for _, v := range s {
			closeObjects(v)
		}
	case []any:
		for _, v := range s {
			closeObjects(v)
		}
	}
}

type object = map[string]any

// schemaOf is the JSON Schema of a type that is written as JSON.
func schemaOf(t *testing.T, name string) object {
	r := &reflector{t: t, defs: object{}, types: map[string]reflect.Type{}}
	root := r.structure(reflect.TypeOf(schemas[name]))
	root["$schema"], root["title"] = "https://json-schema.org/draft/2020-12/schema", name
	if len(r.defs) > 0 {
		root["$defs"] = r.defs
	}
	return root
}

// reflector makes schemas of types. A field is null where it is a pointer, or where
// its comment says null.
type reflector struct {
	t     *testing.T
	defs  object
	types map[string]reflect.Type // by the names of their definitions
}

func orNullSchema(s object) object { return object{"anyOf": []any{s, object{"type": "null"}}} }

// of is the schema of values of a type.
func (r *reflector) of(t reflect.Type) object {
	if t == reflect.TypeFor[fitted.Sigma]() {
		return object{"anyOf": []any{object{"type": "number"}, object{"type": "array", "items": object{"type": "number"}}}}
	}
	if t == reflect.TypeFor[[]byte]() { // in base64
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return orNullSchema(r.of(t.Elem()))
	case reflect.Slice, reflect.Array:
		return object{"type": "array", "items": r.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": r.of(t.Elem())}
	case reflect.Struct:
		if t.Name() == "" {
			return r.structure(t)
		}
		if r.types[t.Name()] != nil && r.types[t.Name()] != t {
			r.t.Fatalf("two types of the name %s in one schema", t.Name())
		}
		r.types[t.Name()] = t
		if _, ok := r.defs[t.Name()]; !ok {
			r.defs[t.Name()] = object{}
			r.defs[t.Name()] = r.structure(t)
		}
		return object{"$ref": "#/$defs/" + t.Name()}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Uint32:
		return object{"type": "integer"}
	}
	r.t.Fatalf("no schema for %v", t)
	return nil
}

// structure is the schema of a struct, embedded ones taken apart as encoding/json
// does.
func (r *reflector) structure(t reflect.Type) object {
	properties, required := object{}, []string{}
	r.fields(t, properties, &required, true)
	slices.Sort(required)
	return object{"type": "object", "properties": properties, "required": required}
}

func (r *reflector) fields(t reflect.Type, properties object, required *[]string, certain bool) {
	comments := commentsOf(r.t, t)
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && tag == "" {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			// A nil pointer has no keys.
			r.fields(inner, properties, required, certain && f.Type.Kind() != reflect.Pointer)
			continue
		}
		if !f.IsExported() || tag == "-" || tag == "" {
			continue
		}
		s := r.of(f.Type)
		comment := comments[f.Name]
		optional := strings.Contains(f.Tag.Get("json"), ",omit")
		switch {
		case optional && f.Type.Kind() == reflect.Pointer:
			s = r.of(f.Type.Elem()) // absent, not null
		case f.Type.Kind() != reflect.Pointer && strings.Contains(strings.ToLower(comment), "null"):
			s = orNullSchema(s)
		}
		if nulls := nullEntries[t.Name()+"."+f.Name]; nulls != nil {
			s = nulls
		}
		if comment != "" {
			s["description"] = comment
		}
		properties[tag] = s
		if certain && !optional {
			*required = append(*required, tag)
		}
	}
}

// nullEntries are fields that a MarshalJSON writes in another way than their type's.
var nullEntries = func() map[string]object {
	number := func() object { return object{"type": []any{"number", "null"}} }
	list := func(of object) object { return object{"type": "array", "items": of} }
	levels := func() object { return object{"anyOf": []any{number(), list(number())}} }
	return map[string]object{
		"Start.LogLikelihood":                number(),
		"StandardErrors.Regressors":          list(list(number())),
		"StandardErrors.Gating":              list(list(number())),
		"StandardErrors.RegressorIntercepts": orNullSchema(list(number())),
		"StandardErrors.GatingIntercepts":    orNullSchema(list(number())),
		"StandardErrors.Sigma":               levels(),
		"StandardErrors.SigmaCorrected":      levels(),
		"StandardErrors.DispersionCorrected": levels(),
		"StandardErrors.SigmaInterval":       orNullSchema(list(list(number()))),
		"StandardErrors.Own":                 {"type": "object", "additionalProperties": levels()},
	}
}()

// commentsOf returns the comments of a named struct's fields by their names.
func commentsOf(t *testing.T, s reflect.Type) map[string]string {
	path, ours := strings.CutPrefix(s.PkgPath(), "github.com/gatedlearning/moe/")
	if !ours || s.Name() == "" {
		return nil
	}
	of, ok := comments[path]
	if !ok {
		of = commentsIn(t, path)
		comments[path] = of
	}
	return of[s.Name()]
}

// comments are what commentsIn has returned, by package.
var comments = map[string]map[string]map[string]string{}

// commentsIn returns the comments in a package on the fields of structs, by the names of both.
func commentsIn(t *testing.T, path string) map[string]map[string]string {
	files, err := filepath.Glob(filepath.Join("../..", path, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]string{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if fields, ok := spec.Type.(*ast.StructType); ok {
				of := out[spec.Name.Name]
				if of == nil {
					of = map[string]string{}
					out[spec.Name.Name] = of
				}
				for _, f := range fields.Fields.List {
					for _, name := range f.Names {
						of[name.Name] = strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " ")
					}
				}
			}
			return true
		})
	}
	return out
}
