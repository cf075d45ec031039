package dht

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// storeSamples are messages of every kind, taken from the traffic of a lab.
func storeSamples(t testing.TB) map[string][]byte {
	l := newLab(t, 21)
	all := map[string][]byte{}
	l.tap = func(m StoreMessage) {
		name := fmt.Sprintf("%T", m)
		if b := EncodeStore(m); len(b) > len(all[name]) && len(b) < 4<<10 || all[name] == nil {
			all[name] = b
		}
	}
	l.cluster(5)
	l.fill(l.nodes[0], "a", 20, true)
	l.nodes[1].do(func(out *StoreOut) { l.nodes[1].s.Watch(l.nodes[1].clock(), 1, "a1", Version{}, out) })
	l.run(time.Second)
	for _, n := range l.nodes {
		n.down = true
	}
	for _, n := range l.nodes {
		l.start(n.name, false)
	}
	l.settle(time.Minute)
	l.acceptLoss(l.nodes[2])
	counted := &msgCounted{nonce: 1, seat: 2, stamp: 3, astray: true, known: l.nodes[0].s.roster.since(nil)}
	counted.images = []wireOffer{{shard: 64, epoch: 1, incarnation: 2, guess: true}}
	all["counted"] = EncodeStore(counted)
	return all
}

func TestStoreCodec(t *testing.T) {
	samples := storeSamples(t)
	for name, b := range samples {
		m, err := DecodeStore(b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if again := EncodeStore(m); !bytes.Equal(again, b) {
			t.Errorf("%s: got %x, want %x", name, again, b)
		}
		for n := range b {
			if _, err := DecodeStore(b[:n]); err == nil {
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
	a, b, c := Replica{"a", 1}, Replica{"b", 1}, Replica{"c", 2}
	r := founding(a)
	r.members = []rosterMember{{Replica: a}, {Replica: b}, {Replica: b}}
	r.shards[3] = &shardConfig{epoch: 2, replicas: []Replica{c, b}, learner: a}
	m, err := DecodeStore(EncodeStore(&msgRoster{deltas: []*rosterDelta{r.since(nil)}}))
	if err != nil {
		t.Fatal(err)
	}
	got := m.(*msgRoster).deltas[0].applied(nil)
	if got == nil || !got.same(r) {
		t.Errorf("shard 3 arrives as %v, want %v", got.shards[3], r.shards[3])
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
		m, err := DecodeStore(b)
		if err != nil {
			return
		}
		again, err := DecodeStore(EncodeStore(m))
		if err != nil {
			t.Fatalf("what was decoded cannot be decoded again: %v", err)
		}
		if !bytes.Equal(EncodeStore(again), EncodeStore(m)) {
			t.Fatal("a message changes when it is encoded again")
		}
	})
}
