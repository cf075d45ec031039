package policy

import (
	"time"

	"github.com/filch-hpc/filch"
)

// Balance is the way in which waiting tasks get to other nodes.
type Balance uint8

// The ways.
const (
	ByStealing Balance = iota // idle nodes ask busy ones
	ByGiving                  // busy nodes offer to idle ones (ADAGE, listing 4)
	ByBoth
)

var balanceNames = [...]string{"steal", "give", "both"}

func (b Balance) String() string { return balanceNames[b] }

// parseBalance reads the name of a way.
func parseBalance(name string) (Balance, error) {
	for b, n := range balanceNames {
		if n == name {
			return Balance(b), nil
		}
	}
	return 0, filch.Errorf(filch.Invalid, "%q is no way to balance", name).WithHint("the ways are steal, give and both")
}

// Giver is a node's part in work giving (ADAGE, listing 4): now and then a node with waiting
// tasks asks sqrt(N) drawn nodes for their load; if the node is the most loaded, the least
// loaded of the others gets half of the tasks that wait. The wait between two rounds doubles
// from giveMin to giveMax, and begins anew after a gift. The zero Giver has no tasks.
type Giver struct {
	at    time.Duration // of the next round, or of the end of this round
	wait  time.Duration
	asked []filch.NodeName // in this round, without an answer; nil: no round
	least filch.NodeName   // of those that answered
	load  Load             // of least
	most  time.Duration    // the longest wait that a node told
}

// The waits between two rounds: lbTime of the paper is 1 ms at first, and at most 120 s in the
// paper's code.
const (
	giveMin = time.Millisecond
	giveMax = 120 * time.Second
)

// At is when [Giver.Due] is true next; waits says whether tasks wait here that other nodes may
// have.
func (g *Giver) At(now time.Duration, waits bool) time.Duration {
	switch {
	case g.asked != nil:
		return g.at
	case !waits:
		g.wait, g.at = 0, 0 // the next tasks are given at once
		return filch.Never
	case g.at == 0:
		g.again(now)
	}
	return g.at
}

// again waits for the next round, twice as long as before.
func (g *Giver) again(now time.Duration) {
	g.asked = nil
	g.wait = min(max(2*g.wait, giveMin), giveMax)
	g.at = now + g.wait
}

// Due reports whether a round begins now.
func (g *Giver) Due(now time.Duration) bool { return g.asked == nil && g.at > 0 && g.at <= now }

// Ask begins a round with the nodes that were asked. Without nodes there is no round.
func (g *Giver) Ask(now time.Duration, names []filch.NodeName) {
	if len(names) == 0 {
		g.again(now)
		return
	}
	g.asked, g.least, g.load, g.most, g.at = names, "", Load{}, 0, now+AskWait
}

// Said takes in the load of an asked node, and reports whether all answered.
func (g *Giver) Said(from filch.NodeName, load Load) (all bool) {
	for k, name := range g.asked {
		if name != from {
			continue
		}
		g.asked = append(g.asked[:k:k], g.asked[k+1:]...)
		if g.least == "" || load.lighter(&g.load) {
			g.least, g.load = from, load
		}
		g.most = max(g.most, load.Wait())
		return len(g.asked) == 0
	}
	return false
}

// lighter reports whether a further task waits less here, or has more free slots.
func (l *Load) lighter(o *Load) bool {
	if a, b := l.Wait(), o.Wait(); a != b {
		return a < b
	}
	return l.Free > o.Free
}

// Over reports whether a round is to be ended: all answered, or the time is over.
func (g *Giver) Over(now time.Duration) bool {
	return g.asked != nil && (len(g.asked) == 0 || g.at <= now)
}

// End ends a round and returns the node that gets tasks, "" for none, and the number of tasks. own
// is the load of this node, of whose tasks so many may go: half goes to a node without work, and to
// another node no more than makes the waits equal. With half in any case, tasks would go to and fro.
func (g *Giver) End(now time.Duration, own Load, tasks int64) (to filch.NodeName, n int64) {
	if g.least != "" && (own.Wait() >= g.most || mutantGivesAll) && g.load.lighter(&own) {
		n = Half(tasks)
		if w := own.Wait(); g.load.Wait() > 0 && !mutantToAndFro {
			n = int64(float64(tasks) * float64(w-g.load.Wait()) / float64(2*w))
		}
		if n > 0 {
			to, g.wait = g.least, 0
		}
	}
	g.again(now)
	return to, n
}
