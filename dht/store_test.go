package dht

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
)

// TestStoreOperations runs every operation on one node and on three.
func TestStoreOperations(t *testing.T) {
	for _, nodes := range []int{1, 2, 3, 5} {
		t.Run(fmt.Sprintf("nodes-%d", nodes), func(t *testing.T) {
			l := newLab(t, 1)
			l.cluster(nodes)
			for i, n := range l.nodes {
				checkOperations(t, n, fmt.Sprintf("k%d/", i))
			}
			l.check()
		})
	}
}

func checkOperations(t *testing.T, n *labNode, prefix string) {
	t.Helper()
	want := func(what string, got Result, o Outcome, value string) Result {
		t.Helper()
		if got.Outcome != o || string(got.Value) != value {
			t.Fatalf("%s: got %v %q (%s), want %v %q", what, got.Outcome, got.Value, got.Err, o, value)
		}
		return got
	}
	k := func(s string) Key { return Key(prefix + s) }
	want("lookup of nothing", n.one(Op{Code: OpLookup, Key: k("a"), Consistent: true}), Absent, "")
	first := want("insert", n.one(Op{Code: OpInsert, Key: k("a"), Value: []byte("1")}), Done, "")
	want("insert again", n.one(Op{Code: OpInsert, Key: k("a"), Value: []byte("2")}), Exists, "1")
	got := want("lookup", n.one(Op{Code: OpLookup, Key: k("a")}), Done, "1")
	if !got.Stale || got.Version != first.Version || got.Kind != KindRegister {
		t.Errorf("got %+v, want a stale answer of version %v", got, first.Version)
	}
	if got := want("lookup", n.one(Op{Code: OpLookup, Key: k("a"), Consistent: true}), Done, "1"); got.Stale {
		t.Errorf("got a stale answer to a consistent lookup")
	}
	second := want("swap", n.one(Op{Code: OpSwap, Key: k("a"), Value: []byte("2"), Expect: first.Version}), Done, "")
	want("swap of an old version", n.one(Op{Code: OpSwap, Key: k("a"), Value: []byte("3"), Expect: first.Version}), Mismatch, "2")
	want("swap of nothing", n.one(Op{Code: OpSwap, Key: k("b"), Value: []byte("3"), Expect: first.Version}), Absent, "")
	want("swap that makes", n.one(Op{Code: OpSwap, Key: k("b"), Value: []byte("3")}), Done, "")
	want("remove of an old version", n.one(Op{Code: OpRemove, Key: k("a"), Expect: first.Version}), Mismatch, "2")
	want("remove", n.one(Op{Code: OpRemove, Key: k("a"), Expect: second.Version}), Done, "")
	want("remove again", n.one(Op{Code: OpRemove, Key: k("a")}), Absent, "")
	want("lookup of removed", n.one(Op{Code: OpLookup, Key: k("a"), Consistent: true}), Absent, "")

	id := OpID{n.name, n.inc, 7}
	for range 3 {
		want("append", n.one(Op{ID: id, Code: OpAppend, Key: k("l"), Value: []byte("x")}), Done, "")
	}
	want("append", n.one(Op{Code: OpAppend, Key: k("l"), Value: []byte("y"), Durable: true}), Done, "")
	list, err := DecodeList(n.one(Op{Code: OpLookup, Key: k("l"), Consistent: true}).Value)
	if err != nil || fmt.Sprintf("%s", list) != "[x y]" {
		t.Errorf("got list %s (%v), want [x y]", list, err)
	}
	want("append to a register", n.one(Op{Code: OpAppend, Key: k("b"), Value: []byte("x")}), Conflict, "")

	for _, merge := range [][2]string{{"5", "5"}, {"7", "7"}, {"6", "7"}} {
		want("merge", n.one(Op{Code: OpMerge, Kind: kindGreatest, Key: k("t"), Value: []byte(merge[0])}), Done, merge[1])
	}
	join := Op{Code: OpJoin, Kind: kindGreatest, Key: k("j"), Value: []byte("5")}
	want("join", n.one(join), Done, "5")
	want("remove what was joined", n.one(Op{Code: OpRemove, Key: k("j")}), Done, "")
	want("join of removed", n.one(join), Absent, "")
	want("merge of removed", n.one(Op{Code: OpMerge, Kind: kindGreatest, Key: k("j"), Value: []byte("4")}), Done, "4")
	want("join of made again", n.one(join), Done, "5")
	if got := n.one(Op{Code: OpLookup}); got.Outcome != Invalid {
		t.Errorf("got %v for an empty key, want invalid", got.Outcome)
	}
}

// TestStoreHomed gathers the records that are at home at each node.
func TestStoreHomed(t *testing.T) {
	l := newLab(t, 2)
	l.cluster(3)
	var ops []Op
	for i := range 500 {
		ops = append(ops, Op{Code: OpInsert, Key: Key(fmt.Sprintf("job/%03d", i)), Value: make([]byte, 2000)}, Op{Code: OpInsert, Key: Key(fmt.Sprintf("other/%d", i))})
	}
	l.nodes[0].get(ops...)
	seen := map[Key]bool{}
	for _, n := range l.nodes {
		last := Key("")
		for r := range n.s.Homed("job/") {
			if seen[r.Key] || r.Key <= last || len(r.Value) != 2000 {
				t.Fatalf("%s comes after %s, twice, or with %d bytes", r.Key, last, len(r.Value))
			}
			seen[r.Key], last = true, r.Key
		}
	}
	if len(seen) != 500 {
		t.Errorf("got %d records, want 500", len(seen))
	}
}

// TestStoreRequests counts what operations cost.
func TestStoreRequests(t *testing.T) {
	l := newLab(t, 3)
	l.cluster(4)
	n := l.nodes[0]
	away := func(s string) Key { // a key whose home and replicas are others
		for i := 0; ; i++ {
			k := Key(fmt.Sprintf("%s%d", s, i))
			if _, c := n.s.roster.homeOf(k); !c.has(n.s.self) {
				return k
			}
		}
	}
	for _, c := range []struct {
		name string
		op   Op
		want int // requests; each has an answer
	}{
		{"insert", Op{Code: OpInsert, Key: away("a")}, 3},
		{"lookup", Op{Code: OpLookup, Key: away("a")}, 1},
		{"consistent", Op{Code: OpLookup, Key: away("a"), Consistent: true}, 3},
		{"swap", Op{Code: OpSwap, Key: away("b")}, 3},
	} {
		l.run(time.Second)
		before := l.sent
		n.one(c.op)
		l.run(time.Second)
		if got := l.sent - before; got != 2*c.want {
			t.Errorf("%s: got %d messages, want %d requests and their answers", c.name, got, c.want)
		}
	}
	l.run(10 * time.Second)
	before := l.sent
	l.run(time.Minute)
	if got := l.sent - before; got != 0 {
		t.Errorf("an idle store sent %d messages in a minute", got)
	}
	for _, n := range l.nodes {
		if d := n.s.Deadline() - n.clock(); d < 5*time.Minute && n.s.Deadline() != filch.Never {
			t.Errorf("%s wants to wake in %v", n.name, d)
		}
	}
}

// TestStoreIdentities asks under identities of a caller's own choice: what only
// the store may choose, or nobody, is refused before it is sent.
func TestStoreIdentities(t *testing.T) {
	l := newLab(t, 28)
	l.cluster(3)
	n := l.nodes[1]
	sent := 0
	l.tap = func(m StoreMessage) {
		if _, ok := m.(*msgOps); ok {
			sent++
		}
	}
	for _, c := range []struct {
		name string
		id   OpID
		want Outcome
	}{
		{"none", OpID{}, Done},
		{"first", OpID{"client", 1, 1}, Done},
		{"last", OpID{"client", 1, ownSeq - 1}, Done},
		{"store's", OpID{"client", 1, ownSeq}, Invalid},
		{"store's own name", OpID{n.name, n.inc, ownSeq | 5}, Invalid},
		{"store's last", OpID{"client", 1, ^uint64(0)}, Invalid},
		{"no number", OpID{"client", 1, 0}, Invalid},
		{"no name", OpID{"", 0, 3}, Done},
		{"long name", OpID{filch.NodeName(strings.Repeat("x", maxNodeName+1)), 1, 1}, Invalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, code := range []OpCode{OpAppend, OpRemove} {
				before := sent
				for i := range 40 { // some have another node for a home
					r := n.one(Op{ID: c.id, Code: code, Key: Key(fmt.Sprintf("%s/%d", c.name, i)), Value: []byte("v")})
					if r.Outcome != c.want || (r.Err == "") != (c.want == Done) {
						t.Fatalf("operation %d: got %v %q, want %v", code, r.Outcome, r.Err, c.want)
					}
				}
				if (sent > before) != (c.want == Done) {
					t.Errorf("operation %d: %d messages were sent", code, sent-before)
				}
			}
		})
	}
	l.check()
}
