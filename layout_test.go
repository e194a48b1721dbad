package moe_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

const module = "github.com/gatedlearning/moe"

// imports says which packages each package may import directly, the standard
// library apart: paths inside the module, or outside it a path with everything
// below it. Tests may import what they like, and so may the mains of the
// plugins that ship with the project, which are what others will write.
var imports = map[string][]string{
	"sdk":                        {"sdk/gauss", "internal/kernel"},
	"sdk/gauss":                  {"internal/kernel", gonum},
	"sdk/serve":                  {"sdk", "internal/wire", goPlugin, hclog},
	"sdk/activationtest":         {"sdk", "internal/conform", "internal/wire"},
	"internal/wire":              {"sdk", "internal/numeric", "internal/wire/activationpb", goPlugin, grpc, protobuf},
	"internal/wire/activationpb": {grpc, protobuf},
	"internal/claims":            {"sdk", "sdk/gauss", "solver", "internal/numeric"},
	"internal/conform":           {"sdk", "internal/claims", "internal/numeric", "internal/setting", "internal/stream", "internal/wire"},
	"internal/atomicfile":        {"golang.org/x/sys"},
	"internal/digits":            {},
	"internal/kernel":            {"golang.org/x/sys"},
	"internal/memory":            {},
	"internal/badfile":           {},
	"internal/envelope":          {},
	"internal/npy":               {"internal/badfile"},
	"internal/numeric":           {gonum},
	"internal/registry":          {},
	"internal/setting":           {},
	"internal/shown":             {},
	"internal/spotcheck":         {"sdk", "internal/numeric"},
	"internal/stream":            {},
	"internal/strictjson":        {},
	"internal/suggest":           {},
	"internal/textfile":          {},
	"internal/tablefile":         {},
	"internal/designtest":        {gonum},
	"internal/testheap":          {},
	"internal/testslow":          {},
	"internal/sandbox":           {"golang.org/x/sys"},
	"internal/wasm":              {"sdk", "internal/numeric", "internal/pluginproc", "internal/setting", "internal/spotcheck", "internal/wire", wazero},
	"internal/pluginproc":        {"sdk", "internal/numeric", "internal/sandbox", "internal/setting", "internal/spotcheck", "internal/wire", goPlugin, hclog, grpc, "golang.org/x/sys"},

	"internal/pluginproc/plugintest": {"golang.org/x/sys"},

	"plugins/exp":       {"sdk", "sdk/gauss"},
	"plugins/identity":  {"sdk", "sdk/gauss"},
	"plugins/leakyrelu": {"sdk", "sdk/gauss"},
	"plugins/probit":    {"sdk", "sdk/gauss"},
	"plugins/relu":      {"sdk", "sdk/gauss"},
	"plugins/sigmoid":   {"sdk", "sdk/gauss"},
	"plugins/softplus":  {"sdk", "sdk/gauss"},
	"plugins/tanh":      {"sdk"},

	"solver": {"sdk", "sdk/gauss", "solver/properties", "internal/stream", gonum},

	// What theorems beside those of the transforms ask of an activation.
	"solver/properties": {"sdk", "sdk/gauss", gonum},

	// An expression is an activation like any other; its tanh and sigmoid are those of the
	// built-ins, to the bit.
	"expression": {"sdk", "internal/kernel", "internal/suggest", "plugins/sigmoid", "plugins/tanh"},

	// A curve through points is another.
	"table": {"sdk", "sdk/gauss"},

	"host/model":         {"internal/kernel", gonum},
	"host/mixture":       {"internal/kernel", "internal/registry", "host/model", gonum},
	"host/mixture/joint": {"internal/kernel", "internal/registry", "host/model", "host/mixture", gonum},

	"host/gaussians": {"internal/numeric", gonum},

	"host/scaling": {},

	// What tests register.
	"host/mixture/mixturetest": {"host/mixture", "host/mixture/joint", "host/model", gonum},

	"host/optim":       {"internal/numeric", gonum},
	"host/recheck":     {"internal/digits", "host/model"},
	"host/metric":      {"host/model", gonum},
	"host/tensor":      {"internal/kernel", "solver", "host/model", "internal/memory", "internal/numeric", gonum},
	"host/dataset":     {"host/model", "host/scaling", "internal/atomicfile", "internal/badfile", "internal/kernel", "internal/memory", "internal/npy", "internal/numeric", "internal/setting", "internal/tablefile", gonum, "github.com/klauspost/compress"},
	"host/dataset/npz": {"host/model", "host/dataset", "internal/badfile", "internal/npy"},
	"host/dataset/parquet": {"host/model", "host/dataset", "internal/atomicfile", "internal/badfile", "github.com/parquet-go/parquet-go",
		"github.com/andybalholm/brotli", "github.com/klauspost/compress", "github.com/pierrec/lz4/v4"},
	"host/gru":     {"host/model", "internal/npy", "internal/strictjson", "internal/numeric", "internal/setting", "internal/stream", gonum},
	"host/explore": {"host/model", "host/dataset"},
	"host/sample":  {"host/model", "host/mixture", "host/mixture/joint", "host/dataset", "internal/memory", "internal/numeric", "internal/stream", gonum},
	"host/terms":   {"host/model", "host/scaling", "host/dataset", "internal/numeric", "internal/setting"},
	"host/loss":    {"internal/kernel", "host/model", "host/mixture", "host/mixture/joint", "host/loss/constraint", "host/loss/gram", "host/loss/shrinkage", "internal/numeric", gonum},
	"host/infer":   {"host/model", "host/mixture", "host/mixture/joint", "host/loss", "host/infer/leaveoneout", "host/infer/sandwich", "internal/numeric", gonum},
	"host/native":  {"sdk", "host/model", "internal/kernel", "internal/numeric", gonum},
	"host/fitted":  {"host/model", "host/mixture", "host/mixture/joint", "host/dataset", "host/fitted/check", "host/fitted/jsonfile", "host/fitted/progress", "host/fitted/stated", "host/infer", "host/native", "host/scaling", "host/terms", "internal/atomicfile", "internal/numeric", gonum},
	// Below the fitted model: its file as JSON, what may stand in it, activations, and how far passes have come.
	"host/fitted/check":    {"internal/numeric"},
	"host/fitted/jsonfile": {"internal/atomicfile", "host/dataset", "internal/strictjson", "internal/textfile"},
	"host/fitted/progress": {"internal/numeric", "host/fitted/check"},
	"host/fitted/stated":   {"sdk", "expression", "table", "internal/claims", "internal/numeric", "host/dataset"},

	// What tests of readers of files share.
	"host/fitted/fittedtest": {"host/dataset", "host/model"},

	// What is said of fitted models: two of them beside each other, what a certificate suggests, and how far they
	// are from what is known before.
	"host/fitted/advice":  {"host/dataset", "host/fitted", "host/infer", "host/model", "host/terms"},
	"host/fitted/compare": {"host/fitted/progress", "host/dataset", "host/fitted", "host/fitted/stated", "host/metric", "host/mixture", "host/model", gonum},
	"host/fitted/known":   {"internal/atomicfile", "host/dataset", "host/fitted", "host/fitted/check", "host/fitted/jsonfile", "host/fitted/stated", "host/metric", "host/model"},

	"host/predict": {"sdk", "host/model", "host/mixture", "host/loss", "host/scaling", "host/dataset", "host/native", "host/fitted", "host/fitted/stated", "internal/numeric", gonum},
	"host/export":  {"expression", "table", "host/model", "host/mixture", "host/dataset", "host/fitted", "host/fitted/stated", "host/native", "host/scaling", "host/terms", "internal/setting", protobuf},
	"host/figures": {"solver", "host/experiment", "internal/shown", gonum, gonumPlot},
	"host/problem": {"sdk", "internal/claims", "internal/kernel", "internal/memory", "host/model", "host/mixture", "host/dataset", "host/explore", "host/tensor", "host/loss", "host/native", gonum},
	"host/moment":  {"sdk", "solver", "host/gaussians", "host/mixture", "host/model", "host/optim", "host/tensor", "host/problem", "internal/numeric", "internal/stream", gonum},
	"host/search":  {"host/model", "host/mixture", "host/mixture/joint", "host/optim", "host/dataset", "host/loss", "host/loss/kink", "host/infer", "host/infer/specification", "host/problem", "host/moment", "host/search/climb", "host/search/partition", "host/search/separation", "host/search/splitmerge", "host/search/starts", "internal/stream", gonum},

	// Where a likelihood has kinks.
	"host/loss/kink": {"host/model", "host/mixture", "host/loss", "host/optim"},

	// Sums over a block's rows that know of no mixture.
	"host/loss/gram": {"internal/kernel", "host/model", "internal/numeric", gonum},

	// What holds a vector of parameters, whatever they are of, and what draws them to 0.
	"host/loss/constraint": {gonum},
	"host/loss/shrinkage":  {gonum},

	// Mixtures and rows for tests.
	"host/loss/losstest": {"host/model"},

	// Losses that are descended by mini-batches.
	"host/loss/minibatch": {"internal/kernel", "solver", "host/model", "host/mixture", gonum},

	// What is made of the rows' scores, and of their posteriors, alone.
	"host/infer/leaveoneout": {"internal/kernel", "internal/numeric", "host/model", "host/mixture", "host/loss", gonum},
	"host/infer/sandwich":    {"internal/kernel", "internal/numeric", "host/model", "host/loss", gonum},

	// What is asked of a fitted mixture beside how sure its parameters are.
	"host/infer/gain":          {"host/model", "host/mixture", "host/loss", gonum},
	"host/infer/specification": {"internal/kernel", "internal/numeric", "internal/stream", "host/model", "host/mixture", "host/mixture/joint", "host/loss", "host/infer", gonum},

	// Sums over parts, and the files that they travel in.
	"host/shard":        {"sdk", "internal/numeric", "host/model", "host/dataset", "host/tensor", "host/fitted", "host/fitted/progress", "host/fitted/stated", "host/mixture", "host/problem", "host/moment", "host/shard/sealed"},
	"host/shard/newton": {"sdk", "internal/numeric", "internal/textfile", "host/model", "host/dataset", "host/fitted", "host/fitted/advice", "host/fitted/progress", "host/loss", "host/infer", "host/infer/specification", "host/loss/kink", "host/mixture", "host/optim", "host/problem", "host/recheck", "host/shard", "host/shard/sealed", "host/tensor", gonum},
	"host/shard/sealed": {"host/dataset", "internal/atomicfile", "internal/memory", "internal/numeric", "internal/textfile"},

	// What tests of these are made of.
	"host/shard/shardtest": {"sdk", "host/dataset", "host/model", "host/sample", "host/shard", "plugins/sigmoid", gonum},

	// What people read.
	"host/report":           {"host/model", "host/network/networkfile", "host/mixture", "host/metric", "host/infer", "host/fitted", "host/fitted/compare", "host/fitted/stated", "host/report/numeral", "internal/shown", gonum},
	"host/report/diagnosis": {"host/model", "host/network/networkfile", "host/mixture", "host/dataset", "host/fitted", "host/predict", "host/report", "internal/numeric", gonum},
	"host/report/page":      {"host/learn", "host/model", "host/network/networkfile", "host/mixture", "host/infer", "host/fitted", "host/report", "host/report/diagnosis", "host/report/numeral", "internal/numeric", "internal/shown", gonum},
	"host/report/numeral":   {},
	"host/report/verdict":   {"solver", "solver/properties", "host/network", "host/model", "internal/shown"},

	// What the search imports knows nothing of it.
	"host/search/arrange":    {"internal/kernel", "internal/numeric", "host/model", "host/mixture", "host/optim", "host/problem", gonum},
	"host/search/climb":      {"host/loss/shrinkage", "host/optim"},
	"host/search/partition":  {"host/model", "host/problem", gonum},
	"host/search/separation": {"host/model", "host/mixture", "host/problem", gonum},
	"host/search/splitmerge": {"host/model", "host/mixture", "host/loss", "host/optim", "host/problem", "host/search/arrange", "host/search/climb", gonum},
	"host/search/starts":     {"host/model", "host/moment", "host/loss", "host/optim", "host/problem", "host/search/climb", "host/search/partition", "host/search/splitmerge", "internal/stream", gonum},

	// What goes on from what it has found is handed to it, and what it begins with beside its own starts.
	"host/search/hardgate": {"host/search", "host/search/climb", "host/search/separation", "internal/stream"},
	"host/search/narrower": {"host/model", "host/moment", "host/loss", "host/search", "host/search/starts", "host/search/survey", "host/search/tree", "internal/stream"},
	"host/search/penalty":  {"host/model", "host/loss", "host/loss/shrinkage", "host/infer", "host/optim", "host/problem", "host/search/climb", "internal/stream", gonum},
	"host/search/rare":     {"host/model", "host/mixture", "host/loss", "host/problem", "host/search", "host/search/climb", "host/search/survey", "internal/stream", gonum},
	"host/search/survey":   {"host/model", "host/mixture", "host/moment", "host/optim", "host/problem", "host/search", "host/search/climb", "host/search/partition", "host/search/starts", "internal/stream", gonum},
	"host/search/tree":     {"host/model", "host/loss", "host/moment", "host/optim", "host/problem", "host/search", "host/search/arrange", "host/search/climb", "host/search/splitmerge", "host/search/starts", "internal/stream"},
	"host/search/vacancy":  {"host/model", "host/mixture", "host/infer", "host/loss", "host/optim", "host/problem", "host/search", "host/search/climb", "host/search/hardgate", "host/search/partition", "host/search/splitmerge", "host/search/starts", "host/search/survey", "internal/kernel", "internal/numeric", "internal/stream", gonum},
	"host/search/steps":    {"host/search", "host/search/hardgate", "host/search/narrower", "host/search/rare", "host/search/survey", "host/search/tree", "host/search/vacancy"},

	// What tests of the search and its steps are made of.
	"host/search/searchtest": {"sdk", "host/dataset", "host/loss", "host/model", "host/moment", "host/optim", "host/problem", "host/sample", "host/search/climb", "plugins/identity", "plugins/leakyrelu", "plugins/relu", "plugins/sigmoid", "plugins/tanh", gonum},

	"host/descent": {"host/model", "host/optim", "host/metric", "host/loss", "host/loss/minibatch", "host/problem", "host/moment", "host/search", "host/search/climb", "host/search/starts", "internal/stream", gonum},

	// What a method has found is written down, and told.
	"host/result":        {"internal/numeric", "internal/shown", "internal/stream", "host/dataset", "host/descent", "host/fitted", "host/fitted/advice", "host/fitted/known", "host/fitted/stated", "host/infer", "host/infer/gain", "host/infer/leaveoneout", "host/loss", "host/metric", "host/mixture", "host/mixture/joint", "host/model", "host/moment", "host/optim", "host/predict", "host/problem", "host/recheck", "host/result/warn", "host/search", "host/search/climb", "host/search/penalty", "host/search/separation", "host/shard/newton", "host/terms", gonum},
	"host/result/remedy": {"host/fitted", "host/infer", "host/infer/specification", "host/loss", "host/mixture", "host/model", "host/problem", "host/search/climb"},
	"host/result/warn":   {"host/explore", "host/fitted", "host/infer", "host/loss", "host/model", "host/predict", "host/problem", "host/search", "host/search/vacancy"},

	// Of several fits one is chosen.
	"host/criterion":       {"host/fitted", "host/loss", "host/model", "host/predict", "host/problem"},
	"host/atleast":         {"sdk", "internal/numeric", "internal/stream", "host/dataset", "host/fitted", "host/loss", "host/model", gonum},
	"host/checkpoint":      {"internal/claims", "internal/envelope", "internal/numeric", "host/fitted", "host/model", "host/optim", "host/problem", "host/search"},
	"host/crossvalidation": {"sdk", "internal/numeric", "host/criterion", "host/dataset", "host/fitted", "host/loss", "host/loss/gram", "host/mixture", "host/model", "host/predict", "host/problem", "host/search/penalty", gonum},

	"host":                     {"sdk", "internal/claims", "internal/stream", "host/atleast", "host/checkpoint", "host/criterion", "host/crossvalidation", "host/dataset", "host/descent", "host/fitted", "host/fitted/stated", "host/infer", "host/loss", "host/mixture", "host/mixture/joint", "host/model", "host/moment", "host/optim", "host/predict", "host/problem", "host/recheck", "host/result", "host/result/remedy", "host/search", "host/search/climb", "host/search/starts", "host/search/steps", "host/search/vacancy", "host/shard", "host/terms"},
	"host/network":             {"sdk", "sdk/gauss", "solver/properties", "internal/numeric", "host/model", "host/native", "host/optim", "host/tensor", "host/metric", "host/dataset", "host/infer", "host/infer/specification", "host/problem", "host/recheck", "internal/stream", gonum},
	"host/network/networkfile": {"internal/atomicfile", "internal/numeric", "host/dataset", "host/fitted", "host/fitted/check", "host/fitted/jsonfile", "host/fitted/stated", "host/model", "host/native", gonum},
	"host/diverse":             {"sdk/gauss", "host/model", "host/optim", "host/network", "internal/stream", gonum},
	"host/catalog": {"sdk", "expression", "table", "internal/claims", "internal/pluginproc", "internal/sandbox", "internal/setting", "internal/shown", "internal/spotcheck", "internal/suggest", "internal/wasm", "internal/wire", "internal/atomicfile",
		"plugins/exp", "plugins/identity", "plugins/leakyrelu", "plugins/probit", "plugins/relu", "plugins/sigmoid", "plugins/softplus", "plugins/tanh", "golang.org/x/sys"},

	"host/experiment": {"sdk", "sdk/gauss", "solver", "solver/properties", "host/network", "host/diverse", "host/model", "host/mixture", "host/problem", "host/moment", "host/search", "host/search/climb", "host/search/starts", "host/search/steps", "host/optim", "host/metric", "host/tensor",
		"host/dataset", "host/sample", "host/loss", "host/loss/minibatch", "host/fitted", "host/catalog", "host/gru", "host/gru/states", "host/infer/gain", "examples", "internal/atomicfile", "internal/stream", gonum},

	// A fit is described, for the command and for other programs.
	"host/spec": {"sdk", "host", "host/crossvalidation", "host/dataset", "host/descent", "host/fitted", "host/mixture/joint", "host/model", "host/optim", "host/scaling", "host/shard", "host/terms", "internal/setting", "internal/strictjson", "internal/suggest"},

	// A recurrent layer is learned unit by unit, each a fit.
	"host/gru/states": {"sdk", "host", "host/catalog", "host/checkpoint", "host/dataset", "host/fitted", "host/gru", "host/infer", "host/model", "internal/envelope", "internal/numeric", gonum},

	// A curve is learned with the mixture, from starts that are fits.
	"host/learn/learntest": {"sdk", "expression", "host/dataset", "host/learn", "host/metric", "host/sample"},
	"host/learn":           {"expression", "table", "host", "host/model", "host/mixture", "host/dataset", "host/fitted", "internal/stream", gonum},

	"host/sweep": {"sdk", "host", "host/model", "host/dataset", "host/sample", "host/fitted", "host/fitted/stated", "host/predict", "host/experiment", gonum},

	// Whole fits are measured, and the stages of one.
	"host/benchmark": {"sdk", "host", "host/model", "host/dataset", "host/sample", "host/loss", "host/tensor", "host/infer/specification", "internal/kernel", gonum},

	"docs/schema": {},
	"examples":    {},
	"cmd/moe": {"docs/schema", "sdk", "sdk/gauss", "examples", "expression", "table", "solver", "solver/properties", "host", "host/catalog", "host/checkpoint", "host/crossvalidation", "host/dataset", "host/dataset/npz", "host/dataset/parquet", "host/terms", "host/descent", "host/diverse", "host/optim", "host/fitted", "host/fitted/compare", "host/fitted/jsonfile", "host/fitted/known", "host/fitted/stated", "host/gru", "host/gru/states", "host/learn", "host/predict", "host/infer", "host/metric", "host/mixture", "host/model", "host/native", "host/network", "host/network/networkfile",
		"host/experiment", "host/explore", "host/export", "host/figures", "host/report", "host/report/diagnosis", "host/report/numeral", "host/report/page", "host/report/verdict", "host/sample", "host/shard", "host/shard/newton", "host/benchmark", "host/spec", "host/sweep", "internal/atomicfile", "internal/memory", "internal/setting", "internal/shown", "internal/suggest", "internal/tablefile", "internal/textfile", "internal/conform", "internal/wire",
		"github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/vbauerster/mpb", "golang.org/x/sys"},
}

const (
	gonum     = "gonum.org/v1/gonum"
	gonumPlot = "gonum.org/v1/plot"
	goPlugin  = "github.com/hashicorp/go-plugin"
	hclog     = "github.com/hashicorp/go-hclog"
	grpc      = "google.golang.org/grpc"
	protobuf  = "google.golang.org/protobuf"
	wazero    = "github.com/tetratelabs/wazero"
)

// onlyIn says of packages which packages alone may import them, wherever the
// table above allows more: a package outside the module, or of the standard
// library, with everything below it.
var onlyIn = map[string][]string{
	gonum + "/integrate": {"sdk/gauss"},                                                          // quadrature has one home
	goPlugin:             {"internal/wire", "sdk/serve", "internal/pluginproc"},                  // the protocol stays
	grpc:                 {"internal/wire", "internal/wire/activationpb", "internal/pluginproc"}, // behind them
	wazero:               {"internal/wasm"},                                                      // modules run in one place
	"os/exec":            {"internal/pluginproc", "internal/pluginproc/plugintest"},              // nothing else starts a process
	"net":                {"internal/wire", "internal/pluginproc/plugintest"},                    // or opens a connection
}

// forbidden says what is wrong with a package's import of another, or "".
func forbidden(from, to string) string {
	for target, homes := range onlyIn {
		if within(to, target) && !slices.Contains(homes, from) {
			return "only " + strings.Join(homes, ", ") + " may import it"
		}
	}
	inside, ours := strings.CutPrefix(to, module+"/")
	first, _, _ := strings.Cut(to, "/")
	switch allowed := imports[from]; {
	case ours && !slices.Contains(allowed, inside):
		return "not in the table of layout_test.go"
	case !ours && strings.Contains(first, ".") && !slices.ContainsFunc(allowed, func(p string) bool { return within(to, p) }):
		return "not in the table of layout_test.go"
	}
	return ""
}

func within(path, prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") }

// TestImports holds every file of the module, of any system, against the table.
func TestImports(t *testing.T) {
	packages := importsByPackage(t)
	for _, from := range slices.Sorted(maps.Keys(packages)) {
		if _, ok := imports[from]; !ok {
			t.Errorf("package %s is not in the table of layout_test.go: say there what it may import", from)
			continue
		}
		for _, to := range packages[from] {
			if why := forbidden(from, to); why != "" {
				t.Errorf("%s imports %s: %s", from, to, why)
			}
		}
	}
}

// TestReachable: what a package must do without it does not get by way of another either:
// nothing internal knows host, a program that prints a fit's table has no pages,
// pictures, experiments or processes in it, and a search knows none of the steps that are handed to it.
func TestReachable(t *testing.T) {
	packages := importsByPackage(t)
	reached := func(from string) map[string]bool {
		seen, todo := map[string]bool{}, []string{from}
		for len(todo) > 0 {
			at := todo[0]
			todo = todo[1:]
			for _, to := range packages[at] {
				inside, ours := strings.CutPrefix(to, module+"/")
				if ours && !seen[inside] {
					todo = append(todo, inside)
				}
				if !ours {
					inside = to
				}
				seen[inside] = true
			}
		}
		return seen
	}
	for _, from := range slices.Sorted(maps.Keys(packages)) {
		without := map[string][]string{
			"host/report":            {"host/predict", "host/learn", "host/experiment", "host/catalog", "host/figures", "internal/pluginproc", "html/template", gonumPlot, grpc, "github.com/parquet-go"},
			"host/report/page":       {"host/experiment", "host/catalog", "host/figures", "internal/pluginproc", gonumPlot, grpc, "github.com/parquet-go"},
			"host/search":            {"host/search/hardgate", "host/search/narrower", "host/search/penalty", "host/search/rare", "host/search/survey", "host/search/tree", "host/search/vacancy", "host/search/steps"},
			"host/search/arrange":    {"host/search"},
			"host/search/climb":      {"host/problem"},
			"host/search/partition":  {"host/search"},
			"host/search/separation": {"host/search"},
			"host":                   {"host/experiment", "host/catalog", "host/report", "host/figures", "internal/pluginproc", gonumPlot, grpc},
		}[from]
		if within(from, "internal") {
			without = append(without, "host")
		}
		for to := range reached(from) {
			for _, wrong := range without {
				if within(to, wrong) {
					t.Errorf("%s reaches %s", from, to)
				}
			}
		}
	}
}

// TestNotLinked: what computes before main, or is large, and is of no use to the command, does not come back by way of
// another module.
func TestNotLinked(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./cmd/moe").Output()
	if err != nil {
		t.Fatal(err)
	}
	linked := strings.Fields(string(out))
	if !slices.Contains(linked, module+"/cmd/moe") {
		t.Fatalf("go list -deps names %d packages without the command itself", len(linked))
	}
	for _, without := range []string{
		"github.com/spf13/cobra/doc", "github.com/russross/blackfriday", "go.yaml.in/yaml", // manual pages are written directly
	} {
		for _, p := range linked {
			if within(p, without) {
				t.Errorf("cmd/moe links %s", p)
			}
		}
	}
}

// TestForbidden: what the rules are there to prevent, they do.
func TestForbidden(t *testing.T) {
	for _, c := range []struct {
		from, to string
		ok       bool
	}{
		{"host/catalog", module + "/plugins/relu", true},
		{"host", module + "/plugins/relu", false},
		{"cmd/moe", module + "/plugins/relu", false},
		{"host/loss", module + "/sdk", false},
		{"host/model", module + "/host/dataset", false},
		{"host/model", "gonum.org/v1/gonum/floats", true},
		{"host/model", "gonum.org/v1/plot", false},
		{"solver", "gonum.org/v1/gonum/integrate/quad", false},
		{"sdk/gauss", "gonum.org/v1/gonum/integrate/quad", true},
		{"host", "google.golang.org/grpc/codes", false},
		{"internal/wire", "google.golang.org/grpc/codes", true},
		{"host/fitted", "os/exec", false},
		{"host/catalog", "os/exec", false},
		{"host/catalog", "google.golang.org/grpc", false},
		{"internal/pluginproc", "os/exec", true},
		{"internal/pluginproc", module + "/host/catalog", false},
		{"host/fitted", "net/http", false},
		{"host/fitted", "encoding/json", true},
		{"host/fitted", "example.com/other", false},
	} {
		if why := forbidden(c.from, c.to); (why == "") != c.ok {
			t.Errorf("%s imports %s: %q, want allowed = %v", c.from, c.to, why, c.ok)
		}
	}
}

// eachSource calls do for every file of Go of the module, without tests, by its path with slashes.
func eachSource(t *testing.T, do func(file string) error) {
	t.Helper()
	err := filepath.WalkDir(".", func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file = filepath.ToSlash(file)
		if e.IsDir() && (notOurs(e.Name()) || isModule(file)) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		return do(file)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// importsByPackage reads the imports of every package's files, tests and mains
// of plugins apart.
func importsByPackage(t *testing.T) map[string][]string {
	t.Helper()
	packages := make(map[string][]string)
	eachSource(t, func(file string) error {
		dir := path.Dir(file)
		if strings.HasPrefix(path.Base(dir), "moe-plugin-") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		if packages[dir] == nil {
			packages[dir] = []string{}
		}
		for _, spec := range parsed.Imports {
			to, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			packages[dir] = append(packages[dir], to)
		}
		return nil
	})
	for dir, list := range packages {
		slices.Sort(list)
		packages[dir] = slices.Compact(list)
	}
	return packages
}

// notOurs says whether the go command ignores a directory.
func notOurs(name string) bool {
	return name == "testdata" || name != "." && strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}

// isModule says whether a directory below the root is a module of its own.
func isModule(dir string) bool {
	if dir == "." {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// TestAcyclic: the table itself has no circle, and only what stands above the
// fit, as what runs many whole fits does, imports it.
func TestAcyclic(t *testing.T) {
	above := []string{"host/spec", "host/sweep", "host/benchmark", "host/learn", "host/gru/states"}
	var path []string
	done := map[string]bool{}
	var visit func(p string)
	visit = func(p string) {
		if i := slices.Index(path, p); i >= 0 {
			t.Fatalf("a circle: %s", strings.Join(append(path[i:], p), " → "))
		}
		if done[p] {
			return
		}
		path = append(path, p)
		for _, to := range imports[p] {
			visit(to)
		}
		path = path[:len(path)-1]
		done[p] = true
	}
	for _, p := range slices.Sorted(maps.Keys(imports)) {
		visit(p)
		if slices.Contains(imports[p], "host") && strings.HasPrefix(p, "host/") && !slices.Contains(above, p) {
			t.Errorf("%s may import host, which stands above it", p)
		}
	}
}

// TestDrawing: in docs/architecture.svg no package may import one of a layer above it, and there is each.
func TestDrawing(t *testing.T) {
	drawing, err := os.ReadFile("docs/architecture.svg")
	if err != nil {
		t.Fatal(err)
	}
	layer := map[string]int{}
	for n, group := range strings.Split(string(drawing), `<g class="layer">`)[1:] {
		group, _, _ = strings.Cut(group, "</g>")
		for _, m := range regexp.MustCompile(`text-anchor="middle">([^<]+)<`).FindAllStringSubmatch(group, -1) {
			if layer[m[1]] = n; imports[m[1]] == nil {
				t.Errorf("docs/architecture.svg: there is no package %s", m[1])
			}
		}
	}
	if len(layer) < 30 {
		t.Fatalf("docs/architecture.svg has %d packages in layers: is this test blind?", len(layer))
	}
	for p, n := range layer {
		for _, to := range imports[p] {
			if above, drawn := layer[to]; drawn && above < n {
				t.Errorf("docs/architecture.svg: %s may import %s, which stands above it", p, to)
			}
		}
	}
}

// TestFitHasNoCircle: of package host the files of a fit, of a range and of the methods refer to each other without a
// circle. A name is that of the file that declares it; of methods those count whose name one type of the package has.
func TestFitHasNoCircle(t *testing.T) {
	files := []string{"fit.go", "range.go", "auto.go", "em.go", "l2.go", "l4.go", "moments.go", "spectral.go"}
	parsed, declares := map[string]*ast.File{}, map[string][]string{} // by name, of a method behind a point
	eachSource(t, func(file string) error {
		if path.Dir(file) != "host" {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			return err
		}
		base := path.Base(file)
		parsed[base] = f
		for name := range f.Scope.Objects {
			declares[name] = append(declares[name], base)
		}
		for _, d := range f.Decls {
			if m, ok := d.(*ast.FuncDecl); ok && m.Recv != nil {
				declares["."+m.Name.Name] = append(declares["."+m.Name.Name], base)
			}
		}
		return nil
	})
	to := map[string]map[string]string{} // of a file the others, and a name of each
	for _, file := range files {
		to[file] = map[string]string{}
		refer := func(name string) {
			if in := declares[name]; len(in) == 1 && in[0] != file && slices.Contains(files, in[0]) {
				to[file][in[0]] = name
			}
		}
		f := parsed[file]
		if f == nil {
			t.Fatalf("there is no host/%s", file)
		}
		for _, id := range f.Unresolved {
			refer(id.Name)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				refer("." + s.Sel.Name)
			}
			return true
		})
	}
	if to["range.go"]["fit.go"] == "" || to["range.go"]["auto.go"] == "" {
		t.Error("range.go refers to no name of fit.go or auto.go: is this test blind?")
	}
	var visit func(path []string, file string)
	visit = func(path []string, file string) {
		if i := slices.Index(path, file); i >= 0 {
			circle := append(path[i:], file)
			for j := 1; j < len(circle); j++ {
				t.Errorf("a circle: %s refers to %s of %s", circle[j-1], to[circle[j-1]][circle[j]], circle[j])
			}
			t.FailNow()
		}
		for _, next := range slices.Sorted(maps.Keys(to[file])) {
			visit(append(slices.Clone(path), file), next)
		}
	}
	for _, file := range files {
		visit(nil, file)
	}
}

// TestMethodsStandTogether: the methods of a type are in three files at most. A
// type with more has become a place to keep things in.
func TestMethodsStandTogether(t *testing.T) {
	const most = 3
	files := map[string]map[string]bool{} // by package and type
	eachSource(t, func(file string) error {
		if strings.HasSuffix(file, ".pb.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			name := path.Dir(file) + "." + receiver(f)
			if files[name] == nil {
				files[name] = map[string]bool{}
			}
			files[name][withoutSystem(path.Base(file))] = true
		}
		return nil
	})
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if in := slices.Sorted(maps.Keys(files[name])); len(in) > most {
			t.Errorf("%s has methods in %d files: %s", name, len(in), strings.Join(in, ", "))
		}
	}
}

// TestColumns: no line of code without tests is longer than 120 columns, a tab being 4 of them. Text
// between backquotes is what a program prints, and a line for go generate cannot be broken; what is
// generated is not written by hand.
func TestColumns(t *testing.T) {
	const most = 120
	err := filepath.WalkDir(".", func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file = filepath.ToSlash(file)
		if e.IsDir() && (notOurs(e.Name()) || e.Name() == "testdata") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		files := token.NewFileSet()
		parsed, err := parser.ParseFile(files, file, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if ast.IsGenerated(parsed) {
			return nil
		}
		quoted := map[int]bool{}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING && strings.HasPrefix(s.Value, "`") {
				for line := files.Position(s.Pos()).Line; line <= files.Position(s.End()).Line; line++ {
					quoted[line] = true
				}
			}
			return true
		})
		for i, line := range strings.Split(string(text), "\n") {
			columns := utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
			if columns > most && !quoted[i+1] && !strings.HasPrefix(line, "//go:generate ") {
				t.Errorf("%s:%d has %d columns, want at most %d", file, i+1, columns, most)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// withoutSystem is the name of a file without the system that it is for: of
// x_linux.go and x_other.go a program has one.
func withoutSystem(file string) string {
	for _, system := range []string{"_linux.go", "_unix.go", "_windows.go", "_other.go"} {
		if rest, ok := strings.CutSuffix(file, system); ok {
			return rest + ".go"
		}
	}
	return file
}

// larger are the packages that may have more lines of code without tests than TestPackageSizes allows, and at most how
// many; 0 for any number. A ceiling is what the package had when it was set, rounded up, so that it cannot grow by more
// than a twentieth.
var larger = map[string]int{
	// A file of these is a subject: a subcommand, a format, an experiment.
	"cmd/moe": 0, "host/dataset": 0, "host/experiment": 0,

	"host/loss": 4500, // one likelihood: the passes share its rows and its layout of θ
}

// TestPackageSizes: no package has more than 3,000 lines of code without tests, but those above.
func TestPackageSizes(t *testing.T) {
	const most = 3000
	lines := map[string]int{}
	eachSource(t, func(file string) error {
		text, err := os.ReadFile(file)
		lines[path.Dir(file)] += strings.Count(string(text), "\n")
		return err
	})
	for _, p := range slices.Sorted(maps.Keys(lines)) {
		ceiling, listed := larger[p]
		switch n := lines[p]; {
		case !listed && n > most:
			t.Errorf("%s has %d lines of code without tests, want at most %d: is there a subject of its own in it?", p, n, most)
		case listed && ceiling > 0 && n > ceiling:
			t.Errorf("%s has %d lines of code without tests, want at most %d", p, n, ceiling)
		case listed && n <= most && ceiling > 0:
			t.Errorf("%s has %d lines of code without tests: it needs no exception", p, n)
		}
	}
	for p := range larger {
		if lines[p] == 0 {
			t.Errorf("there is no package %s", p)
		}
	}
}

// flagged are the packages outside cmd/moe, and files, in which string literals may have flags of the command in
// them, and why.
var flagged = map[string]string{
	"host/criterion": kept, "host/fitted/advice": kept, "host/fitted/compare": kept, "host/grow.go": kept,
	"host/infer": kept, "host/problem/collinear.go": kept, "host/problem/problem.go": kept, "host/range.go": kept,
	"host/report": kept, "host/report/verdict": kept, "host/result": kept, "host/result/remedy": kept,
	"host/result/warn": kept,

	"host/catalog/lock.go":  "a whole line for a shell: trust is for people to give",
	"host/shard/moments.go": "the command that makes the file",
	"host/spec/spec.go":     "Unsaid has what the command takes for said",
	"host/experiment":       "texts of the command's figures",
	"host/figures":          "texts of the command's figures",
	"internal/wasm/wasm.go": "a flag of AssemblyScript's compiler",
	"sdk/serve":             "a plugin is a program, and these are its flags",
}

const kept = "notes and verdicts, which models' files keep as text"

// TestFlags: what a package outside the command says names no flags of the command, which a program that uses the
// package has not: see internal/setting.
func TestFlags(t *testing.T) {
	flag := regexp.MustCompile(`(^|[^-A-Za-z0-9|:])--[a-z]`)
	unused := maps.Clone(flagged)
	eachSource(t, func(file string) error {
		if within(file, "cmd/moe") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			s, ok := n.(*ast.BasicLit)
			if !ok || s.Kind != token.STRING || !flag.MatchString(s.Value) {
				return true
			}
			delete(unused, file)
			delete(unused, path.Dir(file))
			if flagged[file] == "" && flagged[path.Dir(file)] == "" {
				t.Errorf("%s: %s has a flag of the command: have it as a setting (internal/setting)", file, s.Value)
			}
			return true
		})
		return nil
	})
	for _, of := range slices.Sorted(maps.Keys(unused)) {
		t.Errorf("%s has no flags: it needs no exception", of)
	}
}
