package mtc

import (
	"errors"
	"slices"

	"github.com/filch-hpc/filch"
)

// Job is the record of a job's state.
type Job struct {
	Name    string // for people
	Ticket  filch.Ticket
	Steward Owner // who keeps it going
	Hop     uint32
	Total   int32
	Closed  bool        // nothing is added any more
	Graph   bool        // a workflow; else a bag
	Lines   bool        // each task has a line of its own
	Partial bool        // more of its submission is to come: without its first steward it will never be whole
	Void    filch.State // Cancelled or Skipped: what was not started never is
	After   []filch.JobID
	Zones   []ZoneTally
	Added   []Addition // the last additions, so that one is made once
	Ended   int64      // unix time in ns when the last end was counted, by the clock of who did; 0 not yet
}

// ZoneTally is what a zone told its job.
type ZoneTally struct {
	Zone int32
	Tally
}

// Addition is one growth of an open bag. By writes the lines of its tasks after
// it; when that node is dead, lines that are not there never will be.
type Addition struct {
	Token, Base, Count int32
	By                 Owner
}

// MaxName is the length of a job's name at most.
const MaxName = 256

// maxAdditions are remembered: more than one client has under way.
const maxAdditions = 64

// maxAfter bounds the jobs that one waits for.
const maxAfter = 256

// Tally is how the tasks ended so far.
func (j *Job) Tally() (t Tally) {
	for _, z := range j.Zones {
		t = t.Plus(z.Tally)
	}
	return t
}

// Finished reports whether all tasks have their end and none will be added.
func (j *Job) Finished() bool { return j.Closed && j.Tally().Sum() >= j.Total }

// State is the job's state as far as its record tells.
func (j *Job) State() filch.State {
	t := j.Tally()
	switch {
	case !j.Finished():
		if t.Sum() == 0 {
			return filch.Waiting
		}
		return filch.Running
	case j.Void == filch.Cancelled && t.Cancelled+t.Skipped > 0:
		return filch.Cancelled
	case j.Void == filch.Skipped && t.Bad() == t.Skipped && t.Skipped > 0:
		return filch.Skipped // none ended badly: it is not this job that failed
	case t.Bad() > 0:
		return filch.Failed
	}
	return filch.OK
}

// Encode is the record's bytes.
func (j *Job) Encode() []byte {
	var w writer
	w.bytes([]byte(j.Name))
	w.ticket(j.Ticket)
	w.owner(j.Steward)
	w.uint(uint64(j.Hop))
	w.uint(uint64(j.Total))
	w.bool(j.Closed)
	w.bool(j.Graph)
	w.bool(j.Lines)
	w.bool(j.Partial)
	w.u8(uint8(j.Void))
	w.uint(uint64(len(j.After)))
	for _, a := range j.After {
		w.int(int64(a))
	}
	w.uint(uint64(len(j.Zones)))
	for _, z := range j.Zones {
		w.uint(uint64(z.Zone))
		w.tally(z.Tally)
	}
	w.uint(uint64(len(j.Added)))
	for _, a := range j.Added {
		w.uint(uint64(a.Token))
		w.uint(uint64(a.Base))
		w.uint(uint64(a.Count))
		w.owner(a.By)
	}
	w.int(j.Ended)
	return w.b
}

// DecodeJob reads a job's record.
func DecodeJob(v []byte) (*Job, error) {
	r := reader{b: v}
	j := &Job{Name: string(r.bytes(MaxName)), Ticket: r.ticket(), Steward: r.owner(), Hop: r.u32(), Total: r.index()}
	j.Closed, j.Graph, j.Lines, j.Partial, j.Void = r.bool(), r.bool(), r.bool(), r.bool(), r.state()
	j.After = make([]filch.JobID, r.count(maxAfter, 1))
	for i := range j.After {
		j.After[i] = filch.JobID(r.i32())
	}
	j.Zones = make([]ZoneTally, r.count(MaxTasks/ZoneSize+1, 7))
	for i := range j.Zones {
		j.Zones[i] = ZoneTally{r.index(), r.tally()}
		if i > 0 && j.Zones[i].Zone <= j.Zones[i-1].Zone {
			r.fail()
		}
	}
	j.Added = make([]Addition, r.count(maxAdditions, 5))
	for i := range j.Added {
		j.Added[i] = Addition{r.index(), r.index(), r.index(), r.owner()}
	}
	j.Ended = r.int()
	return j, r.done()
}

// jobOp is one change that is proposed for a job's record.
type jobOp struct {
	kind  jobKind
	job   *Job // jCreate
	add   Addition
	lines bool // jAdd: the tasks have lines
	void  filch.State
	from  Owner
	who   Owner
	tally ZoneTally
	at    int64 // of what may be a job's end, as Job.Ended
}

type jobKind uint8

const (
	jCreate jobKind = iota + 1
	jAdd
	jClose
	jVoid
	jLose
	jTally
)

func encodeJobOp(p jobOp) []byte {
	w := writer{[]byte{uint8(p.kind)}}
	switch p.kind {
	case jCreate:
		w.b = append(w.b, p.job.Encode()...)
	case jAdd:
		w.uint(uint64(p.add.Token))
		w.uint(uint64(p.add.Count))
		w.owner(p.add.By)
		w.bool(p.lines)
	case jVoid:
		w.u8(uint8(p.void))
		w.int(p.at)
	case jClose:
		w.int(p.at)
	case jLose:
		w.owner(p.from)
		w.owner(p.who)
	case jTally:
		w.uint(uint64(p.tally.Zone))
		w.tally(p.tally.Tally)
		w.int(p.at)
	}
	return w.b
}

func decodeJobOp(v []byte) (p jobOp, err error) {
	r := reader{b: v}
	p.kind = jobKind(r.u8())
	switch p.kind {
	case jCreate:
		p.job, err = DecodeJob(r.b)
		return p, err
	case jAdd:
		p.add = Addition{Token: r.index(), Count: r.index(), By: r.owner()}
		p.lines = r.bool()
	case jVoid:
		p.void, p.at = r.state(), r.int()
	case jLose:
		p.from, p.who = r.owner(), r.owner()
	case jTally:
		p.tally, p.at = ZoneTally{r.index(), r.tally()}, r.int()
	case jClose:
		p.at = r.int()
	default:
		r.fail()
	}
	return p, r.done()
}

var errAbsent = errors.New("there is no such job")

// mergeJob answers with a verdict and the whole record.
func mergeJob(old, delta []byte) (val, reply []byte, err error) {
	p, err := decodeJobOp(delta)
	if err != nil {
		return nil, nil, err
	}
	if len(old) == 0 {
		if p.kind != jCreate {
			return nil, nil, errAbsent
		}
		val = p.job.Encode()
		return val, append([]byte{byte(vDone)}, val...), nil
	}
	j, err := DecodeJob(old)
	if err != nil {
		return nil, nil, err
	}
	v := j.apply(&p)
	if j.Ended == 0 && j.Finished() {
		j.Ended = p.at
	}
	val = j.Encode()
	return val, append([]byte{byte(v)}, val...), nil
}

func decodeJobReply(v []byte) (verdict, *Job, error) {
	if len(v) == 0 {
		return vInvalid, nil, errMalformed
	}
	if len(v) == 1 {
		return verdict(v[0]), nil, nil
	}
	j, err := DecodeJob(v[1:])
	return verdict(v[0]), j, err
}

func (j *Job) apply(p *jobOp) verdict {
	switch p.kind {
	case jCreate:
		if j.Ticket != p.job.Ticket {
			return vOther
		}
	case jAdd:
		return j.grow(p.add, p.lines)
	case jClose:
		j.Closed = true
	case jVoid:
		if j.Void == 0 && !j.Finished() {
			j.Void, j.Closed = p.void, true
		}
	case jLose:
		if j.Steward == p.from {
			j.Steward = p.who
			j.Hop++
		}
	case jTally:
		i, ok := slices.BinarySearchFunc(j.Zones, p.tally.Zone, func(z ZoneTally, n int32) int { return int(z.Zone - n) })
		switch {
		case !ok && len(j.Zones) <= MaxTasks/ZoneSize:
			j.Zones = slices.Insert(j.Zones, i, p.tally)
		case ok && (p.tally.Sum() > j.Zones[i].Sum() || mutantTallyBack):
			j.Zones[i] = p.tally
		}
	}
	return vDone
}

// grow adds tasks to an open bag, once for each token: with a line each if the
// others have one, else without.
func (j *Job) grow(a Addition, lines bool) verdict {
	if slices.ContainsFunc(j.Added, func(b Addition) bool { return b.Token == a.Token }) {
		return vDone
	}
	if j.Lines != lines {
		return vInvalid
	}
	if j.Closed || j.Graph || int64(j.Total)+int64(a.Count) > MaxTasks {
		return vOther
	}
	a.Base = j.Total
	j.Total += a.Count
	if len(j.Added) == maxAdditions {
		j.Added = slices.Delete(j.Added, 0, 1)
	}
	j.Added = append(j.Added, a)
	return vDone
}
