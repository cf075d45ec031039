package mtc

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// gangRig is nodes of 4 slots whose gangs last a second.
func gangRig(t *testing.T, nodes int) *rig {
	r := newRig(t, nodes, 4, policy.Policy{})
	r.length = func(Start) time.Duration { return time.Second }
	for _, d := range r.nodes {
		total := filch.Room{Slots: 4, MemBytes: 1 << 30}
		for i := range nodes {
			d.SetMember(0, filch.Member{Name: nodeName(i), Incarnation: 1, Total: total}, &d.out)
		}
		d.cfg.Members.Set(filch.Member{Name: d.cfg.Self, Incarnation: 1, Total: total})
	}
	return r
}

func gangs(id filch.JobID, total, ranks, nodes int32) submit.Job {
	return submit.Job{Job: id, Total: total, Spec: record.Spec{Gang: record.Gang{Ranks: ranks, Nodes: nodes}, CrashLimit: record.CrashLimit}}
}

// at lets the rig go on to a moment.
func (r *rig) at(now time.Duration) { r.idle(now - r.now) }

func TestGangStartsWhereItFits(t *testing.T) {
	r := gangRig(t, 1)
	r.submit(0, gangs(1, 3, 2, 0))
	r.at(10 * time.Millisecond)
	d := r.nodes[0]
	if len(d.running) != 2 || d.Look().Gathers() != 0 || d.exec.used.Slots != 4 {
		t.Errorf("%d gangs of 2 ranks run and %d gather on %d slots, want 2 and 0 on 4", len(d.running), d.Look().Gathers(), d.exec.used.Slots)
	}
	// The caller counts the slots from now on, and leaves fewer for tasks.
	d.SetRoom(r.now, filch.Room{Slots: 2, MemBytes: 1 << 30}, &d.out)
	d.Gangs.Launched(r.now, d.running[0].end.Run, &d.out)
	r.act(d)
	if d.exec.used.Slots != 2 {
		t.Errorf("%d slots are used beside the gang that has its slots, want 2", d.exec.used.Slots)
	}
}

func TestGangWaitsBeforeItGathers(t *testing.T) {
	r := gangRig(t, 1)
	r.submit(0, gangs(1, 2, 3, 0))
	d := r.nodes[0]
	r.at(policy.GatherAfter - time.Millisecond)
	if len(r.started) != 1 || d.Look().Gathers() != 0 {
		t.Errorf("%d gangs began and %d gather after %v, want 1 and 0", len(r.started), d.Look().Gathers(), r.now)
	}
	r.at(policy.GatherAfter + 50*time.Millisecond)
	if len(r.started) != 2 || d.Look().Gathers() != 1 || d.exec.used.Slots != 3 {
		t.Errorf("%d gangs began and %d gather on %d slots after %v, want 2 and 1 on 3", len(r.started), d.Look().Gathers(), d.exec.used.Slots, r.now)
	}
	d.Gangs.Launched(r.now, d.running[1].end.Run, &d.out)
	r.act(d)
	if d.Look().Gathers() != 0 {
		t.Errorf("%d gangs gather after the launch, want 0", d.Look().Gathers())
	}
	if rec := r.run(1, time.Minute); rec.Tally().OK != 2 {
		t.Errorf("the gangs ended as %+v, want 2 ok", rec.Tally())
	}
}

func TestGangThatFitsNowhereAloneGathersAtOnce(t *testing.T) {
	for _, x := range []struct {
		name         string
		ranks, nodes int32
	}{{"larger than the node", 5, 0}, {"on two nodes", 2, 2}} {
		t.Run(x.name, func(t *testing.T) {
			r := gangRig(t, 1)
			r.submit(0, gangs(1, 1, x.ranks, x.nodes))
			r.at(10 * time.Millisecond)
			if d := r.nodes[0]; len(r.started) != 1 || d.Look().Gathers() != 1 || d.exec.used.Slots != 0 {
				t.Errorf("%d gangs began and %d gather on %d slots, want 1 and 1 on 0", len(r.started), d.Look().Gathers(), d.exec.used.Slots)
			}
		})
	}
}

func TestFewGangsGatherSideBySide(t *testing.T) {
	r := gangRig(t, 1)
	r.submit(0, gangs(1, 2*4, 8, 0))
	r.submit(0, submit.Job{Job: 2, Total: 4, Spec: record.Spec{CrashLimit: record.CrashLimit}})
	r.at(10 * time.Millisecond)
	d := r.nodes[0]
	if got := r.started; d.Look().Gathers() != 4 || len(got) != 4+4 {
		t.Errorf("%d gangs gather and %d tasks began, want %d, and 4 of the other job besides", d.Look().Gathers(), len(got), 4)
	}
	if rec := r.run(1, time.Minute); rec.Tally().OK != 2*4 {
		t.Errorf("the gangs ended as %+v, want %d ok", rec.Tally(), 2*4)
	}
	if d.Look().Gathers() != 0 {
		t.Errorf("%d gangs gather at the end, want 0", d.Look().Gathers())
	}
}

// Gangs for which nodes are missing keep their places from each other only.
func TestGangsWithoutNodesLeaveTheirPlaces(t *testing.T) {
	r := gangRig(t, 1)
	d, away := r.nodes[0], true
	d.cfg.Fits = func(n record.Need) bool { return n.Gang.Ranks <= 8 || !away }
	gather := func(job filch.JobID) (n int) {
		for _, x := range d.exec.list.All() {
			if x.job.id == job && x.stage == gathering {
				n++
			}
		}
		return n
	}
	r.submit(0, gangs(1, 9, 12, 0))
	r.at(5 * time.Millisecond)
	r.submit(0, gangs(2, 9, 8, 0))
	r.submit(0, gangs(3, 9, 12, 0))
	r.at(10 * time.Millisecond)
	if a, b, c := gather(1), gather(2), gather(3); a != 4 || b != 4 || c != 0 {
		t.Errorf("%d and %d gangs gather that lack nodes, and %d that fit, want 4, 0 and 4", a, c, b)
	}
	away = false
	d.SetMember(r.now, filch.Member{Name: "n9", Incarnation: 1}, &d.out)
	r.act(d)
	if n := d.Look().Gathers(); n != 8 {
		t.Errorf("%d gangs gather after a node came, want the 8 of before", n)
	}
	for id := range filch.JobID(3) {
		if rec := r.run(id+1, time.Minute); rec.Tally().OK != 9 {
			t.Errorf("the gangs of job %d ended as %+v, want 9 ok", id+1, rec.Tally())
		}
	}
}

// Ranks of a gang may run on nodes that live when its owner is dead, until their leases
// are over (seed 73 of testbed/sim/instance).
func TestGangOfADeadOwnerRests(t *testing.T) {
	r := gangRig(t, 3)
	r.length = func(Start) time.Duration { return 3 * time.Second }
	r.submit(2, gangs(1, 1, 4, 0))
	r.at(time.Second)
	if r.byNode["n3"] != 1 {
		t.Fatalf("the gang began %v, want on n3", r.byNode)
	}
	dies := r.now
	r.kill(2, 0)
	r.at(dies + policy.GangRest - 100*time.Millisecond)
	if n := len(r.started); n != 1 {
		t.Errorf("the gang began %d times within %v of the death of its owner, want 1", n, policy.GangRest)
	}
	for _, d := range r.nodes[:2] { // a drain makes other tasks go on at once
		d.Drain(r.now, true, &d.out)
		r.act(d)
	}
	r.idle(50 * time.Millisecond)
	if n := len(r.started); n != 1 {
		t.Errorf("the gang began %d times while the nodes drain, want 1", n)
	}
	for _, d := range r.nodes[:2] {
		d.Drain(r.now, false, &d.out)
		r.act(d)
	}
	if rec := r.run(1, time.Minute); rec.Tally().OK != 1 || len(r.started) != 2 {
		t.Errorf("the gang ended as %+v after %d starts, want ok after 2", rec.Tally(), len(r.started))
	}
}

// A gang with --once, or at its crash limit, is lost with its owner only when its ranks are
// gone: a retry, or a job that waits for the gang, would begin beside the ranks.
func TestGangOfADeadOwnerIsLostAfterItsRanks(t *testing.T) {
	for _, x := range []struct {
		name string
		once bool
		told time.Duration // when the caller says that the ranks are gone; 0 never
	}{{"once", true, 0}, {"once, and the ranks end early", true, time.Second}, {"crash limit", false, 0}, {"crash limit, and the ranks end early", false, time.Second}} {
		t.Run(x.name, func(t *testing.T) {
			r := gangRig(t, 3)
			r.length = func(Start) time.Duration { return time.Minute }
			s := gangs(1, 1, 4, 0)
			s.Spec.Once, s.Spec.Sure, s.Spec.CrashLimit = x.once, true, 1
			r.submit(2, s)
			r.at(time.Second)
			dies, ends := r.now, r.now+policy.GangRest
			r.kill(2, 0)
			if x.told > 0 {
				ends = dies + x.told
				r.at(ends - time.Millisecond)
				for _, d := range r.nodes[:2] {
					for _, o := range r.remains {
						d.Gangs.RanksGone(r.now, o, &d.out)
						r.act(d)
					}
				}
			}
			r.at(ends - 100*time.Millisecond)
			if x.told > 0 {
				r.at(ends + 100*time.Millisecond)
			} else if got := r.task(1, 0); got.State != 0 {
				t.Errorf("the gang is %v %v after the death of its owner, and ranks may run", got.State, r.now-dies)
			}
			r.at(ends + 3*time.Second)
			if got := r.task(1, 0); got.State != filch.Lost || len(r.started) != 1 {
				t.Errorf("the gang is %v after %d starts, want lost after 1", got.State, len(r.started))
			}
		})
	}
}

// The gangs of a dead owner go on as soon as their ranks are known to be gone.
func TestGangOfADeadOwnerGoesOnAfterItsRanks(t *testing.T) {
	r := gangRig(t, 3)
	r.length = func(Start) time.Duration { return 3 * time.Second }
	r.submit(2, gangs(1, 1, 4, 0))
	r.at(time.Second)
	dies := r.now
	r.kill(2, 0)
	r.at(dies + 2*time.Second)
	if len(r.started) != 1 || len(r.remains) == 0 {
		t.Fatalf("the gang began %d times, and %d owners are asked for, want 1 and at least 1", len(r.started), len(r.remains))
	}
	for _, d := range r.nodes[:2] {
		d.Gangs.RanksGone(r.now, r.remains[0], &d.out)
		r.act(d)
	}
	r.at(dies + 2100*time.Millisecond)
	if n := len(r.started); n != 2 {
		t.Errorf("the gang began %d times 100 ms after its ranks were gone, want 2", n)
	}
}

// A gang that lost ranks with one of its nodes starts again at once: the caller has waited for
// the ranks.
func TestGangThatLostANodeGoesOn(t *testing.T) {
	r := gangRig(t, 2)
	r.result = func(s Start) End {
		if s.Attempt == 1 {
			return End{Run: s.Run, State: filch.Killed, Gone: true}
		}
		return End{Run: s.Run, State: filch.OK}
	}
	r.submit(0, gangs(1, 1, 2, 0))
	r.at(1100 * time.Millisecond)
	if n := len(r.started); n != 2 {
		t.Errorf("the gang began %d times in %v, want 2", n, r.now)
	}
	if rec := r.run(1, time.Minute); rec.Tally().OK != 1 {
		t.Errorf("the gang ended as %+v, want ok", rec.Tally())
	}
}

// The start of a gang with --once, or of another attempt, is committed when the gang has its
// slots: a gang that only gathered has not started when its owner dies, and is not lost.
func TestGangThatOnlyGatheredGoesOn(t *testing.T) {
	for _, once := range []bool{true, false} {
		r := gangRig(t, 3)
		r.gather = true
		s := gangs(1, 1, 8, 0)
		s.Spec.Once, s.Spec.Sure, s.Spec.CrashLimit = once, true, 1
		r.submit(2, s)
		r.at(time.Second)
		if got := r.task(1, 0); len(r.started) != 1 || got.Started || r.began > 0 {
			t.Fatalf("the gang was started %d times, recorded: %t, and %d run, want 1, not recorded, none", len(r.started), got.Started, r.began)
		}
		r.gather = false
		r.kill(2, 0)
		if rec := r.run(1, time.Minute); rec.Tally().OK != 1 || r.began != 1 {
			t.Errorf("the gang ended as %+v after %d runs, want ok after 1", rec.Tally(), r.began)
		}
	}
}

// A gang whose start is being committed is cancelled, and does not run.
func TestGangIsCancelledBeforeItsStart(t *testing.T) {
	r := gangRig(t, 2)
	r.store.slow = func(p record.Proposal) time.Duration {
		if p.Kind == record.RecordBlock {
			return time.Second
		}
		return 0
	}
	s := gangs(1, 1, 2, 0)
	s.Spec.Once = true
	r.submit(0, s)
	r.at(100 * time.Millisecond)
	d := r.nodes[0]
	if s, _ := d.Job(1); s.Opening != 1 || r.began > 0 {
		t.Fatalf("%d starts are being recorded and %d gangs run, want 1 and none", s.Opening, r.began)
	}
	d.Cancel(r.now, 1, "", &d.out)
	r.act(d)
	r.at(1500 * time.Millisecond)
	for _, g := range d.opening {
		d.Ended(r.now, End{Run: g.Run, State: filch.Killed, Code: 143}, &d.out)
	}
	r.act(d)
	if rec := r.run(1, time.Minute); rec.Tally().Cancelled != 1 || r.began > 0 || d.stops == 0 {
		t.Errorf("the gang ended as %+v after %d runs and %d stops, want cancelled without a run", rec.Tally(), r.began, d.stops)
	}
}

// A gang without slots does not run.
func TestGangThatGathersIsReady(t *testing.T) {
	r := gangRig(t, 1)
	r.submit(0, gangs(1, 1, 8, 0))
	r.at(10 * time.Millisecond)
	d := r.nodes[0]
	if s, _ := d.Job(1); s.Here.Running != 0 || s.Here.Dedicated != 1 {
		t.Errorf("%d gangs run and %d are ready, want 0 and 1", s.Here.Running, s.Here.Dedicated)
	}
	d.Gangs.Launched(r.now, d.running[0].end.Run, &d.out)
	r.act(d)
	if s, _ := d.Job(1); s.Here.Running != 1 || s.Here.Dedicated != 0 {
		t.Errorf("%d gangs run and %d are ready after the launch, want 1 and 0", s.Here.Running, s.Here.Dedicated)
	}
}

// TestGangsBesideProcesses runs a bag and a graph with tasks of both kinds on a node of four
// slots: processes, gangs of two ranks that fit, and gangs over two nodes, which find their
// slots elsewhere and take none of the node's own.
func TestGangsBesideProcesses(t *testing.T) {
	for name, graph := range map[string]bool{"bag": false, "graph": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1, 4, policy.Policy{})
			spec := record.Spec{Each: filch.Room{Slots: 1}, Needs: []record.Need{
				{Each: filch.Room{Slots: 2}, Gang: record.Gang{Ranks: 2, Nodes: 1}},
				{Each: filch.Room{Slots: 1}, Gang: record.Gang{Ranks: 4, Nodes: 2}},
			}}
			gathered := int32(0)
			r.length = func(s Start) time.Duration {
				body := s.Payload
				if graph {
					n, err := record.DecodeGraphNode(body)
					if err != nil {
						t.Fatal(err)
					}
					body = n.Body
				}
				want := spec.Need(int(body[0]))
				if s.Gang() != want.Gang || s.Room() != want.Room() {
					t.Errorf("task %d: got the gang %+v and the room %+v, want %+v and %+v", s.Index, s.Gang(), s.Room(), want.Gang, want.Room())
				}
				gathered = max(gathered, r.nodes[0].Look().Gathers())
				return time.Second
			}
			r.differ(0, 1, graph, spec, []byte{0, 0, 0, 0, 2, 2, 1, 0, 0, 0, 0, 1})
			began := r.now
			if j := r.run(1, time.Minute); j.Tally().OK != 12 || r.now-began > 4300*time.Millisecond {
				t.Errorf("got %+v after %v, want 12 ok in 4 s", j.Tally(), r.now-began)
			}
			if gathered < 2 || r.nodes[0].Look().Gathers() != 0 {
				t.Errorf("got %d gangs that gather, and %d in the end, want at least 2 and 0", gathered, r.nodes[0].Look().Gathers())
			}
		})
	}
}

// TestGangTimeBeginsWithItsLastSlots reports twice that a gang has slots: it lost the first
// ones before its ranks began, and its time counts from the second report.
func TestGangTimeBeginsWithItsLastSlots(t *testing.T) {
	r := gangRig(t, 1)
	r.submit(0, gangs(1, 1, 2, 0))
	r.at(10 * time.Millisecond)
	d := r.nodes[0]
	run := d.running[0].end.Run
	d.Gangs.Launched(r.now, run, &d.out)
	r.act(d)
	r.at(500 * time.Millisecond)
	d.Gangs.Launched(r.now, run, &d.out)
	r.act(d)
	r.run(1, time.Minute)
	if got := r.task(1, 0); got.TookUS > 600_000 {
		t.Errorf("the gang took %d us, want the 500 ms since it had its last slots", got.TookUS)
	}
}

// TestOrdersAboutGatheringGangs holds, or cancels, a gang that gathers beside one that runs:
// the held gang gives back what it has and waits for the release; the cancelled gang ends
// without an attempt.
func TestOrdersAboutGatheringGangs(t *testing.T) {
	begin := func(t *testing.T) (*rig, *rigNode) {
		r := gangRig(t, 1)
		r.length = slow(10 * time.Second)
		r.submit(0, gangs(1, 2, 3, 0))
		d := r.nodes[0]
		if r.at(policy.GatherAfter + 50*time.Millisecond); d.Look().Gathers() != 1 {
			t.Fatalf("%d gangs gather, want 1", d.Look().Gathers())
		}
		return r, d
	}
	t.Run("hold", func(t *testing.T) {
		r, d := begin(t)
		r.order(0, 1, record.Orders{Held: true, By: "ann", Serial: r.job(1).Serial})
		if r.at(5 * time.Second); d.Look().Gathers() != 0 || len(r.started) != 2 {
			t.Errorf("%d gangs of a held job gather, and %d starts, want 0 and 2", d.Look().Gathers(), len(r.started))
		}
		r.order(0, 1, record.Orders{Serial: r.job(1).Serial})
		r.run(1, time.Minute)
		for i := range int32(2) {
			if got := r.task(1, i); got.State != filch.OK || got.Attempt != 1 {
				t.Errorf("task %d is %+v, want ok in attempt 1", i, got)
			}
		}
	})
	t.Run("cancel", func(t *testing.T) {
		r, d := begin(t)
		r.order(0, 1, cancels(record.Pick{From: 1, Count: 1}))
		r.run(1, time.Minute)
		if got := r.task(1, 1); got.State != filch.Cancelled || got.Code != 0 || got.Began != 0 || d.Look().Gathers() != 0 {
			t.Errorf("the cancelled gang is %+v, want cancelled without a start", got)
		}
	})
	t.Run("cancel all", func(t *testing.T) {
		r, d := begin(t)
		d.Cancel(r.now, 1, "", &d.out)
		r.act(d)
		r.run(1, time.Minute)
		if got := r.task(1, 1); got.State != filch.Cancelled || got.Code != 0 || got.Began != 0 {
			t.Errorf("the gang of the cancelled job is %+v, want cancelled without a start", got)
		}
	})
}
