// Package clocks measures the clocks of the nodes of an instance against the clock of this
// machine, so that the times of different nodes can be compared.
package clocks

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Clocks are the clocks of the nodes, beside the clock of this machine.
type Clocks map[filch.NodeName]clock

// clock is a node's clock: how far the node's clock is ahead, and how wrong that may be.
type clock struct{ ahead, wrong time.Duration }

// Limits of the measuring.
const (
	clockRounds = 3
	clockAll    = 5 * time.Second // for all nodes
)

// Measure measures the clocks of all live nodes: by the time of an answer there, and those
// of the question and the answer here. The shortest of some questions counts.
func Measure(c *client.Client) Clocks {
	cs := Clocks{}
	var nodes []wire.NodeInfo
	if cli.Ask(c, cli.QueryWait, &nodes, wire.VerbNodes, wire.OnlyHere) != nil {
		return cs
	}
	end := time.Now().Add(clockAll)
	for range clockRounds {
		for i := range nodes {
			n := &nodes[i]
			if time.Now().After(end) || n.State == filch.Dead.String() || n.State == filch.Left.String() {
				continue
			}
			asked := time.Now()
			b, err := c.Query(cli.QueryWait, wire.VerbEvents, string(n.Node), "now", "1")
			half := time.Since(asked) / 2
			var chunk wire.EventChunk
			if err != nil || wire.Unmarshal(b, &chunk) != nil {
				continue
			}
			k := clock{ahead: time.Duration(chunk.Now - asked.UnixNano() - int64(half)), wrong: half}
			if old, known := cs[n.Node]; !known || k.wrong < old.wrong {
				cs[n.Node] = k
			}
		}
	}
	return cs
}

// Correct returns a time of a node by this machine's clock. A difference that the measuring
// may have made is no difference.
func (cs Clocks) Correct(node filch.NodeName, ns int64) int64 {
	k := cs[node]
	if k.ahead.Abs() <= k.wrong {
		return ns
	}
	return ns - int64(k.ahead)
}

// String says how the clocks differ.
func (cs Clocks) String() string {
	var most, wrong time.Duration
	for _, k := range cs { // in any order: the largest counts
		wrong = max(wrong, k.wrong)
		if k.ahead.Abs() > k.wrong {
			most = max(most, k.ahead.Abs())
		}
	}
	if len(cs) == 0 {
		return "the clocks of the nodes are not known: no node answered"
	}
	text := fmt.Sprintf("the clocks of %s were measured to %s", filch.Plural(len(cs), "node"), filch.ShortTime(max(wrong, time.Microsecond)))
	if most == 0 {
		return text + ", and do not differ"
	}
	return text + "; the largest difference, " + filch.ShortTime(most) + ", is corrected"
}
