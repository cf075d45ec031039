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

// While the launcher stands still, other nodes end the ranks of a run there: an end of a rank here is
// a consequence. So it is after the keeper ended the job for the launcher's silence. A rank that ends
// well, and a run on this node alone, have nothing to do with other nodes.
func TestEndsWhileTheLauncherIsSilent(t *testing.T) {
	killed := launcher.RankEnd{Kind: launcher.CauseSignal, Code: int32(unix.SIGPIPE)}
	for _, c := range []struct {
		name      string
		silent    time.Duration
		late      time.Duration // the look
		nodes     int
		end       launcher.RankEnd
		abandoned bool
		link      int
		told      bool
	}{
		{"silent", silenceMax, 0, 2, killed, false, 0, true},
		{"not-yet", silenceMax - 900*time.Millisecond, 0, 2, killed, false, 0, false},
		{"one-node", silenceMax, 0, 1, killed, false, 0, false},
		{"ends-well", silenceMax, 0, 2, launcher.RankEnd{}, false, 0, false},
		{"no-launcher", silenceMax, 0, 2, killed, false, -1, false},
		{"keeper-stood-still", silenceMax + 2*time.Second, 2 * time.Second, 2, killed, false, 0, false},
		{"abandoned", 0, 0, 2, killed, true, 0, true},
	} {
		k := &keeper{link: &proc.Link{FD: c.link}, leased: time.Now().Add(-c.silent)}
		k.lookSilence(time.Now().Add(-c.late))
		j := &job{keeper: k, phase: running}
		j.order.Launch.Nodes = make([]launcher.NodeRanks, c.nodes)
		j.stop.abandoned = c.abandoned
		j.endRank(&rank{id: 0, phase: rankRunning, pidfd: -1}, c.end)
		if got := j.news[0].Told; got != c.told {
			t.Errorf("%s: the end is a consequence: %v, want %v", c.name, got, c.told)
		}
		k.alive()
		if k.silent {
			t.Errorf("%s: silent after a sign of life", c.name)
		}
	}
}
