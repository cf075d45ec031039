package records

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/slots"
)

// lostShards is a store that lacks replicas of shards.
type lostShards struct {
	Store
	status store.Status
}

func (s lostShards) Status() store.Status { return s.status }

func (s lostShards) EachMember(f func(filch.NodeName)) {
	for _, m := range s.status.Members {
		f(m.Name)
	}
}

// Shards without a replica are lost only while a node with their records is away. When all
// these nodes are up again, the nodes read the records from their disks.
func TestStoreFaultTellsReadingFromLoss(t *testing.T) {
	s := local.New(local.Config{Name: "n1", Incarnation: 9, Capacity: slots.Capacity{Slots: 1}})
	m := New(s, lostShards{status: store.Status{
		Known: true, Shards: 64, Lost: make([]dht.Shard, 64), Acceptor: true, Acceptors: []filch.NodeName{"n1"},
		Members: []dht.Replica{{Name: "n1", Incarnation: 2}, {Name: "n2", Incarnation: 3}},
	}})
	if got := m.StoreFault(); got != "64 of 64 shards have lost all replicas" {
		t.Errorf("without n2: %q", got)
	}
	s.Members.Set(local.Peer{Name: "n2", Incarnation: 8})
	if got := m.StoreFault(); !strings.HasPrefix(got, "64 of 64 shards have no replica yet: all nodes that had their records are up, and read the records") {
		t.Errorf("with n2: %q", got)
	}
}
