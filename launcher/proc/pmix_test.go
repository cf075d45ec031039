package proc_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/proc"
	"golang.org/x/sys/unix"
)

// needPMIx is the line for a machine without the library.
const needPMIx = "apt-get install libpmix2 libpmix-dev gcc libc6-dev"

// servers finds the PMIx servers below a keeper.
func servers(keeper int) []int {
	var pids []int
	names, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, n := range names {
		exe, _ := os.Readlink(n)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(n)))
		stat, _ := os.ReadFile(filepath.Join(filepath.Dir(n), "stat"))
		f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if strings.HasPrefix(filepath.Base(exe), "pmixd-") && len(f) > 1 && f[1] == strconv.Itoa(keeper) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// segments are what keepers of a place have made for ranks.
func segments(dir string) []string {
	inDir, _ := filepath.Glob(filepath.Join(dir, "pmix", "*"))
	return inDir
}

// startPMIx runs a shell in two ranks with PMIx.
func startPMIx(t *testing.T, b *boss, script string) seen {
	t.Helper()
	o := newOrder(2, "/bin/sh", "-c", script)
	o.MPI = "pmix"
	b.run(o)
	s := b.until("Ready", func(s seen) bool { return s.ready != nil })
	if s.ready.Err != nil {
		t.Fatalf("%+v; %s", s.ready.Err, needPMIx)
	}
	return s
}

func TestPMIxEnvironment(t *testing.T) {
	b := newBoss(t)
	startPMIx(t, b, "env; test -d $OMPI_MCA_orte_tmpdir_base && test -w $OMPI_MCA_btl_vader_backing_directory && echo there")
	s := b.untilDone()
	got := string(s.out["1.1"])
	for _, want := range []string{
		"PMIX_RANK=1\n", "PMIX_NAMESPACE=filch-11111111-2222-3333-4444-555555555555", "PMIX_SERVER_URI", "OMPI_MCA_schizo=ompi\n",
		"OMPI_COMM_WORLD_RANK=1\n", "OMPI_COMM_WORLD_SIZE=2\n", "OMPI_COMM_WORLD_LOCAL_RANK=1\n", "there\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
	if strings.Contains(got, "PMI_FD=") {
		t.Error("PMI as well as PMIx")
	}
	if left := segments(b.place.Dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	b.forget()
	if left := servers(b.k.PID); len(left) > 0 {
		t.Errorf("helpers %v are left", left)
	}
}

// TestPMIxChoices has what Open MPI is told of cores and networks, and that the
// user's word counts for more.
func TestPMIxChoices(t *testing.T) {
	const yields, network = "OMPI_MCA_mpi_yield_when_idle=1\n", "OMPI_MCA_btl_tcp_if_include="
	b := newBoss(t)
	for name, c := range map[string]struct {
		spare int32
		net   string
		env   []string
		yield bool
		want  string
	}{
		"a-core-each":   {2, "", nil, false, ""},
		"one-for-both":  {1, "", nil, true, ""},
		"none-left":     {-2, "", nil, true, ""},
		"loopback":      {2, "127.0.0.1", nil, false, network + "127.0.0.0/8\n"},
		"not-ours":      {2, "198.51.100.7", nil, false, ""},
		"user-includes": {2, "127.0.0.1", []string{network + "x0"}, false, network + "x0\n"},
		"user-excludes": {2, "127.0.0.1", []string{"OMPI_MCA_btl_tcp_if_exclude=x0"}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrder(2, "/usr/bin/env")
			o.MPI, o.Env = "pmix", append(o.Env, c.env...)
			o.start.Spare, o.start.Net = c.spare, c.net
			b.run(o)
			s := b.untilDone()
			got := string(s.out["1.1"])
			if strings.Contains(got, yields) != c.yield {
				t.Errorf("that ranks yield is not %v: %s", c.yield, got)
			}
			if !strings.Contains(got, c.want) || c.want == "" && strings.Contains(got, network) {
				t.Errorf("want the network %q: %s", c.want, got)
			}
			b.forget()
		})
	}
}

// TestPMIxHelperDies kills the helper under the ranks.
func TestPMIxHelperDies(t *testing.T) {
	b := newBoss(t)
	startPMIx(t, b, "echo > $OMPI_MCA_btl_vader_backing_directory/x; echo shm $OMPI_MCA_btl_vader_backing_directory; exec sleep 1000")
	s := b.until("both ranks", func(s seen) bool { return len(s.out["0.1"]) > 0 && len(s.out["1.1"]) > 0 })
	pids := servers(b.k.PID)
	if len(pids) != 1 {
		t.Fatalf("helpers: %v", pids)
	}
	start := time.Now()
	unix.Kill(pids[0], unix.SIGKILL)
	done := b.untilDone()
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
	if len(done.ends) != 2 || done.ends[0].Kind != launcher.CauseOurs || done.ends[0].Text != "the PMIx server (pmixd) ended: killed by SIGKILL" {
		t.Errorf("ends %+v", done.ends)
	}
	gone(t, b, s)
}

func gone(t *testing.T, b *boss, s seen) {
	t.Helper()
	shm := strings.TrimSpace(strings.TrimPrefix(string(s.out["0.1"]), "shm "))
	eventually(t, "an empty "+shm, func() bool {
		_, err := os.Stat(shm)
		return os.IsNotExist(err) && len(segments(b.place.Dir)) == 0
	})
}

// TestPMIxKeeperDies kills the keeper: the helper goes with it, and a sweep
// finds the rest.
func TestPMIxKeeperDies(t *testing.T) {
	b := newBoss(t)
	startPMIx(t, b, "echo > $OMPI_MCA_btl_vader_backing_directory/x; echo shm $OMPI_MCA_btl_vader_backing_directory; exec sleep 1000")
	s := b.until("both ranks", func(s seen) bool { return len(s.out["0.1"]) > 0 && len(s.out["1.1"]) > 0 })
	pids := servers(b.k.PID)
	unix.Kill(b.k.PID, unix.SIGKILL)
	eventually(t, "the end of the helper and the ranks", func() bool {
		return len(pids) == 1 && !living(pids[0]) && !living(int(s.started.PIDs[0]))
	})
	proc.SweepOrphans(b.place)
	gone(t, b, s)
}

func TestPMIxWithoutLibrary(t *testing.T) {
	b := newBoss(t)
	o := newOrder(2, "/bin/true")
	o.MPI = "pmix"
	o.Env = append(o.Env, "FILCH_LIBPMIX=/nonexistent/libpmix.so.2")
	b.run(o)
	s := b.until("Ready", func(s seen) bool { return s.ready != nil })
	if s.ready.Err == nil || !strings.Contains(s.ready.Err.Text, "libpmix.so.2 is not on n3") || !strings.Contains(s.ready.Err.Hint, "apt-get install libpmix2") {
		t.Errorf("got %+v", s.ready.Err)
	}
	if left := segments(b.place.Dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestPMIxCancelled stops a job before and after its helper is ready.
func TestPMIxCancelled(t *testing.T) {
	for _, late := range []bool{false, true} {
		b := newBoss(t)
		o := newOrder(2, "/bin/sleep", "1000")
		o.MPI = "pmix"
		b.run(o)
		if late {
			b.until("the ranks", func(s seen) bool { return s.started != nil })
		}
		b.stop(unix.SIGTERM, time.Second)
		b.untilDone()
		if left := segments(b.place.Dir); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

// Ranks of a program of MPICH that end at once under PMIx run alone, and end with 0: the keeper of
// the first rank says so. A program without MPI needs no warning.
func TestRanksThatEndedAloneAreSaid(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/main.c", []byte("int main(void) { return 0; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"-shared", "-o", dir + "/libmpich.so.12", "-Wl,-soname,libmpich.so.12", "-xc", "/dev/null"},
		{"-o", dir + "/alone", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN", dir + "/main.c", dir + "/libmpich.so.12"},
		{"-o", dir + "/none", dir + "/main.c"},
	} {
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v: %s; %s", err, out, needPMIx)
		}
	}
	warning := "rank 0 uses MPICH, which needs PMI, and none of the 2 ranks on n3 asked for the others before its end: each ran alone; try --mpi=pmi1"
	for _, c := range []struct{ program, mpi, want string }{{"alone", "pmix", warning}, {"alone", "auto", ""}, {"alone", "none", ""}, {"none", "pmix", ""}} {
		b := newBoss(t)
		o := newOrder(2, dir+"/"+c.program)
		o.MPI = c.mpi
		b.run(o)
		s := b.untilDone()
		if s.ready != nil && s.ready.Err != nil {
			t.Fatalf("%+v; %s", s.ready.Err, needPMIx)
		}
		if got := strings.Join(s.warns, "; "); got != c.want || len(s.ends) != 2 {
			t.Errorf("--mpi=%s %s: warned %q of %d ends, want %q", c.mpi, c.program, got, len(s.ends), c.want)
		}
	}
}
