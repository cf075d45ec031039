package store

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store/message"
)

// kindTaken is a set; what is merged is taken by who merges it first, and the
// reply says whether that was now.
const kindTaken = dht.Kind(200)

func mergeTaken(old, delta []byte) (value, reply []byte, err error) {
	if bytes.Contains(old, delta) {
		return old, []byte("was there"), nil
	}
	return append(bytes.Clone(old), delta...), fmt.Appendf(nil, "took %s", delta), nil
}

// TestStoreSameAnswer loses the answers of a home, and then the home: asked again
// under its identity, an operation has the same answer of the next one, and of
// the one after a restart of everything.
func TestStoreSameAnswer(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart=%t", restart), func(t *testing.T) {
			l := newLab(t, 41)
			l.kinds = dht.Kinds{kindTaken: mergeTaken}
			l.cluster(4)
			key := dht.Key("set")
			_, c := l.nodes[0].s.view.roster.HomeOf(key)
			home := l.at[c.Primary().Name]
			var caller *labNode
			for _, n := range l.nodes {
				if n != home {
					caller = n
				}
			}
			op := dht.Op{ID: dht.OpID{Node: "client", Incarnation: 1, Seq: 1}, Code: dht.OpMerge, Kind: kindTaken, Key: key, Value: []byte("a"), Durable: true}
			reply := false
			l.tap = func(m message.Message) { _, reply = m.(*message.Replies) }
			l.cut = func(from, _ *labNode) bool { return reply && from == home }
			tag := caller.ask(op)
			l.run(100 * time.Millisecond)
			if l.answered(tag, 1) || home.s.replica.shards[shardOf(l, key)].records[key] == nil {
				t.Fatalf("answered, or not carried out: %v", l.done[tag])
			}
			if restart {
				for _, n := range l.nodes {
					n.down = true
				}
				l.cut = func(*labNode, *labNode) bool { return false }
				for _, n := range l.nodes {
					l.start(n.name, false)
				}
				l.settle(time.Minute)
				tag = caller.ask(op)
			} else {
				home.kill(10 * time.Millisecond)
			}
			l.until("the answer", 10*time.Second, func() bool { return l.answered(tag, 1) })
			if r := l.done[tag][0]; r.Outcome != dht.Done || string(r.Value) != "took a" {
				t.Errorf("got %v %q, want what the home that is gone would have said", r.Outcome, r.Value)
			}
			if r := caller.one(dht.Op{ID: dht.OpID{Node: "client", Incarnation: 1, Seq: 2}, Code: dht.OpMerge, Kind: kindTaken, Key: key, Value: []byte("a")}); string(r.Value) != "was there" {
				t.Errorf("another operation got %v %q", r.Outcome, r.Value)
			}
			l.check()
		})
	}
}

// shardOf is the shard of a key.
func shardOf(l *lab, k dht.Key) dht.Shard {
	id, _ := l.nodes[0].s.view.roster.HomeOf(k)
	return id
}
