//go:build root

package slurm_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestPoolHandsItsQueueOn: a pool without a login node, on one node of the cluster. The batch
// job with the instance asks for its successor before its end, which can start only after the
// end. The successor goes on with the queue and the pool, and every task ends.
func TestPoolHandsItsQueueOn(t *testing.T) {
	r := newRig(t)
	r.wait = 4 * time.Minute
	const tasks = 160 // the first job, of two slots, does some 110
	marks := filepath.Join(r.dir, "marks")
	if err := os.Mkdir(marks, 0o755); err != nil {
		t.Fatal(err)
	}
	r.write("work", `set -e
filch pool add slurm --max 1 --idle 5s --slots 4 -- -N1 -n4 -w n1 --exclusive -t 2 --comment=heir
filch submit --array 1-`+strconv.Itoa(tasks)+` -- sh -c 'sleep 1; echo x >>`+marks+`/{}'
filch wait last
`)
	first := r.submit("exec filch up --instance heritage -- sh "+filepath.Join(r.dir, "work"), "-N1", "-n4", "-w", "n1", "--exclusive", "-t", "1")
	r.poll("a successor", func() bool { return len(r.queue()) > 0 })
	heir := strings.Fields(r.queue()[0])[0]
	text, err := r.c.Text("squeue", "--noheader", "--jobs="+first+","+heir, "--format=%i %T")
	if err != nil || !strings.Contains(text, first+" RUNNING") || !strings.Contains(text, heir+" PENDING") {
		t.Errorf("the jobs are %q, %v; the successor is asked for before the end", text, err)
	}
	r.poll("all marks", func() bool { list, _ := os.ReadDir(marks); return len(list) == tasks })
	again := 0
	for i := 1; i <= tasks; i++ {
		if b, _ := os.ReadFile(filepath.Join(marks, strconv.Itoa(i))); string(b) != "x\n" {
			again++
		}
	}
	if again > 8 { // those that ran at the end of the first job, or ended in its last second
		t.Errorf("%d of %d tasks ran more than once", again, tasks)
	}
	r.poll("an empty queue", func() bool { return len(r.queue()) == 0 })
	t.Logf("figure: %d of %d tasks ran more than once", again, tasks)
	r.poll("the end of all launchers", func() bool { return len(r.launchers()) == 0 })
}
