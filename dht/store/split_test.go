package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
)

// A founder that dies before anybody else holds a shard comes back to an instance
// of many nodes: its shards come back from its disk, and only the change after
// that splits and spreads them. Found by the whole-node simulator (seed 41): the
// proposer split in the same change, lost the mark of the recovery, and never came
// out of the plan that spreads. Then a split that came with the admission of a
// learner wiped what the learner had, and the record was gone with the founder.
func TestFounderThatDiesAtOnceComesBack(t *testing.T) {
	l := newLab(t, 41)
	l.age = 0
	founder := l.start("n1", true)
	key := dht.Key("kept")
	if r := founder.one(dht.Op{Code: dht.OpInsert, Key: key, Kind: dht.KindRegister, Value: []byte("before"), Durable: true}); r.Outcome != dht.Done {
		t.Fatalf("the insert ended with %v: %s", r.Outcome, r.Err)
	}
	for i := range 40 {
		l.start(filch.NodeName(fmt.Sprintf("n%d", i+2)), false)
	}
	l.run(time.Millisecond)
	founder.kill(time.Hour)
	l.run(300 * time.Millisecond)
	founder = l.start("n1", false)
	l.settle(time.Minute)
	if r := l.at["n7"].one(dht.Op{Code: dht.OpLookup, Key: key, Consistent: true}); r.Outcome != dht.Done || string(r.Value) != "before" {
		t.Errorf("after the founder came back the record is %v %q, want what it wrote", r.Outcome, r.Value)
	}
	if st := founder.s.Status(); st.Shards != 256 || st.Replicas == st.Shards {
		t.Errorf("the founder holds %d of %d shards, want some of 256", st.Replicas, st.Shards)
	}
}
