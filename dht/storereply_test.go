package dht

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// kindTaken is a set; what is merged is taken by who merges it first, and the
// reply says whether that was now.
const kindTaken = Kind(200)

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
			l.kinds = Kinds{kindTaken: mergeTaken}
			l.cluster(4)
			key := Key("set")
			_, c := l.nodes[0].s.roster.homeOf(key)
			home := l.at[c.primary().Name]
			var caller *labNode
			for _, n := range l.nodes {
				if n != home {
					caller = n
				}
			}
			op := Op{ID: OpID{"client", 1, 1}, Code: OpMerge, Kind: kindTaken, Key: key, Value: []byte("a"), Durable: true}
			reply := false
			l.tap = func(m StoreMessage) { _, reply = m.(*msgReplies) }
			l.cut = func(from, _ *labNode) bool { return reply && from == home }
			tag := caller.ask(op)
			l.run(100 * time.Millisecond)
			if l.answered(tag, 1) || home.s.hold.shards[shardOf(l, key)].records[key] == nil {
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
			if r := l.done[tag][0]; r.Outcome != Done || string(r.Value) != "took a" {
				t.Errorf("got %v %q, want what the home that is gone would have said", r.Outcome, r.Value)
			}
			if r := caller.one(Op{ID: OpID{"client", 1, 2}, Code: OpMerge, Kind: kindTaken, Key: key, Value: []byte("a")}); string(r.Value) != "was there" {
				t.Errorf("another operation got %v %q", r.Outcome, r.Value)
			}
			l.check()
		})
	}
}

// shardOf is the shard of a key.
func shardOf(l *lab, k Key) Shard {
	id, _ := l.nodes[0].s.roster.homeOf(k)
	return id
}

// TestRecentReplies looks that a record remembers answers up to a limit, the
// newest first, and its operations beyond.
func TestRecentReplies(t *testing.T) {
	nobody := func([]byte, uint64, uint64) bool { return false }
	big := bytes.Repeat([]byte("x"), keptReply)
	var recent []byte
	const n = 2 * keptReplies / keptReply
	for i := range n {
		recent = appendRecent(recent, answered{node: []byte("n"), incarnation: 1, seq: uint64(i + 1), version: Version{1, uint64(i + 1)}, reply: big}, nobody)
		if len(recent) > recentMax || !checkRecent(recent) {
			t.Fatalf("after %d answers %d bytes are kept, valid %t", i+1, len(recent), checkRecent(recent))
		}
	}
	kept := 0
	for i := range n {
		a, ok, _ := findRecent(recent, OpID{"n", 1, uint64(i + 1)})
		if !ok {
			t.Errorf("operation %d of %d is forgotten", i+1, n)
		}
		if a.reply != nil {
			kept++
		} else if kept > 0 {
			t.Errorf("the answer to operation %d is forgotten, that to an older one is not", i+1)
		}
	}
	if kept != keptReplies/keptReply {
		t.Errorf("%d answers are kept, want %d", kept, keptReplies/keptReply)
	}
}

// TestRecentMarks looks that an operation which a record has forgotten, since many
// others came, is not carried out again by a repeat of it, and that nothing else is
// refused. (An append was carried out again, and was in the list twice.)
func TestRecentMarks(t *testing.T) {
	nobody := func([]byte, uint64, uint64) bool { return false }
	var recent []byte
	add := func(node string, seq uint64) {
		recent = appendRecent(recent, answered{node: []byte(node), incarnation: 1, seq: seq, version: Version{1, seq}}, nobody)
	}
	for seq := uint64(2); seq <= 4; seq++ {
		add("a", seq)
	}
	for seq := range uint64(maxRecent) {
		add("b", seq+1)
	}
	old := &record{kind: KindList, recent: recent}
	tests := []struct {
		id   OpID
		code OpCode
		want Outcome
	}{
		{OpID{"a", 1, 1}, OpAppend, Unknown}, // came late for the first time, or not: nobody knows
		{OpID{"a", 1, 4}, OpAppend, Unknown},
		{OpID{"a", 1, 4}, OpMerge, Done},
		{OpID{"a", 1, 5}, OpAppend, Done},
		{OpID{"a", 2, 1}, OpAppend, Done},
		{OpID{"a", 1, 4 | ownSeq}, OpAppend, Done},
		{OpID{"b", 1, 1}, OpAppend, Done}, // it is remembered
		{OpID{"c", 1, 1}, OpAppend, Done},
	}
	kinds := Kinds{KindList: func(_, value []byte) ([]byte, []byte, error) { return value, nil, nil }}
	for _, x := range tests {
		_, res := apply(old, &Op{ID: x.id, Code: x.code, Kind: KindList, Key: "k", Value: []byte("x")}, kinds)
		if res.Outcome != x.want {
			t.Errorf("%v of %v: got %v %s, want %v", x.code, x.id, res.Outcome, res.Err, x.want)
		}
	}
	for i := range 3 * maxMarks {
		for seq := range uint64(maxRecent) {
			add(fmt.Sprintf("n%d", i), seq+1)
		}
		if len(recent) > recentMax || !checkRecent(recent) {
			t.Fatalf("after %d callers %d bytes are kept, valid %t", i+1, len(recent), checkRecent(recent))
		}
	}
}
