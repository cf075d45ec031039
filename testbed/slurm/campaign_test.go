//go:build root

package slurm_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestCampaign: one command on the login node runs a list of commands on allocations of its
// own, says the cost, and leaves nothing.
func TestCampaign(t *testing.T) {
	r := newRig(t)
	const tasks = 40
	r.write("list", strings.Repeat("hostname; sleep 1\n", tasks-1)+"exit 7\n")
	out, code := r.run("sh", "-c", "filch campaign --pool 'slurm -N1 -n4 -t 10' --max 3 --idle 5s --address "+r.address()+" -- ./list 2>&1")
	t.Logf("figure: %s", out)
	if code != 1 || !strings.Contains(out, "39 of 40 tasks ended well, 1 failed; what they printed is in ./list.out") {
		t.Errorf("got %d", code)
	}
	for i := range tasks - 1 {
		b, err := os.ReadFile(filepath.Join(r.dir, "list.out", strconv.Itoa(i)))
		if err != nil || !strings.HasPrefix(string(b), "n") {
			t.Errorf("task %d printed %q, %v", i, b, err)
		}
	}
	log, err := os.ReadFile(filepath.Join(r.dir, "list.out", "joblog"))
	if err != nil || strings.Count(string(log), "\n") != tasks+1 {
		t.Errorf("the job log is %q, %v", log, err)
	}
	cost := regexp.MustCompile(`cost: ([123]) allocations?; node-hours: 0\.(\d\d) asked for, 0\.\d\d granted, 0\.\d\d worked`).FindStringSubmatch(out)
	if cost == nil || cost[2] != map[string]string{"1": "17", "2": "33", "3": "50"}[cost[1]] {
		t.Errorf("the cost: %v; each allocation asked for a node for ten minutes", cost)
	}
	if left := r.queue(); len(left) > 0 {
		t.Errorf("batch jobs are left: %v", left)
	}
	r.clean()
}

// TestPoolTakesThePartitionThatStartsFirst: the nodes of one partition are taken, those of
// the other are free.
func TestPoolTakesThePartitionThatStartsFirst(t *testing.T) {
	r := newRig(t)
	r.login("parts")
	if out, code := r.run("scontrol", "create", "PartitionName=taken", "Nodes=n1", "State=UP"); code != 0 {
		t.Fatalf("scontrol: %s", out)
	}
	other := strings.TrimSpace(r.sbatch("-p", "taken", "-N1", "--exclusive", "--wrap", "sleep 300"))
	r.poll("a job on n1", func() bool {
		text, err := r.c.Text("squeue", "--noheader", "--jobs="+other, "--format=%T")
		return err == nil && strings.TrimSpace(text) == "RUNNING"
	})
	r.filch("pool", "add", "slurm", "--max", "1", "--idle", "5s", "--", "-N1", "-n4", "-t", "10", "-p", "taken,main")
	r.ranOnce(r.burst(1), 1)
	text, err := r.c.Text("squeue", "--noheader", "--states=all", "--format=%j %P %N")
	if err != nil || !regexp.MustCompile(`(?m)^filch-parts-slurm-1 main n[234]$`).MatchString(text) {
		t.Errorf("the jobs, their partitions and nodes:\n%s%v", text, err)
	}
	r.run("scancel", other)
	r.poll("an empty queue", func() bool { return len(r.queue()) == 0 })
	r.poll("the end of the other job", func() bool {
		_, code := r.run("scontrol", "delete", "PartitionName=taken")
		return code == 0
	})
}

// TestPoolOverSsh: the commands of Slurm run over ssh on another host; the ssh is made up,
// and runs them here.
func TestPoolOverSsh(t *testing.T) {
	r := newRig(t)
	bin := filepath.Join(r.dir, "ssh-only")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(r.dir, "ssh.log")
	r.write("ssh-only/ssh", "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\necho \"$2 $3\" >>"+log+"\nshift 2\nexec sh -c \"$*\"\n")
	r.env = append(r.env, "PATH="+bin+":"+filepath.Join(world.dir, "bin")+":"+os.Getenv("PATH"))
	r.login("far")
	if out, code := r.filch("pool", "add", "slurm", "--via", "login7", "--max", "1", "--idle", "5s", "--", "-N1", "-n4", "-t", "10", "--comment=a 'word' and $more"); code != 0 {
		t.Fatalf("pool add: %d\n%s", code, out)
	}
	r.ranOnce(r.burst(8), 8)
	r.poll("an empty queue", func() bool { return len(r.queue()) == 0 })
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"login7 'sbatch' '--test-only'", "login7 'sbatch' '--parsable'", "login7 'squeue'"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%q did not go over ssh:\n%s", want, b)
		}
	}
}
