package cli

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/spf13/cobra"
)

// Global are the options of every command.
type Global struct {
	Instance string
	Node     string
}

func (g *Global) Dial() (*client.Client, error) {
	return client.Dial(client.Options{Instance: g.Instance, Node: g.Node, Build: Build})
}

// Jobs connects to the launcher and reads the names of jobs.
func (g *Global) Jobs(words []string) (*client.Client, []JobRank, error) {
	c, err := g.Dial()
	if err != nil {
		return nil, nil, err
	}
	ids, err := readIDs(words, LastJob(c))
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return c, ids, nil
}

// Job is [Global.Jobs] for a single job.
func (g *Global) Job(word string) (*client.Client, JobRank, error) {
	c, err := g.Dial()
	if err != nil {
		return nil, JobRank{}, err
	}
	id, err := OneID(word, LastJob(c))
	if err != nil {
		c.Close()
		return nil, JobRank{}, err
	}
	return c, id, nil
}

// Strict makes mistakes in the number of arguments a misuse.
func Strict(c *cobra.Command) {
	check := c.Args
	if check == nil {
		check = cobra.NoArgs
	}
	c.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return ui.Misused(filch.Errorf(filch.Invalid, "%s: %s", cmd.CommandPath(), err.Error()).
				WithHint("%s --help", cmd.CommandPath()))
		}
		return nil
	}
}
