package daemon

import (
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/stealer"
)

// query answers a local client on a goroutine of its own.
func (d *Daemon) query(c *client, req uint32, q wire.Query) {
	if !d.questions.Begin() {
		_ = c.Conn.Send(wire.KindAnswer, req, peers.AnswerOf(nil, filch.Errorf(filch.Busy, "%d queries are being answered already", peers.MaxQueries)))
		return
	}
	d.in.Go(func() {
		v, err := d.answer(q, true)
		d.questions.End()
		_ = c.Conn.Send(wire.KindAnswer, req, peers.AnswerOf(v, err))
		_ = c.Conn.Drain(closeDrain)
	})
}

// answer carries out a query. A local query may be about other nodes; a query from
// another node is about this node.
func (d *Daemon) answer(q wire.Query, local bool) (any, error) {
	arg := func(i int) string {
		if i < len(q.Args) {
			return q.Args[i]
		}
		return ""
	}
	switch q.Verb {
	case wire.VerbNodes:
		return d.listNodes(local, arg(0) != wire.OnlyHere)
	case wire.VerbPs:
		return d.ps(local)
	case wire.VerbVersion:
		return wire.VersionInfo{Build: d.cfg.Build, Wire: wire.Version, Go: runtime.Version()}, nil
	case wire.VerbTies:
		return d.ties()
	case wire.VerbStats:
		return d.stats(), nil
	case wire.VerbRoster:
		return d.roster(local && arg(0) != wire.OnlyHere)
	case wire.VerbPolicy:
		return d.policy(arg, local)
	case wire.VerbResume:
		return d.resume(arg(0), local)
	case wire.VerbRecover:
		return d.recover()
	case wire.VerbDrain:
		return d.drain(q, arg, local)
	case wire.VerbDown:
		return d.down(arg(0), arg(1), arg(2), local)
	case wire.VerbLog:
		return d.logPart(arg)
	case wire.VerbTask, wire.VerbTasks, wire.VerbPrinted:
		return d.aboutTask(q, arg, local)
	case wire.VerbCollect, wire.VerbUnstage:
		return d.aboutFiles(q, arg, local)
	case wire.VerbInfo, wire.VerbWait, wire.VerbExplain, wire.VerbClose, wire.VerbCancel, wire.VerbSignal, wire.VerbLogs:
		return d.aboutJob(q, arg, local)
	}
	return nil, filch.Errorf(filch.Invalid, "there is no query %q", q.Verb)
}

// selfInfo describes this node.
func (d *Daemon) selfInfo() (wire.NodeInfo, error) {
	var slots launcher.SlotInfo
	// First: once the loop has answered, the loop has begun and the address is set.
	err := d.in.Ask(inputs.LoopWait, func(t *inputs.Turn) { slots = t.Node.Slots() })
	m, _ := d.nodes.Find(d.in.Self)
	info := wire.NodeInfo{
		SlotInfo: slots, State: m.Standing.String(), PID: os.Getpid(), Addrs: m.Addrs, Incarnation: d.cfg.Node.Incarnation, Build: d.cfg.Build,
	}
	if info.Draining && info.State == "up" {
		info.State = "draining"
	}
	return info, err
}

// listNodes describes all members, or, for a query of another node, this node. Unless
// askThem is set, the answer shows the other nodes as this node knows them.
func (d *Daemon) listNodes(local, askThem bool) (any, error) {
	own, err := d.selfInfo()
	if err != nil {
		return nil, err
	}
	if !local {
		return []wire.NodeInfo{own}, nil
	}
	own.Local = true
	byName := map[filch.NodeName]wire.NodeInfo{d.in.Self: own}
	if askThem {
		peers.AskAll(d.questions, wire.Query{Verb: wire.VerbNodes}, func(m peers.Member, v []wire.NodeInfo, err error) {
			if err != nil || len(v) != 1 || v[0].Node != m.Name {
				return
			}
			v[0].Local = false
			if m.Standing.String() != "up" {
				v[0].State = m.Standing.String()
			}
			byName[m.Name] = v[0]
		})
	}
	all := []wire.NodeInfo{}
	for _, m := range d.nodes.List() {
		info, heard := byName[m.Name]
		if !heard {
			info = wire.NodeInfo{State: m.Standing.String(), Addrs: m.Addrs, Incarnation: m.Incarnation, Build: m.Card.Build, PID: int(m.Card.PID), Silent: askThem}
			info.Drain = m.Card.Drain
			info.Node, info.Slots, info.MemBytes = m.Name, m.Total.Slots, m.Total.MemBytes
		}
		all = append(all, info)
	}
	return all, nil
}

// ps lists the jobs of all origins.
func (d *Daemon) ps(local bool) (any, error) {
	jobs := []launcher.JobInfo{}
	if err := d.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		jobs = append(append(jobs, t.Node.Jobs(t.Now)...), t.Node.HomedJobs()...)
		jobs = append(jobs, t.Node.HomedTasks(time.Now().UnixNano())...)
	}); err != nil {
		return nil, err
	}
	if local {
		peers.AskAll(d.questions, wire.Query{Verb: wire.VerbPs}, func(_ peers.Member, v []launcher.JobInfo, err error) {
			if err == nil {
				jobs = append(jobs, v...)
			}
		})
	}
	return fitting(joined(jobs), listBytes), nil
}

func (d *Daemon) stats() wire.StatsInfo {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	s := wire.StatsInfo{
		Node: d.in.Self, UptimeSecs: d.in.Now().Seconds(), Counts: d.in.Watch.Counts(), Sent: d.in.Watch.Kinds(),
		Clients: d.clients.count(), Routes: d.routes.Count(),
		Goroutines: runtime.NumGoroutine(), HeapBytes: mem.HeapAlloc, Conns: d.net.Stats().Conns,
	}
	_ = d.in.Ask(inputs.LoopWait, func(*inputs.Turn) { s.Keepers = len(d.keepers.all) })
	return s
}

// forward sends a query to the node named in the query.
func (d *Daemon) forward(node filch.NodeName, local bool, q wire.Query) (any, error) {
	m, known := d.nodes.Find(node)
	if !known || !local {
		return nil, filch.Errorf(filch.NotFound, "there is no node %s", node).WithHint("`filch nodes` lists them")
	}
	switch m.Standing {
	case stealer.Dead:
		return nil, filch.Errorf(filch.Unavailable, "node %s is dead", node).WithHint("`filch up` on its machine starts it again")
	case stealer.Left:
		return nil, filch.Errorf(filch.Unavailable, "node %s has left the instance", node).WithHint("`filch nodes` lists those that are up")
	}
	var v any = new(jsonText)
	return v, d.questions.Ask(node, inputs.LoopWait+peers.AskWait, q, v)
}

// jsonText is JSON that is passed on unchanged.
type jsonText []byte

func (j *jsonText) UnmarshalJSON(b []byte) error {
	*j = append((*j)[:0], b...)
	return nil
}

func (j *jsonText) MarshalJSON() ([]byte, error) { return *j, nil }

// aboutJob answers a query about a job, here or at the job's origin.
func (d *Daemon) aboutJob(q wire.Query, arg func(int) string, local bool) (any, error) {
	job, err := d.parseJob(arg(0))
	if err != nil {
		return nil, err
	}
	known := false
	if err := d.in.Ask(inputs.LoopWait, func(t *inputs.Turn) { _, known = t.Node.Job(t.Now, job) }); err != nil {
		return nil, err
	}
	if !known && !local {
		return nil, noJob(job)
	}
	if !known {
		return d.aboutOther(q, job, arg)
	}
	switch q.Verb {
	case wire.VerbWait:
		return d.waitFor(job, arg(1))
	case wire.VerbExplain:
		var e launcher.Explanation
		var why *filch.Error
		if err := d.in.Ask(inputs.LoopWait, func(t *inputs.Turn) { e, why = t.Node.Explain(t.Now, job) }); err != nil {
			return nil, err
		}
		return e, orNil(why)
	case wire.VerbLogs:
		return d.readLogs(job, arg)
	case wire.VerbClose:
		return nil, filch.Errorf(filch.Invalid, "job %d is a run: there are no tasks that could be added to it", job)
	case wire.VerbCancel, wire.VerbSignal:
		sig, err := strconv.Atoi(arg(1))
		if err != nil || sig < 0 || sig > 64 {
			return nil, filch.Errorf(filch.Invalid, "%q is not the number of a signal", arg(1))
		}
		var why *filch.Error
		if err := d.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
			if q.Verb == wire.VerbSignal {
				why = t.Node.Signal(t.Now, job, int32(sig), t.Out)
			} else {
				why = t.Node.Cancel(t.Now, job, int32(sig), "filch cancel", t.Out)
			}
		}); err != nil || why != nil {
			return nil, first(err, orNil(why))
		}
	}
	var info launcher.JobInfo
	err = d.in.Ask(inputs.LoopWait, func(t *inputs.Turn) { info, known = t.Node.Job(t.Now, job) })
	if err == nil && !known {
		err = noJob(job)
	}
	return info, err
}

// aboutOther answers a query about a job that this node does not own. The job may have
// a task record or a run record; when one of them cannot be read, since its home has
// just died, the other may give the answer. A query that waits for an end also waits
// for the successor of that home.
func (d *Daemon) aboutOther(q wire.Query, job filch.JobID, arg func(int) string) (any, error) {
	deadline := time.Now()
	if q.Verb == wire.VerbWait {
		deadline = deadline.Add(parseWait(arg(1)))
	}
	for {
		j, err := d.taskJob(job)
		if j != nil {
			return d.aboutTasks(q, job, j, arg)
		}
		v, bad := d.elsewhere(q, job, arg)
		if err == nil || bad == nil || kindOf(bad) != filch.NotFound {
			return v, bad
		}
		if !d.in.Pause(waitChunk, deadline) {
			return nil, err
		}
	}
}

func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// orNil keeps a nil pointer from becoming an error.
func orNil(e *filch.Error) error {
	if e == nil {
		return nil
	}
	return e
}

func noJob(j filch.JobID) error {
	return filch.Errorf(filch.NotFound, "there is no job %d", j).WithHint("`filch ps` lists jobs; those that ended long ago are forgotten")
}

// parseJob reads a job id; "last" is the newest job submitted here.
func (d *Daemon) parseJob(s string) (filch.JobID, error) {
	if s == "last" {
		var last filch.JobID
		if err := d.in.Ask(inputs.LoopWait, func(*inputs.Turn) { last = d.loop.last }); err != nil {
			return 0, err
		}
		if last == 0 {
			return 0, filch.Errorf(filch.NotFound, "no job was submitted through the launcher of %s since it began", d.in.Self)
		}
		return last, nil
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n <= 0 {
		return 0, filch.Errorf(filch.Invalid, "%q is not a job", s).WithHint("a job is a number, as `filch ps` shows it, or last")
	}
	return filch.JobID(n), nil
}

// longest is the longest time that a query may wait for an event.
const longest = 10 * time.Minute

// parseWait reads a client's waiting time, bounded.
func parseWait(s string) time.Duration {
	t, err := time.ParseDuration(s)
	if err != nil || t > longest {
		return longest
	}
	return max(t, 0)
}
