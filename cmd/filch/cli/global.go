package cli

import (
	"github.com/filch-hpc/filch/launcher/client"
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
func (g *Global) Jobs(words []string) (*client.Client, []JobRank, error) { return g.jobs(words, false) }

// Tasks is [Global.Jobs] for a command that takes the names of a workflow's tasks.
func (g *Global) Tasks(words []string) (*client.Client, []JobRank, error) { return g.jobs(words, true) }

func (g *Global) jobs(words []string, names bool) (*client.Client, []JobRank, error) {
	c, err := g.Dial()
	if err != nil {
		return nil, nil, err
	}
	ids, err := readIDs(words, LastJob(c), names)
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return c, ids, nil
}

// JobTasks is [Global.Jobs] for words that may name tasks.
func (g *Global) JobTasks(words []string) (*client.Client, []JobTasks, error) {
	c, err := g.Dial()
	if err != nil {
		return nil, nil, err
	}
	list, err := readJobTasks(words, LastJob(c))
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return c, list, nil
}

// Job is [Global.Jobs] for a single job.
func (g *Global) Job(word string) (*client.Client, JobRank, error) { return g.job(word, false) }

// Task is [Global.Tasks] for a single job or task.
func (g *Global) Task(word string) (*client.Client, JobRank, error) { return g.job(word, true) }

func (g *Global) job(word string, names bool) (*client.Client, JobRank, error) {
	c, err := g.Dial()
	if err != nil {
		return nil, JobRank{}, err
	}
	id, err := oneID(word, LastJob(c), names)
	if err != nil {
		c.Close()
		return nil, JobRank{}, err
	}
	return c, id, nil
}
