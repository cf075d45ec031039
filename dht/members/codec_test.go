// In package members, since gossip messages are not exported.
package members

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/filch-hpc/filch"
)

func samples() []*gossip {
	m := Member{Name: "n1", Incarnation: 3, Version: 4, State: Suspect, Draining: true, Addrs: []string{"10.0.0.1:7000", "[::1]:7000"}, Capacity: []byte("8 slots")}
	brief := Member{Name: "n1", Incarnation: 3, Version: 4, State: Dead}
	s := &gossip{kind: kindSync}
	s.sums[5] = 77
	return []*gossip{
		{kind: kindBeat, sum: 1},
		{kind: kindPing, members: []Member{brief}},
		{kind: kindAck, sum: 2, members: []Member{m}},
		{kind: kindNews, members: []Member{m, m}},
		{kind: kindJoin, nonce: 9, members: []Member{m}},
		{kind: kindList, nonce: 9, page: 1, pages: 2, members: []Member{m}},
		s,
		{kind: kindSyncBack, sum: 1 << 63},
		{kind: kindAsk, members: []Member{brief}},
		{kind: kindSay, found: foundRefused, members: []Member{brief}},
		{kind: kindNotice, nonce: 63, leader: "n0", members: []Member{brief}},
	}
}

func TestGossipRoundTrip(t *testing.T) {
	for _, g := range samples() {
		got, err := decodeGossip(g.encode())
		if err != nil || !reflect.DeepEqual(got, g) {
			t.Errorf("kind %d: got %+v, %v, want %+v", g.kind, got, err, g)
		}
	}
}

func TestGossipRefusesWhatIsNotWhole(t *testing.T) {
	for _, g := range samples() {
		b := g.encode()
		for n := range b {
			if _, err := decodeGossip(b[:n]); err == nil && n > 0 {
				t.Errorf("kind %d: the first %d of %d bytes were taken for a message", g.kind, n, len(b))
			}
		}
		if _, err := decodeGossip(append(b, 0)); err == nil {
			t.Errorf("kind %d: a byte too many was taken", g.kind)
		}
	}
}

// A list of any length goes out in messages within their limit.
func TestPagesFit(t *testing.T) {
	var ms []Member
	for i := range 3000 {
		ms = append(ms, Member{Name: "node", Addrs: []string{"10.0.0.1:7000"}, Capacity: make([]byte, i%MaxCapacity)})
	}
	n := 0
	for _, p := range pages(ms) {
		n += len(p)
		b := (&gossip{kind: kindList, members: p}).encode()
		if len(b) > MaxGossip {
			t.Errorf("a message of %d bytes, at most %d", len(b), MaxGossip)
		}
	}
	if n != len(ms) {
		t.Errorf("got %d members in all pages, want %d", n, len(ms))
	}
}

// What is news does not depend on the order in which it comes.
func TestSupersedesIsAnOrder(t *testing.T) {
	var all []Member
	for inc := uint64(1); inc <= 2; inc++ {
		for v := range uint32(3) {
			for s := Alive; s <= Left; s++ {
				all = append(all, Member{Name: "n", Incarnation: inc, Version: v, State: s})
			}
		}
	}
	for _, a := range all {
		for _, b := range all {
			if a.supersedes(&b) && b.supersedes(&a) {
				t.Errorf("%+v and %+v supersede each other", a, b)
			}
			for _, c := range all {
				if a.supersedes(&b) && b.supersedes(&c) && !a.supersedes(&c) {
					t.Errorf("%+v supersedes %+v, that %+v, but not the first the last", a, b, c)
				}
			}
		}
	}
}

func FuzzGossip(f *testing.F) {
	for _, g := range samples() {
		f.Add(g.encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := decodeGossip(b)
		if err != nil {
			return
		}
		again, err := decodeGossip(g.encode())
		if err != nil || !reflect.DeepEqual(again, g) {
			t.Errorf("%x: got %+v, then %+v, %v", b, g, again, err)
		}
	})
}

func FuzzMember(f *testing.F) {
	f.Add(appendMember(nil, &samples()[2].members[0]))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			return
		}
		if len(m.Name) > filch.MaxNodeName || len(m.Addrs) > maxAddrs || len(m.Capacity) > MaxCapacity || m.State > Left {
			t.Errorf("%x became %+v", b, m)
		}
		if again, err := Decode(appendMember(nil, &m)); err != nil || !reflect.DeepEqual(again, m) {
			t.Errorf("%x became %+v, then %+v, %v", b, m, again, err)
		}
	})
}

// FuzzMessages feeds a list whatever a hostile member may say.
func FuzzMessages(f *testing.F) {
	for _, g := range samples() {
		f.Add(g.encode(), uint64(3), uint8(1))
	}
	f.Fuzz(func(t *testing.T, b []byte, incarnation uint64, from uint8) {
		m := New(Config{Self: Member{Name: "n0", Incarnation: 3}, Seed: 1})
		var out Out
		for _, n := range []filch.NodeName{"n1", "n2", "n3"} {
			m.Met(1, Member{Name: n, Incarnation: 3, Addrs: []string{"x:1"}}, &out)
		}
		for i := range 3 {
			_ = m.Message(2, filch.NodeName([]byte{'n', '0' + from%5}), incarnation, b, &out)
			m.Check()
			m.Tick(m.clock.now+BeatEvery*5, &out)
			m.Check()
			if i == 1 {
				m.Rejoin(m.clock.now, 0, &out)
				m.Check()
			}
		}
		for _, s := range out.Sends {
			if len(s.Payload) > MaxGossip {
				t.Errorf("a message of %d bytes, at most %d", len(s.Payload), MaxGossip)
			}
			if _, err := decodeGossip(s.Payload); err != nil {
				t.Errorf("said %x: %v", s.Payload, err)
			}
		}
	})
}

func TestAppendMemberIsStable(t *testing.T) {
	m := samples()[2].members[0]
	if !bytes.Equal(appendMember(nil, &m), appendMember(nil, &m)) || encodedSize(&m) != len(appendMember(nil, &m)) {
		t.Error("the size of an entry is not that of its layout")
	}
}
