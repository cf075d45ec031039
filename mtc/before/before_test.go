package before

import (
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

const sec = time.Second

// rig answers looks from records that a test sets.
type rig struct {
	t     *testing.T
	w     *Wait
	now   time.Duration
	jobs  map[filch.JobID]*record.Job
	zones map[string]*record.Zone
	block map[string]*record.Block
	chain []byte
	away  bool // the store does not answer
}

func newRig(t *testing.T, c record.Conditions) *rig {
	t.Helper()
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	return &rig{t: t, w: New(50, "solve", &c), now: sec, jobs: map[filch.JobID]*record.Job{}, zones: map[string]*record.Zone{}, block: map[string]*record.Block{}}
}

// ends sets the end of a run, or running, or waiting.
func (r *rig) ends(id filch.JobID, s filch.State) { r.jobs[id] = record.Before(s) }

// run lets time pass, and returns the verdict.
func (r *rig) run(d time.Duration) (met bool, never string) {
	r.t.Helper()
	for end, rounds := r.now+d, 0; ; rounds++ {
		if rounds > 100_000 {
			r.t.Fatal("looks are due at once, again and again")
		}
		for _, l := range r.w.Looks(r.now) {
			r.w.Answered(r.now, &l, r.answers(&l))
		}
		if met, never = r.w.Verdict(int64(r.now)); met || never != "" {
			return met, never
		}
		next := r.w.Next(r.now, int64(r.now))
		if r.now = max(next, r.now+1); r.now >= end {
			r.now = end
			return false, ""
		}
	}
}

func (r *rig) answers(l *Look) (list []record.Answer) {
	for _, p := range l.Proposals {
		key, _ := record.ParseKey(p.Key)
		a := record.Answer{Status: record.AnswerAbsent}
		put := func(v []byte) { a = record.Answer{Value: v} }
		switch {
		case r.away:
			a.Status = record.AnswerUnknown
		case p.Kind == record.RecordChain:
			v, reply, err := record.Merges()[record.RecordChain](r.chain, p.Delta)
			if err != nil {
				r.t.Fatal(err)
			}
			r.chain = v
			put(reply)
		case p.Kind == record.RecordBefore && r.jobs[key.Job] != nil:
			put(r.jobs[key.Job].Encode())
		case r.zones[p.Key] != nil:
			put(r.zones[p.Key].Encode())
		case r.block[p.Key] != nil:
			put(r.block[p.Key].Encode())
		}
		list = append(list, a)
	}
	return list
}

func after(ids ...filch.JobID) []filch.JobID { return ids }

func (r *rig) want(wantMet bool, wantNever string) {
	r.t.Helper()
	met, never := r.run(20 * sec)
	if met != wantMet || (never == "") != (wantNever == "") || !strings.Contains(never, wantNever) {
		r.t.Errorf("got met %t, never %q, want %t, %q; %s", met, never, wantMet, wantNever, r.w.Text())
	}
}

func (r *rig) wantText(want string) {
	r.t.Helper()
	if got := r.w.Text(); got != want {
		r.t.Errorf("got %q, want %q", got, want)
	}
}

func TestWaitsForEnds(t *testing.T) {
	for end := filch.OK; end <= filch.Cancelled; end++ {
		for when := record.WhenOK; when <= record.WhenStarted; when++ {
			r := newRig(t, record.Conditions{After: after(7), When: []record.When{when}})
			r.ends(7, filch.Waiting)
			r.want(false, "")
			r.ends(7, filch.Running)
			if when != record.WhenStarted {
				r.want(false, "")
			}
			r.ends(7, end)
			never := ""
			if !when.Met(end) {
				never = "job 7 ended with the state " + end.String() + ", and this job waits for it with " + when.String()
			}
			r.want(never == "", never)
		}
	}
}

func TestWaitsForAll(t *testing.T) {
	r := newRig(t, record.Conditions{After: after(1, 2, 3), When: []record.When{record.WhenOK, record.WhenAny, record.WhenNotOK}})
	for id := range filch.JobID(3) {
		r.ends(id+1, filch.Running)
	}
	r.want(false, "")
	r.wantText("waits for job 1 to end well and for job 2 to end and for job 3 to end, but not well")
	r.ends(1, filch.OK)
	r.want(false, "")
	r.jobs[1] = nil // dropped: a condition that was met stays met
	r.ends(2, filch.Failed)
	r.want(false, "")
	r.wantText("waits for job 3 to end, but not well")
	r.ends(3, filch.Killed)
	r.want(true, "")
}

func TestWaitsForAny(t *testing.T) {
	c := record.Conditions{After: after(1, 2), Any: true}
	r := newRig(t, c)
	r.ends(1, filch.Failed)
	r.ends(2, filch.Running)
	r.want(false, "")
	r.wantText("waits for job 2 to end well")
	r.ends(2, filch.OK)
	r.want(true, "")
	r = newRig(t, c)
	r.ends(1, filch.Failed)
	r.ends(2, filch.Lost)
	r.want(false, "nor can the other 1 conditions be met")
}

// The record of a run may come late, and the store may be away for long: neither is the
// end of the wait.
func TestMissingRecords(t *testing.T) {
	r := newRig(t, record.Conditions{After: after(1)})
	r.away = true
	r.want(false, "")
	r.away = false
	if met, never := r.run(absentWait - sec); met || never != "" {
		t.Fatalf("got met %t, never %q while the record may come", met, never)
	}
	r.want(false, "there is no job 1 to wait for")
}

func TestWaitsForItsTime(t *testing.T) {
	begin := int64(100 * sec)
	r := newRig(t, record.Conditions{After: after(1), Begin: begin})
	r.ends(1, filch.OK)
	r.want(false, "")
	r.wantText("waits until " + timeText(begin))
	if met, _ := r.run(time.Hour); !met || r.now != 100*sec {
		t.Errorf("met %t at %s, want the time to begin", met, r.now)
	}
	r = newRig(t, record.Conditions{After: after(1), Begin: begin})
	r.ends(1, filch.Failed)
	r.want(false, "job 1 ended with the state failed")
}

func TestWaitsAfterAStart(t *testing.T) {
	r := newRig(t, record.Conditions{After: after(1), When: []record.When{record.WhenStarted}, Parts: []record.Part{{Delay: time.Minute}}})
	r.ends(1, filch.Waiting)
	r.want(false, "")
	r.wantText("waits for job 1 to start, and 1m more")
	r.ends(1, filch.Running)
	began := r.now
	if met, _ := r.run(time.Hour); !met || r.now < began+time.Minute || r.now > began+time.Minute+2*sec {
		t.Errorf("met %t %s after the start, want a minute", met, r.now-began)
	}
	r = newRig(t, record.Conditions{After: after(1), When: []record.When{record.WhenStarted}})
	r.jobs[1] = &record.Job{Total: 9, Closed: true}
	r.want(false, "")
	r.zones[record.KeyZone(1, 0)] = &record.Zone{Spans: []record.Span{{Hi: 9, Front: 4, Owner: record.Owner{Node: "n1"}}}}
	r.want(true, "")
}

func TestWaitsForTasks(t *testing.T) {
	c := record.Conditions{After: after(1), Parts: []record.Part{{Tasks: record.Pick{From: 255, Count: 3}, Name: "1.255-257"}}}
	for name, x := range map[string]struct {
		ends  [3]filch.State
		void  filch.State // of the job
		met   bool
		never string
	}{
		"one-missing": {ends: [3]filch.State{filch.OK, 0, filch.OK}},
		"all-well":    {ends: [3]filch.State{filch.OK, filch.OK, filch.OK}, met: true},
		"one-failed":  {ends: [3]filch.State{0, filch.Failed, 0}, never: "task 1.255-257 ended with the state failed, and this job waits for it with afterok"},
		"void":        {ends: [3]filch.State{filch.OK}, void: filch.Cancelled, never: "cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c)
			r.jobs[1] = &record.Job{Total: 1000, Closed: true}
			blocks := [2]*record.Block{{}, {}}
			for i, s := range x.ends {
				if b := blocks[(255+i)/record.BlockSize]; s != 0 {
					b.Offs = append(b.Offs, uint8((255+i)%record.BlockSize))
					b.Tasks = append(b.Tasks, record.Task{State: s, Attempt: 1, By: record.Owner{Node: "n1"}})
				}
			}
			for n, b := range blocks {
				r.block[record.KeyBlock(1, int32(n))] = b
			}
			if x.void != 0 {
				r.zones[record.KeyZone(1, 0)] = &record.Zone{Spans: []record.Span{{Lo: 256, Hi: 1000, Front: 256, Owner: record.Owner{Node: "n1"}, Void: x.void}}}
			}
			r.want(x.met, x.never)
		})
	}
}

// A task has started once its start was committed, in any attempt.
func TestWaitsForStartsOfTasks(t *testing.T) {
	c := record.Conditions{After: after(1), When: []record.When{record.WhenStarted}, Parts: []record.Part{{Tasks: record.Pick{From: 4, Count: 2}, Name: "1.4-5"}}}
	for name, x := range map[string]struct {
		task *record.Task // 5
		met  bool
	}{
		"none":    {},
		"moved":   {task: &record.Task{Attempt: 1, Hop: 1, Owner: record.Owner{Node: "n1"}}},
		"started": {task: &record.Task{Attempt: 1, Owner: record.Owner{Node: "n1"}, Started: true}, met: true},
		"again":   {task: &record.Task{Attempt: 2, Owner: record.Owner{Node: "n2"}}, met: true},
		"skipped": {task: &record.Task{State: filch.Skipped, Attempt: 1, By: record.Owner{Node: "n2"}}, met: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c)
			r.jobs[1] = &record.Job{Total: 9, Closed: true}
			b := &record.Block{Offs: []uint8{4}, Tasks: []record.Task{{Attempt: 1, Owner: record.Owner{Node: "n1"}, Started: true}}}
			if x.task != nil {
				*b.At(5) = *x.task
			}
			r.block[record.KeyBlock(1, 0)] = b
			r.want(x.met, "")
			if !x.met {
				r.wantText("waits for task 1.4-5 to start")
			}
		})
	}
}

// A block may be read before a task ends, and the job after the end: the task is not lost. A
// task of a zone that is void by then may have ended, too.
func TestWaitsForTasksThatEndDuringALook(t *testing.T) {
	for name, x := range map[string]struct {
		ends  filch.State // of the task, as the next look finds
		void  filch.State // of the zone
		job   record.Tally
		never string
	}{
		"well":      {ends: filch.OK, job: record.Tally{OK: 1, Failed: 1}},
		"badly":     {ends: filch.Failed, job: record.Tally{OK: 1, Failed: 1}, never: "task 1.1 ended with the state failed"},
		"dropped":   {job: record.Tally{OK: 1, Failed: 1}, never: "task 1.1 ended with the state lost"},
		"cancelled": {ends: filch.OK, void: filch.Cancelled},
		"void":      {void: filch.Cancelled, never: "task 1.1 ended with the state cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, record.Conditions{After: after(1), Parts: []record.Part{{Tasks: record.Pick{From: 1, Count: 1}, Name: "1.1"}}})
			r.jobs[1] = &record.Job{Total: 2, Closed: true, Zones: []record.ZoneTally{{Tally: x.job}}}
			if x.void != 0 {
				r.zones[record.KeyZone(1, 0)] = &record.Zone{Spans: []record.Span{{Hi: 2, Front: 2, Owner: record.Owner{Node: "n1"}, Void: x.void}}}
			}
			looks := r.w.Looks(r.now)
			r.w.Answered(r.now, &looks[0], r.answers(&looks[0]))
			if met, never := r.w.Verdict(0); met || never != "" {
				t.Fatalf("got met %t, never %q from a block that may be old", met, never)
			}
			if x.ends != 0 {
				b := &record.Block{}
				*b.At(1) = record.Task{State: x.ends, Attempt: 1, By: record.Owner{Node: "n1"}}
				r.block[record.KeyBlock(1, 0)] = b
			}
			if next := r.w.Next(r.now, 0); next > r.now {
				t.Errorf("the next look is %v later, want at once", next-r.now)
			}
			r.want(x.never == "", x.never)
		})
	}
}

// A job waits for the job before it in the chain of its name, whose record may be gone.
func TestWaitsForItsTurn(t *testing.T) {
	first := newRig(t, record.Conditions{Alone: true})
	first.want(true, "")
	r := newRig(t, record.Conditions{Alone: true})
	r.w.job, r.chain = 60, first.chain
	r.ends(50, filch.Running)
	r.want(false, "")
	r.wantText("waits for job 50 to end, which has the same name")
	r.ends(50, filch.Failed)
	r.want(true, "")
	r = newRig(t, record.Conditions{Alone: true})
	r.w.job, r.chain = 70, first.chain
	r.want(true, "")
}

// A job that waits for another enters the chain once nothing else holds the job: were it
// before the other, whose look came later, both would wait for ever.
func TestTakesItsTurnLast(t *testing.T) {
	behind := newRig(t, record.Conditions{After: after(60), When: []record.When{record.WhenAny}, Alone: true})
	behind.ends(60, filch.Waiting)
	behind.want(false, "")
	if len(behind.chain) > 0 {
		t.Error("a job that waits for another is in the chain")
	}
	first := newRig(t, record.Conditions{Alone: true})
	first.w.job, first.chain = 60, behind.chain
	first.want(true, "")
	behind.chain = first.chain
	behind.ends(60, filch.OK)
	behind.want(true, "")
	later := newRig(t, record.Conditions{Begin: int64(30 * sec), Alone: true})
	later.want(false, "")
	if len(later.chain) > 0 {
		t.Error("a job whose time has not come is in the chain")
	}
	later.want(true, "")
}
