package node_test

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// Bags wait for the end of a run, each for its own end. A bag whose end never comes is
// skipped with the reason, also a bag that waits for no job.
func TestTasksAfterARun(t *testing.T) {
	for _, code := range []int32{0, 3} {
		w := newNet(t, 3, 4)
		w.chores.lasts = 100 * ms
		w.behave = func(k *keeper) {
			if k.at = 5 * sec; code != 0 {
				k.ends = []launcher.RankEnd{{Rank: k.start.Launch.Nodes[k.start.Index].Ranks[0].First, Kind: launcher.CauseExit, Code: code}}
			}
		}
		run := w.detach("n1", 1, gang(2))
		bags := map[record.When]filch.JobID{}
		for when := record.WhenOK; when <= record.WhenNotOK; when++ {
			bags[when] = w.bag("n2", 2, 3, func(s *submit.Job) { s.After, s.When = []filch.JobID{run}, []record.When{when} })
		}
		none := w.bag("n3", 3, 3, func(s *submit.Job) { s.After = []filch.JobID{9999} })
		w.run(2 * sec)
		for when, id := range bags {
			if w.over(id) || len(w.nodes["n2"].chores) > 0 {
				t.Errorf("%v of a run that goes on: the tasks of job %d began", when, id)
			}
		}
		for when, id := range bags {
			want, got := when.Met(map[int32]filch.State{0: filch.OK, 3: filch.Failed}[code]), w.tally(id, 20*sec)
			if want && got.OK != 3 || !want && got.Skipped != 3 {
				t.Errorf("after a run with code %d: %v ended %+v", code, when, got)
			}
		}
		if got := w.tally(none, 20*sec); got.Skipped != 3 {
			t.Errorf("a bag that waits for no job ended %+v", got)
		}
		cause, h := "", w.nodes["n1"]
		h.input(func(out *launcher.Outbox) {
			h.node.FindTasks(w.Now(), none, sec, func(j *records.TaskJob, _ *filch.Error) {
				cause = records.TaskJobInfo(none, j.Record, 0).Cause
			}, out)
		})
		w.run(2 * sec)
		if !strings.Contains(cause, "skipped: there is no job 9999") {
			t.Errorf("the cause is %q", cause)
		}
	}
}
