package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/internal/shown"
)

func newPluginCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugin",
		Short: "List, write, trust and verify plugins",
		Long: `A plugin is a program that supplies a nonlinearity. No plugin runs before
moe plugin trust has recorded its checksum, and none runs after its file has
changed.`,
		Example: "  moe plugin list\n  moe plugin trust ./moe-plugin-smoothrelu\n  moe plugin verify " +
			"./moe-plugin-smoothrelu",
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPluginListCmd(), newPluginNewCmd(), newPluginTrustCmd(), newPluginUntrustCmd(),
		newPluginVerifyCmd())
	return cmd
}

// pluginInfo is an entry of moe plugin list --json, and the object of moe
// plugin trust --json.
type pluginInfo struct {
	Name       string              `json:"name"`
	Version    string              `json:"version"`
	Parameters []catalog.Parameter `json:"parameters"`
	SHA256     string              `json:"sha256,omitempty"`
	Protocol   int                 `json:"protocol,omitempty"`
	Source     string              `json:"source"` // "built-in" or a path
}

type pluginList struct {
	Plugins []pluginInfo `json:"plugins"`
	Store   string       `json:"store"`
}

func newPluginListCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the built-in activations and the trusted plugins",
		Example: "  moe plugin list --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := listPlugins(catalog.Catalog{})
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, list)
			}
			return printPlugins(cmd, list.Plugins)
		},
	}
}

func listPlugins(c catalog.Catalog) (pluginList, error) {
	records, err := c.Trusted()
	if err != nil {
		return pluginList{}, err
	}
	store, err := c.Store()
	if err != nil {
		return pluginList{}, err
	}
	list := pluginList{Store: store}
	for _, f := range catalog.Builtins() {
		list.Plugins = append(list.Plugins, pluginInfo{
			Name: f.Name, Version: f.Version, Parameters: catalog.ParametersOf(f), Source: catalog.SourceBuiltin,
		})
	}
	for _, r := range records {
		list.Plugins = append(list.Plugins, infoOf(r))
	}
	return list, nil
}

func infoOf(r catalog.Record) pluginInfo {
	params := r.Parameters
	if params == nil {
		params = []catalog.Parameter{}
	}
	return pluginInfo{
		Name: r.Name, Version: r.Version, Parameters: params,
		SHA256: r.SHA256, Protocol: r.Protocol, Source: r.Path,
	}
}

func printPlugins(cmd *cobra.Command, plugins []pluginInfo) error {
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tVERSION\tPARAMETERS\tSHA256\tSOURCE")
	for _, p := range plugins {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", shown.Names([]any{orDash(p.Name), orDash(p.Version),
			orDash(describeParameters(p.Parameters)), orDash(p.SHA256[:min(12, len(p.SHA256))]), p.Source})...)
	}
	return w.Flush()
}

// describeParameters writes parameters as in "slope=0.01 [0, 1]".
func describeParameters(params []catalog.Parameter) string {
	said := make([]string, len(params))
	for i, p := range params {
		said[i] = fmt.Sprintf("%s=%v", p.Name, p.Default)
		if p.Min != 0 || p.Max != 0 {
			said[i] += fmt.Sprintf(" [%v, %v]", p.Min, p.Max)
		}
	}
	return strings.Join(said, ", ")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func newPluginTrustCmd() *cobra.Command {
	var pin bool
	var limits limitFlags
	cmd := &cobra.Command{
		Use:   "trust PATH",
		Short: "Record a plugin's checksum, so that it may run",
		Long: `Runs the file and records its sha256 in your own store of trusted plugins, with
the name, version and parameters that it gives itself and fingerprints of its
values.

A trusted plugin is a program that runs in a sandbox (--sandbox) and can read what
you can read. Of a script the script and its interpreter are recorded, which it
must name by its path; not what it imports. Of a program its dynamic libraries
are not. What these do is done before values are compared.

With --lock the plugin is also pinned in moe.lock in the working directory.
Where there is such a file, no plugin runs but those that it lists, and of them
only those that you trust: it can be committed with a project, and cannot make
anything run.`,
		Example: "  moe plugin trust ./moe-plugin-smoothrelu",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return trustPlugin(cmd, args[0], pin, limits)
		},
	}
	limits.register(cmd)
	cmd.Flags().BoolVar(&pin, "lock", false, "also pin the plugin in moe.lock in the working directory")
	return cmd
}

func newPluginUntrustCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "untrust PATH",
		Short: "Take back what plugin trust recorded, so that a plugin may not run",
		Long: `Takes the plugin out of your own store of trusted plugins. Nothing is run, and the
file may be gone. The project's moe.lock, which can only narrow what is trusted,
is left as it is.

The exit code is 77 where the path is not in the store: moe plugin list says
which paths are.`,
		Example: "  moe plugin untrust ./moe-plugin-smoothrelu",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := catalog.Catalog{}.Untrust(cmd.Context(), args[0])
			switch {
			case err != nil:
				return err
			case wantsJSON(cmd):
				return printJSON(cmd, infoOf(r))
			}
			return say(cmd, "no longer trusted %s: activation %s, version %s, sha256 %s", r.Path, orDash(r.Name),
				orDash(r.Version), r.SHA256)
		},
	}
}

func trustPlugin(cmd *cobra.Command, path string, pin bool, limits limitFlags) error {
	if err := limits.check(); err != nil {
		return err
	}
	c := limits.within(catalog.Catalog{})
	r, err := c.Trust(cmd.Context(), path)
	if err != nil {
		return err
	}
	pinned := ""
	if pin {
		if err := c.Pin(cmd.Context(), r); err != nil {
			return err
		}
		pinned = ", pinned in " + catalog.DefaultLock
	}
	if wantsJSON(cmd) {
		return printJSON(cmd, infoOf(r))
	}
	if err := say(cmd, "trusted %s: activation %s, version %s, sha256 %s%s",
		r.Path, r.Name, orDash(r.Version), r.SHA256, pinned); err != nil || !catalog.Builtin(r.Name) {
		return err
	}
	return say(cmd, "%s is built in, and by that name you get the built-in one: name the plugin by its path", r.Name)
}
