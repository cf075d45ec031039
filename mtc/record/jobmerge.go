package record

import (
	"errors"
	"slices"
)

var errAbsent = errors.New("there is no such job")

// mergeJob answers with a verdict and the whole record.
func mergeJob(old, delta []byte) (val, reply []byte, err error) {
	p, err := decodeJobOp(delta)
	if err != nil {
		return nil, nil, err
	}
	if len(old) == 0 {
		if p.Kind != JobCreate {
			return nil, nil, errAbsent
		}
		val = p.Job.Encode()
		return val, append([]byte{byte(VerdictDone)}, val...), nil
	}
	j, err := DecodeJob(old)
	if err != nil {
		return nil, nil, err
	}
	v := j.apply(&p)
	if j.Ended == 0 && j.Finished() {
		j.Ended = p.At
	}
	val = j.Encode()
	return val, append([]byte{byte(v)}, val...), nil
}

func DecodeJobReply(v []byte) (Verdict, *Job, error) {
	if len(v) == 0 {
		return VerdictInvalid, nil, ErrMalformed
	}
	if len(v) == 1 {
		return Verdict(v[0]), nil, nil
	}
	j, err := DecodeJob(v[1:])
	return Verdict(v[0]), j, err
}

func (j *Job) apply(p *JobOp) Verdict {
	switch p.Kind {
	case JobCreate:
		if j.Ticket != p.Job.Ticket {
			return VerdictOther
		}
	case JobAdd:
		return j.grow(p.Add, p.Lines)
	case JobClose:
		j.Closed, j.Partial = true, j.Partial && j.Void != 0
	case JobVoid, JobVoidWhy:
		if j.Void < p.Void && !j.Finished() { // a cancel also ends what runs of a job whose rest is skipped
			j.Void, j.Closed = p.Void, true
			if p.Reason != "" {
				j.Reason = p.Reason
				j.Orders.Serial++
			}
		}
	case JobOrder:
		return j.order(p)
	case JobLose:
		if j.Leader == p.From {
			j.Leader = p.To
			j.Hop++
		}
	case JobZoneTally:
		i, ok := slices.BinarySearchFunc(j.Zones, p.Tally.Zone, func(z ZoneTally, n int32) int { return int(z.Zone - n) })
		switch {
		case !ok && len(j.Zones) <= MaxTasks/ZoneSize:
			j.Zones = slices.Insert(j.Zones, i, p.Tally)
		case ok && (p.Tally.Sum() > j.Zones[i].Sum() || mutantTallyBack):
			j.Zones[i] = p.Tally
		}
		if p.Began > 0 && (j.Began == 0 || p.Began < j.Began) {
			j.Began = p.Began
		}
	}
	return VerdictDone
}

// grow adds tasks to an open bag, once for each token. The new tasks must have lines if
// and only if the present tasks have.
func (j *Job) grow(a Addition, lines bool) Verdict {
	if slices.ContainsFunc(j.Added, func(b Addition) bool { return b.Token == a.Token }) {
		return VerdictDone
	}
	if j.Lines != lines {
		return VerdictInvalid
	}
	if j.Closed || j.Graph || int64(j.Total)+int64(a.Count) > MaxTasks {
		return VerdictOther
	}
	a.Base = j.Total
	j.Total += a.Count
	if len(j.Added) == maxAdditions {
		j.Added = slices.Delete(j.Added, 0, 1)
	}
	j.Added = append(j.Added, a)
	return VerdictDone
}

// Behind reports whether j is older than k, the last known record.
func (j *Job) Behind(k *Job) bool {
	return k != nil && (j.Hop < k.Hop || j.Tally().Sum() < k.Tally().Sum() || j.Total < k.Total ||
		k.Closed && !j.Closed || j.Void < k.Void || j.Orders.Serial < k.Orders.Serial)
}
