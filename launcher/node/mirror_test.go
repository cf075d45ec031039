package node_test

import (
	"bytes"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/tasks"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// remains is what the files of all nodes say.
func (w *net) remains() *queue.Recovered {
	w.t.Helper()
	m := queue.NewRecovered()
	for _, name := range w.names {
		for line := range bytes.SplitSeq(bytes.TrimSuffix(w.nodes[name].mirror, []byte("\n")), []byte("\n")) {
			if len(line) > 0 && !m.Take(line) {
				w.t.Fatalf("%s wrote the line %q", name, line)
			}
		}
	}
	return m
}

// goOn is another net, which goes on with what the mirror of one tells.
func (w *net) goOn(nodes int, capacity int32, begin func(*net)) (*net, []launcher.Resumption) {
	w.t.Helper()
	jobs := w.remains().Jobs()
	for _, r := range jobs {
		r.Settle()
	}
	x := netOf(w.t, nodes, capacity, net{taken: jobs[len(jobs)-1].ID})
	begin(x)
	h := x.nodes["n1"]
	for _, r := range jobs { // what a daemon has written before
		h.mirror = r.Append(h.mirror)
	}
	var done []launcher.Resumption
	h.input(func(out *launcher.Outbox) {
		h.node.ResumeTasks(x.Now(), jobs, func(all []launcher.Resumption) { done = all }, out)
	})
	x.until("the jobs to be restored", 30*sec, func() bool { return len(done) == len(jobs) })
	return x, done
}

func TestResumeInAnotherInstance(t *testing.T) {
	const total = 300
	ran := map[string]int{}            // by job.index
	last := map[string]time.Duration{} // of a start
	begin := func(w *net) {
		w.chores.lasts = 400 * ms
		w.chores.end = func(h *host, l launcher.TaskLaunch) launcher.TaskEnd {
			at := fmt.Sprintf("%d.%d", l.Start.Job, l.Start.Index)
			ran[at]++
			last[at] = w.Now()
			if l.Start.Spec.Once { // as a daemon does before it starts one
				h.mirror = queue.AppendStart(h.mirror, l.Start.Job, l.Start.Index, l.Start.Attempt, record.Owner{Node: h.Name})
			}
			return launcher.TaskEnd{}
		}
	}
	w := newNet(t, 4, 4)
	begin(w)
	again := w.bag("n1", 1, total, nil)
	once := w.bag("n2", 2, total, func(s *submit.Job) { s.Spec.Once = true })
	w.run(5 * sec)
	w.crash("n3", true)
	w.run(6 * sec)
	w.declare("n3", filch.Dead)
	w.run(9 * sec)
	heard := map[string]bool{}
	for at, when := range last {
		heard[at] = when < w.Now()-tasks.MirrorEvery-600*ms
	}
	before := map[string]int{}
	maps.Copy(before, ran)
	x, done := w.goOn(3, 4, begin)
	for _, d := range done {
		if d.Err != nil {
			t.Fatalf("job %d does not go on: %v", d.Job, d.Err)
		}
	}
	for i, id := range []filch.JobID{again, once} {
		x.nodes["n2"].input(func(out *launcher.Outbox) { x.nodes["n2"].node.FollowTasks(x.Now(), launcher.ClientID(20+i), id, out) })
	}
	if got := x.tally(again, 120*sec); got.OK != total {
		t.Errorf("the bag ended %+v", got)
	}
	// A slot starts up to three tasks of 400 ms between two lines of the mirror.
	if got := x.tally(once, 120*sec); got.OK+got.Lost != total || got.OK < total-3*4*4 {
		t.Errorf("the bag that runs once ended %+v", got)
	}
	for i := range total {
		if at := fmt.Sprintf("%d.%d", once, i); ran[at] > 1 {
			t.Errorf("task %s was started %d times", at, ran[at])
		}
		if at := fmt.Sprintf("%d.%d", again, i); heard[at] && ran[at] > before[at] {
			t.Errorf("task %s was started at %v, long before the end, and again", at, last[at])
		}
	}
	if id := x.bag("n2", 9, 5, nil); id <= max(again, once) {
		t.Errorf("a new job has the number %d, as one before", id)
	}
}

// A node that is declared dead while jobs go on there says so of each, and can go
// on with others after that.
func TestResumeOnANodeThatIsDeclaredDead(t *testing.T) {
	w := newNet(t, 3, 4)
	w.chores.lasts = sec
	w.bag("n1", 1, 100, nil)
	w.bag("n2", 2, 100, nil)
	w.run(3 * sec)
	jobs := w.remains().Jobs()
	for _, r := range jobs {
		r.Settle()
	}
	x := netOf(t, 5, 4, net{taken: jobs[len(jobs)-1].ID})
	x.run(sec)
	x.split("n1")
	h := x.nodes["n1"]
	var done []launcher.Resumption
	then := func(all []launcher.Resumption) { done = all }
	h.input(func(out *launcher.Outbox) { h.node.ResumeTasks(x.Now(), jobs, then, out) })
	x.heal("n1")
	x.run(30 * sec)
	if len(done) != len(jobs) || done[0].Err == nil {
		t.Fatalf("heard of %d of %d jobs: %+v", len(done), len(jobs), done)
	}
	h.input(func(out *launcher.Outbox) { h.node.ResumeTasks(x.Now(), jobs[1:], then, out) })
	x.until("a job to be restored", 30*sec, func() bool { return len(done) == 1 })
	if done[0].Err != nil {
		t.Errorf("the node that is back does not go on with a job: %v", done[0].Err)
	}
}
