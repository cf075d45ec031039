package members_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/members"
)

// TestNewcomersTakeFewLinks has nodes come one after the other. Each new pair of
// neighbors is a connection: were the links those that the list alone says, a
// newcomer would take the place of some links of others, and 13 would be made for
// each of 128 nodes.
func TestNewcomersTakeFewLinks(t *testing.T) {
	const nodes, most = 128, 10
	type pair [2]filch.NodeName
	pairs := map[pair]bool{}
	var lists []*members.List
	var all []members.Member
	var out members.Out
	for i := range nodes {
		m := members.Member{Name: filch.NodeName(fmt.Sprintf("n%d", i+1)), Incarnation: 1, Addrs: []string{fmt.Sprintf("10.0.0.%d:1", i)}}
		own := members.New(members.Config{Self: m, Seed: uint64(i + 1)})
		now := time.Duration(i+1) * 100 * time.Millisecond
		for _, o := range all {
			own.Met(now, o, &out)
		}
		lists, all = append(lists, own), append(all, m)
		for _, l := range lists {
			l.Met(now, m, &out)
			for _, n := range l.Neighbors() {
				self := l.Self().Name
				pairs[pair{min(self, n), max(self, n)}] = true
			}
		}
		out.Reset()
	}
	if n := len(pairs); n > nodes*most {
		t.Errorf("%d nodes that came one by one had %d pairs of neighbors in all, want at most %d for each node", nodes, n, most)
	}
}
