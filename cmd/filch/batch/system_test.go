package batch

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/filch-hpc/filch/pool"
)

// TestStatesOfSlurm: what each state of squeue(1) means for an allocation.
func TestStatesOfSlurm(t *testing.T) {
	for _, c := range []struct {
		state, reason string
		want          pool.Job
	}{
		{"PENDING", "Priority", pool.Job{State: pool.JobQueued, Said: "Priority"}},
		{"PENDING", "JobHeldUser", pool.Job{State: pool.JobHeld, Said: "JobHeldUser"}},
		{"PENDING", "JobHeldAdmin", pool.Job{State: pool.JobHeld, Said: "JobHeldAdmin"}},
		{"CONFIGURING", "None", pool.Job{State: pool.JobRunning, Said: "CONFIGURING"}},
		{"RUNNING", "None", pool.Job{State: pool.JobRunning, Said: "RUNNING"}},
		{"COMPLETING", "None", pool.Job{State: pool.JobRunning, Said: "COMPLETING"}},
		{"SUSPENDED", "None", pool.Job{State: pool.JobRunning, Said: "SUSPENDED"}},
		{"COMPLETED", "None", pool.Job{State: pool.JobOver, Said: "COMPLETED"}},
		{"FAILED", "NonZeroExitCode", pool.Job{State: pool.JobOver, Said: "FAILED (NonZeroExitCode)"}},
		{"TIMEOUT", "TimeLimit", pool.Job{State: pool.JobOver, Said: "TIMEOUT (TimeLimit)"}},
		{"NODE_FAIL", "None", pool.Job{State: pool.JobOver, Said: "NODE_FAIL"}},
		{"OUT_OF_MEMORY", "None", pool.Job{State: pool.JobOver, Said: "OUT_OF_MEMORY"}},
		{"PREEMPTED", "None", pool.Job{State: pool.JobOver, Said: "PREEMPTED", Cancelled: true}},
		{"CANCELLED", "None", pool.Job{State: pool.JobOver, Said: "CANCELLED", Cancelled: true}},
		{"A_STATE_TO_COME", "None", pool.Job{State: pool.JobOver, Said: "A_STATE_TO_COME"}},
	} {
		if got := slurmJob(c.state, c.reason); got != c.want {
			t.Errorf("%s %s: got %+v, want %+v", c.state, c.reason, got, c.want)
		}
	}
}

// TestMadeUpPBS: a made-up qsub, qstat and qdel.
func TestMadeUpPBS(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("qsub", `cat >`+dir+`/script; echo "$@" >`+dir+`/args; echo 12.head`)
	write("qdel", `echo "$@" >`+dir+`/deleted`)
	write("qstat", `cat <<'END'
{"Jobs": {"12.head": {"Job_Name": "filch-a-p-1", "job_state": "H", "comment": "held by an operator"},
"13.head": {"Job_Name": "filch-a-p-2", "job_state": "R", "Resource_List": {"nodect": 2, "walltime": "01:30:00"}},
"14.head": {"Job_Name": "filch-a-p-3", "job_state": "F", "Exit_status": 271}}}
END`)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	s := systems["pbs"](&pool.Spec{})
	if none := missing(s); len(none) > 0 {
		t.Fatalf("missing: %v", none)
	}
	id, err := s.submit(context.Background(), "filch-a-p-1", "exec true\n", []string{"-q", "batch"})
	args, _ := os.ReadFile(filepath.Join(dir, "args"))
	script, _ := os.ReadFile(filepath.Join(dir, "script"))
	if err != nil || id != "12.head" || string(args) != "-N filch-a-p-1 -r n -q batch\n" || string(script) != "exec true\n" {
		t.Errorf("submit: %q, %v; qsub got %q and the script %q", id, err, args, script)
	}
	b, err := s.look(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for job, want := range map[string]pool.Job{
		"12.head": {State: pool.JobHeld, Said: "held by an operator"},
		"13.head": {State: pool.JobRunning, Asked: 3 * time.Hour},
		"14.head": {State: pool.JobOver, Said: "exit status 271", Cancelled: true},
	} { // any order
		if b.Jobs[job] != want {
			t.Errorf("job %s: got %+v, want %+v", job, b.Jobs[job], want)
		}
	}
	if b.Name["filch-a-p-2"] != "13.head" {
		t.Errorf("names: %v", b.Name)
	}
	if err := s.cancel(context.Background(), "13.head"); err != nil {
		t.Error(err)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "deleted")); string(got) != "13.head\n" {
		t.Errorf("qdel got %q", got)
	}
}

// TestVia: the words of a command reach another host as they are. The ssh is made up.
func TestVia(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("ssh", `[ "$1 $2 $3 $4" = "-oBatchMode=yes -oConnectTimeout=10 -- login1" ] || exit 9; shift 4; exec sh -c "$*"`)
	write("sbatch", `cat >`+dir+`/script; for a; do echo "<$a>"; done >`+dir+`/args; echo "12;far"`)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	s := systems["slurm"](&pool.Spec{Via: "login1"})
	id, err := s.submit(context.Background(), "filch-a-p-1", "exec true\n", []string{"--comment=it's $HOME", "-C", "a&b"})
	args, _ := os.ReadFile(filepath.Join(dir, "args"))
	script, _ := os.ReadFile(filepath.Join(dir, "script"))
	want := "<--parsable>\n<--job-name=filch-a-p-1>\n<--no-requeue>\n<--comment=it's $HOME>\n<-C>\n<a&b>\n"
	if err != nil || id != "12" || string(args) != want || string(script) != "exec true\n" {
		t.Errorf("submit: %q, %v; sbatch got %q and the script %q", id, err, args, script)
	}
	if none := missing(s); len(none) > 0 {
		t.Errorf("missing: %v", none)
	}
}

// TestHooks: three commands of a user.
func TestHooks(t *testing.T) {
	s := systems["hooks"](&pool.Spec{Args: []string{
		`cat >/dev/null; echo "7 $1"`, `echo 7 a queued no nodes; echo 8 b cancelled; echo "9 c running 2*1:30:00"; echo "10 d queued 4*30 behind others"`, `test "$1" = 7`,
	}})
	if id, err := s.submit(context.Background(), "a", "", nil); err != nil || id != "7 a" {
		t.Errorf("submit: %q, %v", id, err)
	}
	b, err := s.look(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Jobs["7"]; got != (pool.Job{State: pool.JobQueued, Said: "no nodes"}) {
		t.Errorf("queued: %+v", got)
	}
	if got := b.Jobs["8"]; got != (pool.Job{State: pool.JobOver, Cancelled: true}) {
		t.Errorf("cancelled: %+v", got)
	}
	if got := b.Jobs["9"]; got != (pool.Job{State: pool.JobRunning, Asked: 3 * time.Hour}) {
		t.Errorf("running: %+v", got)
	}
	if got := b.Jobs["10"]; got != (pool.Job{State: pool.JobQueued, Asked: 2 * time.Hour, Said: "behind others"}) {
		t.Errorf("queued with a limit: %+v", got)
	}
	if err := s.cancel(context.Background(), "7"); err != nil {
		t.Error(err)
	}
	if err := s.cancel(context.Background(), "8"); err == nil {
		t.Error("a cancel that fails was no error")
	}
	bad := systems["hooks"](&pool.Spec{Args: []string{"", "echo 1 a perhaps", ""}})
	if _, err := bad.look(context.Background()); err == nil {
		t.Error("an unknown state was no error")
	}
}
