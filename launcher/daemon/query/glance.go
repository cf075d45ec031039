package query

import (
	"os"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/glance"
	"github.com/filch-hpc/filch/launcher/wire"
)

// A screen asks its launcher once for each frame, and the launcher asks each other node
// once. A node looks at itself at most once in glanceRest, whatever the number of screens:
// a look reads all records of jobs that the node keeps.
const (
	glanceRest = 400 * time.Millisecond
	// glanceWait is the wait for the answer of another node. A screen with an interval of a
	// second shows a node that hangs within two seconds.
	glanceWait = 700 * time.Millisecond
)

// looked keeps the last look of a node at itself. The channel has one token; the holder of
// the token reads and writes the other fields.
type looked struct {
	token  chan struct{}
	glance wire.Glance
	at     time.Time
}

func newLooked() *looked { return &looked{token: make(chan struct{}, 1)} }

// glancer answers the queries of screens.
type glancer struct{ *Server }

// glance describes all nodes, or, for a query of another node, this node.
func (sv glancer) glance(arg func(int) string, local bool) (any, error) {
	job := filch.JobID(0)
	if arg(0) != "" {
		var err error
		if job, err = sv.parseJob(arg(0)); err != nil {
			return nil, err
		}
	}
	own, err := sv.here(job)
	if err != nil || !local {
		return &own, err
	}
	own.Node.Local = true
	heard := map[filch.NodeName]*wire.Glance{sv.in.Self: &own}
	all := []*wire.Glance{&own}
	var args []string
	if job != 0 {
		args = []string{job.String()}
	}
	peers.AskAllWithin(sv.daemon.Questions, glanceWait, wire.Query{Verb: wire.VerbGlance, Args: args}, func(m peers.Member, g wire.Glance, err error) {
		if err != nil || g.Node.Node != m.Name {
			return
		}
		g.Node.Local = false
		if m.Standing.String() != "up" {
			g.Node.State = m.Standing.String()
		}
		heard[m.Name] = &g
		all = append(all, &g)
	})
	o := glance.Join(all)
	o.Self, o.Nodes = sv.in.Self, []wire.NodeGlance{}
	for _, m := range sv.daemon.Nodes.List() {
		if g := heard[m.Name]; g != nil {
			o.Nodes = append(o.Nodes, g.Node)
			continue
		}
		n := nodeGlance(memberInfo(&m, true))
		n.Work = launcher.Work{Node: m.Name, Silent: true}
		o.Nodes = append(o.Nodes, n)
	}
	return o, nil
}

// here looks at this node, unless the last look is younger than glanceRest. The tasks
// of the chosen job are always read.
func (sv glancer) here(job filch.JobID) (g wire.Glance, err error) {
	select {
	case sv.looked.token <- struct{}{}:
	case <-sv.in.Context().Done():
		return g, sv.in.GoingDown()
	}
	defer func() { <-sv.looked.token }()
	if time.Since(sv.looked.at) >= glanceRest {
		if sv.looked.glance, err = sv.look(); err != nil {
			return g, err
		}
		sv.looked.at = time.Now()
	}
	g = sv.looked.glance
	if job != 0 {
		list, err := sv.running(job, false)
		if err != nil {
			return g, err
		}
		if g.Tasks = list.Tasks[:min(len(list.Tasks), wire.GlanceTasks)]; len(g.Tasks) > 0 {
			tree := readProcesses()
			pids := tree.tasksOf(os.Getpid(), job)
			for i := range g.Tasks {
				if len(g.Tasks[i].Nodes) > wire.GlanceNames {
					g.Tasks[i].Nodes = nil
				}
				if pid := pids[g.Tasks[i].Index]; pid != 0 && !g.Tasks[i].Copy {
					g.Tasks[i].Memory = tree.memory(pid)
				}
			}
		}
	}
	return g, nil
}

// look reads what a [wire.Glance] has.
func (sv glancer) look() (g wire.Glance, err error) {
	var own describing
	var work launcher.Work
	var jobs []launcher.JobInfo
	err = sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		own.read(t, false)
		work = t.Node.Work(t.Now)
		jobs = glance.Jobs(t.Node, t.Now, time.Now().UnixNano())
		g.Live = glance.Live(t.Node, func(job filch.JobID) int64 { return sv.daemon.Mirror.Holds(job, -1) })
	})
	if err != nil {
		return g, err
	}
	g.Node = nodeGlance(own.info(sv.Server))
	g.Node.Work = work
	counts := sv.in.Watch.Counts()
	g.Node.Work.Messages, g.Node.Work.Store = counts["messages_out"], counts["store_out"]
	g.Jobs, g.More = glance.Choose(glance.Merge(jobs))
	return g, err
}

func nodeGlance(n wire.NodeInfo) wire.NodeGlance {
	return wire.NodeGlance{Node: n.Node, State: n.State, Silent: n.Silent, Local: n.Local, Slots: n.Slots, Stuck: n.Stuck, Labels: n.Labels, Holders: n.Holders, Alloc: n.Alloc}
}
