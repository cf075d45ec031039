package query

import (
	"context"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/disk"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/daemon/dataplane"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/daemon/staging"
	"github.com/filch-hpc/filch/launcher/glance"
	"github.com/filch-hpc/filch/launcher/mirror"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Server answers the queries of local clients and of other nodes.
type Server struct {
	daemon Parts
	in     *inputs.Queue
	waits  waiters
	last   filch.JobID // submitted here; the loop's
	looked *looked

	follows follows
	rest    rest
}

// Parts holds the parts of the daemon for queries to look at.
type Parts struct {
	Dir       place.Dir
	Build     string
	Nodes     *peers.Directory
	Questions *peers.Questions
	Routes    *dataplane.Routes
	Files     *staging.Files
	Clients   Clients
	Keepers   Keepers
	Runners   Runners
	Cuts      Cuts
	Mirror    Mirror
	Disk      Disk

	// History says why ends of jobs are not in the history, and how many; "" is none.
	History func() (why string, ends int)

	Incarnation func() uint64 // of this launcher
	Metrics     func() wire.MetricsInfo
	Board       func(stop bool) (wire.BoardInfo, error)
	Network     func() Network

	// Drain and Down carry out the orders of the same names.
	Drain func(q wire.Query, arg func(int) string, local bool) (any, error)
	Down  func(which, grace, scope string, local bool) (any, error)
}

// Network is the overlay.
type Network interface {
	Stats() overlay.Stats
	// FindNode and FindKey look for a node, and for the nodes nearest to a key.
	FindNode(ctx context.Context, name filch.NodeName) (overlay.Lookup, error)
	FindKey(ctx context.Context, key string) (overlay.Lookup, error)
}

// Clients is the local clients.
type Clients interface {
	Count() int
	// Process returns the process of a client, 0 if the client is gone.
	Process(id launcher.ClientID) int
}

// Keepers is the keepers of this node; on the loop.
type Keepers interface{ Count() int }

// Runners is the runners of this node; on the loop.
type Runners interface {
	// Endless reports whether a task runs here without a time limit.
	Endless(serial uint64) bool
	// Look and AwaitOutput, from any goroutine, read the output of running tasks.
	Look(q launcher.TaskLook) (seen []launcher.TaskSeen, whole bool)
	AwaitOutput(span launcher.TaskSpan) (news <-chan struct{}, stop func())
}

// Cuts counts the tasks whose output did not fit on the disk, or that failed when a disk
// was full.
type Cuts interface {
	Why(job filch.JobID) string
	Of(job filch.JobID, first, last launcher.TaskIndex) int
	Count() int
}

// Mirror is the mirror of the queue; all but Queue on the loop.
type Mirror interface {
	Queue() mirror.Queue
	Holds(job filch.JobID, only int64) int64
	// Held reports whether a task waits for the mirror, and does not run yet.
	Held(serial uint64) bool
	Trouble() string
}

// Disk is the log of the store.
type Disk interface {
	Stats() disk.Stats
	Slowest() (took time.Duration, why string) // the longest recent sync; the fault meanwhile
}

// New makes the server of a daemon's queries.
func New(in *inputs.Queue, p Parts) *Server {
	return &Server{daemon: p, in: in, waits: waiters{byJob: map[filch.JobID][]chan struct{}{}}, looked: newLooked(), follows: follows{rounds: map[string]*round{}, asked: map[string]*asked{}}, rest: rest{asked: map[filch.NodeName]bool{}}}
}

// OnSubmitted notes the newest job submitted here; on the loop.
func (sv *Server) OnSubmitted(job filch.JobID) { sv.last = job }

// OnEnded answers the queries that wait for the ends of jobs; on the loop.
func (sv *Server) OnEnded(jobs []filch.JobID) { sv.waits.wake(jobs) }

// Answer carries out a query. A local query may be about other nodes; a query from
// another node is about this node.
func (sv *Server) Answer(q wire.Query, local bool) (any, error) {
	arg := func(i int) string {
		if i < len(q.Args) {
			return q.Args[i]
		}
		return ""
	}
	switch q.Verb {
	case wire.VerbNodes:
		return sv.listNodes(q, local, arg(0) != wire.OnlyHere)
	case wire.VerbPs:
		return sv.ps(local)
	case wire.VerbVersion:
		return wire.VersionInfo{Build: sv.daemon.Build, Wire: wire.Version, Go: runtime.Version()}, nil
	case wire.VerbTies:
		return sv.ties()
	case wire.VerbStats:
		return counters{sv}.stats(), nil
	case wire.VerbWork:
		return counters{sv}.work(local)
	case wire.VerbMetrics:
		return counters{sv}.metrics(local)
	case wire.VerbBoard:
		if !local {
			return nil, filch.Errorf(filch.Invalid, "a node tells no other node where its dashboard is")
		}
		return sv.daemon.Board(arg(0) == wire.BoardStop)
	case wire.VerbGlance:
		return glancer{sv}.glance(arg, local)
	case wire.VerbGrows:
		return nil, sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) { t.Node.Grows(true) })
	case wire.VerbRoster:
		return sv.roster(local && arg(0) != wire.OnlyHere)
	case wire.VerbLookup:
		return sv.lookup(arg(0))
	case wire.VerbKnown:
		return sv.daemon.Questions.Known(), nil
	case wire.VerbPolicy:
		return policies{sv}.policy(arg, local)
	case wire.VerbResume:
		return sv.resume(arg(0), local)
	case wire.VerbRecover:
		return sv.recover()
	case wire.VerbDrain:
		return sv.daemon.Drain(q, arg, local)
	case wire.VerbDown:
		return sv.daemon.Down(arg(0), arg(1), arg(2), local)
	case wire.VerbOutput:
		return sv.output(q, arg, local)
	case wire.VerbEvents, wire.VerbFollow:
		return eventReader{sv}.answer(q, arg, local)
	case wire.VerbLast:
		return sv.lastLines(q, arg, local)
	case wire.VerbLive:
		return sv.live()
	case wire.VerbTask, wire.VerbTaskNow, wire.VerbTasks, wire.VerbRunning:
		return sv.aboutTask(q, arg, local)
	case wire.VerbCollect, wire.VerbUnstage:
		return sv.aboutFiles(q, arg, local)
	case wire.VerbStaged:
		return sv.staged(q, arg, local)
	case wire.VerbOutputs:
		return sv.outputs(q, arg, local)
	case wire.VerbExplain:
		return explainer{sv}.explain(q, arg, local)
	case wire.VerbInfo, wire.VerbWait, wire.VerbClose, wire.VerbCancel, wire.VerbHold, wire.VerbRequeue, wire.VerbSignal:
		return sv.aboutJob(q, arg, local)
	}
	return nil, filch.Errorf(filch.Invalid, "there is no query %q", q.Verb)
}

// selfInfo describes this node.
func (sv *Server) selfInfo(processors bool) (wire.NodeInfo, error) {
	var own describing
	// First: once the loop has answered, the loop has begun and the address is set.
	err := sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) { own.read(t, processors) })
	return own.info(sv), err
}

// describing is what this node says of itself; read is called on the loop, and info behind.
type describing struct {
	slots   launcher.SlotInfo
	holders []launcher.Holder
	lent    []filch.Processor
	free    []int32
}

func (d *describing) read(t *inputs.Turn, processors bool) {
	d.slots = t.Node.Slots()
	d.holders = append([]launcher.Holder{}, t.Node.Holders(t.Now)...)
	if processors {
		d.lent, d.free = t.Node.Processors()
	}
}

func (d *describing) info(sv *Server) wire.NodeInfo {
	m, _ := sv.daemon.Nodes.Find(sv.in.Self)
	info := wire.NodeInfo{
		SlotInfo: d.slots, State: m.Standing.String(), PID: os.Getpid(), Addrs: m.Addrs, Incarnation: sv.daemon.Incarnation(), Build: sv.daemon.Build,
		Holders: d.holders, Processors: d.lent, FreeSlots: d.free, Alloc: m.Card.Group,
	}
	if info.Holders == nil {
		info.Holders = []launcher.Holder{} // the loop did not answer
	}
	if info.Draining && info.State == "up" {
		info.State = "draining"
	}
	return info
}

// listNodes describes all members, or, for a query of another node, this node. Unless
// askThem is set, the answer shows the other nodes as this node knows them.
func (sv *Server) listNodes(q wire.Query, local, askThem bool) (any, error) {
	own, err := sv.selfInfo(slices.Contains(q.Args, wire.WithProcessors))
	if err != nil {
		return nil, err
	}
	if !local {
		return []wire.NodeInfo{own}, nil
	}
	own.Local = true
	byName := map[filch.NodeName]wire.NodeInfo{sv.in.Self: own}
	if askThem {
		peers.AskAll(sv.daemon.Questions, wire.Query{Verb: wire.VerbNodes, Args: q.Args}, func(m peers.Member, v []wire.NodeInfo, err error) {
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
	for _, m := range sv.daemon.Nodes.List() {
		info, heard := byName[m.Name]
		if !heard {
			info = memberInfo(&m, askThem)
		}
		all = append(all, info)
		delete(byName, m.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, byName[name]) // nodes that the list of members lacks
	}
	return all, nil
}

// memberInfo describes a member as this node knows the member by gossip.
func memberInfo(m *peers.Member, silent bool) wire.NodeInfo {
	info := wire.NodeInfo{State: m.Standing.String(), Addrs: m.Addrs, Incarnation: m.Incarnation, Build: m.Card.Build, PID: int(m.Card.PID), Silent: silent, Holders: []launcher.Holder{}, Alloc: m.Card.Group}
	info.Drain = m.Card.Drain
	info.Node, info.Slots, info.MemBytes, info.Labels, info.Role = m.Name, m.Total.Slots, m.Total.MemBytes, m.Labels, m.Role
	return info
}

// ps lists the jobs of all origins.
func (sv *Server) ps(local bool) (any, error) {
	jobs := []launcher.JobInfo{}
	if err := sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		jobs = glance.Jobs(t.Node, t.Now, time.Now().UnixNano())
	}); err != nil {
		return nil, err
	}
	if local {
		peers.AskAll(sv.daemon.Questions, wire.Query{Verb: wire.VerbPs}, func(_ peers.Member, v []launcher.JobInfo, err error) {
			if err == nil {
				jobs = append(jobs, v...)
			}
		})
	}
	jobs = glance.Merge(jobs)
	if local {
		sv.countLive(jobs)
	}
	return fitJobs(jobs, listBytes), nil
}

// Forward sends a query to the node named in the query.
func (sv *Server) Forward(node filch.NodeName, local bool, q wire.Query) (any, error) {
	if err := sv.checkUp(node, local); err != nil {
		return nil, err
	}
	var v any = new(jsonText)
	return v, sv.daemon.Questions.Ask(node, inputs.LoopWait+peers.AskWait, q, v)
}

// checkUp refuses a query for a node that cannot be asked, or by a client of another node.
func (sv *Server) checkUp(node filch.NodeName, local bool) error {
	m, known := sv.daemon.Nodes.Find(node)
	if !known || !local {
		return filch.Errorf(filch.NotFound, "there is no node %s", node).WithHint("`filch nodes` lists the nodes")
	}
	switch m.Standing {
	case filch.Dead:
		return filch.Errorf(filch.Unavailable, "node %s is dead", node).WithHint("`filch up` on that machine starts the launcher again")
	case filch.Left:
		return filch.Errorf(filch.Unavailable, "node %s has left the instance", node).WithHint("`filch nodes` lists the nodes that are up")
	}
	return nil
}

// jsonText is JSON that is passed on unchanged.
type jsonText []byte

func (j *jsonText) UnmarshalJSON(b []byte) error {
	*j = append((*j)[:0], b...)
	return nil
}

func (j *jsonText) MarshalJSON() ([]byte, error) { return *j, nil }

// aboutJob answers a query about a job, here or at the job's origin.
func (sv *Server) aboutJob(q wire.Query, arg func(int) string, local bool) (any, error) {
	job, err := sv.parseJob(arg(0))
	if err != nil {
		return nil, err
	}
	known := false
	if err := sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) { _, known = t.Node.Job(t.Now, job) }); err != nil {
		return nil, err
	}
	if !known && !local {
		return nil, noJob(job)
	}
	if !known {
		return sv.aboutOther(q, job, arg)
	}
	switch q.Verb {
	case wire.VerbWait:
		return sv.waitFor(job, arg(1))
	case wire.VerbExplain:
		var e launcher.Explanation
		var why *filch.Error
		if err := sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) { e, why = t.Node.Explain(t.Now, job) }); err != nil {
			return nil, err
		}
		return e, orNil(why)
	case wire.VerbClose:
		return nil, filch.Errorf(filch.Invalid, "cannot add tasks to job %d: the job is a run", job)
	case wire.VerbHold:
		return ordering{sv}.holdRun(job, arg(1))
	case wire.VerbRequeue:
		var why *filch.Error
		if err := sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) { why = t.Node.Requeue(t.Now, job, arg(1), t.Out) }); err != nil || why != nil {
			return nil, first(err, orNil(why))
		}
	case wire.VerbCancel, wire.VerbSignal:
		sig, err := strconv.Atoi(arg(1))
		if err != nil || sig < 0 || sig > 64 {
			return nil, filch.Errorf(filch.Invalid, "%q is not the number of a signal", arg(1))
		}
		if arg(3) != "" {
			return nil, noTasks(job)
		}
		var why *filch.Error
		if err := sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
			if q.Verb == wire.VerbSignal {
				why = t.Node.Signal(t.Now, job, int32(sig), t.Out)
			} else {
				why = t.Node.Cancel(t.Now, job, int32(sig), cancelledBy(arg(2)), t.Out)
			}
		}); err != nil || why != nil {
			return nil, first(err, orNil(why))
		}
	}
	var info launcher.JobInfo
	err = sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) { info, known = t.Node.Job(t.Now, job) })
	if err == nil && !known {
		err = noJob(job)
	}
	return info, err
}

// aboutOther answers a query about a job that this node does not own. The job may have
// a task record or a run record; when one of them cannot be read, since its home has
// just died, the other may give the answer. A query that waits for an end also waits
// for the successor of that home.
func (sv *Server) aboutOther(q wire.Query, job filch.JobID, arg func(int) string) (any, error) {
	deadline := time.Now()
	if q.Verb == wire.VerbWait {
		deadline = deadline.Add(parseWait(arg(1)))
	}
	for {
		j, err := sv.taskJob(job)
		if j != nil {
			return sv.aboutTasks(q, job, j, arg)
		}
		v, bad := sv.aboutRemote(q, job, arg)
		if bad != nil && kindOf(bad) == filch.NotFound {
			if i, is := findUnrecorded(sv, job); is {
				if q.Verb == wire.VerbWait && sv.in.Pause(waitChunk, deadline) {
					continue
				}
				return aboutUnrecorded(q, &i)
			}
		}
		if err == nil || bad == nil || kindOf(bad) != filch.NotFound {
			return v, bad
		}
		if !sv.in.Pause(waitChunk, deadline) {
			return nil, err
		}
	}
}

// cancelledBy names the command that ends a run, and the reason.
func cancelledBy(reason string) string {
	if reason != "" {
		return launcher.CancelReason + reason
	}
	return "filch cancel"
}

func noTasks(job filch.JobID) error {
	return filch.Errorf(filch.Invalid, "job %d is a run: a single rank cannot be ended", job).WithHint("filch cancel %d ends all of the run", job)
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
func (sv *Server) parseJob(s string) (filch.JobID, error) {
	if s == "last" {
		var last filch.JobID
		if err := sv.in.Ask(inputs.LoopWait, func(*inputs.Turn) { last = sv.last }); err != nil {
			return 0, err
		}
		if last == 0 {
			return 0, filch.Errorf(filch.NotFound, "no job was submitted through the launcher of %s since its start", sv.in.Self)
		}
		return last, nil
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n <= 0 {
		return 0, filch.Errorf(filch.Invalid, "%q is not a job", s).WithHint("a job is a number, as `filch ps` shows it, or last")
	}
	return filch.JobID(n), nil
}

// Longest is the longest time that a query may wait for an event.
const Longest = 10 * time.Minute

// parseWait reads a client's waiting time, bounded.
func parseWait(s string) time.Duration {
	t, err := time.ParseDuration(s)
	if err != nil || t > Longest {
		return Longest
	}
	return max(t, 0)
}
