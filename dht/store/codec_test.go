package store

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/message"
)

// storeSamples are messages of every kind, taken from the traffic of a lab.
func storeSamples(t testing.TB) map[string][]byte {
	l := newLab(t, 21)
	all := map[string][]byte{}
	l.tap = func(m message.Message) {
		name := fmt.Sprintf("%T", m)
		if b := message.Encode(m); len(b) > len(all[name]) && len(b) < 4<<10 || all[name] == nil {
			all[name] = b
		}
	}
	l.cluster(5)
	l.fill(l.nodes[0], "a", 20, true)
	l.nodes[1].do(func(out *Out) { l.nodes[1].s.Watch(l.nodes[1].clock(), 1, "a1", dht.Version{}, out) })
	l.run(time.Second)
	for _, n := range l.nodes {
		n.down = true
	}
	for _, n := range l.nodes {
		l.start(n.name, false)
	}
	l.settle(time.Minute)
	l.acceptLoss(l.nodes[2])
	counted := &message.Counted{Nonce: 1, Acceptor: 2, Stamp: 3, Astray: true, Known: l.nodes[0].s.view.roster.Since(nil)}
	counted.Images = []roster.DiskCopy{{Shard: 64, Epoch: 1, Incarnation: 2, Guess: true}}
	all["counted"] = message.Encode(counted)
	return all
}

func TestStoreCodec(t *testing.T) {
	samples := storeSamples(t)
	for name, b := range samples {
		m, err := message.Decode(b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if again := message.Encode(m); !bytes.Equal(again, b) {
			t.Errorf("%s: got %x, want %x", name, again, b)
		}
		for n := range b {
			if _, err := message.Decode(b[:n]); err == nil {
				t.Errorf("%s: the first %d of %d bytes are a message", name, n, len(b))
			}
		}
	}
	if len(samples) < 23 {
		t.Errorf("got samples of %d kinds, want 23", len(samples))
	}
}

// TestDeltaKeepsConfigs encodes a delta whose members repeat: the configs are told by
// their places in a table, which both sides count alike.
func TestDeltaKeepsConfigs(t *testing.T) {
	a, b, c := dht.Replica{Name: "a", Incarnation: 1}, dht.Replica{Name: "b", Incarnation: 1}, dht.Replica{Name: "c", Incarnation: 2}
	r := roster.New(a)
	r.Members = []roster.Member{{Replica: a}, {Replica: b}, {Replica: b}}
	r.Shards[3] = &roster.Config{Epoch: 2, Replicas: []dht.Replica{c, b}, Learner: a}
	m, err := message.Decode(message.Encode(&message.Roster{Deltas: []*roster.Delta{r.Since(nil)}}))
	if err != nil {
		t.Fatal(err)
	}
	got := m.(*message.Roster).Deltas[0].Applied(nil)
	if got == nil || !got.Same(r) {
		t.Errorf("shard 3 arrives as %v, want %v", got.Shards[3], r.Shards[3])
	}
}

// FuzzDecodeStore looks for bytes that make the decoder panic, or take far
// more memory than there are bytes.
func FuzzDecodeStore(f *testing.F) {
	for _, b := range storeSamples(f) {
		f.Add(b[:min(len(b), 512)])
		if len(b) < 512 {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := message.Decode(b)
		if err != nil {
			return
		}
		again, err := message.Decode(message.Encode(m))
		if err != nil {
			t.Fatalf("what was decoded cannot be decoded again: %v", err)
		}
		if !bytes.Equal(message.Encode(again), message.Encode(m)) {
			t.Fatal("a message changes when it is encoded again")
		}
	})
}
