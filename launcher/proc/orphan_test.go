package proc_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/proc/keeper"
	"github.com/filch-hpc/filch/launcher/wire"
	"golang.org/x/sys/unix"
)

// poseAsLauncher runs a job of two families of processes under a keeper, keeps
// a second keeper idle if it is told to, and prints who is who.
func poseAsLauncher(args []string) int {
	place := proc.Place{Dir: args[0], Instance: "quiet-heron", Node: "n3"}
	unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	self, _ := os.Executable()
	k, err := proc.Spawn(self, place, os.Stderr)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if args[1] == "idle" {
		idle, err := proc.Spawn(self, place, os.Stderr)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		wire.NewConn(idle.Link).Read() // it is up
		fmt.Println("idle", idle.PID)
	}
	o := newOrder(2, self, "rank", "family", "hang")
	s, err := startOf(o)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	conn := wire.NewConn(k.Link)
	conn.Send(wire.KindStart, 0, s)
	fmt.Println("keeper", k.PID)
	go func() {
		for range time.Tick(time.Second) {
			conn.Send(wire.KindLease, 0, nil)
		}
	}()
	for {
		f, err := conn.Read()
		if err != nil {
			unix.Pause()
		}
		if f.Kind == wire.KindOutput {
			p, _ := wire.DecodeOutput(f.Body)
			os.Stdout.Write(p.Data)
		}
	}
}

// familyWait bounds the wait for the processes of a posing launcher.
const familyWait = 30 * time.Second

// processTree is a posing launcher and all its processes.
type processTree struct {
	cmd    *exec.Cmd
	keeper int
	idle   int
	ranks  []int // rank, child and daemon of each
	place  proc.Place
}

// newProcessTree starts a launcher that poses, with its processes. as is nil, or changes the
// launcher's command before its start.
func newProcessTree(t *testing.T, idle string, as func(*exec.Cmd, proc.Place)) *processTree {
	t.Helper()
	argv("family")
	argv("hang")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := &processTree{place: proc.Place{Dir: t.TempDir(), Instance: "quiet-heron", Node: "n3"}}
	f.cmd = exec.Command(self, "launcher", f.place.Dir, idle)
	if as != nil {
		as(f.cmd, f.place)
	}
	f.cmd.Stderr = os.Stderr
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.cmd.Process.Kill()
		f.cmd.Wait()
		proc.SweepOrphans(f.place)
	})
	late := time.AfterFunc(familyWait, func() { f.cmd.Process.Kill() })
	defer late.Stop()
	lines := bufio.NewScanner(out)
	lineCount := 0
	for lineCount < 8 && lines.Scan() {
		var pid int
		word, rest, _ := strings.Cut(lines.Text(), " ")
		fmt.Sscan(rest, &pid)
		switch word {
		case "keeper":
			f.keeper = pid
		case "idle":
			f.idle = pid
		case "up", "family": // a rank says both
			lineCount++
			if !slices.Contains(f.ranks, pid) {
				f.ranks = append(f.ranks, pid)
			}
		default:
			t.Fatalf("the launcher said %q", lines.Text())
		}
	}
	if len(f.ranks) < 6 {
		t.Fatalf("only %v came up within %v; the keeper may have refused: may any user open /dev/null here?", f.ranks, familyWait)
	}
	return f
}

func (f *processTree) left() (pids []int) {
	for _, p := range f.ranks {
		if living(p) {
			pids = append(pids, p)
		}
	}
	return pids
}

// killRow is a row of the kill matrix: what is killed, and how soon all is gone.
type killRow struct {
	name   string
	idle   string
	kill   func(*processTree)
	within time.Duration
}

// kills is the kill matrix.
var kills = []killRow{
	{"keeper-and-launcher-killed-an-idle-keeper-is-there", "idle", func(f *processTree) {
		unix.Kill(f.keeper, unix.SIGKILL)
		f.cmd.Process.Kill()
	}, 2 * time.Second},
	{"launcher-and-keeper-killed-an-idle-keeper-is-there", "idle", func(f *processTree) {
		f.cmd.Process.Kill()
		unix.Kill(f.keeper, unix.SIGKILL)
	}, 2 * time.Second},
	{"keeper-killed-the-launcher-sweeps", "none", func(f *processTree) {
		unix.Kill(f.keeper, unix.SIGKILL)
		for living(f.keeper) {
			time.Sleep(time.Millisecond)
		}
		proc.SweepOrphans(f.place)
	}, 2 * time.Second},
	{"both-killed-the-next-launcher-sweeps", "none", func(f *processTree) {
		unix.Kill(f.keeper, unix.SIGKILL)
		f.cmd.Process.Kill()
		f.cmd.Wait()
		for living(f.keeper) {
			time.Sleep(time.Millisecond)
		}
		proc.SweepOrphans(f.place)
	}, 2 * time.Second},
	{"launcher-killed", "none", func(f *processTree) { f.cmd.Process.Kill() }, 7 * time.Second},
	{"launcher-killed-an-idle-keeper-is-there", "idle", func(f *processTree) { f.cmd.Process.Kill() }, 7 * time.Second},
}

// survivors runs a row of the matrix: no process may survive it.
func (c killRow) survivors(t *testing.T, as func(*exec.Cmd, proc.Place)) {
	t.Parallel()
	f := newProcessTree(t, c.idle, as)
	if got := f.left(); len(got) != 6 {
		t.Fatalf("%v of %v run before the kill", got, f.ranks)
	}
	began := time.Now()
	c.kill(f)
	eventually(t, "all processes to be gone", func() bool { return len(f.left()) == 0 })
	if took := time.Since(began); took > c.within+grace {
		t.Errorf("gone after %v, want %v", took, c.within)
	}
	eventually(t, "the keepers to leave", func() bool { return !living(f.keeper) && (f.idle == 0 || !living(f.idle)) })
}

// TestNobodySurvives kills ranks, their children, and grandchildren that made sessions
// of their own.
func TestNobodySurvives(t *testing.T) {
	for _, c := range kills {
		t.Run(c.name, func(t *testing.T) { c.survivors(t, nil) })
	}
}

// grace is what a busy machine may add to a bound.
const grace = 2 * time.Second

// TestLauncherThatComesBack adopts the keeper of a killed launcher: the job
// goes on, and its ends and output come to the new one.
func TestLauncherThatComesBack(t *testing.T) {
	f := newProcessTree(t, "none", nil)
	f.cmd.Process.Kill()
	f.cmd.Wait()
	found, err := proc.Redial(f.place)
	if err != nil || len(found) != 1 || found[0].PID != f.keeper {
		t.Fatalf("found %v, %v; want keeper %d", found, err, f.keeper)
	}
	if killed, left := proc.SweepOrphans(f.place); killed != 0 || left != 0 {
		t.Errorf("the sweep of a restart killed %d and left %d of an adopted job", killed, left)
	}
	b := &boss{t: t, place: f.place}
	b.serve(found[0])
	b.conn.Send(wire.KindAdopt, 0, nil)
	s := b.until("Adopted", func(s seen) bool { return s.adopted != nil })
	b.job = s.adopted.Start
	if len(s.adopted.Ended) != 0 || b.job.Launch.Size != 2 {
		t.Errorf("adopted %+v", s.adopted)
	}
	b.until("RanksStarted", func(s seen) bool { return s.started != nil })
	// Output that the first launcher never credited comes again.
	s = b.until("the output again", func(s seen) bool {
		return len(pidsAfter(s, "up")) == 6 && len(pidsAfter(s, "family")) == 2
	})
	if got := len(f.left()); got != 6 {
		t.Fatalf("%d of 6 processes run", got)
	}
	b.stop(unix.SIGTERM, time.Second)
	s = b.untilDone()
	if len(s.ends) != 2 || !s.ends[0].Told || !s.ends[1].Told {
		t.Errorf("ends %+v", s.ends)
	}
	if left := f.left(); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
	b.deed(launcher.Deed{Kind: launcher.DeedForget})
	b.conn.Close()
	eventually(t, "the keeper to leave", func() bool { return !living(f.keeper) })
}

// TestAStepOfATaskEndsWithItsLauncher has no next launcher waited for: the task
// has ended already, and may be started anew elsewhere.
func TestAStepOfATaskEndsWithItsLauncher(t *testing.T) {
	b := newBoss(t)
	o := newOrder(1, "sleep", "300")
	o.start.Launch.Task = 7
	b.run(o)
	rank := int(b.until("the start", func(s seen) bool { return s.started != nil }).started.PIDs[0])
	began := time.Now()
	b.conn.Close()
	eventually(t, "the rank to end", func() bool { return !living(rank) })
	if took := time.Since(began); took > keeper.AdoptWait/2 {
		t.Errorf("the rank ended after %v, want at once", took)
	}
	eventually(t, "the keeper to leave", func() bool { return !living(b.k.PID) })
}

// TestALeaseIsNotOutlived has what is left of a lease count while there is no launcher:
// the next one is told, and where none comes the ranks end with it.
func TestALeaseIsNotOutlived(t *testing.T) {
	b := newBoss(t)
	o := newOrder(1, "sleep", "300")
	o.start.Lease = time.Minute
	b.run(o)
	rank := int(b.until("the start", func(s seen) bool { return s.started != nil }).started.PIDs[0])
	const lease = 3 * time.Second
	began := time.Now() // the keeper counts from later on, by what the deed takes to come
	b.deed(launcher.Deed{Kind: launcher.DeedLease, Grace: lease})
	b.conn.Close()
	eventually(t, "a part of it to pass", func() bool { return time.Since(began) > lease/3 })
	found, err := proc.Redial(b.place)
	if err != nil || len(found) != 1 {
		t.Fatalf("found %v, %v", found, err)
	}
	old := b.k
	b.serve(found[0])
	b.k = old // to wait for
	close(b.mum)
	b.conn.Send(wire.KindAdopt, 0, nil)
	s := b.until("Adopted", func(s seen) bool { return s.adopted != nil })
	if left := s.adopted.Start.Lease; left <= 0 || left > lease-lease/6 {
		t.Errorf("the next launcher is told of a lease of %v, want what is left of %v after %v", left, lease, lease/3)
	}
	b.conn.Close()
	eventually(t, "the rank to end", func() bool { return !living(rank) })
	if took := time.Since(began); took < lease || took > lease+grace {
		t.Errorf("the rank ended after %v, want %v", took, lease)
	}
	eventually(t, "the keeper to leave", func() bool { return !living(b.k.PID) })
}

// TestHeldOutputDoesNotHoldTheKeeper has output that nobody takes when the
// launcher goes for good: its keeper leaves as any other.
func TestHeldOutputDoesNotHoldTheKeeper(t *testing.T) {
	b := newBoss(t)
	b.stall = true
	b.run(newOrder(1, argv("flood", "64000000")...))
	b.until("output to be held back", func(s seen) bool { return s.offset > 0 })
	b.conn.Close()
	eventually(t, "the keeper to leave", func() bool { return !living(b.k.PID) })
}

// TestEndsAreToldAgain lets ranks end while there is no launcher.
func TestEndsAreToldAgain(t *testing.T) {
	b := newBoss(t)
	mark := t.TempDir() + "/go"
	o := newOrder(1, "/bin/sh", "-c", "while ! [ -e "+mark+" ]; do sleep 0.01; done; echo late; exit 9")
	b.run(o)
	b.until("the start", func(s seen) bool { return s.started != nil })
	b.conn.Close()
	b.until("the link to be closed", func(s seen) bool { return s.gone })
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the rank to end", func() bool { return !living(int(b.now().started.PIDs[0])) })
	found, err := proc.Redial(b.place)
	if err != nil || len(found) != 1 {
		t.Fatalf("found %v, %v", found, err)
	}
	old := b.k
	b.serve(found[0])
	b.k = old // to wait for
	b.conn.Send(wire.KindAdopt, 0, nil)
	s := b.until("all of it", func(s seen) bool { return s.adopted != nil && s.done != nil && s.end != nil })
	ends := append(s.adopted.Ended, s.ends...)
	if len(ends) != 1 || ends[0].Code != 9 || string(s.out["0.1"]) != "late\n" {
		t.Errorf("ends %+v, out %q", ends, s.out)
	}
}

func TestSilentLauncher(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the whole of a lease")
	}
	t.Parallel()
	b := newBoss(t)
	b.run(newOrder(1, argv("hang")...))
	s := b.until("the rank", func(s seen) bool { return len(pidsAfter(s, "up")) == 1 })
	began := time.Now()
	pid := pidsAfter(s, "up")[0]
	close(b.mum)
	eventually(t, "the rank to be killed", func() bool { return !living(pid) })
	if took := time.Since(began); took < keeper.LeaseMax-2*time.Second || took > keeper.LeaseMax+grace {
		t.Errorf("killed after %v, want %v", took, keeper.LeaseMax)
	}
	b.untilDone()
}

// TestFamilyOfOneJob sees that what a rank leaves behind ends with its job,
// and what another keeper's job does goes on.
func TestFamilyOfOneJob(t *testing.T) {
	b := newBoss(t)
	other := newBossAt(t, b.place)
	other.run(newOrder(1, argv("hang")...))
	s := other.until("the other job", func(s seen) bool { return len(pidsAfter(s, "up")) == 1 })
	bystander := pidsAfter(s, "up")[0]

	b.run(newOrder(2, argv("family", "exit")...))
	s = b.untilDone()
	for _, pid := range append(pidsAfter(s, "up"), pidsAfter(s, "family")...) {
		if living(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
	for _, e := range s.ends {
		if e.Kind != launcher.CauseNone {
			t.Errorf("end %+v", e)
		}
	}
	if killed, _ := proc.SweepOrphans(b.place); killed != 0 || !living(bystander) {
		t.Errorf("a sweep killed %d; the other job lives: %v", killed, living(bystander))
	}
	other.stop(unix.SIGKILL, 0)
	other.untilDone()
}

// TestKeeperStoppedIsNotALostLease stops the keeper itself for longer than it
// takes and sees that the job goes on: the launcher spoke all the while.
func TestKeeperStoppedIsNotALostLease(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the whole of a lease")
	}
	t.Parallel()
	b := newBoss(t)
	b.run(newOrder(1, argv("hang")...))
	s := b.until("the rank", func(s seen) bool { return len(pidsAfter(s, "up")) == 1 })
	pid := pidsAfter(s, "up")[0]
	unix.Kill(b.k.PID, unix.SIGSTOP)
	until := time.Now().Add(keeper.LeaseMax + time.Second)
	eventually(t, "the time to pass", func() bool { return time.Now().After(until) })
	unix.Kill(b.k.PID, unix.SIGCONT)
	b.deed(launcher.Deed{Kind: launcher.DeedSignal, Signal: int32(unix.SIGCONT)})
	if !living(pid) {
		t.Errorf("the job was ended since its keeper had been stopped")
	}
	b.stop(unix.SIGTERM, time.Second)
	b.untilDone()
}
