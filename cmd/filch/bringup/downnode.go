package bringup

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/wire"
)

// downNodes stops the launchers of some nodes in turn.
func downNodes(g *cli.Global, args []string, drained bool) error {
	c, err := g.Dial()
	if err != nil {
		return err
	}
	g.Instance = c.Dir.Instance // also when the launcher that answered has gone
	list, err := cli.QueryNodes(c)
	c.Close()
	if err != nil {
		return err
	}
	all, err := nodesNamed(args, list)
	if err != nil {
		return err
	}
	live := slices.DeleteFunc(slices.Clone(list), func(n wire.NodeInfo) bool { return !lives(n) })
	if !slices.ContainsFunc(live, func(n wire.NodeInfo) bool { return !slices.Contains(all, n.Node) }) {
		return filch.Errorf(filch.Busy, "cannot stop the last node of %s that is up", c.Dir.Instance).WithHint("filch down ends the instance")
	}
	if drained {
		if err := drain(g, args, &launcher.Drain{Reason: "going down", By: cli.Person()}, false); err != nil {
			return err
		}
	}
	var last error
	for _, name := range all {
		if last != nil {
			ui.Warn(last.Error())
		}
		if last = emptied(g, name, drained); last == nil {
			last = downNode(g, name, place.Dir{Base: c.Dir.Base, Instance: c.Dir.Instance, Node: string(name)})
		}
	}
	return last
}

// lives reports whether a node is still part of the instance.
func lives(n wire.NodeInfo) bool { return n.State != "dead" && n.State != "left" }

// nodeNow asks any live launcher of this machine for the state of a node.
func nodeNow(g *cli.Global, name filch.NodeName) (wire.NodeInfo, []launcher.JobInfo, error) {
	c, err := g.Dial()
	if err != nil {
		return wire.NodeInfo{}, nil, err
	}
	defer c.Close()
	list, err := cli.QueryNodes(c)
	if err != nil {
		return wire.NodeInfo{}, nil, err
	}
	i := slices.IndexFunc(list, func(n wire.NodeInfo) bool { return n.Node == name })
	if i < 0 {
		return wire.NodeInfo{State: "left"}, nil, nil
	}
	jobs, err := cli.QueryJobs(c)
	return list[i], jobs, err
}

// emptied waits until nothing runs on a draining node. Only the jobs there bound
// the wait; a user may interrupt this command, and the node drains on.
func emptied(g *cli.Global, name filch.NodeName, drained bool) error {
	for told := false; drained; time.Sleep(emptyPause) {
		n, _, err := nodeNow(g, name)
		switch {
		case err != nil:
			return err
		case !lives(n) || n.State == "draining" && !n.Silent && n.Free+n.Stuck >= n.Slots:
			return nil
		case n.State == "up":
			return filch.Errorf(filch.Busy, "the drain of %s was ended meanwhile: the node was not stopped", name)
		case !told:
			told = true
			ui.Say(fmt.Sprintf("waiting until nothing runs on %s; after Ctrl-C, the node drains on", name))
		}
	}
	return nil
}

// emptyPause is the interval between two looks at a draining node that is to go
// down.
const emptyPause = 250 * time.Millisecond

// downNode stops a launcher, and prints the jobs that ran there.
func downNode(g *cli.Global, name filch.NodeName, dir place.Dir) error {
	n, jobs, err := nodeNow(g, name)
	if err != nil {
		return err
	}
	switch n.State {
	case "left":
		return filch.Errorf(filch.Unavailable, "node %s has left the instance already: nothing to stop", name)
	case "dead":
		return filch.Errorf(filch.Unavailable, "node %s is dead already", name).WithHint("filch up on that machine starts the launcher again")
	}
	_, here := lockHolder(dir)
	output := ""
	switch {
	case !here:
		err = downThere(g, name)
		output = "; what tasks there printed is removed"
	default:
		if err = downHere(dir); dir.HasAside() {
			output = "; filch up starts the launcher again, with the kept output"
		}
	}
	if err != nil {
		return err
	}
	ui.Printf("%s is down: its launcher has ended%s%s\n", name, ranThere(jobs, name, n), output)
	return nil
}

// downHere stops a launcher of this machine, and kills a launcher that does not
// answer. A later filch up starts the launcher again.
func downHere(dir place.Dir) error {
	node, errNode := place.ReadPrivate(dir.NodeFile())
	if c, err := client.DialDir(dir, cli.Build); err == nil {
		_ = cli.Ask(c, cli.QueryWait, nil, wire.VerbDown, "", "", wire.DownAside)
		c.Close()
	}
	if err := awaitEnd(dir, time.Now().Add(downWait)); err != nil {
		return err
	}
	if err := dir.SetAside(); err != nil {
		return err
	}
	if errNode == nil {
		return place.WritePrivate(dir.StoppedFile(), node)
	}
	return nil
}

// downThere stops a launcher of another machine, and waits until the launcher has
// left.
func downThere(g *cli.Global, name filch.NodeName) error {
	c, err := g.Dial()
	if err != nil {
		return err
	}
	err = cli.Ask(c, 2*cli.QueryWait, nil, wire.VerbDown, string(name))
	c.Close()
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(downWait); ; time.Sleep(cli.PollPause) {
		n, _, err := nodeNow(g, name)
		switch {
		case err == nil && !lives(n):
			return nil
		case time.Now().After(deadline):
			return filch.Errorf(filch.Timeout, "the launcher of node %s was asked to end, and has not ended within %s", name, filch.ShortTime(downWait)).
				WithHint("filch down --here on that machine kills the launcher")
		}
	}
}

// ranThere names the jobs with ranks on a node, and the jobs that were submitted
// there and ended with the node.
func ranThere(jobs []launcher.JobInfo, name filch.NodeName, n wire.NodeInfo) string {
	var ranks, own []string
	for i := range jobs {
		j := &jobs[i]
		switch {
		case j.Code != nil || j.Kind == "bag" || j.Kind == "workflow":
		case slices.Contains(j.Nodes, name):
			ranks = append(ranks, j.ID.String())
		case j.Origin == name && !j.Detached:
			own = append(own, j.ID.String())
		}
	}
	text := ""
	if len(ranks) > 0 {
		text += "; of " + jobWords(ranks) + " it had ranks"
	}
	if len(own) > 0 {
		text += "; " + jobWords(own) + " waited there"
	}
	if tasks := n.Tasks + n.Lent; tasks > 0 {
		text += fmt.Sprintf("; tasks on %s start again on other nodes, except --once tasks", filch.Plural(int(tasks), "slot"))
	}
	return text
}

// jobWords lists at most eight jobs.
func jobWords(ids []string) string {
	const most = 8
	text := strings.Join(ids[:min(len(ids), most)], ", ")
	if more := len(ids) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if len(ids) == 1 {
		return "job " + text
	}
	return "jobs " + text
}
