package main

import (
	"cmp"
	"os"
	"strings"

	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/onend"
	"github.com/filch-hpc/filch/cmd/filch/runclient"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/spec"
)

// runMain is filch run. Every launch runs runMain, so runMain reads the options
// itself and builds no command tree.
func runMain(args []string, instance string) int {
	r, err := spec.Parse(args)
	if err != nil {
		return ui.Usage(err)
	}
	if r.Client.Help {
		return runHelp()
	}
	if r.Client.MPIList {
		_, _ = os.Stdout.WriteString(strings.Join(spec.MPITypes[:], "\n") + "\n")
		return 0
	}
	if r.Client.Instance == "" {
		r.Client.Instance = instance
	}
	around, err := cli.Environment()
	if err != nil {
		return ui.Fail(err)
	}
	warnings, err := r.Finish(around)
	if err == nil {
		err = cmp.Or(onend.Check(r.Client.OnEnd), runclient.CheckDetached(r))
	}
	if err != nil {
		return ui.Usage(err)
	}
	if !r.Client.Quiet {
		for _, w := range warnings {
			ui.Warn(w)
		}
	}
	if r.Client.DryRun {
		return dryRun(r)
	}
	return runclient.Launch(r, around)
}
