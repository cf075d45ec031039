package mtc

import (
	"fmt"
	"math"
	"time"

	"github.com/filch-hpc/filch"
)

// PolicyKind is one of the four ways of MATRIX v2 (III.B.3) to weigh balance
// against locality.
type PolicyKind uint8

// The policies.
const (
	MLB  PolicyKind = iota // maximized load balancing: every task may be stolen
	MDL                    // maximized data locality: what has input stays with it
	RLDS                   // rigid: split by the threshold, and it stays so
	FLDS                   // flexible: as RLDS, and what waits too long is shared
)

var policyNames = [...]string{"mlb", "mdl", "rlds", "flds"}

func (k PolicyKind) String() string {
	if int(k) < len(policyNames) {
		return policyNames[k]
	}
	return fmt.Sprintf("policy-%d", uint8(k))
}

// ParsePolicy reads a policy's name.
func ParsePolicy(name string) (PolicyKind, error) {
	for k, n := range policyNames {
		if n == name {
			return PolicyKind(k), nil
		}
	}
	return 0, filch.Errorf(filch.Invalid, "%q is no scheduling policy", name).WithHint("it is one of mlb, mdl, rlds, flds")
}

// Policy is how ready tasks are placed. The zero Policy is MLB; [ReadPolicy]
// has it as text.
type Policy struct {
	Kind PolicyKind
	// Threshold is t of Algorithm 1 in bytes per second: what a tenth of the
	// network carries. 0 is [Threshold]; MLB and MDL have their own.
	Threshold float64
	// LocalTime is tt: dedicated tasks that take longer in all are shared
	// (FLDS). It adapts from there; 0 is [LocalTime].
	LocalTime time.Duration
	// Guess is the length of a task before the first one ended; 0 is a second.
	Guess time.Duration
}

// Defaults of a [Policy]: a tenth of 10 Gb/s, and the paper's first tt.
const (
	Threshold = 0.1 * 10e9 / 8
	LocalTime = 10 * time.Second
)

// The least that tt adapts to, and how often the dedicated queue is looked at.
const (
	localTimeMin = 10 * time.Millisecond
	moverPeriod  = 100 * time.Millisecond
)

// threshold is t.
func (p Policy) threshold() float64 {
	switch {
	case p.Kind == MLB:
		return math.Inf(1)
	case p.Kind == MDL:
		return 0
	case p.Threshold > 0:
		return p.Threshold
	}
	return Threshold
}

// Placement is where a ready task goes.
type Placement uint8

// The placements.
const (
	ToShared Placement = iota
	ToDedicated
	ToPeer // to the dedicated queue of the node that has most of its input
)

// Place is Algorithm 1 of MATRIX v2: inputs are what its parents made and where,
// length the estimated length of the task.
func (p Policy) Place(inputs []Input, self filch.NodeName, length time.Duration) (Placement, filch.NodeName) {
	t := p.threshold()
	var all, most int64
	var where filch.NodeName
	for _, in := range inputs {
		all += in.Bytes
		if in.Bytes > most {
			most, where = in.Bytes, in.Node
		}
	}
	est := max(length, time.Microsecond).Seconds()
	if mutantNoEstimate {
		est = 1
	}
	switch {
	case float64(all)/est <= t, float64(most)/est <= t:
		return ToShared, ""
	case where == self || where == "":
		return ToDedicated, ""
	}
	return ToPeer, where
}

// Excess is how many of n dedicated tasks FLDS shares: at that throughput in
// tasks per second they take n/rate, and what is above tt moves. The paper's
// example: 1,000 done in 10 s, 5,000 queued, tt 30 s: 2,000 move.
func Excess(n int, rate float64, tt time.Duration) int {
	if n == 0 || rate <= 0 || mutantFLDSNever {
		return 0
	}
	est := float64(n) / rate
	if est <= tt.Seconds() {
		return 0
	}
	return min(n, int(math.Round((est-tt.Seconds())/est*float64(n))))
}

// mover keeps the estimates of a node and moves tasks under FLDS.
type mover struct {
	Policy
	tt    time.Duration
	done  int64
	spent time.Duration // of all tasks that ended
	since time.Duration
	at    time.Duration // of the next look
}

func (m *mover) init(p Policy) {
	m.Policy = p
	m.tt = m.localTime()
	m.at = filch.Never
}

func (m *mover) ended(took time.Duration) {
	m.done++
	m.spent += took
}

// length is the mean length of the tasks that ended here (III.B.2b).
func (m *mover) length() time.Duration {
	if m.done > 0 {
		return m.spent / time.Duration(m.done)
	}
	if m.Guess > 0 {
		return m.Guess
	}
	return time.Second
}

// rate is the throughput of this node so far, while it had something to do.
func (m *mover) rate(now time.Duration) float64 {
	if now <= m.since || m.done == 0 {
		return 0
	}
	return float64(m.done) / (now - m.since).Seconds()
}

// stealFailed doubles tt again, up to what was set (IV.E): a node that failed
// to steal before it had work would never share it otherwise.
func (m *mover) stealFailed() { m.tt = min(2*m.tt, m.localTime()) }

func (m *mover) localTime() time.Duration {
	if m.LocalTime > 0 {
		return m.LocalTime
	}
	return LocalTime
}

// place puts a ready task of a graph where the policy says.
func (c *Core) place(now time.Duration, j *job, it item, out *Out) {
	to, peer := c.policy.Place(it.inputs, c.cfg.Self, c.policy.length())
	if to == ToPeer {
		if m := c.members.find(peer); m != nil && m.Up {
			c.give(now, j, it, peer, out)
			return
		}
		to = ToShared // its data are where no work may go
	}
	if to == ToDedicated {
		j.queue.dedicated.push(it)
		c.policy.at = min(c.policy.at, now+moverPeriod)
	} else {
		j.queue.shared.push(it)
	}
	c.active(j)
}

// SetPolicy changes the policy; what is queued is placed anew.
func (c *Core) SetPolicy(now time.Duration, p Policy, out *Out) {
	c.policy.Policy = p
	c.policy.tt = c.policy.localTime()
	for _, j := range c.sortedJobs() {
		list := append(j.queue.dedicated.bottom(len(j.queue.dedicated.list)), j.queue.shared.bottom(len(j.queue.shared.list))...)
		for _, it := range list {
			if len(it.inputs) == 0 {
				j.queue.shared.push(it)
				continue
			}
			c.place(now, j, it, out)
		}
	}
	c.settle(now, out)
}

// Policy is the policy as it is now; its LocalTime is the adapted tt.
func (c *Core) Policy() Policy {
	p := c.policy.Policy
	p.LocalTime = c.policy.tt
	return p
}

// tickMover shares dedicated tasks that would wait too long (FLDS).
func (c *Core) tickMover(now time.Duration) {
	if c.policy.at > now {
		return
	}
	c.policy.at = filch.Never
	n := 0
	for _, j := range c.order {
		n += len(j.queue.dedicated.list)
	}
	if n == 0 || c.policy.Kind != FLDS {
		return
	}
	c.policy.at = now + moverPeriod
	k := Excess(n, c.policy.rate(now), c.policy.tt)
	if k == 0 {
		return
	}
	c.policy.tt = max(c.policy.tt/2, localTimeMin)
	for i := len(c.order) - 1; i >= 0 && k > 0; i-- {
		q := &c.order[i].queue
		for _, it := range q.dedicated.bottom(k) {
			q.shared.push(it)
			k--
		}
	}
}
