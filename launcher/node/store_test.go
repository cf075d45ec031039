package node_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	. "github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// detach submits a detached job and waits until it is acknowledged.
func (w *net) detach(name filch.NodeName, client launcher.ClientID, r launcher.Request) filch.JobID {
	w.t.Helper()
	r.Detach = true
	before := len(w.replies)
	w.submit(name, client, r)
	for range 200 {
		w.run(50 * ms)
		for _, line := range w.replies[before:] {
			var id filch.JobID
			if _, err := fmt.Sscanf(line, string(name)+" client %d: Accepted %d", new(int), &id); err == nil {
				return id
			}
		}
	}
	w.t.Fatalf("at %v a detached job was not acknowledged: %q", w.Now(), w.replies[before:])
	return 0
}

// told is a job as the records of all live nodes tell it.
func (w *net) told(id filch.JobID) (launcher.JobInfo, bool) {
	for _, name := range w.names {
		if h := w.nodes[name]; h.Up() {
			for _, i := range h.node.HomedJobs() {
				if i.ID == id {
					return i, true
				}
			}
		}
	}
	return launcher.JobInfo{}, false
}

// dies ends a machine, and tells the others of it some time later.
func (w *net) dies(name filch.NodeName) {
	w.crash(name, true)
	w.run(2 * sec)
	w.declare(name, filch.Suspect)
	w.run(3 * sec)
	w.declare(name, filch.Dead)
}

// until runs until ok holds, at most for d.
func (w *net) until(what string, d time.Duration, ok func() bool) {
	w.t.Helper()
	for end := w.Now() + d; !ok(); {
		if w.Now() >= end {
			w.t.Fatalf("at %v: waited in vain for %s", w.Now(), what)
		}
		w.run(20 * ms)
	}
}

func TestJobsAreRecords(t *testing.T) {
	w := newNet(t, 3, 4)
	seen := map[filch.JobID]bool{}
	for i := range 120 {
		name := w.names[i%3]
		id := w.submit(name, launcher.ClientID(i+1), gang(1))
		if id == 0 || seen[id] {
			t.Fatalf("job %d on %s got the id %d", i, name, id)
		}
		seen[id] = true
		w.run(400 * ms)
	}
	w.run(5 * sec)
	for id := range seen {
		i, ok := w.told(id)
		if !ok || i.Code == nil || *i.Code != 0 || i.Tasks.OK != 1 || i.Tasks.Total != 1 || i.Origin == "" {
			t.Fatalf("job %d: got %+v, %t", id, i, ok)
		}
	}
	w.quiet()
}

func TestAShortJobIsWrittenOnce(t *testing.T) {
	w := newNet(t, 1, 4)
	w.behave = func(k *keeper) { k.at = 5 * ms }
	w.submit("n1", 1, gang(1))
	w.run(2 * sec)
	before := w.nodes["n1"].logged()
	for i := range 20 {
		w.submit("n1", launcher.ClientID(i+2), gang(1))
		w.run(10 * ms)
	}
	w.run(2 * sec)
	if n := w.nodes["n1"].logged() - before; n > 40 {
		t.Errorf("20 short jobs took %d entries of the log", n)
	}
}

// logged counts the records that the node's disk holds.
func (h *host) logged() int { return len(h.disk) }

// Nothing of a detached job is told before it is kept, and its number is not
// used again.
func TestADetachedJobIsAcknowledgedWhenItIsKept(t *testing.T) {
	w := newNet(t, 3, 4)
	w.faults.cut = func(from, to filch.NodeName) bool { return from == "n1" || to == "n1" }
	w.declare("n1", filch.Dead)
	r := gang(1)
	r.Detach = true
	w.submit("n1", 1, r)
	w.run(3 * sec)
	if len(w.replies) > 0 {
		t.Fatalf("a node that is cut off said %q", w.replies)
	}
	w.run(4 * sec)
	if !slices.ContainsFunc(w.replies, func(s string) bool { return strings.Contains(s, "StillWaiting") }) {
		t.Errorf("nobody was told what the job waits for: %q", w.replies)
	}
}

// The node where a detached job was submitted dies: another takes the job over.
func TestADetachedJobOutlivesItsOrigin(t *testing.T) {
	for _, c := range []struct {
		name    string
		where   []filch.NodeName // of its ranks
		requeue bool
		code    int32
		attempt filch.Attempt
		within  time.Duration
	}{
		{"its-ranks-are-elsewhere", []filch.NodeName{"n2", "n3"}, false, 0, 1, 60 * sec},
		{"with-ranks-of-its-own", []filch.NodeName{"n1", "n2"}, false, filch.ExitNodeLost, 1, 20 * sec},
		{"with-ranks-of-its-own-and-requeue", nil, true, 0, 2, 120 * sec},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newNet(t, 5, 4)
			w.behave = func(k *keeper) { k.at = 40 * sec }
			r := gang(8)
			r.Shape.Only, r.Policy.Requeue = c.where, c.requeue
			if c.where == nil {
				r.Shape.Exclude = []filch.NodeName{"n3", "n4", "n5"}
				r = gang(8)
				r.Policy.Requeue = true
			}
			r.Order = []byte(strings.Repeat("order", 100_000)) // several pieces
			id := w.detach("n1", 1, r)
			w.run(2 * sec)
			i, ok := w.told(id)
			if !ok || i.State != "running" {
				t.Fatalf("got %+v, %t, want a running job", i, ok)
			}
			if c.where == nil && !slices.Contains(i.Nodes, "n1") {
				t.Fatalf("runs on %v, want n1 among them", i.Nodes)
			}
			w.dies("n1")
			w.until("the end of the job", c.within, func() bool { i, _ := w.told(id); return i.Code != nil })
			i, _ = w.told(id)
			if *i.Code != c.code || i.Attempt != c.attempt || i.Hop != 1 || i.Origin == "n1" {
				t.Errorf("got %+v", i)
			}
			w.run(20 * sec)
			w.quiet()
		})
	}
}

// A job that waits goes on waiting in its place.
func TestAWaitingDetachedJobKeepsItsTicket(t *testing.T) {
	w := newNet(t, 5, 4)
	w.behave = func(k *keeper) { k.at = 20 * sec }
	r := gang(16)
	r.Shape.Exclude = []filch.NodeName{"n1"}
	w.submit("n2", 1, r)
	w.run(sec)
	id := w.detach("n1", 2, gang(16))
	w.run(sec)
	younger := w.submit("n3", 3, gang(16))
	w.run(sec)
	w.dies("n1")
	w.until("the waiting job to run", 30*sec, func() bool { i, _ := w.told(id); return i.State == "running" })
	if i, _ := w.nodes["n3"].node.Job(w.Now(), younger); i.State != "waiting" {
		t.Errorf("the younger job is %s", i.State)
	}
	w.until("both to end", 90*sec, func() bool {
		i, _ := w.told(id)
		j, _ := w.told(younger)
		return i.Code != nil && j.Code != nil
	})
	if i, _ := w.told(id); *i.Code != 0 || i.Hop != 1 {
		t.Errorf("got %+v", i)
	}
	w.run(20 * sec)
	w.quiet()
}

// The record of an attached job says that its node was lost.
func TestAnAttachedJobEndsWithItsOrigin(t *testing.T) {
	w := newNet(t, 5, 4)
	w.behave = func(k *keeper) { k.at = 100 * sec }
	id := w.submit("n1", 1, gang(8))
	w.run(2 * sec)
	w.dies("n1")
	w.until("the record to say so", 10*sec, func() bool { i, _ := w.told(id); return i.Code != nil })
	if i, _ := w.told(id); *i.Code != filch.ExitNodeLost || i.State != "lost" || i.Tasks.Lost != 8 {
		t.Errorf("got %+v", i)
	}
	w.run(20 * sec)
	w.quiet()
}

// split cuts a node off from the others; each side says that the other is dead.
func (w *net) split(name filch.NodeName) {
	w.faults.cut = func(from, to filch.NodeName) bool { return (from == name) != (to == name) }
	w.run(2 * sec)
	standing := func(s filch.Standing) {
		w.declare(name, s)
		h := w.nodes[name]
		for _, o := range w.names {
			if o != name {
				h.input(func(out *launcher.Outbox) { h.node.Peer(w.Now(), w.peer(o, s), out) })
			}
		}
	}
	standing(filch.Suspect)
	w.run(3 * sec)
	standing(filch.Dead)
}

// heal joins it again: it learns that it was declared dead.
func (w *net) heal(name filch.NodeName) {
	w.faults.cut = nil
	h := w.nodes[name]
	h.input(func(out *launcher.Outbox) {
		h.node.Peer(w.Now(), Peer{Name: name, Incarnation: h.cfg.Incarnation, Standing: filch.Dead}, out)
	})
	w.run(5 * sec)
	h.cfg.Incarnation++
	h.input(func(out *launcher.Outbox) { h.node.Reborn(w.Now(), h.cfg.Incarnation, out) })
	for _, o := range w.names {
		if o != name {
			h.input(func(out *launcher.Outbox) { h.node.Peer(w.Now(), w.peer(o, filch.Up), out) })
		}
	}
	w.declare(name, filch.Up)
	w.run(sec)
}

// An origin that is cut off loses its jobs to the others; what runs on it ends
// before the job may start again.
func TestAnOriginThatIsCutOffLosesItsJobs(t *testing.T) {
	for _, requeue := range []bool{false, true} {
		w := newNet(t, 5, 4)
		running := map[filch.NodeName]time.Duration{}
		w.behave = func(k *keeper) {
			k.at = 60 * sec
			if k.host.Name != "n1" && k.start.Launch.Ident.Attempt > 1 && len(w.nodes["n1"].keepers) > 0 {
				t.Errorf("at %v: attempt %d starts on %s, and ranks run on n1", w.Now(), k.start.Launch.Ident.Attempt, k.host.Name)
			}
			running[k.host.Name] = w.Now()
		}
		r := gang(8)
		r.Shape.Only = []filch.NodeName{"n1", "n2"}
		if requeue {
			r.Shape.Only = nil
		}
		r.Policy.Requeue = requeue
		r.Policy.KillWait = sec
		id := w.detach("n1", 1, r)
		w.run(2 * sec)
		if running["n1"] == 0 {
			t.Fatalf("runs on %v, want n1 among them", running)
		}
		w.split("n1")
		w.until("the ranks on n1 to end", 9*sec, func() bool { return len(w.nodes["n1"].keepers) == 0 })
		w.run(25 * sec)
		w.heal("n1")
		w.until("the end of the job", 120*sec, func() bool { i, _ := w.told(id); return i.Code != nil })
		i, _ := w.told(id)
		if want := map[bool]int32{false: filch.ExitNodeLost, true: 0}[requeue]; *i.Code != want || i.Hop < 1 {
			t.Errorf("requeue %t: got %+v", requeue, i)
		}
		w.run(30 * sec)
		w.quiet()
	}
}

// A node that keeps too much drops the records of the oldest ended jobs.
func TestTheOldestEndedJobsGoFirst(t *testing.T) {
	w := newNet(t, 3, 4)
	w.behave = func(k *keeper) { k.at = ms }
	for i := range 400 {
		w.submit(w.names[i%3], launcher.ClientID(i+1), gang(1))
		w.run(20 * ms)
	}
	live := w.detach("n1", 1000, gang(1))
	w.run(5 * sec)
	left := func() (ids []filch.JobID) {
		for _, name := range w.names {
			for _, i := range w.nodes[name].node.HomedJobs() {
				ids = append(ids, i.ID)
			}
		}
		slices.Sort(ids)
		return ids
	}
	before := left()
	if len(before) != 401 {
		t.Fatalf("got %d records, want 401", len(before))
	}
	dropped := 0
	for _, name := range w.names {
		h := w.nodes[name]
		h.input(func(out *launcher.Outbox) { h.node.DropOldest(w.Now(), out) })
		w.run(sec)
		dropped += h.node.Dropped()
	}
	after := left()
	if dropped < 3*50 || len(after) != len(before)-dropped {
		t.Fatalf("%d were dropped, %d of %d are left", dropped, len(after), len(before))
	}
	// Each home drops its oldest: of what is left nothing is much older than what went.
	if after[0] <= before[10] || !slices.Contains(after, live) {
		t.Errorf("the oldest left is %d, the newest %d; %d should be there", after[0], after[len(after)-1], live)
	}
}

// A launcher does not grow with every run: of attached jobs, whose clients have
// heard the end, the newest stay recorded.
func TestOnlyTheNewestAttachedJobsStay(t *testing.T) {
	w := newNet(t, 3, 4)
	w.behave = func(k *keeper) { k.at = ms }
	kept := w.detach("n1", 1, gang(1))
	const n = records.AttachedKept + 200
	for i := range n {
		w.submit("n1", launcher.ClientID(i+2), gang(1))
		w.run(20 * ms)
	}
	w.run(5 * sec)
	var ids []filch.JobID
	for _, name := range w.names {
		for _, i := range w.nodes[name].node.HomedJobs() {
			ids = append(ids, i.ID)
		}
	}
	slices.Sort(ids)
	if len(ids) < records.AttachedKept || len(ids) >= records.AttachedKept+100 || ids[0] != kept {
		t.Fatalf("%d of %d jobs are recorded, the oldest is %d; %d should be there", len(ids), n+1, ids[0], kept)
	}
	if ids[1] < kept+100 {
		t.Errorf("job %d is still recorded, newer ones went", ids[1])
	}
}

// Jobs of tasks go with all of their records, as runs do; one that goes on stays.
func TestOldJobsOfTasksGoWhole(t *testing.T) {
	w := newNet(t, 3, 4)
	records := func() (n int) {
		for _, h := range w.nodes {
			s := h.node.StoreStatus()
			n += s.Records
		}
		return n
	}
	homed := func() (ids []filch.JobID) {
		for _, name := range w.names {
			for _, i := range w.nodes[name].node.HomedTasks(0) {
				ids = append(ids, i.ID)
			}
		}
		slices.Sort(ids)
		return ids
	}
	before := records()
	open := w.bag("n1", 1, 1, func(s *submit.Job) { s.Open = true })
	var gone []filch.JobID
	for i := range 4 {
		id := w.bag(w.names[i%3], launcher.ClientID(i+2), 600, func(s *submit.Job) {
			if i%2 == 1 {
				s.Spec.Payloads = true
				s.Lines = slices.Repeat([][]byte{{launcher.BodyOrder, 'x'}}, 600)
			}
		})
		if n := w.tally(id, 60*sec); n.OK != 600 {
			t.Fatalf("job %d: got %+v", id, n)
		}
		gone = append(gone, id)
	}
	w.run(5 * sec)
	h := w.nodes["n2"] // whichever node keeps too much
	h.input(func(out *launcher.Outbox) { h.node.DropOldest(w.Now(), out) })
	w.run(5 * sec)
	dropped := h.node.Dropped()
	if left := homed(); dropped != len(gone) || !slices.Equal(left, []filch.JobID{open}) {
		t.Errorf("%d were dropped and %v are left; want %d, and job %d left", dropped, left, len(gone), open)
	}
	w.run(dht.KeepRemoved + sec)
	// Three replicas of the records of the open job, and of what is no job's.
	if n := records() - before; n > 3*8 {
		t.Errorf("%d records more are kept than before the jobs", n)
	}
}

// A node that is nearly full takes nothing that has to be recorded, until there
// is room again; what it has goes on.
func TestAFullNodeTakesNoMore(t *testing.T) {
	w := newNet(t, 1, 4)
	w.chores.lasts = ms
	h := w.nodes["n1"]
	open := w.bag("n1", 1, 1, func(s *submit.Job) { s.Open = true })
	h.input(func(out *launcher.Outbox) { h.node.StoreFull(true) })
	h.input(func(out *launcher.Outbox) { h.node.GrowTasks(w.Now(), 1, open, 1, 5, nil, out) })
	if r := w.heard(open, launcher.TasksRefused); r == nil || r.Err.Kind != filch.Unavailable {
		t.Errorf("to add tasks was not refused: %+v", r)
	}
	bag := submit.Job{Name: "bag", Total: 1, Spec: record.Spec{Each: filch.Room{Slots: 1}, Body: []byte{launcher.BodyOrder}}}
	h.input(func(out *launcher.Outbox) { h.node.SubmitTasks(w.Now(), 2, bag, 0, out) })
	if last := w.replies[len(w.replies)-1]; !strings.HasPrefix(last, "n1 client 2: ") || !strings.Contains(last, "cannot record more") {
		t.Errorf("who submitted a bag heard %q", last)
	}
	r := gang(1)
	r.Detach = true
	w.submit("n1", 3, r)
	if last := w.replies[len(w.replies)-1]; !strings.Contains(last, "Refused") {
		t.Errorf("a detached job heard %q", last)
	}
	if id := w.submit("n1", 4, gang(1)); id == 0 {
		t.Error("an attached run was refused")
	}
	w.run(5 * sec)
	h.input(func(out *launcher.Outbox) { h.node.StoreFull(false) })
	h.input(func(out *launcher.Outbox) { h.node.GrowTasks(w.Now(), 1, open, 1, 5, nil, out) })
	h.input(func(out *launcher.Outbox) { h.node.CloseTasks(w.Now(), open, out) })
	if n := w.tally(open, 30*sec); n.OK != 6 {
		t.Errorf("got %+v, want that all of the open bag ended well", n)
	}
}
