package records

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/mtc/record"
)

// A node over its quota drops the oldest 1/dropShare of the ended jobs homed here, and at
// least dropMin. The dropped jobs have at most dropRecords records together, unless a
// single job alone has more. At most dropRecords records are removed at once.
const (
	dropShare   = 8
	dropMin     = 64
	dropRecords = 1024
)

// oldJob is an ended job that may be dropped.
type oldJob struct {
	id  filch.JobID
	rec *record.Job // nil: a run
}

// records returns the number of the job's records; the last is the job's own record.
func (o *oldJob) records() int {
	if o.rec == nil {
		return 1
	}
	return o.rec.Records()
}

func (o *oldJob) key(i int) dht.Key {
	if o.rec == nil {
		return launcher.JobKey(o.id)
	}
	return dht.Key(o.rec.Key(o.id, i))
}

// drops are the jobs being dropped now: first all records belonging to the jobs, then the
// jobs' own records.
type drops struct {
	busy bool
	jobs []oldJob
	job  int // the first job with more than its own record left
	next int // the next record of this job
	own  bool
}

// quota keeps this node's share of the instance's records within its bounds. Live jobs
// are never dropped.
type quota struct {
	*local.Self
	store   asker
	dropped int // ended jobs dropped to stay within the quota
	drops   drops
	full    bool // too many records are kept here to accept more
}

// Dropped counts the ended jobs dropped by this node to stay within its quota.
func (q *quota) Dropped() int { return q.dropped }

// StoreFull sets whether the rest of this node's quota is reserved for known jobs. While
// full, the node refuses requests to record other jobs.
func (q *quota) StoreFull(full bool) { q.full = full }

// NoRoom returns the reason for refusing more records; nil: there is room.
func (q *quota) NoRoom() *filch.Error {
	if !q.full {
		return nil
	}
	return filch.Errorf(filch.Unavailable, "cannot record more jobs: records fill nearly all of the store's quota on %s", q.Cfg.Name).
		WithHint("the oldest jobs that have ended are dropped soon; `filch doctor` says more")
}

// DropOldest removes the records of the oldest ended jobs: this node keeps more than its
// quota. DropOldest knows the jobs whose own records are homed here. For other jobs of
// tasks with some records here, DropOldest looks up the jobs' own records. Other nodes
// over their quota drop the remaining jobs in the same way.
//
// A known weakness: a job may wait for a job dropped meanwhile. A node inheriting the
// waiting job cannot know that the other job had ended, and skips the waiting job.
func (q *quota) DropOldest(now time.Duration, out *launcher.Outbox) {
	t := q.Turn(now, out)
	if q.drops.busy {
		return
	}
	q.drops.busy = true
	over, others := q.oldJobs()
	if len(others) == 0 {
		q.drop(t, over)
		t.End()
		return
	}
	ops := make([]dht.Op, len(others))
	for i, id := range others {
		ops[i] = dht.Op{Code: dht.OpLookup, Key: dht.Key(record.KeyJob(id))}
	}
	q.store.Ask(t, ops, StoreWait, func(t *local.Turn, rs []dht.Result) {
		for i := range rs {
			if j, err := record.DecodeJob(rs[i].Value); rs[i].Outcome == dht.Done && err == nil && j.Finished() {
				over = append(over, oldJob{id: others[i], rec: j})
			}
		}
		q.drop(t, over)
	})
	t.End()
}

// oldJobs returns the ended jobs homed here, and the oldest of the other jobs with a
// record here.
func (q *quota) oldJobs() (over []oldJob, others []filch.JobID) {
	for r := range q.store.Homed(launcher.JobPrefix) {
		if id, ok := jobOfKey(r.Key); ok && r.Kind == launcher.KindJob && (launcher.EntryOver(r.Value) || mutantDropLive) {
			over = append(over, oldJob{id: id})
		}
	}
	here, parts := map[filch.JobID]bool{}, map[filch.JobID]bool{}
	for r := range q.store.Homed(record.Prefix) {
		id, own, ok := record.PartOf(string(r.Key))
		switch {
		case !ok:
		case !own:
			parts[id] = true
		default:
			here[id] = true
			if j, err := record.DecodeJob(r.Value); err == nil && (j.Finished() || mutantDropLive) {
				over = append(over, oldJob{id: id, rec: j})
			}
		}
	}
	maps.DeleteFunc(parts, func(id filch.JobID, _ bool) bool { return here[id] })
	others = slices.Sorted(maps.Keys(parts))
	return over, others[:min(len(others), dropMin)]
}

// drop removes the oldest of the ended jobs.
func (q *quota) drop(t *local.Turn, over []oldJob) {
	slices.SortFunc(over, func(a, b oldJob) int { return cmp.Compare(a.id, b.id) })
	d := &q.drops
	most := max(len(over)/dropShare, dropMin)
	for i, records := 0, 0; i < min(len(over), most); i++ {
		if records += over[i].records(); records > dropRecords && i > 0 {
			break
		}
		d.jobs = over[:i+1]
	}
	q.dropNext(t)
}

// batch returns the operations removing the next records.
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

// dropNext removes the next records. Records that cannot be removed now stay until the
// next call of DropOldest.
func (q *quota) dropNext(t *local.Turn) {
	ops := q.drops.batch()
	if len(ops) == 0 {
		q.drops = drops{}
		return
	}
	q.store.Ask(t, ops, StoreWait, func(t *local.Turn, rs []dht.Result) {
		k := 0
		for i := range rs {
			if rs[i].Outcome == dht.Done {
				k++
			}
		}
		switch {
		case q.drops.own:
			q.dropped += k
			t.Note(local.NoteWarn, 0, q.Cfg.Name, "dropped the records of %d ended jobs: the store is near its quota", k)
		case readable(rs):
			q.dropNext(t)
			return
		}
		q.drops = drops{}
	})
}
