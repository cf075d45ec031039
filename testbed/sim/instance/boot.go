package instance

import (
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/store"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/slots"
)

// hostMemory is what each host has to lend.
const hostMemory = 64 << 30

// calmJobs is how many job ids each host of a calm world has. Nobody fails there,
// and each host keeps its records by itself.
const calmJobs = 1 << 17

// make begins a launcher's process: a new Node with a new incarnation, on the
// disk that is there. Its clock was 0 at the moment born.
func (h *host) make(born time.Duration) {
	processors := make([]filch.Processor, len(h.cores))
	for i := range processors {
		c := int32(i)
		processors[i] = filch.Processor{CPUs: []int32{c}, Core: c, Socket: c / 8, Domain: c / 3}
	}
	h.incarnation++
	clear(h.promises)
	h.Start(born, h.tick)
	cfg := node.Config{
		Name: h.Name, Instance: "sim", Incarnation: h.incarnation,
		Seed:     h.w.opt.Seed*1_000_003 + uint64(h.Index)*8191 + h.incarnation,
		Capacity: slots.Capacity{Processors: processors, Slots: int32(len(processors)), MemBytes: hostMemory, GPUs: gpuNames()},
		Policy:   h.w.opt.Gather, Members: h.w.members, Role: h.role,
	}
	cfg.Tasks.WallNS, cfg.Tasks.Policy = wallClock+int64(born), h.w.opt.Policy
	if e := h.w.elastic; e != nil {
		e.configure(h, &cfg, born)
	}
	if h.w.opt.Calm {
		cfg.After = filch.JobID(h.Index) * calmJobs
	}
	h.store = store.New(records.StoreConfig(&cfg))
	h.node = node.New(cfg, h.store)
	h.node.Grows(h.w.elastic != nil)
	h.node.StoreRestore(h.disk.Image(h.incarnation))
}

// boot begins a launcher anew on the disk that it had: records first, then the
// keepers that are left, then the members.
func (h *host) boot() {
	w := h.w
	h.drains = false
	h.make(w.Now())
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
	h.fullAgain()
	if !w.lateKeepers {
		h.findKeepers()
	}
	via, again := slices.Clone(h.contacts), len(h.contacts) > 0
	seed := w.hosts[0].Name
	if h.invited != "" {
		seed = h.invited
	}
	if seed != h.Name && !slices.Contains(via, seed) {
		via = append(via, seed)
	}
	h.beginList(via, again)
	life := h.Life()
	settles := w.Now() + w.childRng.Between(keeperWordMax, 100*time.Millisecond)
	if w.lateKeepers {
		w.At((w.Now()+settles)/2, func() {
			if h.Life() == life && h.node != nil {
				h.findKeepers()
			}
		})
	}
	w.At(settles, func() {
		if h.Life() == life && h.node != nil {
			h.call(func(now time.Duration, out *launcher.Outbox) { h.node.Settled(now, out) })
		}
	})
	h.spawnAgain()
	if e := w.elastic; e != nil {
		e.hold(h)
	}
	for _, j := range w.jobs {
		if j.host == h.Index && j.submittedAt >= 0 && !j.over() && !j.orphaned && j.id != 0 {
			j.restarted = true
			w.reattach(h, j)
		}
	}
}

// findKeepers finds the keepers that are left.
func (h *host) findKeepers() {
	for _, k := range slices.Clone(h.keepers) {
		k.adopted()
	}
}

// reattach has the client of a job dial the launcher that came back.
func (w *World) reattach(h *host, j *job) {
	life := h.Life()
	w.At(w.Now()+w.childRng.Between(time.Millisecond, 200*time.Millisecond), func() {
		if h.Life() == life && h.node != nil && !j.clientGone {
			h.call(func(now time.Duration, out *launcher.Outbox) {
				if err := h.node.Reattach(now, j.client(), j.id, out); err != nil && !j.over() {
					w.forgotten(h, j, err)
				}
			})
		}
	})
}

// forgotten is a client that hears, when it dials again, that there is no such job:
// it was told. Only a launcher that died with a full disk may have forgotten one.
func (w *World) forgotten(h *host, j *job, err *filch.Error) {
	if !h.forgot && !j.request.Detach {
		w.Fail("forgotten", "%s knows nothing of job %d (index %d) any more: %s", h.Name, j.id, j.index, err.Text)
	}
	w.orphan(j)
}

// member is what the overlay says of a host.
func (h *host) member(incarnation uint64, s filch.Standing) node.Peer {
	total := filch.Room{Slots: int32(len(h.cores)), MemBytes: hostMemory, GPUs: hostGPUs * filch.GPU}
	return node.Peer{Name: h.Name, Incarnation: incarnation, Standing: s, Total: total, Role: h.role}
}

// share gives all launchers of a calm world one list of members, which never
// changes: a thousand lists of a thousand are a lot to carry about.
func (w *World) share() {
	w.members = filch.NewMembers()
	for _, h := range w.hosts {
		w.members.Set(h.member(1, filch.Up))
	}
}

// submit has the client of a job hand it to its launcher.
func (h *host) submit(j *job) {
	h.give(h.w.Now(), &input{what: "<- submit", body: &j.demand, do: func(now time.Duration, out *launcher.Outbox) {
		j.submittedAt = h.w.Now()
		if j.awaits != nil {
			j.awaits()
		}
		h.node.Submit(now, j.client(), j.request, j.unix(h), out)
	}})
}

// unix is when the client asked, by the wall clock of its host.
func (j *job) unix(h *host) int64 { return wallClock + int64(j.Submit) + h.skew }

// clientPatience is how long a client redials a launcher that is gone.
const clientPatience = 4 * time.Second

// loseClients: what becomes of the clients of a host whose launcher died. One
// whose job was not accepted yet fails; the others redial for a while.
func (w *World) loseClients(h *host) {
	for _, j := range w.jobs {
		if j.host != h.Index || j.submittedAt < 0 || j.over() {
			continue
		}
		j.restarted = true
		if j.id == 0 && j.caller == nil {
			w.orphan(j)
		}
	}
	life := h.Life()
	w.At(w.Now()+clientPatience, func() {
		if h.Life() == life && h.node == nil {
			w.orphanAll(h)
		}
	})
}

// orphanAll ends the clients of a host: its machine is off, or they gave up.
func (w *World) orphanAll(h *host) {
	for _, j := range w.jobs {
		if j.host == h.Index && j.submittedAt >= 0 && !j.over() {
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
	w.At(w.Now()+orphanBound+j.killWait(), func() { w.checkOrphan(j) })
}
