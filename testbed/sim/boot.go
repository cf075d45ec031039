package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// hostMemory is what each host has to lend.
const hostMemory = 64 << 30

// make begins a launcher's process: a new Node with a new incarnation.
func (h *host) make() {
	cores := make([]int32, len(h.cores))
	for i := range cores {
		cores[i] = int32(i)
	}
	h.gen++
	h.incarnation++
	clear(h.promises)
	h.inbox, h.head, h.busy = nil, 0, h.w.now
	h.node = launcher.New(launcher.Config{
		Name: h.name, Instance: "sim", Incarnation: h.incarnation,
		Seed:     h.w.opt.Seed*1_000_003 + uint64(h.index)*8191 + h.incarnation,
		Capacity: slots.Capacity{Cores: cores, Slots: int32(len(cores)), MemBytes: hostMemory, GPUs: gpuNames()},
		IDs:      launcher.JobIDs{Index: h.index, Stride: launcher.IDStride, Round: int32(h.incarnation - 1)},
		Policy:   h.w.opt.Gather, Members: h.w.members,
	})
}

// boot begins a launcher anew on the disk that it had: records first, then the
// keepers that are left, then the members.
func (h *host) boot() {
	w := h.w
	h.born = w.now
	h.make()
	keys := make([]string, 0, len(h.records))
	for k := range h.records {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, strings.Compare)
	records := make([]launcher.Record, len(keys))
	for i, k := range keys {
		records[i] = h.records[k]
	}
	h.call(func(now time.Duration, out *launcher.Outbox) { h.node.Restore(now, records, out) })
	if h.node == nil {
		return
	}
	for _, k := range slices.Clone(h.keepers) {
		k.adopted()
	}
	h.tellOf(h, stealer.Up, h.incarnation)
	w.detect.introduce(h)
	gen := h.gen
	w.do(w.now+w.childRng.Between(keeperWordMax, 100*time.Millisecond), func() {
		if h.gen == gen && h.node != nil {
			h.call(func(now time.Duration, out *launcher.Outbox) { h.node.Settled(now, out) })
		}
	})
	for _, j := range w.jobs {
		if j.host == h.index && j.submittedAt >= 0 && !j.over() && !j.orphaned && j.id != 0 {
			j.restarted = true
			w.reattach(h, j)
		}
	}
}

// reattach has the client of a job dial the launcher that came back.
func (w *World) reattach(h *host, j *job) {
	gen := h.gen
	w.do(w.now+w.childRng.Between(time.Millisecond, 200*time.Millisecond), func() {
		if h.gen == gen && h.node != nil && !j.clientGone {
			h.call(func(now time.Duration, out *launcher.Outbox) { h.node.Reattach(now, j.client(), j.id, out) })
		}
	})
}

// call hands the launcher an input that is a call of its own.
func (h *host) call(f func(now time.Duration, out *launcher.Outbox)) {
	h.offer(event{kind: evCall, to: h.index, from: h.index, body: f})
}

// member is what the overlay says of a host.
func (h *host) member(incarnation uint64, s stealer.Standing) launcher.Peer {
	total := slots.Room{Slots: int32(len(h.cores)), MemBytes: hostMemory, GPUs: hostGPUs}
	return launcher.Peer{Name: h.name, Incarnation: incarnation, Standing: s, Total: total}
}

// tellOf tells the launcher of h about a member.
func (h *host) tellOf(s *host, state stealer.Standing, incarnation uint64) {
	h.w.queue.Push(h.w.now, event{kind: evPeer, from: s.index, to: h.index, body: s.member(incarnation, state)})
}

// share gives all launchers of a calm world one list of members, which never
// changes: a thousand lists of a thousand are a lot to carry about.
func (w *World) share() {
	w.members = stealer.NewMembers()
	for _, h := range w.hosts {
		w.members.Set(h.member(1, stealer.Up))
	}
}

// introduceAll makes all launchers know each other before the first event.
func (w *World) introduceAll() {
	for _, o := range w.hosts {
		w.out.Reset()
		for _, s := range w.hosts {
			o.node.Peer(o.local(), s.member(s.incarnation, stealer.Up), &w.out)
			w.detect.heard[int(o.index)*w.detect.n+int(s.index)] = s.incarnation
		}
		o.settle(&w.out)
	}
}

// submitted notes that the job was handed to a launcher.
func (j *job) submitted(h *host) { j.submittedAt = h.w.now }

// unix is when the client asked, by the wall clock of its host.
func (j *job) unix(h *host) int64 { return wallClock + int64(j.Submit) + h.skew }

// clientPatience is how long a client redials a launcher that is gone.
const clientPatience = 4 * time.Second

// loseClients: what becomes of the clients of a host whose launcher died. One
// whose job was not accepted yet fails; the others redial for a while.
func (w *World) loseClients(h *host) {
	for _, j := range w.jobs {
		if j.host != h.index || j.submittedAt < 0 || j.over() {
			continue
		}
		j.restarted = true
		if j.id == 0 {
			w.orphan(j)
		}
	}
	gen := h.gen
	w.do(w.now+clientPatience, func() {
		if h.gen == gen && h.node == nil {
			w.orphanAll(h)
		}
	})
}

// orphanAll ends the clients of a host: its machine is off, or they gave up.
func (w *World) orphanAll(h *host) {
	for _, j := range w.jobs {
		if j.host == h.index && j.submittedAt >= 0 && !j.over() {
			w.orphan(j)
		}
	}
}

// orphan: nobody will hear of the job any more. All of it must be gone when
// its nodes have noticed, by the slowest way: its origin is declared dead, or
// comes back and finds no client.
func (w *World) orphan(j *job) {
	if j.orphaned || j.request.Detach {
		return
	}
	j.orphaned, j.clientGone = true, true
	w.do(w.now+orphanBound+j.killWait(), func() { w.checkOrphan(j) })
}
