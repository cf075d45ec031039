package logs

import (
	"fmt"
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

// askNodes asks for the names and states of the nodes, and then calls then.
func (r *Reader) askNodes(then func()) error {
	_, err := r.send(func(reply *client.Reply) error {
		var nodes []wire.NodeInfo
		if err := reply.Decode(&nodes); err != nil {
			return err
		}
		r.onNodes(nodes)
		then()
		return nil
	}, wire.VerbNodes, wire.OnlyHere)
	return err
}

func (r *Reader) onNodes(nodes []wire.NodeInfo) {
	was := r.up
	r.names, r.up = []filch.NodeName{}, map[filch.NodeName]bool{}
	for i := range nodes {
		n := &nodes[i]
		r.names = append(r.names, n.Node)
		r.up[n.Node] = n.State != filch.Dead.String() && n.State != filch.Left.String()
	}
	for _, j := range r.jobs {
		for name, p := range j.parts {
			switch {
			case r.up[name] && p.lost:
				p.lost = false // the node is back, with its kept output
			case was[name] && !r.up[name] && !p.over:
				r.lose(p, fmt.Sprintf("node %s is lost: output of job %d there cannot be read; the job goes on", name, j.Job))
			}
		}
	}
}

// lose stops the reading from a node that is gone.
func (r *Reader) lose(p *part, why string) {
	r.abandon(p)
	p.lost, p.caught = true, true
	if p.job.tasks() || p.job.has(p.node) {
		r.warn(why)
	}
}

// sayUnread names the nodes whose output was not read to its end, behind all output.
func (r *Reader) sayUnread() {
	for _, j := range r.jobs {
		var nodes []filch.NodeName
		for _, name := range r.names {
			if p := j.parts[name]; p != nil && (p.unread || p.lost) && j.tasks() && !j.unused[name] {
				nodes = append(nodes, name)
			}
		}
		if len(nodes) > 0 {
			ui.Warn(fmt.Sprintf("output of tasks of job %d that ran on %s may be missing here: as soon as the node is back, filch logs %d has it all", j.Job, spec.FormatHosts(nodes), j.Job))
		}
	}
}

// abandon ends a query without an answer.
func (r *Reader) abandon(p *part) {
	if p.req == 0 {
		return
	}
	delete(r.open, p.req)
	if !p.held {
		r.busy--
	}
	p.req = 0
	if r.only == p {
		r.only = nil
	}
}

// has reports whether a run has or had ranks on a node.
func (j *job) has(n filch.NodeName) bool {
	return slices.Contains(j.Info.Nodes, n) || slices.Contains(j.Info.Earlier, n)
}
