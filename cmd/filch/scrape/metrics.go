// Package scrape is the command filch metrics.
package scrape

import (
	"net/url"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/wire"
)

// target is an entry of Prometheus' file_sd_configs.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// Command is filch metrics.
func Command(g *cli.Global) *cobra.Command {
	asJSON, asToken := false, false
	c := &cobra.Command{
		Use:     "metrics",
		GroupID: "nodes",
		Short:   "show where the nodes serve their metrics",
		Long: `Shows the address at which each node serves its metrics for Prometheus. Nodes serve
metrics that were started with filch up --metrics, or with the setting metrics. --targets
writes the addresses as Prometheus reads them from a file (file_sd_configs). On an
address that other machines reach, a request must carry the bearer token of the
instance; --token prints the token, for credentials_file. See docs/metrics.md.`,
		Example: "  filch up --metrics 127.0.0.1:9400\n  filch metrics\n  filch metrics --targets > targets.json\n  (umask 077; filch metrics --token > token)",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON && asToken {
				return ui.Misused(filch.Errorf(filch.Invalid, "--targets and --token exclude each other"))
			}
			list, err := ask(g)
			switch {
			case err != nil:
				return err
			case asToken:
				return printToken(list)
			case asJSON:
				return printTargets(list)
			}
			return show(list)
		},
	}
	c.Flags().BoolVar(&asJSON, "targets", false, "print the addresses as JSON for Prometheus")
	c.Flags().BoolVar(&asToken, "token", false, "print the bearer token")
	return c
}

// ask asks all nodes. It fails when none serves.
func ask(g *cli.Global) (list []wire.MetricsInfo, err error) {
	c, err := g.Dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := cli.Ask(c, cli.QueryWait, &list, wire.VerbMetrics); err != nil {
		return nil, err
	}
	for _, m := range list {
		if m.URL != "" || m.Trouble != "" {
			return list, nil
		}
	}
	return nil, filch.Errorf(filch.NotFound, "no node serves metrics").WithHint("filch up --metrics 127.0.0.1:0, for a new instance")
}

func show(list []wire.MetricsInfo) error {
	t := &ui.Table{Head: []string{"NODE", "METRICS"}}
	for _, m := range list {
		at := m.URL
		switch {
		case m.Silent:
			at = "- (no answer)"
		case m.Trouble != "":
			at = "- (" + m.Trouble + ")"
		case at == "":
			at = "-"
		}
		t.Add(string(m.Node), at)
	}
	return t.Print()
}

// printTargets writes a target for each node that serves.
func printTargets(list []wire.MetricsInfo) error {
	targets := []target{}
	for _, m := range list {
		if u, err := url.Parse(m.URL); err == nil && u.Host != "" {
			targets = append(targets, target{[]string{u.Host}, map[string]string{"node": string(m.Node)}})
		}
	}
	return ui.PrintJSON(targets)
}

// printToken writes the token, which the launcher of this machine tells.
func printToken(list []wire.MetricsInfo) error {
	for _, m := range list {
		if m.Token != "" {
			ui.Printf("%s\n", m.Token)
			return nil
		}
	}
	return filch.Errorf(filch.NotFound, "the metrics of %s need no token: other machines do not reach them", string(list[0].Node))
}
