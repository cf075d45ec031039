package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/plan"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/spec"
)

// dryRun is filch run --dry-run.
func dryRun(r *spec.Run) int {
	c, err := client.Dial(client.Options{Instance: r.Client.Instance, Build: cli.Build})
	if err != nil {
		return ui.Refuse(err)
	}
	defer c.Close()
	if r.Request.Parent != 0 && c.Dir.Instance == os.Getenv("FILCH_INSTANCE") {
		return ui.Usage(filch.Errorf(filch.Invalid, "--dry-run cannot plan a step of job %d", r.Request.Parent).
			WithHint("add --new-job to plan a job of its own"))
	}
	nodes, err := cli.QueryProcessors(c)
	if err != nil {
		return ui.Fail(err)
	}
	p, err := plan.Make(r.Request, r.Order.Bind, nodes)
	if ui.KindOf(err) == filch.Invalid {
		return ui.Usage(err)
	}
	if err != nil {
		return ui.Fail(err)
	}
	if r.Client.JSON {
		all := p.Ranks
		for _, name := range p.Spares {
			all = append(all, plan.Rank{Rank: -1, Node: name, Slots: []int32{}, Spare: true})
		}
		err = ui.PrintJSON(all)
	} else {
		err = printPlan(p)
	}
	if err != nil {
		return ui.Fail(err)
	}
	return 0
}

func printPlan(p *plan.Plan) error {
	t := &ui.Table{Head: []string{"RANK", "NODE", "SLOTS", "CPUS"}, Right: map[int]bool{0: true}}
	for _, r := range p.Ranks {
		t.Add(fmt.Sprint(r.Rank), string(r.Node), cmp.Or(numbers(r.Slots), "-"), cmp.Or(r.CPUs, "all"))
	}
	if err := t.Print(); err != nil {
		return err
	}
	if len(p.Spares) > 0 {
		ui.Printf("spare  %s\n", spec.FormatHosts(p.Spares))
	}
	if all := len(p.Ranks); int(p.Now) < all {
		ui.Printf("note  the run would wait: %d of %s have room now; the places are those on idle nodes\n", p.Now, filch.Plural(all, "rank"))
	}
	return nil
}

// numbers joins numbers with commas.
func numbers(list []int32) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = fmt.Sprint(n)
	}
	return strings.Join(words, ",")
}
