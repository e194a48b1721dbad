package main

import (
	"bytes"
	"embed"
	"encoding/base64"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/internal/atomicfile"
	"github.com/gatedlearning/moe/internal/wire"
	"github.com/gatedlearning/moe/sdk"
)

//go:embed plugintemplate
var pluginTemplates embed.FS

// newPluginFlags are the flags of moe plugin new.
type newPluginFlags struct {
	name string
	lang string
	sdk  string
	copy bool
	wasm bool
	// params are the parameters, each NAME=DEFAULT or NAME=DEFAULT,MIN,MAX.
	params []string
}

// moduleLanguages are those in which what is written is a WebAssembly module and no program.
var moduleLanguages = []string{"assemblyscript", "c", "rust"}

func newPluginNewCmd() *cobra.Command {
	f := new(newPluginFlags)
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Write a small project for a plugin of your own",
		Long: `new writes the directory moe-plugin-NAME with a plugin that builds and passes its
test as it is, its README saying how to build, trust, verify and use it. Put
your own function in the place of the one that is there.

--param gives it a parameter, with a default and the range that it may be in, both ends
included; without a range every finite value is taken. The function that is written adds
the parameters times z to the softsign, which shows how they arrive.

A Go plugin needs the packages of moe: a published version of them, those of the
checkout that --sdk names, where it is, or with --copy a copy of those in the project,
which others can then build wherever they have it.

In AssemblyScript, C or Rust, and with --wasm in Go, it is a WebAssembly module, which runs
wherever moe does, needs no trust and can go into a model's file (docs/modules.md).`,
		Example: "  moe plugin new softsign --sdk ../moe --copy\n  moe plugin new softsign --lang python --param " +
			"slope=0.1,0,1\n  moe plugin new softsign --lang c",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.name = args[0]
			return f.run(cmd)
		},
	}
	cmd.Flags().StringVar(&f.lang, "lang", "go", "the plugin's `LANGUAGE`: go, python, assemblyscript, c, rust")
	cmd.Flags().BoolVar(&f.wasm, "wasm", false, "with --lang go, a WebAssembly module in the place of a program")
	cmd.Flags().StringArrayVar(&f.params, "param", nil,
		"a parameter of the activation as `NAME=DEFAULT[,MIN,MAX]`; may be repeated")
	cmd.Flags().StringVar(&f.sdk, "sdk", "",
		"build against the checkout of moe at this `PATH`, not against a published version")
	cmd.Flags().BoolVar(&f.copy, "copy", false, "with --sdk, copy the packages that the plugin needs into the project")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("lang", cobra.FixedCompletions(append([]string{"go", "python"},
		moduleLanguages...), cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

// newPluginJSON is the JSON of moe plugin new.
type newPluginJSON struct {
	Directory string   `json:"directory"`
	Files     []string `json:"files"`
	Language  string   `json:"language"` // as --lang has it
}

// pluginProject is what the templates know.
type pluginProject struct {
	Name       string                // of the activation
	File       string                // of the plugin
	Params     []pluginParam         // of the activation
	SDK        string                // the path of a checkout from the project's directory, as go.mod has it, or ""
	Copied     []atomicfile.TreeFile // of the checkout, in the project
	GoMod      string                // the checkout's go.mod without its first line
	GoSum      string                // the checkout's
	Version    string                // of moe, where SDK is ""
	Descriptor string                // the protocol's, in lines of base64
}

func (f *newPluginFlags) run(cmd *cobra.Command) error {
	project, err := f.project()
	if err != nil {
		return err
	}
	files, err := project.render(f.template())
	if err != nil {
		return err
	}
	dir := "moe-plugin-" + f.name
	// Files and directory can be written by their owner alone, as moe plugin trust
	// wants it.
	if err := atomicfile.WriteTree(dir, files); err != nil {
		return err
	}
	if wantsJSON(cmd) {
		names := []string{}
		for _, file := range files {
			names = append(names, file.Name)
		}
		return printJSON(cmd, newPluginJSON{Directory: dir, Files: names, Language: f.lang})
	}
	return say(cmd, "wrote %s; its README.md says what to do next", dir)
}

func (f *newPluginFlags) project() (*pluginProject, error) {
	if f.wasm && (f.lang != "go" || f.sdk != "") {
		return nil, usagef("--wasm goes with --lang go, without --sdk: such a module is built from nothing of moe")
	}
	if f.copy && (f.sdk == "" || f.lang != "go") {
		return nil, usagef("--copy needs --sdk PATH, and a plugin in Go: it copies packages of that checkout")
	}
	if !wire.ValidName(f.name) {
		return nil, usagef("name %q: want lower case letters, digits and dashes, a letter first", f.name)
	}
	if catalog.Builtin(f.name) {
		return nil, usagef("%s is built in: choose another name", f.name)
	}
	params, err := f.parameters()
	if err != nil {
		return nil, err
	}
	p := &pluginProject{Name: f.name, File: "moe-plugin-" + f.name, Params: params}
	if f.wasm || slices.Contains(moduleLanguages, f.lang) {
		return p, nil
	}
	switch f.lang {
	case "python":
		p.Descriptor, err = descriptorText()
		return p, err
	case "go":
		return p, f.findSDK(p)
	}
	return nil, usagef("--lang %s: want go, python, assemblyscript, c or rust", f.lang)
}

// pluginParam is a parameter as the templates have it: its name, and numbers that all of the
// languages read as reals.
type pluginParam struct {
	Name, Default, Min, Max string
}

// parameters reads those of --param.
func (f *newPluginFlags) parameters() ([]pluginParam, error) {
	family := sdk.Family{Name: f.name}
	var out []pluginParam
	for _, text := range f.params {
		name, rest, ok := strings.Cut(text, "=")
		numbers := strings.Split(rest, ",")
		if !ok || len(numbers) != 1 && len(numbers) != 3 {
			return nil, usagef("--param %s: want NAME=DEFAULT or NAME=DEFAULT,MIN,MAX", text)
		}
		var v [3]float64
		for i, number := range numbers {
			var err error
			if v[i], err = strconv.ParseFloat(strings.TrimSpace(number), 64); err != nil {
				return nil, usagef("--param %s: %q is not a number", text, number)
			}
		}
		family.Params = append(family.Params, sdk.Param{Name: name, Default: v[0], Min: v[1], Max: v[2]})
		out = append(out, pluginParam{name, literal(v[0]), literal(v[1]), literal(v[2])})
	}
	if err := wire.CheckFamily(family); err != nil {
		return nil, usagef("--param: %w", err)
	}
	return out, nil
}

// literal is v as a real number in any of the languages, and in JSON.
func literal(v float64) string {
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}

// template is the directory of the project's templates.
func (f *newPluginFlags) template() string {
	if f.wasm {
		return f.lang + "-wasm"
	}
	return f.lang
}

// findSDK sets the checkout or the version that a Go plugin is built against.
func (f *newPluginFlags) findSDK(p *pluginProject) error {
	if f.sdk != "" {
		return f.findCheckout(p)
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || !published(info.Main) {
		return usagef("this moe, %s, is not a published version that a plugin could be built against: name a "+
			"checkout of its source, as in: moe plugin new %s --sdk ../moe",
			ownVersion(), f.name)
	}
	p.Version = info.Main.Version
	return nil
}

// pseudoVersion is what the go command calls a commit without a tag.
var pseudoVersion = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^v[0-9]+\.(0\.0-|[0-9]+\.[0-9]+-([^+]*\.)?0\.)[0-9]{14}-[0-9a-z]+$`)
})

// published reports whether others can get the module m, as a program's build
// has recorded it. What has a checksum was got like that. Of a checkout the go
// command says which commit it is, and whether files have changed since (+dirty),
// but not whether anybody else has it: then only a tag counts.
func published(m debug.Module) bool {
	return m.Sum != "" || strings.HasPrefix(m.Version, "v") && !strings.Contains(m.Version, "+") &&
		!pseudoVersion().MatchString(m.Version)
}

// findCheckout sets the checkout that a Go plugin is built against. The project
// replaces the module by it, and takes over what it requires: then it builds
// with the modules that moe itself is built from, and needs no others. In a
// workspace it would need every go.mod that any of them mentions.
func (f *newPluginFlags) findCheckout(p *pluginProject) error {
	mod, err := os.ReadFile(filepath.Join(f.sdk, "go.mod"))
	requires, ok := strings.CutPrefix(string(mod), "module github.com/gatedlearning/moe\n")
	if err != nil || !ok {
		return usagef("--sdk %s: that is no checkout of moe", f.sdk)
	}
	sum, err := os.ReadFile(filepath.Join(f.sdk, "go.sum"))
	if err != nil {
		return usagef("--sdk %s: that is no whole checkout of moe: %v", f.sdk, err)
	}
	checkout, err := pathFrom(p.File, f.sdk)
	if err != nil {
		return err
	}
	if !plainPath().MatchString(checkout) {
		checkout = strconv.Quote(checkout)
	}
	p.SDK, p.GoMod, p.GoSum = checkout, strings.TrimSpace(requires), string(sum)
	if !f.copy {
		return nil
	}
	p.SDK = "./" + copiedTo
	p.Copied = []atomicfile.TreeFile{
		{Name: path.Join(copiedTo, "go.mod"), Data: mod, Mode: 0o644}, {Name: path.Join(copiedTo, "go.sum"), Data: sum,
			Mode: 0o644},
	}
	files, err := packagesOf(f.sdk, "sdk", "sdk/serve", "sdk/activationtest")
	p.Copied = append(p.Copied, files...)
	return err
}

// copiedTo is where in a project the packages of moe are, with --copy.
const copiedTo = "moe"

// packagesOf returns the licence of a checkout, and the packages named with all that
// they import of it, tests apart.
func packagesOf(sdk string, names ...string) ([]atomicfile.TreeFile, error) {
	licence, err := os.ReadFile(filepath.Join(sdk, "LICENSE"))
	if err != nil {
		return nil, err
	}
	out := []atomicfile.TreeFile{{Name: path.Join(copiedTo, "LICENSE"), Data: licence, Mode: 0o644}}
	for i := 0; i < len(names); i++ { // names grows by what these import
		entries, err := os.ReadDir(filepath.Join(sdk, filepath.FromSlash(names[i])))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			isGo := strings.HasSuffix(e.Name(), ".go") && !strings.HasSuffix(e.Name(), "_test.go")
			if !isGo && !strings.HasSuffix(e.Name(), ".s") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(sdk, filepath.FromSlash(names[i]), e.Name()))
			if err != nil {
				return nil, err
			}
			out = append(out, atomicfile.TreeFile{Name: path.Join(copiedTo, names[i], e.Name()), Data: text,
				Mode: 0o644})
			if !isGo {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), e.Name(), text, parser.ImportsOnly)
			if err != nil {
				return nil, err
			}
			for _, spec := range parsed.Imports {
				name, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), "github.com/gatedlearning/moe/")
				if ours && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return out, nil
}

// plainPath is a path that needs no quotes in go.mod.
var plainPath = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[\pL\pN._~@+/:-]+$`) })

// pathFrom returns the path of target from dir, which is to be made in the
// working directory: relative, so that both can be moved together, or absolute
// where a relative one leads elsewhere, as out of a working directory that was
// reached by a symbolic link.
func pathFrom(dir, target string) (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	target, err = filepath.Abs(target)
	if err != nil {
		return "", err
	}
	if up, err := filepath.Rel(here, target); err == nil {
		a, errA := os.Stat(target)
		b, errB := os.Stat("." + string(filepath.Separator) + up)
		if errA == nil && errB == nil && os.SameFile(a, b) {
			rel, err := filepath.Rel(filepath.Join(here, dir), target)
			return filepath.ToSlash(rel), err
		}
	}
	return filepath.ToSlash(target), nil
}

// descriptorText returns the protocol's descriptor in lines of base64.
func descriptorText() (string, error) {
	raw, err := wire.Descriptor()
	if err != nil {
		return "", err
	}
	var lines []string
	for chunk := range slices.Chunk([]byte(base64.StdEncoding.EncodeToString(raw)), 76) {
		lines = append(lines, string(chunk))
	}
	return strings.Join(lines, "\n"), nil
}

// render returns the files of the project; templates that come out empty are
// left out.
func (p *pluginProject) render(lang string) ([]atomicfile.TreeFile, error) {
	dir := path.Join("plugintemplate", lang)
	entries, err := pluginTemplates.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := slices.Clone(p.Copied)
	for _, e := range entries {
		t, err := template.ParseFS(pluginTemplates, path.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		var out bytes.Buffer
		if err := t.Execute(&out, p); err != nil {
			return nil, err
		}
		file := atomicfile.TreeFile{Name: strings.TrimSuffix(e.Name(), ".tmpl"), Data: out.Bytes(), Mode: 0o644}
		switch file.Name {
		case "gitignore":
			file.Name = ".gitignore"
		case "main":
			file.Name, file.Mode = p.File, 0o755
		}
		if kind, ok := strings.CutPrefix(file.Name, "source."); ok {
			file.Name = p.Name + "." + kind
		}
		if len(file.Data) > 0 {
			files = append(files, file)
		}
	}
	return files, nil
}
