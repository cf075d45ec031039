package main

import (
	"encoding/json"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/bringup"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/filchd"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/config/place"
)

// configWait bounds the reading of a few small files; any may be on a slow file
// system.
const configWait = 20 * time.Second

func configCommand(g *cli.Global) *cobra.Command {
	asJSON, origin := false, false
	c := &cobra.Command{
		Use:     "config",
		GroupID: "nodes",
		Short:   "show the settings of launchers on this machine, and their origins",
		Long: `Shows the settings of a launcher that is started on this machine now. A flag of
filch up or filch join goes before the environment (FILCH_ and the key in capitals),
and the environment before these files. A setting in a later file wins:

  /etc/filch/config.yaml                          of the machine
  ~/.config/filch/config.yaml                     of the user
  ~/.config/filch/instances/INSTANCE.yaml         of one instance

A file has lines like "slots: 4":

  slots          slots of a node (default: one for each core of the node)
  spare          idle keepers, ready for the next launch (default 1)
  drain_bad      drain a node on which so many tasks in a row fail while others of their
                 jobs end well on other nodes; at most a quarter of the nodes (0: never)
  role           the work that a node is for: tasks (of one process), gangs (ranks of runs
                 and tasks), or all (default all)
  log_bytes      size of a log file of the launcher; two files are kept (default 8 MiB)
  store_bytes    bytes of the shared store on this node (0: 512 MiB)
  steal_wait_ms  longest wait between tries to steal, in ms (default 1000)
  ends_wait_ms   longest time that the end of a task waits for others, to be recorded
                 with them, in ms (default 50)
  ends_bundle    ends of tasks that are recorded together at most (default 256)
  offer_bundle   tasks in a message to another node at most (default 1024)
  metrics        IP:PORT where a node serves metrics for Prometheus (default: none)
  history        false: the ends of jobs are not written to the history on disk, which
                 filch history --all reads (default true)
  debug          true: the log has every message

No launcher has to run. For an instance with a node on this machine, the flags of
that node count too. XDG_CONFIG_HOME, when set, replaces ~/.config.`,
		Example: "  filch config --origin\n  filch config --origin --instance brave-otter",
		RunE: func(*cobra.Command, []string) error {
			list, err := settings(g)
			if err != nil {
				return err
			}
			if asJSON {
				return ui.PrintJSON(list)
			}
			t := &ui.Table{Head: []string{"KEY", "VALUE"}}
			if origin {
				t.Head = append(t.Head, "ORIGIN")
			}
			for _, v := range list {
				if cells := []string{v.Key, v.Value, v.Origin}; origin {
					t.Add(cells...)
				} else {
					t.Add(cells[:2]...)
				}
			}
			return t.Print()
		},
	}
	c.Flags().BoolVar(&origin, "origin", false, "show the origin of each value: flag, environment, file and line, or default")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// Setting is the output of filch config --json for each key.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// settings asks filchd, which reads the files, for the settings of an instance:
// the named instance, or the only instance with nodes here.
func settings(g *cli.Global) ([]Setting, error) {
	base, err := place.BaseName() // showing settings writes nothing
	if err != nil {
		return nil, err
	}
	name := g.Instance
	if name == "" {
		name = os.Getenv("FILCH_INSTANCE")
	}
	if here := bringup.InstancesHere(base); name == "" && len(here) == 1 {
		name = here[0]
	}
	node := ""
	if name != "" {
		if err := place.CheckInstance(name); err != nil {
			return nil, ui.Misused(err)
		}
		for _, d := range place.Nodes(base, name) {
			if g.Node == "" || g.Node == d.Node {
				node = d.NodeFile()
				break
			}
		}
	}
	out, code, err := filchd.Run(configWait, nil, "config", name, node)
	if err != nil {
		return nil, err
	}
	var list []Setting
	if err := json.Unmarshal(out, &list); err != nil || code != 0 {
		return nil, filch.Errorf(filch.Internal, "cannot read the settings: filchd ended with code %d", code)
	}
	return list, nil
}
