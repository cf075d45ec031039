package stealer

import (
	"time"

	"github.com/filch-hpc/filch"
)

// The terms of a gather.
const (
	// circleWait is how long the gather waits for a silent circle before asking the
	// next.
	circleWait = 50 * time.Millisecond
	// askAgain is how long an ask stays unanswered before the gather repeats the
	// ask; the wait doubles up to AskAgainMax.
	askAgain    = 250 * time.Millisecond
	askAgainMax = 4 * time.Second
	// settleMax is how long a gather that has room for all ranks waits at most for nodes which
	// lend a part of their room, and were asked for the rest: else the nodes whose answers came
	// first would get the larger parts.
	settleMax = 20 * time.Millisecond
	// refusedAgain is the wait before the gather asks a refusing node again.
	refusedAgain = 5 * time.Second
)

// Stage is how far a Gather has come.
type Stage uint8

// The stages.
const (
	local  Stage = iota // asks its own node
	Halves              // asks for half, circle by circle
	Insist              // has asked every node for the rest, waits
	Rest                // ReleaseAll: waits for the next try
)

func (s Stage) String() string { return [...]string{"local", "half", "insist", "rest"}[min(s, Rest)] }

// Ask is a question to a victim; see the message of that name.
type Ask struct {
	To    filch.NodeName
	Want  int32
	Half  bool
	Wait  bool
	Round uint32
	Lends bool // tasks may use the held room, as before
}

// Back is room to give back: a lease, or with a zero lease everything asked for up
// to Round.
type Back struct {
	To    filch.NodeName
	Lease filch.LeaseID
	Round uint32
}

// Moves are the messages for the caller to send.
type Moves struct {
	Asks  []Ask
	Backs []Back
	Words []Word
}

// Grant is a victim's report of the room held for the job; of two, the later
// version counts.
type Grant struct {
	Lease   filch.LeaseID
	Held    int32
	Version uint64
	Round   uint32
	Waiting bool
	Refused bool
	Older   bool
	Free    int32
	Holder  filch.JobID
	Holds   int32
	Lacks   string
	Lent    int32         // further ranks held, in whose room tasks run
	Fill    filch.JobID   // the job with most of these tasks
	Fills   int32         // their number
	Frees   time.Duration // from now until the missing ranks find room, at the latest; 0: not known
}

// cell is one candidate.
type cell struct {
	member  int32
	limit   int32
	want    int32
	asked   uint32 // round of the last ask, 0 none
	open    bool   // and not answered
	insists bool   // the last ask waits
	again   time.Duration
	tries   uint8
	last    Grant
	lends   bool          // tasks may use the room held there
	recalls bool          // they may no more, and the lender has not said that it knows
	frees   time.Duration // when the missing ranks find room; 0: not known
	heard   uint32        // the refreshes before the last report
}

// Gather collects slots for one job. Gather asks the origin's own node, then
// circles of random others for half of their free room, then all nodes for the
// rest, and keeps the grants until [Gather.Ready].
type Gather struct {
	need    Need
	policy  Policy
	members *filch.Members
	self    filch.NodeName
	rng     filch.Rand
	cells   []cell  // in the order of asking
	where   []int32 // cell+1 of a member
	reach   int     // candidates asked so far
	circle  int
	stage   Stage
	open    int32 // asks of this stage not answered
	sum     int64 // ranks held, counting usable nodes up to their limits
	round   uint32
	next    time.Duration // the circle's end, or the next try
	poll    time.Duration
	again   time.Duration // no cell is due earlier
	lendAt  time.Duration // when held room is lent; Never: it is, or the gather does not insist
	settle  time.Duration // until then the gather may settle; Never: no more

	refreshes uint32 // calls of Refresh that asked
}

// NewGather makes a Gather for a job submitted on self.
func NewGather(need Need, m *filch.Members, self filch.NodeName, p Policy, seed uint64) *Gather {
	g := &Gather{need: need, policy: p, members: m, self: self, rng: filch.Rand(seed), next: filch.Never, again: filch.Never, lendAt: filch.Never, settle: filch.Never}
	if p.PollMin <= 0 {
		g.policy.PollMin = time.Millisecond
	}
	if p.PollMax <= 0 {
		g.policy.PollMax = time.Second
	}
	g.poll = g.policy.PollMin
	g.where = make([]int32, m.Len())
	for i := range int32(m.Len()) {
		g.admit(i)
	}
	first := 0
	if len(g.cells) > 0 && m.At(g.cells[0].member).Name == self {
		first = 1
	}
	for i := len(g.cells) - 1; i > first; i-- {
		j := first + g.rng.IntN(i-first+1)
		g.cells[i], g.cells[j] = g.cells[j], g.cells[i]
	}
	for i := range g.cells {
		g.where[g.cells[i].member] = int32(i) + 1
	}
	return g
}

// admit makes an eligible member a candidate; this node goes first.
func (g *Gather) admit(i int32) bool {
	p := g.members.At(i)
	for len(g.where) <= int(i) {
		g.where = append(g.where, 0)
	}
	if g.where[i] != 0 || p.Standing > filch.Draining || !g.need.Allows(p) {
		return false
	}
	limit := g.need.limit(p.Total)
	if limit <= 0 {
		return false
	}
	g.cells = append(g.cells, cell{member: i, limit: limit, again: filch.Never})
	g.where[i] = int32(len(g.cells))
	if k := len(g.cells) - 1; p.Name == g.self && g.stage == local && g.reach == 0 {
		g.cells[0], g.cells[k] = g.cells[k], g.cells[0]
		g.where[g.cells[k].member] = int32(k) + 1
		g.where[i] = 1
	}
	return true
}

// Begin asks the origin's own node for all ranks, or for an even part if the job asks for
// several nodes; if the own node is no candidate, Begin goes straight to the neighbors.
func (g *Gather) Begin(now time.Duration, out *Moves) {
	if g.policy.Kind == Accumulate && len(g.cells) > 0 && g.name(0) == g.self {
		g.round++
		g.reach = 1
		g.ask(now, 0, min(g.cells[0].limit, g.need.part()), false, false, out)
		g.next = now + circleWait
		return
	}
	g.step(now, out)
}

func (g *Gather) name(i int) filch.NodeName { return g.members.At(g.cells[i].member).Name }

func (g *Gather) usable(c *cell) bool {
	s := g.members.At(c.member).Standing
	return s.Answers()
}

func (g *Gather) ask(now time.Duration, i int, want int32, half, wait bool, out *Moves) {
	c := &g.cells[i]
	c.want, c.insists = want, wait
	c.asked = g.round
	if !c.open {
		c.open = true
		g.open++
	}
	c.again = now + min(askAgain<<min(c.tries, 8), askAgainMax)
	g.again = min(g.again, c.again)
	out.Asks = append(out.Asks, Ask{To: g.name(i), Want: want, Half: half, Wait: wait, Round: c.asked, Lends: c.lends})
}

// missing is the number of ranks for which no room is held.
func (g *Gather) missing() int32 { return max(g.need.Ranks-int32(min(g.sum, int64(g.need.Ranks))), 1) }

// step moves on when the stage is over: every node answered, or the time is up.
func (g *Gather) step(now time.Duration, out *Moves) {
	if g.open > 0 && now < g.next || g.stage == Insist || g.full() {
		return
	}
	switch {
	case g.policy.Kind == ReleaseAll:
		g.tryAll(now, out)
	case g.reach < len(g.cells):
		g.widen(now, out)
	default:
		g.insist(now, out)
	}
}

// full reports whether the grants suffice for a choice of nodes.
func (g *Gather) full() bool {
	_, ok := g.Ready()
	return ok
}

// widen asks the next circle for half of the free room: the first circle is the
// square root of the members, or twice the number of nodes needed if larger; each
// further circle is twice as large.
func (g *Gather) widen(now time.Duration, out *Moves) {
	g.stage = Halves
	if g.circle == 0 {
		most := int32(1)
		for i := range g.cells {
			most = max(most, g.cells[i].limit)
		}
		nodes := max((g.missing()+most-1)/most, g.need.MinNodes-int32(g.reach))
		g.circle = max(filch.Root(g.members.Len()), 2*int(nodes+g.need.Spare), 1)
	} else {
		g.circle *= 2
	}
	g.round++
	missing := g.missing()
	for k := g.circle; k > 0 && g.reach < len(g.cells); g.reach++ {
		c := &g.cells[g.reach]
		if g.members.At(c.member).Standing != filch.Up || c.limit <= 0 {
			continue
		}
		want := min(c.limit, missing)
		if g.need.Exclusive || g.need.Spare > 0 {
			want = c.limit // the whole node is ours: do not pile ranks on others; or it may be a spare
		}
		g.ask(now, g.reach, want, true, false, out)
		k--
	}
	g.next = now + circleWait
	if g.open == 0 {
		g.step(now, out)
	}
}

// insist asks every node for all usable room, and to wait.
func (g *Gather) insist(now time.Duration, out *Moves) {
	g.stage, g.next, g.lendAt, g.settle = Insist, filch.Never, now+lendAfter, now+settleMax
	g.round++
	for i := range g.cells {
		g.insistOn(now, i, out)
	}
}

func (g *Gather) insistOn(now time.Duration, i int, out *Moves) {
	c := &g.cells[i]
	if g.members.At(c.member).Standing != filch.Up || c.ranks() >= c.limit {
		return
	}
	c.tries = 0
	g.ask(now, i, c.limit, false, true, out)
}

// tryAll is the papers' policy: ask every node for half, and if the sum is short,
// give everything back and try again later.
func (g *Gather) tryAll(now time.Duration, out *Moves) {
	if g.stage == Halves {
		g.stage = Rest
		g.next = now + g.poll
		g.poll = min(2*g.poll, g.policy.PollMax)
		for i := range g.cells {
			c := &g.cells[i]
			g.close(c)
			c.again = filch.Never
			if c.asked == 0 {
				continue
			}
			out.Backs = append(out.Backs, Back{To: g.name(i), Lease: c.last.Lease, Round: c.asked})
			g.count(c, -1)
			c.last.Held, c.last.Lent = 0, 0
			g.count(c, 1)
		}
		return
	}
	if now < g.next && g.stage == Rest {
		return
	}
	g.stage = Halves
	g.round++
	g.next = now + circleWait
	g.reach = len(g.cells)
	for i := range g.cells {
		if c := &g.cells[i]; g.members.At(c.member).Standing == filch.Up {
			g.ask(now, i, c.limit, true, false, out)
		}
	}
}

// count adds the ranks held at c to the sum, or subtracts them.
func (g *Gather) count(c *cell, sign int64) {
	if g.usable(c) {
		g.sum += sign * int64(c.ranks())
	}
}

func (g *Gather) close(c *cell) {
	if c.open {
		c.open = false
		g.open--
	}
}

// Granted receives a victim's report. A report older than the last known is
// ignored, and news is false: the victim then asks whether the room is still
// wanted.
func (g *Gather) Granted(now time.Duration, from filch.NodeName, n Grant, out *Moves) (news bool) {
	m := g.members.Find(from)
	if m < 0 || int(m) >= len(g.where) || g.where[m] == 0 {
		return false
	}
	c := &g.cells[g.where[m]-1]
	news = newer(n, c.last)
	// The lender lends without a new version: it does not ask whether each task may start.
	if news || mutantStaleGrant || n.Lease == c.last.Lease && n.Version == c.last.Version {
		g.count(c, -1)
		c.last, c.heard = n, g.refreshes
		g.count(c, 1)
		if c.frees = 0; n.Frees > 0 {
			c.frees = now + n.Frees
		}
	}
	if n.Round >= c.asked {
		c.tries, c.recalls = 0, false
		c.again = filch.Never
		g.close(c)
	}
	if g.stage == Insist && c.again == filch.Never && !c.last.Waiting && c.ranks() < c.want {
		c.again = now + askAgainMax // dropped from the list: a lapse, a drain, a full list
		if c.last.Refused {
			c.again = now + refusedAgain
		}
		g.again = min(g.again, c.again)
	}
	if g.stage == local && n.Older && g.policy.Kind == Accumulate {
		// The older request waits here, so it waits everywhere, ahead of this job.
		// No neighbor would lend half, so asking for half is useless.
		g.reach = len(g.cells)
	}
	g.step(now, out)
	g.recall(now, out)
	return news
}

func newer(n, than Grant) bool {
	if n.Lease.Incarnation != than.Lease.Incarnation {
		return n.Lease.Incarnation > than.Lease.Incarnation
	}
	return n.Version > than.Version
}

// Changed handles a member's coming, departure or rebirth; old is the previous
// entry. The caller updates Members first.
func (g *Gather) Changed(now time.Duration, i int32, old filch.Member, known bool, out *Moves) {
	if int(i) >= len(g.where) || g.where[i] == 0 {
		if g.admit(i) && g.stage == Insist {
			g.reach = len(g.cells)
			g.round++
			g.insistOn(now, len(g.cells)-1, out)
		}
		return
	}
	k := int(g.where[i]) - 1
	c, p := &g.cells[k], g.members.At(i)
	if old.Standing.Answers() {
		g.sum -= int64(c.ranks())
	}
	if p.Standing >= filch.Dead || p.Incarnation != old.Incarnation {
		c.limit = g.need.limit(p.Total) // the node may have come back with more, or less
		c.last = Grant{Lease: filch.LeaseID{Incarnation: p.Incarnation}}
		c.lends, c.recalls, c.frees = false, false, 0
		g.close(c)
		c.again = filch.Never
	}
	g.count(c, 1)
	if p.Standing == filch.Up && old.Standing != filch.Up && c.open {
		c.again, g.again = now, now // the ask was not repeated while the node was suspected
	}
	// A suspected node may not have been asked to wait. A draining node forgot the
	// waiting claims, and the report of this may have been lost.
	back := old.Standing >= filch.Draining || (old.Standing == filch.Suspect || old.Standing == filch.Gone) && !c.last.Waiting
	if p.Standing == filch.Up && g.stage == Insist && (back || p.Incarnation != old.Incarnation || c.last.Refused || c.asked == 0) {
		g.round++
		g.insistOn(now, k, out)
	}
	g.step(now, out)
	g.recall(now, out)
}

// Tick repeats unanswered asks and ends circles after their time.
func (g *Gather) Tick(now time.Duration, out *Moves) {
	if g.again <= now {
		g.again = filch.Never
		for i := range g.cells {
			g.repeat(now, i, out)
			g.again = min(g.again, g.cells[i].again)
		}
	}
	g.lend(now, out)
	if g.settle <= now {
		g.settle = filch.Never
	}
	if g.next > now || g.stage == Insist {
		return
	}
	g.step(now, out)
	if g.next <= now { // enough is held: look again in case a hold is wounded
		g.next = now + circleWait
	}
}

// repeat asks again: an unanswered ask under the same round, and a node after a
// refusal or a lapse under a new round.
func (g *Gather) repeat(now time.Duration, i int, out *Moves) {
	c := &g.cells[i]
	if c.again > now {
		return
	}
	c.again = filch.Never
	if c.ranks() >= c.want && !c.recalls || g.members.At(c.member).Standing != filch.Up {
		return
	}
	half := !c.insists && (g.policy.Kind == ReleaseAll || g.name(i) != g.self)
	c.tries = min(c.tries+1, 16)
	if !c.open {
		g.round++
		g.ask(now, i, c.want, half, c.insists, out)
		return
	}
	last := g.round
	g.round = c.asked
	g.ask(now, i, c.want, half, c.insists, out)
	g.round = last
}

// Deadline is when [Gather.Tick] is due.
func (g *Gather) Deadline() time.Duration {
	if g.stage == Insist {
		return min(g.again, g.lendAt, g.settle)
	}
	return min(g.next, g.again)
}
