package keeper

import (
	"os/exec"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/proc"
	"golang.org/x/sys/unix"
)

// TestGiveUp counts what cannot be killed: a child that nobody has killed.
func TestGiveUp(t *testing.T) {
	poll, err := proc.NewEpoll()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(poll.FD)
	cmd := exec.Command("/bin/sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	k := &keeper{poll: poll, cgroup: &proc.Cgroup{FD: -1, Tasks: -1}, link: &proc.Link{FD: -1}}
	j := &job{keeper: k, phase: running, alive: 2, ranks: []*rank{
		{id: 4, phase: rankRunning, told: true, pidfd: -1}, {id: 5, phase: rankGone, said: true, pidfd: -1},
	}}
	j.giveUp()
	if j.stop.left != 1 || j.phase != ended || !j.nothingLeft() {
		t.Errorf("left %d, phase %d", j.stop.left, j.phase)
	}
	if len(j.news) != 1 || j.news[0].Rank != 4 || j.news[0].Kind != launcher.CauseOurs || j.news[0].Text != "could not be killed within 1m0s" {
		t.Errorf("said %+v", j.news)
	}
}

// A keeper without a launcher waits for one: it does not run meanwhile.
func TestLeaseIsNotLookedAtAllTheTime(t *testing.T) {
	poll, err := proc.NewEpoll()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(poll.FD)
	k := &keeper{poll: poll, link: &proc.Link{FD: -1}, leased: time.Now().Add(-LeaseMax)}
	k.watchLease()
	if err := poll.Turn(); err != nil {
		t.Fatal(err)
	}
	if poll.Pause() == 0 {
		t.Error("it looks again at once")
	}
}
