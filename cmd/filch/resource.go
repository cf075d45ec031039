package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/licenses"
	"github.com/filch-hpc/filch/cmd/filch/ui"
)

func resourceCommand(g *cli.Global) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:     "resource [NAME=N]...",
		GroupID: "nodes",
		Short:   "list or define resources that all nodes share",
		Args:    cobra.ArbitraryArgs,
		Long: `Defines a resource of which all nodes together have N, such as the licenses of a site;
a second NAME=N changes the limit, and NAME=0 lets no more tasks start. Without
arguments, filch resource lists these resources and the nodes that use them.

Tasks take of the resource with filch submit --resource NAME=N. A resource that each
node has for itself is given to filch up --resource.`,
		Example: `  filch resource license=4
  filch submit --resource license=1 --array 1-100 -- ./solve {}
  filch resource`,
		RunE: func(_ *cobra.Command, args []string) error {
			type limit struct {
				name string
				n    int32
			}
			var limits []limit
			for _, arg := range args {
				name, count, _ := strings.Cut(arg, "=")
				n, err := strconv.ParseInt(count, 10, 32)
				if !filch.IsLabel(name) || err != nil || n < 0 || n >= math.MaxInt32 {
					return ui.Misused(filch.Errorf(filch.Invalid, "%.80q does not define a resource", arg).WithHint("NAME=N, with N from 0 to %d", math.MaxInt32-1))
				}
				limits = append(limits, limit{name, int32(n)})
			}
			conn, err := g.Dial()
			if err != nil {
				return err
			}
			defer conn.Close()
			for _, l := range limits {
				if err := licenses.Set(conn, l.name, l.n); err != nil {
					return err
				}
			}
			if len(limits) > 0 && !asJSON {
				return nil
			}
			list, err := licenses.List(conn)
			switch {
			case err != nil:
				return err
			case asJSON:
				return ui.PrintJSON(append([]licenses.License{}, list...))
			case len(list) == 0:
				ui.Say("no resource is defined that all nodes share: filch resource NAME=N")
				return nil
			}
			t := &ui.Table{Head: []string{"RESOURCE", "LIMIT", "USED", "FREE", "NODES"}, Right: map[int]bool{1: true, 2: true, 3: true}}
			for _, p := range list {
				t.Add(p.Name, fmt.Sprint(p.Limit), fmt.Sprint(p.Used), fmt.Sprint(p.Free), usesText(p.Nodes))
			}
			return t.Print()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// usesText lists the nodes with a part of a resource as NODE:N, most nodes at most.
func usesText(uses []licenses.Use) string {
	const most = 8
	var parts []string
	for _, u := range uses[:min(len(uses), most)] {
		parts = append(parts, string(u.Node)+":"+fmt.Sprint(u.Held))
	}
	if more := len(uses) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, " ")
}
