package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

type versionInfo struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func newVersionCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of moe",
		Example: "  moe version --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versionInfo{Version: ownVersion(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
			if wantsJSON(cmd) {
				return printJSON(cmd, v)
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
			return err
		},
	}
}

// versionLine is what moe version and moe --version print.
func versionLine() string {
	return fmt.Sprintf("moe %s %s %s/%s", ownVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// ownVersion is the version of the program as its build recorded it.
func ownVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
