//go:build man

package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// A separate build (make man) writes the manual, so that the code for writing
// manuals is not in the binary that every launch starts.
func init() { extra = append(extra, manCommand) }

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Hidden: true,
		Short:  "write the manual pages to a directory",
		Args:   cobra.ExactArgs(1),
		RunE:   func(cmd *cobra.Command, args []string) error { return writeManual(cmd.Root(), args[0]) },
	}
}

func writeManual(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root.DisableAutoGenTag = true
	for _, c := range root.Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if t := f.Value.Type(); t != "bool" {
				f.DefValue = t // shown behind the option's name
			}
		})
	}
	header := &doc.GenManHeader{Title: "FILCH", Section: "1", Manual: "filch", Source: "filch " + filch.Version}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return err
	}
	pages, err := filepath.Glob(filepath.Join(dir, "filch*.1"))
	if err != nil {
		return err
	}
	noValue := strings.NewReplacer("[=]", "", "[=false]", "")
	for _, page := range pages {
		b, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		if err := os.WriteFile(page, []byte(noValue.Replace(string(b))), 0o644); err != nil {
			return err
		}
	}
	return nil
}
