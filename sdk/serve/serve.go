// Package serve turns an activation into a plugin: the whole of its main.
//
//	func main() {
//		serve.Activation(sdk.Func{
//			Name: "smoothrelu",
//			G:    func(z float64) float64 { return math.Log1p(math.Exp(-math.Abs(z))) + math.Max(z, 0) },
//			DG:   func(z float64) float64 { return 1 / (1 + math.Exp(-z)) },
//		})
//	}
package serve

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/gatedlearning/moe/internal/wire"
	"github.com/gatedlearning/moe/sdk"
)

// Activation serves a as a plugin. It does not return before the host is done
// with the plugin; a plugin that was started by hand, not by a host, prints
// what it is and exits with status 64.
func Activation(a sdk.Activation) { Family(sdk.Single(a)) }

// Family serves every member of f as a plugin, as [Activation] does one. Where
// f itself is not fit to be served, such as a default outside its range, it
// says so and exits with status 70.
func Family(f sdk.Family) {
	if err := wire.CheckFamily(f); err != nil {
		fmt.Fprintf(os.Stderr, "%s: this plugin cannot be served: %v\n", program(), err)
		os.Exit(70)
	}
	h := wire.Handshake()
	if os.Getenv(h.MagicCookieKey) != h.MagicCookieValue {
		explain(os.Stderr, program(), f)
		os.Exit(64)
	}
	watchLifeline(os.Getenv(wire.EnvLifeline))
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: h,
		Plugins:         plugin.PluginSet{wire.Name: wire.Plugin{Family: f}},
		GRPCServer:      wire.NewServer,
		Logger:          hclog.NewNullLogger(),
	})
}

// explain says what the program is to somebody who started it by hand.
func explain(w io.Writer, program string, f sdk.Family) {
	fmt.Fprintf(w, "%s is a plugin for moe: the activation %q", program, f.Name)
	if f.Version != "" {
		fmt.Fprintf(w, ", version %s", f.Version)
	}
	fmt.Fprint(w, ".\n")
	if f.Doc != "" {
		fmt.Fprintf(w, "%s\n", f.Doc)
	}
	for _, p := range f.Params {
		fmt.Fprintf(w, "  --param %s=%v", p.Name, p.Default)
		if p.Doc != "" {
			fmt.Fprintf(w, "  %s", p.Doc)
		}
		if p.Min != 0 || p.Max != 0 {
			fmt.Fprintf(w, ", from %v to %v", p.Min, p.Max)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, `It does nothing when it is run by hand. To use it:
  moe plugin trust ./%[1]s
  moe validate-activation ./%[1]s
`, program)
}

func program() string { return filepath.Base(os.Args[0]) }

// watchLifeline ends the process when the host has gone: the host holds the
// other end of the pipe whose file descriptor fd names and never writes to it,
// so that a read returns only when the host has died, however it died.
func watchLifeline(fd string) {
	n, err := strconv.Atoi(fd)
	if err != nil || n < 3 {
		return
	}
	pipe := os.NewFile(uintptr(n), "lifeline")
	if pipe == nil {
		return
	}
	go func() {
		io.Copy(io.Discard, pipe)
		os.Exit(1)
	}()
}
