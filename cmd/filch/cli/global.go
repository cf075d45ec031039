package cli

import (
	"github.com/filch-hpc/filch"
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
func (g *Global) Jobs(words []string) (c *client.Client, ids []filch.JobID, err error) {
	if c, err = g.Dial(); err != nil {
		return nil, nil, err
	}
	if ids, err = readJobs(words, LastJob(c)); err != nil {
		c.Close()
		return nil, nil, err
	}
	return c, ids, nil
}

// JobTasksOf reads one word that may name several jobs and tasks.
func JobTasksOf(c *client.Client, word string) ([]JobTasks, error) {
	return readJobTasks([]string{word}, LastJob(c))
}

// JobTasks is [Global.Jobs] for words that may name tasks.
func (g *Global) JobTasks(words []string) (c *client.Client, list []JobTasks, err error) {
	if c, err = g.Dial(); err != nil {
		return nil, nil, err
	}
	if list, err = readJobTasks(words, LastJob(c)); err != nil {
		c.Close()
		return nil, nil, err
	}
	return c, list, nil
}
