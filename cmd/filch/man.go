//go:build man

package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// The manual is written by a build of its own (make man), so that what it
// takes to write one is not in the binary that every launch starts.
func init() { extra = append(extra, manCommand) }

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Hidden: true,
		Short:  "write the manual pages to a directory",
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			cmd.Root().DisableAutoGenTag = true
			return doc.GenManTree(cmd.Root(), &doc.GenManHeader{Title: "FILCH", Section: "1", Manual: "filch", Source: "filch " + version}, args[0])
		},
	}
}
