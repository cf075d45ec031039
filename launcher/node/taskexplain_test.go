package node_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/launcher/node/tasks"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// A job of tasks that has not ended always has a word for where it stands.
func TestWhereTasksStand(t *testing.T) {
	w := newNet(t, 3, 4)
	here := record.Owner{Node: "n1", Incarnation: w.nodes["n1"].cfg.Incarnation}
	held := record.Orders{Serial: 1, Held: true, By: "ann"}
	for _, c := range []struct {
		name string
		rec  record.Job
		has  []launcher.TasksHere
		want string
	}{
		{"ready", record.Job{Total: 3}, []launcher.TasksHere{{Ready: 2}, {Ready: 1}}, "3 tasks are ready and wait for slots; filch nodes shows the use of slots"},
		{"one is ready", record.Job{Total: 1}, []launcher.TasksHere{{Ready: 1}}, "1 task is ready and waits for slots; filch nodes shows the use of slots"},
		{"run", record.Job{Total: 9}, []launcher.TasksHere{{Running: 1, Ready: 3}}, "1 task runs, 3 are ready"},
		{"gangs run", record.Job{Total: 2}, []launcher.TasksHere{{Running: 1, GangSlots: 4}, {Running: 1, GangSlots: 4}}, "2 tasks run, 0 are ready; the gangs that run have 8 slots"},
		{"capped", record.Job{Total: 9}, []launcher.TasksHere{{Running: 2, Ready: 1, Cap: 2}, {Ready: 6}}, "2 tasks run, 7 are ready; at most 2 run at a time"},
		{"late", record.Job{Total: 2}, []launcher.TasksHere{{Ready: 2, Late: 2}}, "2 tasks are ready; 2 are not started: their nodes are taken away before the tasks could end"},
		{"opening", record.Job{Total: 9}, []launcher.TasksHere{{Ready: 5, Opening: 2}, {Ready: 1, Opening: 1}}, "6 tasks are ready; the starts of 3 are being recorded"},
		{"resting", record.Job{Total: 9}, []launcher.TasksHere{{Ready: 2, Resting: 2}}, "2 tasks have failed and will be tried again (--retry-delay)"},
		{"resting, with a time", record.Job{Total: 9}, []launcher.TasksHere{{Ready: 1, Resting: 1, Again: 8}}, "1 task has failed and will be tried again in 8s (--retry-delay)"},
		{"resting on two nodes", record.Job{Total: 9}, []launcher.TasksHere{{Ready: 1, Resting: 1, Again: 8}, {Ready: 1, Resting: 1, Again: 7.8e3}}, "2 tasks have failed and will be tried again, the first in 8s (--retry-delay)"},
		{"run and resting", record.Job{Total: 9}, []launcher.TasksHere{{Running: 1, Ready: 3, Resting: 2}}, "1 task runs, 3 are ready; 2 of them failed and will be tried again later (--retry-delay)"},
		{"run and opening", record.Job{Total: 9}, []launcher.TasksHere{{Running: 2, Ready: 5, Opening: 1}}, "2 tasks run, 5 are ready; the starts of 1 are being recorded"},
		{"a gang gathers", record.Job{Total: 1}, []launcher.TasksHere{{Ready: 1, Gathers: 1, Lacks: "room for 1 of 4 ranks is held, 3 missing"}}, "1 task is ready and waits for slots; filch nodes shows the use of slots. 1 of the ready tasks is a gang that gathers slots of several nodes. This gang waits: room for 1 of 4 ranks is held, 3 missing"},
		{"no gang gathers", record.Job{Total: 9}, []launcher.TasksHere{{Ready: 4, Lacks: "on n1 at most 4 gangs gather slots at a time, and gangs of job 2 do"}, {Lacks: "not said"}}, "4 tasks are ready and wait for slots; filch nodes shows the use of slots. No gang of the job gathers slots: on n1 at most 4 gangs gather slots at a time, and gangs of job 2 do"},
		{"a gang gathers on one node", record.Job{Total: 9}, []launcher.TasksHere{{Ready: 3, Lacks: "not said"}, {Ready: 1, Gathers: 1, Lacks: "room for 0 of 4 ranks is held"}}, "4 tasks are ready and wait for slots; filch nodes shows the use of slots. 1 of the ready tasks is a gang that gathers slots of several nodes. This gang waits: room for 0 of 4 ranks is held"},
		{"gangs gather", record.Job{Total: 9}, []launcher.TasksHere{{Running: 2, Ready: 4, Gathers: 2, Lacks: "filch cannot use 3 nodes: 2 could take part; this ends when more nodes are there", Resting: 1, Again: 8, Expected: 3, Of: 2}}, "2 tasks run, 4 are ready; 1 of them failed and will be tried again in 8s (--retry-delay); estimated 3s per task (most finished tasks took less). 2 of the ready tasks are gangs that gather slots of several nodes. One of these gangs waits: filch cannot use 3 nodes: 2 could take part; this ends when more nodes are there"},
		{"gangs gather, unsaid", record.Job{Total: 9}, []launcher.TasksHere{{Running: 2, Ready: 4, Gathers: 2}}, "2 tasks run, 4 are ready. 2 of the ready tasks are gangs that gather slots of several nodes"},
		{"after others", record.Job{Total: 2, Conditions: record.Conditions{After: []filch.JobID{7, 9}}}, []launcher.TasksHere{{Waiting: 2}}, "waits for job 7 to end well and for job 9 to end well"},
		{"open", record.Job{}, nil, "the job is open, and all of its tasks have ended: filch submit --to 5 adds tasks, filch close 5 ends the job"},
		{"moving between nodes", record.Job{Total: 2}, nil, "2 tasks are moving between nodes, or done and being recorded"},
		{"its leader never came back", record.Job{Total: 2, Leader: record.Owner{Node: "n9"}}, nil, "n9, the leader of the job, is not a member: another node takes over its 2 unfinished tasks, 15 s after missing n9"},
		{"held", record.Job{Total: 3, Orders: held}, []launcher.TasksHere{{Ready: 3}}, "ann holds the job: filch release 5 lets more of its tasks start; 3 tasks do not start"},
		{"held and running", record.Job{Total: 9, Orders: held}, []launcher.TasksHere{{Running: 1, Ready: 7}}, "ann holds the job: filch release 5 lets more of its tasks start; 1 task runs on, 8 tasks do not start"},
		{"its leader was reborn", record.Job{Total: 2, Leader: record.Owner{Node: "n2"}}, nil, "n2, the leader of the job, is dead: another node takes over its 2 unfinished tasks"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.rec.Leader.Node == "" {
				c.rec.Leader = here
			}
			if got := standing(w, &c.rec, c.has, nil); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
	rec := &record.Job{Total: 2, Leader: here}
	if got, want := standing(w, rec, nil, []filch.NodeName{"n2", "n3"}), "2 tasks are waiting, and n2, n3 did not answer"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, name := range []filch.NodeName{"n2", "n3"} {
		w.declare(name, filch.Suspect)
	}
	want := "2 tasks are moving between nodes, or done and being recorded; " +
		"most nodes of the instance do not answer; filch doctor says more"
	if got := standing(w, rec, nil, nil); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	w.declare("n2", filch.Up)
	w.declare("n3", filch.Gone)
	want = "1 task runs, 0 are ready; the launcher has ended on n3: other nodes run its tasks; --once tasks that were started there " +
		"wait until the launcher is back, or the node counts as dead, 5 s after its last heartbeat"
	if got := standing(w, rec, []launcher.TasksHere{{Running: 1}}, nil); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Most of the seats die, though most of the nodes live.
func TestTheLossOfTheRosterIsSaid(t *testing.T) {
	w := newNet(t, 6, 4)
	n1 := w.nodes["n1"].node
	rec := &record.Job{Total: 2, Leader: record.Owner{Node: "n1", Incarnation: 1}}
	const calm = "2 tasks are moving between nodes, or done and being recorded"
	if got := standing(w, rec, nil, nil); got != calm {
		t.Fatalf("got %q", got)
	}
	var gone []string
	for _, seat := range n1.StoreStatus().Acceptors {
		if seat != "n1" && len(gone) < 2 {
			w.crash(seat, true)
			gone = append(gone, string(seat))
		}
	}
	for _, s := range []filch.Standing{filch.Suspect, filch.Dead} {
		w.run(2 * sec)
		for _, name := range gone {
			w.declare(filch.NodeName(name), s)
		}
	}
	w.run(sec)
	want := "2 tasks are moving between nodes, being recovered from a dead node, or done and being recorded; the roster is lost: of its 3 seats, " + strings.Join(gone, ", ") +
		" are gone or have damaged disks; if these nodes do not come back: filch roster recover --accept-loss; filch doctor says more"
	if got := standing(w, rec, nil, nil); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// A task has slots before its start is recorded, and does not run.
func TestATaskWhoseStartIsRecordedDoesNotRun(t *testing.T) {
	w := newNet(t, 3, 4)
	w.chores.lasts = sec
	w.bag("n1", 1, 12, nil) // all have the slots of all nodes
	id := w.bag("n1", 2, 12, func(s *submit.Job) { s.Spec.Once = true })
	w.faults.stores = func(_, _ filch.NodeName) bool { return true }
	opening := int64(0)
	for k := range 200 {
		if k == 100 {
			w.faults.stores = nil
		}
		w.run(20 * ms)
		for _, name := range w.names {
			h, runs := w.nodes[name], int64(0)
			for _, l := range h.chores {
				if l.Start.Job == id {
					runs++
				}
			}
			here := h.node.TasksHere(id)
			if opening = max(opening, here.Opening); here.Running != runs || here.Opening > here.Ready {
				t.Fatalf("at %v %s says %+v, and %d run", w.Now(), name, here, runs)
			}
		}
	}
	if opening == 0 {
		t.Error("no start was recorded for longer than a moment")
	}
}

// A run takes the slots of tasks while the starts of the tasks are recorded. The tasks are
// ready until the run ends, and do not run.
func TestATaskWhoseSlotsARunTookDoesNotRun(t *testing.T) {
	w := newNet(t, 1, 4)
	n1 := w.nodes["n1"]
	w.chores.lasts = sec
	w.behave = func(k *keeper) { k.at = 5 * sec }
	w.bag("n1", 1, 4, nil) // all have slots
	id := w.bag("n1", 2, 4, func(s *submit.Job) { s.Spec.Once = true })
	for end := w.Now() + 2*sec; n1.node.TasksHere(id).Opening == 0; w.run(100 * usec) {
		if w.Now() > end {
			t.Fatal("no start was recorded for longer than a moment")
		}
	}
	run := w.submit("n1", 3, gang(4))
	w.until("the starts to be on the disk", sec, func() bool { return n1.node.TasksHere(id).Opening == 0 })
	here := n1.node.TasksHere(id)
	if len(n1.chores) > 0 || len(n1.keepers) != 1 {
		t.Fatalf("%d tasks run, want that job %d has their slots: %v", len(n1.chores), run, w.events[run])
	}
	const want = "4 tasks are ready and wait for slots; filch nodes shows the use of slots"
	rec := &record.Job{Total: 4, Leader: record.Owner{Node: "n1", Incarnation: 1}}
	if got := standing(w, rec, []launcher.TasksHere{here}, nil); got != want || here.Running != 0 {
		t.Errorf("of %+v\ngot  %q\nwant %q", here, got, want)
	}
	if got := w.tally(id, 30*sec); got.OK != 4 {
		t.Errorf("got %+v, want 4 ok", got)
	}
}

// A run takes the slots of a gang while the start of the gang is recorded. The gang gathers slots
// again until the run ends, and does not run.
func TestAGangWhoseSlotsARunTookDoesNotRun(t *testing.T) {
	w := newNet(t, 2, 4)
	w.behave = func(k *keeper) { k.at = 3 * sec }
	w.submit("n2", 3, gang(8))
	w.run(sec)
	id := w.bag("n1", 1, 1, func(s *submit.Job) {
		ofGangs(8, 2)(s)
		s.Spec.Once = true
	})
	owner := func() (h launcher.TasksHere) {
		for _, name := range w.names {
			if o := w.nodes[name].node.TasksHere(id); o.Ready+o.Running > 0 {
				h = o
			}
		}
		return h
	}
	w.run(sec)
	w.faults.stores = func(_, _ filch.NodeName) bool { return true }
	w.until("the gang to have the slots", 4*sec, func() bool { return owner().Opening > 0 })
	run := w.submit("n1", 2, urgentRun(8))
	w.until("the run to have the slots", sec, func() bool { nodes, _ := w.nodesOf(run); return len(nodes) == 2 })
	w.faults.stores = nil
	w.until("the start to be recorded", 4*sec, func() bool { return owner().Opening == 0 })
	if h := owner(); h.Running != 0 || h.Ready != 1 || h.Gathers != 1 || h.Lacks == "" {
		t.Errorf("the gang stands as %+v, want that it gathers slots", h)
	}
	if got := w.tally(id, 30*sec); got.OK != 1 {
		t.Errorf("got %+v, want 1 ok", got)
	}
}

// n2 does not receive the offer of n1. Until n1 takes the offered tasks back, the tasks do
// not wait for slots: all slots are free.
func TestATaskThatIsOfferedDoesNotWaitForSlots(t *testing.T) {
	w, offered, last := newNet(t, 2, 4), int32(0), uint64(0)
	w.chores.lasts = 50 * ms
	w.onSend = func(_, _ filch.NodeName, m launcher.Message) {
		word, ok := m.(*launcher.TaskWord)
		if !ok {
			return
		}
		if m, err := message.Decode(word.Body); err == nil {
			if o, ok := m.(*message.Offer); ok && o.Xfer > last { // n1 sends an offer again and again
				last = o.Xfer
				offered += int32(len(o.Tasks))
				for _, r := range o.Ranges {
					offered += r.Hi - r.Lo
				}
			}
		}
	}
	w.faults.words = func(_, _ filch.NodeName, name string) bool { return name == "mtc.Offer" }
	id := w.bag("n1", 1, 40, nil)
	w.run(sec)
	if offered == 0 || len(w.nodes["n1"].chores)+len(w.nodes["n2"].chores) > 0 {
		t.Fatalf("%d tasks were offered, and %d run on n1", offered, len(w.nodes["n1"].chores))
	}
	var has []launcher.TasksHere
	for _, name := range w.names {
		has = append(has, w.nodes[name].node.TasksHere(id))
	}
	rec := &record.Job{Total: offered, Leader: record.Owner{Node: "n1", Incarnation: 1}} // the others are done
	want := fmt.Sprintf("%d tasks are moving between nodes, or done and being recorded; "+
		"estimated 50ms per task (most finished tasks took less)", offered)
	if got := standing(w, rec, has, nil); got != want {
		t.Errorf("of %+v\ngot  %q\nwant %q", has, got, want)
	}
	w.faults.words = nil
	if got := w.tally(id, 60*sec); got.OK != 40 {
		t.Errorf("got %+v, want 40 ok", got)
	}
}

// standing is what n1 says of job 5, by what the nodes have of it.
func standing(w *net, rec *record.Job, has []launcher.TasksHere, silent []filch.NodeName) string {
	sum := tasks.Sum{Silent: silent}
	for i := range has {
		sum.Add(&has[i])
	}
	info := records.TaskJobInfo(5, rec, 0)
	sum.Fill(&info)
	return w.nodes["n1"].node.ExplainTasks(rec, &info, &sum).Text
}

// A task of a bag waits only for jobs before the bag. A task without a node is ready beside ready
// tasks, and runs until its end is recorded.
func TestTasksOfABagAreNotWaiting(t *testing.T) {
	after := record.Conditions{After: []filch.JobID{7}}
	each := record.Conditions{After: []filch.JobID{7}, When: []record.When{record.WhenEach}}
	ended := []record.ZoneTally{{Tally: record.Tally{OK: 2}}}
	for _, c := range []struct {
		name                    string
		rec                     record.Job
		has                     launcher.TasksHere
		waiting, ready, running int32
		state                   string
	}{
		{"between nodes", record.Job{Total: 9, Zones: ended}, launcher.TasksHere{Ready: 3, Running: 2}, 0, 5, 2, "running"},
		{"not recorded", record.Job{Total: 9, Zones: ended}, launcher.TasksHere{Ready: 3, Running: 2, Ending: true}, 0, 5, 2, "running"},
		{"none is ready", record.Job{Total: 9, Zones: ended}, launcher.TasksHere{Running: 2}, 0, 0, 7, "running"},
		{"the only one ended", record.Job{Total: 1}, launcher.TasksHere{Ending: true}, 0, 0, 1, "running"},
		{"the only one of a job after another ended", record.Job{Total: 1, Conditions: after}, launcher.TasksHere{Ending: true}, 0, 0, 1, "running"},
		{"more run than are left", record.Job{Total: 2}, launcher.TasksHere{Running: 3}, 0, 0, 2, "running"},
		{"no node has them", record.Job{Total: 9}, launcher.TasksHere{}, 0, 9, 0, "waiting"},
		{"after a job", record.Job{Total: 9, Conditions: after}, launcher.TasksHere{}, 9, 0, 0, "waiting"},
		{"at a time", record.Job{Total: 9, Conditions: record.Conditions{Begin: 5}}, launcher.TasksHere{}, 9, 0, 0, "waiting"},
		{"the job before ended", record.Job{Total: 9, Conditions: after}, launcher.TasksHere{Ready: 1, Running: 2}, 0, 7, 2, "running"},
		{"one after another job's", record.Job{Total: 9, Conditions: each, Zones: ended}, launcher.TasksHere{Running: 2, Ready: 1}, 4, 1, 2, "running"},
		{"workflow", record.Job{Total: 9, Graph: true, Zones: ended}, launcher.TasksHere{Running: 2, Ready: 1}, 4, 1, 2, "running"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sum := tasks.Sum{TasksHere: c.has}
			info := records.TaskJobInfo(5, &c.rec, 0)
			sum.Fill(&info)
			sum.Settle(&info)
			if n := info.Tasks; n.Waiting != c.waiting || n.Ready != c.ready || n.Running != c.running || info.State != c.state {
				t.Errorf("got %d waiting, %d ready, %d running, %s; want %d, %d, %d, %s",
					n.Waiting, n.Ready, n.Running, info.State, c.waiting, c.ready, c.running, c.state)
			}
		})
	}
}

// Beside ready tasks, an end that is being recorded counts as the end that it is, and neither as
// ready nor as running; unless the record counts the end by now.
func TestEndsOnTheirWayCountAsEnds(t *testing.T) {
	rec := record.Job{Total: 9, Zones: []record.ZoneTally{{Tally: record.Tally{OK: 2}}}}
	nodes := []launcher.TasksHere{
		{Ready: 2, Running: 1, Ending: true, Ended: &launcher.TaskCounts{Total: 1, OK: 1}},
		{Ready: 1, Running: 1, Ending: true, Ended: &launcher.TaskCounts{Total: 1, Failed: 1}},
	}
	for _, c := range []struct {
		name   string
		moves  int64 // tasks between nodes
		counts int32 // ends that the record counts by now
		want   launcher.TaskCounts
	}{
		{"two ends", 0, 0, launcher.TaskCounts{Total: 9, Ready: 3, Running: 2, OK: 3, Failed: 1}},
		{"two ends and a move", 1, 0, launcher.TaskCounts{Total: 9, Ready: 3, Running: 2, OK: 3, Failed: 1}},
		{"counted by now", 0, 1, launcher.TaskCounts{Total: 9, Ready: 4, Running: 2, OK: 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := rec
			rec.Zones = []record.ZoneTally{{Tally: record.Tally{OK: 2 + c.counts}}}
			var sum tasks.Sum
			for i := range nodes {
				sum.Add(&nodes[i])
			}
			sum.Ready -= c.moves
			info := records.TaskJobInfo(5, &rec, 0)
			sum.Fill(&info)
			sum.Settle(&info)
			if info.Tasks != c.want {
				t.Errorf("got %+v, want %+v", info.Tasks, c.want)
			}
		})
	}
}

// Tasks that a person cancelled, or that are skipped, do not run until the record counts them.
func TestTasksThatStartNoMoreDoNotRun(t *testing.T) {
	ended := []record.ZoneTally{{Tally: record.Tally{OK: 24, Cancelled: 1237}}}
	few := record.Orders{Cancels: []record.Pick{{From: 24, Count: 1900}}}
	for _, c := range []struct {
		name string
		rec  record.Job
		has  launcher.TasksHere
		want launcher.TaskCounts
	}{
		{"the job", record.Job{Zones: ended, Void: filch.Cancelled}, launcher.TasksHere{Running: 6, Ending: true}, launcher.TaskCounts{Running: 6, OK: 24, Cancelled: 1970}},
		{"no task has an end", record.Job{Void: filch.Cancelled}, launcher.TasksHere{Ending: true}, launcher.TaskCounts{Cancelled: 2000}},
		{"a node tells of ends", record.Job{Zones: ended, Void: filch.Cancelled}, launcher.TasksHere{Ending: true, Ended: &launcher.TaskCounts{Total: 3, OK: 1, Cancelled: 2}}, launcher.TaskCounts{OK: 25, Cancelled: 1975}},
		{"not all nodes know", record.Job{Zones: ended, Void: filch.Cancelled}, launcher.TasksHere{Running: 6, Ready: 9, Ending: true}, launcher.TaskCounts{Ready: 9, Running: 6, OK: 24, Cancelled: 1961}},
		{"skipped", record.Job{Zones: ended, Void: filch.Skipped}, launcher.TasksHere{Running: 6, Ending: true}, launcher.TaskCounts{Running: 6, OK: 24, Cancelled: 1237, Skipped: 733}},
		{"some tasks", record.Job{Zones: ended, Orders: few}, launcher.TasksHere{Running: 6, Ending: true}, launcher.TaskCounts{Running: 76, OK: 24, Cancelled: 1900}},
		{"some tasks, others ready", record.Job{Zones: ended, Orders: few}, launcher.TasksHere{Running: 6, Ready: 70}, launcher.TaskCounts{Running: 6, Ready: 733, OK: 24, Cancelled: 1237}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.rec.Total, c.want.Total = 2000, 2000
			sum := tasks.Sum{TasksHere: c.has}
			info := records.TaskJobInfo(5, &c.rec, 0)
			sum.Fill(&info)
			sum.Settle(&info)
			if info.Tasks != c.want || info.State != "running" {
				t.Errorf("got %s, %+v, want %+v", info.State, info.Tasks, c.want)
			}
		})
	}
}

// The reason for the cancel of one task is not the reason for the cancel of its job.
func TestReasonOfACancelledJob(t *testing.T) {
	one := []record.TaskReason{{Text: "only one", Tasks: []record.Pick{{From: 1, Count: 1}}}}
	for _, c := range []struct {
		name, reason string
		void         filch.State
		want         string
		killed       int32
	}{
		{"others were killed", "", 0, "2 of 3 tasks did not end well: 1 killed, 1 cancelled", 1},
		{"others were killed, then the job", "all wrong", filch.Cancelled, "2 of 3 tasks did not end well: 1 killed, 1 cancelled; filch cancel: all wrong", 1},
		{"one task", "", 0, "2 of 3 tasks did not end well: 2 cancelled; filch cancel: only one", 0},
		{"one task, then the job", "", filch.Cancelled, "2 of 3 tasks did not end well: 2 cancelled", 0},
		{"with a reason", "all wrong", filch.Cancelled, "2 of 3 tasks did not end well: 2 cancelled; filch cancel: all wrong", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := []record.ZoneTally{{Tally: record.Tally{OK: 1, Killed: c.killed, Cancelled: 2 - c.killed}}}
			j := record.Job{Total: 3, Closed: true, Zones: all, Void: c.void}
			j.Reason, j.Reasons, j.Cancels = c.reason, one, one[0].Tasks
			if got := records.TaskJobInfo(5, &j, 0).Cause; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
