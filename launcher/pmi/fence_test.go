package pmi_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/pmi"
)

// mpichStart takes all ranks through what MPICH does in MPI_Init: a fence
// without pairs, one with the addresses, and gets.
func mpichStart(c *cluster) {
	c.t.Helper()
	c.start(c.all()...)
	for _, r := range c.all() {
		c.say(r, "cmd=barrier_in\n")
	}
	c.settle()
	for _, r := range c.all() {
		c.want(r, "cmd=barrier_out\n")
		c.say(r, "cmd=put kvsname=%s key=-allgather-shm-1-%d value=20553E%d\n", kvsname, r, r)
		c.want(r, "cmd=put_result rc=0 msg=success\n")
		c.say(r, "cmd=barrier_in\n")
	}
	c.settle()
	for _, r := range c.all() {
		c.want(r, "cmd=barrier_out\n")
		far := (int(r) + len(c.where)/2) % len(c.where)
		c.say(r, "cmd=get kvsname=%s key=-allgather-shm-1-%d\n", kvsname, far)
		c.want(r, fmt.Sprintf("cmd=get_result rc=0 msg=success value=20553E%d\n", far))
	}
}

func finish(c *cluster) {
	c.t.Helper()
	for _, r := range c.all() {
		c.say(r, "cmd=barrier_in\n")
	}
	c.settle()
	for _, r := range c.all() {
		c.want(r, "cmd=barrier_out\n")
		c.say(r, "cmd=finalize\n")
		c.want(r, "cmd=finalize_ack\n")
		c.closed(r)
	}
	c.run(time.Minute)
	for n, e := range c.engines {
		if d := e.Deadline(); d != filch.Never {
			c.t.Errorf("node %d still waits for %v at %v", n, d, c.now)
		}
	}
}

func TestFenceShapes(t *testing.T) {
	shapes := map[string][]int32{
		"one-node":    each(1, 4),
		"two-nodes":   each(2, 2),
		"cyclic":      {0, 1, 2, 0, 1, 2},
		"two-levels":  each(17, 1),
		"three-level": each(300, 1),
	}
	for name, where := range shapes {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, where)
			mpichStart(c)
			finish(c)
			c.quiet()
			if len(c.notes) > 0 {
				t.Errorf("notes %q, want none", c.notes)
			}
			for _, r := range c.all() {
				if got := c.engines[where[r]].State(r); got != pmi.Finalized {
					t.Errorf("rank %d is %v, want finalized", r, got)
				}
			}
		})
	}
}

func TestFenceCostsTwoFramesPerEdge(t *testing.T) {
	c := newCluster(t, each(8, 1))
	c.start(c.all()...)
	for _, r := range c.all() {
		c.say(r, "cmd=barrier_in\n")
	}
	if got, want := c.sent, 2*7; got != want {
		t.Errorf("a fence of 8 nodes took %d frames, want %d", got, want)
	}
}

func TestFenceOverBadNetwork(t *testing.T) {
	for seed := range uint64(60) {
		c := newCluster(t, each(20, 2), func(cfg *pmi.Config) { cfg.Early = 0 })
		c.mangle = rand.New(rand.NewPCG(seed, 1))
		mpichStart(c)
		finish(c)
		c.quiet()
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}

func TestFenceOfManyFrames(t *testing.T) {
	c := newCluster(t, each(3, 1))
	c.start(0, 1, 2)
	value := strings.Repeat("v", 1000)
	for _, r := range c.all() {
		for i := range 3000 {
			c.say(r, "cmd=put kvsname=%s key=k%d-%d value=%s\n", kvsname, r, i, value)
		}
		c.answer(r)
		c.say(r, "cmd=barrier_in\n")
	}
	c.run(time.Second)
	for _, r := range c.all() {
		c.want(r, "cmd=barrier_out\n")
		for _, i := range []int{0, 1234, 2999} {
			c.say(r, "cmd=get kvsname=%s key=k%d-%d\n", kvsname, (r+1)%3, i)
			c.want(r, "cmd=get_result rc=0 msg=success value="+value+"\n")
		}
	}
	c.quiet()
}

// held is a job of 2+2 ranks in which all but rank 3 wait in the barrier of
// MPI_Finalize.
func held(t *testing.T, change ...func(*pmi.Config)) *cluster {
	c := newCluster(t, each(2, 2), change...)
	mpichStart(c)
	for r := range filch.Rank(3) {
		c.say(r, "cmd=barrier_in\n")
	}
	return c
}

func TestEarlyRelease(t *testing.T) {
	c := held(t)
	c.run(pmi.EarlyDefault - time.Millisecond)
	for r := range filch.Rank(3) {
		c.want(r, "")
		if got := c.engines[c.where[r]].State(r); got != pmi.InFence {
			t.Errorf("rank %d is %v, want in-fence", r, got)
		}
	}
	c.run(2 * time.Millisecond)
	for r := range filch.Rank(3) {
		c.want(r, "cmd=barrier_out\n")
		c.say(r, "cmd=finalize\n")
		c.want(r, "cmd=finalize_ack\n")
		c.closed(r)
	}
	if len(c.notes) != 2 || !strings.Contains(c.notes[0], "MPI_Finalize") {
		t.Errorf("notes %q, want one for each node", c.notes)
	}
	c.run(time.Minute)
	c.say(3, "cmd=barrier_in\n")
	c.run(time.Second)
	c.want(3, "cmd=barrier_out\n")
	c.say(3, "cmd=finalize\n")
	c.want(3, "cmd=finalize_ack\n")
	c.quiet()
}

// TestEarlyReleaseGrows has MPI_Init take long, as on a loaded machine.
func TestEarlyReleaseGrows(t *testing.T) {
	for init, want := range map[time.Duration]time.Duration{
		10 * time.Millisecond:  pmi.EarlyDefault,
		100 * time.Millisecond: 400 * time.Millisecond,
		time.Hour:              pmi.EarlyMost * pmi.EarlyDefault,
	} {
		c := newCluster(t, each(1, 2))
		c.start(0, 1)
		c.run(init)
		for _, r := range c.all() {
			c.say(r, "cmd=put kvsname=%s key=-allgather-shm-1-%d value=2\n", kvsname, r)
			c.say(r, "cmd=barrier_in\n")
		}
		c.answer(0)
		c.say(0, "cmd=barrier_in\n")
		c.run(want - time.Microsecond)
		c.want(0, "")
		c.run(2 * time.Microsecond)
		c.want(0, "cmd=barrier_out\n")
	}
}

func TestEarlyReleaseIsGated(t *testing.T) {
	t.Run("switched-off", func(t *testing.T) {
		c := held(t, func(cfg *pmi.Config) { cfg.Early = 0 })
		c.run(time.Minute)
		c.want(0, "")
	})
	t.Run("before-the-addresses", func(t *testing.T) {
		c := newCluster(t, each(2, 1))
		c.start(0, 1)
		c.say(0, "cmd=barrier_in\n")
		c.run(time.Minute)
		c.want(0, "")
		c.say(1, "cmd=barrier_in\n")
		c.want(0, "cmd=barrier_out\n")
		c.say(0, "cmd=put kvsname=%s key=-allgather-shm-1-0 value=a\n", kvsname)
		c.answer(0)
		c.say(0, "cmd=barrier_in\n")
		c.run(time.Minute)
		c.want(0, "")
	})
	t.Run("other-keys", func(t *testing.T) {
		c := newCluster(t, each(2, 1))
		c.start(0, 1)
		for r := range filch.Rank(2) {
			c.say(r, "cmd=put kvsname=%s key=card-%d value=a\n", kvsname, r)
			c.say(r, "cmd=barrier_in\n")
		}
		c.answer(0)
		c.say(0, "cmd=barrier_in\n")
		c.run(time.Minute)
		c.want(0, "")
	})
	t.Run("with-a-put", func(t *testing.T) {
		c := newCluster(t, each(1, 2))
		mpichStart(c)
		c.say(0, "cmd=put kvsname=%s key=more value=a\n", kvsname)
		c.want(0, "cmd=put_result rc=0 msg=success\n")
		c.say(0, "cmd=barrier_in\n")
		c.run(time.Minute)
		c.want(0, "")
	})
}

// TestEarlyThenNextFence has ranks that were let go early enter the next fence
// while the last is still open: they are counted there when it has closed.
func TestEarlyThenNextFence(t *testing.T) {
	c := held(t)
	c.run(2 * time.Second)
	for r := range filch.Rank(3) {
		c.want(r, "cmd=barrier_out\n")
		c.say(r, "cmd=put kvsname=%s key=late-%d value=x\n", kvsname, r)
		c.want(r, "cmd=put_result rc=0 msg=success\n")
		c.say(r, "cmd=barrier_in\n")
	}
	c.run(time.Minute)
	c.want(0, "")
	c.say(3, "cmd=barrier_in\n")
	c.want(3, "cmd=barrier_out\n")
	c.want(0, "")
	c.say(3, "cmd=barrier_in\n")
	c.run(time.Second)
	for _, r := range c.all() {
		c.want(r, "cmd=barrier_out\n")
		c.say(r, "cmd=get kvsname=%s key=late-%d\n", kvsname, (int(r)+1)%3)
		c.want(r, "cmd=get_result rc=0 msg=success value=x\n")
	}
	c.quiet()
}

func TestStuck(t *testing.T) {
	tests := map[string]struct {
		where []int32
		leave func(c *cluster)
		want  string
	}{
		"same-node-before-init": {
			each(1, 3), func(c *cluster) { c.closed(2) },
			"waits with 1 more for rank 2, which ended before MPI_Init",
		},
		"other-node-before-init": {
			[]int32{0, 0, 1},
			func(c *cluster) { c.closed(2) },
			"waits with 1 more for rank 2, which ended before MPI_Init",
		},
		"without-finalize": {
			[]int32{0, 0, 1},
			func(c *cluster) { c.start(2); c.closed(2) },
			"waits with 1 more for rank 2, which ended without MPI_Finalize",
		},
		"finalized": {
			[]int32{0, 0, 1},
			func(c *cluster) { c.start(2); c.say(2, "cmd=finalize\n") },
			"waits with 1 more for rank 2, which has already passed MPI_Finalize",
		},
		"three-levels": {append([]int32{0, 1}, each(300, 1)[2:]...), func(c *cluster) {
			for r := 2; r < 300; r++ {
				c.closed(filch.Rank(r))
			}
		}, "waits with 1 more for rank 17, which ended before MPI_Init"},
	}
	for name, tt := range tests {
		for _, first := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/leaves-first=%v", name, first), func(t *testing.T) {
				c := newCluster(t, tt.where)
				c.start(0, 1)
				if first {
					tt.leave(c)
					c.run(time.Hour)
				}
				c.say(0, "cmd=barrier_in\n")
				c.say(1, "cmd=barrier_in\n")
				if !first {
					c.run(10 * time.Millisecond)
					tt.leave(c)
				}
				if !first && len(c.breaks) > 0 {
					t.Fatalf("said %v at once, before the cause can have been reported", c.breaks)
				}
				c.run(2 * time.Second)
				if len(c.breaks) == 0 || c.breaks[0].Text != tt.want || c.breaks[0].Rank > 1 {
					t.Errorf("said %v, want rank 0 or 1 %q", c.breaks, tt.want)
				}
				c.run(time.Minute)
			})
		}
	}
}

// TestKeeperLeft has all ranks of a node end, and its keeper leave, before
// others come to a fence: the root, one in the middle of the tree, a leaf.
func TestKeeperLeft(t *testing.T) {
	for _, node := range []int32{0, 1, 2, 17} {
		t.Run(fmt.Sprintf("node=%d", node), func(t *testing.T) {
			c := newCluster(t, each(20, 1))
			c.closed(filch.Rank(node))
			c.left[node] = true
			waits := []filch.Rank{3, 18}
			if node == 1 {
				waits = []filch.Rank{17} // below it
			}
			c.start(waits...)
			for _, r := range waits {
				c.say(r, "cmd=barrier_in\n")
			}
			for _, r := range c.all() {
				if r != filch.Rank(node) && !slices.Contains(waits, r) {
					c.start(r)
					c.say(r, "cmd=barrier_in\n")
				}
			}
			c.run(time.Minute)
			text := fmt.Sprintf(" for rank %d, which has ended", node)
			if len(c.breaks) == 0 || !strings.HasPrefix(c.breaks[0].Text, "waits") || !strings.HasSuffix(c.breaks[0].Text, text) {
				t.Errorf("said %v, want one that waits%s", c.breaks, text)
			}
		})
	}
}

// TestKeeperLeftAfterRelease has the keepers of ranks that were let go early
// leave, which is no reason to end those that still wait.
func TestKeeperLeftAfterRelease(t *testing.T) {
	for _, node := range []int32{0, 1} {
		c := newCluster(t, []int32{0, 1, 2})
		mpichStart(c)
		r := filch.Rank(node)
		c.say(r, "cmd=barrier_in\n")
		c.run(pmi.EarlyDefault)
		c.want(r, "cmd=barrier_out\n")
		c.say(r, "cmd=finalize\n")
		c.closed(r)
		c.left[node] = true
		c.run(time.Minute)
		for _, r := range c.all() {
			if c.where[r] != node {
				c.answer(r)
				c.say(r, "cmd=barrier_in\n")
			}
		}
		c.run(time.Minute)
		for _, r := range c.all() {
			if c.where[r] != node {
				c.want(r, "cmd=barrier_out\n")
				c.say(r, "cmd=finalize\n")
				c.want(r, "cmd=finalize_ack\n")
				c.closed(r)
			}
		}
		c.quiet()
	}
}

// TestGoneIsNotStuck has everybody leave in good order, and programs that are
// not MPI: nobody waits, so nothing is said and no frame is sent.
func TestGoneIsNotStuck(t *testing.T) {
	c := newCluster(t, each(4, 2))
	for _, r := range c.all() {
		c.closed(r)
	}
	c.run(time.Hour)
	c.quiet()
	if c.sent != 0 {
		t.Errorf("%d frames for a job that never spoke, want none", c.sent)
	}
}
