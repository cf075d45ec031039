// Package sizes measures what each node holds and sends because of the number of nodes: the member list,
// the roster, and the list that choices are made from. docs/scale.md has the figures.
package sizes

import (
	"fmt"
	"runtime"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/members"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/varint"
)

// Sizes are the bytes of an instance of so many nodes.
type Sizes struct {
	Nodes     int
	Entry     int     // of a member on the wire, with two addresses and 100 bytes of capacity
	List      float64 // of a member in the member list, in memory
	Neighbors int     // members in constant contact with a node
	Choices   float64 // of a member in the list of package policy, in memory
	Roster    int     // of the roster on the wire
	Join      int     // of the change of the roster when a node joins
	Exclude   int     // of the change when a replica of one shard is lost
}

// heap is the memory in use.
func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func name(i int) filch.NodeName { return filch.NodeName(fmt.Sprintf("node%06d", i)) }

func member(i int) members.Member {
	return members.Member{
		Name: name(i), Incarnation: 1_700_000_000_000_000_000, Version: 1, Capacity: make([]byte, 100),
		Addrs: []string{fmt.Sprintf("10.%d.%d.%d:40123", i>>16, i>>8&255, i&255), fmt.Sprintf("192.168.%d.%d:40123", i>>8&255, i&255)},
	}
}

// Of measures an instance of n nodes.
func Of(n int) Sizes {
	s := Sizes{Nodes: n}
	before := heap()
	list := members.New(members.Config{Self: member(0), Seed: 1, Limit: n + 1})
	var out members.Out
	for i := 1; i < n; i++ {
		list.Met(time.Duration(i)*time.Microsecond, member(i), &out)
		out.Reset()
	}
	s.List, s.Neighbors, s.Entry = (heap()-before)/float64(n), len(list.Neighbors()), len(list.Card())
	runtime.KeepAlive(list)
	before = heap()
	choices := policy.NewMembers()
	for i := range n {
		choices.Set(filch.Member{Name: name(i), Incarnation: 1, Total: filch.Room{Slots: 16}})
	}
	s.Choices = (heap() - before) / float64(n)
	runtime.KeepAlive(choices)
	s.rosters(n)
	return s
}

// rosters measures a roster in which each shard has three replicas, and its changes.
func (s *Sizes) rosters(n int) {
	r := roster.New(replica(0))
	for i := 1; i < n; i++ {
		r.Members = append(r.Members, roster.Member{Replica: replica(i)})
	}
	for 4*n > 1<<r.Depth && r.Depth < dht.ShardBitsMax {
		r.Split()
	}
	for i := range r.Shards {
		r.Shards[i] = &roster.Config{Epoch: 1, Replicas: []dht.Replica{replica(3 * i % n), replica((3*i + 1) % n), replica((3*i + 2) % n)}}
	}
	s.Roster = encoded(r.Since(nil))
	joined := r.Copy()
	joined.Epoch++
	joined.Members = append(joined.Members, roster.Member{Replica: replica(n)})
	s.Join = encoded(joined.Since(r))
	lost := r.Copy()
	lost.Epoch++
	lost.Shards[0] = lost.Shards[0].Next(roster.Without(lost.Shards[0].Replicas, replica(2)))
	s.Exclude = encoded(lost.Since(r))
}

func replica(i int) dht.Replica {
	return dht.Replica{Name: name(i), Incarnation: 1_700_000_000_000_000_000}
}

func encoded(d *roster.Delta) int {
	c := varint.Encoder(nil)
	d.Code(&c)
	return len(c.B)
}
