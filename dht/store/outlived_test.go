package store

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch/dht"
)

// Of three replicas of a shard the first dies unnoticed, with a disk that lacks the last
// change; the second is called gone, and the third is back at once in another life. The
// shard is not left to the first: the disks of the others have the change, and count.
func TestStoreShardIsNotLeftToTheDead(t *testing.T) {
	for _, dead := range []int{0, 1, 2} {
		l := newLab(t, 61)
		l.cluster(6)
		_, c, k := l.lightly()
		var of []*labNode
		for i := range c.Replicas {
			of = append(of, l.at[c.Replicas[(i+dead)%len(c.Replicas)].Name])
		}
		silent, gone, back := of[0], of[1], of[2]
		asker := l.nodes[0]
		for _, n := range l.nodes {
			if n != silent && n != gone && n != back {
				asker = n
			}
		}
		l.run(time.Second)
		silent.broken = true // what is not durable does not ask
		if r := asker.one(dht.Op{Code: dht.OpInsert, Key: k, Value: []byte("v")}); r.Outcome != dht.Done {
			t.Fatalf("the change is %v, want it done", r.Outcome)
		}
		l.run(100 * time.Millisecond)
		silent.down, silent.broken = true, false
		back.down, gone.down = true, true
		l.rumor(gone, dht.PeerGone)
		l.start(back.name, false)
		back.hear(silent, dht.PeerUp) // as the others told it
		l.run(2 * time.Second)
		l.start(silent.name, false)
		l.start(gone.name, false)
		l.settle(time.Minute)
		if r := asker.one(dht.Op{Code: dht.OpLookup, Key: k, Consistent: true}); r.Outcome != dht.Done {
			t.Errorf("replica %d died first: the change that was done is %v", dead, r.Outcome)
		}
		l.check()
	}
}
