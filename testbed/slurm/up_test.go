//go:build root

package slurm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func match(t *testing.T, text, pattern string) {
	t.Helper()
	if !regexp.MustCompile("(?m)" + pattern).MatchString(text) {
		t.Errorf("no %q in\n%s", pattern, text)
	}
}

func TestUpBringsLaunchersToEveryNode(t *testing.T) {
	r := newRig(t)
	out, code := r.batch(`filch up --slots 4 -- sh -c '
filch nodes
filch run -n 16 -l hostname | sort -n
filch run -N 4 sh -c "echo \$FILCH_NODE is \$(hostname)"
exit 7'`, "-N4", "-n16", "-t", "5")
	if code != 7 {
		t.Errorf("got exit code %d, want that of the command, 7", code)
	}
	match(t, out, `^filch: slurm-\d+ is up: 4 nodes n\[1-4\], 16 slots, in .*, 4m\d+s left$`)
	match(t, out, `^slurm-\d+  4 of 4 nodes up  16 of 16 slots free$`)
	for _, line := range []string{"^ 0: n1$", "^ 4: n2$", "^15: n4$", "^n3 is n3$"} {
		match(t, out, line)
	}
	r.clean()
}

func TestUpShellHoldsTheInstance(t *testing.T) {
	r := newRig(t)
	out, code := r.batch(`source <(filch up --shell --slots 2)
filch run -n 8 -l hostname | sort -n
filch up -- true; echo "again: $?"
filch run -N 4 echo still here
exit 3`, "-N4", "-n16")
	if code != 3 {
		t.Errorf("got exit code %d, want 3", code)
	}
	match(t, out, `^7: n4$`)
	match(t, out, `^filch: error: slurm-\d+ is up already`)
	match(t, out, `^again: 125$`)
	match(t, out, `^still here$`)
	r.poll("end of all launchers", func() bool { return len(r.launchers()) == 0 })
}

func TestUpEndsWithTheJob(t *testing.T) {
	r := newRig(t)
	id := r.submit(`filch up -- sh -c 'filch run -N 4 sh -c "touch '$HOME'/on.\$FILCH_NODE; exec sleep 1000"'`, "-N4", "-n16")
	r.poll("ranks", func() bool {
		on, _ := filepath.Glob(filepath.Join(r.dir, "on.*"))
		return len(on) == 4
	})
	if _, code := r.run("scancel", id); code != 0 {
		t.Fatal("scancel failed")
	}
	r.await(id)
	r.poll("end of all launchers", func() bool { return len(r.launchers()) == 0 })
}

func TestUpNamesTheNodeThatFails(t *testing.T) {
	r := newRig(t)
	bad := filepath.Join(r.dir, "bad")
	if err := os.WriteFile(bad, []byte("#!/bin/sh\necho 'filch: error: no luck today' >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, code := r.batch(`cat > picky <<'X'
#!/bin/sh
[ "$(hostname)" != n3 ] || exec `+bad+`
exec `+filepath.Join(world.dir, "bin", "filchd")+` "$@"
X
chmod +x picky
FILCH_FILCHD=$PWD/picky filch up -- true`, "-N4", "-n16")
	if code != 125 {
		t.Errorf("got exit code %d, want 125", code)
	}
	match(t, out, `^filch: error: cannot start the launcher of n3: no luck today$`)
	r.clean()
}

func TestUpNamesTheNodeThatIsLate(t *testing.T) {
	r := newRig(t)
	out, code := r.batch(`cat > slow <<'X'
#!/bin/sh
[ "$(hostname)" != n2 ] || exec sleep 30
exec `+filepath.Join(world.dir, "bin", "filchd")+` "$@"
X
chmod +x slow
FILCH_FILCHD=$PWD/slow filch up --deadline 3s -- true`, "-N4", "-n16")
	if code != 125 {
		t.Errorf("got exit code %d, want 125", code)
	}
	match(t, out, `^filch: error: 3 of 4 nodes have joined slurm-\d+ after 3s; missing: n2$`)
	r.clean()
}

func TestUpStartedAsManyTasksIsOne(t *testing.T) {
	r := newRig(t)
	out, _ := r.batch(`srun --overlap -N 2 -n 4 filch up --slots 1 -- sh -c 'filch run -n 2 hostname | sort'`, "-N2", "-n8")
	if got := strings.Count(out, "is up: 2 nodes"); got != 1 {
		t.Errorf("%d instances came up, want 1:\n%s", got, out)
	}
	match(t, out, `^filch: started as task 3 of a step: task 0 starts the launchers$`)
	match(t, out, `^n2$`)
	r.clean()
}

func TestTwoAllocationsAreOnePool(t *testing.T) {
	r := newRig(t)
	r.write("first.sh", `cd $HOME
filch invite -o invitation >/dev/null
until [ -e done ]; do sleep 0.1; done
until [ "$(filch nodes | grep -c '^n.* up ')" = 2 ]; do sleep 0.1; done
filch run -n 4 -l hostname | sort`)
	r.write("second.sh", `cd $HOME
filch nodes
filch run -n 8 -l hostname | sort
touch done`)
	first := r.submit(`filch up --slots 2 -- sh $HOME/first.sh`, "-N2", "-w", "n1,n2", "--exclusive")
	r.poll("the invitation", func() bool {
		_, err := os.Stat(filepath.Join(r.dir, "invitation"))
		return err == nil
	})
	second, code := r.batch(`filch up --slots 2 --join $HOME/invitation -- sh $HOME/second.sh`, "-N2", "-w", "n3,n4", "--exclusive")
	if code != 0 {
		t.Errorf("the second: got exit code %d", code)
	}
	match(t, second, `^filch: slurm-`+first+` has grown: 2 nodes n\[3-4\], 4 slots, in `)
	match(t, second, `^slurm-`+first+`  4 of 4 nodes up  8 of 8 slots free$`)
	for _, n := range []string{"n1", "n2", "n3", "n4"} {
		match(t, second, `^\d: `+n+`$`)
	}
	out, code := r.await(first)
	if code != 0 {
		t.Errorf("the first: got exit code %d", code)
	}
	match(t, out, `^3: n[12]$`)
	r.clean()
}

func TestOpenMPIOverTheNodes(t *testing.T) {
	r := newRig(t)
	exe := filepath.Join(r.dir, "cpi")
	if out, err := exec.Command("mpicc.openmpi", "-O2", "-o", exe, "/usr/share/doc/mpich/examples/cpi.c", "-lm").CombinedOutput(); err != nil {
		t.Fatalf("mpicc.openmpi: %v: apt-get install -y libopenmpi-dev mpich-doc\n%s", err, out)
	}
	out, code := r.batch(`filch up --slots 4 -- filch run -n 8 -N 4 `+exe, "-N4", "-n16")
	if code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	match(t, out, `^Process 7 of 8 is on n4$`)
	r.clean()
}
