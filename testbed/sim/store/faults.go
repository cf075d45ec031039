package store

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store"
)

// faultState is what the plan of faults remembers between them.
type faultState struct {
	over   bool
	mended []func() // what takes lasting faults back
	joined int
	hold   bool // no other fault now
}

// faultDeck holds the faults, with how often each is drawn out of their sum.
var faultDeck = []struct {
	weight int
	deed   func(w *World, n *node)
}{
	{14, (*World).crashOne},
	{12, (*World).pauseOne},
	{12, (*World).islandOne},
	{8, (*World).halve},
	{10, (*World).deafenOne},
	{6, (*World).cutPath},
	{8, (*World).clogOne},
	{5, func(w *World, n *node) { w.failDisk(n, w.lasts(50, 1000)) }},
	{5, (*World).rumor},
	{4, (*World).leaveOne},
	{5, (*World).joinOne},
	{3, (*World).loseOne},
	{6, (*World).crashAcceptor},
	{6, (*World).chaseHome},
	{4, (*World).blackoutAll},
}

// lasts is how long a fault stays, in ms; short ones are more frequent.
func (w *World) lasts(low, high int) time.Duration {
	d := w.rng.fault
	if d.N(2) == 0 {
		high = low + (high-low)/4
	}
	return time.Duration(low+d.N(high-low)) * time.Millisecond
}

// faultNext draws a fault and the time of the next.
func (w *World) faultNext() {
	if w.faults.over {
		return
	}
	sum := 0
	for _, f := range faultDeck {
		sum += f.weight
	}
	roll := w.rng.fault.N(sum)
	for _, f := range faultDeck {
		if roll -= f.weight; roll < 0 {
			if n := w.victim(); n != nil && !w.faults.hold {
				w.stats.Faults++
				f.deed(w, n)
			}
			break
		}
	}
	w.After(w.rng.fault.Between(0, w.plan.gap), w.faultNext)
}

// victim is, half the time, the primary of a key that is in use; else anybody.
func (w *World) victim() *node {
	d := w.rng.fault
	if d.N(2) == 0 {
		if n := w.homeOf(w.keyInUse()); n != nil {
			return n
		}
	}
	if up := w.up(); len(up) > 0 {
		return up[d.N(len(up))]
	}
	return nil
}

func (w *World) keyInUse() dht.Key {
	d := w.rng.fault
	k, _ := w.keyAt(1+d.N(2), d.N(len(kindsOfKeys)))
	return k
}

// homeOf is the primary of a key by the newest config that a process knows.
func (w *World) homeOf(k dht.Key) *node {
	_, reps := w.config(k)
	if len(reps) == 0 || !w.alive(reps[0]) {
		return nil
	}
	return w.byName[reps[0].Name]
}

func (n *node) disturb() { n.troubles++ }

// mayStop reports whether n may lose its memory now: in a steady run every
// shard that is in use keeps a replica.
func (w *World) mayStop(n *node) bool {
	return n.store != nil && (w.plan.style != steady || !w.endangered(n))
}

func (w *World) crashOne(n *node) {
	if w.mayStop(n) {
		w.crash(n, w.lasts(20, 3000))
	}
}

// crash ends the process of n, and starts it again on its disk after a while.
func (w *World) crash(n *node, down time.Duration) {
	n.disturb()
	n.stop()
	w.members.ended(n)
	life := n.Life()
	w.After(down, func() { w.restart(n, life) })
}

func (w *World) restart(n *node, life int32) {
	if n.Life() == life && n.store == nil && !n.left {
		w.stats.Restarts++
		n.boot(false)
	}
}

func (w *World) pauseOne(n *node) { w.pause(n, w.lasts(20, 2500)) }

func (w *World) pause(n *node, d time.Duration) {
	if n.store == nil {
		return
	}
	w.Trace(n.Name, "stopped", "for %v", d)
	n.disturb()
	n.Pause(w.Now() + d)
}

// cut takes the paths from every a to every b away for a while.
func (w *World) cut(a, b []*node, d time.Duration, bothWays bool) {
	set := func(by int16) {
		for _, x := range a {
			for _, y := range b {
				if x == y {
					continue
				}
				w.Net.Cut(x.Index, y.Index, by)
				if bothWays {
					w.Net.Cut(y.Index, x.Index, by)
				}
			}
		}
	}
	set(1)
	open := true
	heal := func() {
		if open {
			open = false
			set(-1)
			w.Trace("", "healed", "")
		}
	}
	w.faults.mended = append(w.faults.mended, heal)
	w.After(d, heal)
}

func (w *World) others(n *node) []*node {
	return slices.DeleteFunc(slices.Clone(w.nodes), func(x *node) bool { return x == n })
}

// islandOne cuts a node off from everybody.
func (w *World) islandOne(n *node) { w.island(n, w.lasts(100, 3000)) }

func (w *World) island(n *node, d time.Duration) {
	w.Trace(n.Name, "cut off", "for %v", d)
	w.cut([]*node{n}, w.others(n), d, true)
}

// halve cuts the nodes in two.
func (w *World) halve(n *node) {
	var a, b []*node
	for _, x := range w.nodes {
		if x == n || w.rng.fault.N(2) == 0 {
			a = append(a, x)
		} else {
			b = append(b, x)
		}
	}
	d := w.lasts(100, 3000)
	w.Trace("", "halved", "%v for %v", names(a), d)
	w.cut(a, b, d, w.rng.fault.N(4) > 0)
}

func names(nodes []*node) (all []string) {
	for _, n := range nodes {
		all = append(all, string(n.Name))
	}
	return all
}

// deafenOne makes a node hear nothing, or be heard by nobody.
func (w *World) deafenOne(n *node) {
	d := w.lasts(100, 2500)
	if w.rng.fault.N(2) == 0 {
		w.Trace(n.Name, "deaf", "for %v", d)
		w.cut(w.others(n), []*node{n}, d, false)
		return
	}
	w.Trace(n.Name, "mute", "for %v", d)
	w.cut([]*node{n}, w.others(n), d, false)
}

// cutPath takes one path away, most often in one direction only.
func (w *World) cutPath(n *node) {
	x := w.nodes[w.rng.fault.N(len(w.nodes))]
	d := w.lasts(100, 4000)
	w.Trace(n.Name, "cut", "path with %s for %v", x.Name, d)
	a, b := []*node{n}, []*node{x}
	if w.rng.fault.N(2) == 0 {
		a, b = b, a
	}
	w.cut(a, b, d, w.rng.fault.N(4) == 0)
}

// clogOne holds back what goes to or from a node, or to one other.
func (w *World) clogOne(n *node) {
	until := w.Now() + w.lasts(50, 2000)
	way := w.rng.fault.N(3)
	w.Trace(n.Name, "clogged", "until %v", until)
	for _, x := range w.others(n) {
		if way != 0 {
			w.Net.Clog(n.Index, x.Index, until)
		}
		if way != 1 {
			w.Net.Clog(x.Index, n.Index, until)
		}
		if w.rng.fault.N(8) == 0 {
			break
		}
	}
}

// rumor makes one node wrong about another.
func (w *World) rumor(n *node) {
	o := w.nodes[w.rng.fault.N(len(w.nodes))]
	if o != n && n.store != nil {
		bury := w.rng.fault.N(2) == 0
		w.Trace(o.Name, "mistrusts", "%s, buries it: %v", n.Name, bury)
		w.members.mistrust(o, n, bury)
	}
}

// nodesMin is how many nodes stay, whoever leaves or is lost for good.
const nodesMin = 3

func (w *World) staying() (count int) {
	for _, n := range w.nodes {
		if n.incarnation > 0 && !n.left && !n.leaving {
			count++
		}
	}
	return count
}

// leaveOne lets a node go on its own: it hands off first.
func (w *World) leaveOne(n *node) {
	if n.store == nil || n.leaving || w.staying() <= nodesMin {
		return
	}
	w.Trace(n.Name, "leaves", "")
	n.leaving = true
	n.disturb()
	n.input(func() { n.call(n.store.Leave) })
	if w.plan.drains {
		life := n.Life()
		back := func() {
			if n.Life() == life && n.store != nil && n.leaving {
				w.Trace(n.Name, "comes back", "")
				n.leaving = false
				n.input(func() { n.call(n.store.Return) })
			}
		}
		w.After(w.lasts(20, 4000), back)
		w.faults.mended = append(w.faults.mended, back)
	}
}

// departed is when a store said that it keeps nothing any more.
func (w *World) departed(n *node) {
	if w.plan.drains {
		w.Trace(n.Name, "keeps nothing", "")
		return
	}
	if !n.leaving || n.store == nil {
		w.Fail("left", "%s says that it has left, and was not asked to", n.Name)
		return
	}
	incarnation, life := n.incarnation, n.Life()
	w.After(0, func() {
		if n.Life() != life || n.store == nil {
			return
		}
		w.Trace(n.Name, "left", "")
		n.silence()
		n.lose()
		w.members.leave(n, incarnation)
	})
}

// joinOne lets a new node in.
func (w *World) joinOne(*node) { w.join() }

// joinAll lets those in who are to join a run that grows, one by one.
func (w *World) joinAll() {
	for range w.plan.joiners {
		w.At(faultsAt+w.rng.fault.Between(0, w.plan.span), w.join)
	}
}

func (w *World) join() {
	if i := w.plan.nodes + w.faults.joined; i < len(w.nodes) {
		w.faults.joined++
		w.nodes[i].boot(false)
	}
}

// loseOne takes a node away for good, with its disk.
func (w *World) loseOne(n *node) {
	if w.plan.style != steady || w.staying() <= nodesMin || w.whole() != "" || w.thinAcceptors(n) {
		return
	}
	w.faults.hold = true // until the others have all that it had: two faults at once may lose what one does not
	w.afterwards(w.Now() + 4*w.plan.dead)
	w.Trace(n.Name, "is lost", "for good")
	n.disturb()
	n.stop()
	n.lose()
}

// afterwards lets faults go on once all is whole again, or it takes too long.
func (w *World) afterwards(most time.Duration) {
	w.After(100*time.Millisecond, func() {
		if w.Now() < most && (w.whole() != "" || w.Now() < most-2*w.plan.dead) {
			w.afterwards(most)
			return
		}
		w.faults.hold = false
	})
}

// thinAcceptors reports whether the roster would have no majority of acceptors left
// without n. What an acceptor knew of which the disk is gone never comes back; and
// one that was never told that it is an acceptor knows nothing.
func (w *World) thinAcceptors(n *node) bool {
	acceptors := w.acceptors()
	generation := w.generation()
	alive := 0
	for _, s := range acceptors {
		if s == n || s.store == nil || s.left {
			continue
		}
		if st := s.store.Status(); st.Acceptor && st.Generation == generation {
			alive++
		}
	}
	return alive <= len(acceptors)/2
}

// generation is the newest one of acceptors that a process knows.
func (w *World) generation() (newest uint64) {
	for _, n := range w.up() {
		newest = max(newest, n.store.Status().Generation)
	}
	return newest
}

// acceptors are those of the newest generation that a process knows.
func (w *World) acceptors() (all []*node) {
	var best store.Status
	for _, n := range w.up() {
		if s := n.store.Status(); s.Known && (!best.Known || s.Generation > best.Generation || s.Generation == best.Generation && s.Epoch > best.Epoch) {
			best = s
		}
	}
	for _, name := range best.Acceptors {
		all = append(all, w.byName[name])
	}
	return all
}

// crashAcceptor aims at an acceptor of the roster.
func (w *World) crashAcceptor(*node) {
	acceptors := w.acceptors()
	if len(acceptors) == 0 {
		return
	}
	n := acceptors[w.rng.fault.N(len(acceptors))]
	switch w.rng.fault.N(3) {
	case 0:
		w.island(n, w.lasts(100, 3000))
	default:
		if w.mayStop(n) {
			w.crash(n, w.lasts(20, 4000))
		}
	}
}

// chaseHome hits the primary of a key, and its successor as soon as there is
// one: what only the successor had must not have been shown.
func (w *World) chaseHome(*node) {
	k := w.keyInUse()
	first := w.homeOf(k)
	if first == nil {
		return
	}
	w.Trace(first.Name, "chased", "as the primary of %s", k)
	hit := func(n *node) {
		switch w.rng.fault.N(3) {
		case 0:
			w.pause(n, w.plan.dead+w.lasts(100, 800))
		case 1:
			w.island(n, w.plan.dead+w.lasts(100, 800))
		default:
			if w.mayStop(n) {
				w.crash(n, w.lasts(20, 2000))
			}
		}
	}
	hit(first)
	tries := 0
	var look func()
	look = func() {
		if w.faults.over || tries > 400 {
			return
		}
		tries++
		if n := w.homeOf(k); n != nil && n != first {
			w.After(w.rng.fault.Between(0, 40*time.Millisecond), func() {
				if !w.faults.over {
					hit(n)
				}
			})
			return
		}
		w.After(10*time.Millisecond, look)
	}
	look()
}

// blackoutAll ends every process at about the same time, and starts them again
// on their disks.
func (w *World) blackoutAll(*node) {
	if w.plan.style == steady {
		return
	}
	w.Trace("", "blackout", "")
	for _, n := range w.up() {
		w.After(w.rng.fault.Between(0, 30*time.Millisecond), func() {
			if n.store != nil && !w.faults.over {
				w.crash(n, w.lasts(50, 1500))
			}
		})
	}
}

// calm ends all faults: what was cut is healed, who was stopped goes on, who
// died starts again, and the network loses nothing any more.
func (w *World) calm() {
	w.Trace("", "calm", "")
	w.faults.over = true
	for _, heal := range w.faults.mended {
		heal()
	}
	w.Net.Heal()
	for _, a := range w.nodes {
		for _, b := range w.nodes {
			w.Net.Clog(a.Index, b.Index, 0)
		}
	}
	for _, n := range w.nodes {
		n.Resume()
		w.mendDisk(n)
		if n.incarnation > 0 && n.store == nil && !n.left {
			w.restart(n, n.Life())
		}
	}
}
