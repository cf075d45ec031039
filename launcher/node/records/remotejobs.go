package records

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
)

// maxHomed bounds the ended jobs in a node's list of its homed jobs; the newest are kept.
const maxHomed = 4096

// FindJob reads the record of a job for a query. If there is no record to be had, FindJob
// calls then with nil and the reason.
func (m *Records) FindJob(now time.Duration, id filch.JobID, wait time.Duration, then func(*launcher.JobEntry, dht.Version, *filch.Error), out *launcher.Outbox) {
	none := filch.Errorf(filch.NotFound, "there is no job %d", id).
		WithHint("`filch ps` lists jobs; those that ended long ago are forgotten")
	m.StoreDo(now, lookups(launcher.JobKey(id)), wait, func(rs []dht.Result) {
		preferConsistent(rs)
		switch rs[0].Outcome {
		case dht.Done:
			e, err := launcher.DecodeJobEntry(rs[0].Value)
			if err != nil {
				then(nil, rs[0].Version, filch.Errorf(filch.Internal, "the record of job %d makes no sense: %s", id, err.Error()))
				return
			}
			then(e, rs[0].Version, nil)
		case dht.Absent:
			then(nil, rs[0].Version, none)
		default:
			then(nil, rs[0].Version, filch.Errorf(filch.Unavailable, "cannot read the record of job %d: %s", id, rs[0].Outcome).
				WithHint("%s; `filch doctor` says more", m.StoreTrouble()))
		}
	}, out)
}

// lookups returns the operations for reading a record for people: a consistent read, and
// the last version known to the record's home in case the other replicas do not answer.
func lookups(key dht.Key) []dht.Op {
	return []dht.Op{{Code: dht.OpLookup, Key: key, Consistent: true}, {Code: dht.OpLookup, Key: key}}
}

// preferConsistent puts the decisive result of lookups into the first place.
func preferConsistent(rs []dht.Result) {
	if rs[0].Outcome != dht.Done && rs[0].Outcome != dht.Absent && rs[1].Outcome == dht.Done {
		rs[0] = rs[1]
	}
}

// CancelJob writes a cancel into the record of a job whose owner does not answer: the
// node taking the job over ends the job.
func (m *Records) CancelJob(now time.Duration, id filch.JobID, sig int32, by string, wait time.Duration, then func(*launcher.JobEntry, *filch.Error), out *launcher.Outbox) {
	v, err := launcher.EncodeJobEntry(&launcher.JobEntry{Info: launcher.JobInfo{ID: id}, Cancel: &launcher.CancelOrder{Signal: sig, By: by}})
	if err != nil {
		then(nil, filch.Errorf(filch.Internal, "%s", err.Error()))
		return
	}
	op := dht.Op{Code: dht.OpMerge, Key: launcher.JobKey(id), Kind: launcher.KindJob, Value: v}
	m.StoreDo(now, []dht.Op{op}, wait, func(rs []dht.Result) {
		if rs[0].Outcome != dht.Done {
			then(nil, filch.Errorf(filch.Unavailable, "cannot cancel job %d: %s %s", id, rs[0].Outcome, rs[0].Err))
			return
		}
		e, err := launcher.DecodeJobEntry(rs[0].Value)
		if err != nil {
			then(nil, filch.Errorf(filch.Internal, "%s", err.Error()))
			return
		}
		then(e, nil)
	}, out)
}

// WatchRecord calls then after each change of a record since a version, until the caller
// calls the returned function on the same loop.
func (m *Records) WatchRecord(now time.Duration, key dht.Key, from dht.Version, then func(), out *launcher.Outbox) (stop func(now time.Duration, out *launcher.Outbox)) {
	t := m.Turn(now, out)
	tag := m.Watch(t, key, from, func(*local.Turn, dht.Result) { then() })
	t.End()
	return func(now time.Duration, out *launcher.Outbox) {
		t := m.Turn(now, out)
		m.Unwatch(t, tag)
		t.End()
	}
}

// HomedJobs lists the jobs whose records are homed here: all live jobs, and the newest
// ended jobs.
func (m *Records) HomedJobs() []launcher.JobInfo {
	var live, over []launcher.JobInfo
	for r := range m.store.Homed(launcher.JobPrefix) {
		if r.Kind != launcher.KindJob {
			continue
		}
		e, err := launcher.DecodeJobEntry(r.Value)
		if err != nil {
			continue // scan reports the damage
		}
		i := e.Told()
		i.Rows = nil
		if e.Ended() {
			over = append(over, i)
		} else {
			live = append(live, i)
		}
	}
	slices.SortFunc(over, func(a, b launcher.JobInfo) int { return int(a.ID - b.ID) })
	return append(over[max(0, len(over)-maxHomed):], live...)
}
