package query

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/glance"
	"github.com/filch-hpc/filch/launcher/wire"
)

// However many jobs the nodes know, an overview has the oldest live jobs and the last that
// ended, says how many it lacks, and stays far below the limit of an answer.
func TestOverviewIsBounded(t *testing.T) {
	code := int32(0)
	var all []*wire.Glance
	name, cause := strings.Repeat("é", 4000), strings.Repeat("x", 4000)
	var names []filch.NodeName
	for k := range 1000 {
		names = append(names, filch.NodeName(fmt.Sprint("node", k)))
	}
	const nodes = 100
	for n := range nodes {
		g := &wire.Glance{Node: wire.NodeGlance{Node: filch.NodeName(fmt.Sprintf("node%04d", n))}}
		var jobs []launcher.JobInfo
		for i := range 250 {
			j := launcher.JobInfo{ID: filch.JobID(n*1000 + i + 1), Name: name, Cause: cause, Submit: int64(n*1000 + i), Kind: "bag", State: "running", Nodes: names}
			if i >= 220 {
				j.Code = &code
			}
			jobs = append(jobs, j)
			if len(g.Live) < wire.GlanceLive {
				g.Live = append(g.Live, wire.LiveTasks{Live: launcher.Live{Job: j.ID, Running: 1}})
			}
		}
		g.Jobs, g.More = glance.Choose(jobs)
		if live := len(g.Jobs) - wire.GlanceEnded; live != wire.GlanceJobs || g.More != 20 {
			t.Fatalf("node %d tells %d live jobs and lacks %d", n, live, g.More)
		}
		for i := range 100 {
			g.Tasks = append(g.Tasks, launcher.RunningTask{Index: int32(n*100 + i), Took: float64(i)})
		}
		all = append(all, g)
	}
	o := glance.Join(all)
	if len(o.Jobs) != wire.GlanceJobs+wire.GlanceEnded || o.More != 220*nodes-wire.GlanceJobs || len(o.Tasks) != wire.GlanceTasks || o.Tasks[0].Took != 99 {
		t.Errorf("%d jobs and %d more, %d tasks", len(o.Jobs), o.More, len(o.Tasks))
	}
	for _, j := range o.Jobs {
		if len(j.Nodes) > wire.GlanceNames || len(j.Name) > wire.GlanceText+3 || !utf8.ValidString(j.Name) {
			t.Fatalf("job %d has %d nodes and a name of %d bytes", j.ID, len(j.Nodes), len(j.Name))
		}
	}
	b, err := json.Marshal(o)
	if err != nil || len(b) > wire.MaxAnswer/16 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

func TestJoinGlancesCountsTasks(t *testing.T) {
	job := launcher.JobInfo{ID: 7, Kind: "bag", State: "waiting", Recorded: true}
	job.Tasks = launcher.TaskCounts{Total: 10, OK: 2, Waiting: 8}
	live := func(ready, running, gathers int64, lacks string) *wire.Glance {
		return &wire.Glance{Jobs: []launcher.JobInfo{job}, Live: []wire.LiveTasks{{Live: launcher.Live{Job: 7, Ready: ready, Running: running}, Gathers: gathers, Lacks: lacks}}}
	}
	o := glance.Join([]*wire.Glance{live(3, 1, 0, ""), live(2, 1, 2, "2 of 6 slots")})
	if len(o.Jobs) != 1 {
		t.Fatalf("got %+v", o.Jobs)
	}
	j := o.Jobs[0]
	if j.State != "running" || j.Tasks.Running != 2 || j.Gathers != 2 || j.Lacks != "2 of 6 slots" {
		t.Errorf("got %+v", j)
	}
}

// The memory of a task is that of all its processes; other jobs and other programs are not
// counted.
func TestMemoryOfATask(t *testing.T) {
	// This test is the launcher, the outer shell is the runner, and the inner is the task.
	cmd := exec.Command("sh", "-c", `FILCH_JOB=7 FILCH_TASK=3 sh -c 'sleep 60 & sleep 60 & wait' & sleep 60 & wait`)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		tree := readProcesses()
		for list := []int{cmd.Process.Pid}; len(list) > 0; list = list[1:] {
			list = append(list, tree.kids[list[0]]...)
			if p, err := os.FindProcess(list[0]); err == nil {
				_ = p.Kill()
			}
		}
		_ = cmd.Wait()
	}()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		tree := readProcesses()
		found := tree.tasksOf(os.Getpid(), 7)
		if pid := found[3]; len(found) == 1 && pid != 0 {
			own, all := tree.all[pid].rss, tree.memory(pid)
			if own > 0 && all > own && all < 1<<30 {
				if other := tree.tasksOf(os.Getpid(), 8); len(other) != 0 {
					t.Errorf("job 8 has %v", other)
				}
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("found %v", found)
		}
	}
}
