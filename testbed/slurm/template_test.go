//go:build root

package slurm_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// mpi compiles MPICH's own example, which says how many processes it sees.
func (r *rig) mpi() string {
	r.t.Helper()
	exe := filepath.Join(r.dir, "cpi")
	if out, err := exec.Command("mpicc.mpich", "-O2", "-o", exe, "/usr/share/doc/mpich/examples/cpi.c", "-lm").CombinedOutput(); err != nil {
		r.t.Fatalf("mpicc.mpich: %v: apt-get install -y mpich libmpich-dev mpich-doc\n%s", err, out)
	}
	return exe
}

func TestTemplateOfOneMPIJob(t *testing.T) {
	r := newRig(t)
	r.env = append(r.env, "PROGRAM="+r.mpi(), "FILCH_SLOTS=4")
	out, code := r.await(r.sbatch(abs(t, "../../scripts/sbatch/mpi.sbatch")))
	if code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	match(t, out, `^Process 15 of 16 is on n4$`)
	match(t, out, `^pi is approximately 3\.14`)
	r.clean()
}

func TestTemplateOfAnEnsemble(t *testing.T) {
	r := newRig(t)
	r.env = append(r.env, "PROGRAM="+r.mpi(), "FILCH_SLOTS=4")
	out, code := r.await(r.sbatch("-D", r.dir, abs(t, "../../scripts/sbatch/ensemble.sbatch")))
	if code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	match(t, out, `16/16`)
	for i := range 16 {
		b, err := os.ReadFile(filepath.Join(r.dir, fmt.Sprintf("member-%d.out", i+1)))
		if err != nil {
			t.Fatal(err)
		}
		match(t, string(b), `^Process 1 of 2 is on n\d$`)
	}
}

// bag writes 40 commands, each of which says where it is and ends when commands
// were on all four nodes.
func (r *rig) bag() {
	r.write("commands.txt", strings.Repeat(`touch on.$(hostname); hostname; timeout 60 sh -c 'until [ $(ls -d on.* | wc -l) = 4 ]; do sleep 0.1; done'`+"\n", 40))
}

// bagged checks what 40 commands printed.
func (r *rig) bagged() {
	r.t.Helper()
	seen := map[string]int{}
	for i := range 40 {
		b, err := os.ReadFile(filepath.Join(r.dir, "output", strconv.Itoa(i)))
		if err != nil {
			r.t.Error(err)
		}
		seen[string(b)]++
	}
	for i := range 4 {
		if seen[r.c.Node(i)+"\n"] == 0 {
			r.t.Errorf("no command was on %s: %v", r.c.Node(i), seen)
		}
	}
	if len(seen) > 4 {
		r.t.Errorf("commands printed %v", seen)
	}
}

func TestTemplateOfABag(t *testing.T) {
	r := newRig(t)
	r.bag()
	out, code := r.await(r.sbatch("-D", r.dir, abs(t, "../../scripts/sbatch/bag.sbatch")))
	if code != 0 {
		t.Errorf("got exit code %d, want 0:\n%s", code, out)
	}
	match(t, out, `^filch: .*\b40\b`)
	r.bagged()
	r.clean()
}

func TestTemplateOfABagThatFails(t *testing.T) {
	r := newRig(t)
	r.write("two.txt", "true\nexit 3\n")
	r.env = append(r.env, "COMMANDS=two.txt")
	out, code := r.await(r.sbatch("-D", r.dir, "-N2", abs(t, "../../scripts/sbatch/bag.sbatch")))
	if code != 1 {
		t.Errorf("got exit code %d, want 1", code)
	}
	match(t, out, `^filch: error: 1 task of job \d+ did not end well`)
	r.clean()
}

func TestTemplateOfAPool(t *testing.T) {
	r := newRig(t)
	r.bag()
	id := r.sbatch("-D", r.dir, "-o", filepath.Join(r.dir, "%A_%a.out"), abs(t, "../../scripts/sbatch/pool.sbatch"))
	var all strings.Builder
	for _, member := range []string{id + "_0", id + "_1"} {
		out, code := r.await(member)
		if code != 0 {
			t.Errorf("member %s: got exit code %d, want 0:\n%s", member, code, out)
		}
		all.WriteString(out)
	}
	match(t, all.String(), `^filch: slurm-\d+ is up: 2 nodes `)
	match(t, all.String(), `^filch: slurm-\d+ has grown: 2 nodes `)
	r.bagged()
	r.clean()
	if _, err := os.Stat(filepath.Join(r.dir, "pool-"+id, "invitation")); err == nil {
		t.Error("the invitation is still there")
	}
}

// The end of the first member, in the middle of the bag, is not that of the pool.
func TestTemplateOfAPoolThatTheFirstMemberLeaves(t *testing.T) {
	r := newRig(t)
	r.write("commands.txt", strings.Repeat("hostname >>begun; until [ -e go ]; do sleep 0.1; done; hostname\n", 40))
	id := r.sbatch("-D", r.dir, "-o", filepath.Join(r.dir, "%A_%a.out"), abs(t, "../../scripts/sbatch/pool.sbatch"))
	r.poll("commands on all nodes", func() bool {
		b, _ := os.ReadFile(filepath.Join(r.dir, "begun"))
		for i := range 4 {
			if !strings.Contains(string(b), r.c.Node(i)+"\n") {
				return false
			}
		}
		return true
	})
	first, err := os.Readlink(filepath.Join(r.dir, "pool-"+id, "first"))
	if err != nil {
		t.Fatal(err)
	}
	if _, code := r.run("scancel", "--batch", "-s", "TERM", id+"_"+first); code != 0 { // as --signal=B:TERM@30 does
		t.Fatal("scancel failed")
	}
	if _, code := r.await(id + "_" + first); code == 0 {
		t.Error("the first member: got exit code 0")
	}
	r.write("go", "")
	other := map[string]string{"0": "1", "1": "0"}[first]
	if out, code := r.await(id + "_" + other); code != 0 {
		t.Errorf("the other member: got exit code %d, want 0:\n%s", code, out)
	}
	for i := range 40 {
		if got := r.read(filepath.Join("output", strconv.Itoa(i))); !strings.HasPrefix(got, "n") {
			t.Errorf("command %d printed %q", i, got)
		}
	}
	r.clean()
}

// A member that starts when nobody brings the instance up says so and gives up;
// one that starts when all is done has nothing to do.
func TestTemplateOfAPoolWithoutItsFirstMember(t *testing.T) {
	r := newRig(t)
	r.env = append(r.env, "PATIENCE=2")
	for _, c := range []struct {
		name, ended, says string
		code              int
	}{{"alone", "", `^member 1: no invitation from member 7 within 2 s$`, 1}, {"late", "ended", `^member 1: the pool is closed, nothing to do$`, 0}} {
		dir := filepath.Join(r.dir, c.name)
		r.write("pool.sh", `#!/bin/bash
mkdir "$PWD/pool-$SLURM_ARRAY_JOB_ID" && ln -s 7 "$PWD/pool-$SLURM_ARRAY_JOB_ID/first"
[ -z "`+c.ended+`" ] || touch "$PWD/pool-$SLURM_ARRAY_JOB_ID/ended"
. `+abs(t, "../../scripts/sbatch/pool.sbatch"))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		id := r.sbatch("-D", dir, "-N1", "--array=1", "-o", filepath.Join(r.dir, "%A_%a.out"), filepath.Join(r.dir, "pool.sh"))
		out, code := r.await(id + "_1")
		if code != c.code {
			t.Errorf("%s: got exit code %d, want %d", c.name, code, c.code)
		}
		match(t, out, c.says)
	}
	r.clean()
}

func abs(t *testing.T, path string) string {
	t.Helper()
	a, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A workflow whose allocation is ended in the middle goes on in the next one.
func TestTemplateOfAGraph(t *testing.T) {
	r := newRig(t)
	var tasks strings.Builder
	tasks.WriteString("filch: 1\nname: fan\ntasks:\n" +
		"  first: {run: 'echo first $(hostname) >>log; echo 1 > seed', outputs: [seed]}\n")
	inputs := []string{}
	for i := range 6 {
		fmt.Fprintf(&tasks, "  part%d: {run: 'echo begin >>log; until [ -e go ]; do sleep 0.1; done; cat seed > part.%d', inputs: [seed], outputs: [part.%d]}\n", i, i, i)
		inputs = append(inputs, fmt.Sprintf("part.%d", i))
	}
	fmt.Fprintf(&tasks, "  sum: {run: 'cat part.* | wc -l > sum', inputs: [%s], outputs: [sum]}\n", strings.Join(inputs, ", "))
	r.write("workflow.yaml", tasks.String())
	script := abs(t, "../../scripts/sbatch/dag.sbatch")
	id := r.sbatch("-D", r.dir, script)
	r.poll("the parts to begin", func() bool {
		b, _ := os.ReadFile(filepath.Join(r.dir, "log"))
		return strings.Count(string(b), "begin") == 6
	})
	if _, code := r.run("scancel", id); code != 0 {
		t.Fatal("scancel failed")
	}
	r.await(id)
	r.poll("end of all launchers", func() bool { return len(r.launchers()) == 0 })
	r.write("go", "")
	r.env = append(r.env, "RESUME=slurm-"+id)
	out, code := r.await(r.sbatch("-D", r.dir, script))
	if code != 0 {
		t.Errorf("got exit code %d, want 0:\n%s", code, out)
	}
	match(t, out, `^filch: 1 job of slurm-`+id+`: 1 task done, 7 resumed$`)
	if sum := strings.TrimSpace(r.read("sum")); sum != "6" {
		t.Errorf("the sum is %q, want 6", sum)
	}
	if n := strings.Count(r.read("log"), "first"); n != 1 {
		t.Errorf("the first task was run %d times", n)
	}
	r.clean()
}
