package flat

import (
	"time"

	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
)

// submit has the records of the job written: the parts first, then the job.
func (s *Sim) submit() {
	s.later(max(s.answer(), s.answer())+s.answer(), 0, opened, 0)
}

// onOpened queues the bag at its leader, and gives parts to other nodes.
func (s *Sim) onOpened(i uint32) {
	s.flags[i] |= knows
	s.queue[i] = uint32(s.opt.Tasks)
	s.presses[i].Fresh = true
	s.later(s.answer(), i, atFront, 0)
	others := s.opt.Nodes - 1
	switch {
	case s.opt.Spread.ToAll(others, s.opt.Tasks, int64(s.free[i]), false):
		s.split(i, s.before(i), s.opt.Tasks)
	default:
		n := s.opt.Spread.Nodes(others + 1)
		part := s.opt.Tasks / int64(n)
		if n == 1 || part == 0 {
			return
		}
		s.picked = policy.Draw(s.picked, s.opt.Nodes, n-1, &s.rng, func(p int32) bool { return uint32(p) != i })
		for _, to := range s.picked {
			s.gift(i, uint32(to), uint32(to), part)
		}
		s.keep(i)
	}
}

func (s *Sim) before(i uint32) uint32 { return uint32((int(i) + s.opt.Nodes - 1) % s.opt.Nodes) }

// split gives parts of tasks to the nodes behind a node through last.
func (s *Sim) split(i, last uint32, tasks int64) {
	n := (int(last) - int(i) + s.opt.Nodes) % s.opt.Nodes
	for p := range policy.Parts(tasks, n, func(k int) int64 { return int64(k+1) * int64(s.opt.Slots) }) {
		s.gift(i, s.behind(i, p.Lo+1), s.behind(i, p.Hi), p.Tasks)
	}
	s.keep(i)
}

func (s *Sim) behind(i uint32, k int) uint32 { return uint32((int(i) + k) % s.opt.Nodes) }

// keep keeps the rest of the bag from thieves.
func (s *Sim) keep(i uint32) {
	s.presses[i].Keep(s.now)
	s.later(s.presses[i].Kept(s.now)-s.now, i, kept, 0)
}

// offer is tasks on their way.
type offer struct {
	tasks  uint32
	victim uint32
	last   uint32 // of the nodes that share the tasks; nobody: none
	zones  uint16 // of task numbers, at most: each has a record of its own
	asked  bool
}

// offers are those under way, by number; spare numbers are used again.
type offers struct {
	list  []offer
	spare []uint32
}

func (o *offers) add(x offer) uint32 {
	if n := len(o.spare); n > 0 {
		at := o.spare[n-1]
		o.spare = o.spare[:n-1]
		o.list[at] = x
		return at
	}
	o.list = append(o.list, x)
	return uint32(len(o.list) - 1)
}

// gift offers a node tasks that the node did not ask for.
func (s *Sim) gift(from, to, last uint32, tasks int64) {
	s.queue[from] -= uint32(tasks)
	s.send(from, to, Offer, s.offers.add(newOffer(from, last, uint32(tasks), false)), 0)
}

func newOffer(victim, last, tasks uint32, asked bool) offer {
	return offer{tasks: tasks, victim: victim, last: last, zones: uint16(1 + tasks/record.ZoneSize), asked: asked}
}

// onOffer commits the moves of an offer.
func (s *Sim) onOffer(i uint32, e *event) {
	x, t := &s.offers.list[e.what], &s.thieves[i]
	if x.asked && t.phase == stealing && t.round == e.round {
		if x.tasks == 0 {
			s.failed(i)
		} else {
			t.teller = e.peer
			t.rest(0)
		}
	}
	if x.tasks == 0 {
		s.offers.spare = append(s.offers.spare, e.what)
		return
	}
	t.moving++
	if s.flags[i]&knows == 0 {
		s.later(max(s.answer(), s.answer()), i, known, 0)
	}
	wait := s.answer()
	for range min(x.zones-1, 8) { // the slowest of many answers takes hardly longer than that of nine
		wait = max(wait, s.answer())
	}
	s.later(wait, i, moved, e.what)
}

// onMoved queues the tasks of an offer, and gives parts of them to others if a tree says so.
func (s *Sim) onMoved(i, number uint32) {
	x, t := s.offers.list[number], &s.thieves[i]
	s.offers.spare = append(s.offers.spare, number)
	s.queue[i] += x.tasks
	t.moving--
	s.send(i, x.victim, Done, 0, 0)
	s.presses[i].Fresh = true
	if x.last != nobody {
		s.split(i, x.last, int64(x.tasks))
	}
	if x.asked {
		s.won(i)
	}
	if t.phase == resting {
		t.spell.Succeeded()
		t.since = 0
		t.rest(s.now)
	}
}

// won notes a won steal.
func (s *Sim) won(i uint32) {
	r, t := &s.result, &s.thieves[i]
	if r.Won++; r.Won == 1 {
		r.First = s.now
	}
	if s.flags[i]&won == 0 && t.since > 0 {
		s.flags[i] |= won
		r.Delay, r.Delays = r.Delay+s.now-t.since, r.Delays+1
	}
}

// fill starts ready tasks in free slots.
func (s *Sim) fill(i uint32) {
	n := min(uint32(s.free[i]), s.queue[i])
	if n == 0 || s.flags[i]&(knows|fronted) != knows|fronted {
		return
	}
	s.free[i] -= uint16(n)
	s.queue[i] -= n
	s.unstarted -= int64(n)
	s.see(int64(n), 0)
	if s.opt.Vary == 0 {
		s.later(s.opt.Length, i, ended, n)
		return
	}
	for range n {
		part := float64(s.rng.Uint64()>>11) / (1 << 53)
		s.later(time.Duration(float64(s.opt.Length)*(1+s.opt.Vary*(2*part-1))), i, ended, 1)
	}
}

func (s *Sim) see(started, ended int64) {
	if s.opt.Sees != nil {
		s.opt.Sees(s.now, started, ended)
	}
}

func (s *Sim) onEnded(i uint32, n int64) {
	s.free[i] += uint16(n)
	s.ran[i] += uint32(n)
	s.see(0, n)
	if s.left -= n; s.left == 0 {
		s.result.LastEnd = s.now
		s.later(s.answer()+s.answer()+s.way(), 0, told, 0) // the block, the zone, the job
	}
	if i != 0 && s.idle(i) {
		s.later(s.answer()+s.answer()+s.answer(), i, forgets, 0)
	}
}

// idle reports whether a node has no task, and none that comes.
func (s *Sim) idle(i uint32) bool {
	return s.queue[i] == 0 && s.thieves[i].moving == 0 && int(s.free[i]) == s.opt.Slots
}

// load is how many tasks thieves could have.
func (s *Sim) load(i uint32) uint32 {
	if s.flags[i]&knows == 0 || s.presses[i].Keeps(s.now) || s.queue[i] <= uint32(s.free[i]) {
		return 0
	}
	return s.queue[i] - uint32(s.free[i])
}

func (s *Sim) onAsk(i, thief uint32, round uint16) {
	load := s.load(i)
	if load == 0 {
		s.remember(i, thief)
	}
	s.send(i, thief, LoadSay, load, round)
}

func (s *Sim) onSteal(i, thief uint32, round uint16) {
	tasks := uint32(policy.Half(int64(s.load(i))))
	if tasks == 0 {
		s.remember(i, thief)
	}
	s.queue[i] -= tasks
	s.send(i, thief, Offer, s.offers.add(newOffer(i, nobody, tasks, true)), round)
}
