package shims

import (
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/slurmenv"
	"github.com/filch-hpc/filch/launcher/spec"
)

// TestSlurmsTablesAreClean prints a hostile job name with the shims' formats.
func TestSlurmsTablesAreClean(t *testing.T) {
	var j batchJob
	j.Name, j.page.Dir, j.page.Command = "a\n7\u202eb", "/d\x1b[2J", "/c\nJobId=8"
	const want = `a\n7\u202eb`
	if got := squeueLine("%i|%j", func(c byte) string { return j.squeueField(c, "7") }); got != "7|"+want {
		t.Errorf("squeue: got %q", got)
	}
	if got := j.scontrol(); !strings.Contains(got, "JobName="+want) || strings.ContainsAny(got, "\x1b\u202e") || strings.Contains(got, "\nJobId") {
		t.Errorf("scontrol: got %q", got)
	}
}

// squeue knows an ended job for MinJobAge, and then no more: a program that checks whether its
// job is alive, as Cromwell does, hears of no such job.
func TestSqueueForgetsEndedJobs(t *testing.T) {
	code, now := int32(0), time.Now()
	ago := func(d time.Duration) int64 { return now.Add(-d).UnixNano() }
	for _, c := range []struct {
		name string
		job  launcher.JobInfo
		want bool
	}{
		{"runs-for-long", launcher.JobInfo{State: "running", Submit: ago(time.Hour), Elapsed: 3600, Nodes: []filch.NodeName{"n1"}}, false},
		{"waits-for-long", launcher.JobInfo{State: "waiting", Submit: ago(time.Hour)}, false},
		{"ended-now", launcher.JobInfo{State: "ok", Code: &code, Submit: ago(time.Hour), Waited: 10, Elapsed: 3580, Nodes: []filch.NodeName{"n1"}}, false},
		{"ended-long-ago", launcher.JobInfo{State: "ok", Code: &code, Submit: ago(time.Hour), Waited: 10, Elapsed: 3280, Nodes: []filch.NodeName{"n1"}}, true},
		{"cancelled-before-its-start", launcher.JobInfo{State: "cancelled", Code: &code, Submit: ago(time.Hour), Waited: 10}, true},
	} {
		if got := len(remembered([]batchJob{{JobInfo: c.job}})) == 0; got != c.want {
			t.Errorf("%s: forgotten is %v", c.name, got)
		}
	}
}

// %N in a name is the node of the script.
func TestExpandOfScripts(t *testing.T) {
	t.Setenv("FILCH_NODE", "n3")
	p := page{ID: 12, Array: 9, Index: 4, Name: "nm"}
	for pattern, want := range map[string]string{"%N.out": "n3.out", "%A_%a.%j.%x": "9_4.12.nm", "%%N": "%N", "%5j.%J": "00012.12"} {
		if got := p.expand(pattern); got != want {
			t.Errorf("%s: got %s, want %s", pattern, got, want)
		}
	}
}

// Requeue of sbatch, and of SBATCH_REQUEUE, starts the job again when a node dies.
func TestSbatchRequeues(t *testing.T) {
	for line, want := range map[string][2]bool{"job.sh": {false, false}, "--requeue job.sh": {true, false}, "--requeue --no-requeue job.sh": {false, true}} {
		r, err := spec.ParseSbatch(strings.Fields(line), func(string) string { return "" })
		if err != nil || r.Request.Policy.Requeue != want[0] || r.Client.Batch.NoRequeue != want[1] {
			t.Errorf("%s: got %v and no-requeue %v, %v", line, r.Request.Policy.Requeue, r.Client.Batch.NoRequeue, err)
		}
	}
}

// The shapes of batch jobs with GPUs: a rank holds the GPUs of its tasks, or the job has one
// rank on each node.
func TestShapesOfBatchJobsWithGPUs(t *testing.T) {
	for line, want := range map[string]string{
		"-n 4 --gpus-per-task=1":             "-n 4 --gpus-per-task=1",
		"-N 2 -n 4 --gpus-per-task=1":        "-n 2 -N 2 -c 2 --ntasks-per-node=1 --gpus-per-task=2",
		"-N 2 --gpus-per-node=2":             "-n 2 -N 2 --ntasks-per-node=1 --gpus-per-node=2",
		"-n 3 --gres=gpu:2":                  "-n 1 -N 1 -c 3 --ntasks-per-node=1 --gpus-per-node=2",
		"-n 3 -G 2":                          "-n 1 -N 1 -c 3 --ntasks-per-node=1 --gpus-per-task=2",
		"-N 2 -n 6 -G 4":                     "-n 2 -N 2 -c 3 --ntasks-per-node=1 --gpus-per-task=2",
		"-N 1 --ntasks-per-node=2 -G a100:1": "-n 1 -N 1 -c 2 --ntasks-per-node=1 --gpus-per-task=1 -C 'a100'",
	} {
		r, err := spec.ParseSbatch(append(strings.Fields(line), "job.sh"), func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		around := spec.Context{Cwd: "/", Submitter: func() slurmenv.Submitter { return slurmenv.Submitter{} }}
		if err := prepareBatch(r, &page{}, -1, around); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if got := spec.FormatShape(r.Request.Shape); got != want {
			t.Errorf("%s: got %s, want %s", line, got, want)
		}
	}
}
