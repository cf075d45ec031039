package records

import (
	"fmt"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
)

// The home of a job's record takes over a job whose owner is dead. The home raises the
// hop of the record, which can succeed only once, and from then on every node ignores
// messages with an older hop. A detached job goes on under its new owner. For an attached
// job the record says how the job ended.

const (
	// sweepPause is the delay from a change to the next scan of the records homed here.
	// sweepEvery is the interval of scans while an owner is missing.
	sweepPause = 100 * time.Millisecond
	sweepEvery = 2 * time.Second
	// ReclaimGrace is how long a launcher restarted or not yet known may take to claim
	// its jobs.
	ReclaimGrace = 15 * time.Second
)

// orphans scans the records whose home is this node for jobs without an owner, and claims
// the jobs whose owner is lost. A job is in taking from the first claim until the origin,
// or another node, has the job.
type orphans struct {
	*local.Self
	store  asker
	writer *recordwriter
	jobs   heir

	at     time.Duration
	owners map[dht.Key]owner
	taking map[filch.JobID]bool
	unsure []claim // the store does not know whether these count
}

// heir receives the jobs taken over by this node.
type heir interface {
	HasJob(id filch.JobID) bool
	Inherit(t *local.Turn, e *launcher.JobEntry, order []byte, fault *filch.Error)
}

// claim makes this node the owner of a job.
type claim struct {
	entry *launcher.JobEntry
	was   filch.NodeName // the owner before
	value []byte         // the entry, encoded
}

// owner is the node deciding about a job, according to the job's record.
type owner struct {
	version     dht.Version
	name        filch.NodeName
	incarnation uint64
	missed      time.Duration // missing since then; Never: the owner is there
}

func (s *orphans) scanSoon(t *local.Turn) {
	s.at = min(s.at, t.Now+sweepPause)
}

// scan looks through the live jobs homed here.
func (s *orphans) scan(t *local.Turn) {
	s.at = filch.Never
	unsure := s.unsure
	s.unsure = nil
	for _, c := range unsure {
		s.claim(t, c)
	}
	old := s.owners
	s.owners = make(map[dht.Key]owner)
	for r := range s.store.Homed(launcher.JobPrefix) {
		if r.Kind != launcher.KindJob || launcher.EntryOver(r.Value) {
			continue
		}
		o, known := old[r.Key]
		if !known || o.version != r.Version {
			e, err := launcher.DecodeJobEntry(r.Value)
			if err != nil {
				t.Note(local.NoteError, 0, s.Cfg.Name, "record %s makes no sense: %v", r.Key, err)
				continue
			}
			o = owner{version: r.Version, name: e.Owner, incarnation: e.Incarnation, missed: filch.Never}
		}
		dead, missing := s.ownerGone(&o, r.Key)
		switch {
		case !missing:
			o.missed = filch.Never
		case o.missed == filch.Never:
			o.missed = t.Now
		}
		s.owners[r.Key] = o
		if !missing {
			continue
		}
		s.at = min(s.at, t.Now+sweepEvery)
		if dead || t.Now-o.missed >= ReclaimGrace {
			s.takeOver(t, r.Value)
		}
	}
}

// ownerGone reports whether the owner of a record is certainly dead, and whether the
// owner is at least missing.
func (s *orphans) ownerGone(o *owner, key dht.Key) (dead, missing bool) {
	if o.name == s.Cfg.Name {
		id, _ := jobOfKey(key)
		return false, o.incarnation < s.Cfg.Incarnation && !s.jobs.HasJob(id) && !s.writer.hasDraft(id)
	}
	i := s.Members.Find(o.name)
	if i < 0 {
		return false, true
	}
	p := s.Members.At(i)
	if p.Standing >= filch.Dead {
		return p.Incarnation >= o.incarnation, true
	}
	return false, p.Incarnation > o.incarnation
}

// jobOfKey returns the job whose record has the key.
func jobOfKey(key dht.Key) (id filch.JobID, ok bool) {
	digits, ok := strings.CutPrefix(string(key), launcher.JobPrefix)
	if !ok {
		return 0, false
	}
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' || id > 1<<27 {
			return 0, false
		}
		id = id*10 + filch.JobID(c-'0')
	}
	return id, id > 0
}

// takeOver makes this node the owner of a job whose owner is gone.
func (s *orphans) takeOver(t *local.Turn, value []byte) {
	e, err := launcher.DecodeJobEntry(value)
	if err != nil || e.Ended() || s.taking[e.Info.ID] || s.jobs.HasJob(e.Info.ID) || mutantNoHeir {
		return
	}
	id, was := e.Info.ID, e.Owner
	if s.taking == nil {
		s.taking = make(map[filch.JobID]bool)
	}
	s.taking[id] = true
	e.Hop++
	e.Owner, e.Incarnation, e.Seq, e.Info.Origin = s.Cfg.Name, s.Cfg.Incarnation, 1, s.Cfg.Name
	if e.Resume == nil {
		loseOrigin(e, was, s.Cfg.Tasks.WallNS+int64(t.Now))
	} else {
		e.Resume.Shared.Hop = e.Hop
	}
	v, err := launcher.EncodeJobEntry(e)
	if err != nil {
		delete(s.taking, id)
		return
	}
	s.claim(t, claim{e, was, v})
}

// claim writes this node as the owner into the record of a job. If the store does not
// know whether the claim counts, claim asks again: otherwise the record could later name
// an owner without the job.
func (s *orphans) claim(t *local.Turn, c claim) {
	e := c.entry
	op := dht.Op{Code: dht.OpMerge, Key: launcher.JobKey(e.Info.ID), Kind: launcher.KindJob, Value: c.value}
	s.store.Ask(t, []dht.Op{op}, MergeWait, func(t *local.Turn, rs []dht.Result) {
		switch r := &rs[0]; {
		case r.Outcome == dht.Unknown && e.Incarnation == s.Cfg.Incarnation:
			s.unsure = append(s.unsure, c)
			s.at = min(s.at, t.Now+sweepEvery)
		case !tookOver(e, r) || e.Resume == nil:
			delete(s.taking, e.Info.ID)
			s.scanSoon(t)
		default:
			t.Note(local.NoteWarn, e.Info.ID, s.Cfg.Name, "taking the job over from %s, which is lost", c.was)
			s.fetchOrder(t, e)
		}
	})
}

// tookOver reports whether a takeover happened, from the store's answer. An answer carrying
// the entry itself has a cancel recorded just before the takeover.
func tookOver(e *launcher.JobEntry, r *dht.Result) bool {
	if r.Outcome != dht.Done || len(r.Value) == 0 {
		return r.Outcome == dht.Done
	}
	now, err := launcher.DecodeJobEntry(r.Value)
	if err != nil || !now.Same(e) || now.Ended() {
		return false
	}
	e.Cancel = now.Cancel
	return true
}

// loseOrigin sets the end of an attached job whose origin is dead: the job's client was
// connected there. The record is from the start of the ranks; how the ranks ended is not known,
// and the time of day wall, of the loss, counts as their end.
func loseOrigin(e *launcher.JobEntry, origin filch.NodeName, wall int64) {
	if e.Info.State == filch.Running.String() {
		began := e.Info.Submit + int64(e.Info.Waited*1e9)
		e.Info.Elapsed = max(e.Info.Elapsed, float64(wall-began)/1e9)
	}
	c := int32(filch.ExitNodeLost)
	e.Info.Origin, e.Info.Code, e.Info.State = origin, &c, filch.Lost.String()
	e.Info.Cause = fmt.Sprintf("node %s, where the job was submitted, is lost", origin)
	e.Info.Tasks.Rest(filch.Lost)
}

// fetchOrder reads all pieces of the order of a job taken over at once, and goes on with
// the job.
func (s *orphans) fetchOrder(t *local.Turn, e *launcher.JobEntry) {
	var ops []dht.Op
	for i := range e.Orders {
		ops = append(ops, dht.Op{Code: dht.OpLookup, Key: launcher.OrderKey(e.Info.ID, i), Kind: dht.KindRegister, Consistent: true})
	}
	if len(ops) == 0 {
		s.store.Ask(t, []dht.Op{{Code: dht.OpLookup, Key: launcher.JobKey(e.Info.ID)}}, StoreWait, func(t *local.Turn, _ []dht.Result) { s.handOn(t, e, nil, nil) })
		return
	}
	s.store.Ask(t, ops, StoreWait, func(t *local.Turn, rs []dht.Result) {
		var order []byte
		for i := range rs {
			switch rs[i].Outcome {
			case dht.Done:
				order = append(order, rs[i].Value...)
			case dht.Absent:
				s.handOn(t, e, nil, filch.Errorf(filch.Internal, "cannot continue job %d: piece %d of %d of its order is lost", e.Info.ID, i, len(rs)))
				return
			default:
				s.fetchOrder(t, e)
				return
			}
		}
		s.handOn(t, e, order, nil)
	})
}

// SawMajority reports whether this node sees more than half of the members of the roster,
// or whether the roster is too small to tell.
func (m *Records) SawMajority() bool {
	all, up := 0, 0
	m.store.EachMember(func(name filch.NodeName) {
		all++
		if name == m.Cfg.Name {
			up++
		} else if i := m.Members.Find(name); i >= 0 && m.Members.At(i).Standing.Answers() {
			up++
		}
	})
	return all < 3 || 2*up > all
}

// handOn gives a job taken over to the origin, with the job's order, or with the error
// keeping this node from going on with the job.
func (s *orphans) handOn(t *local.Turn, e *launcher.JobEntry, order []byte, fault *filch.Error) {
	delete(s.taking, e.Info.ID)
	s.jobs.Inherit(t, e, order, fault)
}
