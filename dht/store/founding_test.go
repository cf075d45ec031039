package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch/dht"
)

// TestStoreFoundsOverATear kills the founder of an instance before its log is synced.
// The log ends anywhere: the instance begins all the same.
func TestStoreFoundsOverATear(t *testing.T) {
	whole := 0
	for kept := 0; kept == 0 || kept <= whole; kept++ {
		l := newLab(t, 83)
		n := l.start("n0", true)
		whole = len(n.buffer)
		n.disk = n.buffer[:kept]
		n.down = true
		l.start("n0", kept == 0) // a launcher founds where its log has nothing
		l.until(fmt.Sprintf("shards, after %d of %d entries", kept, whole), time.Minute, func() bool {
			st := n.s.Status()
			return st.Known && st.Homes == st.Shards
		})
		l.start("n1", false)
		l.settle(time.Minute)
		l.fill(l.nodes[1], "a", 20, true)
		l.run(time.Second)
		l.hurt(nothing)
		l.again()
		l.settle(time.Minute)
		l.expect(n, "a", 20, dht.Done)
		l.check()
	}
}

// TestStoreFoundsUnheard kills the founder of an instance before anything of it is on
// its disk, while another node joins. The node founds again, and that is the only instance
// which that node has heard of.
func TestStoreFoundsUnheard(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprintf("fails=%t", fails), func(t *testing.T) {
			l := newLab(t, 84)
			n := l.start("n0", true)
			other := l.start("n1", false)
			if fails {
				n.broken, n.buffer = true, nil
				n.do(func(out *Out) { n.s.DiskFailed(n.clock(), "no space left", out) })
				l.run(2 * time.Second)
			}
			l.run(time.Millisecond)
			if len(n.disk) > 0 || other.s.view.roster != nil {
				t.Errorf("with %d entries on the disk of the founder the other one knows a roster: %t", len(n.disk), other.s.view.roster != nil)
			}
			n.kill(0)
			n.broken = false
			l.start("n0", true)
			l.settle(time.Minute)
			l.fill(other, "a", 20, true)
			l.check()
		})
	}
}
