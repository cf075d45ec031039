package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Commit is set by make build (-ldflags -X).
var Commit = "unknown"

// Build names this binary to launchers.
var Build = filch.Build(Commit)

const WireVersion = wire.Version

// Ask sends a query and decodes the answer into v, nil for none. Ask waits for d;
// 0 is without limit.
func Ask(c *client.Client, d time.Duration, v any, verb string, args ...string) error {
	b, err := c.Query(d, verb, args...)
	if err != nil {
		return err
	}
	if v == nil {
		return nil
	}
	if err := json.Unmarshal(b, v); err != nil {
		return filch.Errorf(filch.Internal, "cannot read the launcher's answer to %s: %s", verb, err.Error())
	}
	return nil
}

func QueryNodes(c *client.Client) ([]wire.NodeInfo, error) {
	var list []wire.NodeInfo
	err := Ask(c, QueryWait, &list, wire.VerbNodes)
	return list, err
}

// QueryProcessors is [QueryNodes] with the processors of each node.
func QueryProcessors(c *client.Client) ([]wire.NodeInfo, error) {
	var list []wire.NodeInfo
	err := Ask(c, QueryWait, &list, wire.VerbNodes, wire.WithProcessors)
	return list, err
}

func QueryJobs(c *client.Client) ([]launcher.JobInfo, error) {
	var list []launcher.JobInfo
	err := Ask(c, QueryWait, &list, wire.VerbPs)
	return list, err
}

// OnEndPrefix begins the name of a job that runs the --on-end command of another job; the
// number of the other job follows.
const OnEndPrefix = "on-end-of-"

// lastWait bounds the wait of [LastJob] for records that no node can read yet. After the loss
// of all launchers, nodes wait 15 s for the disks of the others.
const lastWait = 30 * time.Second

// LastJob returns a function that finds the job submitted last. Steps of tasks do not
// count, nor jobs of --on-end, nor jobs started inside another job, unless this process is
// inside it too.
func LastJob(c *client.Client) func() (filch.JobID, error) {
	return func() (filch.JobID, error) { return lastJob(c, time.Now().Add(lastWait)) }
}

// lastJob waits while records cannot be read: the last job may be among these.
func lastJob(c *client.Client, until time.Time) (filch.JobID, error) {
	speak := time.AfterFunc(SpeakLate, func() {
		ui.Say(fmt.Sprintf("waiting %s for records of jobs, of which one may be the last job", filch.ShortTime(time.Until(until))))
	})
	defer speak.Stop()
	for ; ; time.Sleep(LossPause) {
		var own []wire.RosterInfo // before the list: what is read later is in the list
		if err := Ask(c, QueryWait, &own, wire.VerbRoster, wire.OnlyHere); err != nil {
			return 0, err
		}
		list, err := QueryJobs(c)
		if err != nil {
			return 0, err
		}
		last := newest(list)
		unread := len(own) > 0 && (len(own[0].Lost) > 0 || last == 0 && own[0].Trouble != "" && own[0].Here.DiskTrouble == "")
		switch {
		case !unread && last == 0:
			return 0, filch.Errorf(filch.NotFound, "there is no last job: none was submitted yet").WithHint("filch run COMMAND")
		case !unread:
			return last, nil
		case time.Now().After(until):
			return 0, filch.Errorf(filch.Unavailable, "cannot tell the last job: %s", own[0].Trouble).
				WithHint("name the job by its number; filch doctor says more")
		}
	}
}

// newest is the job of a list that was submitted last; 0 for none.
func newest(list []launcher.JobInfo) filch.JobID {
	var last launcher.JobInfo
	for _, j := range list {
		around := cmp.Or(j.Parent, j.Inside)
		if j.Task == nil && !strings.HasPrefix(j.Name, OnEndPrefix) && (around == 0 || around == OuterJob()) && (j.Submit > last.Submit || j.Submit == last.Submit && j.ID > last.ID) {
			last = j
		}
	}
	return last.ID
}

// IsUnreached reports whether err means that no launcher can be asked.
func IsUnreached(err error) bool {
	k := ui.KindOf(err)
	return k == filch.Unavailable || k == filch.NotFound
}

// Reachable lists the addresses of nodes that other machines reach: not the loopback ones.
func Reachable(nodes []wire.NodeInfo) (addrs []string) {
	for i := range nodes {
		for _, a := range nodes[i].Addrs {
			if host, _, err := net.SplitHostPort(a); err == nil && !net.ParseIP(host).IsLoopback() {
				addrs = append(addrs, a)
			}
		}
	}
	return addrs
}
