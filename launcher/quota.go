package launcher

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/mtc"
)

// dropShare of the ended jobs that are homed here go at a time when a node
// keeps too much, the oldest, and dropMin at least; but no more than have
// dropRecords together, unless one alone has more. So many are removed at once.
const (
	dropShare   = 8
	dropMin     = 64
	dropRecords = 1024
)

// oldJob is an ended job that may go.
type oldJob struct {
	id  filch.JobID
	rec *mtc.Job // nil: a run
}

// records is how many it has; the last one is its own.
func (o *oldJob) records() int {
	if o.rec == nil {
		return 1
	}
	return o.rec.Records()
}

func (o *oldJob) key(i int) dht.Key {
	if o.rec == nil {
		return jobKey(o.id)
	}
	return dht.Key(o.rec.Key(o.id, i))
}

// drops are the jobs that go just now: first all that belongs to them, then
// their own records.
type drops struct {
	busy bool
	jobs []oldJob
	job  int // the first that has more than its own record left
	next int // of its records
	own  bool
}

// Dropped counts the ended jobs that this node dropped to stay within its quota.
func (n *Node) Dropped() int { return n.meta.dropped }

// StoreFull says whether this node keeps so much that what is left of its quota
// is for jobs that it knows: whatever would be recorded for others is refused.
func (n *Node) StoreFull(full bool) { n.meta.full = full }

// noRoom is why what asks for more records is refused; nil: it is not.
func (n *Node) noRoom() *filch.Error {
	if !n.meta.full {
		return nil
	}
	return filch.Errorf(filch.Unavailable, "cannot record more: the records of jobs nearly fill what %s has for them", n.cfg.Name).
		WithHint("the oldest jobs that have ended go by themselves; `filch doctor` says more")
}

// DropOldest removes the records of the oldest ended jobs: this node keeps more
// than it should. It knows the jobs whose own records are homed here, and asks
// for those of other jobs of tasks, of which some records are. What else there
// is goes the same way when other nodes keep too much.
//
// A known weakness: who inherits a job that waits for one that was dropped
// meanwhile cannot know that it had ended, and skips the job.
func (n *Node) DropOldest(now time.Duration, out *Outbox) {
	m := n.meta
	if m.drops.busy {
		return
	}
	m.drops.busy = true
	over, others := n.oldJobs()
	if len(others) == 0 {
		n.drop(now, over)
		n.settle(now, out)
		return
	}
	ops := make([]dht.Op, len(others))
	for i, id := range others {
		ops[i] = dht.Op{Code: dht.OpLookup, Key: dht.Key(mtc.KeyJob(id))}
	}
	n.ask(now, ops, StoreWait, func(now time.Duration, rs []dht.Result, _ *Outbox) {
		for i := range rs {
			if j, err := mtc.DecodeJob(rs[i].Value); rs[i].Outcome == dht.Done && err == nil && j.Finished() {
				over = append(over, oldJob{id: others[i], rec: j})
			}
		}
		n.drop(now, over)
	})
	n.settle(now, out)
}

// oldJobs are the ended jobs that are homed here, and the oldest of others of
// which something is.
func (n *Node) oldJobs() (over []oldJob, others []filch.JobID) {
	for r := range n.meta.store.Homed(jobPrefix) {
		if id, ok := jobOfKey(r.Key); ok && r.Kind == KindJob && (entryOver(r.Value) || mutantDropLive) {
			over = append(over, oldJob{id: id})
		}
	}
	here, parts := map[filch.JobID]bool{}, map[filch.JobID]bool{}
	for r := range n.meta.store.Homed(mtc.Prefix) {
		id, own, ok := mtc.PartOf(string(r.Key))
		switch {
		case !ok:
		case !own:
			parts[id] = true
		default:
			here[id] = true
			if j, err := mtc.DecodeJob(r.Value); err == nil && (j.Finished() || mutantDropLive) {
				over = append(over, oldJob{id: id, rec: j})
			}
		}
	}
	maps.DeleteFunc(parts, func(id filch.JobID, _ bool) bool { return here[id] })
	others = slices.Sorted(maps.Keys(parts))
	return over, others[:min(len(others), dropMin)]
}

// drop removes the oldest of ended jobs.
func (n *Node) drop(now time.Duration, over []oldJob) {
	slices.SortFunc(over, func(a, b oldJob) int { return cmp.Compare(a.id, b.id) })
	d := &n.meta.drops
	most := max(len(over)/dropShare, dropMin)
	for i, records := 0, 0; i < min(len(over), most); i++ {
		if records += over[i].records(); records > dropRecords && i > 0 {
			break
		}
		d.jobs = over[:i+1]
	}
	n.dropNext(now)
}

// batch is what is removed next.
func (d *drops) batch() (ops []dht.Op) {
	add := func(key dht.Key) { ops = append(ops, dht.Op{Code: dht.OpRemove, Key: key}) }
	for ; d.job < len(d.jobs) && len(ops) < dropRecords; d.next++ {
		if o := &d.jobs[d.job]; d.next < o.records()-1 {
			add(o.key(d.next))
		} else {
			d.job, d.next = d.job+1, -1
		}
	}
	if d.own = len(ops) == 0 || mutantDropBare; d.own {
		ops = ops[:0]
		for i := range d.jobs {
			add(d.jobs[i].key(d.jobs[i].records() - 1))
		}
	}
	return ops
}

// dropNext removes the next records; what cannot be removed now stays until
// DropOldest is called again.
func (n *Node) dropNext(now time.Duration) {
	m := n.meta
	ops := m.drops.batch()
	if len(ops) == 0 {
		m.drops = drops{}
		return
	}
	n.ask(now, ops, StoreWait, func(now time.Duration, rs []dht.Result, out *Outbox) {
		k := 0
		for i := range rs {
			if rs[i].Outcome == dht.Done {
				k++
			}
		}
		switch {
		case m.drops.own:
			m.dropped += k
			note(out, noteWarn, 0, n.cfg.Name, "dropped the records of %d ended jobs: the store is near its quota", k)
		case readable(rs):
			n.dropNext(now)
			return
		}
		m.drops = drops{}
	})
}

// dropOrder removes the order of a detached job that is over.
func (n *Node) dropOrder(now time.Duration, id filch.JobID, pieces int32) {
	var ops []dht.Op
	for i := range pieces {
		ops = append(ops, dht.Op{Code: dht.OpRemove, Key: orderKey(id, i)})
	}
	if len(ops) > 0 {
		n.ask(now, ops, StoreWait, func(time.Duration, []dht.Result, *Outbox) {})
	}
}
