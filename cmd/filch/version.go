package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/filchd"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/wire"
)

func versionCommand(*cli.Global) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:     "version",
		GroupID: "nodes",
		Short:   "print the version, the commit and the wire version of this binary",
		Long:    "Prints the version, the commit and the wire version of this binary, as filch --version does.",
		Example: "  filch version\n  filch version --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return ui.PrintJSON(struct {
					Version string `json:"version"`
					Commit  string `json:"commit"`
					Wire    int    `json:"wire"`
					Go      string `json:"go"`
					OS      string `json:"os"`
					Arch    string `json:"arch"`
					Carries bool   `json:"carries_launcher"`
				}{filch.Version, cli.Commit, wire.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH, filchd.CarriesLauncher()})
			}
			_, err := fmt.Println("filch " + versionLine())
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// versionLine describes this binary.
func versionLine() string {
	return fmt.Sprintf("%s (commit %s), wire version %d, %s %s/%s", filch.Version, ui.Clean(cli.Commit), wire.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
