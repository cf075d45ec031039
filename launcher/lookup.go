package launcher

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
)

// MaxHomed bounds the ended jobs that a node lists of those homed there, the
// newest.
const MaxHomed = 4096

// FindJob reads the record of a job for a query; then is called with nil and
// why not, when there is none to be had.
func (n *Node) FindJob(now time.Duration, id filch.JobID, wait time.Duration, then func(*JobEntry, dht.Version, *filch.Error), out *Outbox) {
	none := filch.Errorf(filch.NotFound, "there is no job %d", id).
		WithHint("`filch ps` lists jobs; those that ended long ago are forgotten")
	n.StoreDo(now, lookups(jobKey(id)), wait, func(rs []dht.Result) {
		preferConsistent(rs)
		switch rs[0].Outcome {
		case dht.Done:
			e, err := DecodeJobEntry(rs[0].Value)
			if err != nil {
				then(nil, rs[0].Version, filch.Errorf(filch.Internal, "the record of job %d makes no sense: %s", id, err.Error()))
				return
			}
			then(e, rs[0].Version, nil)
		case dht.Absent:
			then(nil, rs[0].Version, none)
		default:
			then(nil, rs[0].Version, filch.Errorf(filch.Unavailable, "cannot read the record of job %d: %s", id, rs[0].Outcome).
				WithHint("%s; `filch doctor` says more", n.storeTrouble()))
		}
	}, out)
}

// lookups read a record for people: should the other replicas not answer, as its
// home last knew it.
func lookups(key dht.Key) []dht.Op {
	return []dht.Op{{Code: dht.OpLookup, Key: key, Consistent: true}, {Code: dht.OpLookup, Key: key}}
}

// preferConsistent makes the first of the results of lookups the one that counts.
func preferConsistent(rs []dht.Result) {
	if rs[0].Outcome != dht.Done && rs[0].Outcome != dht.Absent && rs[1].Outcome == dht.Done {
		rs[0] = rs[1]
	}
}

// CancelJob asks in the record of a job whose owner does not answer that
// whoever takes it over ends it.
func (n *Node) CancelJob(now time.Duration, id filch.JobID, sig int32, by string, wait time.Duration, then func(*JobEntry, *filch.Error), out *Outbox) {
	v, err := EncodeJobEntry(&JobEntry{Info: JobInfo{ID: id}, Cancel: &CancelOrder{Signal: sig, By: by}})
	if err != nil {
		then(nil, filch.Errorf(filch.Internal, "%s", err.Error()))
		return
	}
	op := dht.Op{Code: dht.OpMerge, Key: jobKey(id), Kind: KindJob, Value: v}
	n.StoreDo(now, []dht.Op{op}, wait, func(rs []dht.Result) {
		if rs[0].Outcome != dht.Done {
			then(nil, filch.Errorf(filch.Unavailable, "cannot cancel job %d: %s %s", id, rs[0].Outcome, rs[0].Err))
			return
		}
		e, err := DecodeJobEntry(rs[0].Value)
		if err != nil {
			then(nil, filch.Errorf(filch.Internal, "%s", err.Error()))
			return
		}
		then(e, nil)
	}, out)
}

// WatchJob calls then each time that the record of a job changed after a
// version, until the function that it returns is called, on the same loop.
func (n *Node) WatchJob(now time.Duration, id filch.JobID, from dht.Version, then func(), out *Outbox) (stop func(now time.Duration, out *Outbox)) {
	tag := n.watch(now, jobKey(id), from, func(time.Duration, dht.Result, *Outbox) { then() })
	n.settle(now, out)
	return func(now time.Duration, out *Outbox) {
		n.unwatch(now, tag)
		n.settle(now, out)
	}
}

// HomedJobs lists the jobs whose records are homed here: those that have not
// ended, and the newest that have.
func (n *Node) HomedJobs() []JobInfo {
	var live, over []JobInfo
	for r := range n.meta.store.Homed(jobPrefix) {
		if r.Kind != KindJob {
			continue
		}
		e, err := DecodeJobEntry(r.Value)
		if err != nil {
			continue // the sweep says so
		}
		i := e.Told()
		if e.ended() {
			over = append(over, i)
		} else {
			live = append(live, i)
		}
	}
	slices.SortFunc(over, func(a, b JobInfo) int { return int(a.ID - b.ID) })
	return append(over[max(0, len(over)-MaxHomed):], live...)
}

// Told is the job as its record tells it.
func (e *JobEntry) Told() JobInfo {
	i := e.Info
	i.Hop, i.Recorded = e.Hop, true
	if i.Nodes == nil {
		i.Nodes = []filch.NodeName{}
	}
	return i
}

// StoreTrouble says why the store does not answer, as far as this node knows.
func (n *Node) StoreTrouble() string {
	return n.storeTrouble()
}
