package node_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	. "github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// chores says how tasks end in a net.
type chores struct {
	walltime policy.Walltime
	lasts    time.Duration
	brief    time.Duration                                         // how long a task lasts that fails; 0: as others
	end      func(h *host, l launcher.TaskLaunch) launcher.TaskEnd // nil: well
	gangEnds []launcher.TaskEnd
	begun    map[filch.NodeName]int
	drainBad int
	peak     int
	waited   int             // tasks that waited for the end of another
	tries    []filch.Attempt // of the gangs, as their programs see them
}

// do starts and stops tasks as a daemon would.
func (h *host) do(o *launcher.Outbox) {
	w := h.net
	if h.chores == nil {
		h.chores = map[uint64]launcher.TaskLaunch{}
	}
	h.gangs(o)
	for _, l := range o.Tasks {
		if l.Start.Spec.Gang.Ranks > 0 {
			continue
		}
		h.begin(l)
	}
	for _, s := range o.TaskStops {
		for after, l := range h.waiting {
			if l.Serial == s.Serial {
				delete(h.waiting, after)
				h.chores[s.Serial] = l
			}
		}
		w.After(ms, func() { h.finish(s.Serial, launcher.TaskEnd{Kind: launcher.CauseSignal, Code: 15, Told: true}) })
	}
}

// begin has a task run for its time. A successor waits for the end of the task before it.
func (h *host) begin(l launcher.TaskLaunch) {
	w := h.net
	if _, runs := h.chores[l.After]; runs {
		if h.waiting == nil {
			h.waiting = map[uint64]launcher.TaskLaunch{}
		}
		h.waiting[l.After] = l
		w.chores.waited++
		return
	}
	if w.chores.begun == nil {
		w.chores.begun = map[filch.NodeName]int{}
	}
	w.chores.begun[h.Name]++
	h.chores[l.Serial] = l
	w.chores.peak = max(w.chores.peak, len(h.chores))
	end := launcher.TaskEnd{}
	if w.chores.end != nil {
		end = w.chores.end(h, l)
	}
	lasts := w.chores.lasts
	if end.Code != 0 && w.chores.brief > 0 {
		lasts = w.chores.brief
	}
	w.After(lasts, func() { h.finish(l.Serial, end) })
}

// finish ends a task once.
func (h *host) finish(serial uint64, end launcher.TaskEnd) {
	if _, ok := h.chores[serial]; !ok {
		return
	}
	delete(h.chores, serial)
	if l, ok := h.waiting[serial]; ok {
		delete(h.waiting, serial)
		h.begin(l)
	}
	end.Serial = serial
	h.input(func(out *launcher.Outbox) { h.node.TaskEnds(h.net.Now(), []launcher.TaskEnd{end}, out) })
}

// bag submits tasks of one slot, whose ends their client hears of.
func (w *net) bag(name filch.NodeName, client launcher.ClientID, total int32, change func(*submit.Job)) filch.JobID {
	w.t.Helper()
	s := submit.Job{Name: "bag", Total: total, Follow: true, Spec: record.Spec{
		Each: filch.Room{Slots: 1}, CrashLimit: record.CrashLimit, Body: []byte{launcher.BodyOrder},
	}}
	if change != nil {
		change(&s)
	}
	h := w.nodes[name]
	before := w.jobs()
	h.input(func(out *launcher.Outbox) { h.node.SubmitTasks(w.Now(), client, s, int64(w.Now()), out) })
	var id filch.JobID
	w.until("a bag to be accepted", 30*sec, func() bool {
		for _, j := range w.jobs() {
			if !slices.Contains(before, j) && w.heard(j, launcher.TasksAccepted) != nil {
				id = j
			}
		}
		return id != 0
	})
	return id
}

func (w *net) jobs() (all []filch.JobID) {
	for id := range w.events {
		all = append(all, id)
	}
	return all
}

// heard is the last news of a kind about a job.
func (w *net) heard(id filch.JobID, what launcher.TaskNewsKind) *launcher.TaskNews {
	for _, e := range slices.Backward(w.events[id]) {
		if n, ok := e.(launcher.TaskNews); ok && n.What == what {
			return &n
		}
	}
	return nil
}

func jobOf(e launcher.Event) filch.JobID {
	switch e := e.(type) {
	case launcher.TaskNews:
		return e.Job
	case launcher.Accepted:
		return e.Job
	case launcher.StillWaiting:
		return e.Job
	case launcher.Granted:
		return e.Job
	case launcher.Started:
		return e.Job
	case launcher.RankEnds:
		return e.Job
	case launcher.Ending:
		return e.Job
	case launcher.Ended:
		return e.Job
	}
	return 0
}

// tally waits for the end of a bag.
func (w *net) tally(id filch.JobID, within time.Duration) record.Tally {
	w.t.Helper()
	w.until("the end of a bag", within, func() bool { return w.heard(id, launcher.TasksFinished) != nil })
	return w.heard(id, launcher.TasksFinished).Tally
}

// A gang and a bag that take turns in the same slots both get on.
func TestGangsAndTasksShareSlots(t *testing.T) {
	w := newNet(t, 3, 4)
	w.chores.lasts = 100 * ms
	w.behave = func(k *keeper) { k.at = sec }
	id := w.bag("n1", 1, 600, nil)
	w.run(sec)
	if w.chores.begun["n2"] == 0 || w.chores.begun["n3"] == 0 {
		t.Errorf("tasks began on %v only", w.chores.begun)
	}
	var gangs []filch.JobID
	for i := range 6 {
		gangs = append(gangs, w.submit(w.names[i%3], launcher.ClientID(10+i), gang(12)))
		w.run(100 * ms)
	}
	for i, g := range gangs {
		w.until("a gang to end", 20*sec, func() bool { return w.over(g) })
		if w.heard(id, launcher.TasksFinished) != nil && i < 3 {
			t.Errorf("gang %d waited for all tasks", i)
		}
	}
	if n := w.tally(id, 60*sec); n.OK != 600 {
		t.Errorf("got %+v, want 600 ok", n)
	}
	if w.chores.peak > 4 {
		t.Errorf("%d tasks at a time in 4 slots", w.chores.peak)
	}
	w.run(20 * sec)
	w.quiet()
}

func (w *net) over(id filch.JobID) bool {
	return slices.ContainsFunc(w.events[id], func(e launcher.Event) bool { _, ok := e.(launcher.Ended); return ok })
}

// What ran when a runner vanished is tried again, and lost where it must not be
// or was tried too often.
func TestTasksOfARunnerThatVanishes(t *testing.T) {
	for _, c := range []struct {
		name  string
		once  bool
		often int // of how many attempts the runner vanishes
		want  record.Tally
		began int
	}{
		{"is-tried-again", false, 2, record.Tally{OK: 8}, 8 + 16},
		{"is-given-up", false, 100, record.Tally{Lost: 8}, 8 * record.CrashLimit},
		{"runs-once", true, 1, record.Tally{Lost: 8}, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newNet(t, 1, 4)
			w.chores.lasts = 20 * ms
			w.chores.end = func(_ *host, l launcher.TaskLaunch) launcher.TaskEnd {
				if int(l.Start.Attempt) > c.often {
					return launcher.TaskEnd{}
				}
				return launcher.TaskEnd{Kind: launcher.CauseNodeLost, Code: filch.ExitNodeLost, Text: "its runner vanished"}
			}
			id := w.bag("n1", 1, 8, func(s *submit.Job) { s.Spec.Once = c.once })
			if got := w.tally(id, 60*sec); got != c.want || w.chores.begun["n1"] != c.began {
				t.Errorf("got %+v after %d starts, want %+v after %d", got, w.chores.begun["n1"], c.want, c.began)
			}
			w.quiet()
		})
	}
}

// What a task died of is its code.
func TestTaskEndCodes(t *testing.T) {
	for _, c := range []struct {
		name string
		end  launcher.TaskEnd
		code int32
		want filch.State
	}{
		{"exit", launcher.TaskEnd{Kind: launcher.CauseExit, Code: 3}, 3, filch.Failed},
		{"signal", launcher.TaskEnd{Kind: launcher.CauseSignal, Code: 11}, 139, filch.Killed},
		{"oom", launcher.TaskEnd{Kind: launcher.CauseOOM, Code: 9}, 137, filch.Killed},
		{"limit", launcher.TaskEnd{Kind: launcher.CauseTimeLimit, Code: filch.ExitTimeLimit}, filch.ExitTimeLimit, filch.Killed},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newNet(t, 1, 2)
			w.chores.end = func(*host, launcher.TaskLaunch) launcher.TaskEnd { return c.end }
			id := w.bag("n1", 1, 1, nil)
			w.tally(id, 10*sec)
			var got *launcher.Task
			h := w.nodes["n1"]
			h.input(func(out *launcher.Outbox) {
				h.node.FindTask(w.Now(), id, 0, sec, func(k *launcher.Task, _ *filch.Error) { got = k }, out)
			})
			w.run(sec)
			if got == nil || got.Code == nil || *got.Code != c.code || got.State != c.want.String() {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// A task that cannot be killed keeps its slot, and the others go on without it.
func TestATaskThatCannotBeKilledKeepsItsSlot(t *testing.T) {
	w := newNet(t, 1, 2)
	w.chores.end = func(_ *host, l launcher.TaskLaunch) launcher.TaskEnd {
		return launcher.TaskEnd{Kind: launcher.CauseOurs, Code: filch.ExitOurs, Left: l.Start.Index == 0}
	}
	id := w.bag("n1", 1, 20, nil)
	if got := w.tally(id, 10*sec); got.Failed != 20 {
		t.Errorf("got %+v", got)
	}
	if s := w.nodes["n1"].node.Slots(); s.Free != 1 || s.Stuck != 1 || s.Tasks != 0 {
		t.Errorf("%d slots are free, %d stuck, %d with tasks; want 1, 1, 0", s.Free, s.Stuck, s.Tasks)
	}
}

// sleeps makes tasks that are built in.
func sleeps(d time.Duration) func(*submit.Job) {
	return func(s *submit.Job) {
		s.Spec.Body = binary.BigEndian.AppendUint64([]byte{launcher.BodySleep}, uint64(d))
	}
}

// A bag of tasks that do nothing is not done in one input.
func TestNothingToDoTakesTurns(t *testing.T) {
	w := newNet(t, 1, 8)
	n := w.nodes["n1"].node
	var out launcher.Outbox
	n.SubmitTasks(w.Now(), 1, submit.Job{Name: "noops", Total: 50_000, Follow: true, Spec: record.Spec{
		Each: filch.Room{Slots: 1}, Body: []byte{launcher.BodyNoop},
	}}, 0, &out)
	turns := 1
	done := func() bool {
		return slices.ContainsFunc(out.Replies, func(r launcher.Reply) bool {
			news, ok := r.Event.(launcher.TaskNews)
			return ok && news.What == launcher.TasksFinished && news.Tally.OK == 50_000
		})
	}
	for ; !done() && turns < 1000; turns++ {
		now := n.Deadline()
		if len(out.Logs) > 0 {
			n.StoreSynced(w.Now(), out.Logs[len(out.Logs)-1].Number, &out)
		}
		n.Tick(max(now, w.Now()), &out)
	}
	if !done() || turns < 5 {
		t.Errorf("done: %t, after %d turns", done(), turns)
	}
}

func TestCancelOfSleeps(t *testing.T) {
	w := newNet(t, 3, 4)
	id := w.bag("n1", 1, 1000, sleeps(time.Hour))
	w.run(sec)
	busy := 0
	for _, name := range w.names {
		s := w.nodes[name].node.Slots()
		if s.Tasks != s.Slots || s.Running != 0 {
			t.Errorf("%s: of %d slots with tasks, %d are counted", name, s.Slots, s.Tasks)
		}
		busy += int(s.Slots - s.Free)
	}
	if busy != 12 {
		t.Errorf("%d of 12 slots sleep", busy)
	}
	h := w.nodes["n2"]
	h.input(func(out *launcher.Outbox) { h.node.CancelTasks(w.Now(), id, "", out) })
	if got := w.tally(id, 20*sec); got.Cancelled != 1000 {
		t.Errorf("got %+v", got)
	}
	w.run(5 * sec)
	w.quiet()
}

// A cancel reaches tasks that were started and found no room.
func TestCancelOfTasksWithoutRoom(t *testing.T) {
	w := newNet(t, 3, 4)
	w.chores.lasts = 3 * sec
	w.behave = func(k *keeper) { k.at = 10 * sec }
	for round := range 20 {
		id := w.bag("n1", launcher.ClientID(1+round), 40, func(s *submit.Job) { s.Spec.Once = true })
		w.run(time.Duration(round) * ms / 2)
		g := w.submit("n1", launcher.ClientID(100+round), gang(12)) // comes while starts are committed
		w.run(50 * ms)
		h := w.nodes["n1"]
		h.input(func(out *launcher.Outbox) { h.node.CancelTasks(w.Now(), id, "", out) })
		w.tally(id, 10*sec)
		w.until("the gang to end", 60*sec, func() bool { return w.over(g) })
	}
	w.run(20 * sec)
	w.quiet()
}

// offer submits a bag without waiting, and returns how many replies there were.
func (w *net) offer(h *host, client launcher.ClientID) int {
	h.input(func(out *launcher.Outbox) {
		h.node.SubmitTasks(w.Now(), client, submit.Job{Name: "offer", Total: 3, Follow: true, Spec: record.Spec{
			Each: filch.Room{Slots: 1}, Body: []byte{launcher.BodyNoop},
		}}, int64(w.Now()), out)
	})
	return len(w.replies)
}

// A node that was declared dead ends its tasks, starts no others, and takes part
// again when it is back; each task ends once.
func TestADeadNodeEndsItsTasks(t *testing.T) {
	w := newNet(t, 5, 4)
	w.chores.lasts = 5 * sec
	id := w.bag("n2", 1, 200, nil)
	w.run(2 * sec)
	if len(w.nodes["n1"].chores) == 0 {
		t.Fatal("no task runs on n1")
	}
	w.split("n1")
	n1 := w.nodes["n1"]
	lost := w.offer(n1, 6)
	n1.input(func(out *launcher.Outbox) {
		n1.node.Peer(w.Now(), Peer{Name: "n1", Incarnation: 1, Standing: filch.Dead}, out)
	})
	w.run(100 * ms)
	began := w.chores.begun["n1"]
	w.run(10 * sec)
	if len(w.nodes["n1"].chores) > 0 || w.chores.begun["n1"] != began {
		t.Errorf("%d tasks run on a dead node, %d began since", len(w.nodes["n1"].chores), w.chores.begun["n1"]-began)
	}
	if s := w.nodes["n1"].node.Slots(); s.Free != s.Slots {
		t.Errorf("slots of the dead node: %+v", s)
	}
	w.offer(n1, 7)
	w.heal("n1")
	if got := w.tally(id, 120*sec); got.OK != 200 {
		t.Errorf("got %+v, want 200 ok", got)
	}
	w.until("what was submitted to the dead node", 60*sec, func() bool {
		return slices.ContainsFunc(w.jobs(), func(j filch.JobID) bool {
			n := w.heard(j, launcher.TasksFinished)
			return j != id && n != nil && n.Tally.OK == 3
		})
	})
	if !slices.ContainsFunc(w.replies[lost:], func(s string) bool { return strings.Contains(s, "n1 client 6") }) {
		t.Errorf("who submitted before the end heard nothing: %q", w.replies[lost:])
	}
	if w.chores.begun["n1"] == began {
		t.Error("nothing began on n1 after it came back")
	}
	w.run(20 * sec)
	w.quiet()
}

// Nodes of two allocations that are one instance steal inside theirs first.
func TestTasksStayInTheirAllocation(t *testing.T) {
	w := netOf(t, 8, 2, net{grouped: true})
	w.chores.lasts = 50 * ms
	near, far := 0, 0
	w.onSend = func(from, to filch.NodeName, m launcher.Message) {
		word, ok := m.(*launcher.TaskWord)
		if !ok {
			return
		}
		if o, err := message.Decode(word.Body); err == nil {
			if o, ok := o.(*message.Offer); ok && len(o.Ranges)+len(o.Tasks) > 0 {
				if w.nodes[from].cfg.Group == w.nodes[to].cfg.Group {
					near++
				} else {
					far++
				}
			}
		}
	}
	one, two := w.bag("n1", 1, 1000, nil), w.bag("n2", 2, 1000, nil)
	for _, id := range []filch.JobID{one, two} {
		if got := w.tally(id, 120*sec); got.OK != 1000 {
			t.Errorf("job %d ended %+v", id, got)
		}
	}
	if 2*near < 3*far || near == 0 { // of victims drawn from all, 4 of 7 are far
		t.Errorf("%d steals inside an allocation and %d between the two", near, far)
	}
	for _, name := range w.names {
		if w.chores.begun[name] < 100 {
			t.Errorf("%s did %d of 2000 tasks", name, w.chores.begun[name])
		}
	}
}
